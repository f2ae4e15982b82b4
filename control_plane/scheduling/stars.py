"""A path for every local model, and aggregation at the global model's host: what needs no capable switch."""

from itertools import pairwise
from zlib import crc32

import numpy as np

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.graph import Ints
from p4reduce.control_plane.plans.problem import StarLayout
from p4reduce.control_plane.plans.routes import Routes
from p4reduce.control_plane.plans.window import Pair, Path
from p4reduce.control_plane.scheduling.policy import Rejection
from p4reduce.control_plane.scheduling.reach import check_reach
from p4reduce.control_plane.scheduling.view import Direction, View, problem_of
from p4reduce.control_plane.scheduling.weights import hop_words
from p4reduce.topologies import format_rate


def first_fit(view: View, *, ecmp: bool = False) -> StarLayout:
    """For every local model and direction the shortest path on which its share fits beside those before it.

    Shortest by links crossed, then by delay; with ``ecmp`` a hash of task, link and destination decides between
    equally many links. Switches forward by destination: once one of them knows the way to G, later paths to G follow.
    What the uploads take is taken before the broadcasts: a link that both cross must have room for the two.

    Raises
    ------
    Rejection
        Names a link on the shortest path that has too little left.
    """
    view.check_hosts(copies=len(view.task.workers))
    paths: dict[Pair, Path] = {}
    left = view.residual_bps.copy()
    for direction in ("upload", "broadcast"):
        fit = _FirstFit(view, direction, left, ecmp=ecmp)
        for worker in view.task.workers:
            path = fit.take(worker)
            way = path if direction == "upload" else path[::-1]
            paths[(way[0], way[-1])] = way
    return StarLayout(paths)


def least_copies(view: View) -> int:
    """No star of the task puts fewer copies on links, both directions together: as many links as there are at least."""
    paths, task = view.problem.paths, view.task
    return 2 * sum(paths.distance(worker, task.server) for worker in task.workers)


class _FirstFit:
    """Shortest paths to the server, one after the other, on which one more share fits.

    A broadcast is routed as the upload of a network with all links turned round; its destinations are the workers, so
    that its paths may part where they like. ``left`` is what arcs have left in the direction of frames; shares are
    taken from it.
    """

    def __init__(self, view: View, direction: Direction, left: Ints, *, ecmp: bool) -> None:
        self._view, self._direction, self._ecmp, self._left = view, direction, ecmp, left
        self._problem = problem_of(view, hop_words(view.graph, left, view.task.reserved_bps), direction)
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
            taken = self._of_frames(arc)
            self._left[taken] -= task.reserved_bps
            if self._left[taken] < max(1, task.reserved_bps):
                self._routes = None
        return path

    def _of_frames(self, arc: int) -> int:
        """The arc that frames take where a path takes this one."""
        return arc if self._direction == "upload" else int(self._view.graph.reverse[arc])

    def _find(self, worker: str) -> Routes:
        """Routes with what is left now."""
        upload = self._direction == "upload"
        if self._routes is None or (self._ecmp and not upload):
            graph = self._view.graph
            words = self._problem.words.copy()
            if self._ecmp:
                words[:, 1] = _hashes(f"{self._view.task.name}>{'' if upload else worker}", len(words))
            left = self._left if upload else self._left[graph.reverse]
            words[left < max(1, self._view.task.reserved_bps), 0] = -1
            if upload:
                for at, arc in self._onward.items():
                    others = np.arange(graph.starts[at], graph.starts[at + 1])
                    words[others[others != arc], 0] = -1
            self._routes = Routes(self._view.state.topology, graph, words)
        return self._routes

    def _rejection(self, worker: str) -> Rejection:
        task, upload = self._view.task, self._direction == "upload"
        whole = problem_of(
            self._view, hop_words(self._view.graph, self._view.residual_bps, task.reserved_bps), self._direction
        )
        check_reach(whole)
        path = whole.paths.path(worker, task.server)
        links = [(a, b, self._of_frames(self._arc(a, b))) for a, b in pairwise(path[1:-1])]
        a, b, arc = min(links, key=lambda link: int(self._left[link[2]]))
        names = f"{a} -> {b}" if upload else f"{b} -> {a}"
        return Rejection(
            f"task {task.name}: link {names} has {format_rate(int(self._left[arc]))}b/s left beside the task's other "
            f"shares, {format_rate(task.reserved_bps)}b/s are needed for {worker}"
        )

    def _arc(self, a: str, b: str) -> int:
        return self._view.graph.arcs[(a, self._view.state.topology.port(a, b))]


def _hashes(text: str, count: int) -> Ints:
    """A number of 30 bits for every arc, the same on every machine (SplitMix64's finalizer)."""
    mixed = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(crc32(text.encode()))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return (mixed >> np.uint64(34)).astype(np.int64)
