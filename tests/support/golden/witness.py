"""Who is in each sum, as seen from outside: what switches took, from whom.

A worker knows of its own contribution only, and one that was aborted may not know even that; sums without lanes show
nobody. So whoever checks them asks the witness, which goes by a switch's slot before and after each packet.
"""

from tests.support.golden.frames import Frame, Kind, Packet
from tests.support.golden.graph import Graph, Node
from tests.support.golden.switch import GoldenSwitch, Slot

Spot = tuple[int, Slot | None]
"""Index of a slot, and what it held before a packet."""


class Witness:
    """Sees every packet that arrives at a switch of ``graph``."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = {node.ip: node for node in (*graph.hosts, *graph.switches)}
        self._taken: dict[tuple[Node, int, int, int], frozenset[Node]] = {}  # by switch, job, epoch, seq
        self._roots: dict[tuple[int, int], Node] = {}  # by job, epoch

    def contributors(self, job: int, epoch: int, seq: int) -> frozenset[Node]:
        """Workers whose contributions the root took that turned this chunk round."""
        return self._taken[self._roots[job, epoch], job, epoch, seq]

    def before(self, golden: GoldenSwitch, port: int, frame: Frame) -> Spot | None:
        """The slot of what may be a contribution; None for all else."""
        if not isinstance(frame, Packet) or frame.kind not in (Kind.PUSH, Kind.PULL) or frame.ip_dst != golden.ip:
            return None
        job = golden.jobs.get((frame.job, frame.epoch))
        peer = golden.peers.get((port, frame.ip_src, frame.job, frame.epoch))
        if job is None or peer is None or not peer.bit:
            return None
        index = job.base + frame.seq % job.slots
        return index, golden.slots.get(index)

    def after(self, node: Node, golden: GoldenSwitch, packet: Packet, port: int, spot: Spot) -> None:
        """The packet was accepted: notes whose contributions are in the slot that were not."""
        index, before = spot
        slot = golden.slots[index]
        bit = golden.peers[port, packet.ip_src, packet.job, packet.epoch].bit
        opened = before is None or (before.generation, before.seq) != (slot.generation, slot.seq)
        if not opened and before is not None and before.children & bit:
            return  # it was in, or had been closed out
        job, epoch, seq = packet.job, packet.epoch, packet.seq
        sender = self._nodes[packet.ip_src]
        whose = self._taken[sender, job, epoch, seq] if sender.is_switch else frozenset({sender})
        had = frozenset() if opened else self._taken[node, job, epoch, seq]
        self._taken[node, job, epoch, seq] = had | whose
        if golden.jobs[job, epoch].parent is None:
            self._roots[job, epoch] = node
