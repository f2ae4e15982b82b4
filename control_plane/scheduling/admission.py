"""A tree with explicit paths that fits: forwarding, bandwidth, slots. Or a rejection that names what is in the way."""

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.problem import MAX_CHILDREN, TreeLayout
from p4reduce.control_plane.plans.spt import spt
from p4reduce.control_plane.plans.verify import check_forwarding
from p4reduce.control_plane.plans.window import Pair, Path
from p4reduce.control_plane.scheduling.consumption import copies
from p4reduce.control_plane.scheduling.policy import Rejection
from p4reduce.control_plane.scheduling.reach import check_reach
from p4reduce.control_plane.scheduling.slots import least_slots, short_of_slots
from p4reduce.control_plane.scheduling.view import TaskProblem
from p4reduce.topologies.model import Hop

_ATTEMPTS: Final = 8
"""how often a tree is planned again because too many copies of a frame cross a link"""
_PENALTY: Final = 16
"""what the weight of a link is multiplied by then"""
_DEAREST: Final = 10**12

TreePlanner = Callable[[TaskProblem], TreeLayout]


def admitted(problem: TaskProblem, planner: TreePlanner) -> TreeLayout:
    """A tree that forwards consistently, with room for its copies on every link and slots in every switch.

    Where a switch has too few slots for a tree, it is planned again without all that have no more than that one; slots
    are powers of two, so this ends soon. If none is left, a tree of a single switch is looked for: its round trip may
    be shorter than that of the trees that were tried.

    Raises
    ------
    Rejection
        Names the link or the switch in the way.
    """
    first, blocked = problem, None
    attempts, short = _ATTEMPTS, False
    while attempts:
        check_reach(problem)
        try:
            layout = consistent(problem, planner)
        except PlanError as error:
            reason = error if isinstance(error, Rejection) else Rejection(f"task {problem.view.task.name}: {error}")
            blocked = blocked or reason
            break
        tight, poor = tight_links(problem, layout), short_of_slots(problem, layout)
        if not tight and poor is None:
            return layout
        if tight:
            attempts -= 1
            blocked, problem = _avoid(problem, tight)
        if poor is not None:
            slots, why = poor
            least = max(2 * slots, problem.least_slots if short else least_slots(problem))
            blocked, problem, short = Rejection(why), replace(problem, least_slots=least), True
    if short and (alone := _one_switch(first)) is not None:
        return alone
    assert blocked is not None  # the loop ends with a reason  # noqa: S101
    raise blocked


def _one_switch(problem: TaskProblem) -> TreeLayout | None:
    """The cheapest tree of a single switch that fits; None when none does."""
    if len(problem.workers) > MAX_CHILDREN:
        return None
    options: list[tuple[int, str, TreeLayout]] = []
    with contextlib.suppress(Rejection):  # no switch has as many slots
        for name in replace(problem, least_slots=least_slots(problem)).capable:
            with contextlib.suppress(PlanError):  # links may be closed
                layout = explicit(problem, TreeLayout(name, dict.fromkeys(problem.workers, name)))
                options.append((weight(problem, layout), name, layout))
    for _, _, layout in sorted(options, key=lambda option: option[:2]):
        unfit = tight_links(problem, layout) or short_of_slots(problem, layout) or disagreement(layout)
        if not unfit:
            return layout
    return None


def consistent(problem: TaskProblem, planner: TreePlanner) -> TreeLayout:
    """The planner's tree with explicit paths, or one near to it where switches could not forward that one.

    On links that weigh differently in the two directions the shortest paths of different edges may ask a switch to
    send frames for one node two ways. Then the tree is planned under the mean weights of both directions, whose
    shortest paths agree, or along shortest paths to one root, whichever is cheapest of what can be forwarded.

    Raises
    ------
    Rejection
        When none can be forwarded: names the switch.
    """
    layout = explicit(problem, planner(problem))
    if problem.paths.symmetric or disagreement(layout) is None:
        return layout
    even = replace(problem.both_ways(), turned=problem.turned, both=False)
    options: list[TreeLayout] = []
    for way, plan in ((problem, spt), (even, planner), (even, spt)):
        with contextlib.suppress(PlanError):  # links that are closed in one direction are closed for both in `even`
            option = explicit(way, plan(way))
            if disagreement(option) is None:
                options.append(option)
    if not options:
        raise Rejection(f"task {problem.view.task.name}: {disagreement(layout)}")
    return min(options, key=lambda option: weight(problem, option))


