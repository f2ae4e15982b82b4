"""Conditions of ``#if`` and ``#elif``."""

from collections.abc import Callable, Mapping
from typing import Final

from p4reduce.frontend.diagnostics import SourceFault
from p4reduce.frontend.syntax.macros import Expander, Macro
from p4reduce.frontend.syntax.tokens import NAME, NUMBER, Token

_LEVELS: Final[tuple[tuple[str, ...], ...]] = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", ">", "<=", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip

_BINARY: Final[Mapping[str, Callable[[int, int], int]]] = {
    "||": lambda a, b: int(bool(a or b)),
    "&&": lambda a, b: int(bool(a and b)),
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "<<": lambda a, b: a << min(max(b, 0), 64),
    ">>": lambda a, b: a >> min(max(b, 0), 64),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: (a * b) & ((1 << 64) - 1),
    "/": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
}


def holds(tokens: list[Token], macros: Mapping[str, Macro], where: int) -> bool:
    """Whether the condition of a directive holds; names that are no macros count as 0."""
    known: list[Token] = []
    at = 0
    while at < len(tokens):
        kind, text, position = tokens[at]
        if text == "defined" and kind == NAME:
            bracket = at + 1 < len(tokens) and tokens[at + 1][1] == "("
            name = at + (2 if bracket else 1)
            if name >= len(tokens):
                raise SourceFault(position, "'defined' needs a name")
            known.append((NUMBER, str(int(tokens[name][1] in macros)), position))
            at = name + (2 if bracket else 1)
        else:
            known.append(tokens[at])
            at += 1
    return bool(_Condition(Expander(macros).expand(known), where).value())


class _Condition:
    def __init__(self, tokens: list[Token], where: int) -> None:
        self.tokens, self.at, self.where = tokens, 0, where

    def value(self) -> int:
        found = self._ternary()
        if self.at < len(self.tokens):
            raise SourceFault(self.tokens[self.at][2], f"{self.tokens[self.at][1]!r} does not belong into a condition")
        return found

    def _peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def _ternary(self) -> int:
        condition = self._level(0)
        if self._peek() != "?":
            return condition
        self.at += 1
        yes = self._ternary()
        if self._peek() != ":":
            raise SourceFault(self.where, "'?' without ':' in a condition")
        self.at += 1
        no = self._ternary()
        return yes if condition else no

    def _level(self, level: int) -> int:
        if level == len(_LEVELS):
            return self._unary()
        left = self._level(level + 1)
        while self._peek() in _LEVELS[level]:
            operator = self._peek()
            self.at += 1
            left = _BINARY[operator](left, self._level(level + 1))
        return left

    def _unary(self) -> int:
        if self.at >= len(self.tokens):
            raise SourceFault(self.where, "the condition of this directive ends too early")
        kind, text, position = self.tokens[self.at]
        self.at += 1
        if text in ("!", "-", "+", "~"):
            value = self._unary()
            return {"!": int(not value), "-": -value, "+": value, "~": ~value}[text]
        if text == "(":
            value = self._ternary()
            if self._peek() != ")":
                raise SourceFault(position, "this bracket is not closed")
            self.at += 1
            return value
        if kind == NUMBER:
            try:
                return int(text.rstrip("uUlL"), 0) if not text.isdigit() else int(text)
            except ValueError:
                raise SourceFault(position, f"{text!r} is no number") from None
        if kind == NAME:
            return 0
        raise SourceFault(position, f"{text!r} does not belong into a condition")
