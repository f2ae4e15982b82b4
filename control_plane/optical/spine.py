"""An all-optical spine: circuits for the large pairs of leaves, time slots for all others.

Each leaf has W transceivers. Of these k hold circuits, which are made once (dark time ``delta_s``); the other W - k are
fast and rotate through matchings of leaves in slots, dark for a guard in each. A pair's work beyond what its L circuits
carry in (T - delta) goes into slots (cf. Liu et al., "Scheduling techniques for hybrid circuit/packet networks"
(Solstice), CoNEXT 2015; Venkatakrishnan et al., "Costly circuits, submodular schedules" (Eclipse), SIGMETRICS 2016):

 T(k) = least T with  ceil(max line sum of ceil(max(0, D - L (T - delta)) / (slot - guard)) / (W - k)) slot <= T

D is work: seconds of one transceiver. Circuits are full duplex, and aggregation loads a pair equally up and down. D is
therefore symmetric, and W - k even: a graph whose nodes have at most 2 m edges is the sum of m cycle covers (Petersen),
which an Euler tour and matchings of the bipartite graph of its arcs give.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Final, Literal

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching

from p4reduce.control_plane.optical.plan import OpticalError
from p4reduce.control_plane.scheduling.task import Task

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Pair = tuple[int, int]
Sharing = Literal["hybrid", "slots", "circuits"]
SHARINGS: Final = ("hybrid", "slots", "circuits")
_FUZZ: Final = 1e-9
_LENGTHS: Final = 48
"""number of configuration lengths that are tried when slow transceivers are switched repeatedly"""


@dataclass(frozen=True)
class Spine:
    """Leaves around cross-connects.

    Attributes
    ----------
    leaves, transceivers, fast : int
        P, W, and the number of transceivers of a leaf that are fast enough for slots.
    delta_s, slot_s, guard_s : float
        Dark time of slow transceivers when switched; length of a slot, and the part of it in which fast ones are dark.
    lag_s, chunk_s : float
        Further loss of a slot until the sum of its last chunk has returned; time of a chunk, of which a slot holds a
        whole number (0: a slot may hold a part).
    """

    leaves: int
    transceivers: int
    fast: int
    delta_s: float
    slot_s: float
    guard_s: float
    lag_s: float = 0.0
    chunk_s: float = 0.0

    def __post_init__(self) -> None:
        if self.leaves < 2 or self.transceivers < 1:
            raise OpticalError("pods, ports: a spine needs two leaves, and a transceiver at each")
        if not 0 <= self.fast <= self.transceivers:
            raise OpticalError(f"fast: {self.fast} is not within 0..{self.transceivers}, the ports of a leaf")
        if self.guard_s < 0 or self.payload_s <= 0:
            raise OpticalError(
                f"slot, guard: {self.guard_s:g} s of darkness and {self.lag_s:g} s of lag leave nothing of a slot of "
                f"{self.slot_s:g} s, or less than a chunk"
            )

    @property
    def payload_s(self) -> float:
        """The part of a slot that is left for work, in seconds."""
        left = self.slot_s - self.guard_s - self.lag_s
        return left // self.chunk_s * self.chunk_s if self.chunk_s else left


@dataclass(frozen=True)
class CircuitRun:
    """A pair that is joined in consecutive slots: by port 2 c of the first leaf and 2 c + 1 of the other (c: channel).

    Only the ports that rotate are counted.
    """

    channel: int
    first: int
    slots: int
    pair: Pair


@dataclass(frozen=True)
class SpinePlan:
    """The circuits and slots of all pairs.

    Attributes
    ----------
    circuits, over : array
        L (leaves, leaves); seconds of each pair's work that its circuits carry.
    ports : int
        W - k, the number of rotating ports.
    slots : int
        Number of slots in total.
    runs : tuple of CircuitRun
        By channel and time.
    time_s : float
        T.
    """

    sharing: Sharing
    spine: Spine
    work: Floats
    circuits: Ints
    over: Floats
    ports: int
    slots: int
    runs: tuple[CircuitRun, ...]
    time_s: float

    @property
    def bound_s(self) -> float:
        """Lower bound in seconds on every plan: the busiest leaf's work on all of its transceivers."""
        return float(self.work.sum(axis=1).max()) / self.spine.transceivers

    @property
    def units(self) -> Ints:
        """Number of slots that each pair needs, int64 (leaves, leaves)."""
        return _units(self.work - self.over, self.spine)

    def as_data(self) -> dict[str, Any]:
        """Return plain data."""
        pairs = np.argwhere(np.triu(self.circuits)).tolist()
        return {
            "sharing": self.sharing,
            "time_s": self.time_s,
            "bound_s": self.bound_s,
            "circuits": [[a, b, int(self.circuits[a, b])] for a, b in pairs],
            "over_circuits": float(self.over.sum() / max(self.work.sum(), 1e-300)),
            "rotating": self.ports,
            "slot_s": self.spine.slot_s,
            "slots": self.slots,
            "runs": [[run.channel, run.first, run.slots, *run.pair] for run in self.runs],
        }


