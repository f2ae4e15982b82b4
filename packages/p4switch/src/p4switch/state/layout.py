"""The memory layout of a device's state; the same for every device of a program.

Machine code gets one address, that of an array of int64 cells. The first cell counts failed assertions, the second is
the state of the random numbers, the third counts packets that took too many steps. A table has TABLE_CELLS cells, a
counter array one (the address of its counters), a group of register arrays one (the address of its rows).
"""

import math
import mmap
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from p4switch.program import program as model
from p4switch.tables import TABLE_CELLS
from p4switch.tables.profile import PROFILE_CELLS

# Parser value sets: values with which a select compares its keys.


VALUE_SET_CELLS: Final = 2
"""int64 cells in a device's state: address of the values, their number."""


class ValueSetError(ValueError):
    """A value that is too wide, or more values than the program allows."""


def value_words(width: int) -> int:
    """Returns the number of 64-bit words of a value."""
    return -(-width // 64)


class ValueSetMembers:
    """The members of one value set; a member is the concatenated keys of the select, without padding.

    ``rows``: uint64 (max_size, words), least significant word first.
    """

    def __init__(self, spec: model.ValueSet, cells: NDArray[np.int64]) -> None:
        self.spec = spec
        self._cells = cells
        self._words = value_words(spec.width)
        self.rows: NDArray[np.uint64] = np.zeros((max(spec.max_size, 1), self._words), dtype=np.uint64)
        self._values: tuple[int, ...] = ()
        self._publish()

    def __contains__(self, value: int) -> bool:
        return value in self._values

    def fits(self, value: int, mask: int) -> bool:
        """Returns whether a member equals ``value`` in the bits that ``mask`` has set."""
        return any(member & mask == value & mask for member in self._values)

    @property
    def values(self) -> tuple[int, ...]:
        """The members."""
        return self._values

    def set(self, values: Iterable[int]) -> None:
        """Replaces all members. Raises ValueSetError, and then changes nothing."""
        members = tuple(dict.fromkeys(values))
        name = self.spec.name
        if len(members) > self.spec.max_size:
            raise ValueSetError(f"value set {name}: {len(members)} members; the program allows {self.spec.max_size}")
        for value in members:
            if not 0 <= value < 1 << self.spec.width:
                raise ValueSetError(f"value set {name}: {value:#x} does not fit {self.spec.width} bits")
        self._values = members
        for row, value in enumerate(members):
            self.rows[row] = [value >> (64 * i) & ((1 << 64) - 1) for i in range(self._words)]
        self._publish()

    def reset(self) -> None:
        """Removes all members."""
        self.set(())

    def _publish(self) -> None:
        self._cells[:] = (self.rows.ctypes.data, len(self._values))


CACHE_LINE: Final = 64
LANE_BITS: Final = 32
WIDE_BITS: Final = 256
"""Values of at least this width that consist of whole 32-bit lanes are kept as vectors of lanes."""

CellKind: TypeAlias = Literal["integer", "lanes"]


def cell_kind(width: int) -> CellKind:
    """Returns how a value of a width lies in memory.

    ``lanes``: uint32 in the machine's byte order, the most significant lane first, as lanes travel in packets.
    ``integer``: one little-endian number.
    """
    return "lanes" if width >= WIDE_BITS and width % LANE_BITS == 0 else "integer"


def cell_bytes(width: int) -> int:
    """Returns the bytes of a value in memory: 1, 2, 4, 8, or above that a multiple of 8 (of 4 for lanes)."""
    if cell_kind(width) == "lanes":
        return width // 8
    for size in (1, 2, 4, 8):
        if width <= 8 * size:
            return size
    return 8 * -(-width // 64)


@dataclass(frozen=True, slots=True)
class RegisterPlace:
    """The place of a register array: cell i is at the group's address + i * stride + offset."""

    group: int
    offset: int


@dataclass(frozen=True)
class RegisterGroup:
    """Register arrays whose cells with the same index lie side by side, in a row of ``stride`` bytes."""

    registers: tuple[model.RegisterArray, ...]
    offsets: tuple[int, ...]
    stride: int
    size: int

    @property
    def bytes(self) -> int:
        """Size of all rows in bytes."""
        return self.stride * self.size


_KEPT_AS: Final = "_state_layout"


class StateLayout:
    """The cells of a program's state and the layout of its registers."""

    def __init__(self, program: model.Program) -> None:
        self.program = program
        self.failed_assertions = 0
        self.random_state = 1
        self.endless_packets = 2
        self.cells = 3
        self.tables = self._take(program.tables, TABLE_CELLS)
        self.counters = self._take((c.name for c in program.counters.values() if c.table is None), 1)
        self.meters = self._take((m.name for m in program.meters.values() if m.table is None), 1)
        self.value_sets = self._take(program.value_sets, VALUE_SET_CELLS)
        self.profiles = self._take(program.profiles, PROFILE_CELLS)
        self._first_group = self.cells
        self.cells += len(self.groups)

    def _take(self, names: Iterable[str], size: int) -> dict[str, int]:
        """Assigns ``size`` cells to each name, after the cells assigned before; returns the first cell of each."""
        first_cells = {name: self.cells + size * number for number, name in enumerate(names)}
        self.cells += size * len(first_cells)
        return first_cells

    @cached_property
    def groups(self) -> tuple[RegisterGroup, ...]:
        """The groups of register arrays that the program indexes alike."""
        return tuple(_place(members) for members in _indexed_alike(self.program))

    @cached_property
    def registers(self) -> dict[str, RegisterPlace]:
        """The place of each register array, by name."""
        return {
            register.name: RegisterPlace(number, offset)
            for number, group in enumerate(self.groups)
            for register, offset in zip(group.registers, group.offsets, strict=True)
        }

    def group_cell(self, group: int) -> int:
        """Returns the cell that holds the address of a group's rows."""
        return self._first_group + group


def layout_of(program: model.Program) -> StateLayout:
    """Returns the layout of a program. All devices of the program share it; it lives as long as the program."""
    kept = vars(program)
    if _KEPT_AS not in kept:
        kept[_KEPT_AS] = StateLayout(program)
    layout: StateLayout = kept[_KEPT_AS]
    return layout


def _place(members: tuple[model.RegisterArray, ...]) -> RegisterGroup:
    """Places wide cells first, each aligned to its size or a cache line; shared rows fill whole cache lines."""
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
            at += CACHE_LINE  # an odd number of lines, so that neighbouring rows do not share a cache set
    return RegisterGroup(tuple(order), tuple(offsets), at, order[0].size)


def _indexed_alike(program: model.Program) -> list[tuple[model.RegisterArray, ...]]:
    """Partitions the register arrays by size and index expression; of several indices, the most common one counts.

    As an index, a field that the whole program assigns from a single expression stands for that expression, because p4c
    stores equal indices in several temporaries. The partition affects speed only, never results.
    """
    definitions = _single_definitions(program)
    uses: dict[str, dict[model.Expr, None]] = {name: {} for name in program.registers}
    for action in program.actions.values():
        for primitive in action.primitives:
            if isinstance(primitive, model.RegisterRead | model.RegisterWrite):
                uses[primitive.register][_resolve(primitive.index, definitions)] = None
    shared = Counter((program.registers[name].size, index) for name, indices in uses.items() for index in indices)
    groups: dict[object, list[model.RegisterArray]] = {}
    for register in program.registers.values():
        keys = [(register.size, index) for index in uses[register.name]]
        alike = max(keys, key=lambda key: shared[key]) if keys and register.size > 1 else register.name
        groups.setdefault(alike, []).append(register)
    return [tuple(members) for members in groups.values()]


def _single_definitions(program: model.Program) -> dict[model.FieldRef, model.DataExpr]:
    assigned: dict[model.FieldRef, set[model.DataExpr]] = {}
    opaque: set[model.FieldRef] = set()
    for primitive in (step for action in program.actions.values() for step in action.primitives):
        if isinstance(primitive, model.Assign):
            assigned.setdefault(primitive.target, set()).add(primitive.value)
        elif isinstance(primitive, model.RegisterRead):
            opaque.add(primitive.target)
    return {f: next(iter(values)) for f, values in assigned.items() if len(values) == 1 and f not in opaque}


def _resolve(
    index: model.DataExpr, definitions: dict[model.FieldRef, model.DataExpr], depth: int = 0
) -> model.DataExpr:
    """Replaces fields by their only definition, a few steps deep (a definition may be circular)."""
    if isinstance(index, model.FieldRef) and depth < 4:
        definition = definitions.get(index)
        return index if definition is None else _resolve(definition, definitions, depth + 1)
    if isinstance(index, model.Arith) and index.op == "&":
        return model.Arith("&", _resolve(index.left, definitions, depth), _resolve(index.right, definitions, depth))
    return index


# The memory of register arrays.


def untouched(shape: tuple[int, ...], dtype: "np.dtype[Any] | type[Any]") -> NDArray[Any]:
    """Returns zeros whose pages take memory only once they are touched: for many switches with little state.

    The array begins at a page. (``np.zeros`` would touch pages that malloc reuses, to clear them.) Raises
    MemoryError.
    """
    size = max(1, math.prod(shape) * np.dtype(dtype).itemsize)
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"{size} bytes: {error}") from None
    return np.frombuffer(memory, dtype, math.prod(shape)).reshape(shape)


def allocate_group(group: RegisterGroup) -> NDArray[np.uint8]:
    """Returns the rows of a group, shape (size, stride)."""
    return untouched((group.size, group.stride), np.uint8)


class Array:
    """The common part of register, counter and meter arrays; ``spec`` is the program's declaration."""

    what = ""
    spec: model.RegisterArray | model.CounterArray | model.MeterArray

    @property
    def name(self) -> str:
        """Full name."""
        return self.spec.name

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.spec.size

    def checked(self, index: int) -> int:
        """Returns the index if the array has such a cell. Raises IndexError."""
        if not 0 <= index < self.size:
            raise IndexError(f"{self.what} {self.name}: index {index} is not in 0..{self.size - 1}")
        return index


class Register(Array):
    """One register array of a device: ``size`` unsigned cells of ``bitwidth`` bits."""

    what = "register"
    spec: model.RegisterArray

    def __init__(self, spec: model.RegisterArray, rows: NDArray[np.uint8], offset: int) -> None:
        """Makes a view of the bytes from ``offset`` on in each of ``rows``."""
        self.spec = spec
        self._cells = rows[:, offset : offset + cell_bytes(spec.width)]
        self._swap = cell_kind(spec.width) == "lanes"

    @property
    def bitwidth(self) -> int:
        """Width of a cell in bits."""
        return self.spec.width

    def read(self, index: int) -> int:
        """Returns the value of a cell. Raises IndexError."""
        raw = self._cells[self.checked(index)].tobytes()
        if self._swap:
            return int.from_bytes(np.frombuffer(raw, "<u4").astype(">u4").tobytes(), "big")
        return int.from_bytes(raw, "little")

    def copy(self, start: int, stop: int) -> "Register":
        """Returns a copy of the cells ``start`` to ``stop - 1``, counted from 0, that is independent of the device."""
        return Register(replace(self.spec, size=stop - start), self._cells[start:stop].copy(), 0)

    def take(self, other: "Register") -> None:
        """Copies every cell of an array of the same size and width; pages that are zero in both stay untouched."""
        rows = other._cells.any(axis=1) | self._cells.any(axis=1)
        self._cells[rows] = other._cells[rows]

    def write(self, index: int, value: int) -> None:
        """Sets a cell to ``value`` mod 2**bitwidth. Raises IndexError."""
        value &= (1 << self.bitwidth) - 1
        cell = self._cells[self.checked(index)]
        if self._swap:
            raw = np.frombuffer(value.to_bytes(len(cell), "big"), ">u4").astype("<u4").tobytes()
        else:
            raw = value.to_bytes(len(cell), "little")
        cell[:] = np.frombuffer(raw, np.uint8)

    def reset(self) -> None:
        """Sets every cell to 0."""
        self._cells[:] = 0
