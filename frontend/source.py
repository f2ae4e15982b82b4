"""Source files and positions in them.

A position is one integer, so that tokens and trees carry it for nothing: file, line and column, the latter two
counted from 1 and 0.
"""

from dataclasses import dataclass, field
from typing import Final

COLUMN_BITS: Final = 20
LINE_BITS: Final = 24
NOWHERE: Final = 0
"""The position of what no file holds."""


@dataclass(frozen=True, slots=True)
class Place:
    """A position, read out: line from 1, column from 0."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column + 1}"


@dataclass(slots=True)
class Sources:
    """The files of one compilation, in the order in which they were first read.

    Attributes:
        names: as they are shown; file 0 is no file, but stands for the program as a whole and has its name.
        texts: of each file.
        builtin: numbers of the files that are part of this package.
    """

    names: list[str] = field(default_factory=lambda: ["<none>"])
    texts: list[str] = field(default_factory=lambda: [""])
    builtin: set[int] = field(default_factory=set)

    def add(self, name: str, text: str, builtin: bool = False) -> int:
        """A further file; its number."""
        self.names.append(name)
        self.texts.append(text)
        if builtin:
            self.builtin.add(len(self.names) - 1)
        return len(self.names) - 1

    def place(self, position: int) -> Place:
        """What a position says."""
        column = position & ((1 << COLUMN_BITS) - 1)
        line = (position >> COLUMN_BITS) & ((1 << LINE_BITS) - 1) or 1
        return Place(self.names[position >> (COLUMN_BITS + LINE_BITS)], line, column)

    def is_builtin(self, position: int) -> bool:
        """Whether it lies in a file of this package."""
        return position >> (COLUMN_BITS + LINE_BITS) in self.builtin

    def line(self, position: int) -> str:
        """The line in which a position lies, without its end."""
        lines = self.texts[position >> (COLUMN_BITS + LINE_BITS)].split("\n")
        number = (position >> COLUMN_BITS) & ((1 << LINE_BITS) - 1)
        return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""

    def fragment(self, start: int, end: int) -> str:
        """The text between two positions of one line, or up to the line's end and ``...``."""
        text, column = self.line(start), start & ((1 << COLUMN_BITS) - 1)
        if start >> COLUMN_BITS == end >> COLUMN_BITS and start < end:
            return text[column : end & ((1 << COLUMN_BITS) - 1)]
        if end > start and start >> (COLUMN_BITS + LINE_BITS) == end >> (COLUMN_BITS + LINE_BITS):
            return text[column:].rstrip() + " ..."
        return text[column:].rstrip()


def position(file: int, line: int, column: int) -> int:
    """A position from its parts."""
    return (file << (COLUMN_BITS + LINE_BITS)) | (line << COLUMN_BITS) | min(column, (1 << COLUMN_BITS) - 1)
