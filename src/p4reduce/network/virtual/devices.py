"""What the fabric needs of a switch (`p4switch/device.py` has it)."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from p4reduce.network.virtual.records import aligned_bytes
from p4switch.device import Device
from p4switch.state import StateLayout, layout_of
from p4switch.traffic import Digest


class ReplicaTable(Protocol):
    """Multicast groups: rows (start, count) by group, and rows (port, rid); int32, at addresses that do not move."""

    @property
    def index(self) -> NDArray[np.int32]:
        """Shape (65536, 2)."""

    @property
    def replicas(self) -> NDArray[np.int32]:
        """Shape (capacity, 2)."""


class SessionTable(Protocol):
    """Clone sessions; what they copy to themselves is group session + 1 of ``copies``."""

    @property
    def rows(self) -> NDArray[Any]:
        """Shape (32768,), of records.SESSION; at an address that does not move."""

    @property
    def copies(self) -> ReplicaTable:
        """Replicas of each session."""


class DetourTables(Protocol):
    """What the fabric needs besides for programs that clone, resubmit, recirculate, truncate or send digests."""

    @property
    def kept_bytes(self) -> int:
        """Bytes that packets keep when they come back; a multiple of 8."""

    @property
    def sessions(self) -> SessionTable:
        """Where clones go."""

    def digest(self, learn_list: int, kept: NDArray[np.uint8]) -> Digest:
        """A digest, by the number of its learn list, from the bytes that ingress kept."""


class SwitchDevice(Protocol):
    """Machine code of a P4 program and its state, as `p4switch/abi.py` describes them."""

    @property
    def ingress_address(self) -> int:
        """Address of the ingress function."""

    @property
    def egress_address(self) -> int:
        """Address of the egress function."""

    @property
    def state_address(self) -> int:
        """Address of the state."""

    @property
    def phv_bytes(self) -> int:
        """Bytes that ingress may write for a frame of abi.MAX_FRAME_BYTES; n bytes less for one shorter by n."""

    @property
    def out_bytes(self) -> int:
        """Bytes that egress may write for a frame of abi.MAX_FRAME_BYTES; likewise."""

    @property
    def detours(self) -> DetourTables | None:
        """None for a program that multicasts, forwards and drops, and nothing else."""

    @property
    def multicast(self) -> ReplicaTable:
        """Replicas of each group."""


# What egress would have made of a copy that found its queue full.
#
# Such a copy never reaches egress, and only egress knows its addresses and flags, which the accounts of first
# transmissions need. So egress runs on a shadow of the device's state: the same tables, but counters and registers
# in memory that nothing reads. The packet leaves no trace.


_COUNTER_BYTES = 16
_COUNTERS_ADDRESS = 1
"""the cell of a table that holds the address of its direct counters (p4switch/tables/table.py)"""


@runtime_checkable
class Peekable(Protocol):
    """A device of another make that has a shadow state of its own."""

    @property
    def peek_state_address(self) -> int:
        """Address of a state with the same tables, whose counters and registers are not read; asked for at each run."""


class Shadows:
    """Shadow states of a network's devices; memory of its own takes what each of them would write.

    Threads run devices at the same time, so that none may see what another one's shadow has written.
    """

    def __init__(self, devices: Mapping[str, SwitchDevice]) -> None:
        self._devices = dict(devices)
        self._peekable = {name: device for name, device in devices.items() if isinstance(device, Peekable)}
        self._layouts = {name: layout_of(d.program) for name, d in devices.items() if isinstance(d, Device)}
        self._wasted = {id(layout): _wasted(layout) for layout in {id(x): x for x in self._layouts.values()}.values()}
        self._cells: dict[str, NDArray[np.int64]] = {}
        self._waste: dict[str, NDArray[np.uint8]] = {}

    def address(self, name: str) -> int:
        """The shadow of a device, brought up to date with its tables; 0 for a device that cannot have one."""
        device = self._devices[name]
        if name in self._peekable:
            return self._peekable[name].peek_state_address
        if not isinstance(device, Device):
            return 0
        layout = self._layouts[name]
        if name not in self._cells:
            self._cells[name] = np.zeros(layout.cells, dtype=np.int64)
            self._waste[name] = aligned_bytes(_largest(layout))
        cells = self._cells[name]
        cells[:] = device.state.cells
        cells[self._wasted[id(layout)]] = self._waste[name].ctypes.data
        return int(cells.ctypes.data)


def _wasted(layout: StateLayout) -> NDArray[np.int64]:
    """Find the cells with the addresses of what a shadow writes and nothing reads."""
    cells = [first + _COUNTERS_ADDRESS for first in layout.tables.values()]
    cells += layout.counters.values()
    cells += [layout.group_cell(number) for number in range(len(layout.groups))]
    return np.array(cells, dtype=np.int64)


def _largest(layout: StateLayout) -> int:
    """Bytes of the largest counter array, table's counters, or group of registers."""
    program = layout.program
    sizes = [_COUNTER_BYTES * max(program.counters[name].size, 1) for name in layout.counters]
    sizes += [_COUNTER_BYTES * (table.max_size + 1) for table in program.tables.values()]
    sizes += [group.bytes for group in layout.groups]
    return max(sizes, default=0)
