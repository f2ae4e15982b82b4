"""Numbers as people write and read them: decimal, hexadecimal, IPv4 and MAC notation; and names by their last parts."""

import difflib
import ipaddress
import re
import reprlib
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

# How many of one unit another has. Virtual time is counted in picoseconds.


PS_PER_NS: Final = 10**3
PS_PER_US: Final = 10**6
PS_PER_MS: Final = 10**9
PS_PER_S: Final = 10**12
NS_PER_S: Final = 10**9


# Small tables of HTML, for notebooks.


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with its title; everything is escaped."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    top = f"<thead><tr>{head}</tr></thead>" if head else ""
    return f"<table><caption>{escape(title)}</caption>{top}<tbody>{body}</tbody></table>"


MAC_BITS: Final = 48
IPV4_BITS: Final = 32
TODO: Final = "TODO"
"""What a file that is still to be completed has in place of a value."""

_MAC = re.compile(r"[0-9A-Fa-f]{2}([:-])(?:[0-9A-Fa-f]{2}\1){4}[0-9A-Fa-f]{2}")
_IPV4 = re.compile(r"[0-9]+(?:\.[0-9]+){3}")
_NUMBER = re.compile(r"0[xX][0-9A-Fa-f_]+|0[bB][01_]+|[0-9][0-9_]*")
_LONGEST: Final = 4096
"""characters; the widest field of P4 programs for BMv2, 2,048 bits, takes 2,050 in binary"""
_ADDRESS_NAMES: Final = frozenset({"src", "dst", "srcaddr", "dstaddr", "src_addr", "dst_addr"})
_WIDE: Final = 128
"""Numbers with more bits are shortened for people."""


class ValueProblem(ValueError):
    """What is wrong with a value, and how it should look."""


def parse_number(text: str, width: int) -> int:
    """An unsigned number of ``width`` bits from decimal, ``0x``, ``0b``, IPv4 (32 bits) or MAC (48 bits) notation.

    Raises:
        ValueProblem: says what is wrong and what would be right.
    """
    text = text.strip()
    if text.upper().startswith(TODO):
        raise ValueProblem("still says TODO: put a value here")
    value = _read(text, width)
    if value >> width:
        raise ValueProblem(f"{_cut(text)} does not fit {width} bits: the largest value is {(1 << width) - 1}")
    return value


def _read(text: str, width: int) -> int:
    if _MAC.fullmatch(text):
        if width != MAC_BITS:
            raise ValueProblem(f"{text} is a MAC address (48 bits), but {width} bits are wanted")
        return int(re.sub("[:-]", "", text), 16)
    if _IPV4.fullmatch(text):
        if width != IPV4_BITS:
            raise ValueProblem(f"{text} is an IPv4 address (32 bits), but {width} bits are wanted")
        try:
            return int(ipaddress.IPv4Address(text))
        except ValueError as error:
            raise ValueProblem(f"{text} is no IPv4 address: {error}") from None
    if _NUMBER.fullmatch(text) and len(text) <= _LONGEST:
        try:
            return int(text, 10 if text.isdigit() else 0)
        except ValueError:
            pass
    raise ValueProblem(f"{_cut(text)!r} is no number: write {_notations(width)}")


def _notations(width: int) -> str:
    extra = {MAC_BITS: " or a MAC address such as 02:00:0a:00:00:01", IPV4_BITS: " or an IPv4 address"}.get(width, "")
    return "a decimal number, 0x..., 0b..." + extra


def _cut(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "..."


def looks_like(name: str, width: int) -> str:
    """How a field is best shown, by its name and width: ``mac``, ``ipv4`` or ``number``."""
    words = name.lower().replace("hdr.", "").split(".")
    last = words[-1]
    if width == MAC_BITS and ("mac" in last or last in _ADDRESS_NAMES):
        return "mac"
    if width == IPV4_BITS and (last in _ADDRESS_NAMES or "ip" in re.split(r"[_\d]", last) or "ipv4" in last):
        return "ipv4"
    return "number"


def show(value: int, name: str = "", width: int = 0) -> str:
    """A number for people; ``name`` and ``width`` of its field decide about IPv4 and MAC notation."""
    kind = looks_like(name, width)
    if kind == "mac":
        return value.to_bytes(6, "big").hex(":")
    if kind == "ipv4":
        return str(ipaddress.IPv4Address(value))
    if value.bit_length() > _WIDE or width > 2 * _WIDE:
        return _show_wide(value, max(width, value.bit_length()))
    return str(value) if value < 10_000 and "ether" not in name.lower() else f"{value:#x}"


def _show_wide(value: int, width: int) -> str:
    """Both ends of a wide number, 32 bits at a time: the lanes of this project's packets stand in such fields."""
    words = -(-width // 32)
    digits = f"{value:0{8 * words}x}"
    parts = [digits[i : i + 8] for i in range(0, len(digits), 8)]
    if len(parts) > 5:
        parts = [*parts[:3], "...", parts[-1]]
    return f"0x{' '.join(parts)} ({width} bits)"


def find_name(wanted: str, known: Iterable[str], what: str) -> str:
    """A full name by itself or by its last parts (``job`` for ``IncIngress.aggregate.job``). Raises ValueProblem."""
    names = list(dict.fromkeys(known))
    if wanted in names:
        return wanted
    fitting = [name for name in names if name.endswith(f".{wanted}")]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise ValueProblem(f"{what} {wanted!r} could be {' or '.join(fitting)}: write more of the name")
    short = {name.rsplit(".", 1)[-1] for name in names} | set(names)
    close = difflib.get_close_matches(wanted, sorted(short), n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(names) or '(none)'}"
    raise ValueProblem(f"there is no {what} {wanted!r}: {hint}")


# Values in error texts.


_SHORT: Final = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 1, 60, 60


def short(value: object) -> str:
    """A value for an error text, whatever its size."""
    try:
        return _SHORT.repr(value)
    except ValueError:
        return "a number of thousands of digits"  # Python writes none above 4,300
