"""Which switches should aggregate: prices of sets of switches, and local search over them."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from p4reduce.control_plane.plans.graph import Ints, Short
from p4reduce.control_plane.plans.kernels.jit import sized
from p4reduce.control_plane.plans.kernels.sets import improve, priced
from p4reduce.control_plane.plans.kernels.spanning import with_one_more
from p4reduce.control_plane.plans.problem import Problem

Chosen = frozenset[int]
SMALL: Final = 256
"""switches up to which a search may compute distances from all of them"""
_ROWS: Final = 1024
"""switches whose distances a search may use"""


class Search:
    """Sets of aggregating switches (by index).

    A set costs its cheapest tree on shortest paths, directed to the server, and the way of every worker to the
    nearest switch of the set. Shortest paths are computed only to and from switches of sets that were tried and of
    hosts. Where the server's own switch can aggregate it belongs to every set; where it cannot, the server is a
    leaf of the tree. Hosts' own links are left out.
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
        # The kernels see capable switches only, and last the server's where that is a leaf.
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
        """Add, drop or exchange one switch as long as that makes the set cheaper: the price and the set."""
        order, first = self._order(start), len(self._first)
        price, order = sized(improve, len(self._graph[0]))(
            self._graph, self._symmetric, order, first, self._leaf, self._hosts, self._store, self._small
        )
        return int(price), frozenset(self._seen[order[: len(order) - self._leaf]].tolist())

    def parents(self, chosen: Iterable[int]) -> dict[int, int]:
        """The cheapest tree over a set: every switch's parent but the root's."""
        order = self._order(chosen)
        switches, parent = self._seen[order].tolist(), self._priced(order)[1].tolist()
        last = len(order) - self._leaf
        return {switches[i]: switches[parent[i]] for i in range(last) if 0 <= parent[i] < last}

    def free(self, chosen: Iterable[int]) -> list[int]:
        """Capable switches that cost nothing in addition to a set, those in it included; without a server."""
        price, parent, matrix, attached, rows = self._priced(self._order(chosen))
        one_more = sized(with_one_more, len(self._graph[0]))
        prices = one_more(matrix, parent, self._store[0], rows, 0, self._hosts[0], attached, self._hosts[1])
        return [int(switch) for switch in self.capable[prices <= price]]

    def _order(self, chosen: Iterable[int]) -> Short:
        """The set by the kernels' numbers, its root first; the server as a leaf last."""
        others = sorted({self._number[switch] for switch in chosen} - set(self._first))
        order = [*self._first, *others, *([len(self._seen) - 1] if self._leaf else [])]
        self._make_room(len(order))
        to, away, place = self._store
        for number in order:
            switch = int(self._seen[number])
            inward, outward = self._routes.known(switch, inward=True), self._routes.known(switch, inward=False)
            if place[number] < 0 and inward is not None and outward is not None:
                # What the problem's paths know need not be computed again.
                row = place[number] = place[-1]
                place[-1] += 1
                to[row], away[row] = inward[self._seen], outward[self._seen]
        return np.array(order, np.int32)

    def _make_room(self, nodes: int) -> None:
        """So many more rows fit the store: a start may have more nodes than the search ever adds."""
        to, away, place = self._store
        missing = int(place[-1]) + nodes + 1 - len(to)
        if missing > 0:
            more = np.empty((missing, len(self._seen)), np.int64)
            to = np.concatenate([to, more])
            self._store = (to, to if self._symmetric else np.concatenate([away, more]), place)

    def _priced(self, order: Short) -> tuple[int, Short, Ints, Ints, Short]:
        found: tuple[int, Short, Ints, Ints, Short] = sized(priced, len(self._graph[0]))(
            self._graph, self._symmetric, order, self._leaf, self._hosts, self._store
        )
        return found
