"""Two jobs on the same GPUs, circuits that never change: `pairs`, `free`, `exclusive`, `cassini`."""

from collections.abc import Callable, Sequence

import networkx as nx
import numpy as np

from p4reduce.control_plane.tdm.assemble import rooted
from p4reduce.control_plane.tdm.cassini import time_shift
from p4reduce.control_plane.tdm.circuits import least_time
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.gpus import share_gpus
from p4reduce.control_plane.tdm.groups import NEVER, nic_bound_s
from p4reduce.control_plane.tdm.hosts import Placement, on_hosts
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.packing import Packed, Part, demand, search
from p4reduce.control_plane.tdm.pairs import Alone, Sharing, best_sharing, gated_period_s, match, play
from p4reduce.control_plane.tdm.registry import Options, register_scheduler
from p4reduce.control_plane.tdm.schedule import Configuration, Cycle, JobPlan, Mode, Process, Route, Schedule, Tree

Couple = tuple[int, ...]
"""one job, or the two that share GPUs; the larger first"""


@register_scheduler("pairs", turns=False)
def pairs(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Schedule:
    """Jobs matched (Blossom) on the same servers; each pair gated, by priority, free or exclusive, what is best."""
    return _schedule("pairs", jobs, network, options, best_sharing)


@register_scheduler("free", turns=False)
def free(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Schedule:
    """Nobody coordinates: rates divide. The same pairs as `pairs`, so that only coordination differs."""
    return _schedule("free", jobs, network, options, lambda a, b: Sharing("free", play(a, b, None)))


@register_scheduler("exclusive", turns=False)
def exclusive(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Schedule:
    """One job of a pair at a time. (With arrivals: first in, first out, with backfilling; see the flow-level model.)"""
    return _schedule("exclusive", jobs, network, options, lambda _a, _b: Sharing("exclusive", (0.5, 0.5)))


@register_scheduler("cassini", turns=False)
def cassini(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Schedule:
    """Time shifts only: the second of a pair begins when both overlap least on the unified circle."""

    def share(a: Alone, b: Alone) -> Sharing:
        return Sharing("free", play(a, b, None, shift_s=time_shift(a, b)))

    return _schedule("cassini", jobs, network, options, share)


def _schedule(
    policy: str,
    jobs: Sequence[TdmJob],
    network: OpticalNetwork,
    options: Options,
    share: Callable[[Alone, Alone], Sharing],
) -> Schedule:
    given = _given(jobs, network)
    alone = [Alone(job.compute_on(units), nic_bound_s(job, network)) for job, units in zip(jobs, given, strict=True)]
    if any(job.hosts for job in jobs):
        raise TdmError(f"policy {policy} places jobs itself, in pairs; leave the names of workers out, or use tdm")
    matched, left = match(alone, given, network.all_gpus)
    couples: list[Couple] = [(a, b) if given[a] >= given[b] else (b, a) for a, b, _ in matched]
    couples += [(j,) for j in left]
    wanted = sum(given[couple[0]] for couple in couples)
    if wanted > network.all_gpus:
        raise TdmError(
            f"{wanted} units for {network.all_gpus} GPUs, with each job on those of a larger one; use equal sizes, "
            "more hosts, or policy tdm"
        )
    parts = [_part(jobs, given, couple) for couple in couples]
    packed = search(parts, network, moves=options.moves, restarts=4, seed=options.seed)
    if packed.circuit_bytes == NEVER:
        raise TdmError(f"circuits: {network.ports} ports are too few for all pairs at once; use more, or policy tdm")
    matrix = least_time(demand(packed, parts, network.pods).astype(np.float64), network.ports).matrix
    leads = [jobs[couple[0]] for couple in couples]
    where = on_hosts(leads, packed.units, network)
    plans: dict[int, JobPlan] = {}
    cycles = []
    for number, couple in enumerate(couples):
        way = share(alone[couple[0]], alone[couple[1]]) if len(couple) == 2 else Sharing("gated", (1.0, 1.0))
        cycles.append(_cycle(jobs, alone, couple, way))
        for place, j in enumerate(couple):
            plans[j] = _plan(jobs, given, alone, couple, place, way, packed, where[number], number, network, policy)
    round_s = max(cycle.period_s for cycle in cycles)
    ordered = tuple(plans[j] for j in range(len(jobs)))
    process = Process((Configuration(matrix, 0.0, round_s),), 0.0, round_s)
    return Schedule(policy, network, ordered, (process,), tuple(cycles), round_s, options.clock, options.guard_s)


def _given(jobs: Sequence[TdmJob], network: OpticalNetwork) -> list[int]:
    """Elastic jobs get their share of what two layers of GPUs have."""
    return share_gpus(jobs, 2 * network.all_gpus) if any(job.elastic for job in jobs) else [job.units for job in jobs]


def _part(jobs: Sequence[TdmJob], given: Sequence[int], couple: Couple) -> Part:
    """A pair takes circuits as its larger demand does."""
    lead = jobs[couple[0]]
    loads = [jobs[j].bytes * (2 if jobs[j].kind == "a2a" else 1) for j in couple]
    alltoall = any(jobs[j].kind == "a2a" for j in couple)
    if alltoall and lead.kind != "a2a":
        loads = loads[1:]
    return Part(max(loads), given[couple[0]], alltoall)


def _cycle(jobs: Sequence[TdmJob], alone: Sequence[Alone], couple: Couple, way: Sharing) -> Cycle:
    names = tuple(jobs[j].name for j in couple)
    own = [alone[j] for j in couple]
    if len(own) == 1:
        return Cycle(names, own[0].period_s, "gated")
    if way.mode == "gated":
        return Cycle(names, gated_period_s(own[0], own[1]), "gated")
    return Cycle(names, own[0].period_s / max(way.relative[0], 1e-9), way.mode)


def _plan(
    jobs: Sequence[TdmJob],
    given: Sequence[int],
    alone: Sequence[Alone],
    couple: Couple,
    place: int,
    way: Sharing,
    packed: Packed,
    where: Placement,
    number: int,
    network: OpticalNetwork,
    policy: str,
) -> JobPlan:
    j = couple[place]
    kept = _first_units(where, packed.edges[number], given[j], network)
    pods = sorted({network.pod_of(host) for host, _ in kept})
    units = [sum(count for host, count in kept if network.pod_of(host) == pod) for pod in range(network.pods)]
    inside = [edge for edge in packed.edges[number] if edge[0] in pods and edge[1] in pods]
    if jobs[j].kind != "a2a" and len(inside) < len(pods) - 1:  # the pair's circuits are an a2a's: any tree will do
        inside = [(pods[0], pod) for pod in pods[1:]]
    root, edges = rooted(inside, units)
    other = alone[couple[1 - place]] if len(couple) == 2 else Alone(0.0, 0.0)
    start, train_start = _times(alone[j], other, place, way.mode if len(couple) == 2 else "gated", policy)
    mode: Mode = way.mode
    return JobPlan(
        jobs[j].name,
        kept,
        cycle=number,
        process=0,
        group=place,
        trees=() if jobs[j].kind == "a2a" else (Tree(root, edges, 1.0),),
        routes=tuple(Route((a, b), 1.0) for a in pods for b in pods if a != b) if jobs[j].kind == "a2a" else (),
        train_start_s=train_start,
        train_s=alone[j].train_s,
        start_s=start,
        duration_s=alone[j].communicate_s,
        priority=(0 if way.first == place else 1) if mode == "priority" else None,
    )


def _times(own: Alone, other: Alone, place: int, mode: Mode, policy: str) -> tuple[float, float]:
    """When a job's window opens and when it trains: the first trains at 0, the second when the first has trained."""
    if mode == "gated":
        return (own.train_s, 0.0) if place == 0 else (max(own.train_s + other.train_s, other.period_s), other.train_s)
    shift = time_shift(other, own) if policy == "cassini" and place == 1 else 0.0
    return shift + own.train_s, shift


def _first_units(where: Placement, edges: Sequence[tuple[int, int]], units: int, network: OpticalNetwork) -> Placement:
    """So many units of a placement that their pods hang together in its tree."""
    pods = sorted({network.pod_of(host) for host, _ in where})
    if edges:
        graph: nx.Graph[int] = nx.Graph(list(edges))
        start = max(pods, key=lambda pod: (sum(n for host, n in where if network.pod_of(host) == pod), -pod))
        pods = [start, *(child for _, child in nx.bfs_edges(graph, start))]
    kept: list[tuple[str, int]] = []
    for pod in pods:
        for host, count in where:
            if network.pod_of(host) == pod and units:
                took = min(count, units)
                kept.append((host, took))
                units -= took
    return tuple(sorted(kept, key=lambda item: int(item[0][1:])))
