"""A job that arrives while others run: the cheapest way in, without planning everybody anew (ours)."""

from collections.abc import Sequence
from dataclasses import replace

from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.grouping import Partition, process_times
from p4reduce.control_plane.tdm.groups import NEVER, GroupPlan, TreeGroups
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.packing import Edge, Packed, pack, paths
from p4reduce.control_plane.tdm.parts import parts_of
from p4reduce.control_plane.tdm.registry import Options
from p4reduce.control_plane.tdm.schedule import JobPlan, Schedule
from p4reduce.control_plane.tdm.schedulers.switched import two_groups

MOVES = 4000


def join(schedule: Schedule, jobs: Sequence[TdmJob], arrived: TdmJob, options: Options | None = None) -> Schedule:
    """The schedule of two groups with one job more, in the group where the round then is shorter.

    Units of jobs that run stay where they are (moving them would cost a checkpoint each); the trees of the group that
    it joins may move. The new schedule begins at the end of a round: until then the old one holds.

    Parameters
    ----------
    schedule : Schedule
        Of two gated groups, with trees.
    jobs : sequence of TdmJob
        Those in it, in its order.
    arrived : TdmJob
        The new one.
    options : Options or None
        As for a scheduler.

    Raises
    ------
    TdmError
        When it fits neither group, or the schedule is of another kind.
    """
    groups_of = {plan.group for plan in schedule.jobs}
    if len(schedule.processes) != len(groups_of) or any(plan.ring for plan in schedule.jobs):
        raise TdmError(f"policy {schedule.policy}: only schedules of two groups with trees take arrivals")
    chosen, network = options or Options(), schedule.network
    everybody = [*(_pinned(job, schedule.jobs[j]) for j, job in enumerate(jobs)), arrived]
    planner = TreeGroups(everybody, network, moves=MOVES, seed=chosen.seed)
    groups = [tuple(j for j, plan in enumerate(schedule.jobs) if plan.group == side) for side in (0, 1)]
    now = [_as_it_is(schedule, everybody, group, planner) for group in groups]
    best: Partition | None = None
    for side in (0, 1):
        try:
            with_it = _with(schedule, everybody, groups[side], planner)
        except TdmError:  # a host that it names trains for another one of this group
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
    """A job on the hosts that it is on."""
    hosts = tuple(host for host, units in plan.placement for _ in range(units))
    return replace(job, hosts=hosts, units=len(hosts), compute_s=job.compute_on(len(hosts)), elastic=False)


def _units(schedule: Schedule, j: int) -> tuple[int, ...]:
    found = [0] * schedule.network.pods
    for host, units in schedule.jobs[j].placement:
        found[schedule.network.pod_of(host)] += units
    return tuple(found)


def _edges(schedule: Schedule, j: int) -> tuple[Edge, ...]:
    return tuple(edge for tree in schedule.jobs[j].trees for edge in tree.edges)


def _as_it_is(schedule: Schedule, jobs: Sequence[TdmJob], group: tuple[int, ...], planner: TreeGroups) -> GroupPlan:
    """A group that nothing happens to."""
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
    """A group and the new job; None where there are too few GPUs or ports."""
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
