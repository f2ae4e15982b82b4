"""Interface that the fabric requires of a switch; `p4switch/device.py` implements it."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from p4reduce.network.virtual.records import aligned_bytes
from p4switch.device import Device
from p4switch.state import StateLayout, layout_of
from p4switch.traffic import Digest


class ReplicaTable(Protocol):
    """Multicast groups: rows (start, count) by group, and rows (port, rid); int32, at fixed addresses."""

    @property
    def index(self) -> NDArray[np.int32]:
        """Shape (65536, 2)."""

    @property
    def replicas(self) -> NDArray[np.int32]:
        """Shape (capacity, 2)."""


class SessionTable(Protocol):
    """Clone sessions; a session's own replicas are group ``session + 1`` of ``copies``."""

    @property
    def rows(self) -> NDArray[Any]:
        """Shape (32768,), of records.SESSION; at a fixed address."""

    @property
    def copies(self) -> ReplicaTable:
        """Replicas of each session."""


class DetourTables(Protocol):
    """Additional interface for programs that clone, resubmit, recirculate, truncate or send digests."""

    @property
    def kept_bytes(self) -> int:
        """Bytes of the fields that packets keep when they return to ingress; a multiple of 8."""

    @property
    def sessions(self) -> SessionTable:
        """Clone sessions."""

    def digest(self, learn_list: int, kept: NDArray[np.uint8]) -> Digest:
        """Decode a digest of the learn list with this number from the bytes that ingress kept."""


class SwitchDevice(Protocol):
    """Machine code of a P4 program and its state, as described in `p4switch/abi.py`."""

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
        """Bytes that ingress may write for a frame of abi.MAX_FRAME_BYTES; n fewer for a frame shorter by n."""

    @property
    def out_bytes(self) -> int:
        """Bytes that egress may write for a frame of abi.MAX_FRAME_BYTES; n fewer for a frame shorter by n."""

    @property
    def detours(self) -> DetourTables | None:
        """Detour tables; None for a program that only multicasts, forwards and drops."""

    @property
    def multicast(self) -> ReplicaTable:
        """Replicas of each group."""


# Egress results for copies that found their queue full.
#
# Such a copy never reaches egress, but only egress can compute its addresses and flags, which the counts of first
# transmissions need. So egress runs on a shadow of the device's state: the same tables, but with counters and registers
# in memory that is never read. The packet has no effect on the device.


_COUNTER_BYTES = 16
_COUNTERS_ADDRESS = 1
"""Offset of a table's cell that holds the address of its direct counters (p4switch/tables/table.py)."""


@runtime_checkable
class Peekable(Protocol):
    """A device of another implementation that provides its own shadow state."""

    @property
    def peek_state_address(self) -> int:
        """Address of a state with the same tables, whose counters and registers are never read; queried at each run."""


class Shadows:
    """Shadow states of a network's devices, with separate memory for the counters and registers of each shadow.

    Threads run devices concurrently, so no device may see values that another device's shadow has written.
    """

    def __init__(self, devices: Mapping[str, SwitchDevice]) -> None:
        self._devices = dict(devices)
        self._peekable = {name: device for name, device in devices.items() if isinstance(device, Peekable)}
        self._layouts = {name: layout_of(d.program) for name, d in devices.items() if isinstance(d, Device)}
        self._wasted = {id(layout): _wasted(layout) for layout in {id(x): x for x in self._layouts.values()}.values()}
        self._cells: dict[str, NDArray[np.int64]] = {}
        self._waste: dict[str, NDArray[np.uint8]] = {}

    def address(self, name: str) -> int:
        """Return the address of a device's shadow, updated from its tables; 0 for a device that cannot have one."""
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
    """Return the cells that hold addresses of memory that a shadow writes but never reads."""
    cells = [first + _COUNTERS_ADDRESS for first in layout.tables.values()]
    cells += layout.counters.values()
    cells += [layout.group_cell(number) for number in range(len(layout.groups))]
    return np.array(cells, dtype=np.int64)


def _largest(layout: StateLayout) -> int:
    """Return the bytes of the largest counter array, table's counters, or group of registers."""
    program = layout.program
    sizes = [_COUNTER_BYTES * max(program.counters[name].size, 1) for name in layout.counters]
    sizes += [_COUNTER_BYTES * (table.max_size + 1) for table in program.tables.values()]
    sizes += [group.bytes for group in layout.groups]
    return max(sizes, default=0)
