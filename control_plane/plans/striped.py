"""``striped``: several trees at once, each with an equal part of the tensor, so that no switch carries all of it.

Each switch that is the nearest one for some worker is the root of a tree: workers hang on their nearest switch, and
these switches on the root. With k roots a link to the upper switches carries 1/k of the tensor for each tree that
crosses it, where one tree has all of it cross the links next to its root.
"""

from contextlib import suppress
from typing import Final

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans.forest import MOST_TREES, busiest_ps, frames_of
from p4reduce.control_plane.plans.problem import Problem, TreeLayout
from p4reduce.control_plane.plans.trees import finish

STRIPED: Final = "striped"


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
