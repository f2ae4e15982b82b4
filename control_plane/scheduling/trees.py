"""The trees of a task, with explicit paths that fit the network; a star if it takes fewer bytes or no tree fits."""

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Final
from zlib import crc32

import numpy as np

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans.kernels import FAR
from p4reduce.control_plane.plans.make import PlanRequest
from p4reduce.control_plane.plans.problem import (
    MAX_CHILDREN,
    Pair,
    Path,
    StarLayout,
    TreeLayout,
    check_forwarding,
)
from p4reduce.control_plane.plans.routes import Ints, Routes, frame_bytes, hops
from p4reduce.control_plane.plans.trees import spt
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import (
    Direction,
    LinkWeights,
    NetworkState,
    Rejection,
    TaskProblem,
    TreeDecision,
    View,
    check_reach,
    chunk_bytes,
    copies,
    decision_of,
    hop_words,
    least_slots,
    problem_of,
    short_of_slots,
    slots_of,
)
from p4reduce.topologies import format_rate
from p4reduce.topologies.model import Hop

# `overlay-mst-hosts`: the poster's flexible scheduler without aggregation in switches: the overlay MST of the hosts.
#
# The poster mentions no programmable switch. Here every inner host of the tree adds its children's models to its own
# and sends one model on; the result returns on the same path. Each of these steps is a star of existing plans: PUSH,
# the deepest hosts first, then PULL from the top. A host needs the whole model before it sends, so a round takes twice
# the tree's depth times a model; the tree saves bandwidth.


NAME = "overlay-mst-hosts"


@dataclass(frozen=True)
class HostTree:
    """A tree of hosts: ``parent`` of every local model's host, up to G's; ``paths`` of every edge, in both directions.

    ``demand_bps`` is its reservation on every directed link.
    """

    task: Task
    parent: Mapping[str, str]
    paths: Mapping[Pair, Path]
    demand_bps: Mapping[Hop, int]

    @cached_property
    def children(self) -> dict[str, list[str]]:
        """The children of every inner host, in rank order."""
        children: dict[str, list[str]] = {}
        for worker in self.task.workers:
            children.setdefault(self.parent[worker], []).append(worker)
        return children

    def depth(self, host: str) -> int:
        """Number of edges from a host to G's."""
        return 0 if host == self.task.server else 1 + self.depth(self.parent[host])

    @cached_property
    def stages(self) -> tuple[tuple[str, ...], ...]:
        """Inner hosts by depth, the deepest first: the order of PUSH. PULL uses the reverse order."""
        levels: dict[int, list[str]] = {}
        for host in self.children:
            levels.setdefault(self.depth(host), []).append(host)
        return tuple(tuple(levels[depth]) for depth in sorted(levels, reverse=True))

    def requests(self, *, job: int, lanes: int | None = None) -> dict[str, PlanRequest]:
        """A job for every inner host, numbered from ``job``: the host is the server, its children are the workers."""
        inner = [host for stage in self.stages for host in stage]
        return {
            host: PlanRequest(
                plan=NAME,
                job=job + place,
                workers=tuple(self.children[host]),
                server=host,
                lanes=lanes,
                priority=self.task.priority,
                layout=StarLayout(
                    {pair: self.paths[pair] for child in self.children[host] for pair in ((child, host), (host, child))}
                ),
            )
            for place, host in enumerate(inner)
        }


