"""Tokens of a P4 source file, line by line (P4_16 specification, section 6.3).

A token is a tuple (kind, text, position): the plainest thing that Python makes, since a program has ten thousand.
"""

import re
from typing import Final, NamedTuple

from p4switch.p4.diagnostics import COLUMN_BITS, SourceFault, position

Token = tuple[str, str, int]

NAME: Final = "name"
NUMBER: Final = "number"
STRING: Final = "string"
SIGN: Final = "sign"
END: Final = "end"
OTHER: Final = "other"
"""A character that begins no token: an error, unless a directive leaves it out or an annotation holds it."""
HASH: Final = "hash"
"""``#`` and ``##``, which only directives and macros hold."""

_KINDS: Final = ("", NAME, SIGN, "newline", NUMBER, STRING, HASH, "line comment", "comment", "end", OTHER)
"""What the groups of the expression below are, by their numbers; the frequent ones first."""
_NEWLINE, _LINE_COMMENT, _COMMENT, _END, _OTHER = (
    _KINDS.index(kind) for kind in ("newline", "line comment", "comment", "end", OTHER)
)
_MASTER: Final = re.compile(
    r"""
    [ \t\r\f\v]*+(?:
      ([A-Za-z_]\w*+)
    | (\.\.\.|&&&|\|\+\||\|-\||<<=|>>=|\+\+|\.\.|<<|>>|&&|\|\||==|!=|<=|>=|[-+*%&|^]=|/=
        |[(){}\[\]<>,;:.=+\-*%&|^~!?@]|/(?![/*]))
    | (\n)
    | (\d\w*+)
    | ("(?:[^"\\\n]|\\.)*+")
    | (\#\#?)
    | (//[^\n]*+(?:\\\n[^\n]*+)*+|\\\r?\n)
    | (/\*.*?\*/)
    | (\Z)
    | (.)
    )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


def lines_of(text: str, file: int) -> list[list[Token]]:
    r"""The tokens of a file by logical lines: comments are gone, lines that end in ``\\`` are joined.

    Raises:
        SourceFault: a comment without an end.
    """
    lines: list[list[Token]] = []
    line: list[Token] = []
    add = line.append
    # A position is that of the line's beginning plus the column, so a token's is ``base`` plus its offset.
    beginning = position(file, 1, 0)
    base = beginning
    step = 1 << COLUMN_BITS
    for match in _MASTER.finditer(text):
        group: int = match.lastindex or _END
        if group < _LINE_COMMENT:
            if group == _NEWLINE:
                if line:
                    lines.append(line)
                    line = []
                    add = line.append
                beginning += step
                base = beginning - match.end()
            else:
                word = match[group]
                add((_KINDS[group], word, base + match.end() - len(word)))
        elif group <= _COMMENT:
            count = match[group].count("\n")
            if count:
                beginning += count * step
                base = beginning - (text.rfind("\n", 0, match.end()) + 1)
        elif group == _OTHER:
            at = match.end() - 1
            if text.startswith("/*", at):
                raise SourceFault(base + at, "this comment has no end", "Close it with */.")
            add((OTHER, text[at], base + at))
    if line:
        lines.append(line)
    return lines


# Numbers as they are written (P4_16 specification, section 6.4.3): ``10``, ``0xff``, ``8w255``, ``4s7``, ``1_000``.


_NUMBER: Final = re.compile(r"(?:(\d+)([ws]))?(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|0[dD][0-9_]+|[0-9][0-9_]*)")
_BASES: Final = {"0x": 16, "0b": 2, "0o": 8, "0d": 10}
MOST_DIGITS: Final = 20_000
MOST_DECIMAL_DIGITS: Final = 4000
WIDEST: Final = 1 << 20
_SHORT: Final = 10
"""Most numbers are a few decimal digits."""


class Literal(NamedTuple):
    """What a number says: ``width`` is None where none is in front, ``base`` that of its digits."""

    value: int
    width: int | None
    signed: bool
    base: int


def literal(text: str, at: int) -> Literal:
    """The number that a token is. Raises SourceFault: it is none, or is too long."""
    if len(text) < _SHORT and text.isascii() and text.isdigit():
        return Literal(int(text), None, False, 10)
    match = _NUMBER.fullmatch(text)
    if match is None:
        hint = "P4 writes a width in front: 8w255, 4s7, 16w0xffff."
        raise SourceFault(at, f"{text[:20]!r} is no number", hint)
    width, letter, digits = match.groups()
    plain = digits.replace("_", "")
    if len(plain) > MOST_DIGITS or (width and (len(width) > 9 or int(width) > WIDEST)):
        raise SourceFault(at, f"this number is too long: {text[:20]}…")
    base = _BASES.get(plain[:2].lower())
    if base is None and len(plain) > MOST_DECIMAL_DIGITS:
        raise SourceFault(at, "this decimal number is too long")
    value = int(plain[2:] or "0", base) if base else int(plain)
    return Literal(value, int(width) if width else None, letter == "s", base or 10)


def value_of(token: Token) -> int:
    """The value of a number's token, e.g. of an annotation. Raises SourceFault: it is no number."""
    _, text, at = token
    return literal(text, at).value
