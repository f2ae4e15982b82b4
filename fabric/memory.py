"""The event loop's memory: one record with the addresses of all arrays, kept current while they grow."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from p4reduce.fabric.errors import FabricError
from p4reduce.fabric.loop import EVENTS_PER_COPY, INCIDENTS_PER_COPY, SPARE
from p4reduce.fabric.pools import Pool, aligned_bytes
from p4reduce.fabric.records import COPY, EVENT, FRAME, INCIDENT, IO, NEVER, NONE, PHV, TAP_HEADER, WORLD

_TAP_BYTES = 1 << 22
_INCIDENTS = 1 << 14


class Memory:
    """Pools of frames, PHVs and copies, the event heap, and what the loop writes down for Python.

    ``world[0]`` is what the loop is given. Pools double when the loop says that it needs space, up to ``limit``
    bytes in all.
    """

    def __init__(self, *, max_frame: int, frame_bytes: int, phv_bytes: int, max_replicas: int, limit: int) -> None:
        self._limit = limit
        self._copies = max_replicas + SPARE  # that one event may make
        self.world: NDArray[Any] = np.zeros(1, dtype=WORLD)
        self.frames = Pool(FRAME, 2 * self._copies, frame_bytes)
        self.phvs = Pool(PHV, 64, phv_bytes)
        self.copies = Pool(COPY, self._copies)
        self.heap: NDArray[Any] = np.zeros(EVENTS_PER_COPY * self._copies, dtype=EVENT)
        self.io: NDArray[Any] = np.zeros(1, dtype=IO)
        self._tap_space = 2 * self._copies * (TAP_HEADER.itemsize + self.frames.cell_bytes)
        self.taps = aligned_bytes(_TAP_BYTES + self._tap_space)
        self.incidents: NDArray[Any] = np.zeros(_INCIDENTS + INCIDENTS_PER_COPY * self._copies, dtype=INCIDENT)
        world = self.world[0]
        for name in ("free_frame", "free_phv", "free_copy"):
            world[name] = NONE
        world["max_frame"] = max_frame
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
        """Grow what is too small for ``frames`` frames of Python's and the next event (`loop.py`, `_has_space`)."""
        world = self.world[0]
        while world["free_frames"] < 2 * self._copies + frames:
            self._grow(self.frames, "frame", "frames", "frame_bytes")
            world["frame_cell"] = self.frames.cell_bytes
        while world["free_phvs"] < SPARE:
            self._grow(self.phvs, "phv", "phvs", "phv_bytes")
            world["phv_cell"] = self.phvs.cell_bytes
        while world["free_copies"] < self._copies:
            self._grow(self.copies, "copy", "copies", None)
        while len(self.heap) - world["heap_size"] < EVENTS_PER_COPY * self._copies + frames:
            self._afford(self.heap.nbytes)
            self.heap = np.concatenate([self.heap, np.zeros_like(self.heap)])
            self._heap_moved()

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
