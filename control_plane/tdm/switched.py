"""Two groups that take turns, each with its own circuits: the source's (`seed`), ours (`striped`, `tdm`), `random`."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations, permutations
from typing import Any, Final

import numpy as np

from p4reduce.control_plane.tdm.circuits import Reading
from p4reduce.control_plane.tdm.grouping import (
    Partition,
    RoundTimes,
    all_partitions,
    best_by_bounds,
    hill_climbing,
    neighbours,
    process_times,
    random_split,
    search_partition,
)
from p4reduce.control_plane.tdm.groups import (
    NEVER,
    CarriedJobs,
    GroupPlan,
    Ready,
    SeedGroups,
    Striped,
    TreeGroups,
    carry,
    configurations,
    ends_s,
    keep_lit,
    placements,
    ready,
)
from p4reduce.control_plane.tdm.jobs import (
    OpticalNetwork,
    Placement,
    TdmError,
    TdmJob,
    busiest_nic_s,
    on_hosts,
    release_gpus,
)
from p4reduce.control_plane.tdm.packing import Edge, Packed, pack, parts_of, paths
from p4reduce.control_plane.tdm.registry import TurnOptions, register_scheduler
from p4reduce.control_plane.tdm.schedule import Cycle, JobPlan, Matrix, RoundProcess, Schedule
from p4reduce.control_plane.tdm.stripes import LARGE, MOST_NAMED, StripedGroups, all_circuits, lay_stripes


@register_scheduler("seed")
def seed(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Schedule:
    """Return the source's schedule: Algorithms 1 to 3, then release GPUs of waiting groups (g_j <- ceil(g_j W / T))."""
    planner = SeedGroups(jobs, network, direct=options.best)
    rounds = RoundTimes(jobs, planner, network.delta_s, options.reading)
    partition = search_partition(rounds, seed=options.seed) if options.best else hill_climbing(rounds)
    best = _released(partition, planner, network, options)
    return two_groups("seed", jobs, network, options, best)


