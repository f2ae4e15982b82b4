"""Whether all workers of a task have a way to its server."""

import numpy as np

from p4reduce.control_plane.plans.graph import Ints
from p4reduce.control_plane.plans.routes import Routes, hops
from p4reduce.control_plane.scheduling.policy import Rejection
from p4reduce.control_plane.scheduling.view import TaskProblem


def check_reach(problem: TaskProblem) -> None:
    """Raise `Rejection` when a worker has no way to the server: names a link in the way on the shortest path."""
    routes, graph, view = problem.paths, problem.view.graph, problem.view
    server = graph.index[routes.access(view.task.server)]
    arcs = routes.towards(server).arcs
    for worker in view.task.workers:
        access = graph.index[routes.access(worker)]
        if access != server and arcs[access] < 0:
            free = Routes(view.state.topology, graph, _open(problem.words))
            for hop in hops(problem.topology, free.path(worker, view.task.server))[1:-1]:
                ends = hop[0], problem.topology.neighbour(*hop)
                a, b = ends[::-1] if problem.turned else ends
                taken = problem.taken.get((a, problem.topology.port(a, b)), 0)
                view.check_link(a, b, max(1, (1 + taken) * view.task.reserved_bps))
            raise Rejection(f"task {view.task.name}: no way from {worker} to {view.task.server} is left")


def _open(words: Ints) -> Ints:
    free = words.copy()
    free[:, 0] = np.where(words[:, 0] < 0, 10**9, 1)
    return free
