"""Policies whose circuits never change: `no-tdm`, `static`, pairs, layers, and electrical `eps-ideal`, `eps-ecmp`."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise, permutations

import numpy as np

from p4reduce.control_plane.tdm.circuits import Floats, least_time
from p4reduce.control_plane.tdm.grouping import Partition, RoundTimes, process_times, search_partition
from p4reduce.control_plane.tdm.groups import (
    NEVER,
    CarriedJobs,
    Group,
    GroupPlan,
    TreeGroups,
    carry_trees,
    configurations,
    cross,
    dark_matrix,
    nic_bound_s,
    placements,
    rooted,
)
from p4reduce.control_plane.tdm.jobs import (
    LEAST,
    OpticalNetwork,
    Placement,
    TdmError,
    TdmJob,
    busiest_gpu_s,
    busiest_nic_s,
    host_bytes,
    on_hosts,
    share_gpus,
)
from p4reduce.control_plane.tdm.packing import Packed, PackingJob, demand, ecmp_s, ideal_s, parts_of, search
from p4reduce.control_plane.tdm.pairs import (
    Component,
    Sharing,
    TimesAlone,
    best_sharing,
    gated_period_s,
    halves,
    in_layers,
    match,
    play,
    time_shift,
    turns_period_s,
)
from p4reduce.control_plane.tdm.registry import TurnOptions, register_scheduler
from p4reduce.control_plane.tdm.schedule import (
    Configuration,
    Cycle,
    JobPlan,
    Matrix,
    Mode,
    PodRoute,
    PodTree,
    RoundProcess,
    Schedule,
)
from p4reduce.control_plane.tdm.switched import best_partition

# All jobs on one topology that never changes: plans of policies without switching.


@dataclass(frozen=True)
class Together:
    """Jobs in one layer of GPUs, or in two layers that share the GPUs."""

    given: tuple[int, ...]
    layers: tuple[int, ...]
    """layer of each job"""
    packed: Packed
    placements: tuple[Placement, ...]
    training_s: float
    """seconds until all have trained on shared GPUs"""
    communication_s: float
    """seconds of all jobs' communication at once"""


