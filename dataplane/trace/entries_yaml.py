"""Reading an entries file as data: no tags, no aliases, no guessing of types, and every item knows its line.

Every scalar stays text. YAML would otherwise take the MAC address ``10:20:30:40:50:10`` for a number of base 60.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from p4reduce.base.safe_yaml import PlainNodes, one_line

FILE_LIMIT: Final = 1 << 20
"""bytes; an entry takes about 150"""


class EntriesError(ValueError):
    """An entries file that cannot be used; each line of the text names the file, the entry and the fix."""


@dataclass(frozen=True)
class Document:
    """The contents of a file.

    Attributes:
        name: of the file, for messages.
        data: dicts, lists and strings.
        lines: line of each item of each top-level list, by (list, number).
    """

    name: str
    data: dict[str, Any]
    lines: dict[tuple[str, int], int]


class _Loader(PlainNodes, yaml.BaseLoader):
    """Strings, lists, mappings."""


def read_document(path: Path) -> Document:
    """Reads a YAML (or JSON) file. Raises EntriesError."""
    try:
        if path.stat().st_size > FILE_LIMIT:
            raise EntriesError(f"{path}: larger than {FILE_LIMIT} bytes; this is no entries file")
        text = path.read_text("utf-8")
    except OSError as error:
        raise EntriesError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise EntriesError(f"{path}: is not UTF-8 text ({error.reason} at byte {error.start})") from None
    return parse_document(text, str(path))


def parse_document(text: str, name: str) -> Document:
    """The same from text; ``name`` is for messages. Raises EntriesError."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        data = None if node is None else loader.construct_document(node)
    except yaml.YAMLError as error:
        raise EntriesError(f"{name}: is not YAML: {one_line(error)}") from None
    if not isinstance(data, dict):
        found = "empty" if data in (None, "") else f"a {type(data).__name__}"
        raise EntriesError(f"{name}: is {found}; expected 'tables:' and a list of entries")
    return Document(name, {str(key): value for key, value in data.items()}, _lines(node))


def _lines(node: Any) -> dict[tuple[str, int], int]:
    found = {}
    for key, value in node.value:
        if isinstance(value, yaml.SequenceNode):
            for number, item in enumerate(value.value):
                found[str(key.value), number] = item.start_mark.line + 1
    return found