def overlay_mst_hosts(
    task: Task,
    state: NetworkState,
    *,
    lanes: int = 256,
    weights: LinkWeights = LinkWeights(),  # noqa: B008  (immutable)
) -> HostTree:
    """The minimum spanning tree of a task's hosts on the metric closure, grown from G (Prim).

    Among equally near hosts of the tree, a new host joins the host nearest to G in edges, so the tree is shallow. The
    weights are the upload's; broadcasts use reversed paths. This function is no `Policy`: a `TreeDecision` has one
    layout for each direction.

    Raises
    ------
    Rejection
        Names a link with too little rate left.
    """
    view = View(task, state, lanes)
    problem = problem_of(view, view.words(weights), "upload")
    check_reach(problem)
    routes, depth, parent = problem.paths, {task.server: 0}, dict[str, str]()
    while len(parent) < len(task.workers):
        cost, _, _, child, above = min(
            (routes.distance(child, above), depth[above], order, child, above)
            for order, child in enumerate(task.workers)
            if child not in depth
            for above in depth
        )
        if cost >= FAR:
            raise Rejection(f"task {task.name}: no way from {child} to another host of it is left")
        parent[child], depth[child] = above, depth[above] + 1
    paths: dict[Pair, Path] = {}
    used: Counter[Hop] = Counter()
    try:
        for child, above in parent.items():
            way = routes.path(child, above)
            for path in (way, way[::-1]):
                paths[(path[0], path[-1])] = path
                used.update(hops(state.topology, path))
    except PlanError as error:
        raise Rejection(f"task {task.name}: {error}") from None
    demand = {hop: times * task.reserved_bps for hop, times in used.items()}
    for (node, port), bps in demand.items():
        view.check_link(node, state.topology.neighbour(node, port), max(1, bps))
    return HostTree(task, parent, paths, demand if task.demand_bps else {})


# A path for every local model, with aggregation at the global model's host, which needs no capable switch.


def first_fit(view: View, *, ecmp: bool = False) -> StarLayout:
    """For every local model and direction, the shortest path on which its share fits beside earlier shares.

    Shortest means fewest links, then least delay; with ``ecmp`` a hash of task, link and destination decides among
    equally many links. Switches forward by destination: a path to G that meets an earlier path continues on it. Uploads
    take their shares before the broadcasts: a link that both cross must have room for both.

    Raises
    ------
    Rejection
        Names a link on the shortest path that has too little rate left.
    """
    view.check_hosts(copies=len(view.task.workers))
    paths: dict[Pair, Path] = {}
    left = view.residual_bps.copy()
    for direction in ("upload", "broadcast"):
        fit = _FirstFit(view, direction, left, ecmp=ecmp)
        for worker in view.task.workers:
            path = fit.take(worker)
            way = path if direction == "upload" else path[::-1]
            paths[(way[0], way[-1])] = way
    return StarLayout(paths)


def least_copies(view: View) -> int:
    """Lower bound on a star's copies of a frame on links, both directions together: the links of shortest paths."""
    paths, task = view.problem.paths, view.task
    return 2 * sum(paths.distance(worker, task.server) for worker in task.workers)


class _FirstFit:
    """Shortest paths to the server, one after the other, on which one more share fits.

    A broadcast is routed as the upload of a network with all links reversed; its destinations are the workers, so its
    paths may part anywhere. ``left`` is the free rate of arcs in the direction of frames; shares are subtracted from
    it.
    """

    def __init__(self, view: View, direction: Direction, left: Ints, *, ecmp: bool) -> None:
        self._view, self._direction, self._ecmp, self._left = view, direction, ecmp, left
        self._problem = problem_of(view, hop_words(view.graph, left, view.task.reserved_bps), direction)
        self._onward: dict[int, int] = {}
        self._routes: Routes | None = None

    def take(self, worker: str) -> Path:
        """The path from a worker to the server; its share is taken."""
        task, graph = self._view.task, self._view.graph
        routes = self._find(worker)
        try:
            path = routes.path(worker, task.server)
        except PlanError:
            raise self._rejection(worker) from None
        switches = [graph.index[name] for name in path[1:-1]]
        arcs = routes.towards(switches[-1]).arcs
        for at in switches[:-1]:
            arc = int(arcs[at])
            self._onward[at] = arc
            taken = self._of_frames(arc)
            self._left[taken] -= task.reserved_bps
            if self._left[taken] < max(1, task.reserved_bps):
                self._routes = None
        return path

    def _of_frames(self, arc: int) -> int:
        """The arc that frames take for an arc of a path: for a broadcast, its reverse."""
        return arc if self._direction == "upload" else int(self._view.graph.reverse[arc])

    def _find(self, worker: str) -> Routes:
        """Routes with the rates that are left now."""
        upload = self._direction == "upload"
        if self._routes is None or (self._ecmp and not upload):
            graph = self._view.graph
            words = self._problem.words.copy()
            if self._ecmp:
                words[:, 1] = _hashes(f"{self._view.task.name}>{'' if upload else worker}", len(words))
            left = self._left if upload else self._left[graph.reverse]
            words[left < max(1, self._view.task.reserved_bps), 0] = -1
            if upload:
                for at, arc in self._onward.items():
                    others = np.arange(graph.starts[at], graph.starts[at + 1])
                    words[others[others != arc], 0] = -1
            self._routes = Routes(self._view.state.topology, graph, words)
        return self._routes

    def _rejection(self, worker: str) -> Rejection:
        task, upload = self._view.task, self._direction == "upload"
        whole = problem_of(
            self._view, hop_words(self._view.graph, self._view.residual_bps, task.reserved_bps), self._direction
        )
        check_reach(whole)
        path = whole.paths.path(worker, task.server)
        links = [(a, b, self._of_frames(self._arc(a, b))) for a, b in pairwise(path[1:-1])]
        a, b, arc = min(links, key=lambda link: int(self._left[link[2]]))
        names = f"{a} -> {b}" if upload else f"{b} -> {a}"
        return Rejection(
            f"task {task.name}: link {names} has {format_rate(int(self._left[arc]))}b/s left beside the task's other "
            f"shares, {format_rate(task.reserved_bps)}b/s are needed for {worker}"
        )

    def _arc(self, a: str, b: str) -> int:
        return self._view.graph.arcs[(a, self._view.state.topology.port(a, b))]


