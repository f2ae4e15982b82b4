"""Aggregation trees of switches: functions that all planners share, and the planners ``mst`` and ``spt``."""

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.linear import Rows
from p4reduce.control_plane.plans.kernels import FAR, sized
from p4reduce.control_plane.plans.kernels.shortest import along, merged_tree, walk
from p4reduce.control_plane.plans.kernels.spanning import arborescence, shallow_tree
from p4reduce.control_plane.plans.problem import MAX_CHILDREN, Problem, TreeLayout, register
from p4reduce.control_plane.plans.routes import Ints, no_way
from p4reduce.topologies.model import Hop

# Junctions where terminals join existing paths of a tree, because an edge in use costs nothing more.


def junctions(problem: Problem, root: str, terminals: Sequence[str]) -> tuple[str, ...]:
    """The switches at which terminals join a tree that grows from its root.

    In each step, the terminal nearest to any switch on used paths is joined at that switch (Takahashi and Matsuyama, An
    approximate solution for the Steiner problem in graphs, 1980); only capable switches count, since others do not
    merge frames.

    Parameters
    ----------
    problem : Problem
        Its paths count, from the terminals to the root.
    root : str
        The first switch of the tree.
    terminals : sequence of str
        Switches.

    Returns
    -------
    tuple of str
        Each switch once, in the order of discovery, without terminals.
    """
    routes, index = problem.paths, problem.paths.graph.index
    able = np.zeros(len(routes.graph.names), np.bool_)
    able[routes.graph.places(problem.capable)] = True
    waiting = [name for name in dict.fromkeys(terminals) if name != root]
    if not waiting:
        return ()
    costs = np.stack([routes.away(index[name]).costs for name in waiting])
    nearest, at = costs[:, index[root]].copy(), np.full(len(waiting), index[root], np.int64)
    open_ = np.ones(len(waiting), np.bool_)
    used, switches = {index[root]}, dict.fromkeys((root,))
    while open_.any():
        row = int(np.where(open_, nearest, FAR + 1).argmin())
        if nearest[row] >= FAR:
            break  # no path: the caller's use of these paths raises
        open_[row] = False
        switches[routes.graph.names[at[row]]] = None
        path = (index[name] for name in routes.switches(index[waiting[row]], int(at[row])))
        for place in [place for place in path if able[place] and place not in used]:
            used.add(place)
            closer = costs[:, place] < nearest
            nearest[closer], at[closer] = costs[closer, place], place
    known = {root, *terminals}
    return tuple(name for name in switches if name not in known)


_ROOTS: Final = 8
"""number of roots that are tried for a tree of a given cost"""


def spanning_tree(problem: Problem, root: str, switches: Sequence[str], *, spread: bool) -> dict[str, str]:
    """A minimum spanning tree on the metric closure of switches, directed to ``root``.

    A data centre has many edges of equal cost. Among them, the edge is taken that keeps its new node nearest to the
    root in time, so that the tree is shallow; with ``spread``, first the edge whose path's busiest link is least busy,
    so that edges share few links. If links cost differently in their two directions, the result is the cheapest
    arborescence instead.

    Parameters
    ----------
    problem : Problem
        Its paths count.
    root : str
        One of the switches.
    switches : sequence of str
        The overlay's nodes, each once.
    spread : bool
        See above.

    Returns
    -------
    dict
        The parent of every switch but the root.
    """
    routes, graph = problem.paths, problem.paths.graph
    nodes = np.array([graph.index[name] for name in switches], np.int32)
    towards = [routes.towards(int(node)) for node in nodes]
    matrix = np.stack([row.costs[nodes] for row in towards], axis=1)
    top = switches.index(root)
    if routes.symmetric:
        latency = np.stack([routes.latencies(int(node), problem.frame_bytes)[nodes] for node in nodes], axis=1)
        ranks = {name: rank for rank, name in enumerate(sorted(switches))}
        names = np.array([ranks[name] for name in switches], np.int64)
        arcs = np.stack([row.arcs for row in towards])
        plant = sized(shallow_tree, len(graph.names))
        parent = plant(matrix, latency, names, top, spread, arcs, nodes, graph.heads, problem.chunk_times)
    else:
        parent = sized(arborescence, len(graph.names))(matrix, top)[1]
    return {name: switches[above] for name, above in zip(switches, parent.tolist(), strict=True) if above >= 0}


