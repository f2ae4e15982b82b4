"""Several configurations in one process, and multi-hop routes: what all-to-all over more pods than ports needs.

(2) divides by L_ij, which is 0 for pods without a circuit; the paper says nothing of m - 1 > R.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from p4reduce.control_plane.tdm.circuits import least_time
from p4reduce.control_plane.tdm.demand import Floats, both_ways
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.schedule import Matrix


@dataclass(frozen=True)
class Part:
    """One configuration, and what is sent while it is lit."""

    matrix: Matrix
    demand: Floats
    bytes: float
    """over a circuit of the busiest pair"""


def split(demand: Floats, ports: int, first: frozenset[tuple[int, int]] = frozenset()) -> list[Part]:
    """Cut a demand into configurations, each within the ports; ``bytes`` add up to what it takes.

    Pairs go round by round as in a tournament (P pods need P - 1 rounds, each a matching), each to the first
    configuration with ports left: ``ports`` rounds fill one. For K_m with equal demand these are the fewest there are.
    O(P^2 configurations). Pairs in ``first``, (smaller, larger), are all in the first one: trees are not cut.

    Raises
    ------
    TdmError
        When ToRs have no port, or too few for ``first``.
    """
    wanted = both_ways(demand)
    pods = len(wanted)
    if not wanted.any():
        return []
    if ports < 1:
        raise TdmError("ports: a pod without a port to the OXC cannot reach other pods; write ports=1 or more")
    alive = np.flatnonzero(wanted.any(axis=1))
    parts: list[Floats] = [np.zeros((pods, pods))] if first else []
    for a, b in first:
        parts[0][a, b], parts[0][b, a] = demand[a, b], demand[b, a]
    if first and any(_neighbours(parts[0], pod) > ports for pod in range(pods)):
        raise TdmError("ports: trees join a pod to more pods than it has ports; place jobs in fewer pods")
    for round_ in tournament(len(alive)):
        pairs = [(int(alive[a]), int(alive[b])) for a, b in round_ if wanted[alive[a], alive[b]] > 0]
        pairs = [(min(pair), max(pair)) for pair in pairs if (min(pair), max(pair)) not in first]
        for a, b in sorted(pairs, key=lambda pair: -wanted[pair]):
            fitting = (x for x in parts if _neighbours(x, a) < ports and _neighbours(x, b) < ports)
            part = next(fitting, None)
            if part is None:
                part = np.zeros((pods, pods))
                parts.append(part)
            part[a, b], part[b, a] = demand[a, b], demand[b, a]
    found = []
    for part in parts:
        circuits = least_time(part, ports)
        found.append(Part(circuits.matrix, part, circuits.bytes))
    return found


def _neighbours(demand: Floats, pod: int) -> int:
    return int(((demand[pod] > 0) | (demand[:, pod] > 0)).sum())


def tournament(players: int) -> list[list[tuple[int, int]]]:
    """Rounds in which everybody meets everybody once: the circle method."""
    size = players + players % 2
    ring = list(range(size))
    rounds = []
    for _ in range(size - 1):
        rounds.append(
            [(a, b) for a, b in zip(ring[: size // 2], ring[: size // 2 - 1 : -1], strict=True) if max(a, b) < players]
        )
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return rounds


@dataclass(frozen=True)
class Flows:
    """A demand on circuits over several hops."""

    bytes: float
    """over one circuit, T * B"""
    sent: Floats
    """(pods, pods, pods): [source, i, j] bytes that began at a pod, from i to j"""


def multi_hop(demand: Floats, circuits: Any) -> Flows:
    """The least time on given circuits where pods forward: the maximum concurrent flow.

    Linear in u = 1 / T: flows of u D, sum over sources of f_ij <= L_ij. Here times T: flows of D, sum f_ij <= T L_ij,
    least T; one commodity for each source. HiGHS.

    Raises
    ------
    TdmError
        When some pod cannot be reached.
    """
    capacity = np.asarray(circuits, np.float64)
    pods = len(capacity)
    arcs = [(i, j) for i in range(pods) for j in range(pods) if capacity[i, j] > 0]
    sources = [s for s in range(pods) if demand[s].any()]
    if not sources:
        return Flows(0.0, np.zeros((pods, pods, pods)))
    scale = float(demand.max())
    width = len(arcs) * len(sources) + 1
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    right: list[float] = []
    for place, s in enumerate(sources):
        for v in (pod for pod in range(pods) if pod != s):
            for x, (i, j) in enumerate(arcs):
                if v in (i, j):
                    rows.append(len(right))
                    columns.append(place * len(arcs) + x)
                    values.append(1.0 if j == v else -1.0)
            right.append(demand[s, v] / scale)
    equal = csr_matrix((values, (rows, columns)), shape=(len(right), width))
    rows, columns, values = [], [], []
    for x, (i, j) in enumerate(arcs):
        rows += [x] * (len(sources) + 1)
        columns += [place * len(arcs) + x for place in range(len(sources))] + [width - 1]
        values += [1.0] * len(sources) + [-capacity[i, j]]
    upper = csr_matrix((values, (rows, columns)), shape=(len(arcs), width))
    cost = np.zeros(width)
    cost[-1] = 1.0
    solver: Any = linprog
    solved = solver(cost, A_ub=upper, b_ub=np.zeros(len(arcs)), A_eq=equal, b_eq=right, method="highs")
    if solved.x is None:
        raise TdmError("circuits: some pods that exchange data cannot reach each other; add ports, or circuits")
    sent = np.zeros((pods, pods, pods))
    for place, s in enumerate(sources):
        for x, (i, j) in enumerate(arcs):
            sent[s, i, j] = solved.x[place * len(arcs) + x] * scale
    return Flows(float(solved.x[-1]) * scale, sent)
