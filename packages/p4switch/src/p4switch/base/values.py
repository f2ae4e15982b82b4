"""Parses numbers in human notation (decimal, hexadecimal, IPv4, MAC, with units), and finds names by last parts."""

import difflib
import ipaddress
import re
import reprlib
from collections.abc import Iterable, Sequence
from decimal import Decimal
from html import escape
from typing import Final

# Factors between units. Virtual time is counted in picoseconds.


PS_PER_NS: Final = 10**3
PS_PER_US: Final = 10**6
PS_PER_MS: Final = 10**9
PS_PER_S: Final = 10**12
NS_PER_S: Final = 10**9


# Small tables of HTML, for notebooks.


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return an HTML table with its title; every text is escaped."""
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    top = f"<thead><tr>{head}</tr></thead>" if head else ""
    return f"<table><caption>{escape(title)}</caption>{top}<tbody>{body}</tbody></table>"


MAC_BITS: Final = 48
IPV4_BITS: Final = 32
TODO: Final = "TODO"
"""Placeholder for a value in a file that is still to be completed."""

_MAC = re.compile(r"[0-9A-Fa-f]{2}([:-])(?:[0-9A-Fa-f]{2}\1){4}[0-9A-Fa-f]{2}")
_IPV4 = re.compile(r"[0-9]+(?:\.[0-9]+){3}")
_NUMBER = re.compile(r"0[xX][0-9A-Fa-f_]+|0[bB][01_]+|[0-9][0-9_]*")
_LONGEST: Final = 4096
"""characters; the widest field of P4 programs for BMv2, 2,048 bits, takes 2,050 in binary"""
_ADDRESS_NAMES: Final = frozenset({"src", "dst", "srcaddr", "dstaddr", "src_addr", "dst_addr"})
_WIDE: Final = 128
"""Numbers with more bits are abbreviated."""


class ValueProblem(ValueError):
    """A value that cannot be used; the message says what is wrong and how it should look."""


def parse_number(text: str, width: int) -> int:
    """Return an unsigned number of ``width`` bits from decimal, ``0x``, ``0b``, IPv4 (32 bits) or MAC (48 bits) text.

    Raises:
        ValueProblem: the message says what is wrong and what would be right.
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
    """Return how to show a field, by its name and width: ``mac``, ``ipv4`` or ``number``."""
    words = name.lower().replace("hdr.", "").split(".")
    last = words[-1]
    if width == MAC_BITS and ("mac" in last or last in _ADDRESS_NAMES):
        return "mac"
    if width == IPV4_BITS and (last in _ADDRESS_NAMES or "ip" in re.split(r"[_\d]", last) or "ipv4" in last):
        return "ipv4"
    return "number"


def show(value: int, name: str = "", width: int = 0) -> str:
    """Return a number as readable text; ``name`` and ``width`` of its field choose IPv4 or MAC notation."""
    kind = looks_like(name, width)
    if kind == "mac":
        return value.to_bytes(6, "big").hex(":")
    if kind == "ipv4":
        return str(ipaddress.IPv4Address(value))
    if value.bit_length() > _WIDE or width > 2 * _WIDE:
        return _show_wide(value, max(width, value.bit_length()))
    return str(value) if value < 10_000 and "ether" not in name.lower() else f"{value:#x}"


def _show_wide(value: int, width: int) -> str:
    """Shows both ends of a wide number in words of 32 bits, the size of a lane in this project's packets."""
    words = -(-width // 32)
    digits = f"{value:0{8 * words}x}"
    parts = [digits[i : i + 8] for i in range(0, len(digits), 8)]
    if len(parts) > 5:
        parts = [*parts[:3], "...", parts[-1]]
    return f"0x{' '.join(parts)} ({width} bits)"


def find_name(wanted: str, known: Iterable[str], what: str) -> str:
    """Find a full name by itself or its last parts (``job`` for ``IncIngress.aggregate.job``). Raises ValueProblem."""
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


# Values in error messages.


_SHORT: Final = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 1, 60, 60


def short(value: object) -> str:
    """Return a value for an error message, shortened if it is long."""
    try:
        return _SHORT.repr(value)
    except ValueError:
        return "a number of thousands of digits"  # Python refuses to write more than 4,300


_NAMELESS: Final = re.compile(r'\s+in "<(?:unicode|byte) string>",')
"""PyYAML's name for a document without a file; the caller knows the file"""


def one_line(error: object, most: int = 300) -> str:
    """Return an error's text on one line, cut if it is longer than ``most`` characters."""
    text = " ".join(_NAMELESS.sub(",", str(error)).split())
    return text if len(text) <= most else text[: most - 1] + "…"


# Rates, delays and counts as people write them ('10G', '1us', '64k') and as integers (bit/s, ps).


_RATE_UNITS: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_DELAY_UNITS: Final = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}
_MAX_RATE_BPS: Final = 10**15
_MAX_DELAY_PS: Final = 10**15
"""times and rates are 64-bit integers in the virtual network, where they are added and multiplied by frame lengths"""
_LONGEST_QUANTITY: Final = 60
"""characters; `Decimal` overflows at a million digits"""
_COUNT_UNITS: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_MAX_COUNT: Final = 2**63 - 1
_SLOWEST_BARE_BPS: Final = 10**6
"""text below this rate without a unit probably lacks its unit: no link has the rate '10'"""
_QUANTITY: Final = r"(\d+(?:\.\d+)?)"
_RATE: Final = re.compile(rf"{_QUANTITY}\s*([kKMGT]?)(bit/s|b/s|bps)?")
_COUNT: Final = re.compile(rf"{_QUANTITY}\s*(k|M|G|Ki|Mi|Gi)?")
_DELAY: Final = re.compile(rf"{_QUANTITY}\s*(ps|ns|us|µs|ms|s)")