def central(problem: Problem, switches: Iterable[str]) -> list[str]:
    """The best few candidates for a root: switches with the least time to their farthest worker."""
    routes, length = problem.paths, problem.frame_bytes
    index = routes.graph.index
    access = {index[routes.access(worker)] for worker in problem.workers}
    farthest = np.max([routes.latencies(switch, length) for switch in access], axis=0)
    return sorted(switches, key=lambda name: (int(farthest[index[name]]), name))[:_ROOTS]


def root_beside(problem: Problem, server: str) -> str:
    """The root nearest to the server."""
    return problem.paths.nearest_to(server, problem.roots)


def grow(problem: Problem, root: str, switches: Iterable[str]) -> list[TreeLayout]:
    """Spanning trees over the switches, shallow and spread, with every worker at the nearest of them."""
    chosen = tuple(dict.fromkeys((root, *switches)))
    nearest = {access: problem.paths.nearest(access, chosen) for access in map(problem.paths.access, problem.workers)}
    attached = {worker: nearest[problem.paths.access(worker)] for worker in problem.workers}
    spreads = (False, True) if problem.paths.symmetric else (False,)
    parents: list[dict[str, str]] = []
    for spread in spreads:
        parent = spanning_tree(problem, root, chosen, spread=spread)
        if parent not in parents:
            parents.append(parent)
    return [TreeLayout(root, attached | parent, problem.spread) for parent in parents]


def cost(problem: Problem, layout: TreeLayout) -> int:
    """Cost of one frame on every edge of the tree, in one direction; includes the edge to a server."""
    routes = problem.of(layout).paths
    edges = [*layout.parent.items(), *([(layout.root, problem.server)] if problem.server else [])]
    return sum(routes.distance(child, parent) for child, parent in edges)


def depth_ps(problem: Problem, layout: TreeLayout) -> int:
    """Time in ps of a full frame from the farthest worker to the top (the server if there is one), with idle queues."""
    problem = problem.of(layout)
    paths, length = problem.paths, problem.frame_bytes
    known = {layout.root: paths.latency_ps(layout.root, problem.server, length) if problem.server else 0}

    def reach(name: str) -> int:
        if name not in known:
            parent = layout.parent[name]
            known[name] = reach(parent) + paths.latency_ps(name, parent, length)
        return known[name]

    return max(reach(worker) for worker in problem.workers)


def chunk_ps(problem: Problem, layout: TreeLayout) -> int:
    """Time in ps that the busiest directed link needs for one full frame on every edge of the tree, beside its load."""
    problem = problem.of(layout)
    routes, graph = problem.paths, problem.paths.graph
    edges = [*layout.parent.items(), *([(layout.root, problem.server)] if problem.server else [])]
    used = np.zeros(len(graph.heads), np.int32)
    hosts: Counter[Hop] = Counter()
    for child, above in edges:
        a, b = routes.access(child), routes.access(above)
        if a != child:
            hosts[(child, 1)] += 1
        if b != above:
            hosts[(b, problem.topology.port(b, above))] += 1
        sized(walk, len(graph.names))(routes.towards(graph.index[b]).arcs, graph.heads, graph.index[a], used)
    slowest = int((used * problem.chunk_times).max(initial=0))
    return max(slowest, *(count * problem.chunk_ps(hop) for hop, count in hosts.items()))


def _rank(problem: Problem, layout: TreeLayout) -> tuple[int, int, int, str]:
    """Sort key of trees of equal cost: least loaded links, shallowest, fewest switches, name of the root."""
    return chunk_ps(problem, layout), depth_ps(problem, layout), len(layout.aggregators), layout.root


