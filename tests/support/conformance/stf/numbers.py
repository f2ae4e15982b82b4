"""Numbers in STF: decimal, 0x, 0b or 0o; ``*`` is a wildcard digit."""

from typing import Final

from tests.support.conformance.stf.statements import StfError

_BASES: Final = {"0x": (16, 4), "0b": (2, 1), "0o": (8, 3)}
"""Prefix -> (base, bits of a digit)."""


def parse_number(text: str) -> int:
    """Returns a number without ``*``. Raises StfError."""
    base = _BASES.get(text[:2].lower())
    try:
        return int(text[2:], base[0]) if base is not None else int(text)
    except ValueError:
        raise StfError(f"{text!r} is not a number") from None


def parse_ternary(text: str) -> tuple[int, int]:
    """Returns (value, mask). The mask covers only the written digits, so ``0x12`` is ``0x12 &&& 0xff``.

    Raises:
        StfError: not a number, or a decimal number, which has no digits to mask.
    """
    base, bits, digits = _digits(text)
    ones = (1 << bits) - 1
    mask = 0
    for digit in digits:
        mask = mask << bits | (0 if digit == "*" else ones)
    return _value(text, digits, base), mask


def parse_lpm(text: str) -> tuple[int, int]:
    """Returns (value, prefix length) of ``VALUE/LENGTH`` or of digits followed by ``*``. Raises StfError."""
    if "/" in text:
        value, _, length = text.partition("/")
        return parse_number(value), parse_number(length)
    if text.isdecimal():
        text = hex(int(text))
    base, bits, digits = _digits(text)
    kept = digits.rstrip("*")
    if "*" in kept:
        raise StfError(f"{text!r} is not a prefix")
    return _value(text, digits, base), bits * len(kept)


def _digits(text: str) -> tuple[int, int, str]:
    base = _BASES.get(text[:2].lower())
    if base is None:
        raise StfError(f"{text!r}: a key with a mask is written with 0x, 0b or 0o")
    return *base, text[2:]


def _value(text: str, digits: str, base: int) -> int:
    try:
        return int(digits.replace("*", "0"), base)
    except ValueError:
        raise StfError(f"{text!r} is not a number") from None
