"""`spt`: the shortest-path tree, with aggregation wherever its paths meet at a capable switch."""

from p4reduce.control_plane.plans.overlay import best, chunk_ps, cost, depth_ps, finish
from p4reduce.control_plane.plans.problem import Problem, TreeLayout
from p4reduce.control_plane.plans.registry import register


@register("spt")
def spt(problem: Problem) -> TreeLayout:
    """Shortest paths from every worker to one root, merged on the way.

    The root is the capable switch nearest to the server; without a server, the one whose tree has the least
    loaded links, then the shallowest.
    """
    if problem.server is not None:
        root = problem.paths.nearest(problem.server, problem.capable)
        return finish(problem, merge_paths(problem, root))
    trees = [finish(problem, merge_paths(problem, root)) for root in problem.capable]
    return min(
        trees, key=lambda tree: (chunk_ps(problem, tree), depth_ps(problem, tree), cost(problem, tree), tree.root)
    )


def spt_cheapest(problem: Problem) -> TreeLayout:
    """As :func:`spt`, but with the root that makes the tree cheapest: a start for better trees."""
    if problem.server is not None:
        return spt(problem)
    return best(problem, [finish(problem, merge_paths(problem, root)) for root in problem.capable])


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
