"""Aggregation trees as overlays: growing one over chosen switches, pruning it, keeping fan-ins small."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.kernels.arborescence import arborescence
from p4reduce.control_plane.plans.kernels.jit import FAR, sized
from p4reduce.control_plane.plans.kernels.shortest import walk
from p4reduce.control_plane.plans.kernels.spanning import shallow_tree
from p4reduce.control_plane.plans.problem import MAX_CHILDREN, Problem, TreeLayout
from p4reduce.topologies.model import Hop

_ROOTS: Final = 8
"""roots that are tried for a tree of a given cost"""


def spanning_tree(problem: Problem, root: str, switches: Sequence[str], *, spread: bool) -> dict[str, str]:
    """A minimum spanning tree on the metric closure of switches, directed to ``root``.

    Edges of equal cost are many in a data centre. Among them the one is taken that keeps its new node nearest to the
    root in time, so that the tree comes out shallow; with ``spread`` first the one whose path adds least to the
    busiest link, so that several edges do not share one. Where links cost differently in the two directions it is the
    cheapest arborescence instead.

    Parameters
    ----------
    problem : Problem
        Whose paths count.
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
    """The switches from which the farthest worker is nearest (in time); only the best few, to try as roots."""
    routes, length = problem.paths, problem.frame_bytes
    index = routes.graph.index
    access = {index[routes.access(worker)] for worker in problem.workers}
    farthest = np.max([routes.latencies(switch, length) for switch in access], axis=0)
    return sorted(switches, key=lambda name: (int(farthest[index[name]]), name))[:_ROOTS]


def root_beside(problem: Problem, server: str) -> str:
    """The capable switch next to the server; where links are closed in one direction, one that all workers reach."""
    routes, able = problem.paths, problem.capable
    if not routes.symmetric:
        index = routes.graph.index
        access = {index[routes.access(worker)] for worker in problem.workers}
        farthest = np.max([routes.away(switch).costs for switch in access], axis=0)
        reached = farthest[routes.graph.places(able)] < FAR
        if not reached.all():
            able = tuple(name for name, reach in zip(able, reached.tolist(), strict=True) if reach) or able
    return routes.nearest_to(server, able)


def grow(problem: Problem, root: str, switches: Iterable[str]) -> list[TreeLayout]:
    """Spanning trees over the switches, shallow and spread, and every worker at the nearest of them."""
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
    """What one frame on every edge of the tree costs, in one direction; with a server, the edge to it included."""
    routes = problem.of(layout).paths
    edges = [*layout.parent.items(), *([(layout.root, problem.server)] if problem.server else [])]
    return sum(routes.distance(child, parent) for child, parent in edges)


def depth_ps(problem: Problem, layout: TreeLayout) -> int:
    """The longest way of one full frame from a worker to the top (the server if there is one), idle queues."""
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
    """How long the busiest directed link is taken by one full frame on every edge of the tree, next to its load."""
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
    """Sort key of trees of one cost: least loaded links, shallowest, fewest switches, name of the root."""
    return chunk_ps(problem, layout), depth_ps(problem, layout), len(layout.aggregators), layout.root


def prune(problem: Problem, layout: TreeLayout) -> TreeLayout:
    """The tree without switches that would merge nothing: those with no child or a single one.

    An only child goes straight to the parent of its parent; a root that has only a switch below it hands the root
    down. No path becomes longer, because every edge takes the shortest path of its ends.
    """
    parent, root, workers = dict(layout.parent), layout.root, set(problem.workers)
    fan_in = Counter(parent.values())
    for name in layout.parent:
        # A switch without children goes, and takes along those above it that have none then.
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

    Surplus children move to another capable switch: one that is in the tree and has room, or a new one that then
    becomes a child. Each time the move that costs the least is made.

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
    """Move what is too much at one switch to another: extra cost for each child relieved, helper, new tree."""
    if helper == crowded:
        return None
    routes, index, children = problem.paths, problem.paths.graph.index, layout.children
    known = helper in children
    room = limit - len(children.get(helper, ()))
    above = _ancestors(layout, helper) if known else set()
    movable = [child for child in children[crowded] if child != helper and child not in above]
    # A new helper takes one child's place itself.
    wanted = len(children[crowded]) - limit + (0 if known else 1)
    count = min(room, wanted, len(movable))
    relieved = count if known else count - 1
    if relieved < 1:
        return None
    # The hosts' own links cost the same either way.
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
    found = {name}
    while name != layout.root:
        name = layout.parent[name]
        found.add(name)
    return found


def finish(problem: Problem, layout: TreeLayout) -> TreeLayout:
    """What every planner does at the end: prune, then keep fan-ins within the bitmap."""
    return limit_fan_in(problem.of(layout), prune(problem, layout))


def best(problem: Problem, layouts: Sequence[TreeLayout]) -> TreeLayout:
    """The cheapest layout; of several the one with the least loaded links, the shallowest, the smallest, the first."""
    different: list[TreeLayout] = []
    for layout in layouts:
        if layout not in different:
            different.append(layout)
    if len(different) == 1:
        return different[0]
    costs = [cost(problem, layout) for layout in different]
    cheapest = [layout for layout, price in zip(different, costs, strict=True) if price == min(costs)]
    return cheapest[0] if len(cheapest) == 1 else min(cheapest, key=lambda layout: _rank(problem, layout))
