"""Aggregation trees as overlays: growing one over chosen switches, pruning it, keeping fan-ins small."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.paths import hops
from p4reduce.control_plane.plans.problem import MAX_CHILDREN, Problem, TreeLayout

_ROOTS: Final = 8
"""roots that are tried for a tree of a given cost"""


def spanning_tree(problem: Problem, root: str, switches: Iterable[str], *, spread: bool) -> dict[str, str]:
    """A minimum spanning tree on the metric closure of switches, directed to ``root`` (Prim's algorithm).

    Edges of equal cost are many in a data centre. Among them the one is taken that keeps its new node nearest to the
    root in time, so that the tree comes out shallow; with ``spread`` first the one whose path adds least to the
    busiest link, so that several edges do not share one. O(n^2) distances for n switches.

    Returns
    -------
    dict
        The parent of every switch but the root.
    """
    paths, length = problem.paths, problem.frame_bytes
    parent: dict[str, str] = {}
    depth = {root: 0}
    used: Counter[tuple[str, int]] = Counter()
    # For every switch outside: its distance to the tree, and the switches of the tree at that distance.
    outside = {name: (paths.distance(root, name), [root]) for name in dict.fromkeys(switches) if name != root}

    def preference(edge: tuple[str, str]) -> tuple[int, int, tuple[str, str]]:
        reached = depth[edge[1]] + paths.latency_ps(edge[0], edge[1], length)
        return (_busiest(problem, edge, used) if spread else 0, reached, edge)

    while outside:
        least = min(distance for distance, _ in outside.values())
        edges = [(name, above) for name, (distance, near) in outside.items() if distance == least for above in near]
        name, above = min(edges, key=preference)
        del outside[name]
        parent[name] = above
        depth[name] = depth[above] + paths.latency_ps(name, above, length)
        used.update(hops(problem.topology, paths.path(name, above)))
        for other, (known, near) in outside.items():
            distance = paths.distance(name, other)
            if distance < known:
                outside[other] = (distance, [name])
            elif distance == known:
                near.append(name)
    return parent


def central(problem: Problem, switches: Iterable[str]) -> list[str]:
    """The switches from which the farthest worker is nearest (in time); only the best few, to try as roots."""
    paths, length = problem.paths, problem.frame_bytes
    access = {paths.access(worker) for worker in problem.workers}
    farthest = {name: max(paths.latency_ps(name, other, length) for other in access) for name in switches}
    return sorted(farthest, key=lambda name: (farthest[name], name))[:_ROOTS]


def _busiest(problem: Problem, edge: tuple[str, str], used: Counter[tuple[str, int]]) -> int:
    """Time of a chunk on the busiest link of an edge, once the edge is added."""
    return max((used[hop] + 1) * problem.chunk_ps(hop) for hop in hops(problem.topology, problem.paths.path(*edge)))


def grow(problem: Problem, root: str, switches: Iterable[str]) -> list[TreeLayout]:
    """Spanning trees over the switches, shallow and spread, and every worker at the nearest of them."""
    chosen = tuple(dict.fromkeys((root, *switches)))
    attached = {worker: problem.paths.nearest(worker, chosen) for worker in problem.workers}
    parents = [spanning_tree(problem, root, chosen, spread=spread) for spread in (False, True)]
    return [TreeLayout(root, attached | parent, problem.spread) for parent in parents]


def cost(problem: Problem, layout: TreeLayout) -> int:
    """What one frame on every edge of the tree costs, in one direction; with a server, the edge to it included."""
    problem = problem.of(layout)
    total = sum(problem.paths.distance(child, parent) for child, parent in layout.parent.items())
    return total + (problem.paths.distance(layout.root, problem.server) if problem.server else 0)


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
    edges = [*layout.parent.items(), *([(layout.root, problem.server)] if problem.server else [])]
    used = Counter(hop for edge in edges for hop in hops(problem.topology, problem.paths.path(*edge)))
    return max(count * problem.chunk_ps(hop) for hop, count in used.items())


def rank(problem: Problem, layout: TreeLayout) -> tuple[int, int, int, int, str]:
    """Sort key of finished trees: cheapest, least loaded links, shallowest, fewest switches, name of the root."""
    return (
        cost(problem, layout),
        chunk_ps(problem, layout),
        depth_ps(problem, layout),
        len(layout.aggregators),
        layout.root,
    )


def prune(problem: Problem, layout: TreeLayout) -> TreeLayout:
    """The tree without switches that would merge nothing: those with no child or a single one.

    An only child goes straight to the parent of its parent; a root that has only a switch below it hands the root
    down. No path becomes longer, because every edge takes the shortest path of its ends.
    """
    parent = dict(layout.parent)
    root = layout.root
    while True:
        children = TreeLayout(root, parent).children
        childless = [name for name in parent if name not in children and name not in problem.workers]
        lonely = next((name for name, below in children.items() if len(below) == 1 and name != root), None)
        if childless:
            for name in childless:
                del parent[name]
        elif lonely is not None:
            parent[children[lonely][0]] = parent.pop(lonely)
        elif len(children[root]) == 1 and children[root][0] in children:
            root = children[root][0]
            del parent[root]
        else:
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
    paths, children = problem.paths, layout.children
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
    extra = {child: paths.distance(child, helper) - paths.distance(child, crowded) for child in movable}
    moved = sorted(movable, key=lambda child: (extra[child], movable.index(child)))[:count]
    parent = dict(layout.parent) | dict.fromkeys(moved, helper)
    total = sum(extra[child] for child in moved)
    if not known:
        parent[helper] = crowded
        total += paths.distance(helper, crowded)
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
    """The first of the best layouts by :func:`rank`."""
    return min(layouts, key=lambda layout: rank(problem, layout))
