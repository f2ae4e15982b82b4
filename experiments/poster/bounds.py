"""The least time that a round can take on a plan's trees: serialization on the busiest link, and depth.

Written S for the time that a model's C full frames take on a host's link (S/b), the bound of a round without
aggregation is n * S at the global model's link and the way there and back; with aggregation S on a worker's link (k * S
on a link that k edges of the tree cross) and the way there and back. Nothing else is assumed: frames may come in any
order, hosts and switches take no time, queues are as long as needed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from p4reduce.control_plane.frames import HEADER_BYTES, chunks, frame_time_ps
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.predict import Operation
from p4reduce.topologies.model import Hop

Edge = tuple[str, str]


@dataclass(frozen=True)
class Span:
    """A link in one direction of a round: how many edges of the tree cross it, and how far it is from both ends."""

    copies: int
    head_ps: int
    """from the phase's start until the first frame has crossed the link"""
    tail_ps: int
    """from the last frame's crossing to the phase's end"""
    time_ps: int
    """of a frame on the link"""

    def lasts(self, chunks: int) -> int:
        """The phase takes at least so long for so many chunks."""
        return self.head_ps + (self.copies * chunks - 1) * self.time_ps + self.tail_ps


@dataclass(frozen=True)
class Phase:
    """One direction of a round."""

    spans: Mapping[Hop, Span]
    one_ps: int
    """what a chunk alone takes"""
    farthest_ps: int
    """what a frame alone takes on the longest way"""

    def lasts(self, chunks: int) -> int:
        """Least time for so many chunks."""
        return max(span.lasts(chunks) for span in self.spans.values())


@dataclass(frozen=True)
class Limits:
    """What a plan's trees allow."""

    bound_ps: int
    """lower bound of a round"""
    ordered_ps: int
    """the same where hosts add up and the server answers all workers of a chunk before those of the next"""
    chunk_ps: int
    """by how much it grows with one more chunk: what that takes on the busiest link"""


def limits(plan: Plan, operation: Operation, elements: int) -> Limits:
    """The least time from the workers' start to the last worker's result, picoseconds.

    U_1 and U_C: one chunk and all chunks from every worker to the server; D_1 and D_C: down to every worker. The last
    chunk goes down after it came up, and nothing goes down before the first came up: T >= max(U_C + D_1, U_1 + D_C).
    A link that carries both ways in one direction (edges of an overlay that double back) carries their sum.
    """
    count = chunks(elements, plan.lanes)
    if plan.ring:
        return _ring(plan, count)
    up = _up(plan, HEADER_BYTES if operation is Operation.PULL else plan.frame_bytes)
    down = _down(plan, HEADER_BYTES if operation is Operation.PUSH else plan.frame_bytes)
    times = [up.lasts(count) + down.one_ps, up.one_ps + down.lasts(count)]
    for hop in up.spans.keys() & down.spans.keys():
        there, back = up.spans[hop], down.spans[hop]
        busy = count * (there.copies * there.time_ps + back.copies * back.time_ps)
        first = min(there.time_ps, back.time_ps)
        tail = min(there.tail_ps + down.one_ps, back.tail_ps)
        times.append(min(there.head_ps, up.one_ps + back.head_ps) - first + busy + tail)
    per_chunk: Counter[Hop] = Counter()
    for phase in (up, down):
        for hop, span in phase.spans.items():
            per_chunk[hop] += span.copies * span.time_ps
    bound = max(times)
    return Limits(bound, max(bound, _ordered(plan, up, down, count)), max(per_chunk.values()))


