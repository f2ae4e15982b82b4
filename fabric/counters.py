"""What the network counted."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p4reduce.fabric.records import LINK_COUNTERS
from p4reduce.topologies.model import Hop


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