def prune(problem: Problem, layout: TreeLayout) -> TreeLayout:
    """The tree without switches that merge nothing because they have no child or only one.

    An only child moves to the parent of its parent; a root with a single switch as its only child is replaced by this
    switch. No path becomes longer, because every edge takes the shortest path of its ends.
    """
    parent, root, workers = dict(layout.parent), layout.root, set(problem.workers)
    fan_in = Counter(parent.values())
    for name in layout.parent:
        # A switch without children is removed, with all switches above it that then have none.
        at = name
        while at in parent and at not in workers and not fan_in[at]:
            above = parent.pop(at)
            fan_in[above] -= 1
            at = above
    for name, above in parent.items():
        while above != root and fan_in[above] == 1:
            above = parent[above]  # noqa: PLW2901
        parent[name] = above
    kept = {root, *(parent[worker] for worker in workers)}
    open_ = list(kept)
    while open_:
        above = parent.get(open_.pop(), root)
        if above not in kept:
            kept.add(above)
            open_.append(above)
    parent = {name: above for name, above in parent.items() if name in workers or name in kept}
    while len(below := [name for name, above in parent.items() if above == root]) == 1 and below[0] not in workers:
        root = below[0]
        del parent[root]
    return TreeLayout(root, parent, layout.spread)


def limit_fan_in(problem: Problem, layout: TreeLayout, limit: int = MAX_CHILDREN) -> TreeLayout:
    """The tree with at most ``limit`` children at every switch.

    Surplus children move to another capable switch: a switch of the tree that has room, or a new switch, which then
    becomes a child. In each step the cheapest move is made.

    Raises
    ------
    PlanError
        When no capable switch has room.
    """
    current = layout
    while True:
        crowded = next((name for name, below in current.children.items() if len(below) > limit), None)
        if crowded is None:
            return current
        moves = [
            move for helper in problem.capable if (move := _move(problem, current, crowded, helper, limit)) is not None
        ]
        if not moves:
            raise PlanError(
                f"switch {crowded} would have {len(current.children[crowded])} children, but its bitmap holds {limit} "
                "and no other capable switch has room: use fewer workers, spread them over more switches, "
                "or make more switches capable"
            )
        current = min(moves, key=lambda move: move[:2])[2]


def _move(
    problem: Problem, layout: TreeLayout, crowded: str, helper: str, limit: int
) -> tuple[float, str, TreeLayout] | None:
    """Move surplus children to another switch: extra cost for each relieved child, helper, new tree; or None."""
    if helper == crowded:
        return None
    routes, index, children = problem.paths, problem.paths.graph.index, layout.children
    known = helper in children
    room = limit - len(children.get(helper, ()))
    above = _ancestors(layout, helper) if known else set()
    movable = [child for child in children[crowded] if child != helper and child not in above]
    # A new helper is itself a child.
    wanted = len(children[crowded]) - limit + (0 if known else 1)
    count = min(room, wanted, len(movable))
    relieved = count if known else count - 1
    if relieved < 1:
        return None
    # The hosts' own links cost the same in both cases.
    access = np.array([index[routes.access(child)] for child in movable])
    extra = routes.towards(index[helper]).costs[access] - routes.towards(index[crowded]).costs[access]
    first = np.argsort(extra, kind="stable")[:count]
    total = int(extra[first].sum())
    parent = dict(layout.parent) | {movable[place]: helper for place in first.tolist()}
    if not known:
        parent[helper] = crowded
        total += routes.distance(helper, crowded)
    return (total / relieved, helper, TreeLayout(layout.root, parent, layout.spread))


def _ancestors(layout: TreeLayout, name: str) -> set[str]:
    ancestors = {name}
    while name != layout.root:
        name = layout.parent[name]
        ancestors.add(name)
    return ancestors


def finish(problem: Problem, layout: TreeLayout) -> TreeLayout:
    """The last steps of every planner: prune, then limit fan-ins to the bitmap."""
    return limit_fan_in(problem.of(layout), prune(problem, layout))


