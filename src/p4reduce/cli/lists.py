"""Values on the command line: lists as 'a,b,c' and '0..4', times, sizes, and timed events of a network.

Each function converts a text, given the name of its flag, and raises `BadInput`, which has both and the fix.
"""

import re
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Final

from p4reduce.base.errors import BadInput
from p4reduce.base.registry import RegistryNames
from p4switch.base.values import parse_count, parse_delay, parse_rate

MAX_VALUES = 100_000
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def texts(text: str, flag: str) -> list[str]:
    """Return the parts of a list separated by commas, each once, in order. Raises ``BadInput``."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise BadInput(f"{flag}: expected a list such as 'a,b' without empty items, got {text!r}")
    return list(dict.fromkeys(parts))


def integers(text: str, flag: str) -> list[int]:
    """Parse whole numbers: '1,2,5', '0..4' (both ends count), and units as everywhere: '64k', '1.5M', '1Mi'."""
    numbers = list(chain.from_iterable(_integers(part, flag) for part in texts(text, flag)))
    return list(dict.fromkeys(numbers))


def floats(text: str, flag: str) -> list[float]:
    """Parse numbers: '0,0.01,0.1'. Raises ``BadInput``."""
    try:
        return list(dict.fromkeys(float(part) for part in texts(text, flag)))
    except ValueError:
        raise BadInput(f"{flag}: expected numbers such as '0,0.01', got {text!r}") from None


def _integers(part: str, flag: str) -> list[int]:
    if (ends := _RANGE.fullmatch(part)) is not None:
        first, last = int(ends[1]), int(ends[2])
        if not first <= last < first + MAX_VALUES:
            raise BadInput(f"{flag}: {part!r} is decreasing, or has more than {MAX_VALUES} values")
        return list(range(first, last + 1))
    try:
        return [parse_count(part)]
    except ValueError as error:
        raise BadInput(f"{flag}: {error}, or a range such as '0..4'") from None


def named(names: RegistryNames) -> Callable[[str, str], str]:
    """Return a parser for one of these names."""
    return names.check


def each(check: Callable[[str, str], str]) -> Callable[[str, str], list[str]]:
    """Return a parser for a list of texts that all pass a check."""
    return lambda text, flag: [check(part, flag) for part in texts(text, flag)]


def network(text: str, flag: str) -> str:
    """Check that the source of a topology exists."""
    from p4reduce.topologies import TopologyError, check_source  # noqa: PLC0415  (pydantic is slow to import)

    try:
        check_source(text)
    except TopologyError as error:
        raise BadInput(f"{flag}: {error}") from None
    return text


def octets(text: str, flag: str) -> int:
    """Parse a number of bytes, with nccl-tests' units."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    number, unit = (text[:-1], units.get(text[-1:].upper())) if text[-1:].isalpha() else (text, 1)
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if unit is None or not 0 < value * unit <= 1 << 40 or value * unit != int(value * unit):
        raise BadInput(f"{flag}: {text!r}: expected bytes, e.g. '65536', '64K', '1.5M'")
    return int(value * unit)


_MACHINE: Final = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.@-]*)(?:(?::|\s+slots=)([1-9][0-9]{0,5}))?")


def machines(text: str, flag: str) -> list[tuple[str, int | None]]:
    """Parse names of machines, each with its slots or None: 'pc1,user@pc2:4', or as a file's line 'pc2 slots=4'."""
    hosts = []
    for part in texts(text, flag):
        machine = _MACHINE.fullmatch(part)
        if machine is None:
            raise BadInput(f"{flag}: {part!r} is not a machine: write a name, or a name and its slots, as in 'pc2:4'")
        hosts.append((machine[1], int(machine[2]) if machine[2] else None))
    if len({name for name, _ in hosts}) < len(hosts):
        raise BadInput(f"{flag}: {text!r} names a machine twice: give it slots, as in 'pc2:4'")
    return hosts


def places(text: str, flag: str) -> list[tuple[str, str]]:
    """Parse nodes of a topology, each with its machine, as in 's1=pc1,h1=pc2'."""
    pairs = []
    for part in texts(text, flag):
        node, equals, machine = part.partition("=")
        if not (node and equals and machine):
            raise BadInput(f"{flag}: {part!r} says of no node where it is: write NODE=MACHINE, as in 's1=pc1'")
        pairs.append((node, machine))
    if len(dict(pairs)) < len(pairs):
        raise BadInput(f"{flag}: {text!r} names a node twice")
    return pairs


