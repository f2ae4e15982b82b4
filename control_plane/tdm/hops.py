"""All-to-all over several hops: pods forward for each other, on circuits that stay.

The other way for a job over more pods than a ToR has ports; `several` lights one configuration after the other. Each
byte crosses more than one circuit, nothing goes dark. Circuits are those of a circulant graph over the pods (pod i is
joined to i +- d for each offset d), which looks the same from everywhere. What goes to one unit travels along one
tree, as switches forward by destination; trees are laid one after the other along the least loaded circuits, and again.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Final

import numpy as np

from p4reduce.control_plane.tdm.demand import Floats
from p4reduce.control_plane.tdm.schedule import Matrix, Route

MOST_TREES: Final = 8
"""towards each pod; its units take them in turns"""
PASSES: Final = 4
"""in which every tree is laid anew"""
GRAPHS: Final = 4
"""that are tried, those with the shortest ways"""
_MOST_SETS: Final = 512
"""of offsets that are looked at"""


@dataclass(frozen=True)
class Hops:
    """All-to-alls of a group on circuits that stay."""

    matrix: Matrix
    """of these circuits alone"""
    bytes: float
    """over the busiest circuit"""
    routes: tuple[tuple[Route, ...], ...]
    """of each job"""


@dataclass(frozen=True)
class _Job:
    units: tuple[int, ...]
    load: float


def several_hops(units: Sequence[Sequence[int]], loads: Sequence[int], free: Sequence[int]) -> Hops | None:
    """Circuits and routes for all-to-alls that communicate at the same time; jobs with common pods share circuits.

    Parameters
    ----------
    units : sequence of sequences of int, (jobs, pods)
        Of each job in each pod.
    loads : sequence of int
        Bytes between two units, each way, in both phases together.
    free : sequence of int
        Ports of each pod that no tree has.

    Returns
    -------
    Hops or None
        None where a pod has fewer than two ports for it: a ring is the least.
    """
    pods = len(free)
    lit = np.zeros((pods, pods), np.int64)
    most = 0.0
    routes: list[tuple[Route, ...]] = [()] * len(units)
    for own in _components(units):
        members = sorted({pod for j in own for pod, count in enumerate(units[j]) if count})
        if len(members) < 2:
            continue
        ports = min(free[pod] for pod in members)
        jobs = [_Job(tuple(units[j][pod] for pod in members), float(loads[j])) for j in own]
        found = _best(jobs, len(members), ports)
        if found is None:
            return None
        joined, load, ways = found
        most = max(most, load)
        for a, b in joined:
            lit[members[a], members[b]] = lit[members[b], members[a]] = 1
        for j, way in zip(own, ways, strict=True):
            routes[j] = tuple(Route(tuple(members[pod] for pod in path), share) for path, share in way)
    return Hops(tuple(tuple(int(value) for value in row) for row in lit), most, tuple(routes))


Paths = list[tuple[tuple[int, ...], float]]
"""(pods, share of what the first has for the last)"""


def _components(units: Sequence[Sequence[int]]) -> list[list[int]]:
    """Jobs by common pods."""
    found: list[tuple[set[int], list[int]]] = []
    for j, row in enumerate(units):
        pods = {pod for pod, count in enumerate(row) if count}
        touching = [one for one in found if one[0] & pods]
        found = [one for one in found if not one[0] & pods]
        found.append((pods.union(*(one[0] for one in touching)), sorted([j, *(x for one in touching for x in one[1])])))
    return [own for _, own in found]


def _best(jobs: Sequence[_Job], size: int, ports: int) -> tuple[set[tuple[int, int]], float, list[Paths]] | None:
    best: tuple[set[tuple[int, int]], float, list[Paths]] | None = None
    for offsets in _offsets(size, ports):
        joined = {(pod, (pod + d) % size) for pod in range(size) for d in offsets}
        load, ways = _route(jobs, size, joined)
        if best is None or load < best[1]:
            best = (joined, load, ways)
    return best


def _offsets(size: int, ports: int) -> list[tuple[int, ...]]:
    """Offsets of circulant graphs within the ports, those with the shortest ways first."""
    if size == 2 and ports >= 1:
        return [(1,)]
    if ports < 2:
        return []
    pairs = list(range(2, (size - 1) // 2 + 1))  # 1 is always there: it joins all
    count = min(len(pairs), ports // 2 - 1)
    half = (size // 2,) if size % 2 == 0 and ports >= 2 * (count + 1) + 1 else ()
    sets = [(1, *chosen, *half) for chosen in islice(combinations(pairs, count), _MOST_SETS)]
    return sorted(sets, key=lambda one: (_ways(size, one), one))[:GRAPHS]


def _ways(size: int, offsets: Sequence[int]) -> int:
    """Hops from one pod to all others together."""
    distance, ring = {0: 0}, deque([0])
    while ring:
        here = ring.popleft()
        for d in offsets:
            for there in ((here + d) % size, (here - d) % size):
                if there not in distance:
                    distance[there] = distance[here] + 1
                    ring.append(there)
    return sum(distance.values())


def _route(jobs: Sequence[_Job], size: int, joined: set[tuple[int, int]]) -> tuple[float, list[Paths]]:
    """Bytes over the busiest circuit, one way, and paths of every job."""
    near: list[list[int]] = [sorted({b if a == pod else a for a, b in joined if pod in (a, b)}) for pod in range(size)]
    load: Floats = np.zeros((size, size))
    trees: dict[tuple[int, int, int], list[int]] = {}
    keys = [
        (j, target, tree)
        for j, job in enumerate(jobs)
        for target in range(size)
        for tree in range(min(MOST_TREES, job.units[target]))
    ]
    scale = sum(job.load * sum(job.units) ** 2 for job in jobs) / (2 * len(joined))
    for _ in range(PASSES):
        for key in keys:
            job, target = jobs[key[0]], key[1]
            weight = job.load * job.units[target] / min(MOST_TREES, job.units[target])
            if key in trees:
                _carry(load, trees[key], job, target, -weight)
            trees[key] = _tree(near, load / scale, target)
            _carry(load, trees[key], job, target, weight)
    found = []
    for j, job in enumerate(jobs):
        paths: Paths = []
        for target in range(size):
            count = min(MOST_TREES, job.units[target])
            for source in range(size):
                if source != target and job.units[source]:
                    paths += [(_path(trees[j, target, tree], source), 1.0 / count) for tree in range(count)]
        found.append(paths)
    return float(load.max(initial=0.0)), found


def _tree(near: Sequence[Sequence[int]], load: Floats, target: int) -> list[int]:
    """The next pod of each on its way to ``target``: few hops, and circuits that carry little (Dijkstra)."""
    size = len(near)
    cost = [float("inf")] * size
    onward = [target] * size
    cost[target] = 0.0
    left = set(range(size))
    while left:
        here = min(left, key=lambda pod: (cost[pod], pod))
        left.remove(here)
        for pod in near[here]:
            value = cost[here] + 1.0 + 8.0 * float(load[pod, here]) ** 2
            if value < cost[pod] - 1e-12:
                cost[pod], onward[pod] = value, here
    return onward


def _carry(load: Floats, onward: Sequence[int], job: _Job, target: int, weight: float) -> None:
    for source, count in enumerate(job.units):
        here = source
        while here != target and count:
            load[here, onward[here]] += weight * count
            here = onward[here]


def _path(onward: Sequence[int], source: int) -> tuple[int, ...]:
    path = [source]
    while onward[path[-1]] != path[-1]:
        path.append(onward[path[-1]])
    return tuple(path)