def best(problem: Problem, layouts: Sequence[TreeLayout]) -> TreeLayout:
    """The cheapest layout; among equals the layout with the least loaded links, then shallowest, smallest, first."""
    different: list[TreeLayout] = []
    for layout in layouts:
        if layout not in different:
            different.append(layout)
    if len(different) == 1:
        return different[0]
    costs = [cost(problem, layout) for layout in different]
    cheapest = [layout for layout, price in zip(different, costs, strict=True) if price == min(costs)]
    return cheapest[0] if len(cheapest) == 1 else min(cheapest, key=lambda layout: _rank(problem, layout))


# The cheapest tree when workers exceed the children of a switch: some of them become children of other switches.


_TOP = ""
"""name of the root's parent: stands for the server, or for none"""


def solve_crowded(
    problem: Problem, *, limits: Ints | None, both_ways: bool, time_limit_s: float
) -> tuple[TreeLayout, int, bool] | None:
    """The cheapest tree with at most 32 children per switch, as a mixed-integer program with one flow.

    y_ab says whether switch a's parent is b, h_st is the number of workers at switch s with parent t; x_ab is a flow
    that every switch of the tree sends to the top (m switches can aggregate):

        minimize sum c_ab y_ab + sum c_st h_st   subject to   sum_b y_tb = z_t,   sum_t h_st = workers at s,
        h_st <= (workers at s) z_t,   sum_s h_st + sum_a y_at <= 32 z_t,   out x - in x = z_t,   0 <= x <= m y.

    Edges are shortest paths, which may pass switches that could merge but have no room.

    Parameters
    ----------
    problem, limits, both_ways, time_limit_s
        As in :func:`~p4reduce.control_plane.plans.steiner.solve`.

    Returns
    -------
    TreeLayout, int, bool or None
        The tree, its cost between switches, whether it is proven optimal; None when there is none.
    """
    return _Model(problem).run(limits, both_ways=both_ways, time_limit_s=time_limit_s)


