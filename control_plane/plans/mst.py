"""`mst`: the overlay minimum spanning tree, with aggregation at the terminals."""

import contextlib

import numpy as np

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.kernels.jit import sized
from p4reduce.control_plane.plans.kernels.shortest import along, merged_tree
from p4reduce.control_plane.plans.overlay import (
    best,
    central,
    chunk_ps,
    cost,
    depth_ps,
    finish,
    grow,
    junctions,
    root_beside,
)
from p4reduce.control_plane.plans.problem import MAX_CHILDREN, Problem, TreeLayout, register


@register("mst")
def mst(problem: Problem) -> TreeLayout:
    """A minimum spanning tree on the metric closure of the terminals.

    Terminals are the capable switches nearest to the workers and to the server. The closure's edges are shortest
    paths, so the tree never costs more than a shortest path for every worker; pruning a spanning tree of the whole
    network can cost more, and is not done here. The root is the server's terminal; without a server, one of the
    central terminals: that whose tree has the least loaded links, then the shallowest. Equal paths are tried both ways.
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
    """The same for a task with a server, where an edge that the tree uses already costs nothing more.

    On the metric closure each edge is paid for on its own, though paths may run along one another. Here terminals join
    the paths of those before them; where they do, the switches there become terminals too. Never above :func:`mst`.
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

    The root is the capable switch nearest to the server; without a server, the one whose tree has the least
    loaded links, then the shallowest.
    """
    if problem.server is not None:
        return finish(problem, merge_paths(problem, root_beside(problem, problem.server)))

    def order(tree: TreeLayout) -> tuple[int, int, int, str]:
        return chunk_ps(problem, tree), depth_ps(problem, tree), cost(problem, tree), tree.root

    return min(_candidates(problem, cheapest=False), key=order)


def spt_cheapest(problem: Problem) -> TreeLayout:
    """As :func:`spt`, but with the root that makes the tree cheapest: a start for better trees."""
    if problem.server is not None:
        return spt(problem)
    return best(problem, _candidates(problem, cheapest=True))


def _candidates(problem: Problem, *, cheapest: bool) -> list[TreeLayout]:
    """The finished trees of the roots whose trees are cheapest, or have the least loaded links and are shallowest."""
    graph = problem.paths.graph
    roots = [graph.index[name] for name in problem.capable]
    found = [_estimate(problem, root) for root in roots]
    if max(fan_in for _, _, fan_in, _ in found) > MAX_CHILDREN:
        chosen = roots  # limiting the fan-in changes costs
    else:
        keys = [(cost, chunk) if cheapest else (chunk, depth) for cost, chunk, _, depth in found]
        least = min(keys)
        chosen = [root for root, key in zip(roots, keys, strict=True) if key == least]
        if cheapest:
            shallow = {root: depth for root, (_, _, _, depth) in zip(roots, found, strict=True)}
            chosen = [root for root in chosen if shallow[root] == min(shallow[other] for other in chosen)]
    return [finish(problem, merge_paths(problem, graph.names[root])) for root in chosen]


def _estimate(problem: Problem, root: int) -> tuple[int, int, int, int]:
    """Cost and chunk time of a root's tree on links between switches, its largest fan-in, its depth in time."""
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
    """Every capable switch on a worker's shortest path to the root takes what comes from below, unpruned."""
    capable = set(problem.capable)
    parent: dict[str, str] = {}
    for worker in problem.workers:
        below = worker
        for switch in problem.paths.path(worker, root)[1:]:
            if switch in capable and below != root:
                parent[below] = switch
                below = switch
    return TreeLayout(root, parent, problem.spread)
