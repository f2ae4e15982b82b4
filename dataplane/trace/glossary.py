"""What numbers in a program's fields mean, from its own ``#define`` lines."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Final

_DEFINE = re.compile(r"#define\s+([A-Z][A-Z0-9]*)_([A-Z0-9_]+)\s+(\d+)\s*(?://\s*(.*))?$")


@dataclass(frozen=True)
class Glossary:
    """Names of numbers by the last part of a field's name: ``{"refused": {8: "PEER: not a child or parent"}}``."""

    meanings: Mapping[str, Mapping[int, str]]

    def __call__(self, field: str, value: int) -> str:
        """The meaning of a field's value; empty where there is none."""
        return self.meanings.get(re.split(r"[.\[]", field.rstrip("]"))[-1], {}).get(value, "")

    def name(self, field: str, value: int) -> str:
        """The same without the remark behind the colon."""
        return self(field, value).partition(":")[0]


NOTHING: Final = Glossary({})

_FIELDS: Final = {"REFUSED": "refused", "TYPE": "type", "REPLY": "reply"}
"""Prefix of the constants in p4src/ -> last part of the field's name."""


def from_sources(texts: Iterable[str]) -> Glossary:
    """The glossary of this project's P4 sources."""
    found: dict[str, dict[int, str]] = {}
    for text in texts:
        for line in text.splitlines():
            match = _DEFINE.match(line.strip())
            if match is not None and match[1] in _FIELDS:
                meaning = match[2] + (f": {match[4].strip()}" if match[4] else "")
                found.setdefault(_FIELDS[match[1]], {}).setdefault(int(match[3]), meaning)
    return Glossary(found)


def of_folder(folder: Traversable) -> Glossary:
    """The same from all ``.p4`` files of a folder."""
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".p4")), key=lambda f: f.name)
    return from_sources(f.read_text(encoding="utf-8") for f in files)
