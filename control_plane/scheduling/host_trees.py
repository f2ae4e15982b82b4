"""`overlay-mst-hosts`: the poster's flexible scheduler where no switch can add: the overlay MST of the hosts.

The poster names no programmable switch. Here every inner host of the tree sums its children's models with its own and
sends one on; the result comes down the same way. Each of these steps is a star of existing plans: PUSH, the deepest
hosts first, then PULL from the top. What a host sends on it must have whole, so a round takes the depth of the tree
times a model, twice; what is saved is bandwidth.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.kernels.jit import FAR
from p4reduce.control_plane.plans.make import PlanRequest
from p4reduce.control_plane.plans.problem import StarLayout
from p4reduce.control_plane.plans.routes import hops
from p4reduce.control_plane.plans.window import Pair, Path
from p4reduce.control_plane.scheduling.policy import Rejection
from p4reduce.control_plane.scheduling.reach import check_reach
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import View, problem_of
from p4reduce.control_plane.scheduling.weights import Weights
from p4reduce.topologies.model import Hop

NAME = "overlay-mst-hosts"


@dataclass(frozen=True)
class HostTree:
    """A tree of hosts: ``parent`` of every local model's host, up to G's; ``paths`` of every edge, both ways.

    ``demand_bps`` is what it reserves on every directed link.
    """

    task: Task
    parent: Mapping[str, str]
    paths: Mapping[Pair, Path]
    demand_bps: Mapping[Hop, int]

    @cached_property
    def children(self) -> dict[str, list[str]]:
        """Of every inner host, in rank order."""
        found: dict[str, list[str]] = {}
        for worker in self.task.workers:
            found.setdefault(self.parent[worker], []).append(worker)
        return found

    def depth(self, host: str) -> int:
        """Edges from a host to G's."""
        return 0 if host == self.task.server else 1 + self.depth(self.parent[host])

    @cached_property
    def stages(self) -> tuple[tuple[str, ...], ...]:
        """Inner hosts by depth, the deepest first: the order of PUSH. PULL goes the other way round."""
        levels: dict[int, list[str]] = {}
        for host in self.children:
            levels.setdefault(self.depth(host), []).append(host)
        return tuple(tuple(levels[depth]) for depth in sorted(levels, reverse=True))

    def requests(self, *, job: int, lanes: int | None = None) -> dict[str, PlanRequest]:
        """A job for every inner host, numbered from ``job``: its children are the workers, it is the server."""
        inner = [host for stage in self.stages for host in stage]
        return {
            host: PlanRequest(
                plan=NAME,
                job=job + place,
                workers=tuple(self.children[host]),
                server=host,
                lanes=lanes,
                priority=self.task.priority,
                layout=StarLayout(
                    {pair: self.paths[pair] for child in self.children[host] for pair in ((child, host), (host, child))}
                ),
            )
            for place, host in enumerate(inner)
        }


def overlay_mst_hosts(
    task: Task,
    state: NetworkState,
    *,
    lanes: int = 256,
    weights: Weights = Weights(),  # noqa: B008  (immutable)
) -> HostTree:
    """The minimum spanning tree of a task's hosts on the metric closure, grown from G (Prim).

    Of equally near hosts that nearest to G in edges is joined, so that the tree comes out shallow. Weights are those of
    the upload; the way down is the way up reversed. It is no `Policy`: a `Decision` has one layout for each direction.

    Raises
    ------
    Rejection
        Names a link with too little left.
    """
    view = View(task, state, lanes)
    problem = problem_of(view, view.words(weights), "upload")
    check_reach(problem)
    routes, depth, parent = problem.paths, {task.server: 0}, dict[str, str]()
    while len(parent) < len(task.workers):
        cost, _, _, child, above = min(
            (routes.distance(child, above), depth[above], order, child, above)
            for order, child in enumerate(task.workers)
            if child not in depth
            for above in depth
        )
        if cost >= FAR:
            raise Rejection(f"task {task.name}: no way from {child} to another host of it is left")
        parent[child], depth[child] = above, depth[above] + 1
    paths: dict[Pair, Path] = {}
    used: Counter[Hop] = Counter()
    try:
        for child, above in parent.items():
            way = routes.path(child, above)
            for path in (way, way[::-1]):
                paths[(path[0], path[-1])] = path
                used.update(hops(state.topology, path))
    except PlanError as error:
        raise Rejection(f"task {task.name}: {error}") from None
    demand = {hop: times * task.reserved_bps for hop, times in used.items()}
    for (node, port), bps in demand.items():
        view.check_link(node, state.topology.neighbour(node, port), max(1, bps))
    return HostTree(task, parent, paths, demand if task.demand_bps else {})
