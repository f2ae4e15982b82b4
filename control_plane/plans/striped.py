"""``striped``: several trees at once, each with an equal part of the tensor, so that no switch carries all of it.

Each switch that is the nearest one for some worker is the root of a tree: workers hang on their nearest switch, and
these switches on the root. With k roots a link to the upper switches carries 1/k of the tensor for each tree that
crosses it, where one tree has all of it cross the links next to its root.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Final

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans.plan import Plan
from p4reduce.control_plane.plans.problem import Problem, TreeLayout, all_paths, timing
from p4reduce.control_plane.plans.routes import chunks, frame_time_ps, hops
from p4reduce.control_plane.plans.trees import finish
from p4reduce.control_plane.resources import SLOTS
from p4reduce.topologies.model import Hop

STRIPED: Final = "striped"
MOST_STRIPES: Final = 12
"""trees of a job"""
MOST_CHUNKS: Final = SLOTS // 2
"""in flight in a tree that has all slots of a switch, two for each"""


def stripes(problem: Problem) -> list[TreeLayout]:
    """The trees, at most :data:`MOST_STRIPES`; one where all workers have the same nearest switch.

    Raises
    ------
    PlanError
        No switch can aggregate, or the job has a server, which is where a tree has to end.
    """
    if problem.server is not None:
        raise PlanError(f"plan {STRIPED}: a job with a server has one tree, to the server; choose steiner")
    nearest = {worker: problem.paths.nearest(worker, problem.capable) for worker in problem.workers}
    places = list(dict.fromkeys(nearest.values()))
    found: list[TreeLayout] = []
    for root in places[:MOST_STRIPES]:
        parent = dict(nearest) | {switch: root for switch in places if switch != root}
        layouts: list[TreeLayout] = []
        for variant in (problem.spreading, problem):
            with suppress(PlanError):
                layouts.append(finish(problem, TreeLayout(root, parent, variant.spread)))
        if not layouts:
            raise PlanError(f"plan {STRIPED}: no tree from {root} connects the workers")
        found.append(min(layouts, key=lambda one: _busiest_ps(problem, [*found, one])))
    return found


def _loads(problem: Problem, layout: TreeLayout) -> Counter[Hop]:
    """Frames on each directed link for a chunk, up and down."""
    paths = all_paths(problem.of(layout), layout)
    pairs = [pair for child, parent in layout.parent.items() for pair in ((child, parent), (parent, child))]
    return Counter(hop for pair in pairs for hop in hops(problem.topology, paths[pair]))


def _busiest_ps(problem: Problem, layouts: Sequence[TreeLayout]) -> Fraction:
    """How long the busiest link needs for a chunk, shared out equally among the trees."""
    loads: Counter[Hop] = Counter()
    for layout in layouts:
        loads.update(_loads(problem, layout))
    return max(
        (Fraction(number * problem.chunk_ps(hop), len(layouts)) for hop, number in loads.items()), default=Fraction(0)
    )


def predicted_stripes_ps(problem: Problem, layouts: Sequence[TreeLayout], elements: int, lead_ps: int) -> int:
    """How long an all-reduce takes on idle links without losses; ``lead_ps``: a round trip of frames without lanes."""
    count = chunks(elements, problem.lanes)
    used = layouts[: min(len(layouts), count)]
    rtt_ps = max(timing(problem.of(one), one, all_paths(problem.of(one), one)).rtt_ps for one in used)
    in_flight = (1 << (slots_of_each(len(layouts)).bit_length() - 1)) // 2
    between = max(_busiest_ps(problem, used), Fraction(rtt_ps, in_flight * len(used)))
    return round((count - len(used)) * between) + rtt_ps + lead_ps


def slots_of_each(trees: int, slots: int = SLOTS) -> int:
    """At most so many slots of a switch has each of several trees; half of all stay for other jobs."""
    return slots // max(1, 2 * trees)


def bound_of_parts(parts: Sequence[tuple[Plan, int]]) -> tuple[int, Hop]:
    """The least time of an all-reduce whose trees have so many elements each, in ps, and the busiest directed link."""
    busy: Counter[Hop] = Counter()
    for plan, elements in parts:
        count = chunks(elements, plan.lanes)
        for child, parent in plan.edges:
            for hop in (*plan.path_hops(child, parent), *plan.path_hops(parent, child)):
                busy[hop] += count * frame_time_ps(plan.frame_bytes, plan.topology.link_at(*hop).rate_bps)
    hop = max(busy, key=lambda one: busy[one])
    return busy[hop], hop


def refuse_one_tree() -> PlanError:
    """The error where a job is one tree: the network would carry something else than was asked for."""
    return PlanError(
        f"plan {STRIPED} is several trees, which all-reduces of a whole group in virtual time have ('run', 'compare', "
        "'sweep', 'launch' with --on-failure abort, without a deadline); choose steiner here"
    )
