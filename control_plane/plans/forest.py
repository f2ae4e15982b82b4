"""Several trees at once, each with a part of the tensor: what they put on links, how long that takes; ``striped``."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans.problem import Layout, Problem, TreeLayout, all_paths, link_frames, timing
from p4reduce.control_plane.plans.routes import frame_bytes
from p4reduce.control_plane.plans.trees import finish
from p4reduce.control_plane.resources import SLOTS
from p4reduce.topologies.model import Hop

MOST_TREES: Final = 12
"""trees of a job"""
STRIPED: Final = "striped"
MOST_CHUNKS: Final = SLOTS // 2
"""in flight in a tree that has all slots of a switch, two for each"""


@dataclass(frozen=True)
class Part:
    """A tree, or any layout, and its part of each tensor.

    weight: of the sum of weights. pace_ps: least time between two of its chunks; None: as its own links allow.
    """

    layout: Layout | None
    """None: the plan lays it out itself"""
    weight: int = 1
    pace_ps: int | None = None


def chunks_of(weights: Sequence[int], chunks: int) -> list[int]:
    """Chunks of each part: whole ones, in proportion to its weight."""
    total = sum(weights)
    ends = [chunks * below // total for below in accumulate(weights, initial=0)]
    return [b - a for a, b in pairwise(ends)]


def tree_frames(problem: Problem, layout: TreeLayout) -> Counter[Hop]:
    """On each directed link, up and down, for a chunk."""
    up = layout.parent.items()
    return link_frames(problem, all_paths(problem.of(layout), layout), [*up, *((b, a) for a, b in up)])


def frames_of(problem: Problem, layouts: Sequence[TreeLayout]) -> Counter[Hop]:
    """The same when each tree has a chunk."""
    total: Counter[Hop] = Counter()
    for layout in layouts:
        total.update(tree_frames(problem, layout))
    return total


def busiest_ps(problem: Problem, frames: Mapping[Hop, int]) -> int:
    """How long the busiest directed link needs for its full frames, at the rate that ``problem.load`` leaves."""
    return max((number * problem.chunk_ps(hop) for hop, number in frames.items()), default=0)


def predicted_forest_ps(problem: Problem, parts: Sequence[Part]) -> int:
    """How long an all-reduce of ``problem.elements`` takes on idle links without losses in these trees at once, in ps.

    Chunks leave as far apart as the busiest link needs for what all trees put on it, or as their slots let them be; to
    that a round trip of a full frame and one of the frame that comes before it.
    """
    shares = chunks_of([part.weight for part in parts], problem.chunks)
    used = [
        (part.layout, count)
        for part, count in zip(parts, shares, strict=True)
        if count and isinstance(part.layout, TreeLayout)
    ]
    total: Counter[Hop] = Counter()
    rtt_ps = lead_ps = waited_ps = 0
    in_flight = (1 << (slots_of_each(len(parts)).bit_length() - 1)) // 2
    for layout, count in used:
        for hop, number in tree_frames(problem, layout).items():
            total[hop] += number * count
        own, paths = problem.of(layout), all_paths(problem.of(layout), layout)
        round_ps = timing(own, layout, paths).rtt_ps
        rtt_ps = max(rtt_ps, round_ps)
        lead_ps = max(lead_ps, timing(own, layout, paths, length=frame_bytes(0)).rtt_ps)
        waited_ps = max(waited_ps, (count - 1) * round_ps // in_flight)
    most = max(count for _, count in used)
    return max(busiest_ps(problem, total) * (most - 1) // most, waited_ps) + rtt_ps + lead_ps


def paces(problem: Problem, layouts: Sequence[TreeLayout], weights: Sequence[int]) -> list[int]:
    """Least time between two chunks of each tree, in ps, with which all trees end at once."""
    total: Counter[Hop] = Counter()
    for layout, weight in zip(layouts, weights, strict=True):
        for hop, number in tree_frames(problem, layout).items():
            total[hop] += number * weight
    busiest = busiest_ps(problem, total)
    return [max(1, busiest // weight) for weight in weights]


def slots_of_each(trees: int, slots: int = SLOTS) -> int:
    """At most so many slots of a switch has each of several trees; half of all stay for other jobs."""
    return slots // max(1, 2 * trees)


def refuse_one_tree(name: str) -> PlanError:
    """The error where a job is one tree: the network would carry something else than was asked for."""
    return PlanError(
        f"plan {name} is several trees, which all-reduces of a whole group in virtual time have ('run', 'compare', "
        "'sweep', 'launch' with --on-failure abort, without a deadline); choose steiner here"
    )


# `striped`: each tree has an equal part of the tensor. Each switch that is the nearest one for some worker is the root
# of a tree: workers hang on their nearest switch, and these switches on the root. With k roots a link to the upper
# switches carries 1/k of the tensor for each tree that crosses it, where one tree has all of it cross the links next
# to its root.


def stripes(problem: Problem) -> list[TreeLayout]:
    """The trees, at most :data:`MOST_TREES`; one where all workers have the same nearest switch.

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
    for root in places[:MOST_TREES]:
        parent = dict(nearest) | {switch: root for switch in places if switch != root}
        layouts: list[TreeLayout] = []
        for variant in (problem.spreading, problem):
            with suppress(PlanError):
                layouts.append(finish(problem, TreeLayout(root, parent, variant.spread)))
        if not layouts:
            raise PlanError(f"plan {STRIPED}: no tree from {root} connects the workers")
        found.append(min(layouts, key=lambda one: busiest_ps(problem, frames_of(problem, [*found, one]))))
    return found
