"""Counters of switches as the P4 program indexes them, and predictions of traffic and times to compare with them."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

import finsy as fy
import numpy as np
import numpy.typing as npt
from finsy.p4entity import P4Entity

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans.plan import Plan
from p4reduce.control_plane.plans.problem import ACK_EVERY
from p4reduce.control_plane.plans.routes import HEADER_BYTES, chunks, frame_bytes, frame_time_ps, hops
from p4reduce.topologies.model import Hop, Topology

# The bytes that a collective sends over every link, predicted before it runs.


class Operation(StrEnum):
    """The collectives."""

    ALL_REDUCE = "all_reduce"
    PUSH = "push"
    PULL = "pull"
    PUSH_PULL = "push_pull"
    BARRIER = "barrier"
    ALL_TO_ALL = "all_to_all"


@dataclass(frozen=True, slots=True)
class Traffic:
    """INC frames sent for the first time, and their bytes without FCS."""

    frames: int = 0
    bytes: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.frames + other.frames, self.bytes + other.bytes)

    def __sub__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.frames - other.frames, self.bytes - other.bytes)


@dataclass(frozen=True, slots=True)
class FrameExchange:
    """Frames of a collective between a child and its parent: with and without lanes, up and down."""

    up_full: int
    up_empty: int
    down_full: int
    down_empty: int


def exchange(plan: Plan, operation: Operation, elements: int, lead: int | None = None) -> FrameExchange:
    """The frames on every edge of a tree or star.

    Parameters
    ----------
    plan : Plan
        A plan of a tree or star.
    operation : Operation
        The collective.
    elements : int
        Numbers that each worker sends or receives; ignored for a barrier.
    lead : int
        Number of chunks whose exponent is agreed ahead by an empty PUSH and an empty RESULT (block floating point; all
        chunks if there are fewer). None: the plan's window. 0: a fixed scale. A star ignores it.

    Raises
    ------
    PlanError
        When the operation needs a server that the plan lacks.
    """
    if operation not in (Operation.ALL_REDUCE, Operation.BARRIER) and plan.server is None:
        raise PlanError(f"{operation} needs a parameter server; the plan of job {plan.job} has none")
    if operation is Operation.BARRIER:
        return FrameExchange(0, 1, 0, 1)
    full = _chunks(plan, elements)
    if operation is Operation.PULL:
        return FrameExchange(0, full, full, 0)
    ahead = min(plan.lead if lead is None else lead, full) if plan.in_network else 0
    if operation is Operation.PUSH:
        return FrameExchange(full, ahead, 0, full + ahead)
    return FrameExchange(full, ahead, full, ahead)


def predict(plan: Plan, operation: Operation | str, elements: int, *, lead: int | None = None) -> dict[Hop, Traffic]:
    """First transmissions of one collective on every directed link of the topology.

    A ring sends 2 (n-1) ceil(C/n) full frames from every worker to the next, and acknowledges
    :data:`~p4reduce.control_plane.plans.problem.ACK_EVERY` of them with one empty frame. Trees and stars: see
    :func:`exchange`, which also explains the parameters. A barrier of a ring is an all-reduce of one element. In an
    all-to-all of n workers ``elements`` are n equal blocks; each ordered pair is a stream of one block's frames,
    acknowledged as in the ring.

    Returns
    -------
    dict
        (node, port) -> Traffic, with zeros for links that carry nothing.

    Raises
    ------
    PlanError
        When the plan does not support the operation.
    """
    total = {end: Traffic() for link in plan.topology.links for end in ((link.a, link.port_a), (link.b, link.port_b))}
    for (source, destination), traffic in _flows(plan, Operation(operation), elements, lead).items():
        for hop in plan.path_hops(source, destination):
            total[hop] += traffic
    return total


def _flows(plan: Plan, operation: Operation, elements: int, lead: int | None) -> dict[tuple[str, str], Traffic]:
    """Traffic of every ordered pair of nodes that the plan joins."""
    flows: Counter[tuple[str, str, int]] = Counter()
    full, empty = frame_bytes(plan.lanes), HEADER_BYTES
    if plan.mesh != (operation is Operation.ALL_TO_ALL):
        raise PlanError(f"plan {plan.name!r} of job {plan.job} cannot do {operation}")
    if plan.mesh:
        n = len(plan.workers)
        if elements % n:
            raise PlanError(f"elements: {elements} are no equal blocks for {n} workers")
        frames = _chunks(plan, elements // n)
        for source, destination in plan.edges:
            flows[(source, destination, full)] += frames
            flows[(destination, source, empty)] += -(-frames // ACK_EVERY)
    elif plan.ring:
        if operation not in (Operation.ALL_REDUCE, Operation.BARRIER):
            raise PlanError(f"a ring does all_reduce, not {operation}; use plan 'ps' or a tree with a server")
        n = len(plan.ring)
        count = _chunks(plan, 1 if operation is Operation.BARRIER else elements)
        frames = 2 * (n - 1) * -(-count // n)
        for child, parent in plan.edges:
            flows[(child, parent, full)] += frames
            flows[(parent, child, empty)] += -(-frames // ACK_EVERY)
    else:
        share = exchange(plan, operation, elements, lead)
        for child, parent in plan.edges:
            flows[(child, parent, full)] += share.up_full
            flows[(child, parent, empty)] += share.up_empty
            flows[(parent, child, full)] += share.down_full
            flows[(parent, child, empty)] += share.down_empty
    total: dict[tuple[str, str], Traffic] = {}
    for (source, destination, length), frames in flows.items():
        known = total.get((source, destination), Traffic())
        total[(source, destination)] = known + Traffic(frames, frames * length)
    return total


def add(*predictions: Mapping[Hop, Traffic]) -> dict[Hop, Traffic]:
    """The sum of several predictions: of successive collectives, or of several jobs."""
    total: dict[Hop, Traffic] = {}
    for prediction in predictions:
        for hop, traffic in prediction.items():
            total[hop] = total.get(hop, Traffic()) + traffic
    return total


def _chunks(plan: Plan, elements: int) -> int:
    if elements < 1:
        raise PlanError(f"elements: {elements} is too few; a collective moves at least one")
    return chunks(elements, plan.lanes)


# Lower bounds on the time of a collective: on the links of a plan, and with any plan at all.
#
# Both count whole frames on the wire, with headers, preamble and gap, and leave out delays, acknowledgements and frames
# without lanes: no run can be faster, whatever the links' rates are.


MOST_UNITS = 2**31 - 1
"""largest capacity of a link in scipy's maximum flow, which counts in int32"""


