"""YAML that others wrote: plain data in bounded time and memory, or one short error.

PyYAML's safe loader constructs no objects, but it expands aliases (nine lines of them are 10^9 items), takes numbers of
a million digits, and recurses as deep as a file nests.
"""

import re
from collections.abc import Hashable
from typing import Any, Final

import yaml

from p4switch.base.values import short

SIZE_LIMIT: Final = 16 << 20
"""characters of a document, unless the caller knows better"""
DEPTH_LIMIT: Final = 64
"""lists and mappings inside each other"""
NUMBER_LIMIT: Final = 64
"""characters of anything that is not text: YAML's numbers of base 60 cost the square of their length"""
_NAMELESS: Final = re.compile(r'\s+in "<(?:unicode|byte) string>",')
"""what PyYAML calls a text; who asks knows the file"""
_TEXT: Final = "tag:yaml.org,2002:str"


class YamlError(ValueError):
    """Not YAML, or more than plain data; the text names the line, is short and has one line."""


class PlainNodes(yaml.composer.Composer, yaml.constructor.BaseConstructor):
    """For loaders: no aliases, no deep nesting, no endless numbers, no key twice. Raises ``yaml.YAMLError``."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """One node and what is below it."""
        event = self.peek_event()  # type: ignore[attr-defined]
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError(f"line {line}: aliases (*name) are not allowed; write it out")
        if self._depth == DEPTH_LIMIT:
            raise yaml.YAMLError(
                f"line {event.start_mark.line + 1}: is nested too deeply: more than {DEPTH_LIMIT} levels"
            )
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(node, yaml.ScalarNode) and node.tag != _TEXT and len(node.value) > NUMBER_LIMIT:
            raise yaml.YAMLError(f"line {line}: a number of {len(node.value)} characters")
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping; a key that is given twice is an error."""
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode):
                name = (key.tag, key.value)
                if name in seen:
                    raise yaml.YAMLError(f"line {key.start_mark.line + 1}: {short(key.value)} is given twice; keep one")
                seen.add(name)
        return super().construct_mapping(node, deep)


class _Loader(PlainNodes, yaml.SafeLoader):
    pass


def read_yaml(text: str, *, limit: int = SIZE_LIMIT) -> Any:
    """The data of a document: mappings, lists, texts, numbers, booleans, dates and None.

    Parameters
    ----------
    text : str
        The document.
    limit : int
        Characters that it may have.

    Raises
    ------
    YamlError
        It is not YAML, larger than ``limit``, or has aliases, a key twice, or nests too deeply.
    """
    if len(text) > limit:
        raise YamlError(f"has {len(text)} characters; the limit is {limit}")
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except Exception as error:  # values that do not fit their tags come as anything: `!!bool x` is a KeyError
        raise YamlError(f"is not YAML: {one_line(error)}") from None


def one_line(error: object, most: int = 300) -> str:
    """An error's text on one line, cut where it is long."""
    text = " ".join(_NAMELESS.sub(",", str(error)).split())
    return text if len(text) <= most else text[: most - 1] + "…"