def _hashes(text: str, count: int) -> Ints:
    """A number of 30 bits for every arc, the same on every machine (SplitMix64's finalizer)."""
    mixed = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(crc32(text.encode()))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed >> np.uint64(34)).astype(np.int64)


# A tree with explicit paths that satisfies forwarding, bandwidth and slots; or a rejection that names the obstacle.


_ATTEMPTS: Final = 8
"""number of attempts to plan a tree when too many copies of a frame cross a link"""
_PENALTY: Final = 16
"""factor on the weight of a link without room in the next attempt"""
_DEAREST: Final = 10**12

TreePlanner = Callable[[TaskProblem], TreeLayout]


def admitted(problem: TaskProblem, planner: TreePlanner) -> TreeLayout:
    """A tree that forwards consistently, with room for its copies on every link and slots in every switch.

    If a switch has too few slots for a tree, the tree is planned again without switches that have no more slots; as
    slots are powers of two, this ends soon. If no switch is left, trees of a single switch are tried, since their round
    trips may be shorter.

    Raises
    ------
    Rejection
        Names the link or the switch without room.
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
            least = max(2 * slots, 2 * problem.least_slots if short else least_slots(problem))
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
    """The planner's tree with explicit paths, or a similar one if switches could not forward it.

    If links weigh differently in the two directions, the shortest paths of different edges may ask a switch to forward
    frames for one node in two ways. Then the tree is planned under the mean weights of both directions, whose shortest
    paths agree, or along shortest paths to one root; the cheapest tree that can be forwarded is taken.

    Raises
    ------
    Rejection
        When none can be forwarded; names the switch.
    """
    layout = explicit(problem, planner(problem))
    if problem.paths.symmetric or disagreement(layout) is None:
        return layout
    even = replace(problem.both_ways(), turned=problem.turned, both=False)
    options: list[TreeLayout] = []
    for way, plan in ((problem, spt), (even, planner), (even, spt)):
        with contextlib.suppress(PlanError):  # in `even`, links closed in one direction are closed in both
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
    """The reason why switches cannot forward a layout's paths, both ways, by destination; None when they can."""
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
    """Whether a tree, planned for another problem, uses no link that is closed in ``problem``."""
    graph = problem.view.graph
    crossed, _ = layout.crossed(problem.topology)
    return all(problem.words[graph.arcs[hop], 0] >= 0 for hop in crossed if hop in graph.arcs)


