"""What the loop wrote down, taken over by Python: captures, packets for the controller, incidents."""

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p4reduce.fabric.counters import Incidents
from p4reduce.fabric.memory import Memory
from p4reduce.fabric.pcap import PcapWriter
from p4reduce.fabric.records import CONTROLLER_TAP, INCIDENT_KINDS, TAP_HEADER


@dataclass(frozen=True, slots=True)
class PacketIn:
    """A frame that a switch sent to the controller, and when (virtual picoseconds)."""

    time_ps: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class RawDigest:
    """A digest of a switch: which, when (virtual picoseconds), and the bytes that its ingress kept."""

    learn_list: int
    time_ps: int
    kept: NDArray[np.uint8]


class Recordings:
    """Empties the loop's buffers after each of its runs."""

    def __init__(self, memory: Memory, nodes: int, packet_in_limit: int, *, epoch_ps: int = 0) -> None:
        """``epoch_ps``: added to the loop's time in capture files."""
        self._memory = memory
        self._epoch_ps = epoch_ps
        self._writers: list[PcapWriter] = []
        self._limit = packet_in_limit
        self._packet_ins: list[deque[PacketIn]] = [deque() for _ in range(nodes)]
        self.packet_in_drops = [0] * nodes
        self._digests: list[deque[RawDigest]] = [deque() for _ in range(nodes)]
        self.digest_drops = [0] * nodes
        self._incidents: dict[tuple[int, int, int], NDArray[np.int64]] = {}

    def follow(self, memory: Memory) -> None:
        """Go on with other buffers; those from before must be drained."""
        self._memory = memory

    def open(self, path: Path) -> int:
        """Begin a pcap file; the number of its tap."""
        self._writers.append(PcapWriter(path))
        return len(self._writers) - 1

    def close(self) -> None:
        """Finish all pcap files."""
        for writer in self._writers:
            writer.close()

    def packet_ins(self, node: int) -> list[PacketIn]:
        """Take the frames that a switch sent to the controller."""
        waiting = self._packet_ins[node]
        taken = list(waiting)
        waiting.clear()
        return taken

    def digests(self, node: int) -> list[RawDigest]:
        """Take the digests that a switch sent."""
        waiting = self._digests[node]
        taken = list(waiting)
        waiting.clear()
        return taken

    def incidents(self) -> dict[tuple[int, int, int], Incidents]:
        """By link, destination (node, or -1 if the address is of no node) and job."""
        return {place: Incidents(*counts.tolist()) for place, counts in sorted(self._incidents.items())}

    def drain(self) -> None:
        """Take over what is in the buffers; they are empty afterwards."""
        world = self._memory.world[0]
        if world["tap_used"]:
            self._drain_taps(self._memory.taps[: world["tap_used"]])
            world["tap_used"] = 0
            for writer in self._writers:
                writer.flush()
        if world["incident_count"]:
            self._drain_incidents(self._memory.incidents[: world["incident_count"]])
            world["incident_count"] = 0

    def _drain_taps(self, taps: NDArray[np.uint8]) -> None:
        at = 0
        while at < len(taps):
            begin = at + TAP_HEADER.itemsize
            tap, time_ps, length = taps[at:begin].view(np.int64).tolist()
            learn_list, node = divmod(CONTROLLER_TAP - tap, len(self._digests)) if tap < 0 else (0, 0)
            if learn_list:
                self._learn(node, RawDigest(learn_list, time_ps, taps[begin : begin + length].copy()))
            else:
                self._take(tap, time_ps, taps[begin : begin + length].tobytes())
            at = begin + (length + 7) // 8 * 8

    def _take(self, tap: int, time_ps: int, frame: bytes) -> None:
        if tap >= 0:
            self._writers[tap].write(self._epoch_ps + time_ps, frame)
            return
        node = CONTROLLER_TAP - tap
        if len(self._packet_ins[node]) < self._limit:
            self._packet_ins[node].append(PacketIn(time_ps, frame))
        else:
            self.packet_in_drops[node] += 1

    def _learn(self, node: int, digest: RawDigest) -> None:
        if len(self._digests[node]) < self._limit:
            self._digests[node].append(digest)
        else:
            self.digest_drops[node] += 1

    def _drain_incidents(self, noted: NDArray[Any]) -> None:
        places, rows = np.unique(noted[["link", "node", "job"]], return_inverse=True)
        counts = np.zeros((len(places), 2 * INCIDENT_KINDS), dtype=np.int64)
        np.add.at(counts, (rows, noted["kind"]), 1)
        np.add.at(counts, (rows, INCIDENT_KINDS + noted["kind"]), noted["length"])
        for place, row in zip(places.tolist(), counts, strict=True):
            self._incidents[place] = self._incidents.get(place, 0) + row
