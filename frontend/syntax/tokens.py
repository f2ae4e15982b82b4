"""Tokens of a P4 source file, line by line (P4_16 specification, section 6.3).

A token is a tuple (kind, text, position): the plainest thing that Python makes, since a program has ten thousand.
"""

import re
from typing import Final

from p4reduce.frontend.diagnostics import SourceFault
from p4reduce.frontend.source import COLUMN_BITS, position

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

_MASTER: Final = re.compile(
    r"""
    [ \t\r\f\v]*(?:
      (?P<name>[A-Za-z_]\w*)
    | (?P<space>//[^\n]*(?:\\\n[^\n]*)*|\\\r?\n)
    | (?P<comment>/\*.*?\*/)
    | (?P<newline>\n)
    | (?P<sign>\.\.\.|&&&|\|\+\||\|-\||<<=|>>=|\+\+|\.\.|<<|>>|&&|\|\||==|!=|<=|>=|[-+*/%&|^]=
        |[(){}\[\]<>,;:.=+\-*/%&|^~!?@])
    | (?P<number>\d\w*)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<hash>\#\#?)
    | (?P<end>\Z)
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_LEFT_OUT: Final = frozenset({"space", "comment", "end"})


def lines_of(text: str, file: int) -> list[list[Token]]:
    r"""The tokens of a file by logical lines: comments are gone, lines that end in ``\\`` are joined.

    Raises:
        SourceFault: a comment without an end.
    """
    lines: list[list[Token]] = []
    line: list[Token] = []
    add = line.append
    base, begin = position(file, 1, 0), 0
    step = 1 << COLUMN_BITS
    scan = _MASTER.match
    at, end = 0, len(text)
    while at < end:
        match = scan(text, at)
        if match is None:
            at += len(text[at:]) - len(text[at:].lstrip(" \t\r\f\v"))
            if text.startswith("/*", at):
                raise SourceFault(base + at - begin, "this comment has no end", "Close it with */.")
            add((OTHER, text[at], base + at - begin))
            at += 1
            continue
        kind = match.lastgroup
        following = match.end()
        if kind == "newline":
            if line:
                lines.append(line)
                line = []
                add = line.append
            base += step
            begin = following
        elif kind in _LEFT_OUT:
            count = text.count("\n", at, following)
            if count:
                base += count * step
                begin = text.rfind("\n", at, following) + 1
        else:
            word = match[kind]  # type: ignore[index]
            add((kind, word, base + following - len(word) - begin))  # type: ignore[arg-type]
        at = following
    if line:
        lines.append(line)
    return lines
