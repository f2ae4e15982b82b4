"""Reads untrusted YAML: yields plain data in bounded time and memory, or one short error.

PyYAML's safe loader constructs no objects, but it expands aliases (nine lines of aliases can make 10^9 items),
accepts numbers of a million digits, and recurses as deep as a file nests.
"""

from collections.abc import Hashable
from typing import Any, Final

import yaml

from p4switch.base.values import one_line, short

SIZE_LIMIT: Final = 16 << 20
"""default limit on the characters of a document"""
DEPTH_LIMIT: Final = 64
"""deepest nesting of lists and mappings"""
NUMBER_LIMIT: Final = 64
"""limit on the characters of a value that is not text: converting YAML's base-60 numbers takes quadratic time"""
_TEXT: Final = "tag:yaml.org,2002:str"


class YamlError(ValueError):
    """Text that is not YAML or holds more than plain data; the message is one short line that names the line."""


class PlainNodes(yaml.composer.Composer, yaml.constructor.BaseConstructor):
    """Refuses aliases, deep nesting, very long numbers and repeated keys. Raises ``yaml.YAMLError``."""

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node and the nodes below it."""
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
        """Construct a mapping. Raises an error for a repeated key."""
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
    """Return the data of a document: mappings, lists, texts, numbers, booleans, dates and None.

    Parameters
    ----------
    text : str
        The document.
    limit : int
        Maximum number of characters of the document.

    Raises
    ------
    YamlError
        The text is not YAML, is larger than ``limit``, has aliases or a repeated key, or nests too deeply.
    """
    if len(text) > limit:
        raise YamlError(f"has {len(text)} characters; the limit is {limit}")
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except Exception as error:  # bad values for a tag raise anything: `!!bool x` is a KeyError
        raise YamlError(f"is not YAML: {one_line(error)}") from None