def plan_together(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Together:
    """Plan all jobs at once, with the packing, trees and pipelining of switching; take the best of several layerings.

    Raises
    ------
    TdmError
        When jobs do not fit two layers, or no circuits suffice.
    """
    best: Together | None = None
    for layers, given in _layerings(jobs, network, options):
        together = _lay(jobs, network, options, layers, given)
        if best is None or _total(together) < _total(best):
            best = together
    if best is None or _total(best) == NEVER:
        raise TdmError(
            f"circuits: no placement was found in which {network.ports} ports of a ToR are enough; use more ports"
        )
    return best


def two_layers(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Group:
    """Return the first of two groups that both fit the GPUs: the groups that would take turns with switching."""
    planner = TreeGroups(jobs, network, moves=min(options.moves, 2000), seed=options.seed)
    rounds = RoundTimes(jobs, planner, network.delta_s)
    return search_partition(rounds, restarts=options.restarts, seed=options.seed).groups[0].jobs


def _layerings(
    jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    try:
        given = tuple(share_gpus(jobs, network.all_gpus))
    except TdmError:
        first = two_layers(jobs, network, options)
        layers = tuple(0 if j in first else 1 for j in range(len(jobs)))
        per_job = [0] * len(jobs)
        for layer in (0, 1):
            own = [j for j in range(len(jobs)) if layers[j] == layer]
            for j, units in zip(own, share_gpus([jobs[j] for j in own], network.all_gpus), strict=True):
                per_job[j] = units
        return [(layers, tuple(per_job))]
    shares = [given]
    if any(job.elastic for job in jobs):
        for share in (0.75, 0.5):
            try:
                shares.append(tuple(share_gpus(jobs, int(network.all_gpus * share))))
            except TdmError:
                continue
        if all(job.elastic for job in jobs) and len(jobs) <= network.pods:
            whole = [network.pod_gpus] * len(jobs)
            for _ in range(network.pods - len(jobs)):
                whole[max(range(len(jobs)), key=lambda j: jobs[j].work / whole[j])] += network.pod_gpus
            shares.append(tuple(whole))
    return [((0,) * len(jobs), division) for division in shares]


def _lay(
    jobs: Sequence[TdmJob],
    network: OpticalNetwork,
    options: TurnOptions,
    layers: tuple[int, ...],
    given: tuple[int, ...],
) -> Together:
    parts = parts_of(jobs, given, network, layers)
    packed = search(parts, network, moves=options.moves, restarts=3, seed=options.seed)
    placements: list[Placement] = [()] * len(jobs)
    for layer in sorted(set(layers)):
        own = [j for j in range(len(jobs)) if layers[j] == layer]
        on = on_hosts([jobs[j] for j in own], [packed.units[j] for j in own], network, longest_last=layer == 1)
        for j, placement in zip(own, on, strict=True):
            placements[j] = placement
    circuits_s = packed.circuit_bytes / network.circuit
    if circuits_s == NEVER and network.ports and any(part.alltoall for part in parts):
        with suppress(TdmError):
            circuits_s = cross(parts, packed, network, placements, returns=True).seconds
    return Together(
        given,
        layers,
        packed,
        tuple(placements),
        busiest_gpu_s(jobs, placements, network),
        max(circuits_s, busiest_nic_s(jobs, placements, network)),
    )


def _total(together: Together) -> float:
    return together.training_s + together.communication_s


@register_scheduler("no-tdm")
def no_tdm(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Schedule:
    """Let all jobs train, then all communicate, with the same packing, trees and pipelining as `tdm`."""
    together = plan_together(jobs, network, options)
    numbers = range(len(jobs))
    carried = carry_trees(jobs, numbers, together.packed, network, together.placements, returns=True)
    round_s = together.training_s + together.communication_s
    plans = tuple(
        JobPlan(
            jobs[j].name,
            together.placements[j],
            cycle=0,
            process=0,
            group=together.layers[j],
            trees=carried.trees.get(j, ()),
            routes=carried.routes.get(j, ()),
            train_s=jobs[j].compute_on(together.given[j]),
            start_s=together.training_s,
            duration_s=together.communication_s,
        )
        for j in numbers
    )
    if len(carried.matrices) > 1:  # one configuration after the other once all have trained
        lit = configurations(carried, together.training_s, together.communication_s, network)
        lit = (Configuration(lit[0].circuits, 0.0, lit[0].start_s + lit[0].duration_s), *lit[1:])
    else:
        lit = configurations(carried, 0.0, round_s, network)
    cycle = Cycle(tuple(job.name for job in jobs), round_s, "gated")
    return Schedule(
        "no-tdm", network, plans, (RoundProcess(lit, 0.0, round_s),), (cycle,), round_s, options.clock, options.guard_s
    )


@register_scheduler("static")
def static(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Schedule:
    """Let two groups take turns on circuits that serve both; nothing goes dark."""
    groups = [group for group in best_partition(jobs, network, options).groups if group.jobs]
    order = [j for group in groups for j in group.jobs]
    given = [units for group in groups for units in group.given]
    layers = [layer for layer, group in enumerate(groups) for _ in group.jobs]
    own = [jobs[j] for j in order]
    parts = parts_of(own, given, network, layers)
    packed = search(parts, network, one_topology=True, moves=max(1, options.moves) * 4, restarts=4, seed=options.seed)
    if packed.circuit_bytes == NEVER:
        raise TdmError("circuits: one topology has too few ports for both groups; use more ports, or policy tdm")
    wanted = [demand(packed, parts, network.pods, layer).astype(np.float64) for layer in range(len(groups))]
    matrix = least_time(np.maximum.reduce(wanted), network.ports).matrix
    lit = np.array(matrix, np.float64)
    planned: list[GroupPlan] = []
    for layer, group in enumerate(groups):
        chosen = [place for place, other in enumerate(layers) if other == layer]
        part = Packed(tuple(packed.units[x] for x in chosen), tuple(packed.edges[x] for x in chosen), 0.0)
        used = wanted[layer] > 0
        circuits_s = float((wanted[layer][used] / lit[used]).max(initial=0.0)) / network.circuit
        where = placements(jobs, GroupPlan(group.jobs, group.given, (), 0.0, part.units), network)
        nic_s = busiest_nic_s([jobs[j] for j in group.jobs], [where[j] for j in group.jobs], network)
        planned.append(
            GroupPlan(group.jobs, group.given, (max(nic_s, circuits_s),), group.training_s, part.units, part)
        )
    return _taking_turns("static", jobs, network, options, planned, matrix)


@register_scheduler("eps-ideal", turns=False)
def eps_ideal(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Schedule:
    """Carry out `tdm` in a leaf-spine with R spines and uplinks of B that spray packets: no circuits, nothing dark."""
    return _electrical("eps-ideal", jobs, network, options)


@register_scheduler("eps-ecmp", turns=False)
def eps_ecmp(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Schedule:
    """Carry out `tdm` in that leaf-spine with ECMP: a tree edge is ``options.flows`` flows, each hashed to a spine."""
    return _electrical("eps-ecmp", jobs, network, options)


def _electrical(policy: str, jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Schedule:
    partition = best_partition(jobs, network, options)
    groups = []
    for group in partition.groups:
        if group.packed is None:
            groups.append(group)
            continue
        parts = parts_of([jobs[j] for j in group.jobs], group.given, network)
        where = placements(jobs, group, network)
        nic_s = busiest_nic_s([jobs[j] for j in group.jobs], [where[j] for j in group.jobs], network)
        if policy == "eps-ideal":
            fabric_s = ideal_s(demand(group.packed, parts, network.pods).astype(np.float64), network)
        else:
            fabric_s = ecmp_s(
                group.packed, parts, network, flows=options.flows, polarized=options.polarized, seed=options.seed
            )
        groups.append(
            GroupPlan(group.jobs, group.given, (max(nic_s, fabric_s),), group.training_s, group.units, group.packed)
        )
    return _taking_turns(policy, jobs, network, options, groups, dark_matrix(network.pods))


def _taking_turns(
    policy: str,
    jobs: Sequence[TdmJob],
    network: OpticalNetwork,
    options: TurnOptions,
    groups: Sequence[GroupPlan],
    matrix: tuple[tuple[int, ...], ...],
) -> Schedule:
    """Return a schedule of groups one after the other on the same circuits."""
    both = [*groups, GroupPlan((), (), (), 0.0)][:2]
    times = process_times(Partition((both[0], both[1]), 0.0), 0.0, options.reading)
    plans: dict[int, JobPlan] = {}
    processes = []
    for number, group in enumerate(both):
        start = 0.0 if number == 0 else times[0]
        if group.packed is None:
            continue
        where = placements(jobs, group, network, other_way=number == 1)
        carried: CarriedJobs = carry_trees(jobs, group.jobs, group.packed, network, [where[j] for j in group.jobs])
        processes.append(RoundProcess((Configuration(matrix, start, times[number]),), start, times[number]))
        for j, given in zip(group.jobs, group.given, strict=True):
            plans[j] = JobPlan(
                jobs[j].name,
                where[j],
                cycle=0,
                process=len(processes) - 1,
                group=number,
                trees=carried.trees.get(j, ()),
                routes=carried.routes.get(j, ()),
                train_start_s=0.0 if number else times[0],
                train_s=jobs[j].compute_on(given),
                start_s=start,
                duration_s=group.communication_s,
            )
    cycle = Cycle(tuple(job.name for job in jobs), sum(times), "gated")
    ordered = tuple(plans[j] for j in range(len(jobs)))
    return Schedule(policy, network, ordered, tuple(processes), (cycle,), sum(times), options.clock, options.guard_s)


# Two jobs on the same GPUs, circuits that never change: `pairs`, `free`, `exclusive`, `cassini`.


Couple = tuple[int, ...]
"""one job, or the two that share GPUs; the larger first"""


@register_scheduler("pairs", turns=False)
def pairs(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Schedule:
    """Match jobs (Blossom) on the same servers; each pair has its best mode: gated, by priority, free or exclusive."""
    return _schedule("pairs", jobs, network, options, best_sharing)


@register_scheduler("free", turns=False)
def free(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Schedule:
    """Let jobs share rates without coordination; the pairs are those of `pairs`, so that only coordination differs."""
    return _schedule("free", jobs, network, options, lambda a, b: Sharing("free", play(a, b, None)))


@register_scheduler("exclusive", turns=False)
def exclusive(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Schedule:
    """Run one job of a pair at a time. (With arrivals: first in, first out, backfilling; see the flow-level model.)"""
    return _schedule("exclusive", jobs, network, options, lambda _a, _b: Sharing("exclusive", (0.5, 0.5)))


@register_scheduler("cassini", turns=False)
def cassini(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Schedule:
    """Shift times only: the second job of a pair begins when both overlap least on the unified circle."""

    def share(a: TimesAlone, b: TimesAlone) -> Sharing:
        return Sharing("free", play(a, b, None, shift_s=time_shift(a, b)))

    return _schedule("cassini", jobs, network, options, share)


def _schedule(
    policy: str,
    jobs: Sequence[TdmJob],
    network: OpticalNetwork,
    options: TurnOptions,
    share: Callable[[TimesAlone, TimesAlone], Sharing],
) -> Schedule:
    given = _given(jobs, network)
    alone = [
        TimesAlone(job.compute_on(units), nic_bound_s(job, network)) for job, units in zip(jobs, given, strict=True)
    ]
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
    alone = _over_circuits(jobs, given, alone, couples, packed, matrix, network)
    for number, couple in enumerate(couples):
        way = share(alone[couple[0]], alone[couple[1]]) if len(couple) == 2 else Sharing("gated", (1.0, 1.0))
        cycles.append(_cycle(jobs, alone, couple, way))
        for place, j in enumerate(couple):
            plans[j] = _plan(jobs, given, alone, couple, place, way, packed, where[number], number, network, policy)
    round_s = max(cycle.period_s for cycle in cycles)
    ordered = tuple(plans[j] for j in range(len(jobs)))
    process = RoundProcess((Configuration(matrix, 0.0, round_s),), 0.0, round_s)
    return Schedule(policy, network, ordered, (process,), tuple(cycles), round_s, options.clock, options.guard_s)


def _over_circuits(
    jobs: Sequence[TdmJob],
    given: Sequence[int],
    alone: Sequence[TimesAlone],
    couples: Sequence[Couple],
    packed: Packed,
    matrix: Matrix,
    network: OpticalNetwork,
) -> list[TimesAlone]:
    """Return the times of jobs on the given circuits; other pairs' traffic is assumed to come at the same time."""
    lit = np.array(matrix, np.float64)
    parts = [_part(jobs, given, couple) for couple in couples]
    loads = [
        demand(Packed((units,), (edges,), 0.0), [part], network.pods).astype(np.float64)
        for units, edges, part in zip(packed.units, packed.edges, parts, strict=True)
    ]
    total: Floats = np.sum(loads, axis=0)
    times = list(alone)
    for couple, part, load in zip(couples, parts, loads, strict=True):
        used = load > 0
        for j in couple:
            own = 1.0
            if (jobs[j].kind == "a2a") == part.alltoall:
                own = min(1.0, jobs[j].bytes * (2 if part.alltoall else 1) / part.load)
            carried = total[used] - load[used] * (1.0 - own)
            circuits_s = float((carried / lit[used]).max(initial=0.0)) / network.circuit
            times[j] = TimesAlone(alone[j].train_s, max(alone[j].communicate_s, circuits_s))
    return times


def _given(jobs: Sequence[TdmJob], network: OpticalNetwork) -> list[int]:
    """Return the units of each job; elastic jobs share the GPUs of two layers."""
    return share_gpus(jobs, 2 * network.all_gpus) if any(job.elastic for job in jobs) else [job.units for job in jobs]


def _part(jobs: Sequence[TdmJob], given: Sequence[int], couple: Couple) -> PackingJob:
    """Return the demand of a pair, which needs circuits for its larger job."""
    lead = jobs[couple[0]]
    loads = [jobs[j].bytes * (2 if jobs[j].kind == "a2a" else 1) for j in couple]
    alltoall = any(jobs[j].kind == "a2a" for j in couple)
    if alltoall and lead.kind != "a2a":
        loads = loads[1:]
    return PackingJob(max(loads), given[couple[0]], alltoall)


def _cycle(jobs: Sequence[TdmJob], alone: Sequence[TimesAlone], couple: Couple, way: Sharing) -> Cycle:
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
    alone: Sequence[TimesAlone],
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
    if jobs[j].kind != "a2a" and len(inside) < len(pods) - 1:  # the pair's circuits serve an a2a: any tree will do
        inside = [(pods[0], pod) for pod in pods[1:]]
    root, edges = rooted(inside, units)
    other = alone[couple[1 - place]] if len(couple) == 2 else TimesAlone(0.0, 0.0)
    start, train_start = _times(alone[j], other, place, way.mode if len(couple) == 2 else "gated", policy)
    mode: Mode = way.mode
    return JobPlan(
        jobs[j].name,
        kept,
        cycle=number,
        process=0,
        group=place,
        trees=() if jobs[j].kind == "a2a" else (PodTree(root, edges, 1.0),),
        routes=tuple(PodRoute((a, b), 1.0) for a in pods for b in pods if a != b) if jobs[j].kind == "a2a" else (),
        train_start_s=train_start,
        train_s=alone[j].train_s,
        start_s=start,
        duration_s=alone[j].communicate_s,
        priority=(0 if way.first == place else 1) if mode == "priority" else None,
    )


def _times(own: TimesAlone, other: TimesAlone, place: int, mode: Mode, policy: str) -> tuple[float, float]:
    """Return when a job's window opens and its training starts: the first trains at 0, the second after the first."""
    if mode == "gated":
        return (own.train_s, 0.0) if place == 0 else (max(own.train_s + other.train_s, other.period_s), other.train_s)
    shift = time_shift(other, own) if policy == "cassini" and place == 1 else 0.0
    return shift + own.train_s, shift


def _first_units(where: Placement, edges: Sequence[tuple[int, int]], units: int, network: OpticalNetwork) -> Placement:
    """Return ``units`` units of a placement, in pods that are connected in its tree."""
    pods = sorted({network.pod_of(host) for host, _ in where})
    if edges:
        import networkx as nx  # noqa: PLC0415  (slow to import)

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


# Two layers of jobs over the line of GPUs, circuits from pod to pod along it that never change: `layers`.


@register_scheduler("layers", turns=False)
def layers(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Schedule:
    """Let jobs that overlap in two layers over the line of GPUs take turns; refuse none that fit two layers."""
    given = _given(jobs, network)
    if any(job.hosts for job in jobs):
        raise TdmError("policy layers places jobs itself; leave the names of workers out, or use striped")
    if any(job.elastic for job in jobs):  # as many GPUs as two layers can take
        least = sum(LEAST if job.elastic else job.units for job in jobs)
        totals = range(2 * network.all_gpus, least - 1, -1)
        shares = (share_gpus(jobs, total) for total in totals)
        given = next((own for own in shares if halves(own, network.all_gpus) is not None), given)
    alone = [
        TimesAlone(job.compute_on(units), nic_bound_s(job, network)) for job, units in zip(jobs, given, strict=True)
    ]
    components = in_layers(alone, given, network.all_gpus, seed=options.seed)
    if components is None:
        raise TdmError("the jobs do not fit two layers of GPUs; use fewer workers, or more hosts")
    line = _Line(jobs, given, components, network)
    plans: dict[int, JobPlan] = {}
    cycles = []
    for number, component in enumerate(components):
        cycle, own = line.cycle(component, number)
        cycles.append(cycle)
        plans |= own
    round_s = max(cycle.period_s for cycle in cycles)
    process = RoundProcess((Configuration(line.matrix, 0.0, round_s),), 0.0, round_s)
    ordered = tuple(plans[j] for j in range(len(jobs)))
    return Schedule("layers", network, ordered, (process,), tuple(cycles), round_s, options.clock, options.guard_s)


class _Line:
    """Components one after the other on the GPUs of all pods; in each layer at most one job crosses from pod to pod."""

    def __init__(
        self, jobs: Sequence[TdmJob], given: Sequence[int], components: Sequence[Component], network: OpticalNetwork
    ) -> None:
        self.jobs, self.given, self.network = jobs, given, network
        self.where: dict[int, Placement] = {}
        self.units: dict[int, tuple[int, ...]] = {}
        self._nic: list[Counter[str]] = [Counter(), Counter()]
        crossing = np.zeros((2, network.pods, network.pods))
        at = 0
        for component in self._in_order(components):
            for layer, own in enumerate(component.layers):
                for j, begins in zip(*self._laid(own, at), strict=True):
                    self._place(j, begins, layer)
                    crossing[layer] = np.maximum(crossing[layer], self._load(j))
            at += self._width(component)
        try:
            self.matrix = least_time(np.maximum(crossing[0], crossing[1]), network.ports).matrix
        except TdmError:
            raise TdmError(
                f"circuits: policy layers joins a pod to the next on both sides, and pods have {network.ports} ports; "
                "use more, or policy striped"
            ) from None

    def cycle(self, component: Component, number: int) -> tuple[Cycle, dict[int, JobPlan]]:
        """Return the cycle of a component on its circuits, and the plans of its jobs."""
        alone = {j: self._alone(j, layer) for layer, own in enumerate(component.layers) for j in own}
        names = tuple(self.jobs[j].name for j in component.jobs)
        way = None
        if len(component.layers[0]) == len(component.layers[1]) == 1:
            way = best_sharing(alone[component.jobs[0]], alone[component.jobs[1]])
        first, second = ([alone[j] for j in own] for own in component.layers)
        plans = {}
        if way is not None and way.mode != "gated":
            cycle = Cycle(names, first[0].period_s / max(way.relative[0], 1e-9), way.mode)
            for place, j in enumerate(component.jobs):
                priority = (0 if way.first == place else 1) if way.mode == "priority" else None
                plans[j] = self._plan(j, number, place, alone[j], (0.0, alone[j].train_s), priority)
            return cycle, plans
        cycle = Cycle(names, turns_period_s(first, second), "gated")
        turn = max([job.communicate_s for job in first] + [job.train_s for job in second], default=0.0)
        for layer, own in enumerate(component.layers):
            for j in own:
                times = (0.0, turn) if layer else (turn, 0.0)
                if not first or not second:  # no jobs to take turns with
                    times = (0.0, max(job.train_s for job in (*first, *second)))
                plans[j] = self._plan(j, number, layer, alone[j], times, None)
        return cycle, plans

    def _plan(
        self, j: int, cycle: int, group: int, alone: TimesAlone, times: tuple[float, float], priority: int | None
    ) -> JobPlan:
        job, units = self.jobs[j], self.units[j]
        used = [pod for pod, count in enumerate(units) if count]
        root, edges = rooted(list(pairwise(used)), units)
        routes = tuple(
            PodRoute(tuple(range(a, b + 1)) if a < b else tuple(range(a, b - 1, -1)), 1.0)
            for a in used
            for b in used
            if a != b
        )
        return JobPlan(
            job.name,
            self.where[j],
            cycle=cycle,
            process=0,
            group=group,
            trees=() if job.kind == "a2a" else (PodTree(root, edges, 1.0),),
            routes=routes if job.kind == "a2a" else (),
            train_start_s=times[0],
            train_s=alone.train_s,
            start_s=times[1],
            duration_s=alone.communicate_s,
            priority=priority,
        )

    def _width(self, component: Component) -> int:
        return max(sum(self.given[j] for j in own) for own in component.layers)

    def _in_order(self, components: Sequence[Component]) -> list[Component]:
        """Return an order in which few components cross pods: next one that fits a pod's rest, else the widest."""
        left = sorted(components, key=lambda component: -self._width(component))
        order: list[Component] = []
        at = 0
        while left:
            room = self.network.pod_gpus - at % self.network.pod_gpus
            component = next((candidate for candidate in left if self._width(candidate) <= room), left[0])
            left.remove(component)
            order.append(component)
            at += self._width(component)
        return order

    def _laid(self, own: Sequence[int], at: int) -> tuple[list[int], list[int]]:
        """Return the jobs of a layer in the order in which the fewest bytes cross, and the GPUs at which they begin."""
        orders = [sorted(own, key=lambda j: -self.given[j]), sorted(own, key=lambda j: self.given[j])]
        if len(own) <= 5:
            orders = [list(order) for order in permutations(own)]
        ways = []
        for order in orders:
            begins = [at + sum(self.given[j] for j in order[:place]) for place in range(len(order))]
            ends = [
                (begin // self.network.pod_gpus, (begin + self.given[j] - 1) // self.network.pod_gpus)
                for j, begin in zip(order, begins, strict=True)
            ]
            cost = sum((last - first) * self.jobs[j].bytes for j, (first, last) in zip(order, ends, strict=True))
            ways.append((cost, order, begins))
        return min(ways, key=lambda way: way[0])[1:]

    def _place(self, j: int, begins: int, layer: int) -> None:
        network = self.network
        hosts: Counter[str] = Counter()
        units = [0] * network.pods
        for gpu in range(begins, begins + self.given[j]):
            pod, place = divmod(gpu, network.pod_gpus)
            hosts[network.host(pod, place // network.gpus)] += 1
            units[pod] += 1
        self.where[j] = tuple(sorted(hosts.items(), key=lambda item: int(item[0][1:])))
        self.units[j] = tuple(units)
        self._nic[layer].update(host_bytes(self.jobs[j], self.where[j]))

    def _load(self, j: int) -> Floats:
        """Return the bytes in each direction from pod to pod."""
        job, units = self.jobs[j], self.units[j]
        load = np.zeros((self.network.pods, self.network.pods))
        for pod in range(self.network.pods - 1):
            here, there = sum(units[: pod + 1]), sum(units[pod + 1 :])
            if here and there:
                sent = float(job.bytes) * (2 * here * there if job.kind == "a2a" else 1)
                load[pod, pod + 1] = load[pod + 1, pod] = sent
        return load

    def _alone(self, j: int, layer: int) -> TimesAlone:
        load, lit = self._load(j), np.array(self.matrix, np.float64)
        used = load > 0
        times = [self._nic[layer][host] / self.network.nic for host, _ in self.where[j]]
        times.append(float((load[used] / lit[used]).max(initial=0.0)) / self.network.circuit)
        return TimesAlone(self.jobs[j].compute_on(self.given[j]), max(times))