def plan_spine(work: Floats, spine: Spine, sharing: Sharing = "hybrid") -> SpinePlan:
    """Return the fastest plan of one kind.

    Parameters
    ----------
    work : array
        D (leaves, leaves), seconds of one transceiver; symmetric, zero on the diagonal.
    spine : Spine
        The leaves and transceivers.
    sharing : str
        'slots': all transceivers rotate, as if all were fast. 'circuits': all are slow, in one configuration, or in
        the best number of configurations of equal length. 'hybrid': the best possible number of circuits.

    Raises
    ------
    OpticalError
        ``work`` is no such matrix, or no plan can carry it.
    """
    size = spine.leaves
    if work.shape != (size, size) or not np.isfinite(work).all() or (work < 0).any():
        raise OpticalError(f"work: needs {size} rows of {size} numbers that are not negative")
    if work.diagonal().any() or not np.allclose(work, work.T):
        raise OpticalError("work: must be symmetric, without work of a leaf for itself: circuits are full duplex")
    whole = spine.transceivers
    if sharing == "slots":
        counts: Sequence[int] = [whole % 2]
    else:
        most = spine.fast if sharing == "hybrid" else 0
        counts = [whole - ports for ports in range(0, most + 1, 2)]
    plans = [_rotating(work, spine, count, sharing) for count in counts]
    if sharing != "slots":
        plans += _turning(work, spine, sharing)
    known = [plan for plan in plans if plan is not None]
    if not known:
        raise OpticalError("ports: a leaf whose only transceiver is slow is joined to one other leaf; give more ports")
    best = min(known, key=lambda plan: plan.time_s)
    return replace(best, runs=rotation(best.units, best.ports))


def _turning(work: Floats, spine: Spine, sharing: Sharing) -> list[SpinePlan | None]:
    """Return plans with slow transceivers alone, in configurations of equal length."""
    least = 1.02 * (spine.delta_s + spine.lag_s + max(spine.chunk_s, spine.slot_s / _LENGTHS))
    most = spine.delta_s + 2 * float(work.sum(axis=1).max()) / spine.transceivers + least
    slow = [replace(spine, slot_s=float(length), guard_s=spine.delta_s)
            for length in np.geomspace(least, most, _LENGTHS)]  # fmt: skip
    return (
        [_rotating(work, slow_spine, spine.transceivers % 2, sharing) for slow_spine in slow]
        if spine.transceivers > 1
        else []
    )


