"""The state that a device keeps between packets."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4switch.abi import MAX_PORT
from p4switch.program.actions import CounterArray, MeterArray
from p4switch.program.program import Program
from p4switch.state.layout import (
    VALUE_SET_CELLS,
    Array,
    Register,
    ValueSetMembers,
    allocate_group,
    layout_of,
    untouched,
)
from p4switch.tables import TABLE_CELLS, Table
from p4switch.tables.profile import METER_WORDS, PROFILE_CELLS, MeterConfig, Profile, configure, execute
from p4switch.tables.table import IndirectTable

# Multicast groups, written by the control plane and read by the compiled event loop.


MAX_GROUP: Final = 0xFFFF
"""Group numbers are 16 bits wide; 0 means no multicast."""

DEFAULT_CAPACITY: Final = 65536
"""Maximum number of replicas of all groups together, including free space between them."""


class MulticastError(ValueError):
    """A group number, port or replication id out of range, or too many replicas."""


class Multicast:
    """The multicast groups of a device: the replicas (port, rid) of each, in the order in which copies are made.

    ``index``: int32 (65536, 2): start and number of a group's replicas. ``replicas``: int32 (capacity, 2): port, rid.
    Both keep their addresses for the life of the device. Groups may be changed only between packets.
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self.index: NDArray[np.int32] = untouched((MAX_GROUP + 1, 2), np.int32)
        self.replicas: NDArray[np.int32] = untouched((capacity, 2), np.int32)
        self._groups: dict[int, tuple[tuple[int, int], ...]] = {}
        self._end = 0

    def set(self, group: int, replicas: Iterable[tuple[int, int]]) -> None:
        """Creates or replaces a group.

        Args:
            group: 1..65535.
            replicas: (port 0..511, rid 0..65535) for each copy.

        Raises:
            MulticastError: a number is out of range, or there is no room; nothing is changed.
        """
        members = tuple(replicas)
        _check(group, members)
        kept = sum(len(m) for g, m in self._groups.items() if g != group)
        if kept + len(members) > len(self.replicas):
            raise MulticastError(f"multicast group {group}: {len(members)} replicas do not fit, {kept} are in use")
        self._groups.pop(group, None)
        self.index[group] = 0
        if self._end + len(members) > len(self.replicas):
            self._compact()
        self._place(group, members)

    def delete(self, group: int) -> None:
        """Removes a group. Raises KeyError."""
        if group not in self._groups:
            raise KeyError(f"there is no multicast group {group}")
        del self._groups[group]
        self.index[group] = 0

    def get(self, group: int) -> tuple[tuple[int, int], ...]:
        """Returns the replicas of a group; none if the group does not exist."""
        return self._groups.get(group, ())

    def groups(self) -> tuple[int, ...]:
        """Returns the numbers of the groups that exist, ascending."""
        return tuple(sorted(self._groups))

    def reset(self) -> None:
        """Removes all groups."""
        self.index[list(self._groups)] = 0
        self._groups.clear()
        self._end = 0

    def _place(self, group: int, members: tuple[tuple[int, int], ...]) -> None:
        if members:
            self.replicas[self._end : self._end + len(members)] = members
        self.index[group] = (self._end, len(members))
        self._groups[group] = members
        self._end += len(members)

    def _compact(self) -> None:
        groups = dict(self._groups)
        self.reset()
        for group, members in groups.items():
            self._place(group, members)


def _check(group: int, members: tuple[tuple[int, int], ...]) -> None:
    if not 1 <= group <= MAX_GROUP:
        raise MulticastError(f"multicast group {group} is not in 1..{MAX_GROUP}")
    for port, rid in members:
        if not 0 <= port <= MAX_PORT:
            raise MulticastError(f"multicast group {group}: port {port} is not in 0..{MAX_PORT}")
        if not 0 <= rid <= 0xFFFF:
            raise MulticastError(f"multicast group {group}: replication id {rid} is not in 0..65535")


# Mirroring sessions, which say where clones go.


MAX_SESSION: Final = (1 << 15) - 1
"""BMv2 keeps 15 bits of a session's number (register_access.h)."""

_MAX_RID: Final = 0xFFFF
_ROW: Final = np.dtype([("exists", np.int32), ("group", np.int32), ("port", np.int32)])


@dataclass(frozen=True, slots=True)
class CloneSession:
    """A session: copies go to ``replicas`` first, then to a multicast group, then to ``port``; each may be missing.

    Attributes:
        group: a multicast group of the device; its replicas are looked up for each packet.
        replicas: (port, rid) of further copies, as P4Runtime gives them.
    """

    port: int | None = None
    group: int | None = None
    replicas: tuple[tuple[int, int], ...] = ()


