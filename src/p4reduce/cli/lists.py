"""Lists on the command line: 'a,b,c', and '0..4' for numbers."""

import re
from itertools import chain

from p4reduce.base.errors import BadInput
from p4reduce.topologies import load, parse_delay
from p4reduce.topologies.model import parse_count

MAX_VALUES = 100_000
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def texts(text: str, flag: str) -> list[str]:
    """The parts of a list separated by commas, each once, in order. Raises ``BadInput``."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise BadInput(f"{flag}: expected a list such as 'a,b', nothing between its commas left out, got {text!r}")
    return list(dict.fromkeys(parts))


def integers(text: str, flag: str) -> list[int]:
    """Whole numbers: '1,2,5', '0..4' (both ends count), and units as everywhere: '64k', '1.5M', '1Mi'."""
    found = list(chain.from_iterable(_integers(part, flag) for part in texts(text, flag)))
    return list(dict.fromkeys(found))


def floats(text: str, flag: str) -> list[float]:
    """Numbers: '0,0.01,0.1'. Raises ``BadInput``."""
    try:
        return list(dict.fromkeys(float(part) for part in texts(text, flag)))
    except ValueError:
        raise BadInput(f"{flag}: expected numbers such as '0,0.01', got {text!r}") from None


def _integers(part: str, flag: str) -> list[int]:
    if (ends := _RANGE.fullmatch(part)) is not None:
        first, last = int(ends[1]), int(ends[2])
        if not first <= last < first + MAX_VALUES:
            raise BadInput(f"{flag}: {part!r} goes backwards, or has more than {MAX_VALUES} values")
        return list(range(first, last + 1))
    try:
        return [parse_count(part)]
    except ValueError as error:
        raise BadInput(f"{flag}: {error}, or a range such as '0..4'") from None


# Texts of flags that say what happens to a network, and when: links that are cut and mended, hosts that end.


def delay(text: str, flag: str, least: int) -> int:
    """A time of a flag, picoseconds; `BadInput` names the flag."""
    try:
        found = parse_delay(text)
    except ValueError as error:
        raise BadInput(f"{flag}: {error}") from None
    if found < least:
        raise BadInput(f"{flag}: {text} is too short")
    return found


def deaths(texts: list[str] | None, topology: str | None) -> list[tuple[str, str, int]]:
    """Host, task ('': the host itself) and time of each, of texts as 'h3@5ms' and 'task1/h3@5ms'."""
    known = None if topology is None else {host.name for host in load(topology).hosts}
    found = []
    for text in texts or []:
        who, at, time = text.partition("@")
        task, _, host = who.strip().rpartition("/")
        if not at or not host:
            raise BadInput(f"--kill: {text!r}: expected a host and a time, as in 'h3@5ms' or 'task1/h3@5ms'")
        if known is not None and host not in known:
            raise BadInput(f"--kill: {text!r}: {host!r} is no host of {topology}")
        found.append((host, task, delay(time.strip(), "--kill", least=0)))
    return found


def link_changes(texts: list[str] | None, flag: str, *, up: bool) -> list[tuple[str, str, bool, int]]:
    """Both ends of a link, whether it is up from then on, and when, of texts as 'leaf1,spine1@5ms'."""
    found = []
    for text in texts or []:
        ends, at, time = text.partition("@")
        names = ends.split(",")
        if not at or len(names) != 2:
            raise BadInput(f"{flag}: {text!r}: expected two nodes and a time, as in 'leaf1,spine1@5ms'")
        found.append((names[0].strip(), names[1].strip(), up, delay(time.strip(), flag, least=0)))
    return found
