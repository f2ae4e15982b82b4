"""`steiner`: the cheapest tree found with aggregation at any capable switch; `exact`: the cheapest tree."""

import contextlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.linear import Rows
from p4reduce.control_plane.plans.kernels import FAR, sized
from p4reduce.control_plane.plans.kernels.shortest import direct, improve, priced
from p4reduce.control_plane.plans.kernels.spanning import with_one_more
from p4reduce.control_plane.plans.problem import MAX_CHILDREN, Problem, TreeLayout, register
from p4reduce.control_plane.plans.routes import Ints, NoPathError, Short
from p4reduce.control_plane.plans.trees import (
    best,
    central,
    finish,
    grow,
    limit_fan_in,
    mst,
    prune,
    solve_crowded,
    spt_cheapest,
)

# The choice of aggregating switches: prices of sets of switches, and local search over them.


Chosen = frozenset[int]
SMALL: Final = 256
"""number of switches up to which a search may compute distances from all of them"""
_ROWS: Final = 1024
"""largest number of switches whose distances a search may use"""


class Search:
    """Prices and improves sets of aggregating switches (by index).

    The price of a set is its cheapest tree on shortest paths, directed to the server, and the path of every worker to
    its nearest switch of the set. Shortest paths are computed only to and from hosts and switches of sets that were
    tried. If the server's own switch can aggregate, it belongs to every set; otherwise the server is a leaf of the
    tree. Hosts' own links are left out.
    """

    def __init__(self, problem: Problem) -> None:
        self._routes = routes = problem.paths
        graph = routes.graph
        self._symmetric = routes.symmetric
        self._small = len(graph.names) <= SMALL
        self.capable: Short = graph.places(problem.capable)
        access: dict[int, int] = {}
        for worker in problem.workers:
            switch = graph.index[routes.access(worker)]
            access[switch] = access.get(switch, 0) + 1
        server = None if problem.server is None else graph.index[routes.access(problem.server)]
        able = server is not None and bool((self.capable == server).any())
        self._leaf = server is not None and not able
        # The kernels see only capable switches, then the server's switch if that is a leaf.
        self._seen = self.capable if server is None or able else np.append(self.capable, np.int32(server))
        self._number = {switch: number for number, switch in enumerate(self._seen.tolist())}
        self._first = () if server is None or not able else (self._number[server],)
        self._graph = (graph.starts, graph.heads, routes.costs, routes.inward_costs, self._seen)
        reach = np.stack([routes.away(switch).costs[self._seen] for switch in access])
        self._hosts = (reach, np.array(list(access.values()), np.int64))
        to = np.empty((min(len(graph.names) + 32, _ROWS), len(self._seen)), np.int64)
        place = np.full(len(self._seen) + 1, -1, np.int32)
        place[-1] = 0
        self._store = (to, to if self._symmetric else np.empty_like(to), place)

    def improve(self, start: Iterable[int]) -> tuple[int, Chosen]:
        """Add, drop or exchange one switch while that lowers the price; returns the price and the set."""
        order, first = self._order(start), len(self._first)
        price, order = sized(improve, len(self._graph[0]))(
            self._graph, self._symmetric, order, first, self._leaf, self._hosts, self._store, self._small
        )
        return int(price), frozenset(self._seen[order[: len(order) - self._leaf]].tolist())

    def parents(self, chosen: Iterable[int]) -> dict[int, int]:
        """The cheapest tree over a set: the parent of every switch but the root."""
        order = self._order(chosen)
        switches, parent = self._seen[order].tolist(), self._priced(order)[1].tolist()
        last = len(order) - self._leaf
        return {switches[i]: switches[parent[i]] for i in range(last) if 0 <= parent[i] < last}

    def free(self, chosen: Iterable[int]) -> list[int]:
        """Capable switches, including those of the set, that do not raise its price; for problems without a server."""
        price, parent, matrix, attached, rows = self._priced(self._order(chosen))
        one_more = sized(with_one_more, len(self._graph[0]))
        prices = one_more(matrix, parent, self._store[0], rows, 0, self._hosts[0], attached, self._hosts[1])
        return [int(switch) for switch in self.capable[prices <= price]]

    def _order(self, chosen: Iterable[int]) -> Short:
        """The set in the kernels' numbers, its root first; the server as a leaf last."""
        others = sorted({self._number[switch] for switch in chosen} - set(self._first))
        order = [*self._first, *others, *([len(self._seen) - 1] if self._leaf else [])]
        self._make_room(len(order))
        to, away, place = self._store
        for number in order:
            switch = int(self._seen[number])
            inward, outward = self._routes.known(switch, inward=True), self._routes.known(switch, inward=False)
            if place[number] < 0 and inward is not None and outward is not None:
                # Costs that the problem's paths have computed are reused.
                row = place[number] = place[-1]
                place[-1] += 1
                to[row], away[row] = inward[self._seen], outward[self._seen]
        return np.array(order, np.int32)

    def _make_room(self, nodes: int) -> None:
        """Make room for ``nodes`` more rows in the store: a start may have more nodes than the search ever adds."""
        to, away, place = self._store
        missing = int(place[-1]) + nodes + 1 - len(to)
        if missing > 0:
            more = np.empty((missing, len(self._seen)), np.int64)
            to = np.concatenate([to, more])
            self._store = (to, to if self._symmetric else np.concatenate([away, more]), place)

    def _priced(self, order: Short) -> tuple[int, Short, Ints, Ints, Short]:
        priced_set: tuple[int, Short, Ints, Ints, Short] = sized(priced, len(self._graph[0]))(
            self._graph, self._symmetric, order, self._leaf, self._hosts, self._store
        )
        return priced_set