def _ring(plan: Plan, count: int) -> Limits:
    """Of a ring of N hosts: 2 (N - 1) ceil(C / N) frames on every stream, and a piece's way round.

    A link that k streams cross is busy for k times that, after a frame has come to it and before it comes to the
    stream's end. The last piece to be summed passes 2 (N - 1) hosts one after the other, wherever it begins.
    """
    n = len(plan.ring)
    if n == 1:
        return Limits(0, 0, 0)
    edges = _Edges(plan, plan.edges, plan.frame_bytes)
    frames = 2 * (n - 1) * -(-count // n)
    times = []
    for hop, crossing in edges.crossing.items():
        head = min(before for _, before, _ in crossing) - edges.time[hop]
        tail = min(after for _, _, after in crossing)
        times.append(head + len(crossing) * frames * edges.time[hop] + tail)
    streams = list(edges.latency.values())
    times.append(2 * sum(streams) - 2 * max(streams))
    busiest = max(len(crossing) * edges.time[hop] for hop, crossing in edges.crossing.items())
    bound = max(times)
    return Limits(bound, bound, -(-2 * (n - 1) * busiest // n))


def _ordered(plan: Plan, up: Phase, down: Phase, count: int) -> int:
    """Least time of a host-side server that answers chunk by chunk; 0 for aggregation in the network.

    Nothing goes down before the first chunk has come up from the farthest worker, U_1. The last chunk's first answer
    leaves behind n(C - 1) others, and may be the one for the farthest worker: T >= U_1 + n(C - 1) t + D. In any order
    the farthest worker's answers could all leave first; where the way is long against n * S that is what tells
    ``bound_ps`` and this apart.
    """
    if plan.in_network or plan.server is None:
        return 0
    own = down.spans[(plan.server, 1)]
    return up.one_ps + (count - 1) * own.copies * own.time_ps + down.farthest_ps


class _Edges:
    """Times along the edges of a plan, one direction; all picoseconds for frames of one length."""

    def __init__(self, plan: Plan, edges: Iterable[Edge], length: int) -> None:
        self.time: dict[Hop, int] = {}
        self.latency: dict[Edge, int] = {}
        self.crossing: dict[Hop, list[tuple[Edge, int, int]]] = {}
        """for each link the edges that cross it: until a frame has crossed it, and from there to the edge's end"""
        for edge in edges:
            hops = plan.path_hops(*edge)
            passed = 0
            reached = []
            for hop in hops:
                link = plan.topology.link_at(*hop)
                if hop not in self.time:
                    self.time[hop] = frame_time_ps(length, link.rate_bps)
                passed += self.time[hop] + link.delay_ps
                reached.append(passed)
            self.latency[edge] = passed
            for hop, before in zip(hops, reached, strict=True):
                self.crossing.setdefault(hop, []).append((edge, before, passed - before))


def _up(plan: Plan, length: int) -> Phase:
    """From the workers to the server. An aggregator sends a chunk when it has it from all its children."""
    edges = _Edges(plan, plan.edges, length)
    above = dict(plan.edges)
    below = _children(plan)
    ready: dict[str, int] = dict.fromkeys(plan.workers, 0)
    onward: dict[str, int] = {}

    def when(node: str) -> int:
        if node not in ready:
            ready[node] = max(when(child) + edges.latency[child, node] for child in below[node])
        return ready[node]

    def to_top(node: str) -> int:
        if node not in onward:
            parent = above.get(node)
            onward[node] = 0 if parent is None else edges.latency[node, parent] + to_top(parent)
        return onward[node]

    spans = {}
    for hop, crossing in edges.crossing.items():
        head = min(when(child) + before for (child, _), before, _ in crossing)
        tail = min(after + to_top(parent) for (_, parent), _, after in crossing)
        spans[hop] = Span(len(crossing), head, tail, edges.time[hop])
    top = when(plan.server or plan.root)
    return Phase(spans, top, top)


def _down(plan: Plan, length: int) -> Phase:
    """From the server to all workers."""
    edges = _Edges(plan, [(parent, child) for child, parent in plan.edges], length)
    above = dict(plan.edges)
    below = _children(plan)
    arrived: dict[str, int] = {}
    farthest: dict[str, int] = {}

    def when(node: str) -> int:
        if node not in arrived:
            parent = above.get(node)
            arrived[node] = 0 if parent is None else when(parent) + edges.latency[parent, node]
        return arrived[node]

    def to_last(node: str) -> int:
        if node not in farthest:
            children = below.get(node, ())
            farthest[node] = max((edges.latency[node, child] + to_last(child) for child in children), default=0)
        return farthest[node]

    spans = {}
    for hop, crossing in edges.crossing.items():
        head = min(when(parent) + before for (parent, _), before, _ in crossing)
        tail = min(after + to_last(child) for (_, child), _, after in crossing)
        spans[hop] = Span(len(crossing), head, tail, edges.time[hop])
    longest = max(when(worker) for worker in plan.workers)
    return Phase(spans, max(longest, *(span.lasts(1) for span in spans.values())), longest)


def _children(plan: Plan) -> dict[str, list[str]]:
    below: dict[str, list[str]] = {}
    for child, parent in plan.edges:
        below.setdefault(parent, []).append(child)
    return below
