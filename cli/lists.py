"""Lists on the command line: 'a,b,c', and '0..4' for numbers."""

import re
from itertools import chain

from p4reduce.cli.failures import BadInput
from p4reduce.topologies.units import parse_count

MAX_VALUES = 100_000
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def texts(text: str, flag: str) -> list[str]:
    """The parts of a list separated by commas, each once, in order. Raises ``BadInput``."""
    parts = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not parts:
        raise BadInput(f"{flag}: expected a list such as 'a,b', got {text!r}")
    return parts


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