@register("steiner")
def steiner(problem: Problem) -> TreeLayout:
    """Approximate Steiner trees, improved by adding and dropping switches; never worse than `mst` or `spt`.

    Local search over the set of aggregating switches starts from the sets of `mst` and of shortest-path trees, and from
    the switches on their paths, as in the heuristic of Kou, Markowsky and Berman (1981); on large networks only from
    the set of `mst`. Among trees of equal cost, the tree with the least loaded links, then the shallowest is taken.
    """
    fallback: list[TreeLayout] = []
    for start in (mst, spt_cheapest):
        with contextlib.suppress(NoPathError):  # links may be closed in one direction
            fallback.append(start(problem))
    search = Search(problem)
    index = problem.paths.graph.index
    starts = [frozenset(index[name] for name in layout.aggregators) for layout in fallback]
    if not starts:
        starts = [frozenset({index[problem.paths.nearest(worker, problem.capable)] for worker in problem.workers})]
    if len(problem.paths.graph.names) > SMALL:
        starts = starts[:1]
    elif problem.paths.symmetric:
        starts += [_on_paths(problem, search, start) for start in starts]
    improved = {search.improve(start) for start in dict.fromkeys(starts)}
    least = min(price for price, _ in improved)
    cheapest = sorted((chosen for price, chosen in improved if price == least), key=sorted)
    if least >= FAR:
        raise NoPathError("no tree connects the workers and the server")
    trees = [tree for chosen in cheapest for tree in _rooted(problem, search, chosen)]
    return best(problem, fallback + trees)


def _on_paths(problem: Problem, search: Search, chosen: Chosen) -> Chosen:
    """The set, and the capable switches at which its tree's paths meet."""
    graph = problem.paths.graph
    used = np.zeros(len(graph.heads), np.bool_)
    for child, above in search.parents(chosen).items():
        arcs = problem.paths.towards(above).arcs
        at = child
        while at != above:
            if arcs[at] < 0:
                raise PlanError(f"no path from {graph.names[child]} to {graph.names[above]}")
            used[arcs[at]] = True
            at = int(graph.heads[arcs[at]])
    used |= used[graph.reverse]
    degree = np.bincount(graph.tails[used], minlength=len(graph.names))
    return chosen | {int(switch) for switch in search.capable if degree[switch] > 1}


def _rooted(problem: Problem, search: Search, chosen: Chosen) -> list[TreeLayout]:
    """The trees over ``chosen``, one for each of the most central roots that add nothing to the price.

    A root may be a switch that the tree only passes through. With a server, the root is the switch nearest to it.
    """
    names = problem.paths.graph.names
    switches = tuple(sorted(names[switch] for switch in chosen))
    if problem.server is not None:
        roots = [problem.paths.nearest_to(problem.server, switches)]
    else:
        roots = central(problem, [names[switch] for switch in search.free(chosen)])
    return [finish(problem, tree) for root in roots for tree in grow(problem, root, switches)]


# `exact`: the cheapest tree, by mixed-integer programming, with a certified lower bound.


TIME_LIMIT_S: Final = 60.0
"""seconds after which the solver is stopped"""
_WHOLE: Final = 1e-6

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Optimum:
    """A cheapest tree with a lower bound.

    Attributes
    ----------
    layout : TreeLayout
        The tree.
    cost : int
        Cost of its links between switches, one for each copy, in the weights of the problem's paths.
    bound : float
        Lower bound on the cost of every tree: the value of the linear program without integrality.
    proven : bool
        Whether the solver proved that no tree is cheaper; False when it was stopped.
    """

    layout: TreeLayout
    cost: int
    bound: float
    proven: bool