class CloneSessions:
    """The clone sessions of a device by number. A clone to a session that does not exist is lost.

    A compiled event loop reads ``rows`` (exists, group or 0, port or -1; int32, shape (32768,)). A session's own
    replicas are group session + 1 of ``copies``. Both keep their addresses for the life of the device.
    """

    def __init__(self) -> None:
        self._sessions: dict[int, CloneSession] = {}
        self.rows: NDArray[Any] = untouched((MAX_SESSION + 1,), _ROW)
        self.copies: Final = Multicast()

    def set(self, session: int, replicas: Iterable[tuple[int, int]]) -> None:
        """Creates or replaces a session with these (port, rid) replicas. Raises MulticastError."""
        self.configure(session, CloneSession(replicas=tuple(replicas)))

    def configure(self, session: int, config: CloneSession) -> None:
        """Creates or replaces a session. Raises MulticastError if a number is out of range."""
        if not 0 <= session <= MAX_SESSION:
            raise MulticastError(f"clone session {session} is not in 0..{MAX_SESSION}")
        ports = [port for port, _ in config.replicas] + ([] if config.port is None else [config.port])
        for port in ports:
            if not 0 <= port <= MAX_PORT:
                raise MulticastError(f"clone session {session}: port {port} is not in 0..{MAX_PORT}")
        if config.group is not None and not 1 <= config.group <= MAX_GROUP:
            raise MulticastError(f"clone session {session}: multicast group {config.group} is not in 1..{MAX_GROUP}")
        for _, rid in config.replicas:
            if not 0 <= rid <= _MAX_RID:
                raise MulticastError(f"clone session {session}: replication id {rid} is not in 0..{_MAX_RID}")
        self.copies.set(session + 1, config.replicas)
        self.rows[session] = (1, config.group or 0, -1 if config.port is None else config.port)
        self._sessions[session] = config

    def delete(self, session: int) -> None:
        """Removes a session. Raises KeyError."""
        if session not in self._sessions:
            raise KeyError(f"there is no clone session {session}")
        del self._sessions[session]
        self.copies.delete(session + 1)
        self.rows[session] = 0

    def get(self, session: int) -> CloneSession | None:
        """Returns a session; None if it does not exist."""
        return self._sessions.get(session)

    def sessions(self) -> tuple[int, ...]:
        """Returns the numbers of the sessions that exist, ascending."""
        return tuple(sorted(self._sessions))

    def reset(self) -> None:
        """Removes all sessions."""
        self.rows[list(self._sessions)] = 0
        self._sessions.clear()
        self.copies.reset()


# The numbers of ``random()``: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom generators, 2014).
#
# BMv2 uses std::default_random_engine, seeded by the thread's id, so its numbers differ from run to run. Here they
# repeat, and both executors draw from one sequence, whose state is in the device.


# The memory of indirect counters.


class Counter(Array):
    """One indirect counter array of a device.

    ``cells``: uint64, shape (size, 2): packets, bytes. Bytes are those of frames as they came in, as in BMv2.
    """

    what = "counter"
    spec: CounterArray

    def __init__(self, spec: CounterArray) -> None:
        self.spec = spec
        self.cells: NDArray[np.uint64] = untouched((max(spec.size, 1), 2), np.uint64)

    def read(self, index: int) -> tuple[int, int]:
        """Returns packets and bytes of a cell. Raises IndexError."""
        packets, octets = self.cells[self.checked(index)].tolist()
        return packets, octets

    def write(self, index: int, packets: int, octets: int) -> None:
        """Sets a cell. Raises IndexError."""
        self.cells[self.checked(index)] = [packets, octets]

    def count(self, index: int, length: int) -> None:
        """Counts one packet of ``length`` bytes. Raises IndexError."""
        self.cells[self.checked(index)] += np.array([1, length], dtype=np.uint64)

    def reset(self) -> None:
        """Sets every cell to 0."""
        self.cells[self.cells.any(axis=1)] = 0


# The memory of indirect meters.


class Meter(Array):
    """An indirect meter array of a device; ``cells``: uint64, shape (size, METER_WORDS)."""

    what = "meter"
    spec: MeterArray

    def __init__(self, spec: MeterArray) -> None:
        self.spec = spec
        self.cells: NDArray[np.uint64] = np.zeros((max(spec.size, 1), METER_WORDS), dtype=np.uint64)
        self._configs: dict[int, MeterConfig] = {}

    def read(self, index: int) -> MeterConfig | None:
        """Returns the configuration of a cell; None: every packet is green. Raises IndexError."""
        return self._configs.get(self.checked(index))

    def configs(self) -> dict[int, MeterConfig]:
        """Returns the present configurations of all cells that have one, by index."""
        return dict(self._configs)

    def write(self, index: int, config: MeterConfig | None) -> None:
        """Configures a cell, its buckets full; None makes every packet green. Raises IndexError, MeterError."""
        configure(self.cells[self.checked(index)], config)
        self._configs.pop(index, None)
        if config is not None:
            self._configs[index] = config

    def execute(self, index: int, length: int, now: int) -> int:
        """Returns the color of a packet of ``length`` bytes at ``now`` microseconds. Raises IndexError."""
        return execute(self.cells[self.checked(index)], self.spec.unit, length, now)

    def reset(self) -> None:
        """Removes all configurations."""
        self.cells[:] = 0
        self._configs.clear()


