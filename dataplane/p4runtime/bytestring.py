"""Integers as P4Runtime writes them: big-endian bytestrings (P4Runtime specification, section "Bytestrings")."""

from p4reduce.dataplane.p4runtime.errors import Code, P4RuntimeError


def encode(value: int) -> bytes:
    """The shortest bytestring of an unsigned integer; zero is one zero byte."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def decode(value: bytes, width: int, what: str) -> int:
    """The unsigned integer in a bytestring of any length, checked to fit ``width`` bits.

    Args:
        value: big-endian; shorter or longer than ``width`` asks for is accepted as long as the number fits.
        width: bits.
        what: names the field in the error.

    Raises:
        P4RuntimeError: INVALID_ARGUMENT (as BMv2; the specification says OUT_OF_RANGE) where the string is
            empty or the number needs more than ``width`` bits.
    """
    if not value:
        raise P4RuntimeError(Code.INVALID_ARGUMENT, f"{what}: the bytestring is empty; zero is one zero byte")
    number = int.from_bytes(value, "big")
    if number >> width:
        raise P4RuntimeError(Code.INVALID_ARGUMENT, f"{what}: 0x{_short_hex(value)} does not fit {width} bits")
    return number


def encode_signed(value: int) -> bytes:
    """The shortest two's complement bytestring of an integer."""
    bits = (value if value >= 0 else ~value).bit_length() + 1
    return value.to_bytes((bits + 7) // 8, "big", signed=True)


def decode_signed(value: bytes, width: int, what: str) -> int:
    """The signed integer in a two's complement bytestring, checked to fit ``int<width>``.

    Raises:
        P4RuntimeError: INVALID_ARGUMENT, as decode.
    """
    if not value:
        raise P4RuntimeError(Code.INVALID_ARGUMENT, f"{what}: the bytestring is empty; zero is one zero byte")
    number = int.from_bytes(value, "big", signed=True)
    if not -(1 << (width - 1)) <= number < 1 << (width - 1):
        raise P4RuntimeError(Code.INVALID_ARGUMENT, f"{what}: 0x{_short_hex(value)} does not fit int<{width}>")
    return number


def _short_hex(value: bytes) -> str:
    """Hexadecimal for messages, cut where a client sent something long."""
    return value.hex() if len(value) <= 32 else f"{value[:32].hex()}... ({len(value)} bytes)"
