"""`mst`: the overlay minimum spanning tree, with aggregation at the terminals."""

import contextlib

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.junctions import junctions
from p4reduce.control_plane.plans.overlay import best, central, finish, grow, root_beside
from p4reduce.control_plane.plans.problem import Problem, TreeLayout
from p4reduce.control_plane.plans.registry import register


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
