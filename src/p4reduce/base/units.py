"""Rates, delays and counts as people write them ('10G', '1us', '64k') and as the machine counts them (bit/s, ps)."""

import re
from decimal import Decimal
from typing import Final

from p4switch.base.values import short

_RATE_UNITS: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_DELAY_UNITS: Final = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}
_MAX_RATE_BPS: Final = 10**15
_MAX_DELAY_PS: Final = 10**15
"""times and rates are 64-bit integers in the fabric, where they are added and multiplied by frame lengths"""
_LONGEST: Final = 60
"""characters; `Decimal` overflows at a million digits"""
_COUNT_UNITS: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_MAX_COUNT: Final = 2**63 - 1
_SLOWEST_BARE_BPS: Final = 10**6
"""text without a unit below this was meant to have one: '10' is no link's rate"""
_NUMBER: Final = r"(\d+(?:\.\d+)?)"
_RATE: Final = re.compile(rf"{_NUMBER}\s*([kKMGT]?)(bit/s|b/s|bps)?")
_COUNT: Final = re.compile(rf"{_NUMBER}\s*(k|M|G|Ki|Mi|Gi)?")
_DELAY: Final = re.compile(rf"{_NUMBER}\s*(ps|ns|us|µs|ms|s)")


def parse_rate(value: int | str) -> int:
    """A link rate in bit/s.

    Parameters
    ----------
    value : int or str
        An integer of bit/s, or text such as '10G', '2.5G', '400M', '100 Mb/s' (powers of ten).

    Raises
    ------
    ValueError
        When it is no rate, not a whole positive number of bits per second, above 1000T, or text without a unit that
        says less than 1M.
    """
    fix = "write for example '10G', '2.5G', '400M' or a whole number of bit/s"
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{short(value)} is not a rate; {fix}")
    match = _RATE.fullmatch(_text(value))
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
    """A propagation delay in picoseconds.

    Parameters
    ----------
    value : int or str
        Text such as '1us', '500ns', '2.5ms', '0ps'; only the number 0 needs no unit.

    Raises
    ------
    ValueError
        When it is no delay, has no unit, is not a whole number of picoseconds, or above 1000s.
    """
    fix = "write for example '1us', '500ns' or '2.5ms'"
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{short(value)} is not a delay; {fix}")
    text = _text(value)
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
    """A number of things.

    Parameters
    ----------
    value : int or str
        An integer, or text such as '262144', '64k', '1.5M' (powers of ten), '1Mi' (powers of two).

    Raises
    ------
    ValueError
        When it is none, not whole, or above 2^63 - 1.
    """
    fix = "write for example '262144', '64k', '1.5M' or '1Mi'"
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{short(value)} is no number of things; {fix}")
    if isinstance(value, int):
        return value
    match = _COUNT.fullmatch(_text(value))
    if match is None:
        raise ValueError(f"{short(value)} is no number of things; {fix}")
    unit = match.group(2) or ""
    count = Decimal(match.group(1)) * _COUNT_UNITS[unit]
    if count != count.to_integral_value() or count > _MAX_COUNT:
        raise ValueError(f"{short(value)} must be whole and below 2^63; {fix}")
    return int(count)


def format_rate(rate_bps: int) -> str:
    """The shortest exact text of a rate: ``parse_rate(format_rate(r)) == r``."""
    return _format(rate_bps, _RATE_UNITS, "") + ("bit/s" if rate_bps < _RATE_UNITS["k"] else "")


def format_delay(delay_ps: int) -> str:
    """The shortest exact text of a delay: ``parse_delay(format_delay(d)) == d``."""
    return _format(delay_ps, _DELAY_UNITS, "ps")


def _text(value: int | str) -> str:
    """A number or text for the patterns; nothing where it is too long to be meant."""
    if isinstance(value, int):
        return str(value) if abs(value) <= max(_MAX_RATE_BPS, _MAX_DELAY_PS) * 1000 else ""
    text = value.strip()
    return text if len(text) <= _LONGEST else ""


def _format(value: int, units: dict[str, int], smallest: str) -> str:
    for unit, factor in reversed(units.items()):
        # Up to three decimals read well ('2.5G'); more are clearer in the next smaller unit.
        if value >= factor and value * 1000 % factor == 0:
            return f"{(Decimal(value) / factor).normalize():f}{unit}"
    return f"{value}{smallest}"
