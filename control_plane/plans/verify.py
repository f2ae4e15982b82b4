"""What a planner's answer must hold. A failure here is the planner's mistake, not the user's."""

from collections.abc import Mapping
from itertools import pairwise, permutations

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.problem import MAX_CHILDREN, Layout, MeshLayout, Problem, RingLayout, TreeLayout
from p4reduce.control_plane.plans.window import Pair, Path


def check_layout(problem: Problem, layout: Layout) -> None:
    """Raise `PlanError` when a layout is not one of the problem's workers: names the switch or host."""
    if isinstance(layout, TreeLayout):
        _check_tree(problem, layout)
    elif isinstance(layout, RingLayout):
        if sorted(layout.order) != sorted(problem.workers):
            raise PlanError("the planner's ring is not one of the workers, each once")
    elif isinstance(layout, MeshLayout):
        if set(layout.paths) != set(permutations(problem.workers, 2)):
            raise PlanError("the planner's all-to-all has not one path for every ordered pair of workers")
        _check_paths(problem, layout.paths)
    else:
        if missing := [worker for worker in problem.workers if (worker, problem.server) not in layout.paths]:
            raise PlanError(f"the planner has no path from {missing[0]} to the server")
        _check_paths(problem, layout.paths)


def _check_tree(problem: Problem, layout: TreeLayout) -> None:
    children = layout.children
    for name, below in children.items():
        if name not in problem.capable:
            raise PlanError(f"the planner's tree adds up at {name}, which is no capable switch")
        if not 1 <= len(below) <= MAX_CHILDREN:
            raise PlanError(f"the planner's tree has {len(below)} children at {name}; 1 to {MAX_CHILDREN} are possible")
    reached: set[str] = set()
    open_ = [layout.root]
    while open_:
        new = set(children.get(open_.pop(), ())) - reached
        reached |= new
        open_ += new
    if lost := [name for name in (*problem.workers, *layout.parent) if name not in reached]:
        raise PlanError(f"the planner's tree does not connect {lost[0]} to its root {layout.root}")
    if extra := [name for name in layout.parent if name not in children and name not in problem.workers]:
        raise PlanError(f"the planner's tree ends at {extra[0]}, which is no worker of the job")
    if layout.root in layout.parent:
        raise PlanError(f"the planner's tree gives its root {layout.root} a parent")
    if layout.paths is not None:
        edges = [*layout.parent.items(), *([(layout.root, problem.server)] if problem.server else [])]
        if missing := [edge for edge in edges if edge not in layout.paths]:
            raise PlanError(f"the planner's tree has no path from {missing[0][0]} to {missing[0][1]}")
        _check_paths(problem, layout.paths)


def _check_paths(problem: Problem, paths: Mapping[Pair, Path]) -> None:
    """Paths are chains of links from end to end, over switches, none of them twice."""
    topology = problem.topology
    for (source, destination), path in paths.items():
        whole = path[:1] == (source,) and path[-1:] == (destination,) and len(path) > 1
        if not whole or len(set(path)) != len(path):
            raise PlanError(f"the planner's path from {source} to {destination} does not lead there: {' '.join(path)}")
        for name in path[1:-1]:
            if topology.node(name).is_host:
                raise PlanError(f"the planner's path from {source} to {destination} passes host {name}")
        for a, b in pairwise(path):
            topology.link_between(a, b)


def check_forwarding(paths: Mapping[Pair, Path]) -> None:
    """Raise `PlanError` when some switch would have to forward one destination two ways.

    It means that a planner broke the rule of :mod:`~p4reduce.control_plane.plans.paths`.
    """
    onward: dict[tuple[str, str], str] = {}
    for (_, destination), path in paths.items():
        for name, following in pairwise(path[1:]):
            known = onward.setdefault((name, destination), following)
            if known != following:
                raise PlanError(
                    f"paths to {destination} part at {name} (to {known} and to {following}), "
                    "but switches forward by destination: the planner must let paths that meet go on together"
                )
