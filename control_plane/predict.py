"""The bytes that a collective puts on every link, before it is run."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.frames import HEADER_BYTES, chunks, frame_bytes, frame_time_ps
from p4reduce.control_plane.plans.plan import Plan
from p4reduce.control_plane.plans.problem import ACK_EVERY
from p4reduce.topologies.model import Hop, Topology


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
class Exchange:
    """Frames of a collective between a child and its parent: with and without lanes, up and down."""

    up_full: int
    up_empty: int
    down_full: int
    down_empty: int


def exchange(plan: Plan, operation: Operation, elements: int, lead: int | None = None) -> Exchange:
    """The frames on every edge of a tree or star.

    Parameters
    ----------
    plan : Plan
        A plan of a tree or star.
    operation : Operation
        The collective.
    elements : int
        Numbers that each worker gives or gets; not used by a barrier.
    lead : int
        Chunks whose exponent is agreed ahead by an empty PUSH, answered by an empty RESULT (block floating point; all
        chunks if there are fewer). None: the plan's window. 0: a fixed scale. Never sent by a star.

    Raises
    ------
    PlanError
        When the operation needs a server that the plan lacks.
    """
    if operation not in (Operation.ALL_REDUCE, Operation.BARRIER) and plan.server is None:
        raise PlanError(f"{operation} needs a parameter server; the plan of job {plan.job} has none")
    if operation is Operation.BARRIER:
        return Exchange(0, 1, 0, 1)
    full = _chunks(plan, elements)
    if operation is Operation.PULL:
        return Exchange(0, full, full, 0)
    ahead = min(plan.lead if lead is None else lead, full) if plan.in_network else 0
    if operation is Operation.PUSH:
        return Exchange(full, ahead, 0, full + ahead)
    return Exchange(full, ahead, full, ahead)


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
        (node, port) -> Traffic; links that carry nothing are there with zeros.

    Raises
    ------
    PlanError
        When the plan cannot do the operation.
    """
    total = {end: Traffic() for link in plan.topology.links for end in ((link.a, link.port_a), (link.b, link.port_b))}
    for (source, destination), traffic in _flows(plan, Operation(operation), elements, lead).items():
        for hop in plan.path_hops(source, destination):
            total[hop] += traffic
    return total


def _flows(plan: Plan, operation: Operation, elements: int, lead: int | None) -> dict[tuple[str, str], Traffic]:
    """Traffic of every overlay hop."""
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
    """The sum of several predictions: of collectives one after the other, or of several jobs."""
    total: dict[Hop, Traffic] = {}
    for prediction in predictions:
        for hop, traffic in prediction.items():
            total[hop] = total.get(hop, Traffic()) + traffic
    return total


def _chunks(plan: Plan, elements: int) -> int:
    if elements < 1:
        raise PlanError(f"elements: {elements} is too few; a collective moves at least one")
    return chunks(elements, plan.lanes)


# The least time of a collective: on the links of a plan, and with any plan at all.
#
# Both count whole frames on the wire, headers, preamble and gap included, and leave delays, acknowledgements and
# frames without lanes out: no run can be faster, whatever the links' rates are.


MOST_UNITS = 2**31 - 1
"""of capacity on a link: scipy's maximum flow counts in int32"""


@dataclass(frozen=True, slots=True)
class PlanBound:
    """The least time of a collective with a plan, and the directed link that sets it."""

    time_ps: int
    hop: Hop
    """of several equal ones, the first in the order of the plan's edges"""
    copies: Fraction
    """full frames that cross it for a chunk, both phases added: k_l"""


def plan_bound(plan: Plan, elements: int, operation: Operation = Operation.ALL_REDUCE) -> PlanBound:
    """The least time of a collective with a plan: max over directed links l of C k_l t_l.

    C chunks, k_l full frames on the link for each, t_l the time of one on it. A tree has one frame on each of its
    edges, up and down; a star n on the server's link in each direction; an edge of a ring 2 (n-1)/n. In an all-to-all
    C are the chunks of a block, and each pair has one frame for each. Edges that share a link add up. A barrier, whose
    frames carry nothing, is bounded by those.

    Raises
    ------
    PlanError
        When the plan cannot do the operation, or there are no elements.
    """
    if elements < 1:
        raise PlanError(f"elements: {elements} is too few; a collective moves at least one")
    count = chunks(elements, plan.lanes)
    length = plan.frame_bytes
    loads: Counter[Hop] = Counter()
    if plan.mesh:
        if operation is not Operation.ALL_TO_ALL or elements % len(plan.workers):
            raise PlanError(f"plan {plan.name!r} does all_to_all, of equal blocks for {len(plan.workers)} workers")
        count = chunks(elements // len(plan.workers), plan.lanes)
        for edge in plan.edges:
            loads.update(plan.path_hops(*edge))
        share = Fraction(1)
    elif plan.ring:
        for edge in plan.edges:
            loads.update(plan.path_hops(*edge))
        n = len(plan.ring)
        share = Fraction(2 * (n - 1), n)
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
        share = Fraction(1)
    if not loads:  # one worker by itself: nothing has to cross a link
        return PlanBound(0, (plan.workers[0], 1), Fraction(0))
    hop = max(loads, key=lambda one: loads[one] * frame_time_ps(length, plan.topology.link_at(*one).rate_bps))
    least = share * loads[hop] * count * frame_time_ps(length, plan.topology.link_at(*hop).rate_bps)
    return PlanBound(-(-least.numerator // least.denominator), hop, share * loads[hop])


def task_bound_ps(topology: Topology, workers: Iterable[str], elements: int, lanes: int) -> int:
    """The least time of an all-reduce of these workers with any plan: C t / (the least maximum flow of two of them).

    Whatever aggregates where, one worker's result depends on all of another's C chunks, so C full frames cross every
    cut between the two (Ford and Fulkerson, Maximal flow through a network, 1956). The least cut of all pairs parts the
    first worker from one of the others, so n - 1 flows are enough. 0 for one worker.

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
    # Rounded up: a bound must not come from a flow that is too small.
    capacities: npt.NDArray[np.int32] = np.ceil(rates / unit).astype(np.int32)
    a = [number[link.a] for link in topology.links]
    b = [number[link.b] for link in topology.links]
    graph = csr_array(
        (np.concatenate([capacities, capacities]), ([*a, *b], [*b, *a])), shape=(len(number), len(number))
    )
    least = min(int(maximum_flow(graph, number[first], number[other]).flow_value) for other in others)
    return chunks(elements, lanes) * frame_time_ps(frame_bytes(lanes), math.ceil(least * unit))