def parse_rate(value: int | str) -> int:
    """Return a link rate in bit/s.

    Parameters
    ----------
    value : int or str
        An integer of bit/s, or text such as '10G', '2.5G', '400M', '100 Mb/s' (powers of ten).

    Raises
    ------
    ValueError
        If it is no rate, is not a whole positive number of bit/s, is above 1000T, or is text without a unit that
        means less than 1M.
    """
    fix = "write for example '10G', '2.5G', '400M' or a whole number of bit/s"
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{short(value)} is not a rate; {fix}")
    match = _RATE.fullmatch(_to_match(value))
    if match is None:
        raise ValueError(f"{short(value)} is not a rate; {fix}")
    unit = match.group(2)
    rate = Decimal(match.group(1)) * _RATE_UNITS["k" if unit == "K" else unit]
    if rate <= 0 or rate != rate.to_integral_value():
        raise ValueError(f"rate {short(value)} must be a whole, positive number of bit/s; {fix}")
    bare = isinstance(value, str) and not unit and not match.group(3)
    if bare and rate < _SLOWEST_BARE_BPS:
        raise ValueError(f"rate {short(value)} is {rate} bit/s; write '{rate}G', or '{rate}bit/s' if that is meant")
    if rate > _MAX_RATE_BPS:
        raise ValueError(f"rate {short(value)} is above {format_rate(_MAX_RATE_BPS)}; {fix}")
    return int(rate)


def parse_delay(value: int | str) -> int:
    """Return a propagation delay in picoseconds.

    Parameters
    ----------
    value : int or str
        Text such as '1us', '500ns', '2.5ms', '0ps'; only the number 0 needs no unit.

    Raises
    ------
    ValueError
        If it is no delay, has no unit, is not a whole number of picoseconds, or is above 1000s.
    """
    fix = "write for example '1us', '500ns' or '2.5ms'"
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{short(value)} is not a delay; {fix}")
    text = _to_match(value)
    if text == "0":
        return 0
    match = _DELAY.fullmatch(text)
    if match is None:
        raise ValueError(f"{short(value)} is not a delay; {fix}")
    unit = match.group(2)
    delay = Decimal(match.group(1)) * _DELAY_UNITS["us" if unit == "µs" else unit]
    if delay != delay.to_integral_value():
        raise ValueError(f"delay {short(value)} must be a whole number of picoseconds; {fix}")
    if delay > _MAX_DELAY_PS:
        raise ValueError(f"delay {short(value)} is above {format_delay(_MAX_DELAY_PS)}; {fix}")
    return int(delay)


def parse_count(value: int | str) -> int:
    """Return a number of things as an integer.

    Parameters
    ----------
    value : int or str
        An integer, or text such as '262144', '64k', '1.5M' (powers of ten), '1Mi' (powers of two).

    Raises
    ------
    ValueError
        If it is no number, not whole, or above 2^63 - 1.
    """
    fix = "write for example '262144', '64k', '1.5M' or '1Mi'"
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{short(value)} is no number of things; {fix}")
    if isinstance(value, int):
        return value
    match = _COUNT.fullmatch(_to_match(value))
    if match is None:
        raise ValueError(f"{short(value)} is no number of things; {fix}")
    unit = match.group(2) or ""
    count = Decimal(match.group(1)) * _COUNT_UNITS[unit]
    if count != count.to_integral_value() or count > _MAX_COUNT:
        raise ValueError(f"{short(value)} must be whole and below 2^63; {fix}")
    return int(count)


def format_rate(rate_bps: int) -> str:
    """Return the shortest exact text of a rate: ``parse_rate(format_rate(r)) == r``."""
    return _in_units(rate_bps, _RATE_UNITS, "") + ("bit/s" if rate_bps < _RATE_UNITS["k"] else "")


def format_delay(delay_ps: int) -> str:
    """Return the shortest exact text of a delay: ``parse_delay(format_delay(d)) == d``."""
    return _in_units(delay_ps, _DELAY_UNITS, "ps")


def _to_match(value: int | str) -> str:
    """Returns the text to match with the patterns; an empty text if the value is too long."""
    if isinstance(value, int):
        return str(value) if abs(value) <= max(_MAX_RATE_BPS, _MAX_DELAY_PS) * 1000 else ""
    text = value.strip()
    return text if len(text) <= _LONGEST_QUANTITY else ""


def _in_units(value: int, units: dict[str, int], smallest: str) -> str:
    for unit, factor in reversed(units.items()):
        # Up to three decimals are easy to read ('2.5G'); with more, the next smaller unit is clearer.
        if value >= factor and value * 1000 % factor == 0:
            return f"{(Decimal(value) / factor).normalize():f}{unit}"
    return f"{value}{smallest}"


def is_loopback(host: str) -> bool:
    """Return whether a host name or address (IPv6 also in brackets) certainly means this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
