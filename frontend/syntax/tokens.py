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
