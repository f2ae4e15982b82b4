"""What the network counted."""

import struct
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p4reduce.network.virtual.memory import Memory
from p4reduce.network.virtual.records import CONTROLLER_TAP, INCIDENT_KINDS, LINK_COUNTERS, TAP_HEADER
from p4reduce.topologies.model import Hop
from p4switch.base.files import naming
from p4switch.base.units import NS_PER_S, PS_PER_NS


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """One direction of a link. Bytes are those of frames without FCS, times picoseconds.

    frames + duplicated = delivered + lost + corrupted + dark_lost + those still on their way. To and from a
    cross-connect there is a link each; frames are sent once, on the first, where all faults happen.
    """

    frames: int
    """put on the link by its sender"""
    bytes: int
    inc_first_frames: int
    """INC packets that are sent for the first time"""
    inc_first_bytes: int
    inc_resend_frames: int
    """INC packets with the resend flag"""
    inc_resend_bytes: int
    delivered: int
    """arrived undamaged at the other end"""
    lost: int
    duplicated: int
    """frames of which the link made a second copy"""
    reordered: int
    """delayed so that others may overtake"""
    corrupted: int
    """arrived with a wrong frame check sequence, and were dropped"""
    queue_drops: int
    """found their queue before the link full"""
    unattributed: int
    """of those, the ones for which nobody can say what they would have been"""
    egress_drops: int
    """were dropped by the program's egress when it was their turn"""
    busy_ps: int
    """time in which the link carried frames, with preambles and gaps"""
    max_depth: int
    """most frames that waited for the link at once"""
    dark_lost: int = 0
    """of a link to a cross-connect: a bit of them met a mirror that was dark, or turned"""
    misrouted: int = 0
    """of a link to a cross-connect: delivered, but to another switch than their MAC address names; of frames whose
    address is no node's, to another one than the circuit led to when they were queued"""


@dataclass(frozen=True, slots=True)
class DeviceCounters:
    """One switch, in frames."""

    passes: int
    """through ingress"""
    ingress_drops: int
    """by the program, or frames it does not take"""
    copies: int
    """made for output ports: 1 for each unicast frame, n for each multicast"""
    no_link_drops: int
    """copies for a port that has no link, and that were not recirculated"""
    priority_drops: int
    """copies of a priority that has no queue"""
    replica_drops: int
    """copies of groups larger than ``max_replicas``"""
    oversize_drops: int
    """frames that egress made longer than ``max_frame``; they are among ``egress_drops`` of the link too"""
    packet_ins: int
    """sent to the controller"""
    clones: int
    """for sessions that exist, by ingress and egress"""
    resubmitted: int
    recirculated: int
    digests: int
    round_drops: int
    """came back too often (`egress.MAX_ROUNDS`)"""


@dataclass(frozen=True, slots=True)
class HostCounters:
    """One host, in frames."""

    claimed: int
    """taken by an endpoint"""
    unclaimed: int
    """for no endpoint"""


class Where(NamedTuple):
    """Where first transmissions of INC met something: the link, and what they were."""

    port: Hop
    destination: str
    """Name of the node that they are addressed to; '' if it is no node."""
    job: int


@dataclass(frozen=True, slots=True)
class Incidents:
    """What happened at one link to first transmissions of one job for one destination, in frames and their bytes.

    ``duplicated``, ``lost`` and ``corrupted`` frames are in the link's own counts, and later links see one more or one
    less; those ``queue_dropped`` are not in the link's count either.
    """

    duplicated: int = 0
    lost: int = 0
    corrupted: int = 0
    queue_dropped: int = 0
    duplicated_bytes: int = 0
    lost_bytes: int = 0
    corrupted_bytes: int = 0
    queue_dropped_bytes: int = 0


class LinkView(Mapping[Hop, LinkCounters]):
    """Counters of every link by the (node, port) that it leaves; read when asked for."""

    def __init__(self, records: NDArray[Any], places: Mapping[Hop, int]) -> None:
        self._records = records
        self._places = places

    def __getitem__(self, port: Hop) -> LinkCounters:
        record = self._records[self._places[port]]
        return LinkCounters(*(int(record[name]) for name in LINK_COUNTERS))

    def __iter__(self) -> Iterator[Hop]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def records(self) -> NDArray[Any]:
        """A copy of the loop's own records (``records.LINK``), queues among them; rows as :meth:`row` says."""
        return self._records.copy()

    def row(self, port: Hop) -> int:
        """Where the link that leaves by a port is in :meth:`records`."""
        return self._places[port]

    def array(self) -> NDArray[Any]:
        """A copy of all counters, one record for each link, in the order of iteration."""
        counted = np.empty(len(self._places), dtype=[(name, np.int64) for name in LINK_COUNTERS])
        order = list(self._places.values())
        for name in LINK_COUNTERS:
            counted[name] = self._records[name][order]
        return counted


# Writing pcap files with nanosecond time stamps, which Wireshark, tcpdump and Scapy open.
#
# Format: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/ (magic number 0xA1B23C4D, link type 1: Ethernet).


MAGIC_NANOSECONDS: Final = 0xA1B23C4D
SNAP_LENGTH: Final = 65535
LINKTYPE_ETHERNET: Final = 1

_FILE_HEADER: Final = struct.Struct("<IHHiIII")
_RECORD_HEADER: Final = struct.Struct("<IIII")


class PcapWriter:
    """A pcap file that is being written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb")
        self._file.write(_FILE_HEADER.pack(MAGIC_NANOSECONDS, 2, 4, 0, 0, SNAP_LENGTH, LINKTYPE_ETHERNET))

    def write(self, time_ps: int, frame: bytes) -> None:
        """Append a frame; its time is cut to whole nanoseconds."""
        seconds, nanoseconds = divmod(time_ps // PS_PER_NS, NS_PER_S)
        with naming(self.path):
            self._file.write(_RECORD_HEADER.pack(seconds, nanoseconds, len(frame), len(frame)) + frame)

    def flush(self) -> None:
        """Bring everything to the file."""
        with naming(self.path):
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        with naming(self.path):
            self._file.close()

    def __enter__(self) -> "PcapWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_frames(path: Path) -> list[bytes]:
    """The frames of a file that `PcapWriter` wrote, as far as it is written."""
    data, at, frames = path.read_bytes(), _FILE_HEADER.size, []
    while at + _RECORD_HEADER.size <= len(data):
        length = _RECORD_HEADER.unpack_from(data, at)[2]
        at += _RECORD_HEADER.size
        frames.append(data[at : at + length])
        at += length
    return frames


# What the loop wrote down, taken over by Python: captures, packets for the controller, incidents.


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
