"""The least time of a collective: on the links of a plan, and with any plan at all.

Both count whole frames on the wire, headers, preamble and gap included, and leave delays, acknowledgements and frames
without lanes out: no run can be faster, whatever the links' rates are.
"""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.frames import chunks, frame_bytes, frame_time_ps
from p4reduce.control_plane.plans.plan import Plan
from p4reduce.control_plane.predict import Operation, exchange
from p4reduce.topologies.model import Hop, Topology

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
