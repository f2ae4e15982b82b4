"""Which switches should aggregate: prices of sets of switches, and local search over them."""

from collections.abc import Iterable
from typing import Final

import numpy as np

from p4reduce.control_plane.plans.graph import Ints, Short
from p4reduce.control_plane.plans.kernels.jit import ONCE
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
        self._graph = (graph.starts, graph.heads, graph.reverse, routes.words, routes.inward_words)
        self._small = len(graph.names) <= SMALL
        self.capable: Short = graph.places(problem.capable)
        access: dict[int, int] = {}
        for worker in problem.workers:
            switch = graph.index[routes.access(worker)]
            access[switch] = access.get(switch, 0) + 1
        reach = np.stack([routes.away(switch).costs for switch in access])
        self._hosts = (reach, np.array(list(access.values()), np.int64))
        server = None if problem.server is None else graph.index[routes.access(problem.server)]
        able = server is not None and bool((self.capable == server).any())
        self._first: tuple[int, ...] = (server,) if able and server is not None else ()
        self._leaf = server if not able else None
        inward = np.empty((min(len(graph.names) + 32, _ROWS), len(graph.names)), np.int64)
        place = np.full(len(graph.names) + 1, -1, np.int32)
        place[-1] = 0
        self._store = (inward, inward if self._symmetric else np.empty_like(inward), place)

    def improve(self, start: Iterable[int]) -> tuple[int, Chosen]:
        """Add, drop or exchange one switch as long as that makes the set cheaper: the price and the set."""
        price, order = improve(
            self._graph,
            self._symmetric,
            self.capable,
            self._order(start),
            len(self._first),
            self._leaf is not None,
            self._hosts,
            self._store,
            self._small,
        )
        chosen = order if self._leaf is None else order[:-1]
        return int(price), frozenset(chosen.tolist())

    def parents(self, chosen: Iterable[int]) -> dict[int, int]:
        """The cheapest tree over a set: every switch's parent but the root's."""
        order = self._order(chosen)
        parent = self._priced(order)[1].tolist()
        last = len(order) - (self._leaf is not None)
        return {int(order[i]): int(order[parent[i]]) for i in range(last) if 0 <= parent[i] < last}

    def free(self, chosen: Iterable[int]) -> list[int]:
        """Capable switches that cost nothing in addition to a set, those in it included; without a server."""
        order = self._order(chosen)
        price, parent, matrix, attached, rows = self._priced(order)
        inward = self._store[0][rows]
        if self._leaf is not None:
            inward[-1] += ONCE
        prices = with_one_more(matrix, parent, inward, self.capable, self._hosts[0], attached, self._hosts[1])
        return [int(switch) for switch in self.capable[prices <= price]]

    def _order(self, chosen: Iterable[int]) -> Short:
        """The set, its root first; the server as a leaf last."""
        others = sorted(set(chosen) - set(self._first))
        order = [*self._first, *others, *([] if self._leaf is None else [self._leaf])]
        inward, outward, place = self._store
        for switch in order:
            if place[switch] < 0:
                # What the problem's paths know need not be computed again.
                row = place[switch] = place[-1]
                place[-1] += 1
                inward[row] = self._routes.towards(switch).costs
                outward[row] = self._routes.away(switch).costs
        return np.array(order, np.int32)

    def _priced(self, order: Short) -> tuple[int, Short, Ints, Ints, Short]:
        found: tuple[int, Short, Ints, Ints, Short] = priced(
            self._graph, self._symmetric, order, self._leaf is not None, self._hosts, self._store
        )
        return found
