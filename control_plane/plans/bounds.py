"""The least time of any plan: a fractional packing of trees, as a linear program.

For each part of a tensor, an all-reduce is a tree over the workers, whose inner nodes are aggregating switches or
hosts. Each edge of the tree carries one frame up and one frame down for each chunk. A plan is a set of such trees with
shares that add up to 1: a ring is n paths with shares of 1/n, a striped plan k stars with shares of 1/k. The best plan
has the least time T = max over directed links l of (frames on l for each chunk) x (time of a frame on l).

The linear program relaxes the trees to flows, like the bidirected cut formulation of Steiner trees: a source gives y_r
to every possible root r, sum(y) = 1; from the source a flow of 1 goes to each worker w over arcs (u, v) between
aggregating nodes; x_uv is at least each worker's flow on the arc; x_uv + x_vu frames cross the links of the arc.
Sources: Edmonds, Edge-disjoint branchings (1973); Jain, Mahdian, Salavatipour, Packing Steiner trees (SODA 2003).
Workers at one switch with links of one rate are interchangeable, so one variable stands for all of them: the average of
an optimum over their permutations is an optimum.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans.routes import chunks, frame_bytes, frame_time_ps
from p4reduce.topologies import Topology

MOST_NODES: Final = 72
"""largest number of groups of workers and aggregating switches; a larger program takes minutes"""
QUICK_NODES: Final = 28
"""number of groups and switches up to which the program takes a second or two"""


@dataclass(frozen=True, slots=True)
class _Adder:
    """A group of interchangeable hosts, or one aggregating switch."""

    at: str
    """the switch itself, or the hosts' switch"""
    count: int
    frame_ps: int
    """time in ps of a full frame on each host's link; 0 for a switch"""
    works: bool
    """whether the hosts are workers of the job"""


class _Program:
    """The rows and columns of a linear program under construction."""

    def __init__(self) -> None:
        self.columns = 0
        self.upper: list[dict[int, float]] = []
        self.equal: list[tuple[dict[int, float], float]] = []

    def column(self) -> int:
        self.columns += 1
        return self.columns - 1


def best_plan_ps(
    topology: Topology, workers: Iterable[str], elements: int, lanes: int, *, most_nodes: int = MOST_NODES
) -> int | None:
    """The least time in ps of an all-reduce with the best plan; no plan whose parts are trees is faster.

    Parameters
    ----------
    topology : Topology
        Its ``capable`` switches may aggregate, and so may hosts that are not workers (parameter servers).
    workers : iterable of str
        Hosts that take part.
    elements, lanes : int
        float32 elements of the tensor, and lanes of a full frame.
    most_nodes : int
        Largest number of groups of workers and aggregating switches for which the bound is computed.

    Returns
    -------
    int or None
        0 for one worker; None if the program would have more than ``most_nodes`` nodes.

    Raises
    ------
    PlanError
        There are no elements, or no path between the workers.
    """
    names = tuple(workers)
    if elements < 1:
        raise PlanError(f"elements: {elements} is too few; a collective moves at least one")
    if len(names) < 2:
        return 0
    length = frame_bytes(lanes)
    adders = _adders(topology, names, length)
    if len(adders) > most_nodes:
        return None
    a_chunk = _solve(topology, adders, length)
    return int(np.floor(a_chunk * chunks(elements, lanes) * (1 - 1e-9)))


def _adders(topology: Topology, workers: tuple[str, ...], length: int) -> list[_Adder]:
    alike: dict[tuple[str, int, bool], int] = defaultdict(int)
    working = set(workers)
    others = [host.name for host in topology.servers if host.name not in working]
    for name in (*workers, *others):
        link = topology.link_at(name, 1)
        alike[topology.neighbour(name, 1), frame_time_ps(length, link.rate_bps), name in working] += 1
    hosts = [_Adder(at, count, frame_ps, works) for (at, frame_ps, works), count in alike.items()]
    return hosts + [_Adder(node.name, 1, 0, works=False) for node in topology.switches if node.capable]