def explicit(problem: TaskProblem, layout: TreeLayout) -> TreeLayout:
    """The layout with the path of every edge, from child to parent."""
    edges = [*layout.parent.items(), *([(layout.root, problem.server)] if problem.server else [])]
    if layout.paths is not None:
        return layout
    try:
        paths = {edge: problem.paths.path(*edge) for edge in edges}
    except PlanError as error:
        raise Rejection(f"task {problem.view.task.name}: {error}") from None
    return TreeLayout(layout.root, dict(layout.parent), paths=paths)


def disagreement(layout: TreeLayout) -> PlanError | None:
    """Why switches cannot forward a layout's paths, both ways, by destination; None when they can."""
    try:
        check_forwarding({ends: way for pair, path in (layout.paths or {}).items() for ends, way in _both(pair, path)})
    except PlanError as error:
        return error
    return None


def _both(pair: Pair, path: Path) -> tuple[tuple[Pair, Path], tuple[Pair, Path]]:
    return (pair, path), (pair[::-1], path[::-1])


def weight(problem: TaskProblem, layout: TreeLayout) -> int:
    """Sum of the weights of all links between switches that the tree's edges cross, one for each copy."""
    graph, cost = problem.view.graph, problem.words[:, 0]
    crossed, _ = layout.crossed(problem.topology)
    return sum(times * int(cost[graph.arcs[hop]]) for hop, times in crossed.items() if hop in graph.arcs)


def passes(problem: TaskProblem, layout: TreeLayout) -> bool:
    """Whether a tree that was made for another problem uses no closed link of this one."""
    graph = problem.view.graph
    crossed, _ = layout.crossed(problem.topology)
    return all(problem.words[graph.arcs[hop], 0] >= 0 for hop in crossed if hop in graph.arcs)


def tight_links(problem: TaskProblem, layout: TreeLayout) -> dict[Hop, int]:
    """Directed links with less left than the copies of the task's frames need, all its trees together: what these need.

    Decisions reserve the sum of both directions (:func:`~p4reduce.control_plane.scheduling.consumption.decision_of`).
    """
    task, state = problem.view.task, problem.view.state
    if not task.reserved_bps:
        return {}
    needed = Counter(copies(task, problem.topology, layout, "broadcast" if problem.turned else "upload"))
    if problem.both:
        needed.update(copies(task, problem.topology, layout, "broadcast"))
    needed.update({hop: problem.taken[hop] for hop in needed.keys() & problem.taken.keys()})
    return {
        hop: times * task.reserved_bps
        for hop, times in needed.items()
        if state.residual_bps(hop) < times * task.reserved_bps
    }


def _avoid(problem: TaskProblem, tight: Mapping[Hop, int]) -> tuple[Rejection, TaskProblem]:
    graph, words = problem.view.graph, problem.words.copy()
    for hop in tight:
        arc = graph.arcs.get(hop)
        if arc is not None:
            for own in {graph.reverse[arc] if problem.turned else arc, graph.reverse[arc] if problem.both else arc}:
                words[own, 0] = min(words[own, 0] * _PENALTY, _DEAREST)
    (node, port), bps = next(iter(tight.items()))
    try:
        problem.view.check_link(node, problem.topology.neighbour(node, port), bps)
    except Rejection as rejection:
        return rejection, replace(problem, words=words, twin=None)
    raise AssertionError("a tight link has too little left")
