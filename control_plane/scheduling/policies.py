"""The built-in scheduling policies, and the choice of the switches that should aggregate (SOAR).

Policies with the suffix `-mean` weigh and reserve :attr:`~p4reduce.control_plane.scheduling.task.Task.reserved_bps`:
the demand times the share of a round that is communication, since a task computes, then communicates. The sum of mean
uses never exceeds a link's rate; the sum of demands may when several tasks communicate at once, and their rounds are
then longer than planned. Slots are reserved for the whole demand.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from typing import Final

import numpy as np

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans import ring as ring_plans
from p4reduce.control_plane.plans import steiner as steiner_plans
from p4reduce.control_plane.plans import trees as tree_plans
from p4reduce.control_plane.plans.best import FORESTS
from p4reduce.control_plane.plans.forest import MOST_TREES, TreeShare, slots_of_each
from p4reduce.control_plane.plans.problem import (
    Layout,
    MeshLayout,
    Problem,
    RingLayout,
    TreeLayout,
    all_paths,
    timing,
)
from p4reduce.control_plane.plans.routes import Ints, Routes
from p4reduce.control_plane.plans.steiner import Optimum, solve
from p4reduce.control_plane.plans.trees import mst_shared
from p4reduce.control_plane.plans.trees import spt as spt_layout
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.trees import decide_trees, first_fit
from p4reduce.control_plane.scheduling.view import (
    DIRECTIONS,
    LEAST_SLOTS,
    Direction,
    LinkWeights,
    NetworkState,
    Policy,
    Rejection,
    TaskProblem,
    TreeDecision,
    View,
    decision_of,
    hop_words,
    loads,
    needed_slots,
    problem_of,
    range_within,
    register_policy,
    ring_members,
)
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.topologies.optical import LitTopology as Lit

# `exact`: the cheapest trees under the poster's weights, by mixed-integer programming (HiGHS).


@register_policy("exact")
def exact(task: Task, state: NetworkState, *, lanes: int = 256, weights: LinkWeights = LinkWeights()) -> TreeDecision:  # noqa: B008
    """The cheapest trees, for networks of some hundred switches at most.

    If switches could not forward the cheapest tree on asymmetric links, a similar tree that they can forward is taken
    (:func:`~p4reduce.control_plane.scheduling.trees.consistent`).
    """
    view = View(task, state, lanes)
    return decide_trees("exact", view, _tree, view.words(weights))


def optimum(
    task: Task,
    state: NetworkState,
    direction: Direction,
    *,
    lanes: int = 256,
    weights: LinkWeights = LinkWeights(),  # noqa: B008
) -> Optimum:
    """The cheapest tree of one direction with its cost and a lower bound, in weights of 1 / `SCALE`.

    Raises
    ------
    Rejection
        When no tree fits.
    """
    view = View(task, state, lanes)
    return _solve(problem_of(view, view.words(weights), direction))


def _tree(problem: TaskProblem) -> TreeLayout:
    return _solve(problem).layout


def _solve(problem: TaskProblem) -> Optimum:
    try:
        return solve(problem, limits=problem.room, both_ways=problem.both)
    except Rejection:
        raise
    except PlanError as error:
        raise Rejection(f"task {problem.view.task.name}: {error}") from None


# `overlay-mst`: the poster's flexible scheduler: minimum spanning trees of the terminals.


@register_policy("overlay-mst")
def overlay_mst(
    task: Task,
    state: NetworkState,
    *,
    lanes: int = 256,
    weights: LinkWeights = LinkWeights(),  # noqa: B008  (frozen)
) -> TreeDecision:
    """Minimum spanning trees of G and the local models' switches; an edge that a tree already uses costs nothing."""
    view = View(task, state, lanes)
    return decide_trees("overlay-mst", view, mst_shared, view.words(weights))


# `ring`: ring all-reduce between the local models' hosts and G's, without aggregation on the way.