def _rotating(work: Floats, spine: Spine, count: int, sharing: Sharing) -> SpinePlan | None:
    """Return the plan of least T with ``count`` circuits at a leaf; None if some pair with work is not joined."""
    ports = spine.transceivers - count
    circuits = greedy_circuits(work, count)

    def slots(time_s: float) -> int:
        busiest = int(_units(work - circuits * max(0.0, time_s - spine.delta_s), spine).sum(axis=1).max())
        return -(-busiest // ports) if ports else (0 if not busiest else 1 << 62)

    alone_s = spine.delta_s + float((work / np.maximum(circuits, 1)).max())
    if not ports and (work[circuits == 0] > 0).any():
        return None
    low, high = 0, slots(0.0) if ports else ceil(alone_s / spine.slot_s)
    while low < high:  # the fewest slots n such that n slots suffice by the end of n + 1
        middle = (low + high) // 2
        low, high = (low, middle) if slots((middle + 1) * spine.slot_s) <= middle else (middle + 1, high)
    start, end = low * spine.slot_s, (low + 1) * spine.slot_s
    for _ in range(60):
        if slots(start) <= low:
            end = start
            break
        middle_s = (start + end) / 2
        start, end = (start, middle_s) if slots(middle_s) <= low else (middle_s, end)
    time_s = end if work.any() else 0.0
    over = np.minimum(work, circuits * max(0.0, time_s - spine.delta_s))
    return SpinePlan(sharing, spine, work, circuits, over, ports, slots(time_s), (), time_s)


def _units(left: Floats, spine: Spine) -> Ints:
    return np.maximum(0, np.ceil(left / spine.payload_s - _FUZZ)).astype(np.int64)


def greedy_circuits(work: Floats, most: int) -> Ints:
    """Return L (leaves, leaves): each step adds a circuit for the pair with most work per circuit, ``most`` a leaf."""
    circuits = np.zeros(work.shape, np.int64)
    used = np.zeros(len(work), np.int64)
    while True:
        share = np.where((used[:, None] < most) & (used < most), work / (circuits + 1), 0.0)
        a, b = divmod(int(share.argmax()), len(work))
        if share[a, b] <= 0:
            return circuits
        circuits[a, b] += 1
        circuits[b, a] += 1
        used[[a, b]] += 1


def rotation(units: Ints, ports: int) -> tuple[CircuitRun, ...]:
    """Return slots for pairs, ``units`` for each, at most ``ports`` for a leaf at one time, in the fewest slots.

    Parameters
    ----------
    units : int array
        (leaves, leaves), symmetric.
    ports : int
        Even.
    """
    if not units.any():
        return ()
    arcs = _oriented(units)
    total = int(max(arcs.sum(axis=0).max(), arcs.sum(axis=1).max()))
    channels = ports // 2
    length = -(-total // channels)
    runs: dict[tuple[int, int, Pair], CircuitRun] = {}
    """by channel, end and pair"""
    place = 0
    for count, pairs in _matchings(arcs, total):
        while count:
            channel, first = divmod(place, length)
            part = min(count, length - first)
            for pair in pairs:
                before = runs.pop((channel, first, pair), None)
                began = first if before is None else before.first
                runs[channel, first + part, pair] = CircuitRun(channel, began, first + part - began, pair)
            place, count = place + part, count - part  # noqa: PLW2901
    return tuple(sorted(runs.values(), key=lambda run: (run.channel, run.first, run.pair)))


def _oriented(units: Ints) -> Ints:
    """Orient edges so that a node's arcs in and out differ by at most one: halves, and an Euler tour over odd edges."""
    arcs = units // 2
    odd: nx.Graph[int] = nx.Graph([(a, b) for a, b in np.argwhere(np.triu(units % 2)).tolist()])
    spare = -1  # an extra node joins those of odd degree
    odd.add_edges_from([(spare, node) for node, degree in list(odd.degree) if degree % 2])
    for part in nx.connected_components(odd):
        for a, b in nx.eulerian_circuit(odd.subgraph(part)):
            if spare not in (a, b):
                arcs[a, b] += 1
    return arcs


def _matchings(arcs: Ints, total: int) -> list[tuple[int, list[Pair]]]:
    """Return matchings with their multiplicities, ``total`` in all (Birkhoff and von Neumann)."""
    size = len(arcs)
    left = np.zeros((2 * size, 2 * size), np.int64)  # every line has the same sum
    left[:size, :size], left[size:, size:] = arcs, arcs.T
    left[:size, size:] = np.diag(total - arcs.sum(axis=1))
    left[size:, :size] = np.diag(total - arcs.sum(axis=0))
    matchings = []
    nodes = np.arange(2 * size)
    while total:
        match = maximum_bipartite_matching(csr_matrix(left), perm_type="column")
        count = int(left[nodes, match].min())
        left[nodes, match] -= count
        total -= count
        matchings.append((count, [(a, int(b)) for a, b in enumerate(match[:size].tolist()) if b < size]))
    return matchings


# The work of pairs of leaves.


def elephants(leaves: int, share: float, seed: int, *, pairs: int = 32, load_s: float = 1.0) -> Floats:
    """Return a random matrix: a few pairs (log-normal) have ``share`` of all work, all pairs share the rest.

    ``load_s`` is the work of the busiest leaf, seconds of one transceiver.
    """
    draw = np.random.default_rng(90_000 + seed)
    every = np.argwhere(np.triu(np.ones((leaves, leaves), np.int64), 1))
    if not 0 <= share <= 1 or not 1 <= pairs <= len(every):
        raise OpticalError(f"share, pairs: {share:g} must be within 0..1, {pairs} within 1..{len(every)}")
    work = np.zeros((leaves, leaves))
    large = every[draw.choice(len(every), pairs, replace=False)]
    weights, small = draw.lognormal(0.0, 1.0, pairs), draw.uniform(0.5, 1.5, len(every))
    work[tuple(large.T)] += share * weights / weights.sum()
    work[tuple(every.T)] += (1 - share) * small / small.sum()
    work += work.T
    work *= load_s / work.sum(axis=1).max()
    return work


def work_of(tasks: Sequence[Task], pod_of: dict[str, int], how: str, rate: float) -> Floats:
    """Return the work of tasks for pairs of leaves, each model up and down; ``rate``: bytes a second of a transceiver.

    how: 'flows': a copy for each local model; 'star': one copy from each leaf to that of the global model; 'chain': one
    copy from leaf to leaf, with aggregation at the leaves.
    """
    size = max(pod_of.values()) + 1
    work = np.zeros((size, size))
    for task in tasks:
        root = pod_of[task.server]
        others = [pod_of[worker] for worker in task.workers if pod_of[worker] != root]
        ends = others if how == "flows" else list(dict.fromkeys(others))
        above = [root, *ends[:-1]] if how == "chain" else [root] * len(ends)
        for a, b in zip(ends, above, strict=True):
            work[a, b] += 4 * task.elements / rate
            work[b, a] += 4 * task.elements / rate
    return work
