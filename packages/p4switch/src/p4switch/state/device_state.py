"""All that a device remembers between packets."""

import numpy as np
from numpy.typing import NDArray

from p4switch.program.program import Program
from p4switch.state.cells import Counter, Meter
from p4switch.state.layout import VALUE_SET_CELLS, Register, StateLayout, ValueSet, allocate_group
from p4switch.state.multicast import CloneSessions, Multicast
from p4switch.tables import TABLE_CELLS, Table
from p4switch.tables.profile import PROFILE_CELLS, Profile
from p4switch.tables.table import IndirectTable


class DeviceState:
    """Tables, registers, counters and multicast groups of one device.

    ``cells`` is the int64 array whose address machine code gets; see StateLayout.
    """

    def __init__(self, program: Program) -> None:
        layout = StateLayout(program)
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
        self.value_sets: dict[str, ValueSet] = {
            name: ValueSet(spec, self._part(layout.value_sets[name], VALUE_SET_CELLS))
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
        """What machine code takes as ``state``; stable for the life of the object."""
        return int(self.cells.ctypes.data)

    @property
    def failed_assertions(self) -> int:
        """How often an ``assert`` or ``assume`` failed (BMv2 aborts at the first)."""
        return int(self.cells[self._assertions])

    @failed_assertions.setter
    def failed_assertions(self, count: int) -> None:
        self.cells[self._assertions] = count

    @property
    def endless_packets(self) -> int:
        """Packets that were dropped since they went round in a pipeline more than limits.MAX_STEPS times."""
        return int(self.cells[self._endless])

    @endless_packets.setter
    def endless_packets(self, count: int) -> None:
        self.cells[self._endless] = count

    @property
    def random_state(self) -> int:
        """What the next number of ``random()`` follows from, 64 bits; 0 at the start, so that runs repeat."""
        return int(self.cells[self._random]) & ((1 << 64) - 1)

    @random_state.setter
    def random_state(self, state: int) -> None:
        self.cells[self._random : self._random + 1].view(np.uint64)[0] = state & ((1 << 64) - 1)

    def reset(self) -> None:
        """As after loading the program: no entries but constant ones, no groups, registers and counters zero."""
        for table in self.tables.values():
            table.reset()
        for profile in self.profiles.values():
            profile.reset()
        for counter in self.counters.values():
            counter.reset()
        for meter in self.meters.values():
            meter.reset()
        for value_set in self.value_sets.values():
            value_set.reset()
        self.clone_sessions.reset()
        for rows in self._rows:
            # Writing zeros to rows that no packet touched would make the system give them memory.
            rows[rows.any(axis=1)] = 0
        self.multicast.reset()
        self.failed_assertions = self.endless_packets = 0
        self.random_state = 0