@dataclass(frozen=True)
class _Members(Problem):
    """The hosts of a ring, and paths over links that have room."""

    words: Ints = field(kw_only=True, compare=False)
    view: View = field(kw_only=True)

    @cached_property
    def paths(self) -> Routes:
        return Routes(self.topology, self.view.graph, self.words)


@register_policy("ring", served=False)
def ring(task: Task, state: NetworkState, *, lanes: int = 256) -> TreeDecision:
    """The hosts in an order that crosses few links (:mod:`~p4reduce.control_plane.plans.ring`), on links with room.

    Models are reduce-scattered along the ring, then gathered: each of n + 1 hosts sends n / (n + 1) of a model to the
    next host, twice. A copy of a model is reserved for each of the two, on every link of every stream;
    acknowledgements, one empty frame for 16 full ones, are not counted.

    Raises
    ------
    Rejection
        Names a link with too little rate left.
    """
    return _among_hosts("ring", ring_plans.ring, task, state, lanes, copies=2, streams=1)


def _among_hosts(
    name: str,
    lay_out: Callable[[Problem], RingLayout | MeshLayout],
    task: Task,
    state: NetworkState,
    lanes: int,
    *,
    copies: int,
    streams: int,
) -> TreeDecision:
    """A plan of hosts on links with room: ``copies`` of the demand on every path, ``streams`` paths at each host.

    `Rejection` names a link with too little rate left.
    """
    view = View(task, state, lanes)
    needed = copies * task.reserved_bps
    for host in ring_members(task):
        switch = state.topology.neighbours(host)[0]
        for a, b in ((host, switch), (switch, host)):
            view.check_link(a, b, max(1, streams * needed))
    words = hop_words(view.graph, view.residual_bps, needed)
    try:
        layout = lay_out(_Members(state.topology, ring_members(task), None, lanes, words=words, view=view))
    except PlanError as error:
        raise Rejection(f"task {task.name}: {error}") from None
    decision = decision_of(name, view, layout, layout)
    for (node, port), bps in decision.demand_bps.items():
        view.check_link(node, state.topology.neighbour(node, port), bps)
    return decision


# Tasks whose kind, not the policy, determines the exchange among their hosts.


def all_to_all(task: Task, state: NetworkState, *, lanes: int = 256) -> TreeDecision:
    """The shortest path of every ordered pair of the task's hosts, on links with room.

    A demand is reserved for every pair, on every link of its path. `Rejection` names a link with too little rate left.
    """
    return _among_hosts("all-to-all", ring_plans.all_to_all, task, state, lanes, copies=1, streams=len(task.workers))


def by_kind(policy: Policy) -> Policy:
    """The policy, except that `ring` and `all_to_all` decide for tasks with a :attr:`Task.exchange`."""
    kinds: dict[str, Policy] = {"rar": ring, "a2a": all_to_all}

    def decide(task: Task, state: NetworkState, *, lanes: int = 256) -> TreeDecision:
        own = policy if task.exchange is None else kinds[task.exchange]
        return own(task, state, lanes=lanes)

    return decide


# `striped`, `packing` and similar: several trees at once over the same hosts, each with its part of the model.


LEAST_OF_PARTS: Final = LEAST_SLOTS * MOST_TREES
"""a switch with fewer slots is left out of plans with several trees"""


def several(name: str) -> Policy:
    """A policy for the trees of a plan of :data:`~p4reduce.control_plane.plans.best.FORESTS`.

    It plans over links that are up and not full, at their free rates, with switches that have slots left. It raises
    `Rejection` if a link has too little rate left for the shares of its trees, a switch too few slots for its trees, or
    nodes would aggregate that the task excludes.
    """

    def decide(task: Task, state: NetworkState, *, lanes: int = 256) -> TreeDecision:
        view = View(task, state, lanes)
        view.check_hosts()
        problem = _left_over(view)
        try:
            forest = FORESTS[name](problem)
        except PlanError as error:
            able = sum(switch.capable for switch in state.topology.switches)
            few = able - sum(switch.capable for switch in problem.topology.switches)
            why = f"; {few} of {able} switches have fewer than {LEAST_OF_PARTS} slots left in one range" if few else ""
            raise Rejection(f"task {task.name}: {error}{why}") from None
        trees = [_with_paths(problem, part.layout) for part in forest]
        parts = tuple(replace(part, layout=tree) for part, tree in zip(forest, trees, strict=True))
        slots, most = _slots_of_parts(view, problem, parts)
        decision = TreeDecision(name, task, trees[0], trees[0], slots=slots, max_slots=most, parts=parts)
        demand: Counter[Hop] = Counter()
        for direction in DIRECTIONS:
            for hop, times in loads(decision, state.topology, direction).items():
                demand[hop] += ceil(times * task.reserved_bps)
        for (node, port), bps in demand.items():
            view.check_link(node, state.topology.neighbour(node, port), bps)
        return replace(decision, demand_bps=dict(demand) if task.reserved_bps else {})

    return decide


