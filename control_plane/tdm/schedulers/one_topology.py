"""Circuits that never change: `no-tdm`, `static`, and the electrical `eps-ideal` and `eps-ecmp`."""

from collections.abc import Sequence

import numpy as np

from p4reduce.control_plane.tdm.assemble import Carried, carry_trees, configurations, dark_matrix, placements
from p4reduce.control_plane.tdm.circuits import least_time
from p4reduce.control_plane.tdm.electrical import ecmp_s, ideal_s
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.grouping import Partition, process_times
from p4reduce.control_plane.tdm.groups import NEVER, GroupPlan, TreeGroups
from p4reduce.control_plane.tdm.hosts import busiest_nic_s
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.packing import Packed, demand, search
from p4reduce.control_plane.tdm.parts import parts_of
from p4reduce.control_plane.tdm.registry import Options, register_scheduler
from p4reduce.control_plane.tdm.schedule import Configuration, Cycle, JobPlan, Process, Schedule
from p4reduce.control_plane.tdm.schedulers.switched import best_partition
from p4reduce.control_plane.tdm.together import plan_together


@register_scheduler("no-tdm")
def no_tdm(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Schedule:
    """All train, then all communicate, with the same packing, trees and pipelining as `tdm`."""
    found = plan_together(jobs, network, options)
    numbers = range(len(jobs))
    carried = carry_trees(jobs, numbers, found.packed, network, returns=True)
    round_s = found.training_s + found.communication_s
    plans = tuple(
        JobPlan(
            jobs[j].name,
            found.placements[j],
            cycle=0,
            process=0,
            group=found.layers[j],
            trees=carried.trees.get(j, ()),
            routes=carried.routes.get(j, ()),
            train_s=jobs[j].compute_on(found.given[j]),
            start_s=found.training_s,
            duration_s=found.communication_s,
        )
        for j in numbers
    )
    if len(carried.matrices) > 1:  # one configuration after the other once all have trained
        lit = configurations(carried, found.training_s, found.communication_s, network)
        lit = (Configuration(lit[0].circuits, 0.0, lit[0].start_s + lit[0].duration_s), *lit[1:])
    else:
        lit = configurations(carried, 0.0, round_s, network)
    cycle = Cycle(tuple(job.name for job in jobs), round_s, "gated")
    return Schedule(
        "no-tdm", network, plans, (Process(lit, 0.0, round_s),), (cycle,), round_s, options.clock, options.guard_s
    )


@register_scheduler("static")
def static(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Schedule:
    """Two groups take turns on circuits that serve both; nothing goes dark."""
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
def eps_ideal(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Schedule:
    """`tdm` in a leaf-spine with R spines and uplinks of B that spray packets: no circuits, nothing dark."""
    return _electrical("eps-ideal", jobs, network, options)


@register_scheduler("eps-ecmp", turns=False)
def eps_ecmp(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Schedule:
    """The same leaf-spine with ECMP: ``options.flows`` flows on each edge of a tree, each hashed to a spine."""
    return _electrical("eps-ecmp", jobs, network, options)


def _electrical(policy: str, jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Schedule:
    found = best_partition(jobs, network, options)
    groups = []
    for group in found.groups:
        if group.packed is None:
            groups.append(group)
            continue
        parts = parts_of([jobs[j] for j in group.jobs], group.given, network)
        nic_s = TreeGroups(jobs, network).bound(group.jobs)[0]
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
    options: Options,
    groups: Sequence[GroupPlan],
    matrix: tuple[tuple[int, ...], ...],
) -> Schedule:
    """Groups one after the other on the same circuits."""
    both = [*groups, GroupPlan((), (), (), 0.0)][:2]
    times = process_times(Partition((both[0], both[1]), 0.0), 0.0, options.reading)
    plans: dict[int, JobPlan] = {}
    processes = []
    for number, group in enumerate(both):
        start = 0.0 if number == 0 else times[0]
        if group.packed is None:
            continue
        carried: Carried = carry_trees(jobs, group.jobs, group.packed, network)
        where = placements(jobs, group, network, other_way=number == 1)
        processes.append(Process((Configuration(matrix, start, times[number]),), start, times[number]))
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
