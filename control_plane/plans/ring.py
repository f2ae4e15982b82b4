"""`ring`, `ps` and `all-to-all`: plans without aggregation in the network, whose switches only forward."""

import heapq
from collections import Counter
from itertools import islice, pairwise, permutations
from typing import Final

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans.problem import MeshLayout, Problem, RingLayout, StarLayout, register
from p4reduce.control_plane.plans.routes import hops
from p4reduce.topologies import Topology

Paths = dict[tuple[str, str], tuple[str, ...]]


@register("ring")
def ring(problem: Problem) -> RingLayout:
    """The hosts in an order that crosses few links, with paths that share few links.

    The initial order is the topology's, improved by 2-opt. If some link is then busier, for its rate, than the hosts'
    links, other paths are chosen to reduce the load of the busiest link.
    """
    order = shorten(problem, tuple(sorted(problem.workers, key=lambda name: problem.topology.node(name).index)))
    pairs = streams(order)
    shortest: Paths = {pair: problem.paths.path(*pair) for pair in pairs}
    data = _merge_acks(problem, order, shortest)
    if len(order) > 2 and _busiest(problem.topology, order, data) > _own_links(problem):
        spread = _merge_acks(problem, order, _spread(problem, order))
        data = min(
            (data, spread),
            key=lambda paths: (_busiest(problem.topology, order, paths), sum(len(path) for path in paths.values())),
        )
    return RingLayout(order, data)


def shorten(problem: Problem, order: tuple[str, ...]) -> tuple[str, ...]:
    """Shorten a ring by 2-opt: reverse a part of it while that saves cost. O(n^2) a round."""
    ring_ = list(order)
    distance = problem.paths.distance
    n = len(ring_)
    improved = n > 3
    while improved:
        improved = False
        for i in range(n - 1):
            for j in range(i + 2, n if i else n - 1):
                a, b, c, d = ring_[i], ring_[i + 1], ring_[j], ring_[(j + 1) % n]
                if distance(a, c) + distance(b, d) < distance(a, b) + distance(c, d):
                    ring_[i + 1 : j + 1] = reversed(ring_[i + 1 : j + 1])
                    improved = True
    return tuple(ring_)


def streams(order: tuple[str, ...]) -> list[tuple[str, str]]:
    """Every host with its successor; empty for a single host."""
    return [(a, b) for a, b in zip(order, (*order[1:], order[0]), strict=True) if a != b]


def _own_links(problem: Problem) -> float:
    """Seconds for a bit on the slowest host link, a lower bound for every ring."""
    return max(1 / problem.topology.link_at(worker, 1).rate_bps for worker in problem.workers)


def _busiest(topology: Topology, order: tuple[str, ...], paths: Paths) -> float:
    """Seconds that the busiest directed link needs for one bit of every stream."""
    carried = Counter(hop for pair in streams(order) for hop in hops(topology, paths[pair]))
    return max((count / topology.link_at(*hop).rate_bps for hop, count in carried.items()), default=0.0)


def _spread(problem: Problem, order: tuple[str, ...]) -> Paths:
    """For each stream in turn, the path that adds least to busy links, then the shortest."""
    used: Counter[tuple[str, int]] = Counter()
    paths: Paths = {}
    for a, b in streams(order):
        path = least_loaded(problem, a, b, used)
        paths[(a, b)] = path
        used.update(hops(problem.topology, path))
    return paths


def least_loaded(problem: Problem, a: str, b: str, used: Counter[tuple[str, int]]) -> tuple[str, ...]:
    """The path with the least (most seconds for a bit on any link, hops), by Dijkstra's algorithm."""
    topology = problem.topology
    queue: list[tuple[float, int, str, tuple[str, ...]]] = [(0.0, 0, a, (a,))]
    done: set[str] = set()
    while queue:
        busiest, length, name, path = heapq.heappop(queue)
        if name == b:
            return path
        if name in done:
            continue
        done.add(name)
        for other in topology.neighbours(name):
            if other not in done and (other == b or topology.node(other).is_switch):
                port = topology.port(name, other)
                load = (used[(name, port)] + 1) / topology.link_at(name, port).rate_bps
                heapq.heappush(queue, (max(busiest, load), length + 1, other, (*path, other)))
    raise PlanError(f"no path from {a} to {b}")


