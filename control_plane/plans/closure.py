"""The metric closure of the switches as a matrix: what trees over any set of switches would cost."""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from p4reduce.control_plane.plans.problem import Problem

_FAR = np.iinfo(np.int64).max


class Closure:
    """Distances between all switches of a problem, and the price of a set of aggregating switches."""

    def __init__(self, problem: Problem) -> None:
        names = [switch.name for switch in problem.topology.switches]
        paths = problem.paths
        self._index = {name: position for position, name in enumerate(names)}
        self._distance: npt.NDArray[np.int64] = np.array(
            [[paths.distance(a, b) for b in names] for a in names], dtype=np.int64
        )
        hosts = (*problem.workers, *((problem.server,) if problem.server else ()))
        access = [paths.access(host) for host in hosts]
        self._hosts = self._distance[[self._index[switch] for switch in access]]
        self._host_links = sum(paths.distance(host, switch) for host, switch in zip(hosts, access, strict=True))

    def price(self, chosen: Collection[str]) -> int:
        """Cost of the cheapest tree over all of these switches with every host at the nearest of them."""
        index = [self._index[name] for name in chosen]
        attached = int(self._hosts[:, index].min(axis=1).sum())
        return self._host_links + attached + _spanning_cost(self._distance[np.ix_(index, index)])


def _spanning_cost(distance: npt.NDArray[np.int64]) -> int:
    """Cost of a minimum spanning tree of a complete graph (Prim, O(n^2))."""
    nearest = distance[0].copy()
    waiting = np.ones(len(distance), dtype=np.bool_)
    waiting[0] = False
    total = 0
    for _ in range(len(distance) - 1):
        following = int(np.where(waiting, nearest, _FAR).argmin())
        total += int(nearest[following])
        waiting[following] = False
        np.minimum(nearest, distance[following], out=nearest)
    return total
