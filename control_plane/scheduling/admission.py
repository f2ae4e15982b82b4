"""Trees with explicit paths that fit: forwarding, bandwidth, slots. Or a rejection that names what is in the way."""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.graph import Ints
from p4reduce.control_plane.plans.problem import TreeLayout
from p4reduce.control_plane.plans.routes import Routes, hops
from p4reduce.control_plane.plans.spt import spt
from p4reduce.control_plane.plans.verify import check_forwarding
from p4reduce.control_plane.plans.window import Pair, Path, all_paths, power_of_two, timing
from p4reduce.control_plane.scheduling.consumption import copies, decision_of
from p4reduce.control_plane.scheduling.policy import Decision, Rejection
from p4reduce.control_plane.scheduling.state import Hop
from p4reduce.control_plane.scheduling.view import Direction, TaskProblem, View, problem_of

_ATTEMPTS: Final = 8
"""how often a tree is planned again because copies of a frame do not fit, or slots are too few"""
_PENALTY: Final = 16
"""what the weight of a link is multiplied by when too many copies of a frame would cross it"""

TreePlanner = Callable[[TaskProblem], TreeLayout]


def decide_trees(name: str, view: View, planner: TreePlanner, words: Ints) -> Decision:
    """Both trees of a task: one for both directions where that costs a broadcast nothing.

    Parameters
    ----------
    name : str
        Of the policy.
    view : View
        The task and the network.
    planner : function
        From a problem to a tree.
    words : int64 (m, 3)
        Weights of arcs in the direction of frames.
    """
    view.check_hosts()
    straight = problem_of(view, words, "upload")
    upload = admitted(straight, planner, "upload")
    turned = problem_of(view, words, "broadcast", straight.paths)
    # Weights may agree in both directions where what is left of the links does not.
    alike = np.array_equal(turned.words[:, 0], words[:, 0]) and _fits(turned, upload)
    broadcast = upload if alike else admitted(turned, planner, "broadcast")
    if broadcast != upload and _fits(turned, upload) and weight(turned, upload) <= weight(turned, broadcast):
        broadcast = upload
    return decision_of(name, view, upload, broadcast)


def admitted(problem: TaskProblem, planner: TreePlanner, direction: Direction) -> TreeLayout:
    """A tree that forwards consistently, with room for its copies on every link and slots in every switch.

    Raises
    ------
    Rejection
        Names the link or the switch in the way.
    """
    blocked: Rejection | None = None
    for _ in range(_ATTEMPTS):
        check_reach(problem, direction)
        try:
            layout = consistent(problem, planner)
        except Rejection as error:
            raise blocked or error from None
        except PlanError as error:
            raise blocked or Rejection(f"task {problem.view.task.name}: {error}") from None
        tight = tight_links(problem, layout, direction)
        poor = short_of_slots(problem, layout)
        if not tight and poor is None:
            return layout
        if tight:
            blocked, problem = _avoid(problem, tight, direction)
        if poor is not None:
            blocked, problem = Rejection(poor[1]), problem.without(poor[0])
    raise blocked or Rejection(f"task {problem.view.task.name}: no tree fits")


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
    even = replace(problem, words=_even(problem), twin=None)
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


def _even(problem: TaskProblem) -> Ints:
    words, turned = problem.words, problem.words[problem.view.graph.reverse]
    both = words + turned
    both[:, 0] = np.where((words[:, 0] < 0) | (turned[:, 0] < 0), -1, both[:, 0])
    return both


def weight(problem: TaskProblem, layout: TreeLayout) -> int:
    """Sum of the weights of all links between switches that the tree's edges cross, one for each copy."""
    graph, cost = problem.view.graph, problem.words[:, 0]
    crossed, _ = layout.crossed(problem.topology)
    return sum(times * int(cost[graph.arcs[hop]]) for hop, times in crossed.items() if hop in graph.arcs)


def _fits(problem: TaskProblem, layout: TreeLayout) -> bool:
    """Whether a tree of the other direction uses no closed link of this one and fits."""
    graph = problem.view.graph
    crossed, _ = layout.crossed(problem.topology)
    if any(problem.words[graph.arcs[hop], 0] < 0 for hop in crossed if hop in graph.arcs):
        return False
    return not tight_links(problem, layout, "broadcast")


def tight_links(problem: TaskProblem, layout: TreeLayout, direction: Direction) -> dict[Hop, int]:
    """Directed links that have less left than the copies of the task's frames need, and what these need."""
    state = problem.view.state
    bps = problem.view.task.demand_bps
    crossed = copies(problem.view.task, problem.topology, layout, direction) if bps else {}
    return {hop: times * bps for hop, times in crossed.items() if state.residual_bps(hop) < times * bps}


def _avoid(problem: TaskProblem, tight: Mapping[Hop, int], direction: Direction) -> tuple[Rejection, TaskProblem]:
    graph, words = problem.view.graph, problem.words.copy()
    for hop in tight:
        arc = graph.arcs.get(hop)
        if arc is not None:
            own = arc if direction == "upload" else graph.reverse[arc]
            words[own, 0] = min(words[own, 0] * _PENALTY, 10**12)
    (node, port), bps = next(iter(tight.items()))
    try:
        problem.view.check_link(node, problem.topology.neighbour(node, port), bps)
    except Rejection as rejection:
        return rejection, replace(problem, words=words, twin=None)
    raise AssertionError("a tight link has too little left")


def short_of_slots(problem: TaskProblem, layout: TreeLayout) -> tuple[str, str] | None:
    """A switch with too few slots for the task's demand, and why: rate <= (slots / 2) * payload / round trip."""
    free, demand = problem.view.state.slots, problem.view.task.demand_bps
    if not free or not any(name in free for name in layout.aggregators):
        return None
    round_trip = timing(problem, layout, all_paths(problem, layout)).rtt_ps
    chunks = -(-demand * round_trip // (10**12 * problem.lanes * 32))
    needed = max(2, power_of_two(2 * chunks))
    poorest = min((name for name in layout.aggregators if name in free), key=lambda name: free[name])
    if free[poorest] >= needed:
        return None
    return poorest, (
        f"task {problem.view.task.name}: switch {poorest} has {free[poorest]} slots left in one range, "
        f"{needed} are needed for its demand over a round trip of {round_trip} ps"
    )


def check_reach(problem: TaskProblem, direction: Direction) -> None:
    """Raise `Rejection` when a worker has no way to the server: names a link in the way on the shortest path."""
    routes, graph, view = problem.paths, problem.view.graph, problem.view
    server = graph.index[routes.access(view.task.server)]
    arcs = routes.towards(server).arcs
    for worker in view.task.workers:
        access = graph.index[routes.access(worker)]
        if access != server and arcs[access] < 0:
            free = Routes(view.state.topology, graph, _open(problem.words))
            for hop in hops(problem.topology, free.path(worker, view.task.server))[1:-1]:
                a, b = hop[0], problem.topology.neighbour(*hop)
                view.check_link(*((a, b) if direction == "upload" else (b, a)), max(1, view.task.demand_bps))
            raise Rejection(f"task {view.task.name}: no way from {worker} to {view.task.server} is left")


def _open(words: Ints) -> Ints:
    free = words.copy()
    free[:, 0] = np.where(words[:, 0] < 0, 10**9, 1)
    return free
