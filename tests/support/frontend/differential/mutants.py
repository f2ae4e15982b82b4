"""Single-change mutants of programs; a useful check must notice them."""

import random
import re
from dataclasses import dataclass
from typing import Any, Final

_HIDDEN: Final = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/|^[ \t]*#[^\n]*|@\w+(?:\([^)]*\))?', re.DOTALL | re.MULTILINE)
"""Strings, comments, directives and annotations: mutations leave them alone."""
_CHANGES: Final = tuple(
    (re.compile(pattern), to)
    for pattern, to in (
        (r"==", "!="), (r"!=", "=="), (r" \+ ", " - "), (r" - ", " + "), (r"&&", "||"), (r"\|\|", "&&"),
        (r" < ", " >= "), (r" > ", " <= "), (r" <= ", " > "), (r" >= ", " < "), (r"<<", ">>"), (r" >> ", " << "),
        (r" & ", " | "), (r" \| ", " & "), (r"\b1;", "2;"), (r"\b0;", "1;"), (r"\b1\b", "2"), (r"\b0\b", "1"),
        (r"setValid", "setInvalid"), (r"setInvalid", "setValid"), (r"\.src", ".dst"), (r"\.dst", ".src"),
        (r"\.hit\b", ".miss"), (r"\.miss\b", ".hit"), (r"if \(", "if (!"), (r"0x0?800\b", "0x801"),
        (r"(?<=[;{}]\n)[ \t]*[\w.\[\]]+(?: = [^;{}\n]+|\([^;{}\n]*\));", ""),
    )
)  # fmt: skip
"""Replacements of operators, numbers and fields; the last one removes a statement."""


@dataclass(frozen=True)
class Mutant:
    """A source with one change: the line's number, and its text before and after."""

    text: str
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.before.strip()!r} became {self.after.strip()!r}"


def mutant(text: str, rng: random.Random) -> Mutant | None:
    """Return the source with one random change of its code; None if nothing can be changed."""
    code = _HIDDEN.sub(lambda match: re.sub(r"[^\n]", "\1", match[0]), text)
    kinds = [[(match, to) for match in pattern.finditer(code)] for pattern, to in _CHANGES]
    places = [place for kind in kinds for place in kind]
    if not places:
        return None
    match, to = rng.choice(places)
    changed = text[: match.start()] + to + text[match.end() :]
    line = text.count("\n", 0, match.start()) + (1 if match[0][:1] != "\n" else 2)
    return Mutant(changed, line, text.split("\n")[line - 1], changed.split("\n")[line - 1])


def bare(json: Any) -> Any:
    """Return a program's JSON without source locations and metadata."""
    if isinstance(json, dict):
        return {name: bare(value) for name, value in json.items() if name not in ("source_info", "program", "__meta__")}
    return [bare(value) for value in json] if isinstance(json, list) else json