@register_scheduler("tdm")
def tdm(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Schedule:
    """Return our schedule: few pods, trees of ToRs, pipelined chunks, flips and swaps, several starts, local search."""
    return two_groups("tdm", jobs, network, options, best_partition(jobs, network, options))


@register_scheduler("random")
def random(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Schedule:
    """Draw random groups, placed as by `tdm`, to show the value of choosing groups."""
    rounds = RoundTimes(jobs, _trees(jobs, network, options), network.delta_s, options.reading)
    for attempt in range(100):
        drawn = random_split(jobs, network.all_gpus, options.seed * 1000 + attempt)
        partition = None if drawn is None else rounds.of(drawn)
        if partition is not None:
            return two_groups("random", jobs, network, options, partition)
    raise TdmError("no random partition fits the GPUs; use fewer workers, or more hosts")


def best_partition(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Partition:
    """Return the two groups that `tdm` chooses."""
    return _best_partition(tuple(jobs), network, replace(options, progress=None))


@lru_cache(maxsize=4)  # several policies begin with it
def _best_partition(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Partition:
    rounds = RoundTimes(jobs, _trees(jobs, network, options), network.delta_s, options.reading)
    return search_partition(rounds, restarts=options.restarts, seed=options.seed)


def two_groups(
    policy: str, jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions, partition: Partition
) -> Schedule:
    """Return a schedule of two processes, or of one if a group is empty."""
    laid = lay_groups(jobs, partition, network)
    times = times_of(partition, laid, network, options.reading)
    starts = (0.0, times[0])
    alone = not all(group.jobs for group in partition.groups)
    plans: list[JobPlan] = []
    processes: list[RoundProcess] = []
    for number, group in enumerate(partition.groups):
        if not group.jobs:
            continue
        start = 0.0 if alone else starts[number]
        lasts = sum(times) if alone else times[number]
        carried, where, ready_of = laid[number]
        process = RoundProcess(configurations(carried, start, lasts, network), start, lasts)
        for j, given in zip(group.jobs, group.given, strict=True):
            trained = jobs[j].compute_on(given)
            plans.append(
                JobPlan(
                    jobs[j].name,
                    where[j],
                    cycle=0,
                    process=len(processes),
                    group=number,
                    trees=carried.trees.get(j, ()),
                    ring=carried.rings.get(j),
                    routes=carried.routes.get(j, ()),
                    train_start_s=0.0 if alone else starts[1 - number],
                    train_s=trained,
                    start_s=start + (group.training_s if alone else ready_of[j].dark_s),
                    duration_s=ready_of[j].communicates_s,
                    dark_s=ready_of[j].dark_s,
                )
            )
        processes.append(process)
    order = {job.name: place for place, job in enumerate(jobs)}
    plans.sort(key=lambda plan: order[plan.job])
    cycle = Cycle(tuple(job.name for job in jobs), sum(times), "gated")
    return Schedule(
        policy, network, tuple(plans), tuple(processes), (cycle,), sum(times), options.clock, options.guard_s
    )


Laid = tuple[CarriedJobs, dict[int, Placement], dict[int, Ready]]
"""of a group: its crossing, the placement of its jobs, and their times"""


def lay_groups(jobs: Sequence[TdmJob], partition: Partition, network: OpticalNetwork) -> list[Laid]:
    """Return circuits, hosts and times of two groups; spare ports keep circuits of the other group."""
    carried = [carry(jobs, group, network) for group in partition.groups]
    both = all(group.jobs for group in partition.groups)
    if both and all(len(crossing.matrices) == 1 for crossing in carried):
        kept = keep_lit(carried[0].matrices[0], carried[1].matrices[0], network.ports)
        carried = [replace(crossing, matrices=(matrix,)) for crossing, matrix in zip(carried, kept, strict=True)]
    laid = []
    for number, (group, own) in enumerate(zip(partition.groups, carried, strict=True)):
        where = placements(jobs, group, network, other_way=number == 1)
        before = carried[1 - number].matrices[-1] if both else None
        laid.append((own, where, ready(jobs, group, own, where, before, network)))
    return laid


def times_of(
    partition: Partition, laid: Sequence[Laid], network: OpticalNetwork, reading: Reading
) -> tuple[float, float]:
    """Return T_1 and T_2 in seconds, with dark time only for jobs whose circuits change."""
    if reading == "literal":
        return process_times(partition, network.delta_s, reading)
    first, other = partition.groups
    return (
        ends_s(laid[0][2], other.training_s, reading),
        ends_s(laid[1][2], first.training_s, reading),
    )


def _trees(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> TreeGroups:
    return TreeGroups(jobs, network, moves=options.moves, seed=options.seed)


def _released(partition: Partition, planner: SeedGroups, network: OpticalNetwork, options: TurnOptions) -> Partition:
    """Release GPUs (end of Algorithm 1); adopt the result if the round is no longer."""
    first, other = partition.groups
    times = process_times(partition, network.delta_s, options.reading)
    plans: list[GroupPlan] = []
    for group, window in ((first, times[1]), (other, times[0])):
        own = [planner.jobs[j] for j in group.jobs]
        given = release_gpus(own, group.given, group.training_s, window)
        plans.append(planner.plan(group.jobs, given) if group.jobs and given != list(group.given) else group)
    released = Partition((plans[0], plans[1]), 0.0)
    time = sum(process_times(released, network.delta_s, options.reading))
    return Partition(released.groups, time) if time <= partition.round_s else partition


# Two groups, each in stripes over its own circuits: `striped`.


MOST_JOBS: Final = 10
"""largest number of jobs for which all partitions are examined"""
_CANDIDATES: Final = 6
"""largest number of partitions to examine for more jobs"""


def striped_partition(groups: StripedGroups, reading: Reading, restarts: int) -> Partition:
    """Return the best two groups: of all partitions for few jobs, else of partitions that are good with one tree a job.

    Raises
    ------
    TdmError
        When none of the examined partitions fits.
    """
    jobs, network = groups.jobs, groups.network
    rounds = RoundTimes(jobs, groups, network.delta_s, reading)
    if len(jobs) <= MOST_JOBS:
        return all_partitions(rounds)
    plain = RoundTimes(jobs, groups.trees, network.delta_s, reading)
    first = search_partition(plain, restarts=restarts, seed=groups.seed).groups[0].jobs
    best = rounds.of(first)
    near = {first: 0.0}
    for neighbour in neighbours(first, len(jobs)):
        near[neighbour] = rounds.bound(neighbour)
    nearest = dict(sorted(near.items(), key=lambda item: (item[1], item[0]))[:_CANDIDATES])
    return best_by_bounds(nearest, lambda group, _: rounds.of(group), best)


# Circuits that stay never go dark: one configuration for both groups, or two with much in common.


def agree(jobs: Sequence[TdmJob], partition: Partition, network: OpticalNetwork, reading: Reading) -> Partition:
    """Keep the groups, and choose their configurations for the least t_round.

    The candidates are both configurations as they are; one group's pods renamed so that most circuits stay; and each
    known configuration for both groups. Pods can be renamed if no host is named.
    """
    if not network.delta_s or any(group.striped is None for group in partition.groups):
        return partition
    movable = next((x for x in (1, 0) if not any(jobs[j].hosts for j in partition.groups[x].jobs)), None)
    candidates: list[Partition] = [partition]
    if movable is not None:
        candidates += [_turned(partition, movable, order) for order in _overlaps(partition, movable, network.pods)]
    candidates += _same_for_both(jobs, candidates[-1], network, movable)
    return min(
        (
            replace(candidate, round_s=sum(times_of(candidate, lay_groups(jobs, candidate, network), network, reading)))
            for candidate in candidates
        ),
        key=lambda candidate: candidate.round_s,
    )


def _matrices(partition: Partition) -> tuple[Any, Any]:
    first, other = (group.striped for group in partition.groups)
    assert first is not None and other is not None  # noqa: S101, PT018
    return np.array(first.matrix, np.int64), np.array(other.matrix, np.int64)


def _overlaps(partition: Partition, movable: int, pods: int) -> Sequence[Sequence[int]]:
    """Return new names of a group's pods with which most of its circuits are those of the other group."""
    both = _matrices(partition)
    own, others = both[movable], both[1 - movable]

    def same(order: Sequence[int]) -> int:
        return int(np.minimum(own, others[np.ix_(order, order)]).sum())

    if pods <= MOST_NAMED:
        return sorted(permutations(range(pods)), key=lambda order: -same(order))[:4]
    order, most = list(range(pods)), same(range(pods))
    improved = pods <= LARGE
    while improved:
        improved = False
        for a, b in combinations(range(pods), 2):
            order[a], order[b] = order[b], order[a]
            value = same(order)
            if value > most:
                most, improved = value, True
            else:
                order[a], order[b] = order[b], order[a]
    return [order]


def _turned(partition: Partition, place: int, order: Sequence[int]) -> Partition:
    groups = list(partition.groups)
    groups[place] = renamed(groups[place], order)
    return Partition((groups[0], groups[1]), partition.round_s)


def renamed(plan: GroupPlan, order: Sequence[int]) -> GroupPlan:
    """Return a plan in stripes with other names of pods: pod p becomes order[p]."""
    assert plan.striped is not None  # noqa: S101
    back = sorted(range(len(order)), key=lambda pod: order[pod])
    lit = plan.striped.matrix
    matrix: Matrix = tuple(tuple(lit[back[a]][back[b]] for b in range(len(order))) for a in range(len(order)))
    stripes = tuple(
        tuple((tuple((order[a], order[b]) for a, b in edges), share) for edges, share in own)
        for own in plan.striped.stripes
    )
    routes = tuple(
        tuple(replace(route, path=tuple(order[pod] for pod in route.path)) for route in own)
        for own in plan.striped.routes
    )
    units = tuple(tuple(row[back[pod]] for pod in range(len(order))) for row in plan.units)
    return replace(plan, units=units, striped=Striped(matrix, stripes, routes, plan.striped.bytes))


def _same_for_both(
    jobs: Sequence[TdmJob], partition: Partition, network: OpticalNetwork, movable: int | None
) -> list[Partition]:
    """Return partitions with one configuration for both groups: each one if they are few, else that of either group."""
    known = all_circuits(network.pods, network.ports)
    tried = list(_matrices(partition)) if known is None or network.pods > MOST_NAMED else list(known)
    laid: list[list[GroupPlan | None]] = []
    for group in partition.groups:
        own = [jobs[j] for j in group.jobs]
        laid.append([relaid(group, own, matrix, network) for matrix in tried])
    partitions: list[Partition] = []
    for x, first in enumerate(laid[0]):
        other = laid[1][x]
        if first is not None and other is not None:
            partitions.append(Partition((first, other), 0.0))
    if movable is not None and known is not None and network.pods <= MOST_NAMED:
        least: dict[bytes, list[tuple[float, int]]] = {}
        for plans in laid:
            best: dict[bytes, tuple[float, int]] = {}
            for x, plan in enumerate(plans):
                name = nameless(tried[x])[0]
                if plan is not None and plan.communication_s < best.get(name, (NEVER, 0))[0]:
                    best[name] = plan.communication_s, x
            for name, item in best.items():
                least.setdefault(name, []).append(item)
        for pair in (own for own in least.values() if len(own) == 2):
            groups: list[GroupPlan | None] = [laid[side][x] for side, (_, x) in enumerate(pair)]
            orders = [nameless(tried[x])[1] for _, x in pair]
            fixed = 1 - movable
            order = [orders[fixed][orders[movable].index(pod)] for pod in range(network.pods)]
            chosen = groups[movable]
            assert chosen is not None  # noqa: S101
            groups[movable] = renamed(chosen, order)
            first, other = groups
            assert first is not None and other is not None  # noqa: S101, PT018
            partitions.append(Partition((first, other), 0.0))
    return partitions


def nameless(matrix: Any) -> tuple[bytes, Sequence[int]]:
    """Return a canonical form of a configuration, which ignores the names of pods, and the pods in its order."""
    orders = map(list, permutations(range(len(matrix))))
    return min((np.ascontiguousarray(matrix[np.ix_(order, order)]).tobytes(), order) for order in orders)


def relaid(group: GroupPlan, own: Sequence[TdmJob], matrix: Any, network: OpticalNetwork) -> GroupPlan | None:
    """Plan a group over other circuits, with its units kept in place; None: the circuits do not join its pods."""
    carried = lay_stripes(own, group.units, matrix, network.ports)
    if carried is None:
        return None
    nic_s = busiest_nic_s(own, on_hosts(own, group.units, network), network)
    return replace(group, phases=(max(nic_s, carried.bytes / network.circuit),), striped=carried)


@lru_cache(maxsize=2)  # `striped` and `exact` begin with the same groups
def striped_groups(jobs: Sequence[TdmJob], network: OpticalNetwork, moves: int, seed: int) -> StripedGroups:
    """Return a planner that caches its plans."""
    return StripedGroups(jobs, network, moves=moves, seed=seed)


@register_scheduler("striped", turns=False)
def striped(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Schedule:
    """Divide jobs into stripes, trees with relays: column generation over Steiner trees, whole circuits, placement."""
    groups = striped_groups(tuple(jobs), network, options.moves, options.seed)
    partition = striped_partition(groups, options.reading, options.restarts)
    return two_groups("striped", jobs, network, options, agree(jobs, partition, network, options.reading))


# A job that arrives while others run: the cheapest way to add it without a new plan for all jobs (ours).


MOVES = 4000


def join(schedule: Schedule, jobs: Sequence[TdmJob], arrived: TdmJob, options: TurnOptions | None = None) -> Schedule:
    """Return the schedule of two groups with one more job, in the group with which the round is shorter.

    Units of running jobs stay where they are (moving them would cost a checkpoint each); the trees of the group that it
    joins may move. The new schedule begins at the end of a round: until then the old one holds.

    Parameters
    ----------
    schedule : Schedule
        A schedule of two gated groups, with trees.
    jobs : sequence of TdmJob
        Its jobs, in its order.
    arrived : TdmJob
        The new job.
    options : TurnOptions or None
        As for a scheduler.

    Raises
    ------
    TdmError
        When it fits neither group, or the schedule is of another kind.
    """
    groups_of = {plan.group for plan in schedule.jobs}
    if len(schedule.processes) != len(groups_of) or any(plan.ring for plan in schedule.jobs):
        raise TdmError(f"policy {schedule.policy}: only schedules of two groups with trees take arrivals")
    chosen, network = options or TurnOptions(), schedule.network
    everybody = [*(_pinned(job, schedule.jobs[j]) for j, job in enumerate(jobs)), arrived]
    planner = TreeGroups(everybody, network, moves=MOVES, seed=chosen.seed)
    groups = [tuple(j for j, plan in enumerate(schedule.jobs) if plan.group == side) for side in (0, 1)]
    now = [_as_it_is(schedule, everybody, group, planner) for group in groups]
    best: Partition | None = None
    for side in (0, 1):
        try:
            with_it = _with(schedule, everybody, groups[side], planner)
        except TdmError:  # another job of this group trains on a host that the new job names
            continue
        if with_it is None:
            continue
        plans = (with_it, now[1]) if side == 0 else (now[0], with_it)
        time = sum(process_times(Partition(plans, 0.0), network.delta_s, chosen.reading))
        if time < NEVER and (best is None or time < best.round_s):
            best = Partition(plans, time)
    if best is None:
        raise TdmError(
            f"job {arrived.name[:40]!r}: workers: {arrived.units} units fit neither group as it lies; let it wait, or "
            "plan all anew"
        )
    return two_groups(schedule.policy, everybody, network, chosen, best)


def _pinned(job: TdmJob, plan: JobPlan) -> TdmJob:
    """Return a job pinned to its present hosts."""
    hosts = tuple(host for host, units in plan.placement for _ in range(units))
    return replace(job, hosts=hosts, units=len(hosts), compute_s=job.compute_on(len(hosts)), elastic=False)


def _units(schedule: Schedule, j: int) -> tuple[int, ...]:
    counts = [0] * schedule.network.pods
    for host, units in schedule.jobs[j].placement:
        counts[schedule.network.pod_of(host)] += units
    return tuple(counts)


def _edges(schedule: Schedule, j: int) -> tuple[Edge, ...]:
    return tuple(edge for tree in schedule.jobs[j].trees for edge in tree.edges)


def _as_it_is(schedule: Schedule, jobs: Sequence[TdmJob], group: tuple[int, ...], planner: TreeGroups) -> GroupPlan:
    """Return the present plan of a group that does not change."""
    if not group:
        return GroupPlan((), (), (), 0.0)
    units = tuple(_units(schedule, j) for j in group)
    given = tuple(sum(row) for row in units)
    communicates = max(schedule.jobs[j].duration_s for j in group)
    trains = max(jobs[j].compute_on(count) for j, count in zip(group, given, strict=True))
    packed = Packed(units, tuple(_edges(schedule, j) for j in group), communicates * planner.network.circuit)
    return GroupPlan(group, given, (communicates,), trains, units, packed)


def _with(
    schedule: Schedule, everybody: Sequence[TdmJob], group: tuple[int, ...], planner: TreeGroups
) -> GroupPlan | None:
    """Plan a group with the new job; None if there are too few GPUs or ports."""
    network = planner.network
    fixed = [_units(schedule, j) for j in group]
    new = len(everybody) - 1
    given = [*(sum(row) for row in fixed), everybody[new].units]
    if sum(given) > network.all_gpus:
        return None
    members = (*group, new)
    parts = parts_of([everybody[j] for j in members], given, network)
    placed = pack(parts, network.pods, network.pod_gpus)
    trees = [*([*_edges(schedule, j)] for j in group), paths([placed[-1]], [parts[-1]])[0]]
    start = Packed(tuple(map(tuple, placed)), tuple(map(tuple, trees)), 0.0)
    plan = planner.plan(members, given, start, parts)
    return plan if plan.communication_s < NEVER else None
