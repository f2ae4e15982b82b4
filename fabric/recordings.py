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


class Recordings:
    """Empties the loop's buffers after each of its runs."""

    def __init__(self, memory: Memory, nodes: int, packet_in_limit: int) -> None:
        self._memory = memory
        self._writers: list[PcapWriter] = []
        self._limit = packet_in_limit
        self._packet_ins: list[deque[PacketIn]] = [deque() for _ in range(nodes)]
        self.packet_in_drops = [0] * nodes
        self._incidents: dict[tuple[int, int, int], NDArray[np.int64]] = {}

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
            self._take(tap, time_ps, taps[begin : begin + length].tobytes())
            at = begin + (length + 7) // 8 * 8

    def _take(self, tap: int, time_ps: int, frame: bytes) -> None:
        if tap >= 0:
            self._writers[tap].write(time_ps, frame)
            return
        node = CONTROLLER_TAP - tap
        if len(self._packet_ins[node]) < self._limit:
            self._packet_ins[node].append(PacketIn(time_ps, frame))
        else:
            self.packet_in_drops[node] += 1

    def _drain_incidents(self, noted: NDArray[Any]) -> None:
        places, rows = np.unique(noted[["link", "node", "job"]], return_inverse=True)
        counts = np.zeros((len(places), 2 * INCIDENT_KINDS), dtype=np.int64)
        np.add.at(counts, (rows, noted["kind"]), 1)
        np.add.at(counts, (rows, INCIDENT_KINDS + noted["kind"]), noted["length"])
        for place, row in zip(places.tolist(), counts, strict=True):
            self._incidents[place] = self._incidents.get(place, 0) + row
