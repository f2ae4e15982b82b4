"""`spff`: the poster's fixed scheduler: shortest path, first fit, for every local model; aggregation at G only.

`spff-ecmp` is the same with a random one of the paths that cross equally many links.
"""

from itertools import pairwise
from zlib import crc32

import numpy as np

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.graph import Ints
from p4reduce.control_plane.plans.problem import StarLayout
from p4reduce.control_plane.plans.routes import Routes
from p4reduce.control_plane.plans.window import Pair, Path
from p4reduce.control_plane.scheduling.admission import check_reach
from p4reduce.control_plane.scheduling.consumption import decision_of
from p4reduce.control_plane.scheduling.policy import Decision, Rejection, register_policy
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import Direction, View, problem_of
from p4reduce.control_plane.scheduling.weights import hop_words
from p4reduce.topologies import format_rate


@register_policy("spff")
def spff(task: Task, state: NetworkState, *, lanes: int = 256, ecmp: bool = False) -> Decision:
    """A path for every local model and direction: the shortest on which its share fits beside those before it.

    Shortest by links crossed, then by delay; with ``ecmp`` a hash of task, link and destination decides between
    equally many links. Switches forward by destination: once one of them knows the way to G, later paths to G follow.

    Raises
    ------
    Rejection
        Names a link on the shortest path that has too little left.
    """
    view = View(task, state, lanes)
    view.check_hosts(copies=len(task.workers))
    paths: dict[Pair, Path] = {}
    for direction in ("upload", "broadcast"):
        fit = _FirstFit(view, direction, ecmp=ecmp)
        for worker in task.workers:
            path = fit.take(worker)
            way = path if direction == "upload" else path[::-1]
            paths[(way[0], way[-1])] = way
    star = StarLayout(paths)
    return decision_of("spff-ecmp" if ecmp else "spff", view, star, star)


@register_policy("spff-ecmp")
def spff_ecmp(task: Task, state: NetworkState, *, lanes: int = 256) -> Decision:
    """As `spff` with equal-cost multipath routing."""
    return spff(task, state, lanes=lanes, ecmp=True)


class _FirstFit:
    """Shortest paths to the server, one after the other, on which one more share fits.

    A broadcast is routed as the upload of a network with all links turned round; its destinations are the workers, so
    that its paths may part where they like.
    """

    def __init__(self, view: View, direction: Direction, *, ecmp: bool) -> None:
        self._view, self._direction, self._ecmp = view, direction, ecmp
        graph, demand = view.graph, view.task.demand_bps
        self._problem = problem_of(view, hop_words(graph, view.residual_bps, demand), direction)
        self._left = view.residual_bps.copy() if direction == "upload" else view.residual_bps[graph.reverse]
        self._onward: dict[int, int] = {}
        self._routes: Routes | None = None

    def take(self, worker: str) -> Path:
        """The path of a worker, from the worker to the server; its share is taken."""
        task, graph = self._view.task, self._view.graph
        routes = self._find(worker)
        try:
            path = routes.path(worker, task.server)
        except PlanError:
            raise self._rejection(worker) from None
        switches = [graph.index[name] for name in path[1:-1]]
        arcs = routes.towards(switches[-1]).arcs
        for at in switches[:-1]:
            arc = int(arcs[at])
            self._onward[at] = arc
            self._left[arc] -= task.demand_bps
            if self._left[arc] < max(1, task.demand_bps):
                self._routes = None
        return path

    def _find(self, worker: str) -> Routes:
        """Routes with what is left now."""
        upload = self._direction == "upload"
        if self._routes is None or (self._ecmp and not upload):
            graph = self._view.graph
            words = self._problem.words.copy()
            if self._ecmp:
                words[:, 1] = _hashes(f"{self._view.task.name}>{'' if upload else worker}", len(words))
            words[self._left < max(1, self._view.task.demand_bps), 0] = -1
            if upload:
                for at, arc in self._onward.items():
                    others = np.arange(graph.starts[at], graph.starts[at + 1])
                    words[others[others != arc], 0] = -1
            self._routes = Routes(self._view.state.topology, graph, words)
        return self._routes

    def _rejection(self, worker: str) -> Rejection:
        check_reach(self._problem, self._direction)
        task, upload = self._view.task, self._direction == "upload"
        path = self._problem.paths.path(worker, task.server)
        links = [(a, b, self._arc(a, b)) for a, b in pairwise(path[1:-1])]
        a, b, arc = min(links, key=lambda link: int(self._left[link[2]]))
        names = f"{a} -> {b}" if upload else f"{b} -> {a}"
        return Rejection(
            f"task {task.name}: link {names} has {format_rate(int(self._left[arc]))}b/s left beside the task's other "
            f"shares, {format_rate(task.demand_bps)}b/s are needed for {worker}"
        )

    def _arc(self, a: str, b: str) -> int:
        return self._view.graph.arcs[(a, self._view.state.topology.port(a, b))]


def _hashes(text: str, count: int) -> Ints:
    """A number of 30 bits for every arc, the same on every machine (SplitMix64's finalizer)."""
    mixed = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(crc32(text.encode()))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed >> np.uint64(34)).astype(np.int64)