def tight_links(problem: TaskProblem, layout: TreeLayout) -> dict[Hop, int]:
    """Directed links without room for the copies of the task's frames in all its trees, with the rate needed in bit/s.

    Decisions reserve the sum of both directions (:func:`~p4reduce.control_plane.scheduling.view.decision_of`).
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


Trees = tuple[TreeLayout, TreeLayout]


def decide_trees(name: str, view: View, planner: TreePlanner, words: Ints) -> TreeDecision:
    """The trees of a task, or its star if the star takes fewer bytes or only the star fits.

    The star is that of `spff` (:func:`~p4reduce.control_plane.scheduling.trees.first_fit`). It wins if few switches can
    aggregate, so that a tree is a detour. Every task that `spff` or `spt` admit is admitted; `Task.aggregation` may
    exclude trees or stars.

    Parameters
    ----------
    name : str
        Name of the policy.
    view : View
        The task and the network.
    planner : function
        Makes a tree for a problem.
    words : int64 (m, 3)
        Weights of arcs in the direction of frames.

    Raises
    ------
    Rejection
        Names the link or the switch without room for the trees.
    """
    view.check_hosts()
    wanted, topology = view.task.aggregation, view.state.topology
    if wanted == "hosts":
        star = first_fit(view)
        return decision_of(name, view, star, star)
    try:
        decision = decision_of(name, view, *_trees(view, planner, words))
    except Rejection:
        if wanted == "switches" or (other := _star(view)) is None:
            raise
        return decision_of(name, view, other, other)
    takes = chunk_bytes(decision, topology, view.lanes)
    least = least_copies(view) * frame_bytes(view.lanes)
    if wanted is None and takes > least and (other := _star(view)) is not None:
        without = decision_of(name, view, other, other)
        most = chunk_bytes(without, topology, view.lanes)
        if takes > most:
            return _one_tree(name, view, planner, words, most) or without
    return decision


def _one_tree(name: str, view: View, planner: TreePlanner, words: Ints, most: int) -> TreeDecision | None:
    """One tree for both directions with at most ``most`` bytes for a chunk: two jobs cost additional empty frames."""
    try:
        tree = admitted(problem_of(view, words, "upload").both_ways(), planner)
    except Rejection:
        return None
    decision = decision_of(name, view, tree, tree)
    return decision if chunk_bytes(decision, view.state.topology, view.lanes) <= most else None


def _star(view: View) -> StarLayout | None:
    try:
        return first_fit(view)
    except Rejection:
        return None


def _trees(view: View, planner: TreePlanner, words: Ints) -> Trees:
    """The planner's trees or, if they do not fit, shortest-path trees."""
    try:
        return _of_planner(view, planner, words)
    except Rejection:
        if planner is spt:
            raise
        try:
            return _of_planner(view, spt, words)
        except Rejection:
            pass
        raise


def _of_planner(view: View, planner: TreePlanner, words: Ints) -> Trees:
    """Upload and broadcast: the same tree if that costs the broadcast nothing.

    Both must fit together. The upload is planned first; if it leaves no room for the broadcast, the broadcast is
    planned first; if that fails, both take one tree.
    """
    straight = problem_of(view, words, "upload")
    upload = admitted(straight, planner)
    turned = problem_of(view, words, "broadcast", straight.paths)
    one_fits = passes(turned, upload) and not tight_links(replace(straight, both=True), upload)
    # Weights may agree in both directions while the free rates of the links do not.
    if one_fits and np.array_equal(turned.words[:, 0], words[:, 0]):
        return upload, upload
    try:
        broadcast = admitted(_beside(turned, upload), planner)
    except Rejection as rejection:
        if one_fits:
            return upload, upload
        return _otherwise(straight, turned, planner, rejection)
    if one_fits and weight(turned, upload) <= weight(turned, broadcast):
        broadcast = upload
    return upload, broadcast


def _otherwise(straight: TaskProblem, turned: TaskProblem, planner: TreePlanner, rejection: Rejection) -> Trees:
    """Plan the broadcast first; else one tree whose links have room for both."""
    broadcast = admitted(turned, planner)
    with contextlib.suppress(Rejection):
        return admitted(_beside(straight, broadcast), planner), broadcast
    with contextlib.suppress(Rejection):
        both = admitted(straight.both_ways(), planner)
        return both, both
    raise rejection


def _beside(problem: TaskProblem, other: TreeLayout) -> TaskProblem:
    """The problem of one direction, beside the tree of the other."""
    view = problem.view
    direction: Direction = "upload" if problem.turned else "broadcast"
    return problem.beside(copies(view.task, problem.topology, other, direction), slots_of(view, other))
