"""Placement of units, and trees of ToRs that join their pods: packing, local search, and electrical bounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from p4reduce.control_plane.tdm.anneal import anneal
from p4reduce.control_plane.tdm.circuits import Floats
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmError, TdmJob

Edge = tuple[int, int]
THRESHOLD: Final = 0.6
"""relative acceptance threshold on the sum of eighth powers: some 6 % of the largest row"""
MOVES: Final = 20_000
"""default number of moves of local search"""


@dataclass(frozen=True)
class PackingJob:
    """A job as packing sees it."""

    load: int
    """bytes on each edge of its tree in each direction; a2a: between two units"""
    units: int
    alltoall: bool = False
    layer: int = 0
    """layer of GPUs of the job: jobs of different layers share GPUs"""
    fixed: tuple[int, ...] | None = None
    """units in each pod, if they are given; None: the search places them"""


@dataclass(frozen=True)
class Packed:
    """The placement of all jobs."""

    units: tuple[tuple[int, ...], ...]
    """units of each job, in each pod"""
    edges: tuple[tuple[Edge, ...], ...]
    """edges of each job's tree; empty for a2a"""
    circuit_bytes: float
    """bytes over circuits of the busiest pair of pods (T * B); infinite when pods have fewer ports than neighbours"""


def pack(parts: Sequence[PackingJob], pods: int, capacity: int) -> list[list[int]]:
    """Return the units of each job in each pod: large jobs first, each in the fullest pod with room for all of it.

    A job that fits in no pod takes the emptiest pods, so that it spans few. Best fit decreasing; O(jobs * pods log
    pods).

    Raises
    ------
    TdmError
        When a layer has more units than GPUs.
    """
    layers = 1 + max((part.layer for part in parts), default=0)
    free = [[capacity] * pods for _ in range(layers)]
    placed: list[list[int]] = [[0] * pods for _ in parts]
    for job, part in enumerate(parts):
        if part.fixed is not None:
            placed[job] = list(part.fixed)
            for pod, units in enumerate(part.fixed):
                free[part.layer][pod] -= units
    for layer, left in enumerate(free):
        wanted = sum(part.units for part in parts if part.layer == layer and part.fixed is None)
        if min(left, default=0) < 0 or wanted > sum(left):
            units = sum(part.units for part in parts if part.layer == layer)
            raise TdmError(f"{units} units for {pods * capacity} GPUs; use fewer workers, or more hosts")
    order = sorted((j for j, part in enumerate(parts) if part.fixed is None), key=lambda j: (-parts[j].units, j))
    for job in order:
        left, units = free[parts[job].layer], parts[job].units
        while units:
            whole = [pod for pod in range(pods) if left[pod] >= units]
            pod = min(whole, key=lambda p: left[p]) if whole else max(range(pods), key=lambda p: left[p])
            took = min(units, left[pod])
            placed[job][pod] += took
            left[pod] -= took
            units -= took
    return placed


def paths(placed: Sequence[Sequence[int]], parts: Sequence[PackingJob]) -> list[list[Edge]]:
    """Return a path over the pods of each job, in the order of pods; no edges for an a2a."""
    trees: list[list[Edge]] = []
    for units, part in zip(placed, parts, strict=True):
        used = [pod for pod, count in enumerate(units) if count]
        trees.append([] if part.alltoall else list(pairwise(used)))
    return trees


def search(
    parts: Sequence[PackingJob],
    network: OpticalNetwork,
    *,
    start: Packed | None = None,
    one_topology: bool = False,
    enough: float = 0.0,
    moves: int = MOVES,
    restarts: int = 1,
    seed: int = 1,
) -> Packed:
    """Return the best packing that local search finds by moving and exchanging units and by moving edges of trees.

    Parameters
    ----------
    parts : sequence of PackingJob
        The jobs; layers 0 and 1.
    network : OpticalNetwork
        Its pods, GPUs, ports.
    start : Packed or None
        The first packing; None: :func:`pack` and :func:`paths`.
    one_topology : bool
        Whether layers take turns on the same circuits; otherwise their bytes add up.
    enough : float
        Value of ``circuit_bytes`` at which to stop, because another limit dominates below it.
    moves, restarts, seed : int
        Number of moves of each run; number of runs from the start; seed of random numbers.

    Returns
    -------
    Packed
        ``circuit_bytes`` is infinite if a pod needs more neighbours than it has ports.

    Raises
    ------
    TdmError
        When a layer has more units than GPUs.
    """
    pods = network.pods
    if start is None:
        placed = pack(parts, pods, network.pod_gpus)
        trees = paths(placed, parts)
    else:
        placed, trees = [list(units) for units in start.units], [list(edges) for edges in start.edges]
    best = _anneal(parts, network, placed, trees, one_topology, enough, moves, seed * 7919)
    for attempt in range(1, restarts):
        if best.circuit_bytes <= enough:
            break
        annealed = _anneal(parts, network, placed, trees, one_topology, enough, moves, seed * 7919 + attempt)
        best = min(best, annealed, key=lambda packed: packed.circuit_bytes)
    return best