@dataclass(frozen=True, slots=True)
class PlanBound:
    """The least time of a collective with a plan, and the directed link that determines it."""

    time_ps: int
    hop: Hop
    """of several equally slow links, the first in the order of the plan's edges"""
    copies: Fraction
    """k_l: full frames that cross the link for each chunk, both phases added"""


def plan_bound(plan: Plan, elements: int, operation: Operation = Operation.ALL_REDUCE) -> PlanBound:
    """The least time of a collective with a plan: max over directed links l of C k_l t_l.

    C is the number of chunks, k_l the number of full frames on link l for each chunk, t_l the time of one frame on it.
    k_l is 1 on each edge of a tree in each direction, n on the link of a star's server in each direction, and
    2 (n-1)/n on an edge of a ring. In an all-to-all, C is the number of chunks of a block, and each pair sends one
    frame for each of them. Edges that share a link add up. A barrier is bounded by its empty frames.

    Raises
    ------
    PlanError
        When the plan does not support the operation, or there are no elements.
    """
    return parts_bound([(plan, elements)], operation)


def parts_bound(parts: Sequence[tuple[Plan, int]], operation: Operation = Operation.ALL_REDUCE) -> PlanBound:
    """The least time of a collective whose parts run at the same time, each with a separate plan.

    Adds up the loads of all parts on a link of :func:`plan_bound`; ``copies`` refers to a chunk of the whole.

    Parameters
    ----------
    parts : sequence of (Plan, int)
        Plans on one topology, and the float32 elements of each part.
    operation : Operation
        The collective.
    """
    busy: dict[Hop, Fraction] = {}
    frames: dict[Hop, Fraction] = {}
    whole = 0
    for plan, elements in parts:
        loads, count, length = _loads(plan, elements, operation)
        whole += count
        for hop, copies in loads.items():
            frames[hop] = frames.get(hop, Fraction(0)) + copies * count
            took = copies * count * frame_time_ps(length, plan.topology.link_at(*hop).rate_bps)
            busy[hop] = busy.get(hop, Fraction(0)) + took
    if not busy:  # a single worker uses no link
        return PlanBound(0, (parts[0][0].workers[0], 1), Fraction(0))
    hop = max(busy, key=lambda link: busy[link])
    least = busy[hop]
    return PlanBound(-(-least.numerator // least.denominator), hop, frames[hop] / whole)


def _loads(plan: Plan, elements: int, operation: Operation) -> tuple[dict[Hop, Fraction], int, int]:
    """Frames of a chunk on each directed link in the order of the plan's edges, number of chunks, bytes of a frame."""
    count = _chunks(plan, elements)
    length = plan.frame_bytes
    loads: Counter[Hop] = Counter()
    share = Fraction(1)
    if plan.mesh:
        if operation is not Operation.ALL_TO_ALL or elements % len(plan.workers):
            raise PlanError(f"plan {plan.name!r} does all_to_all, of equal blocks for {len(plan.workers)} workers")
        count = chunks(elements // len(plan.workers), plan.lanes)
        for edge in plan.edges:
            loads.update(plan.path_hops(*edge))
    elif plan.ring:
        for edge in plan.edges:
            loads.update(plan.path_hops(*edge))
        share = Fraction(2 * (len(plan.ring) - 1), len(plan.ring))
    else:
        frames = exchange(plan, operation, elements, lead=0)
        up, down = bool(frames.up_full), bool(frames.down_full)
        if operation is Operation.BARRIER:
            up, down, count, length = True, True, 1, frame_bytes(0)
        for child, parent in plan.edges:
            if up:
                loads.update(plan.path_hops(child, parent))
            if down:
                loads.update(plan.path_hops(parent, child))
    return {hop: share * number for hop, number in loads.items()}, count, length


_BINS: Final = 2048
_REPAIRS: Final = 1e-9
"""largest probability of a run of losses of one frame on a hop that the model leaves out"""


def lossy_bound_ps(bound_ps: int, loss: float, parts: Sequence[tuple[Plan, int]], operation: Operation) -> int:
    """Expected least time in ps of a collective when every link loses a share of its frames.

    The bound of :func:`parts_bound` is divided by 1 - loss, since each lost frame is sent once more on its own link;
    the tail is added: the delay of the last complete chunk against a run without losses. Repairs are ideal and hop by
    hop: the far end of a link notices a missing frame when it is due, and receives it after a round trip of this link
    plus the frame's time; the number of losses in a row is geometrically distributed. A chunk is complete at a switch
    when all children have delivered it, and complete as a whole when all workers have it. Chunks follow each other at
    the pace of the busiest link, so early chunks have time for their repairs. For a ring the tail of its last step
    counts. Delays are rounded down to 1/2048 of the longest delay in the model.

    Parameters
    ----------
    bound_ps : int
        The least time without losses.
    loss : float
        Share of frames that every link loses, in (0, 1).
    parts : sequence of (Plan, int)
        As in :func:`parts_bound`; the longest tail of all parts counts.
    operation : Operation
        The collective.
    """
    paced_ps = bound_ps / (1 - loss)
    counts = [_loads(plan, elements, operation)[1] for plan, elements in parts]
    tail = max(_tail_ps(plan, loss, paced_ps, n, operation) for (plan, _), n in zip(parts, counts, strict=True))
    return math.ceil(paced_ps + tail)


def _tail_ps(plan: Plan, loss: float, paced_ps: float, count: int, operation: Operation) -> float:
    """The tail in ps of one part, whose ``count`` chunks are evenly spaced over ``paced_ps``."""
    apart_ps = paced_ps / count
    length = plan.frame_bytes if operation is not Operation.BARRIER else frame_bytes(0)

    def trips(source: str, destination: str) -> tuple[int, ...]:
        links = (plan.topology.link_at(*hop) for hop in plan.path_hops(source, destination))
        return tuple(sorted(2 * link.delay_ps + frame_time_ps(length, link.rate_bps) for link in links))

    below: dict[str, list[str]] = {}
    if not (plan.mesh or plan.ring):
        for child, parent in plan.edges:
            below.setdefault(parent, []).append(child)
    # A tree of (round trips to a node, subtrees below it), for each phase; equal subtrees are computed once.
    ways: list[Any] = [tuple((trips(*edge), ()) for edge in plan.edges)]
    if below:
        top = next(parent for parent in below if parent not in {child for child, _ in plan.edges})

        def lay(node: str, *, up: bool) -> Any:
            ends = [(child, (child, node) if up else (node, child)) for child in below.get(node, ())]
            return tuple(sorted((trips(*pair), lay(child, up=up)) for child, pair in ends))

        share = exchange(plan, operation, 1, lead=0)
        both = operation is Operation.BARRIER
        ways = [lay(top, up=up) for up, has in ((True, share.up_full), (False, share.down_full)) if has or both]
    repairs = max(math.ceil(math.log(_REPAIRS) / math.log(loss)), 1)
    unit = repairs * sum(map(_longest, ways)) / _BINS
    masses = np.zeros(_BINS)
    masses[0] = 1.0
    known: dict[Any, npt.NDArray[np.float64]] = {}
    for way in ways:
        masses = _later(masses, np.diff(_complete(way, loss, repairs, unit, known), prepend=0.0))
    whole = np.cumsum(masses)
    # The j-th chunk from the end delays the whole only if it is late by more than j * apart_ps.
    in_time = np.ones(_BINS)
    back = np.arange(min(count, int(_BINS * unit / apart_ps) + 1))
    for shift, times in zip(*np.unique((back * apart_ps / unit).astype(int), return_counts=True), strict=True):
        in_time[: _BINS - shift] *= whole[shift:] ** times
    return float((1 - in_time).sum() * unit)


def _longest(way: Any) -> int:
    return max((sum(trips) + _longest(below) for trips, below in way), default=0)


def _later(lag: npt.NDArray[np.float64], other: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Distribution of the sum of two delays; the last bin also holds all longer sums."""
    size = 2 * len(lag)
    both: npt.NDArray[np.float64] = np.fft.irfft(np.fft.rfft(lag, size) * np.fft.rfft(other, size), size)[: len(lag)]
    both[-1] += max(1.0 - both.sum(), 0.0)
    return both


def _complete(way: Any, loss: float, repairs: int, unit: float, known: dict[Any, Any]) -> npt.NDArray[np.float64]:
    """Cumulative probability, by bin of delay, that a chunk has arrived over all branches."""
    if way not in known:
        arrived = np.ones(_BINS)
        for trips, below in way:
            masses = np.diff(_complete(below, loss, repairs, unit, known), prepend=0.0)
            for trip in trips:
                if (trip, unit) not in known:
                    times = np.minimum((np.arange(repairs + 1) * trip / unit).astype(int), _BINS - 1)
                    hop = np.zeros(_BINS)
                    np.add.at(hop, times, (1 - loss) * loss ** np.arange(repairs + 1))
                    known[trip, unit] = hop
                masses = _later(masses, known[trip, unit])
            arrived *= np.cumsum(masses)
        known[way] = arrived
    return known[way]  # type: ignore[no-any-return]


def task_bound_ps(topology: Topology, workers: Iterable[str], elements: int, lanes: int) -> int:
    """The least time in ps of an all-reduce of these workers with any plan: C t / (least maximum flow of two of them).

    Wherever aggregation takes place, one worker's result depends on all of another's C chunks, so C full frames cross
    every cut between the two (Ford and Fulkerson, Maximal flow through a network, 1956). The least cut of all pairs
    separates the first worker from another one, so n - 1 flows are enough. 0 for one worker.

    Raises
    ------
    PlanError
        When there are no elements.
    """
    from scipy.sparse import csr_array  # noqa: PLC0415  (slow to import, and only needed here)
    from scipy.sparse.csgraph import maximum_flow  # noqa: PLC0415

    first, *others = workers
    if elements < 1:
        raise PlanError(f"elements: {elements} is too few; a collective moves at least one")
    if not others:
        return 0
    number = {node.name: index for index, node in enumerate(topology.nodes)}
    rates = np.array([link.rate_bps for link in topology.links], np.float64)
    unit = max(1.0, float(rates.max()) / MOST_UNITS)
    # Rounded up: too small a flow would give too high a bound.
    capacities: npt.NDArray[np.int32] = np.ceil(rates / unit).astype(np.int32)
    a = [number[link.a] for link in topology.links]
    b = [number[link.b] for link in topology.links]
    graph = csr_array(
        (np.concatenate([capacities, capacities]), ([*a, *b], [*b, *a])), shape=(len(number), len(number))
    )
    least = min(int(maximum_flow(graph, number[first], number[other]).flow_value) for other in others)
    return chunks(elements, lanes) * frame_time_ps(frame_bytes(lanes), math.ceil(least * unit))


TYPES: Final = {"PUSH": 1, "PULL": 2, "RESULT": 3, "ASK": 4}
"""types of INC packets (p4src/headers.p4)"""
REASONS: Final = {
    1: "not IPv4",
    2: "IPv4 checksum",
    3: "IPv4 options",
    4: "time to live",
    5: "no route",
    6: "malformed",
    7: "unknown job or epoch",
    8: "unknown peer",
    9: "wrong type",
    10: "older generation",
    11: "wrong seq",
    12: "wrong kind",
    13: "duplicate",
    14: "unexpected result",
    16: "forged source",
    17: "late",
    18: "wrong token",
}
"""reasons for which packets are refused (p4src/refuse.p4)"""

Cells = dict[tuple[str, int], Traffic]
"""(PUSH, PULL or RESULT; 1 for resends, else 0) -> traffic"""


@dataclass(frozen=True)
class SwitchCounters:
    """One switch's counters. Bytes count the length of packets on arrival.

    Attributes
    ----------
    link_sent : mapping
        (port, 1 for resends, else 0) -> INC packets sent.
    refused : mapping
        Reason -> packets; only reasons that occurred.
    jobs_received, jobs_sent : mapping
        Counter cell of a job (``plan.grant.stats``) -> accepted packets, and packets sent from slots.
    peers : mapping
        (job, epoch, node) -> packets that came from a child or parent.
    """

    link_sent: Mapping[tuple[int, int], Traffic]
    refused: Mapping[str, Traffic]
    jobs_received: Mapping[int, Cells]
    jobs_sent: Mapping[int, Cells]
    peers: Mapping[tuple[int, int, str], Traffic]

    def since(self, before: "SwitchCounters") -> "SwitchCounters":
        """The counts since an earlier reading."""
        refused = {reason: traffic - before.refused.get(reason, Traffic()) for reason, traffic in self.refused.items()}
        return SwitchCounters(
            {key: traffic - before.link_sent.get(key, Traffic()) for key, traffic in self.link_sent.items()},
            {reason: traffic for reason, traffic in refused.items() if traffic.frames},
            _cells_since(self.jobs_received, before.jobs_received),
            _cells_since(self.jobs_sent, before.jobs_sent),
            {key: traffic - before.peers.get(key, Traffic()) for key, traffic in self.peers.items()},
        )


def _cells_since(after: Mapping[int, Cells], before: Mapping[int, Cells]) -> dict[int, Cells]:
    return {
        stats: {key: traffic - before.get(stats, {}).get(key, Traffic()) for key, traffic in cells.items()}
        for stats, cells in after.items()
    }


def requests(topology: Topology, switch: str, plans: Iterable[Plan]) -> list[P4Entity]:
    """The entities to read from a switch: its ports, its refusals, and the cells of plans that aggregate there."""
    ports = len(topology.neighbours(switch))
    wanted: list[P4Entity] = [
        fy.P4CounterEntry("link_sent", index=2 * port + resend) for port in range(1, ports + 1) for resend in (0, 1)
    ]
    wanted += [fy.P4CounterEntry("refused", index=reason) for reason in REASONS]
    for plan in plans:
        if switch in plan.by_switch:
            for counter in ("job_received", "job_sent"):
                wanted += [fy.P4CounterEntry(counter, index=index) for index in stats_cells(plan.grant.stats)]
            wanted += [_peer_counter(plan, port, ip) for _, port, ip in _peers(plan, switch)]
    return wanted


def resets(plan: Plan) -> list[fy.P4CounterEntry]:
    """Writes that reset a plan's counter cells, which an earlier plan may have used."""
    return [
        fy.P4CounterEntry(counter, index=index, data=fy.P4CounterData())
        for counter in ("job_received", "job_sent")
        for index in stats_cells(plan.grant.stats)
    ]


def stats_cells(stats: int) -> list[int]:
    """Indices of the counter cells of a job with cell number ``stats``."""
    return [stats_cell(stats, kind, resend=resend) for kind in TYPES for resend in (False, True)]


def stats_cell(stats: int, kind: str, *, resend: bool) -> int:
    """The counter cell of a job for one type of packets: 8 * stats + 2 * (type mod 4) + resend."""
    return 8 * stats + 2 * (TYPES[kind] % 4) + resend


def collect(switch: str, plans: Iterable[Plan], read: Iterable[P4Entity]) -> SwitchCounters:
    """Build the counters from a switch's answers to :func:`requests`."""
    link_sent: dict[tuple[int, int], Traffic] = {}
    refused: dict[str, Traffic] = {}
    jobs: dict[str, dict[int, Cells]] = {"job_received": {}, "job_sent": {}}
    peers: dict[tuple[int, int, str], Traffic] = {}
    names = {(plan.job, plan.epoch, port, ip): name for plan in plans for name, port, ip in _peers(plan, switch)}
    kinds = {number % 4: kind for kind, number in TYPES.items()}
    for entity in read:
        if isinstance(entity, fy.P4DirectCounterEntry):
            match = entity.table_entry.match if entity.table_entry else None
            if match:
                job, epoch = match["job"], match["epoch"]
                name = names.get((job, epoch, match["ingress_port"], match["src"]))
                if name is not None:
                    peers[(job, epoch, name)] = Traffic(entity.packet_count, entity.byte_count)
        elif isinstance(entity, fy.P4CounterEntry) and entity.index is not None:
            traffic = Traffic(entity.packet_count, entity.byte_count)
            if entity.counter_id == "link_sent":
                link_sent[divmod(entity.index, 2)] = traffic
            elif entity.counter_id == "refused":
                if traffic.frames:
                    refused[REASONS[entity.index]] = traffic
            else:
                stats, cell = divmod(entity.index, 8)
                jobs[entity.counter_id].setdefault(stats, {})[(kinds[cell >> 1], cell & 1)] = traffic
    return SwitchCounters(link_sent, refused, jobs["job_received"], jobs["job_sent"], peers)


def _peers(plan: Plan, switch: str) -> list[tuple[str, int, int]]:
    """(name, ingress port, IPv4 address) of an aggregator's children and parent."""
    aggregator = plan.by_switch.get(switch)
    if aggregator is None:
        return []
    addresses = [child.address for child in aggregator.children]
    if aggregator.parent is not None:
        addresses.append(aggregator.parent)
    return [(address.name, address.port, address.ip) for address in addresses]


def _peer_counter(plan: Plan, port: int, ip: int) -> fy.P4DirectCounterEntry:
    match = {"std.ingress_port": port, "hdr.ipv4.src": ip, "hdr.inc.job": plan.job, "hdr.inc.epoch": plan.epoch}
    return fy.P4DirectCounterEntry("peer_received", table_entry=fy.P4TableEntry("peer", match=fy.P4TableMatch(match)))


# Comparison of predictions with counters: first transmissions on links and in the switches' counters.


class Fate(StrEnum):
    """Events that can happen to a first transmission on a link.

    A frame is counted when its sender puts it on the link. A lost or corrupted frame is counted on that link, but is
    missing from all later links; a duplicate is counted on later links only; a frame that a full queue dropped is
    missing from that link and all later links.
    """

    LOST = "lost"
    CORRUPTED = "corrupted"
    DUPLICATED = "duplicated"
    QUEUE_DROPPED = "queue_dropped"


@dataclass(frozen=True, slots=True)
class LinkIncident:
    """First transmissions to ``destination`` (a node's name) that met ``fate`` on the link from ``node``'s ``port``."""

    node: str
    port: int
    destination: str
    fate: Fate
    frames: int
    bytes: int


def expected_on_links(
    plan: Plan, predicted: Mapping[Hop, Traffic], incidents: Iterable[LinkIncident]
) -> dict[Hop, Traffic]:
    """Correct a prediction for losses, duplicates and drops of first transmissions on their way.

    A frame that is lost on one link is missing on the rest of its path, up to the next switch or host that aggregates:
    that node waits for a retransmission, and its own frames are again first transmissions.

    Raises
    ------
    PlanError
        When an incident is at a link where the plan sends no frame to that destination.
    """
    onward = {(node, path[-1]): following for path in plan.paths.values() for node, following in pairwise(path)}
    total = dict(predicted)
    for incident in incidents:
        rest = _rest(plan, onward, incident)
        skipped = 0 if incident.fate is Fate.QUEUE_DROPPED else 1
        sign = 1 if incident.fate is Fate.DUPLICATED else -1
        change = Traffic(sign * incident.frames, sign * incident.bytes)
        for hop in hops(plan.topology, rest)[skipped:]:
            total[hop] = total.get(hop, Traffic()) + change
    return total


def compare_links(
    topology: Topology, expected: Mapping[Hop, Traffic], counted: Mapping[Hop, Traffic | tuple[int, int]]
) -> list[str]:
    """Differences between expected and counted first transmissions, one line for each directed link; empty: equal."""
    differences = []
    for hop in sorted({*expected, *counted}):
        want = expected.get(hop, Traffic())
        have = counted.get(hop, Traffic())
        if not isinstance(have, Traffic):
            have = Traffic(*have)
        if have != want:
            node, port = hop
            differences.append(
                f"link {node} -> {topology.neighbour(node, port)} (port {port}): predicted {want.frames} frames, "
                f"{want.bytes} bytes; counted {have.frames} frames, {have.bytes} bytes"
            )
    return differences


def compare_counters(
    topology: Topology, expected: Mapping[Hop, Traffic], counters: Mapping[str, SwitchCounters]
) -> list[str]:
    """Differences between expected frames and the switches' counter `link_sent` of first transmissions.

    Bytes are not compared: BMv2 counts the bytes that a packet had on arrival.
    """
    differences = []
    for switch, own in counters.items():
        for port in range(1, len(topology.neighbours(switch)) + 1):
            want = expected.get((switch, port), Traffic()).frames
            have = own.link_sent[(port, 0)].frames
            if want != have:
                differences.append(
                    f"{switch}.link_sent[port {port}, first]: predicted {want} frames, counted {have} "
                    f"(to {topology.neighbour(switch, port)})"
                )
    return differences


def compare_sent(
    plan: Plan, collectives: Iterable[tuple[Operation, int, int | None]], counters: Mapping[str, SwitchCounters]
) -> list[str]:
    """Differences between the expected and counted first transmissions of aggregators (counter `job_sent`).

    Parameters
    ----------
    plan : Plan
        The plan, alone in its job.
    collectives : iterable of (operation, elements, lead)
        The collectives since the plan was installed; see :func:`~p4reduce.control_plane.counters.exchange`.
    counters : mapping of str to SwitchCounters
        The aggregators' counters. They do not include frames that a full queue dropped.
    """
    differences = []
    shares = [(operation, exchange(plan, operation, elements, lead)) for operation, elements, lead in collectives]
    pulls = sum(share.up_empty for operation, share in shares if operation is Operation.PULL)
    pushes = sum(share.up_full + share.up_empty for _, share in shares) - pulls
    results = sum(share.down_full + share.down_empty for _, share in shares)
    for aggregator in plan.aggregators:
        own = counters[aggregator.name].jobs_sent[plan.grant.stats]
        up = aggregator.parent is not None
        for kind, want in (
            ("PUSH", pushes if up else 0),
            ("PULL", pulls if up else 0),
            ("RESULT", results * len(aggregator.children)),
        ):
            have = own[(kind, 0)].frames
            if have != want:
                differences.append(
                    f"{aggregator.name}.job_sent[job {plan.job}, {kind}, first]: predicted {want}, counted {have}"
                )
    return differences


def _rest(plan: Plan, onward: Mapping[tuple[str, str], str], incident: LinkIncident) -> tuple[str, ...]:
    """The path from the incident's node to its destination."""
    path = [incident.node]
    while path[-1] != incident.destination:
        following = onward.get((path[-1], incident.destination))
        if following is None or (len(path) == 1 and plan.topology.port(path[0], following) != incident.port):
            raise PlanError(
                f"a first transmission to {incident.destination} was {incident.fate} at {incident.node} port "
                f"{incident.port}, where plan {plan.name!r} of job {plan.job} sends none"
            )
        path.append(following)
    return tuple(path)
