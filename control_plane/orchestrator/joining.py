"""Schedules of tasks that come and go: the first ones together, later ones into the turns that there are."""

from collections.abc import Sequence
from dataclasses import replace

from p4reduce.base.units import PS_PER_S
from p4reduce.control_plane.orchestrator.timetable import TurnWindow
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.online import join
from p4reduce.control_plane.tdm.registry import make_schedule
from p4reduce.control_plane.tdm.schedule import JobPlan, Matrix, Schedule
from p4reduce.control_plane.tdm.turns import turns_of
from p4reduce.topologies import Link, Topology
from p4reduce.topologies.model import TopologyError
from p4reduce.topologies.optical import lay_circuits

JOINED = frozenset({"tdm", "random", "exact"})
"""policies whose schedules are two groups with circuits of their own, which `online.join` takes arrivals into"""
Laid = dict[Matrix, tuple[Link, ...]]
"""circuits of configurations, at ports"""


def first_schedule(policy: str, jobs: Sequence[TdmJob], network: OpticalNetwork) -> Schedule:
    """The schedule of tasks that begin together; `TdmError` where there is none."""
    return checked(make_schedule(policy, jobs, network), jobs)


def with_one_more(schedule: Schedule, jobs: Sequence[TdmJob], arrived: TdmJob) -> Schedule:
    """The same with a task that arrives, while all others stay on their hosts; `TdmError` where it does not fit.

    jobs: those of the schedule, in its order.
    """
    if schedule.policy in JOINED:
        found = join(schedule, jobs, arrived)
    else:
        pinned = [_pinned(job, plan) for job, plan in zip(jobs, schedule.jobs, strict=True)]
        found = make_schedule(schedule.policy, [*pinned, arrived], schedule.network)
    for plan in schedule.jobs:
        if sorted(found.plan(plan.job).placement) != sorted(plan.placement):
            raise TdmError(f"policy {schedule.policy}: would move {plan.job[:40]} to other hosts; it waits for its end")
    return checked(found, [*jobs, arrived])


def without(schedule: Schedule, jobs: Sequence[TdmJob], ended: frozenset[str]) -> tuple[Schedule, list[TdmJob]]:
    """What is left of a schedule, and the jobs of it, when some have ended: windows stay, empty processes go."""
    plans = [plan for plan in schedule.jobs if plan.job not in ended]
    used = sorted({plan.process for plan in plans})
    left = replace(
        schedule,
        jobs=tuple(replace(plan, process=used.index(plan.process)) for plan in plans),
        processes=tuple(schedule.processes[number] for number in used),
        cycles=tuple(
            replace(cycle, jobs=tuple(name for name in cycle.jobs if name not in ended)) for cycle in schedule.cycles
        ),
    )
    return left, [job for job in jobs if job.name not in ended]


def checked(schedule: Schedule, jobs: Sequence[TdmJob]) -> Schedule:
    """The schedule, if tasks can take turns by it; `TdmError` where one is missing, or hosts train two at a time."""
    if len(schedule.cycles) != 1 or schedule.cycles[0].mode != "gated" or schedule.clock != "completion":
        raise TdmError(
            f"policy {schedule.policy}: its jobs are not all in turns of one round; the orchestrator runs policies "
            "like tdm, seed, static, random, exact (free and paired ones: 'p4reduce tdm run')"
        )
    if sorted(plan.job for plan in schedule.jobs) != sorted(job.name for job in jobs):
        raise TdmError(f"policy {schedule.policy}: leaves a task out, or has one twice")
    wanted = {job.name: job for job in jobs}
    for names in turns_of(schedule, schedule.cycles[0]).values():
        taken: dict[str, str] = {}
        for name in names:
            plan, job = schedule.plan(name), wanted[name]
            if sum(units for _, units in plan.placement) != job.units or (
                job.hosts and {host for host, _ in plan.placement} != set(job.hosts)
            ):
                raise TdmError(f"policy {schedule.policy}: gives {name[:40]} other hosts, or another number of them")
            for host, units in plan.placement:
                if units > schedule.network.gpus or host in taken:
                    other = taken.get(host, name)
                    raise TdmError(
                        f"policy {schedule.policy}: {name[:40]} and {other[:40]} would train on {host} at one time; "
                        "let tasks wait for each other, or take policy tdm"
                    )
                taken[host] = name
    _check_delta(schedule)
    return schedule


def _check_delta(schedule: Schedule) -> None:
    """Darkness that is longer than all that it is for."""
    if not schedule.switches:
        return
    groups = turns_of(schedule, schedule.cycles[0]).values()
    communicates = [max(schedule.plan(name).duration_s for name in names) for names in groups]
    trains = [max(schedule.plan(name).train_s for name in names) for names in groups]
    lit_s = sum(max(one, other) for one, other in zip(communicates, reversed(trains), strict=True))
    if schedule.network.delta_s >= lit_s:
        raise TdmError(
            f"delta: {schedule.network.delta_s:g} s of darkness, longer than the round of {lit_s:g} s; take larger "
            "jobs, a faster cross-connect, or a policy that does not switch (static)"
        )


def _pinned(job: TdmJob, plan: JobPlan) -> TdmJob:
    return replace(job, hosts=tuple(host for host, units in plan.placement for _ in range(units)))


def windows_of(schedule: Schedule, topology: Topology, known: Laid) -> tuple[tuple[TurnWindow, ...], Laid]:
    """The windows of a round, and where the circuits of their configurations are.

    known: circuits that are there already; they stay where they are if nothing else is needed.

    Raises
    ------
    TdmError
        Circuits that ports cannot make: of two planes, an odd number of circuits where all ports are in use.
    """
    wanted = list(dict.fromkeys(one.circuits for process in schedule.processes for one in process.configurations))
    if all(matrix in known for matrix in wanted):
        laid = {matrix: known[matrix] for matrix in wanted}
    else:
        try:
            laid = dict(zip(wanted, lay_circuits(topology, wanted, schedule.network.parallel), strict=True))
        except TopologyError as error:
            raise TdmError(f"circuits: {error}") from None
    windows = []
    first_s = max(0.0, min(plan.start_s for plan in schedule.jobs) - schedule.network.delta_s)
    for key, names in turns_of(schedule, schedule.cycles[0]).items():
        process = schedule.processes[key if len(schedule.processes) > 1 else 0]
        for place, one in enumerate(process.configurations):
            plans = [schedule.plan(name) for name in names if configuration_of(schedule.plan(name)) == place]
            if not plans:
                continue
            start_s = min(plan.start_s for plan in plans)
            last_s = max(plan.start_s + plan.duration_s for plan in plans)
            windows.append(
                TurnWindow(
                    key,
                    laid[one.circuits],
                    tuple(plan.job for plan in plans),
                    round((start_s - first_s) * PS_PER_S),
                    round((last_s - start_s) * PS_PER_S),
                )
            )
    return tuple(windows), laid


def configuration_of(plan: JobPlan) -> int:
    """Which configuration of its process a job needs; 0 where it crosses no circuit."""
    if plan.ring is not None:
        return plan.ring.configuration
    return max((tree.configuration for tree in plan.trees if tree.edges), default=0)