def _merge_acks(problem: Problem, order: tuple[str, ...], data: Paths) -> Paths:
    """Add the paths of acknowledgements, which run against the data.

    A host is the destination of its predecessor's data and of its successor's acknowledgements, and switches forward by
    destination: paths to the same host that meet continue together.
    """
    paths = dict(data)
    for a, b in streams(order):
        if (b, a) in paths:
            continue
        stream = next(path for pair, path in data.items() if pair[1] == a)
        onward = dict(pairwise(stream[1:]))
        back = [b]
        for name in problem.paths.path(b, a)[1:]:
            back.append(name)
            if name in onward:
                while back[-1] != a:
                    back.append(onward[back[-1]])
                break
        paths[(b, a)] = tuple(back)
    return paths


# `ps`: a parameter server without aggregation; shortest path, first fit on residual capacity (SPFF).


_TRIED: Final = 16
"""number of paths that are tried for a worker, shortest first"""


@register("ps")
def ps(problem: Problem) -> StarLayout:
    """For every worker in rank order, the shortest path to the server on which its share of the server's link fits.

    A worker's share is the server's rate divided by the number of workers. Switches forward by destination, so a path
    that meets an earlier worker's path stays on it. If nothing fits, the shortest path is taken. Paths down are the
    reversed paths up.

    Raises
    ------
    PlanError
        Without a server.
    """
    if problem.server is None:
        raise PlanError("plan 'ps' needs a server: name a host that is no worker, or use a topology with servers=1")
    share = problem.topology.link_at(problem.server, 1).rate_bps // len(problem.workers)
    load = dict(problem.load)
    onward: dict[str, str] = {}
    paths: dict[tuple[str, str], tuple[str, ...]] = {}
    for worker in problem.workers:
        path = _first_fit(problem, worker, problem.server, share, load=load, onward=onward)
        onward.update(pairwise(path[1:]))
        for way in (path, path[::-1]):
            paths[(way[0], way[-1])] = way
            for a, b in pairwise(way):
                hop = (a, problem.topology.port(a, b))
                load[hop] = load.get(hop, 0) + share
    return StarLayout(paths)


def _first_fit(
    problem: Problem,
    worker: str,
    server: str,
    share: int,
    *,
    load: dict[tuple[str, int], int],
    onward: dict[str, str],
) -> tuple[str, ...]:
    shortest = _join(problem.paths.path(worker, server), onward)
    if _fits(problem, shortest, share, load):
        return shortest
    start, end = problem.paths.access(worker), problem.paths.access(server)
    if start != end:
        import networkx as nx  # noqa: PLC0415  (slow, and few plans need it)

        switches = problem.topology.graph().subgraph(node.name for node in problem.topology.switches)
        for middle in islice(nx.shortest_simple_paths(switches, start, end), _TRIED):
            path = _join((worker, *middle, server), onward)
            if _fits(problem, path, share, load):
                return path
    return shortest


def _join(path: tuple[str, ...], onward: dict[str, str]) -> tuple[str, ...]:
    """The path up to the first switch that has a next hop already, continued along the next hops."""
    for position, name in enumerate(path):
        if name in onward:
            joined = list(path[: position + 1])
            while joined[-1] in onward:
                joined.append(onward[joined[-1]])
            return tuple(joined)
    return path


def _fits(problem: Problem, path: tuple[str, ...], share: int, load: dict[tuple[str, int], int]) -> bool:
    for way in (path, path[::-1]):
        for a, b in pairwise(way):
            hop = (a, problem.topology.port(a, b))
            if load.get(hop, 0) + share > problem.topology.link_at(*hop).rate_bps:
                return False
    return True


# `all-to-all`: every host sends a block to every other host; switches only forward.


@register("all-to-all")
def all_to_all(problem: Problem) -> MeshLayout:
    """The shortest path of every ordered pair of workers; pairs spread over equal paths.

    Unique shortest paths to a destination merge, so that switches can forward by destination.
    """
    paths = problem.spreading.paths
    return MeshLayout({pair: paths.path(*pair) for pair in permutations(problem.workers, 2)})
