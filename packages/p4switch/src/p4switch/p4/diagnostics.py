"""Errors and warnings as values that a compilation collects; each has a position, a message and a hint."""

from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeVar

from p4switch.base.errors import InputError

# Source files, and positions in them.
#
# A position is one integer, so that tokens and trees carry it at no cost: file, line (from 1) and column (from 0).


COLUMN_BITS: Final = 20
LINE_BITS: Final = 24
NOWHERE: Final = 0
"""The position of objects that no file declares."""


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A position as file, line (from 1) and column (from 0)."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column + 1}"


@dataclass(slots=True)
class SourceFiles:
    """The files of one compilation, in the order in which they were first read.

    Attributes:
        names: names of files in messages; number 0 is no file, but the program as a whole.
        texts: the text of each file.
        builtin: numbers of the files that are part of this package.
    """

    names: list[str] = field(default_factory=lambda: ["<none>"])
    texts: list[str] = field(default_factory=lambda: [""])
    builtin: set[int] = field(default_factory=set)

    def add(self, name: str, text: str, builtin: bool = False) -> int:
        """Adds a file; returns its number."""
        self.names.append(name)
        self.texts.append(text)
        if builtin:
            self.builtin.add(len(self.names) - 1)
        return len(self.names) - 1

    def place(self, position: int) -> SourcePlace:
        """Returns file, line and column of a position."""
        column = position & ((1 << COLUMN_BITS) - 1)
        line = (position >> COLUMN_BITS) & ((1 << LINE_BITS) - 1) or 1
        return SourcePlace(self.names[position >> (COLUMN_BITS + LINE_BITS)], line, column)

    def is_builtin(self, position: int) -> bool:
        """Returns whether a position is in a file of this package."""
        return position >> (COLUMN_BITS + LINE_BITS) in self.builtin

    def line(self, position: int) -> str:
        """Returns the line of a position, without its end."""
        lines = self.texts[position >> (COLUMN_BITS + LINE_BITS)].split("\n")
        number = (position >> COLUMN_BITS) & ((1 << LINE_BITS) - 1)
        return lines[number - 1].rstrip("\r") if 0 < number <= len(lines) else ""

    def fragment(self, start: int, end: int) -> str:
        """Returns the text between two positions of one line, or up to the line's end and ``...``."""
        text, column = self.line(start), start & ((1 << COLUMN_BITS) - 1)
        if start >> COLUMN_BITS == end >> COLUMN_BITS and start < end:
            return text[column : end & ((1 << COLUMN_BITS) - 1)]
        if end > start and start >> (COLUMN_BITS + LINE_BITS) == end >> (COLUMN_BITS + LINE_BITS):
            return text[column:].rstrip() + " ..."
        return text[column:].rstrip()


def position(file: int, line: int, column: int) -> int:
    """Returns a position from its parts."""
    return (file << (COLUMN_BITS + LINE_BITS)) | (line << COLUMN_BITS) | min(column, (1 << COLUMN_BITS) - 1)


T = TypeVar("T")
Severity = Literal["error", "warning"]

MOST: Final = 20
"""Largest number of errors that are shown; later ones mostly follow from the first and are only counted."""
LONGEST: Final = 240
"""Largest number of characters that are shown of a line, around the position."""
LONGEST_MESSAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An error or a warning about a program.

    Attributes:
        position: the place; see ``position``.
        message: what is wrong.
        hint: how to fix it; may be empty.
    """

    severity: Severity
    position: int
    message: str
    hint: str = ""

    def render(self, sources: SourceFiles) -> str:
        """Returns ``file:line:column: error: …``, the line with a mark, and the hint."""
        place = sources.place(self.position)
        head = f"{place}: {self.severity}: {self.message}"
        text = sources.line(self.position)
        if text:
            before, after = _around(text, place.column)
            mark = "".join("\t" if c == "\t" else " " for c in before)
            head += f"\n    {before}{after}\n    {mark}^"
        return head + (f"\n  {self.hint}" if self.hint else "")

    def as_json(self, sources: SourceFiles) -> dict[str, object]:
        """Returns the diagnostic as plain data; line and column count from 1."""
        place = sources.place(self.position)
        return {
            "severity": self.severity,
            "file": place.file,
            "line": place.line,
            "column": place.column + 1,
            "text": sources.line(self.position),
            "message": self.message,
            "hint": self.hint,
        }


def _around(text: str, column: int) -> tuple[str, str]:
    """Splits a line at a column; cuts a long line, and replaces control characters."""
    begin, end = max(column - LONGEST // 2, 0), column + LONGEST // 2
    if len(text) <= LONGEST:
        begin, end = 0, len(text)
    before, after = (
        "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in part)
        for part in (text[begin:column], text[column:end])
    )
    return "… " * (begin > 0) + before, after + " …" * (end < len(text))


@dataclass(slots=True)
class Diagnostics:
    """The errors and warnings so far; the same message is kept once for each line."""

    items: list[Diagnostic] = field(default_factory=list)
    _seen: set[tuple[int, str]] = field(default_factory=set)

    def error(self, position: int, message: str, hint: str = "") -> None:
        """Adds an error."""
        self._add(Diagnostic("error", position, message, hint))

    def warning(self, position: int, message: str, hint: str = "") -> None:
        """Adds a warning: the program is legal, but probably not what the author meant."""
        self._add(Diagnostic("warning", position, message, hint))

    def fault(self, fault: "SourceFault") -> None:
        """Adds an error that ended the work on a part of the program."""
        self.error(fault.position, fault.message, fault.hint)

    def _add(self, item: Diagnostic) -> None:
        if len(item.message) > LONGEST_MESSAGE:  # such a message quotes generated text
            item = replace(item, message=f"{item.message[: LONGEST_MESSAGE - 2]} …")
        key = (item.position >> COLUMN_BITS, item.message)
        if key not in self._seen:
            self._seen.add(key)
            self.items.append(item)

    @property
    def errors(self) -> list[Diagnostic]:
        """Errors in the order in which they were found."""
        return [item for item in self.items if item.severity == "error"]

    @property
    def warnings(self) -> list[Diagnostic]:
        """Warnings in the order in which they were found."""
        return [item for item in self.items if item.severity == "warning"]


class SourceFault(Exception):
    """An error that ends the work on a part of a program; the caller records it and goes on with the next part."""

    def __init__(self, position: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.position = position
        self.message = message
        self.hint = hint


class Unexpected(RuntimeError):
    """A state that earlier checks should have refused: a bug in this compiler, not in the program."""


def expect(value: object, kind: type[T]) -> T:
    """Returns a value whose type earlier checks have established. Raises Unexpected if it has another type."""
    if not isinstance(value, kind):
        raise Unexpected
    return value


class P4Error(InputError, ValueError):
    """A P4 program that cannot be compiled; the message lists every error with its line and how to fix it."""

    def __init__(self, diagnostics: Diagnostics, sources: SourceFiles) -> None:
        self.diagnostics = diagnostics
        self.sources = sources
        errors = diagnostics.errors
        shown = [item.render(sources) for item in errors[:MOST]]
        if len(errors) > MOST:
            shown.append(f"… and {len(errors) - MOST} more errors")
        super().__init__("\n".join(shown))
