"""`ps`: a parameter server and no aggregation; shortest path, first fit on residual capacity (SPFF)."""

from itertools import islice, pairwise
from typing import Final

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.problem import Problem, StarLayout
from p4reduce.control_plane.plans.registry import register

_TRIED: Final = 16
"""paths that are tried for a worker, shortest first"""


@register("ps")
def ps(problem: Problem) -> StarLayout:
    """For every worker in rank order the shortest path to the server on which its share of the server's link fits.

    A worker's share is the server's rate divided by the workers. Switches forward by destination, so a path that
    meets an earlier worker's path stays on it. Where nothing fits, the shortest path is taken. Down is up reversed.

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
    """The path up to the first switch that already knows the way, then that way."""
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