@register("exact")
def exact(problem: Problem) -> TreeLayout:
    """The cheapest tree (:func:`solve`), for small networks: germany50 or a fat-tree with k = 8, not data centres."""
    return solve(problem).layout


def solve(
    problem: Problem, *, limits: Ints | None = None, both_ways: bool = False, time_limit_s: float = TIME_LIMIT_S
) -> Optimum:
    """The cheapest aggregation tree as a directed multicommodity-flow problem, solved by HiGHS.

    Nodes are the switches that can aggregate, hosts at switches that cannot, and the server; arcs are shortest paths
    that pass no capable switch, so that every copy on every link is counted. y_a says whether an arc carries the sum,
    f_a^t <= y_a is the flow from terminal t to the root:

        minimize sum_a c_a y_a   subject to   out f^t - in f^t = [t] - [root] at every node, f^t <= y, y binary,
        at most one arc out of a node, at most limits_l copies on link l.

    Without integrality the value is a lower bound of every tree's cost (Wong, A dual ascent approach for Steiner tree
    problems on a directed graph, 1984). The program does not limit children; if a switch has more than 32, the tree
    comes from another program (:func:`~p4reduce.control_plane.plans.trees.solve_crowded`), whose trees cost no less.

    Parameters
    ----------
    problem : Problem
        The first words of its paths are the costs c.
    limits : int64 (m,) or None
        Largest number of copies of a frame that fit on every arc.
    both_ways : bool
        Whether frames return on the same tree: the copies of both directions of a link must fit in each.
    time_limit_s : float
        Seconds for each of the two solutions.

    Raises
    ------
    PlanError
        When no tree exists, or none was found in time.
    """
    model = _Model(problem)
    if limits is not None and both_ways:
        limits = np.minimum(limits, limits[problem.paths.graph.reverse])
    bound, values, proven = model.least(limits, both_ways=both_ways, time_limit_s=time_limit_s)
    taken = model.reached({model.arcs[place][0]: int(place) for place in np.flatnonzero(values > 0.5)})
    layout = prune(problem, model.layout({model.arcs[place][0]: model.arcs[place][1] for place in taken}))
    cost = sum(int(model.costs[place]) for place in taken)
    if max(map(len, layout.children.values())) <= MAX_CHILDREN:
        return Optimum(layout, cost, bound, proven)
    crowded = solve_crowded(problem, limits=limits, both_ways=both_ways, time_limit_s=time_limit_s)
    if crowded is None:  # none found in time, or too many children, which the next line reports
        layout = limit_fan_in(problem, layout)
        return Optimum(layout, _between_switches(problem, layout), bound, False)
    return Optimum(prune(problem, crowded[0]), crowded[1], bound, crowded[2])


def _between_switches(problem: Problem, layout: TreeLayout) -> int:
    """Cost of one frame on every edge, without the hosts' own links."""
    routes = problem.paths
    edges = [*layout.parent.items(), *([(layout.root, problem.server)] if problem.server else [])]
    return sum(routes.distance(routes.access(child), routes.access(parent)) for child, parent in edges)


