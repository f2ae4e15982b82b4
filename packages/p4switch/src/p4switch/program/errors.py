"""Errors of compiled P4 programs, limits, and access to the JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from p4switch.base.errors import InputError


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """A place in the P4 source, as p4c wrote it into the JSON."""

    file: str
    line: int
    column: int
    fragment: str = ""

    def __str__(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"


class ProgramError(InputError, ValueError):
    """JSON that p4c does not emit for BMv2: a missing key, a dangling reference, a wrong type."""


class UnsupportedConstruct(ProgramError):
    """A construct that the embedded switch does not run.

    Attributes:
        what: the construct, by its name in P4 or in the BMv2 JSON.
        where: the program element that uses it.
        source: the line of the P4 source, if p4c recorded it.
    """

    def __init__(self, what: str, where: str, source: SourceInfo | None = None) -> None:
        self.what = what
        self.where = where
        self.source = source
        at = f" ({source})" if source is not None else ""
        super().__init__(f"{what} is not supported by the embedded switch; used in {where}{at}")


# Limits of a program. A program that exceeds one is refused when it is loaded, with the name of the element.
#
# p4c's tests and the programs of this repository stay far below. The limits keep a hand-made JSON file within the
# memory, the stack and the time of the process that runs it.


MAX_BITS: Final = 1 << 16
"""Bits of a field, a register's cell, a parameter, a constant or a cast: 8 KiB."""

MAX_FIELD_BITS: Final = 1 << 20
"""Bits of all fields of all instances together: machine code may keep them on the stack, 128 KiB."""

MAX_STATE_BYTES: Final = 1 << 34
"""Bytes of all registers, counters, meters and value sets of a device; pages take memory when packets touch them."""

MAX_INDEX: Final = (1 << 32) - 1
"""Cells of an array: an index has 32 bits."""

MAX_DEPTH: Final = 250
"""Depth of nested operators; public exercises have up to 129."""

FRAMES: Final = 20 * MAX_DEPTH
"""Python frames that a walk over the deepest expression needs, besides those of its callers."""

MAX_WEIGHT: Final = 1 << 13
"""Operands and operators of an expression, counted as often as they are written out: a choice among the elements of a
stack repeats its operands for each element."""

MAX_WEIGHTS: Final = 1 << 18
"""Operands and operators of all expressions of a program, counted in the same way."""

MAX_NODES: Final = 1 << 16
"""Tables, conditions, parser states, primitives and headers together."""

MAX_STEPS: Final = 1 << 15
"""Steps of one packet in one pipeline: visits to nodes that lie on a cycle, and backward jumps of its actions."""

MAX_NUMBER: Final = (1 << 31) - 1
"""Ids, priorities and error codes: int in BMv2 and P4Runtime."""

MAX_LOOKAHEAD_OFFSET: Final = 1 << 17
"""Bits between the parser's position and the bits that lookahead reads; frames are shorter."""

SHIFT_MASK: Final = (1 << 32) - 1
"""BMv2 takes shift amounts modulo 2**32."""

MAX_SHIFT: Final = 1 << 16
"""Shifts by more bits give the same result in any field, but would fill the memory."""


# Access to p4c's JSON; errors name the place.


Json: TypeAlias = Mapping[str, Any]
T = TypeVar("T")


def get(obj: Json, key: str, kind: type[T], where: str) -> T:
    """Returns ``obj[key]``, checked to be of a type. Raises ProgramError."""
    if key not in obj:
        raise ProgramError(f"{where}: key {key!r} is missing; is this a BMv2 JSON file written by p4c-bm2-ss?")
    value = obj[key]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ProgramError(f"{where}: {key!r} is {type(value).__name__}, expected {kind.__name__}")
    return value


def optional(obj: Json, key: str, kind: type[T], where: str) -> T | None:
    """Returns ``obj[key]``, checked to be of a type; None if the key is missing or null. Raises ProgramError."""
    if obj.get(key) is None:
        return None
    return get(obj, key, kind, where)


def objects(obj: Json, key: str, where: str) -> list[Json]:
    """Returns a list of JSON objects; empty if the key is missing. Raises ProgramError."""
    items = optional(obj, key, list, where)
    if items is None:
        return []
    for item in items:
        if not isinstance(item, dict):
            raise ProgramError(f"{where}: {key!r} holds {type(item).__name__}, expected objects")
    return items


def each(obj: Json, section: str, what: str, where: str = "program") -> Iterator[tuple[str, str, Json]]:
    """Yields, for each object of a section, its name, its name in messages, and the object."""
    for item in objects(obj, section, where):
        name = get(item, "name", str, section)
        yield name, f"{what} {name!r}", item


def source_of(obj: Json) -> SourceInfo | None:
    """Returns the P4 source line of an element; None if p4c wrote none."""
    info = obj.get("source_info")
    if not isinstance(info, dict):
        return None
    return SourceInfo(
        str(info.get("filename", "?")),
        int(info.get("line", 0)),
        int(info.get("column", 0)),
        str(info.get("source_fragment", "")),
    )


def hexstr(text: object, where: str) -> int:
    """Returns a number in BMv2's notation: hexadecimal, ``0x`` optional, a minus sign allowed."""
    if not isinstance(text, str):
        raise ProgramError(f"{where}: {text!r} is not a hexadecimal string")
    try:
        return int(text, 16)
    except ValueError:
        raise ProgramError(f"{where}: {text!r} is not a hexadecimal string") from None


def pair(value: object, where: str) -> tuple[Any, Any]:
    """Returns a JSON array of two as a pair. Raises ProgramError."""
    if not isinstance(value, list) or len(value) != 2:
        raise ProgramError(f"{where}: {value!r} is not a pair")
    return value[0], value[1]


def number(value: object, where: str) -> int:
    """Returns an integer of the JSON. Raises ProgramError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ProgramError(f"{where}: {value!r} is not a number")
    return value


# Steps of a program that one packet may repeat. They are found once, so that only these are counted.


def cyclic(following: Mapping[str, Sequence[str | None]]) -> frozenset[str]:
    """Returns the nodes on cycles, or between cycles, of a graph; ``following``: successors of each, None for the end.

    First nodes without successors are removed repeatedly, then nodes without predecessors. The rest lies on a cycle or
    on a path between two cycles.
    """
    left = {name: {n for n in names if n is not None} for name, names in following.items()}
    for _ in range(2):
        left = _peeled(left)
        turned: dict[str, set[str]] = {name: set() for name in left}
        for name, names in left.items():
            for other in names:
                turned[other].add(name)
        left = turned
    return frozenset(left)


def _peeled(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Returns the graph without the nodes from which no cycle can be reached."""
    before: dict[str, list[str]] = {name: [] for name in graph}
    for name, names in graph.items():
        for other in names:
            before[other].append(name)
    open_ways = {name: len(names) for name, names in graph.items()}
    ends = [name for name, count in open_ways.items() if count == 0]
    gone = set(ends)
    while ends:
        for name in before[ends.pop()]:
            open_ways[name] -= 1
            if open_ways[name] == 0:
                gone.add(name)
                ends.append(name)
    return {name: names - gone for name, names in graph.items() if name not in gone}