MASK: Final = (1 << 64) - 1
STEP: Final = 0x9E3779B97F4A7C15
MIX: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
"""Shift and multiplier of each round; a last shift follows."""

LAST_SHIFT: Final = 31


def advance(state: int) -> int:
    """Returns the next state of the generator."""
    return (state + STEP) & MASK


def mixed(state: int) -> int:
    """Returns the 64-bit number that belongs to a state."""
    z = state
    for shift, factor in MIX:
        z = ((z ^ z >> shift) * factor) & MASK
    return z ^ z >> LAST_SHIFT


def within(number: int, low: int, high: int) -> int:
    """Maps a 64-bit number into the range ``low`` to ``high``, both included; ``high`` is not below ``low``."""
    return low + number % (high - low + 1)


class DeviceState:
    """Tables, registers, counters and multicast groups of one device.

    ``cells`` is the int64 array whose address machine code gets; see StateLayout for its contents.
    """

    def __init__(self, program: Program) -> None:
        layout = layout_of(program)
        self.cells: NDArray[np.int64] = np.zeros(layout.cells, dtype=np.int64)
        self.profiles: dict[str, Profile] = {
            name: Profile(program, spec, self._part(layout.profiles[name], PROFILE_CELLS))
            for name, spec in program.profiles.items()
        }
        self.tables: dict[str, Table] = {}
        for name, spec in program.tables.items():
            part = self._part(layout.tables[name], TABLE_CELLS)
            self.tables[name] = (
                Table(program, spec, part)
                if spec.profile is None
                else IndirectTable(program, spec, self.profiles[spec.profile], part)
            )
        self.meters: dict[str, Meter] = {}
        for name, cell in layout.meters.items():
            self.meters[name] = Meter(program.meters[name])
            self.cells[cell] = self.meters[name].cells.ctypes.data
        self.value_sets: dict[str, ValueSetMembers] = {
            name: ValueSetMembers(spec, self._part(layout.value_sets[name], VALUE_SET_CELLS))
            for name, spec in program.value_sets.items()
        }
        self.clone_sessions = CloneSessions()
        self.counters: dict[str, Counter] = {}
        for name, cell in layout.counters.items():
            self.counters[name] = Counter(program.counters[name])
            self.cells[cell] = self.counters[name].cells.ctypes.data
        self._rows = [allocate_group(group) for group in layout.groups]
        for number, rows in enumerate(self._rows):
            self.cells[layout.group_cell(number)] = rows.ctypes.data
        self.registers: dict[str, Register] = {
            name: Register(program.registers[name], self._rows[place.group], place.offset)
            for name, place in layout.registers.items()
        }
        self.multicast = Multicast()
        self._assertions = layout.failed_assertions
        self._random = layout.random_state
        self._endless = layout.endless_packets

    def _part(self, start: int, size: int) -> NDArray[np.int64]:
        return self.cells[start : start + size]

    @property
    def address(self) -> int:
        """Address that machine code takes as ``state``; fixed for the life of the object."""
        return int(self.cells.ctypes.data)

    @property
    def failed_assertions(self) -> int:
        """Number of ``assert`` and ``assume`` that failed (BMv2 aborts at the first)."""
        return int(self.cells[self._assertions])

    @failed_assertions.setter
    def failed_assertions(self, count: int) -> None:
        self.cells[self._assertions] = count

    @property
    def endless_packets(self) -> int:
        """Number of packets dropped because they took more than MAX_STEPS steps on cycles of a pipeline."""
        return int(self.cells[self._endless])

    @endless_packets.setter
    def endless_packets(self, count: int) -> None:
        self.cells[self._endless] = count

    @property
    def random_state(self) -> int:
        """State of the generator of ``random()``, 64 bits; 0 at the start, so that runs repeat."""
        return int(self.cells[self._random]) & ((1 << 64) - 1)

    @random_state.setter
    def random_state(self, state: int) -> None:
        self.cells[self._random : self._random + 1].view(np.uint64)[0] = state & ((1 << 64) - 1)

    def reset(self) -> None:
        """Restores the state after loading: constant entries only, no groups, registers and counters zero."""
        arrays = (self.counters, self.meters, self.value_sets)
        for part in (
            *self.tables.values(),
            *self.profiles.values(),
            *(array for kind in arrays for array in kind.values()),
        ):
            part.reset()
        self.clone_sessions.reset()
        for rows in self._rows:
            # Writing zeros to rows that no packet has touched would make the system allocate their pages.
            rows[rows.any(axis=1)] = 0
        self.multicast.reset()
        self.failed_assertions = self.endless_packets = 0
        self.random_state = 0
