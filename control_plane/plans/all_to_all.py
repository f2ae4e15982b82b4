"""`all-to-all`: every host sends a block to every other one; switches only forward."""

from itertools import permutations

from p4reduce.control_plane.plans.problem import MeshLayout, Problem
from p4reduce.control_plane.plans.registry import register


@register("all-to-all")
def all_to_all(problem: Problem) -> MeshLayout:
    """The shortest path of every ordered pair of workers; pairs spread over equal paths.

    Unique shortest paths to a destination merge, so that switches can forward by destination.
    """
    paths = problem.spreading.paths
    return MeshLayout({pair: paths.path(*pair) for pair in permutations(problem.workers, 2)})
