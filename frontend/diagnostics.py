"""Errors and warnings as values: several in one go, each with its place, what is wrong and how to mend it."""

from dataclasses import dataclass, field
from typing import Final, Literal

from p4reduce.frontend.source import COLUMN_BITS, Sources

Severity = Literal["error", "warning"]

MOST: Final = 20
"""Errors after which the rest is only counted: they mostly follow from the first ones."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing to say about a program.

    Attributes:
        position: where; see source.py.
        message: what is wrong.
        hint: how to mend it; may be empty.
    """

    severity: Severity
    position: int
    message: str
    hint: str = ""

    def render(self, sources: Sources) -> str:
        """``file:line:column: error: …``, the line itself with a mark, and the hint."""
        place = sources.place(self.position)
        text = sources.line(self.position)
        head = f"{place}: {self.severity}: {self.message}"
        if text:
            mark = "".join("\t" if c == "\t" else " " for c in text[: place.column])
            head += f"\n    {text}\n    {mark}^"
        return head + (f"\n  {self.hint}" if self.hint else "")

    def as_json(self, sources: Sources) -> dict[str, object]:
        """The same for machines; line and column count from 1."""
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


@dataclass(slots=True)
class Diagnostics:
    """What has been found so far; one line says one thing once."""

    items: list[Diagnostic] = field(default_factory=list)
    _seen: set[tuple[int, str]] = field(default_factory=set)

    def error(self, position: int, message: str, hint: str = "") -> None:
        """The program is wrong."""
        self._add(Diagnostic("error", position, message, hint))

    def warning(self, position: int, message: str, hint: str = "") -> None:
        """The program is legal, but hardly meant so."""
        self._add(Diagnostic("warning", position, message, hint))

    def _add(self, item: Diagnostic) -> None:
        key = (item.position >> COLUMN_BITS, item.message)
        if key not in self._seen:
            self._seen.add(key)
            self.items.append(item)

    @property
    def errors(self) -> list[Diagnostic]:
        """In the order in which they were found."""
        return [item for item in self.items if item.severity == "error"]

    @property
    def warnings(self) -> list[Diagnostic]:
        """In the order in which they were found."""
        return [item for item in self.items if item.severity == "warning"]


class SourceFault(Exception):
    """One error at which the work on some part of a program ends; whoever goes on with the next part records it."""

    def __init__(self, position: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.position = position
        self.message = message
        self.hint = hint


class Unexpected(RuntimeError):
    """Something that the checks before should have refused: a mistake of this compiler, not of the program."""


class P4Error(ValueError):
    """A P4 program that cannot be compiled; the text holds every error with its line and what mends it."""

    def __init__(self, diagnostics: Diagnostics, sources: Sources) -> None:
        self.diagnostics = diagnostics
        self.sources = sources
        errors = diagnostics.errors
        shown = [item.render(sources) for item in errors[:MOST]]
        if len(errors) > MOST:
            shown.append(f"… and {len(errors) - MOST} more errors")
        super().__init__("\n".join(shown))
