"""Numbers as they are written (P4_16 specification, section 6.4.3): ``10``, ``0xff``, ``8w255``, ``4s7``, ``1_000``."""

import re
from typing import Final, NamedTuple

from p4reduce.frontend.diagnostics import SourceFault
from p4reduce.frontend.syntax.tokens import Token

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
