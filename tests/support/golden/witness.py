"""The witness records whose contributions are in each sum.

A worker knows of its own contribution only, and a sum without lanes does not show its contributors. The witness
compares a switch's slot before and after each packet.
"""

from tests.support.golden.frames import Frame, Kind, Packet
from tests.support.golden.graph import Graph, Node
from tests.support.golden.switch import GoldenSwitch, Slot

Spot = tuple[int, Slot | None]
"""index of a slot, and its content before a packet"""


class Witness:
    """A record of the contributions that switches of ``graph`` accepted."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = {node.ip: node for node in (*graph.hosts, *graph.switches)}
        self._taken: dict[tuple[Node, int, int, int], frozenset[Node]] = {}  # by switch, job, epoch, seq
        self._roots: dict[tuple[int, int], Node] = {}  # by job, epoch

    def contributors(self, job: int, epoch: int, seq: int) -> frozenset[Node]:
        """Return the workers whose contributions are in the root's sum of a chunk."""
        return self._taken[self._roots[job, epoch], job, epoch, seq]

    def before(self, golden: GoldenSwitch, port: int, frame: Frame) -> Spot | None:
        """Return the slot to which a packet may contribute, before the switch receives it; None for other packets."""
        if not isinstance(frame, Packet) or frame.kind not in (Kind.PUSH, Kind.PULL) or frame.ip_dst != golden.ip:
            return None
        job = golden.jobs.get((frame.job, frame.epoch))
        peer = golden.peers.get((port, frame.ip_src, frame.job, frame.epoch))
        if job is None or peer is None or not peer.bit:
            return None
        index = job.base + frame.seq % job.slots
        return index, golden.slots.get(index)

    def after(self, node: Node, golden: GoldenSwitch, packet: Packet, port: int, spot: Spot) -> None:
        """Record the contributions that an accepted packet added to its slot."""
        index, before = spot
        slot = golden.slots[index]
        bit = golden.peers[port, packet.ip_src, packet.job, packet.epoch].bit
        opened = before is None or (before.generation, before.seq) != (slot.generation, slot.seq)
        if not opened and before is not None and before.children & bit:
            return  # the contribution was in, or the chunk was closed without it
        job, epoch, seq = packet.job, packet.epoch, packet.seq
        sender = self._nodes[packet.ip_src]
        whose = self._taken[sender, job, epoch, seq] if sender.is_switch else frozenset({sender})
        had = frozenset() if opened else self._taken[node, job, epoch, seq]
        self._taken[node, job, epoch, seq] = had | whose
        if golden.jobs[job, epoch].parent is None:
            self._roots[job, epoch] = node