def _anneal(
    parts: Sequence[PackingJob],
    network: OpticalNetwork,
    placed: Sequence[Sequence[int]],
    trees: Sequence[Sequence[Edge]],
    one_topology: bool,
    enough: float,
    moves: int,
    seed: int,
) -> Packed:
    jobs, pods = len(parts), network.pods
    if not jobs:
        return Packed((), (), 0.0)
    layers = 1 + max(part.layer for part in parts)
    n = np.array(placed, np.int64).ravel()
    ea, eb = np.zeros(jobs * pods, np.int64), np.zeros(jobs * pods, np.int64)
    m = np.array([len(edges) for edges in trees], np.int64)
    for job, edges in enumerate(trees):
        for place, (a, b) in enumerate(edges):
            ea[job * pods + place], eb[job * pods + place] = a, b
    loads = _array(part.load for part in parts)
    state = (0x9E3779B97F4A7C15 * (seed + 1)) % (1 << 63) or 1
    setting = np.array([jobs, pods, layers, network.ports, one_topology, moves, state, 0], np.int64)
    scale = float(loads.max())
    limits = np.array([scale, enough, THRESHOLD, 0.0])
    best = np.zeros(3 * jobs * pods + jobs, np.int64)
    anneal(
        setting,
        limits,
        loads,
        _array(part.alltoall for part in parts),
        _array(part.layer for part in parts),
        _array(part.fixed is None for part in parts),
        np.full(layers * pods, network.pod_gpus, np.int64),
        n,
        ea,
        eb,
        m,
        best,
        np.zeros(layers * pods * pods + layers * pods + 11 * pods + 2, np.int64),
        np.zeros(2 * pods),
    )
    size = jobs * pods
    units = best[:size].reshape(jobs, pods).tolist()
    ends = best[size : 3 * size].reshape(2, jobs, pods).tolist()
    counts = best[3 * size :].tolist()
    joined: tuple[tuple[Edge, ...], ...] = tuple(
        tuple((ends[0][job][e], ends[1][job][e]) for e in range(counts[job])) for job in range(jobs)
    )
    packed = Packed(tuple(map(tuple, units)), joined, float(limits[3]))
    neighbours = (demand(packed, parts, pods) > 0).sum(axis=1)
    possible = int(neighbours.max(initial=0)) <= network.ports
    return packed if possible else Packed(packed.units, joined, float("inf"))


def _array(values: Any) -> Any:
    return np.array([int(value) for value in values], np.int64)


def demand(packed: Packed, parts: Sequence[PackingJob], pods: int, layer: int | None = None) -> Any:
    """Return D of (2), int64 (pods, pods): bytes in each direction of the jobs of a layer (None: of all); symmetric."""
    sent = np.zeros((pods, pods), np.int64)
    for units, edges, part in zip(packed.units, packed.edges, parts, strict=True):
        if layer is not None and part.layer != layer:
            continue
        if part.alltoall:
            row = np.array(units, np.int64)
            own = np.outer(row, row) * part.load
            np.fill_diagonal(own, 0)
            sent += own
        for a, b in edges:
            sent[a, b] += part.load
            sent[b, a] += part.load
    return sent


# Conversion of jobs to parts.


def parts_of(
    jobs: Sequence[TdmJob], given: Sequence[int], network: OpticalNetwork, layers: Sequence[int] | None = None
) -> list[PackingJob]:
    """Convert jobs to parts; the load of an a2a covers both phases."""
    parts = []
    for place, (job, units) in enumerate(zip(jobs, given, strict=True)):
        fixed = None
        if job.hosts:
            counts = [0] * network.pods
            for host in job.hosts:
                counts[network.pod_of(host)] += 1
            fixed = tuple(counts)
        alltoall = job.kind == "a2a"
        load = job.bytes * (2 if alltoall else 1)
        parts.append(PackingJob(load, units, alltoall, 0 if layers is None else layers[place], fixed))
    return parts


# The electrical twin: a leaf-spine with one spine for each OXC port of a ToR, and uplinks as fast as those ports.


def ideal_s(demand: Floats, network: OpticalNetwork) -> float:
    """Return the seconds with evenly sprayed packets: the busiest ToR's bytes, out or in, over R * B."""
    most = max(float(demand.sum(axis=1).max(initial=0.0)), float(demand.sum(axis=0).max(initial=0.0)))
    if not most:
        return 0.0
    return most / (network.ports * network.circuit) if network.ports else float("inf")


def ecmp_s(
    packed: Packed, parts: Sequence[PackingJob], network: OpticalNetwork, *, flows: int, polarized: bool, seed: int
) -> float:
    """Return the seconds with ECMP: every directed edge of a tree is ``flows`` equal flows, each on a random spine.

    In two levels only the ToR chooses a spine. If the switch is in the hash, every flow of every ToR is drawn
    independently. If ``polarized`` (ToRs hash alike, and the flows of a job differ only in their number for the hash),
    a job's k-th flow takes the same spine from every ToR.
    """
    if not network.ports:
        return float("inf") if any(packed.edges) else 0.0
    random = np.random.default_rng(seed)
    up = np.zeros((network.pods, network.ports))
    down = np.zeros((network.pods, network.ports))
    for units, edges, part in zip(packed.units, packed.edges, parts, strict=True):
        pairs = [pair for a, b in edges for pair in ((a, b), (b, a))]
        sizes = [float(part.load)] * len(pairs)
        if part.alltoall:
            used = [pod for pod, count in enumerate(units) if count]
            pairs = [(a, b) for a in used for b in used if a != b]
            sizes = [float(part.load) * units[a] * units[b] for a, b in pairs]
        common = random.integers(0, network.ports, flows)
        for (a, b), size in zip(pairs, sizes, strict=True):
            spines = common if polarized else random.integers(0, network.ports, flows)
            np.add.at(up[a], spines, size / flows)
            np.add.at(down[b], spines, size / flows)
    return float(max(up.max(initial=0.0), down.max(initial=0.0))) / network.circuit