def _left_over(view: View) -> Problem:
    """The problem of the task's hosts in the free part of the network."""
    topology, state = view.state.topology, view.state
    nodes = [
        replace(
            node, capable=node.capable and ((left := state.slots_left(node.name)) is None or left >= LEAST_OF_PARTS)
        )
        for node in topology.nodes
    ]
    links = [
        link
        for link in topology.links
        if topology.node(link.a).is_host
        or topology.node(link.b).is_host
        or all(state.residual_bps(hop) for hop in ((link.a, link.port_a), (link.b, link.port_b)))
    ]
    used = Counter(state.background_bps)
    used.update(state.reserved_bps)
    return Problem(
        Lit(topology.name, tuple(nodes), tuple(links)),
        ring_members(view.task),
        None,
        view.lanes,
        load=used,
        elements=view.task.elements,
    )


def _with_paths(problem: Problem, layout: Layout | None) -> TreeLayout:
    """The tree with the explicit paths that it takes in this network."""
    assert isinstance(layout, TreeLayout)  # noqa: S101
    paths = all_paths(problem.of(layout), layout)
    return replace(layout, spread=False, paths={edge: paths[edge] for edge in layout.parent.items()})


def _slots_of_parts(view: View, problem: Problem, parts: Sequence[TreeShare]) -> tuple[dict[str, int], int]:
    """The slots that all trees need of switches with known numbers of slots, and the most that each tree may take."""
    task, total = view.task, sum(part.weight for part in parts)
    needed = LEAST_SLOTS
    adders: Counter[str] = Counter()
    for part in parts:
        assert isinstance(part.layout, TreeLayout)  # noqa: S101
        round_trip = timing(problem, part.layout, all_paths(problem, part.layout)).rtt_ps
        needed = max(needed, needed_slots(view, round_trip * part.weight // total))
        adders.update(part.layout.aggregators)
    hosts = {*problem.workers}
    wrong = {"switches": adders.keys() & hosts, "hosts": adders.keys() - hosts}.get(task.aggregation or "", set())
    if wrong:
        raise Rejection(f"task {task.name}: aggregation: only {task.aggregation} may add up, not {min(wrong)}")
    left = {name: slots for name in adders if (slots := view.state.slots_left(name)) is not None}
    for name, slots in left.items():
        if slots < needed * len(parts):
            raise Rejection(
                f"task {task.name}: switch {name} has {slots} slots left in one range, {needed} are needed for each of "
                f"{len(parts)} trees"
            )
    most = min([slots // len(parts) for slots in left.values()], default=slots_of_each(len(parts)))
    return {name: needed * adders[name] for name in left}, min(range_within(most), slots_of_each(len(parts)))


for _name in FORESTS:
    register_policy(_name, served=False)(several(_name))


# `spff`: the poster's fixed scheduler: shortest path, first fit, for every local model; aggregation only at G.
#
# `spff-ecmp` uses a random path among the shortest paths.


@register_policy("spff")
def spff(task: Task, state: NetworkState, *, lanes: int = 256, ecmp: bool = False) -> TreeDecision:
    """The paths of :func:`~p4reduce.control_plane.scheduling.trees.first_fit`."""
    view = View(task, state, lanes)
    star = first_fit(view, ecmp=ecmp)
    return decision_of("spff-ecmp" if ecmp else "spff", view, star, star)


@register_policy("spff-ecmp")
def spff_ecmp(task: Task, state: NetworkState, *, lanes: int = 256) -> TreeDecision:
    """As `spff` with equal-cost multipath routing."""
    return spff(task, state, lanes=lanes, ecmp=True)


# `spff-ina`: the routes of shortest path, first fit, with aggregation where they meet at capable switches.


@register_policy("spff-ina")
def spff_ina(task: Task, state: NetworkState, *, lanes: int = 256) -> TreeDecision:
    """Paths with the fewest links, then the least delay, over links with room for one copy, merged where they meet."""
    view = View(task, state, lanes)
    return decide_trees("spff-ina", view, spt_layout, hop_words(view.graph, view.residual_bps, task.reserved_bps))


# `spt`: shortest paths under the poster's weights, merged where they meet.


@register_policy("spt")
def spt(task: Task, state: NetworkState, *, lanes: int = 256, weights: LinkWeights = LinkWeights()) -> TreeDecision:  # noqa: B008
    """Shortest paths under the poster's weights, merged where they meet at capable switches."""
    view = View(task, state, lanes)
    return decide_trees("spt", view, tree_plans.spt, view.words(weights))


# `steiner`: the cheapest tree found, with aggregation at any capable switch.


@register_policy("steiner")
def steiner(task: Task, state: NetworkState, *, lanes: int = 256, weights: LinkWeights = LinkWeights()) -> TreeDecision:  # noqa: B008
    """The cheapest trees found, with aggregation at any capable switch."""
    view = View(task, state, lanes)
    return decide_trees("steiner", view, steiner_plans.steiner, view.words(weights))


MEAN_OF: Final[dict[str, Policy]] = {"overlay-mst": overlay_mst, "spff": spff, "steiner": steiner}


def mean_use(name: str, policy: Policy) -> Policy:
    """A policy called ``name`` that decides like ``policy``, with the tasks' mean use as their reservation."""

    def decide(task: Task, state: NetworkState, *, lanes: int = 256) -> TreeDecision:
        return replace(policy(replace(task, reservation="mean"), state, lanes=lanes), policy=name)

    return decide


for _name, _policy in MEAN_OF.items():
    register_policy(f"{_name}-mean")(mean_use(f"{_name}-mean", _policy))


# The choice of k switches of a tree for aggregation: SOAR's dynamic program.


_NONE: Final = np.iinfo(np.int64).max // 4


@dataclass(frozen=True)
class AggregationPlacement:
    """Switches that aggregate, and the resulting cost of all frames of a chunk: sum over links of cost times copies."""

    chosen: tuple[int, ...]
    cost: int


def place(
    parent: Sequence[int],
    cost: Sequence[int],
    hosts: Sequence[int],
    count: int,
    available: Collection[int] | None = None,
) -> AggregationPlacement:
    """Choose at most ``count`` aggregating nodes of a tree such that the cost of frames on its links is least.

    An aggregating node sends one frame up if it gets any; any other node forwards all its frames. Let B(v, l, k) be the
    least cost of the frames of v's subtree up to the nearest aggregating node above (or to the destination), if a frame
    from v to there costs l, with at most k aggregating nodes in the subtree:

        B aggregating     = l + best split of k - 1 among the children c, B(c, cost of c, .)
        B not aggregating = l * hosts(v) + best split of k among the children, B(c, l + cost of c, .)

    l takes one value for each node above v. O(nodes * depth * count^2) (Segal, Avin and Scalosub, SOAR: minimizing
    network utilization with bounded in-network computing, CoNEXT 2021, which this follows).

    Parameters
    ----------
    parent : sequence of int
        The node above each node; -1 at the root.
    cost : sequence of int
        Cost of a frame on the link to the node above; for the root, on the link to the destination.
    hosts : sequence of int
        Number of workers at each node.
    count : int
        k.
    available : collection of int or None
        Nodes that could aggregate; None: all.

    Raises
    ------
    PlanError
        When the parents are no tree, or lengths differ.
    """
    order = _top_down(parent)
    if not len(parent) == len(cost) == len(hosts):
        raise PlanError("placement: parents, costs and hosts must have one value for each node")
    children: list[list[int]] = [[] for _ in parent]
    for node, above in enumerate(parent):
        if above >= 0:
            children[above].append(node)
    # lead[v][d]: cost of a frame from v to the node d steps above (the last: to the destination).
    lead: list[list[int]] = [[] for _ in parent]
    for node in order:
        farther = lead[parent[node]] if parent[node] >= 0 else []
        lead[node] = [cost[node], *(cost[node] + more for more in farther)]
    able = set(range(len(parent))) if available is None else set(available)
    limit = max(0, min(count, len(able)))
    tables: dict[int, _Table] = {}
    for node in reversed(order):
        tables[node] = _Table(node, lead[node], hosts[node], children[node], tables, limit, possible=node in able)
    root = order[0]
    chosen: list[int] = []
    open_ = [(root, 0, limit)]
    while open_:
        node, step, left = open_.pop()
        table = tables[node]
        merges = bool(table.merges[step, left])
        if merges:
            chosen.append(node)
        open_ += table.split(step, left, merges=merges)
    return AggregationPlacement(tuple(sorted(chosen)), int(tables[root].best[0, limit]))


class _Table:
    """B(v, l, k) of one node for every step up and every k, with the data to reconstruct the choice.

    Step d counts from the nearest aggregating node above: 0 when that is the parent.
    """

    def __init__(
        self,
        node: int,
        lead: Sequence[int],
        hosts: int,
        children: Sequence[int],
        tables: "Mapping[int, _Table]",
        limit: int,
        *,
        possible: bool,
    ) -> None:
        self._children = children
        self._tables = tables
        self.gets: bool = hosts > 0 or any(tables[child].gets for child in children)
        self._splits: dict[tuple[int, bool], list[Ints]] = {}
        self.best = np.empty((len(lead), limit + 1), np.int64)
        self.merges = np.zeros((len(lead), limit + 1), np.bool_)
        below = self._shared(0, limit, merges=True)
        for step, way in enumerate(lead):
            self.best[step] = way * hosts + self._shared(step + 1, limit, merges=False)
            if possible and limit and self.gets:
                merged = np.full(limit + 1, _NONE, np.int64)
                merged[1:] = way + below[:-1]
                self.merges[step] = merged < self.best[step]
                self.best[step] = np.minimum(merged, self.best[step])

    def _shared(self, step: int, limit: int, *, merges: bool) -> Ints:
        """The least cost of all children that share k aggregating nodes, for every k, int64 (limit + 1,)."""
        total = np.zeros(limit + 1, np.int64)
        splits: list[Ints] = []
        for child in self._children:
            own = self._tables[child].best[step]
            options = np.full((limit + 1, limit + 1), _NONE, np.int64)  # [k, number of these in the child's subtree]
            for given in range(limit + 1):
                options[given:, given] = total[: limit + 1 - given] + own[given]
            splits.append(options.argmin(axis=1))
            total = options.min(axis=1)
        self._splits[(step, merges)] = splits
        return total

    def split(self, step: int, left: int, *, merges: bool) -> list[tuple[int, int, int]]:
        """For each child: node, step and number of aggregating nodes in its subtree."""
        below, left = (0, left - 1) if merges else (step + 1, left)
        subtrees = []
        for child, given in zip(self._children[::-1], self._splits[(below, merges)][::-1], strict=True):
            share = int(given[left])
            subtrees.append((child, below, share))
            left -= share
        return subtrees


def _top_down(parent: Sequence[int]) -> list[int]:
    roots = [node for node, above in enumerate(parent) if above < 0]
    if len(roots) != 1:
        raise PlanError(f"placement: a tree has one root, not {len(roots)}")
    below: dict[int, list[int]] = {}
    for node, above in enumerate(parent):
        below.setdefault(above, []).append(node)
    order = list(roots)
    for node in order:
        order.extend(below.get(node, ()))
    if len(order) != len(parent):
        raise PlanError("placement: the parents have a cycle")
    return order


def choose_capable(topology: Topology, workers: Sequence[str], server: str, count: int) -> tuple[str, ...]:
    """The switches on the workers' shortest paths to the server with which the fewest copies cross links.

    :func:`~p4reduce.topologies.with_capable` makes a topology in which only they aggregate. (A plan needs one switch
    near the server that merges everything; if none of the chosen switches does, the plan's tree differs.)

    Parameters
    ----------
    topology : Topology
        Its capable switches may be chosen.
    workers : sequence of str
        Hosts.
    server : str
        The destination.
    count : int
        Largest number of switches.

    Returns
    -------
    tuple of str
        At most ``count`` switches: fewer if more would save nothing.
    """
    tree = _paths(topology, workers, server)
    available = [tree.names.index(name) for name in tree.names if topology.node(name).capable]
    placement = place(tree.parent, [1] * len(tree.names), tree.hosts, count, available)
    return tuple(tree.names[node] for node in placement.chosen)


def choose_capable_for(topology: Topology, tasks: Sequence[Task], count: int) -> tuple[str, ...]:
    """The switches that should aggregate for several tasks, the switch that saves most first.

    One task gets the result of :func:`choose_capable`. Several tasks get a greedy choice: in every step the switch that
    saves most copies on links, over all tasks, each on its shortest paths. A smaller count therefore gives the first
    switches of the choice for a larger count.

    Parameters
    ----------
    topology : Topology
        Its capable switches may be chosen.
    tasks : sequence of Task
        Tasks whose models are aggregated; each counts with the size of its model (``elements``).
    count : int
        Largest number of switches.

    Returns
    -------
    tuple of str
        At most ``count`` switches: fewer if more would save nothing.
    """
    if len(tasks) == 1:
        return choose_capable(topology, tasks[0].workers, tasks[0].server, count)
    trees = [(_paths(topology, task.workers, task.server), task.elements) for task in tasks]
    chosen: list[str] = []
    spent = [tree.copies(frozenset()) for tree, _ in trees]
    while len(chosen) < count:
        saved: dict[str, int] = {}
        for (tree, elements), now in zip(trees, spent, strict=True):
            for name in tree.names:
                if name not in chosen and topology.node(name).capable:
                    gain = now - tree.copies(frozenset((*chosen, name)))
                    saved[name] = saved.get(name, 0) + gain * elements
        best = max(sorted(saved), key=lambda name: saved[name], default=None)
        if best is None or saved[best] <= 0:
            break
        chosen.append(best)
        spent = [tree.copies(frozenset(chosen)) for tree, _ in trees]
    return tuple(chosen)


@dataclass(frozen=True)
class _PathTree:
    """Shortest paths of workers to a server: switches, the switch above each (-1: the server), workers at each."""

    names: list[str]
    parent: list[int]
    hosts: list[int]

    def copies(self, chosen: frozenset[str]) -> int:
        """Number of copies on links when these switches aggregate."""
        frames, total = list(self.hosts), 0
        for node in reversed(_top_down(self.parent)):
            sent = min(frames[node], 1) if self.names[node] in chosen else frames[node]
            total += sent
            if self.parent[node] >= 0:
                frames[self.parent[node]] += sent
        return total


def _paths(topology: Topology, workers: Sequence[str], server: str) -> _PathTree:
    routes = Problem(topology, tuple(workers), server).paths
    above: dict[str, str | None] = {}
    hosts: dict[str, int] = {}
    for worker in workers:
        path = routes.path(worker, routes.access(server))[1:]
        hosts[path[0]] = hosts.get(path[0], 0) + 1
        above.update(zip(path, (*path[1:], None), strict=True))
    names = list(above)
    index = {name: position for position, name in enumerate(names)}
    parent = [-1 if (other := above[name]) is None else index[other] for name in names]
    return _PathTree(names, parent, [hosts.get(name, 0) for name in names])
