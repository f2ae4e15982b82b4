"""`steiner`: the cheapest tree found with aggregation at any capable switch."""

from typing import TYPE_CHECKING

import networkx as nx

from p4reduce.control_plane.plans.closure import Closure
from p4reduce.control_plane.plans.mst import mst
from p4reduce.control_plane.plans.overlay import best, central, finish, grow
from p4reduce.control_plane.plans.problem import Problem, TreeLayout
from p4reduce.control_plane.plans.registry import register
from p4reduce.control_plane.plans.spt import spt_cheapest

if TYPE_CHECKING:
    Graph = nx.Graph[str]

Chosen = frozenset[str]


@register("steiner")
def steiner(problem: Problem) -> TreeLayout:
    """Approximate Steiner trees, improved by adding and dropping switches; never worse than `mst` or `spt`.

    Starts from the trees of Kou, Markowsky and Berman (1981) and of Mehlhorn (1988) as networkx has them, from `mst`
    and from shortest-path trees; each is improved by local search over the set of aggregating switches. Among trees
    of equal cost the one with the least loaded links, then the shallowest is taken.
    """
    fallback = [mst(problem), spt_cheapest(problem)]
    closure = Closure(problem)
    starts = {frozenset(layout.aggregators) for layout in fallback} | _approximations(problem)
    found = {_improve(problem, closure, start) for start in starts}
    least = min(closure.price(chosen) for chosen in found)
    cheapest = sorted((chosen for chosen in found if closure.price(chosen) == least), key=sorted)
    trees = [tree for chosen in cheapest for tree in _rooted(problem, closure, chosen)]
    return best(problem, fallback + trees)


def _approximations(problem: Problem) -> set[Chosen]:
    """Capable switches of networkx's Steiner trees over the hosts' access switches."""
    hosts = (*problem.workers, *((problem.server,) if problem.server else ()))
    terminals = list(dict.fromkeys(problem.paths.access(host) for host in hosts))
    if len(terminals) < 2:
        return set()
    graph: Graph = nx.Graph()
    for link in problem.topology.links:
        if problem.topology.node(link.a).is_switch and problem.topology.node(link.b).is_switch:
            graph.add_edge(link.a, link.b, weight=1 if problem.cost == "hops" else link.delay_ps)
    trees = [
        nx.algorithms.approximation.steiner_tree(graph, terminals, weight="weight", method=method)
        for method in ("kou", "mehlhorn")
    ]
    return {frozenset(problem.capable).intersection(tree.nodes) for tree in trees} - {frozenset()}


def _improve(problem: Problem, closure: Closure, start: Chosen) -> Chosen:
    """Local search: add or drop one switch as long as that makes the tree cheaper."""
    chosen, price = start, closure.price(start)
    improved = True
    while improved:
        improved = False
        for name in problem.capable:
            option = chosen ^ {name}
            if option and (cheaper := closure.price(option)) < price:
                chosen, price, improved = option, cheaper, True
    return chosen


def _rooted(problem: Problem, closure: Closure, chosen: Chosen) -> list[TreeLayout]:
    """The tree over ``chosen`` from the central ones of the roots that cost nothing more.

    A root may be a switch that the tree only passed through. With a server it is the switch next to the server.
    """
    switches = tuple(sorted(chosen))
    if problem.server is not None:
        roots = [problem.paths.nearest(problem.server, switches)]
    else:
        least = closure.price(chosen)
        roots = central(problem, [name for name in problem.capable if closure.price(chosen | {name}) <= least])
    return [finish(problem, tree) for root in roots for tree in grow(problem, root, switches)]
