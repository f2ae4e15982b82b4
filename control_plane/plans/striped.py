"""``striped``: several trees at once, each with an equal part of the tensor, so that no switch carries all of it.

Each switch that is the nearest one for some worker is the root of a tree: workers hang on their nearest switch, and
these switches on the root. With k roots a link to the upper switches carries 1/k of the tensor for each tree that
crosses it, where one tree has all of it cross the links next to its root.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans.problem import Problem, TreeLayout, all_paths, link_frames, timing
from p4reduce.control_plane.plans.routes import frame_bytes
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
        found.append(min(layouts, key=lambda one: busiest_ps(problem, _frames(problem, [*found, one]))))
    return found


def _frames(problem: Problem, layouts: Sequence[TreeLayout]) -> Counter[Hop]:
    """On each directed link, up and down, when each tree has a chunk."""
    total: Counter[Hop] = Counter()
    for layout in layouts:
        up = layout.parent.items()
        paths = all_paths(problem.of(layout), layout)
        total.update(link_frames(problem, paths, [*up, *((b, a) for a, b in up)]))
    return total


def busiest_ps(problem: Problem, frames: Mapping[Hop, int]) -> int:
    """How long the busiest directed link needs for its full frames, at the rate that ``problem.load`` leaves."""
    return max((number * problem.chunk_ps(hop) for hop, number in frames.items()), default=0)


def predicted_stripes_ps(problem: Problem, layouts: Sequence[TreeLayout]) -> int:
    """How long an all-reduce of ``problem.elements`` takes on idle links without losses in these trees at once, in ps.

    C chunks are shared out equally; chunks of all trees are as far apart as the busiest link needs for a chunk of each,
    or as their slots let them be; to that a round trip of a full frame and one of the frame that comes before it.
    """
    used = layouts[: problem.chunks]
    times = [
        [timing(problem.of(one), one, all_paths(problem.of(one), one), length=length).rtt_ps for one in used]
        for length in (None, frame_bytes(0))
    ]
    rtt_ps, lead_ps = map(max, times)
    in_flight = (1 << (slots_of_each(len(layouts)).bit_length() - 1)) // 2
    between = max(busiest_ps(problem, _frames(problem, used)), rtt_ps / in_flight)
    return round((problem.chunks / len(used) - 1) * between) + rtt_ps + lead_ps


def slots_of_each(trees: int, slots: int = SLOTS) -> int:
    """At most so many slots of a switch has each of several trees; half of all stay for other jobs."""
    return slots // max(1, 2 * trees)


def refuse_one_tree() -> PlanError:
    """The error where a job is one tree: the network would carry something else than was asked for."""
    return PlanError(
        f"plan {STRIPED} is several trees, which all-reduces of a whole group in virtual time have ('run', 'compare', "
        "'sweep', 'launch' with --on-failure abort, without a deadline); choose steiner here"
    )
