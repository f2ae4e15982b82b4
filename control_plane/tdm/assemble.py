"""From plans of groups to a `Schedule`: hosts, trees with roots, rings, routes, windows, configurations."""

from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np

from p4reduce.control_plane.tdm.circuits import least_time
from p4reduce.control_plane.tdm.crossing import cross
from p4reduce.control_plane.tdm.demand import Floats
from p4reduce.control_plane.tdm.groups import GroupPlan
from p4reduce.control_plane.tdm.hosts import Placement, on_hosts
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.packing import Edge, Packed
from p4reduce.control_plane.tdm.parts import parts_of
from p4reduce.control_plane.tdm.schedule import Configuration, Matrix, Ring, Route, Tree
from p4reduce.control_plane.tdm.several import split


@dataclass(frozen=True)
class Carried:
    """How the jobs of one process cross pods."""

    trees: dict[int, tuple[Tree, ...]]
    """by job"""
    rings: dict[int, Ring]
    routes: dict[int, tuple[Route, ...]]
    matrices: tuple[Matrix, ...]
    bytes: tuple[float, ...]
    """over a circuit of the busiest pair, of each configuration"""


def rooted(edges: Sequence[Edge], units: Sequence[int]) -> tuple[int, tuple[Edge, ...]]:
    """The root that makes a tree flattest (of two the one with more units), and (child, parent) of every edge."""
    if not edges:
        return next((pod for pod, count in enumerate(units) if count), 0), ()
    graph: nx.Graph[int] = nx.Graph(list(edges))
    root = min(nx.center(graph), key=lambda pod: (-units[pod], pod))
    return root, tuple((child, parent) for parent, child in nx.bfs_edges(graph, root))


def carry_trees(
    jobs: Sequence[TdmJob], numbers: Sequence[int], plan: Packed, network: OpticalNetwork, *, returns: bool = False
) -> Carried:
    """A packing of ours: a tree for each PS and RAR, routes for a2a; ``returns`` as of :func:`cross`."""
    parts = parts_of([jobs[j] for j in numbers], [sum(units) for units in plan.units], network)
    trees: dict[int, tuple[Tree, ...]] = {}
    for place, j in enumerate(numbers):
        if not parts[place].alltoall:
            root, edges = rooted(plan.edges[place], plan.units[place])
            trees[j] = (Tree(root, edges, 1.0),)
    crossing = cross(parts, plan, network, returns=returns)
    routes = {j: crossing.routes[place] for place, j in enumerate(numbers) if parts[place].alltoall}
    return Carried(trees, {}, routes, crossing.matrices, crossing.bytes)


def carry_seed(jobs: Sequence[TdmJob], plan: GroupPlan, network: OpticalNetwork) -> Carried:
    """The source's: stars for PS, rings for RAR, push and pull one after the other."""
    assert plan.seed is not None  # noqa: S101  (whoever calls this planned it so)
    trees: dict[int, tuple[Tree, ...]] = {}
    rings: dict[int, Ring] = {}
    whole: Floats = np.maximum(*plan.seed.demand)
    fits = plan.seed.circuits is not None
    cut = [] if fits else split(whole, network.ports)
    at = np.zeros(whole.shape, np.int64)
    for number, part in enumerate(cut):
        at[(part.demand > 0) | (part.demand.T > 0)] = number
    routes: dict[int, tuple[Route, ...]] = {}
    for j, one in zip(plan.jobs, plan.seed.jobs, strict=True):
        used = [pod for pod, count in enumerate(one.units) if count]
        if one.ps_pod is not None:
            edges = tuple((pod, one.ps_pod) for pod in used if pod != one.ps_pod)
            last = max((int(at[edge]) for edge in edges), default=0)
            trees[j] = (Tree(one.ps_pod, edges, 1.0, last, pipelined=False),)
        elif one.ring:
            size = len(one.ring)
            rings[j] = Ring(one.ring, round(jobs[j].bytes * (size - 1) / size))
        else:
            routes[j] = tuple(Route((a, b), 1.0, int(at[a, b])) for a in used for b in used if a != b)
    if plan.seed.circuits is not None:
        found = least_time(whole, network.ports)
        return Carried(trees, rings, routes, (found.matrix,), (found.bytes,))
    return Carried(trees, rings, routes, tuple(part.matrix for part in cut), tuple(part.bytes for part in cut))


def carry(jobs: Sequence[TdmJob], plan: GroupPlan, network: OpticalNetwork) -> Carried:
    """How the jobs of a group cross pods; nobody: no circuits."""
    if plan.seed is not None:
        return carry_seed(jobs, plan, network)
    if plan.packed is None:
        return Carried({}, {}, {}, (dark_matrix(network.pods),), (0.0,))
    return carry_trees(jobs, plan.jobs, plan.packed, network)


def dark_matrix(pods: int) -> Matrix:
    """No circuit at all."""
    return tuple((0,) * pods for _ in range(pods))


def configurations(
    carried: Carried, start_s: float, duration_s: float, network: OpticalNetwork
) -> tuple[Configuration, ...]:
    """Of a process: each lit as long as its busiest pair needs, the last one until the end."""
    found, at = [], start_s
    for matrix, size in zip(carried.matrices[:-1], carried.bytes, strict=False):
        lasts = network.delta_s + size / network.circuit
        found.append(Configuration(matrix, at, lasts))
        at += lasts
    found.append(Configuration(carried.matrices[-1], at, max(0.0, start_s + duration_s - at)))
    return tuple(found)


def placements(
    jobs: Sequence[TdmJob], plan: GroupPlan, network: OpticalNetwork, *, other_way: bool = False
) -> dict[int, Placement]:
    """(host, units) of each job of a group, by job."""
    own = [jobs[j] for j in plan.jobs]
    return dict(zip(plan.jobs, on_hosts(own, plan.units, network, longest_last=other_way), strict=True))