class _Model:
    """The overlay: nodes by name, arcs with their costs and the links that each crosses."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        routes, graph = problem.paths, problem.paths.graph
        self._capable = set(problem.capable)
        able = np.zeros(len(graph.names), np.bool_)
        able[graph.places(problem.capable)] = True
        self.home = {host: self._overlay_node(host) for host in (*problem.workers, *self._server())}
        top = problem.server or problem.workers[0]
        self.root = self.home[top]
        self.sources = sorted({self.home[worker] for worker in problem.workers} - {self.root})
        self.arcs: list[tuple[str, str]] = []
        costs: list[int] = []
        self._links: list[list[int]] = []
        cost = np.ascontiguousarray(routes.words[:, 0])
        ends = defaultdict(list)
        # Sorted by name: among trees of equal cost the solver's choice depends on the order of its rows.
        for node in sorted({*self._capable, self.root}):
            ends[routes.access(node)].append(node)
        for node in sorted(self._capable | set(self.sources)):
            if node == self.root:
                continue
            start = graph.index[routes.access(node)]
            distance, last = sized(direct, len(graph.names))(graph.starts, graph.heads, cost, able, start)
            for switch, others in ends.items():
                for other in others:
                    reached = int(distance[graph.index[switch]])
                    # A host reaches the server's host only over a switch that can merge.
                    if other == node or reached >= FAR or not {node, other} & self._capable:
                        continue
                    self.arcs.append((node, other))
                    costs.append(reached)
                    self._links.append(_way(graph.tails, last, graph.index[switch], start))
        self.costs = np.array(costs, np.float64)
        self.unit = float(self.costs.max(initial=1.0)) or 1.0

    def least(self, limits: Ints | None, *, both_ways: bool, time_limit_s: float) -> tuple[float, Floats, bool]:
        """A lower bound; y of the cheapest tree with unlimited fan-ins; whether the solver proved it cheapest."""
        if not self.sources:
            return 0.0, np.zeros(len(self.arcs)), True
        relaxed = (
            self.run(integer=False, limits=limits, both_ways=both_ways, time_limit_s=time_limit_s)
            if self.arcs
            else None
        )
        if relaxed is None:
            raise PlanError("no tree connects the workers under these limits")
        bound, values, proven = relaxed
        if np.abs(values - np.rint(values)).max() > _WHOLE:
            whole = self.run(integer=True, limits=limits, both_ways=both_ways, time_limit_s=time_limit_s)
            if whole is None:
                raise PlanError(f"no tree was found within {time_limit_s:g} s; use the plan 'steiner'")
            _, values, proven = whole
        return bound * self.unit, values, proven

    def run(
        self, *, integer: bool, limits: Ints | None, both_ways: bool, time_limit_s: float
    ) -> tuple[float, Floats, bool] | None:
        """Objective in units of the dearest arc, y, and whether it is proven optimal; None for no solution."""
        count, kinds = len(self.arcs), len(self.sources)
        size = count * (1 + kinds)
        program = Rows()
        row = program.row
        out, into = defaultdict(list), defaultdict(list)
        for place, (a, b) in enumerate(self.arcs):
            out[a].append(place)
            into[b].append(place)
        nodes = sorted({*out, *into})
        for kind, source in enumerate(self.sources):
            base = count * (1 + kind)
            for node in nodes:
                entries = dict.fromkeys((base + place for place in out[node]), 1.0)
                entries |= dict.fromkeys((base + place for place in into[node]), -1.0)
                supply = float(node == source) - float(node == self.root)
                row(entries, supply, supply)
            for place in range(count):
                row({base + place: 1.0, place: -1.0}, -np.inf, 0.0)
        for node in nodes:
            row(dict.fromkeys(out[node], 1.0), 0.0, 1.0)
            if node not in self._capable and len(into[node]) > 1:
                row(dict.fromkeys(into[node], 1.0), 0.0, 1.0)
        if limits is not None:
            users, reverse = defaultdict(list), self._problem.paths.graph.reverse
            for place, links in enumerate(self._links):
                for link in links:
                    users[min(link, int(reverse[link])) if both_ways else link].append(place)
            for link, places in users.items():
                if len(places) > limits[link]:
                    row({place: float(count) for place, count in Counter(places).items()}, 0.0, float(limits[link]))
        objective = np.concatenate([self.costs / self.unit, np.zeros(size - count)])
        whole = np.concatenate([np.full(count, int(integer)), np.zeros(size - count)])
        solution = program.solve(objective, whole=whole, most=1, time_limit=time_limit_s)
        if solution.x is None:
            return None
        return float(solution.fun), np.asarray(solution.x[:count], np.float64), solution.status == 0

    def reached(self, out: Mapping[str, int]) -> list[int]:
        """The chosen arcs that lie between a source and the root.

        Arcs of cost 0 may be part of a cheapest solution without leading anywhere, even in circles.
        """
        taken: dict[str, int] = {}
        for source in self.sources:
            at = source
            while at != self.root and at not in taken:
                taken[at] = out[at]
                at = self.arcs[out[at]][1]
        return sorted(taken.values())

    def layout(self, parent: Mapping[str, str]) -> TreeLayout:
        """The tree for the overlay's parents; its root is the server's or first worker's switch, or a switch below."""
        problem = self._problem
        above = dict(parent)
        root = self.root
        if root not in self._capable:
            below = [node for node, other in above.items() if other == root]
            root = next((node for node in below if node in self._capable), root)
            above.pop(root, None)
        tree = {node: other for node, other in above.items() if node in self._capable}
        for worker in problem.workers:
            home = self.home[worker]
            if home in self._capable:
                tree[worker] = home
            else:
                tree[worker] = above.get(worker, root)
        if root not in self._capable:
            root = problem.paths.nearest(problem.workers[0], problem.capable)
            tree = dict.fromkeys(problem.workers, root)
        return TreeLayout(root, tree)

    def _server(self) -> tuple[str, ...]:
        return (self._problem.server,) if self._problem.server else ()

    def _overlay_node(self, host: str) -> str:
        access = self._problem.paths.access(host)
        return access if access in self._capable else host


def _way(tails: "npt.NDArray[np.int32]", last: "npt.NDArray[np.int32]", node: int, start: int) -> list[int]:
    """Arcs of a path, from its end backwards."""
    arcs = []
    while node != start:
        arcs.append(int(last[node]))
        node = int(tails[last[node]])
    return arcs
