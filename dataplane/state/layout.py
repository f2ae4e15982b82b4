"""Where the state of a device lies in memory; the same for every device of a program.

Machine code gets one address: an array of int64 cells. The first counts failed assertions, the second is the
state of the random numbers, the third counts packets that went round too often. A table has TABLE_CELLS
cells, a counter array one (the address of its counters), a group of register arrays one (the address of its rows).
"""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, TypeAlias

from p4reduce.dataplane.model.actions import Action, Assign, RegisterRead, RegisterWrite
from p4reduce.dataplane.model.expressions import Arith, DataExpr, Expr, FieldRef
from p4reduce.dataplane.model.externs import RegisterArray
from p4reduce.dataplane.model.program import Program
from p4reduce.dataplane.state.value_sets import VALUE_SET_CELLS
from p4reduce.dataplane.tables import TABLE_CELLS
from p4reduce.dataplane.tables.profile import PROFILE_CELLS

CACHE_LINE: Final = 64
LANE_BITS: Final = 32
WIDE_BITS: Final = 256
"""From this width on, values that are whole lanes of 32 bits are kept as vectors of lanes."""

CellKind: TypeAlias = Literal["integer", "lanes"]


def cell_kind(width: int) -> CellKind:
    """How a value of a width lies in memory.

    ``lanes``: uint32 in the machine's byte order, the most significant lane first, as lanes travel in packets.
    ``integer``: one little-endian number.
    """
    return "lanes" if width >= WIDE_BITS and width % LANE_BITS == 0 else "integer"


def cell_bytes(width: int) -> int:
    """Bytes of a value in memory: 1, 2, 4, 8, or a multiple of 8 above (of 4 for lanes)."""
    if cell_kind(width) == "lanes":
        return width // 8
    for size in (1, 2, 4, 8):
        if width <= 8 * size:
            return size
    return 8 * -(-width // 64)


@dataclass(frozen=True, slots=True)
class RegisterPlace:
    """Where a register array lies: cell i is at the group's address + i * stride + offset."""

    group: int
    offset: int


@dataclass(frozen=True)
class RegisterGroup:
    """Register arrays whose cells of one index lie side by side, in a row of ``stride`` bytes."""

    registers: tuple[RegisterArray, ...]
    offsets: tuple[int, ...]
    stride: int
    size: int

    @property
    def bytes(self) -> int:
        """Bytes of all rows."""
        return self.stride * self.size


class StateLayout:
    """The cells of a program's state and the layout of its registers."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.tables: dict[str, int] = {}
        self.counters: dict[str, int] = {}
        self.failed_assertions = 0
        self.random_state = 1
        self.endless_packets = 2
        at = 3
        for name in program.tables:
            self.tables[name] = at
            at += TABLE_CELLS
        for counter in program.counters.values():
            if counter.table is None:
                self.counters[counter.name] = at
                at += 1
        self.meters: dict[str, int] = {}
        for meter in program.meters.values():
            if meter.table is None:
                self.meters[meter.name] = at
                at += 1
        self.value_sets: dict[str, int] = {}
        for name in program.value_sets:
            self.value_sets[name] = at
            at += VALUE_SET_CELLS
        self.profiles: dict[str, int] = {}
        for name in program.profiles:
            self.profiles[name] = at
            at += PROFILE_CELLS
        self._first_group = at
        self.cells = at + len(self.groups)

    @cached_property
    def groups(self) -> tuple[RegisterGroup, ...]:
        """Register arrays that the program indexes alike share a group."""
        return tuple(_place(members) for members in _indexed_alike(self.program))

    @cached_property
    def registers(self) -> dict[str, RegisterPlace]:
        """The place of each register array by name."""
        return {
            register.name: RegisterPlace(number, offset)
            for number, group in enumerate(self.groups)
            for register, offset in zip(group.registers, group.offsets, strict=True)
        }

    def group_cell(self, group: int) -> int:
        """The cell with the address of a group's rows."""
        return self._first_group + group


def _place(members: tuple[RegisterArray, ...]) -> RegisterGroup:
    """Wide cells first, each aligned to its size or a cache line; rows are whole cache lines where they share them."""
    order = sorted(members, key=lambda r: -cell_bytes(r.width))
    offsets, at = [], 0
    for register in order:
        align = min(CACHE_LINE, 1 << (cell_bytes(register.width) - 1).bit_length())
        at = -(-at // align) * align
        offsets.append(at)
        at += cell_bytes(register.width)
    if len(order) > 1 or at >= CACHE_LINE:
        at = -(-at // CACHE_LINE) * CACHE_LINE
        if (at // CACHE_LINE) % 2 == 0:
            at += CACHE_LINE  # an odd number of lines, so that neighbouring rows do not fall into one cache set
    return RegisterGroup(tuple(order), tuple(offsets), at, order[0].size)


def _indexed_alike(program: Program) -> list[tuple[RegisterArray, ...]]:
    """Partition of the register arrays by size and index expression; of several, the one that most others have, too.

    An index that is a field assigned from one expression only, in the whole program, stands for that expression:
    p4c gives equal indices several temporaries. The partition decides about speed only, never about results.
    """
    definitions = _single_definitions(program)
    uses: dict[str, dict[Expr, None]] = {name: {} for name in program.registers}
    for action in program.actions.values():
        for primitive in action.primitives:
            if isinstance(primitive, RegisterRead | RegisterWrite):
                uses[primitive.register][_resolve(primitive.index, definitions)] = None
    shared = Counter((program.registers[name].size, index) for name, indices in uses.items() for index in indices)
    groups: dict[object, list[RegisterArray]] = {}
    for register in program.registers.values():
        keys = [(register.size, index) for index in uses[register.name]]
        alike = max(keys, key=lambda key: shared[key]) if keys and register.size > 1 else register.name
        groups.setdefault(alike, []).append(register)
    return [tuple(members) for members in groups.values()]


def _single_definitions(program: Program) -> dict[FieldRef, DataExpr]:
    found: dict[FieldRef, set[DataExpr]] = {}
    opaque: set[FieldRef] = set()
    for action in program.actions.values():
        _collect(action, found, opaque)
    return {f: next(iter(values)) for f, values in found.items() if len(values) == 1 and f not in opaque}


def _collect(action: Action, found: dict[FieldRef, set[DataExpr]], opaque: set[FieldRef]) -> None:
    for primitive in action.primitives:
        match primitive:
            case Assign(target=target, value=value):
                found.setdefault(target, set()).add(value)
            case RegisterRead(target=target):
                opaque.add(target)
            case _:
                pass


def _resolve(index: DataExpr, definitions: dict[FieldRef, DataExpr], depth: int = 0) -> DataExpr:
    """Follows fields to their only definition, a few steps deep (a definition may be circular)."""
    if isinstance(index, FieldRef) and depth < 4:
        definition = definitions.get(index)
        return index if definition is None else _resolve(definition, definitions, depth + 1)
    if isinstance(index, Arith) and index.op == "&":
        return Arith("&", _resolve(index.left, definitions, depth), _resolve(index.right, definitions, depth))
    return index