class _Model:
    """The mixed-integer program, with columns y, then x, then h, then z."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        routes, able = problem.paths, problem.capable
        self._able = able
        self._hosts: dict[str, list[str]] = defaultdict(list)
        for worker in problem.workers:
            self._hosts[routes.access(worker)].append(worker)
        self._top = None if problem.server is None else routes.access(problem.server)
        ends = [(a, b) for a in able for b in (*able, _TOP) if a != b]
        self._edges = [(a, b) for a, b in ends if not no_way(self._cost(a, b))]
        self._hangs = [(s, t) for s in self._hosts for t in able if not no_way(self._cost(s, t))]
        self._costs = [self._cost(a, b) for a, b in (*self._edges, *self._hangs)]

    def _cost(self, a: str, b: str) -> int:
        b = b or (self._top or a)
        return 0 if a == b else int(self._problem.paths.distance(a, b))

    def _links(self, a: str, b: str) -> list[int]:
        """Arcs of the path from a to b."""
        b = b or (self._top or a)
        routes, graph = self._problem.paths, self._problem.paths.graph
        row, at, arcs = routes.towards(graph.index[b]).arcs, graph.index[a], []
        while at != graph.index[b]:
            arcs.append(int(row[at]))
            at = int(graph.heads[row[at]])
        return arcs

    def run(self, limits: Ints | None, *, both_ways: bool, time_limit_s: float) -> tuple[TreeLayout, int, bool] | None:
        edges, hangs, able = self._edges, self._hangs, self._able
        x, h, z = len(edges), 2 * len(edges), 2 * len(edges) + len(hangs)
        size = z + len(able)
        count = {s: len(own) for s, own in self._hosts.items()}
        program = Rows()
        row = program.row
        for place, name in enumerate(able):
            out = [at for at, (a, _) in enumerate(edges) if a == name]
            into = [at for at, (_, b) in enumerate(edges) if b == name]
            below = [h + at for at, (_, t) in enumerate(hangs) if t == name]
            row({**dict.fromkeys(out, 1.0), z + place: -1.0}, 0, 0)
            row({**dict.fromkeys([*into, *below], 1.0), z + place: -float(MAX_CHILDREN)}, -np.inf, 0)
            flow = dict.fromkeys((x + at for at in out), 1.0) | dict.fromkeys((x + at for at in into), -1.0)
            row({**flow, z + place: -1.0}, 0, 0)
            for at, (s, t) in enumerate(hangs):
                if t == name:
                    row({h + at: 1.0, z + place: -float(count[s])}, -np.inf, 0)
        row(dict.fromkeys((at for at, (_, b) in enumerate(edges) if b == _TOP), 1.0), 1, 1)
        for at in range(len(edges)):
            row({x + at: 1.0, at: -float(len(able))}, -np.inf, 0)
        for switch, many in count.items():
            row(dict.fromkeys((h + at for at, (s, _) in enumerate(hangs) if s == switch), 1.0), many, many)
        for link, columns in self._users(limits, both_ways=both_ways).items():
            row(columns, 0, float(limits[link]) if limits is not None else np.inf)
        costs = np.zeros(size)
        costs[: len(edges)], costs[h:z] = self._costs[: len(edges)], self._costs[len(edges) :]
        most = np.ones(size)
        most[x:h], most[h:z] = len(able), [count[s] for s, _ in hangs]
        whole = np.ones(size, np.int64)
        whole[x:h] = 0
        scale = max(self._costs, default=1) or 1
        solution = program.solve(costs / scale, whole=whole, most=most, time_limit=time_limit_s)
        if solution.x is None:
            return None
        values = np.rint(solution.x).astype(np.int64)
        return self._layout(values[:x], values[h:z]), int(costs @ values), solution.status == 0

    def _users(self, limits: Ints | None, *, both_ways: bool) -> dict[int, dict[int, float]]:
        """For each arc (with ``both_ways``: each link) the columns that put copies on it, and their numbers."""
        users: dict[int, Counter[int]] = defaultdict(Counter)
        if limits is not None:
            reverse, h = self._problem.paths.graph.reverse, 2 * len(self._edges)
            for column, ends in [*enumerate(self._edges), *enumerate(self._hangs, h)]:
                for link in self._links(*ends):
                    users[min(link, int(reverse[link])) if both_ways else link][column] += 1
        return {link: {column: float(many) for column, many in own.items()} for link, own in users.items()}

    def _layout(self, chosen: "npt.NDArray[np.int64]", hanging: "npt.NDArray[np.int64]") -> TreeLayout:
        parent = {a: b for (a, b), taken in zip(self._edges, chosen.tolist(), strict=True) if taken}
        (root,) = (a for a, b in parent.items() if b == _TOP)
        del parent[root]
        waiting = {switch: list(own) for switch, own in self._hosts.items()}
        for (s, t), many in zip(self._hangs, hanging.tolist(), strict=True):
            for _ in range(many):
                parent[waiting[s].pop(0)] = t
        return TreeLayout(root, parent)


# `mst`: the overlay minimum spanning tree, with aggregation at the terminals.


@register("mst")
def mst(problem: Problem) -> TreeLayout:
    """A minimum spanning tree on the metric closure of the terminals.

    Terminals are the capable switches nearest to the workers and to the server. The closure's edges are shortest paths,
    so the tree never costs more than a shortest path for every worker (pruning a spanning tree of the whole network
    could). The root is the server's terminal; without a server, it is the central terminal whose tree has the least
    loaded links, then the shallowest. Equal paths are tried both merged and spread.
    """
    terminals = _terminals(problem)
    if problem.server is not None:
        roots: tuple[str, ...] = (root_beside(problem, problem.server),)
    else:
        roots = tuple(central(problem, terminals))
    variants = [problem] if problem.spreading is problem else [problem, problem.spreading]
    trees = [tree for variant in variants for root in roots for tree in grow(variant, root, terminals)]
    return best(problem, [finish(problem, tree) for tree in trees])


def mst_shared(problem: Problem) -> TreeLayout:
    """A minimum spanning tree for a task with a server, in which an edge already in use costs nothing more.

    On the metric closure each edge is paid for separately, though paths may share links. Here each terminal joins the
    paths of earlier terminals, and the switches where they join (:func:`junctions`) become terminals, too. Never costs
    more than :func:`mst`.
    """
    assert problem.server is not None  # noqa: S101
    options, terminals = [mst(problem)], _terminals(problem)
    root = root_beside(problem, problem.server)
    if shared := junctions(problem, root, terminals):
        for tree in grow(problem, root, (*terminals, *shared)):
            with contextlib.suppress(PlanError):  # more children than a switch can have
                options.append(finish(problem, tree))
    return best(problem, options)


def _terminals(problem: Problem) -> tuple[str, ...]:
    return tuple(dict.fromkeys(problem.paths.nearest(worker, problem.capable) for worker in problem.workers))


# `spt`: the shortest-path tree, with aggregation wherever its paths meet at a capable switch.


@register("spt")
def spt(problem: Problem) -> TreeLayout:
    """Shortest paths from every worker to one root, merged on the way.

    The root is the capable switch nearest to the server; without a server, the switch whose tree has the least loaded
    links, then the shallowest.
    """
    if problem.server is not None:
        return finish(problem, merge_paths(problem, root_beside(problem, problem.server)))

    def order(tree: TreeLayout) -> tuple[int, int, int, str]:
        return chunk_ps(problem, tree), depth_ps(problem, tree), cost(problem, tree), tree.root

    return min(_candidates(problem, cheapest=False), key=order)


def spt_cheapest(problem: Problem) -> TreeLayout:
    """As :func:`spt`, but with the root whose tree is cheapest: a start for the search for better trees."""
    if problem.server is not None:
        return spt(problem)
    return best(problem, _candidates(problem, cheapest=True))


def _candidates(problem: Problem, *, cheapest: bool) -> list[TreeLayout]:
    """The finished trees of the best roots: with the cheapest trees, or the least loaded links and the least depth."""
    graph = problem.paths.graph
    roots = [graph.index[name] for name in problem.roots]
    estimates = [_estimate(problem, root) for root in roots]
    if max(fan_in for _, _, fan_in, _ in estimates) > MAX_CHILDREN:
        chosen = roots  # limiting the fan-in changes costs
    else:
        keys = [(cost, chunk) if cheapest else (chunk, depth) for cost, chunk, _, depth in estimates]
        least = min(keys)
        chosen = [root for root, key in zip(roots, keys, strict=True) if key == least]
        if cheapest:
            shallow = {root: depth for root, (_, _, _, depth) in zip(roots, estimates, strict=True)}
            chosen = [root for root in chosen if shallow[root] == min(shallow[other] for other in chosen)]
    return [finish(problem, merge_paths(problem, graph.names[root])) for root in chosen]


def _estimate(problem: Problem, root: int) -> tuple[int, int, int, int]:
    """Cost and chunk time of a root's tree on links between switches, its largest fan-in, its depth in ps."""
    routes, graph = problem.paths, problem.paths.graph
    row = routes.towards(root)
    latency = routes.latencies(root, problem.frame_bytes)
    depth = sized(along, len(graph.names))(row.arcs, graph.heads, np.ones(len(graph.heads), np.int64))
    hosts, lead, capable = problem.host_arrays
    main, busy = np.ascontiguousarray(routes.words[:, 0]), problem.chunk_times
    cost_, chunk, fan_in, top = sized(merged_tree, len(graph.names))(
        row.arcs, graph.heads, depth, capable, root, hosts, main, busy
    )
    reached = latency - (latency[top] if top != root else 0) + lead
    return cost_, chunk, fan_in, int(reached[hosts > 0].max())


def merge_paths(problem: Problem, root: str) -> TreeLayout:
    """The tree, not pruned, in which every capable switch on a worker's shortest path to the root aggregates."""
    capable = set(problem.capable)
    parent: dict[str, str] = {}
    for worker in problem.workers:
        below = worker
        for switch in problem.paths.path(worker, root)[1:]:
            if switch in capable and below != root:
                parent[below] = switch
                below = switch
    return TreeLayout(root, parent, problem.spread)