def _solve(topology: Topology, adders: list[_Adder], length: int) -> float:
    """The least time in ps for a chunk: the optimum of the linear program."""
    from scipy.optimize import linprog  # noqa: PLC0415  (takes a while to import)
    from scipy.sparse import csr_matrix  # noqa: PLC0415

    program = _Program()
    time = program.column()
    roots = [program.column() for _ in adders]
    program.equal.append(({root: adder.count for root, adder in zip(roots, adders, strict=True)}, 1.0))
    # frames for each chunk on the arc from one host or switch of u to one of v
    arcs = {
        (u, v): program.column()
        for u in range(len(adders))
        for v in range(len(adders))
        if u != v or adders[u].count > 1
    }
    for target, adder in enumerate(adders):
        if adder.works:
            _flow_to(program, adders, target, roots, arcs)
    _loads(program, topology, adders, arcs, time, length)

    def matrix(rows: list[dict[int, float]]) -> csr_matrix:
        place = [(row, column, value) for row, entries in enumerate(rows) for column, value in entries.items()]
        row, column, value = zip(*place, strict=True)
        return csr_matrix((value, (row, column)), shape=(len(rows), program.columns))

    goal = np.zeros(program.columns)
    goal[time] = 1.0
    solver: Any = linprog  # its type stubs do not accept sparse matrices
    solution = solver(
        goal,
        A_ub=matrix(program.upper),
        b_ub=np.zeros(len(program.upper)),
        A_eq=matrix([row for row, _ in program.equal]),
        b_eq=np.array([value for _, value in program.equal]),
        method="highs",
    )
    if solution.status != 0:
        raise PlanError(f"no plan connects the workers: {solution.message}")
    return float(solution.fun)


def _flow_to(
    program: _Program, adders: list[_Adder], target: int, roots: list[int], arcs: dict[tuple[int, int], int]
) -> None:
    """Add a flow of 1 to one worker of the group ``target``; the rest of the group is a separate node.

    No flow leaves the target, since that would be useless. Flows between other members of a group cancel by symmetry.
    """
    worker = len(adders)  # the worker itself; ``target`` stands for the rest of its group
    count = [adder.count for adder in adders]
    count[target] -= 1
    nodes = [*(node for node in range(len(adders)) if count[node]), worker]
    times = [*count, 1]

    def kind(node: int) -> int:
        return target if node == worker else node

    entering: dict[int, dict[int, float]] = {node: {} for node in nodes}
    for node in nodes:
        flow = program.column()
        program.upper.append({flow: 1.0, roots[kind(node)]: -float(times[node])})
        entering[node][flow] = 1.0
    for u in nodes:
        for v in nodes:
            if u in {v, worker}:
                continue
            flow = program.column()
            program.upper.append({flow: 1.0, arcs[kind(u), kind(v)]: -float(times[u] * times[v])})
            entering[v][flow] = 1.0
            entering[u][flow] = -1.0
    for node in nodes:
        program.equal.append((entering[node], 1.0 if node == worker else 0.0))


def _loads(
    program: _Program,
    topology: Topology,
    adders: list[_Adder],
    arcs: dict[tuple[int, int], int],
    time: int,
    length: int,
) -> None:
    """Route the traffic of every aggregating node over links between switches, and bound the time of each link by T."""
    own: list[dict[int, float]] = [defaultdict(float) for _ in adders]
    for (u, v), arc in arcs.items():
        own[u][arc] += adders[v].count - (u == v)
        own[v][arc] += adders[u].count - (u == v)
    for adder, crossing in zip(adders, own, strict=True):
        if adder.frame_ps:
            program.upper.append({**{arc: frames * adder.frame_ps for arc, frames in crossing.items()}, time: -1.0})
    switches = {node.name for node in topology.switches}
    between = [link for link in topology.links if link.a in switches and link.b in switches]
    busy: list[dict[int, float]] = [{} for _ in between]
    for u, sender in enumerate(adders):
        balance: dict[str, dict[int, float]] = defaultdict(dict)
        for number, link in enumerate(between):
            for a, b in ((link.a, link.b), (link.b, link.a)):
                flow = program.column()
                busy[number][flow] = 1.0  # each frame has a counterpart in the other direction and phase
                balance[b][flow] = balance[b].get(flow, 0.0) + 1.0
                balance[a][flow] = balance[a].get(flow, 0.0) - 1.0
        for v, receiver in enumerate(adders):
            if (u, v) in arcs:
                frames = float(sender.count * (receiver.count - (u == v)))
                for place, sign in ((receiver.at, -1.0), (sender.at, 1.0)):
                    row = balance[place]
                    row[arcs[u, v]] = row.get(arcs[u, v], 0.0) + sign * frames
        program.equal.extend((row, 0.0) for row in balance.values())
    for link, flows in zip(between, busy, strict=True):
        frame_ps = frame_time_ps(length, link.rate_bps)
        program.upper.append({**{flow: value * frame_ps for flow, value in flows.items()}, time: -1.0})
