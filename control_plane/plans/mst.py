"""`mst`: the overlay minimum spanning tree, with aggregation at the terminals."""

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
    terminals = tuple(dict.fromkeys(problem.paths.nearest(worker, problem.capable) for worker in problem.workers))
    if problem.server is not None:
        roots: tuple[str, ...] = (root_beside(problem, problem.server),)
    else:
        roots = tuple(central(problem, terminals))
    variants = [problem] if problem.spreading is problem else [problem, problem.spreading]
    trees = [tree for variant in variants for root in roots for tree in grow(variant, root, terminals)]
    return best(problem, [finish(problem, tree) for tree in trees])
