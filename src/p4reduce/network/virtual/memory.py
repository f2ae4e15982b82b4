"""Memory of the simulator, which grows between two runs of the loop: pools of records with cells, free ones chained."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.network.virtual.records import (
    CACHE_LINE,
    COPY,
    EVENT,
    FRAME,
    HOME_BIT,
    INCIDENT,
    IO,
    NEVER,
    NONE,
    OWN,
    PART,
    PARTITION,
    PHV,
    TAP_HEADER,
    WORLD,
    FabricError,
    aligned_bytes,
)

MOST_THREADS: Final = 64
"""Most threads that may share windows."""


class Pool:
    """Records with a field ``next``, and a cell of ``cell_bytes`` bytes (a multiple of 64, or 0) for each.

    ``records`` and ``cells`` are replaced when the pool grows.
    """

    def __init__(self, dtype: "np.dtype[Any]", size: int, cell_bytes: int = 0) -> None:
        self.cell_bytes = -(-cell_bytes // CACHE_LINE) * CACHE_LINE
        self.records: NDArray[Any] = np.zeros(0, dtype=dtype)
        self.cells: NDArray[np.uint8] = aligned_bytes(0)
        self._first_size = size

    def growth_bytes(self) -> int:
        """Return the bytes that the next growth would add."""
        return (self._next_size() - len(self.records)) * (self.cell_bytes + self.records.dtype.itemsize)

    def grow(self, head: int) -> tuple[int, int]:
        """Double the pool; ``head`` is the first free record or -1. Return the new head and the number of new ones."""
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
"""Cells and events that one event may need besides those of its copies."""
INCIDENTS_PER_COPY = 3
"""Most incidents of a copy: a copy that leaves at once may be duplicated and both lost; any other may be dropped."""
EVENTS_PER_COPY = 3
"""Most events of a copy: two arrivals, and one when the link is free."""
GROUPS_WITH_DETOURS = 3
"""Groups that one packet may be copied to: its own, and the two of a clone session."""

_TAP_BYTES = 1 << 22
_INCIDENTS = 1 << 14


class Memory:
    """Pools of frames, PHVs and copies, event heaps, and the loop's buffers for Python.

    ``world`` is the loop's argument: one record for each thread, the first for the thread that runs the loop. Pools
    double when the loop reports that it needs space, up to ``limit`` bytes in all.
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
        partitions: int = 1,
    ) -> None:
        """Allocate the memory; ``detours``: with space for detours, and ``kept_bytes`` of kept fields in each frame."""
        self._limit = limit
        self._copies = (GROUPS_WITH_DETOURS if detours else 1) * max_replicas + SPARE  # copies that one event may make
        # A copy that leaves needs a frame, and one for its duplicate; a copy that egress clones, a carrier and a PHV.
        self._frames_wanted = (3 if detours else 2) * self._copies
        self._phvs_wanted = SPARE + (self._copies if detours else 0)
        self._events_wanted = (EVENTS_PER_COPY + detours) * self._copies
        self.world: NDArray[Any] = aligned_bytes(MOST_THREADS * WORLD.itemsize).view(WORLD)
        self.world[:] = 0
        kept_offset = -(-frame_bytes // 8) * 8
        self.frames = Pool(FRAME, self._frames_wanted, kept_offset + kept_bytes)
        self.phvs = Pool(PHV, max(64, self._phvs_wanted), phv_bytes)
        self.copies = Pool(COPY, self._copies)
        self.heaps: list[NDArray[Any]] = [_events(2 * self._events_wanted) for _ in range(partitions + 1)]
        self._homeless = _events(self._events_wanted)
        self._parts: NDArray[Any] = aligned_bytes((partitions + 1) * PART.itemsize).view(PART)
        self._parts[:] = 0
        self._parts["seq"] = PARTITION * np.arange(partitions + 1)
        self._firsts = np.full(partitions + 1, NEVER, dtype=np.int64)
        self._signals = aligned_bytes(CACHE_LINE * (MOST_THREADS + 2)).view(np.int64)
        self._tap_space = 2 * self._copies * (TAP_HEADER.itemsize + self.frames.cell_bytes)
        self._own: list[tuple[NDArray[Any], NDArray[np.uint8], NDArray[Any]]] = []  # io, taps, incidents by thread
        world = self.world[0]
        self.world["worlds"], self.world["threads"] = self.world.ctypes.data, 1
        world["max_frame"] = max_frame
        world["kept_offset"], world["kept_bytes"] = kept_offset, kept_bytes
        world["frames_wanted"], world["phvs_wanted"] = self._frames_wanted, self._phvs_wanted
        world["copies_wanted"], world["events_wanted"] = self._copies, self._events_wanted
        world["incidents_wanted"] = INCIDENTS_PER_COPY * self._copies
        world["max_replicas"] = max_replicas
        world["until"] = NEVER
        world["tap_limit"] = _TAP_BYTES
        world["incident_limit"] = _INCIDENTS + INCIDENTS_PER_COPY * self._copies
        self.keep("signals", self._signals)
        self.keep("parts", self._parts)
        self.keep("firsts", self._firsts)
        self.keep("homeless", self._homeless)
        world["part_count"], world["heaps"] = partitions, 1
        for part, heap in enumerate(self.heaps):
            self._parts[part]["heap"], self._parts[part]["heap_capacity"] = heap.ctypes.data, len(heap)
        self.spread(1)
        world["heap"], world["heap_capacity"], world["part"] = self.heaps[0].ctypes.data, len(self.heaps[0]), 0
        self.make_space()

    def spread(self, threads: int) -> None:
        """Let ``threads`` threads, at most MOST_THREADS, share the windows from now on."""
        made = int(self.world[0]["made"])
        for world in self.world[made:threads]:
            io = np.zeros(1, dtype=IO)
            taps = aligned_bytes(_TAP_BYTES + self._tap_space)
            incidents = np.zeros(self.world[0]["incident_limit"], dtype=INCIDENT)
            self._own.append((io, taps, incidents))
            for name, array in zip(("io", "taps", "incidents"), self._own[-1], strict=True):
                world[name] = array.ctypes.data
            for name in ("free_frame", "free_phv", "free_copy", "part", "short", "sent_link", "sent_late"):
                world[name] = NONE
            world["thread"] = len(self._own) - 1
        self.world[0]["threads"], self.world[0]["made"] = threads, max(made, threads)
        self._tell()

    def _tell(self) -> None:
        """Copy the shared fields of the first world to the others that are in use."""
        others = self.world[1 : self.world[0]["made"]]
        if len(others):
            common = [name for name in WORLD.names or () if name not in OWN]
            others[common] = self.world[common][0]

    def keep(self, field: str, array: NDArray[Any]) -> None:
        """Pass an array's address to the loop; the caller keeps the array alive."""
        self.world[0][field] = array.ctypes.data

    def written(self) -> Iterator[tuple[NDArray[np.uint8], NDArray[Any]]]:
        """Yield the frames and incidents that each thread has recorded, and clear its buffers."""
        for world, (_, taps, incidents) in zip(self.world, self._own, strict=False):
            yield taps[: world["tap_used"]], incidents[: world["incident_count"]]
            world["tap_used"] = world["incident_count"] = 0

    def make_space(self, frames: int = 0) -> None:
        """Grow all that is too small for ``frames`` frames from Python and the next event (`loop.py`, `has_space`)."""
        first = self.world[0]
        if first["homeless_count"]:
            homeless = self._homeless[: first["homeless_count"]].copy()
            first["homeless_count"] = 0
            self._settle(homeless)
        for world in self.world[: first["threads"]]:
            while world["free_frames"] < self._frames_wanted + frames:
                self._grow(world, self.frames, "frame", "frames", "frame_bytes")
                first["frame_cell"] = self.frames.cell_bytes
            while world["free_phvs"] < self._phvs_wanted:
                self._grow(world, self.phvs, "phv", "phvs", "phv_bytes")
                first["phv_cell"] = self.phvs.cell_bytes
            while world["free_copies"] < self._copies:
                self._grow(world, self.copies, "copy", "copies", None)
            for part in {int(world["part"]), int(world["short"])} - {NONE}:
                self._park()
                if self._parts[part]["heap_capacity"] - self._parts[part]["heap_size"] < self._events_wanted:
                    self._grow_heap(part)
            world["short"], frames = NONE, 0
        self._tell()

    def regroup(self, heaps: int) -> None:
        """Keep events in one heap, or in one for each partition, from now on. The results do not depend on it."""
        world = self.world[0]
        if world["heaps"] == heaps:
            return
        self._park()
        sizes = self._parts["heap_size"].tolist()
        events = np.concatenate([heap[:size] for heap, size in zip(self.heaps[:-1], sizes[:-1], strict=True)])
        self._parts["heap_size"][:-1], self._firsts[:-1] = 0, NEVER
        world["part"], world["heap_size"], world["heaps"] = 0 if heaps == 1 else NONE, 0, heaps
        self._settle(events)
        self.make_space()

    def _settle(self, events: NDArray[Any]) -> None:
        """Put events into their heaps, and grow these as needed."""
        world = self.world[0]
        self._park()
        homes = events["what"] >> HOME_BIT
        if world["heaps"] == 1:
            homes[homes < world["part_count"]] = 0
        for part in np.unique(homes).tolist():
            size = int(self._parts[part]["heap_size"])
            both = np.concatenate([self.heaps[part][:size], events[homes == part]])
            while len(self.heaps[part]) - len(both) < self._events_wanted:
                self._grow_heap(part)
            # A sorted array is a heap.
            self.heaps[part][: len(both)] = both[np.lexsort((both["seq"], both["since"], both["time"]))]
            self._parts[part]["heap_size"], self._firsts[part] = len(both), self.heaps[part][0]["time"]
        if world["part"] >= 0:
            for name in ("heap", "heap_size", "heap_capacity"):
                world[name] = self._parts[world["part"]][name]

    def _park(self) -> None:
        world = self.world[0]
        if world["part"] >= 0:
            self._parts[world["part"]]["heap_size"] = world["heap_size"]

    def watch(self, unfinished: NDArray[Any]) -> None:
        """Set the number of watched endpoints that still work in each of the first partitions; 0 in the others."""
        self._parts["unfinished"] = 0
        self._parts["unfinished"][: len(unfinished)] = unfinished

    def place_frame(self, frame: bytes) -> int:
        """Copy a frame from Python, at most ``max_frame`` long, into a cell; return its index."""
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

    def _grow(self, world: Any, pool: Pool, free: str, records: str, cells: str | None) -> None:
        self._afford(pool.growth_bytes())
        world[f"free_{free}"], added = pool.grow(int(world[f"free_{free}"]))
        world[f"free_{records}"] += added
        self.keep(records, pool.records)
        if cells is not None:
            self.keep(cells, pool.cells)

    def _afford(self, more: int) -> None:
        pools = (self.frames, self.phvs, self.copies)
        needed = more + sum(heap.nbytes for heap in self.heaps)
        needed += sum(pool.records.nbytes + pool.cells.nbytes for pool in pools)
        if needed > self._limit:
            raise FabricError(
                f"frames in queues and on links need {needed:,} bytes of memory, memory_limit is {self._limit:,}: "
                "raise memory_limit, or let fewer frames wait (queue_frames, windows)"
            )

    def _grow_heap(self, part: int) -> None:
        self._afford(self.heaps[part].nbytes)
        old, new = self.heaps[part], _events(2 * len(self.heaps[part]))
        new[: len(old)] = old
        self.heaps[part] = new
        for place in (self._parts[part], *([self.world[0]] if self.world[0]["part"] == part else [])):
            place["heap"], place["heap_capacity"] = new.ctypes.data, len(new)


def _events(count: int) -> NDArray[Any]:
    return aligned_bytes(count * EVENT.itemsize).view(EVENT)