def macro(text: str, flag: str) -> tuple[str, str]:
    """Parse name and value of ``NAME=VALUE``; the value of a name alone is 1."""
    name, equals, value = text.partition("=")
    if not name.isidentifier():
        raise BadInput(f"{flag} {text}: {name!r} is not a name; write NAME or NAME=VALUE")
    return name, value if equals else "1"


MAX_DEVICES: Final = 4096
"""highest number of devices in one process; a guard against a mistyped range"""
_DEVICES: Final = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?")


def device_ids(text: str, flag: str) -> list[int]:
    """Parse device ids from "1", "1-300" or "1-3,7"."""
    ids: set[int] = set()
    for part in text.split(","):
        span = _DEVICES.fullmatch(part.strip())
        if span is None:
            raise BadInput(f"{flag} {text}: {part!r} is neither a number nor a range such as 1-300")
        first, last = int(span[1]), int(span[2] or span[1])
        if not 0 < first <= last < 1 << 64:
            raise BadInput(f"{flag} {text}: {part!r} is empty or not above 0")
        if len(ids) + last - first + 1 > MAX_DEVICES:
            raise BadInput(f"{flag} {text}: more than {MAX_DEVICES} devices in one process")
        ids.update(range(first, last + 1))
    return sorted(ids)


# Timed events of a network: links that are cut and mended, hosts that end or join.


def delay(text: str, flag: str, least: int = 0) -> int:
    """Parse a time, picoseconds."""
    try:
        delay_ps = parse_delay(text)
    except ValueError as error:
        raise BadInput(f"{flag}: {error}") from None
    if delay_ps < least:
        raise BadInput(f"{flag}: {text} is too short")
    return delay_ps


def rate(text: str, flag: str) -> int:
    """Parse a rate, bit/s."""
    try:
        return parse_rate(text)
    except ValueError as error:
        raise BadInput(f"{flag}: {error}") from None


def death(text: str, flag: str) -> tuple[str, str, int]:
    """Parse host, task ('': the host itself) and time from a text such as 'h3@5ms' or 'task1/h3@5ms'."""
    who, at, time = text.partition("@")
    task, _, host = who.strip().rpartition("/")
    if not at or not host:
        raise BadInput(f"{flag}: {text!r}: expected a host and a time, as in 'h3@5ms' or 'task1/h3@5ms'")
    return host, task, delay(time.strip(), flag)


def joining(text: str, flag: str) -> tuple[str, int]:
    """Parse host ('': any) and time from a text such as '2ms' or 'h5@2ms'."""
    host, _, time = text.rpartition("@")
    try:
        return host, parse_delay(time)
    except ValueError as error:
        raise BadInput(f"{flag} {text}: expected [HOST@]TIME, as 2ms or h5@2ms: {error}") from None


def link_change(text: str, flag: str) -> tuple[str, str, int]:
    """Parse both ends of a link and the time of its change from a text such as 'leaf1,spine1@5ms'."""
    ends, at, time = text.partition("@")
    names = ends.split(",")
    if not at or len(names) != 2:
        raise BadInput(f"{flag}: {text!r}: expected two nodes and a time, as in 'leaf1,spine1@5ms'")
    return names[0].strip(), names[1].strip(), delay(time.strip(), flag)


def shard_of(text: str, flag: str) -> tuple[int, int]:
    """Parse ``I/N`` into two numbers."""
    place, slash, count = text.partition("/")
    if not (slash and place.isdecimal() and count.isdecimal() and 1 <= int(place) <= int(count)):
        raise BadInput(f"{flag}: {text!r} is not I/N with I from 1 to N, such as 1/4")
    return int(place), int(count)


def folders(text: str, flag: str) -> list[Path]:
    """Parse existing folders, separated by commas."""
    paths = [Path(part) for part in texts(text, flag)]
    if gone := [path for path in paths if not path.is_dir()]:
        raise BadInput(f"{flag}: {gone[0]}: there is no such folder")
    return paths
