"""The event loop's memory: one record with the addresses of all arrays, kept current while they grow."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from p4reduce.network.virtual.faults import FabricError
from p4reduce.network.virtual.records import COPY, EVENT, FRAME, INCIDENT, IO, NEVER, NONE, PHV, TAP_HEADER, WORLD

# Memory that grows between two runs of the loop: records, each with a cell of bytes, chained while free.


CACHE_LINE = 64


def aligned_bytes(count: int) -> NDArray[np.uint8]:
    """Uninitialized bytes, beginning at a cache line. Pages that are never touched cost nothing."""
    memory = np.empty(count + CACHE_LINE, dtype=np.uint8)
    first = -memory.ctypes.data % CACHE_LINE
    return memory[first : first + count]


class Pool:
    """Records with a field ``next``, and for each of them ``cell_bytes`` bytes (a multiple of 64, or 0).

    ``records`` and ``cells`` are replaced when the pool grows.
    """

    def __init__(self, dtype: "np.dtype[Any]", size: int, cell_bytes: int = 0) -> None:
        self.cell_bytes = -(-cell_bytes // CACHE_LINE) * CACHE_LINE
        self.records: NDArray[Any] = np.zeros(0, dtype=dtype)
        self.cells: NDArray[np.uint8] = aligned_bytes(0)
        self._first_size = size

    def growth_bytes(self) -> int:
        """Bytes that growing once more would add."""
        return (self._next_size() - len(self.records)) * (self.cell_bytes + self.records.dtype.itemsize)

    def grow(self, head: int) -> tuple[int, int]:
        """Double the pool; ``head`` is the first free record or -1. Returns the new head and how many are new."""
        old, new = len(self.records), self._next_size()
        records = np.zeros(new, dtype=self.records.dtype)
        records[:old] = self.records
        records["next"][old:] = np.arange(old + 1, new + 1)
        records["next"][new - 1] = head
        cells = aligned_bytes(new * self.cell_bytes)
        cells[: len(self.cells)] = self.cells
        self.records, self.cells = records, cells
        return old, new - old

    def _next_size(self) -> int:
        return max(2 * len(self.records), self._first_size)


SPARE = 8
"""cells and events that one event may need besides those of its copies"""
INCIDENTS_PER_COPY = 3
"""a copy that leaves at once may be duplicated, and both of it lost; one that does not, dropped"""
EVENTS_PER_COPY = 3
"""two arrivals, and one when the link is free"""
GROUPS_WITH_DETOURS = 3
"""groups that one packet may be copied to: its own, and the two of a clone session"""

_TAP_BYTES = 1 << 22
_INCIDENTS = 1 << 14


class Memory:
    """Pools of frames, PHVs and copies, the event heap, and what the loop writes down for Python.

    ``world[0]`` is what the loop is given. Pools double when the loop says that it needs space, up to ``limit``
    bytes in all.
    """

    def __init__(
        self,
        *,
        max_frame: int,
        frame_bytes: int,
        phv_bytes: int,
        max_replicas: int,
        limit: int,
        detours: bool = False,
        kept_bytes: int = 0,
    ) -> None:
        """``detours``: room for what programs do that leave the straight path, ``kept_bytes`` of them in each frame."""
        self._limit = limit
        self._copies = (GROUPS_WITH_DETOURS if detours else 1) * max_replicas + SPARE  # that one event may make
        # A copy that leaves has a frame, and its duplicate on the link; one that egress clones, a carrier and a PHV.
        self._frames_wanted = (3 if detours else 2) * self._copies
        self._phvs_wanted = SPARE + (self._copies if detours else 0)
        self._events_wanted = (EVENTS_PER_COPY + detours) * self._copies
        self.world: NDArray[Any] = np.zeros(1, dtype=WORLD)
        kept_offset = -(-frame_bytes // 8) * 8
        self.frames = Pool(FRAME, self._frames_wanted, kept_offset + kept_bytes)
        self.phvs = Pool(PHV, max(64, self._phvs_wanted), phv_bytes)
        self.copies = Pool(COPY, self._copies)
        self.heap: NDArray[Any] = np.zeros(self._events_wanted, dtype=EVENT)
        self.io: NDArray[Any] = np.zeros(1, dtype=IO)
        self._tap_space = 2 * self._copies * (TAP_HEADER.itemsize + self.frames.cell_bytes)
        self.taps = aligned_bytes(_TAP_BYTES + self._tap_space)
        self.incidents: NDArray[Any] = np.zeros(_INCIDENTS + INCIDENTS_PER_COPY * self._copies, dtype=INCIDENT)
        world = self.world[0]
        for name in ("free_frame", "free_phv", "free_copy"):
            world[name] = NONE
        world["max_frame"] = max_frame
        world["kept_offset"], world["kept_bytes"] = kept_offset, kept_bytes
        world["frames_wanted"], world["phvs_wanted"] = self._frames_wanted, self._phvs_wanted
        world["copies_wanted"], world["events_wanted"] = self._copies, self._events_wanted
        world["incidents_wanted"] = INCIDENTS_PER_COPY * self._copies
        world["max_replicas"] = max_replicas
        world["until"] = NEVER
        world["tap_limit"] = _TAP_BYTES
        world["incident_limit"] = len(self.incidents)
        self.keep("io", self.io)
        self.keep("taps", self.taps)
        self.keep("incidents", self.incidents)
        self._heap_moved()
        self.make_space()

    def keep(self, field: str, array: NDArray[Any]) -> None:
        """Tell the loop where an array is; the caller keeps it alive."""
        self.world[0][field] = array.ctypes.data

    def make_space(self, frames: int = 0) -> None:
        """Grow what is too small for ``frames`` frames of Python's and the next event (`loop.py`, `has_space`)."""
        world = self.world[0]
        while world["free_frames"] < self._frames_wanted + frames:
            self._grow(self.frames, "frame", "frames", "frame_bytes")
            world["frame_cell"] = self.frames.cell_bytes
        while world["free_phvs"] < self._phvs_wanted:
            self._grow(self.phvs, "phv", "phvs", "phv_bytes")
            world["phv_cell"] = self.phvs.cell_bytes
        while world["free_copies"] < self._copies:
            self._grow(self.copies, "copy", "copies", None)
        while len(self.heap) - world["heap_size"] < self._events_wanted + frames:
            self._afford(self.heap.nbytes)
            self.heap = np.concatenate([self.heap, np.zeros_like(self.heap)])
            self._heap_moved()

    def place_frame(self, frame: bytes) -> int:
        """Put a frame of Python's, at most ``max_frame`` long, into a cell; its index."""
        self.make_space(frames=1)
        world = self.world[0]
        place = int(world["free_frame"])
        record = self.frames.records[place]
        world["free_frame"] = record["next"]
        world["free_frames"] -= 1
        record["length"], record["damaged"] = len(frame), 0
        begin = place * self.frames.cell_bytes
        self.frames.cells[begin : begin + len(frame)] = np.frombuffer(frame, dtype=np.uint8)
        return place

    def _grow(self, pool: Pool, free: str, records: str, cells: str | None) -> None:
        self._afford(pool.growth_bytes())
        world = self.world[0]
        world[f"free_{free}"], added = pool.grow(int(world[f"free_{free}"]))
        world[f"free_{records}"] += added
        self.keep(records, pool.records)
        if cells is not None:
            self.keep(cells, pool.cells)

    def _afford(self, more: int) -> None:
        pools = (self.frames, self.phvs, self.copies)
        needed = more + self.heap.nbytes + sum(pool.records.nbytes + pool.cells.nbytes for pool in pools)
        if needed > self._limit:
            raise FabricError(
                f"frames in queues and on links need {needed:,} bytes of memory, memory_limit is {self._limit:,}: "
                "raise memory_limit, or let fewer frames wait (queue_frames, windows)"
            )

    def _heap_moved(self) -> None:
        self.keep("heap", self.heap)
        self.world[0]["heap_capacity"] = len(self.heap)
