"""`steiner`: the cheapest tree found with aggregation at any capable switch."""

import contextlib

import numpy as np

from p4reduce.control_plane.plans.kernels.jit import FAR
from p4reduce.control_plane.plans.mst import mst
from p4reduce.control_plane.plans.overlay import best, central, finish, grow
from p4reduce.control_plane.plans.problem import Problem, TreeLayout
from p4reduce.control_plane.plans.registry import register
from p4reduce.control_plane.plans.routes import NoPathError
from p4reduce.control_plane.plans.search import SMALL, Chosen, Search
from p4reduce.control_plane.plans.spt import spt_cheapest


@register("steiner")
def steiner(problem: Problem) -> TreeLayout:
    """Approximate Steiner trees, improved by adding and dropping switches; never worse than `mst` or `spt`.

    Local search over the set of aggregating switches starts from those of `mst` and of shortest-path trees, and from
    the switches on their paths, as in the heuristic of Kou, Markowsky and Berman (1981); on large networks only from
    those of `mst`. Among trees of equal cost the one with the least loaded links, then the shallowest is taken.
    """
    fallback: list[TreeLayout] = []
    for start in (mst, spt_cheapest):
        with contextlib.suppress(NoPathError):  # links may be closed in one direction
            fallback.append(start(problem))
    search = Search(problem)
    index = problem.paths.graph.index
    starts = [frozenset(index[name] for name in layout.aggregators) for layout in fallback]
    if not starts:
        starts = [frozenset({index[problem.paths.nearest(worker, problem.capable)] for worker in problem.workers})]
    if len(problem.paths.graph.names) > SMALL:
        starts = starts[:1]
    elif problem.paths.symmetric:
        starts += [_on_paths(problem, search, start) for start in starts]
    found = {search.improve(start) for start in dict.fromkeys(starts)}
    least = min(price for price, _ in found)
    cheapest = sorted((chosen for price, chosen in found if price == least), key=sorted)
    if least >= FAR:
        raise NoPathError("no tree connects the workers and the server")
    trees = [tree for chosen in cheapest for tree in _rooted(problem, search, chosen)]
    return best(problem, fallback + trees)


def _on_paths(problem: Problem, search: Search, chosen: Chosen) -> Chosen:
    """A set, and the capable switches on its tree's paths."""
    graph = problem.paths.graph
    used = np.zeros(len(graph.heads), np.bool_)
    for child, above in search.parents(chosen).items():
        arcs = problem.paths.towards(above).arcs
        at = child
        while at != above:
            used[arcs[at]] = True
            at = int(graph.heads[arcs[at]])
    used |= used[graph.reverse]
    degree = np.bincount(graph.tails[used], minlength=len(graph.names))
    return chosen | {int(switch) for switch in search.capable if degree[switch] > 1}


def _rooted(problem: Problem, search: Search, chosen: Chosen) -> list[TreeLayout]:
    """The tree over ``chosen`` from the central ones of the roots that cost nothing more.

    A root may be a switch that the tree only passed through. With a server it is the switch next to the server.
    """
    names = problem.paths.graph.names
    switches = tuple(sorted(names[switch] for switch in chosen))
    if problem.server is not None:
        roots = [problem.paths.nearest_to(problem.server, switches)]
    else:
        roots = central(problem, [names[switch] for switch in search.free(chosen)])
    return [finish(problem, tree) for root in roots for tree in grow(problem, root, switches)]
