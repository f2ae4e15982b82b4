"""Registry of schedulers: plug-ins that give all jobs their schedule."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol, TypeVar

from p4reduce.base.output import Progress
from p4reduce.base.registry import Registry
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.plans.routes import frame_time_ps
from p4reduce.control_plane.tdm.circuits import READINGS, Reading
from p4reduce.control_plane.tdm.grouping import RESTARTS
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmError, TdmJob
from p4reduce.control_plane.tdm.packing import MOVES
from p4reduce.control_plane.tdm.schedule import Clock, Schedule
from p4reduce.topologies.model import Hop

# The time that circuits must stay up after the last chunk starts, until all data in flight have arrived.


def least_guard_ps(plans: Iterable[Plan]) -> int:
    """Return the least guard in ps: the longest round trip, and the time in which the busiest link drains its queue.

    A window of a job's chunks may be in flight on every hop (an all-to-all is paced, so that its streams are not all in
    flight at once), and the windows of jobs that share a link may queue behind each other. plans: those of jobs that
    communicate at the same time.
    """
    known = list(plans)
    queued: Counter[Hop] = Counter()
    for plan in known:
        for hop in {hop for pair in plan.paths for hop in plan.path_hops(*pair)}:
            rate = plan.topology.link_at(*hop).rate_bps
            queued[hop] += plan.window * frame_time_ps(plan.frame_bytes, rate)
    return max((plan.rtt_ps for plan in known), default=0) + max(queued.values(), default=0)


Objective = Literal["round", "mean-relative"]
OBJECTIVES: Final = ("round", "mean-relative")


@dataclass(frozen=True)
class TurnOptions:
    """Options of a scheduler besides jobs and network."""

    seed: int = 1
    """seed of random numbers"""
    reading: Reading = "overlap"
    """reading of the paper's equation (3); see `process_s`"""
    clock: Clock = "completion"
    guard_s: float = 0.0
    """time in s at the end of slots in which no chunk is started"""
    moves: int = MOVES
    """number of moves of local search on a placement"""
    restarts: int = RESTARTS
    """number of restarts of the search for two groups"""
    best: bool = False
    """of `seed`: whether to use the best partition with enough ports (which packets need), not that of Algorithm 1"""
    of: Objective = "round"
    """objective of `best`: least longest iteration of a job (of two groups, the round), or highest mean throughput
    relative to running alone"""
    progress: Progress | None = field(default=None, compare=False)
    """progress of planning"""
    flows: int = 4
    """eps-ecmp: number of flows on each edge"""
    polarized: bool = False
    """eps-ecmp: whether all switches hash alike; otherwise the switch is in the hash"""

    def __post_init__(self) -> None:
        if self.reading not in READINGS:
            raise TdmError(f"reading: {self.reading!r} is none of {', '.join(READINGS)}")
        if self.clock not in ("completion", "slots"):
            raise TdmError(f"clock: {self.clock!r} is neither completion nor slots")
        if self.of not in OBJECTIVES:
            raise TdmError(f"of: {self.of!r} is none of {', '.join(OBJECTIVES)}")
        for name in ("moves", "restarts"):
            if getattr(self, name) < 0:
                raise TdmError(f"{name}: must not be negative")
        if not 1 <= self.flows <= 1024:
            raise TdmError("flows: must be between 1 and 1024")


class Scheduler(Protocol):
    """Gives jobs their schedule, or raises `TdmError`."""

    def __call__(self, jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Schedule:
        """Return the schedule."""


SCHEDULERS: Registry[Scheduler] = Registry("scheduler", TdmError)
"""Every known scheduler by name; :func:`register_scheduler` and entry points of ``p4reduce.schedulers`` add to it."""

_S = TypeVar("_S", bound=Callable[..., Schedule])


_NO_TURNS: Final[set[str]] = set()


def register_scheduler(name: str, *, turns: bool = True) -> Callable[[_S], _S]:
    """Return a decorator that registers a scheduler under ``name``.

    turns: whether an orchestrator's tasks can take turns by this scheduler: all tasks share one round over circuits,
    and a later task joins while the others stay on their hosts.
    """

    def add(scheduler: _S) -> _S:
        SCHEDULERS.add(name, scheduler)
        if not turns:
            _NO_TURNS.add(name)
        return scheduler

    return add


def check_turns(name: str) -> None:
    """Raise `TdmError` for an unknown scheduler, or a scheduler by which an orchestrator's tasks cannot take turns."""
    from p4reduce.control_plane.tdm import one_topology, optimum, stripes, switched  # noqa: F401, PLC0415  (registers the built-in ones)

    SCHEDULERS.named(name)
    if name in _NO_TURNS:
        raise TdmError(
            f"schedule: tasks of an orchestrator cannot take turns by {name!r}, as 'p4reduce tdm run' has its jobs do; "
            f"choose one of {', '.join(sorted(set(SCHEDULERS) - _NO_TURNS))}"
        )


def make_schedule(
    policy: str, jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions | None = None
) -> Schedule:
    """Return the schedule of a policy, after a check for faults that no policy can handle.

    Raises
    ------
    TdmError
        An unknown policy, no jobs, a repeated name, an unknown host, more units than GPUs (twice as many
        as there are, since two jobs may take turns), pods without a port, a delta longer than the round.
    """
    from p4reduce.control_plane.tdm import one_topology, optimum, stripes, switched  # noqa: F401, PLC0415  (registers the built-in ones)

    scheduler = SCHEDULERS.named(policy)
    check_jobs(jobs, network)
    chosen = options or TurnOptions()
    if chosen.progress is not None:
        chosen.progress(policy, 0, 1)
    schedule = scheduler(jobs, network, chosen)
    if not schedule.bound_s:
        schedule = replace(schedule, bound_s=optimum.bound_s(schedule, jobs))
    if schedule.policy == policy and schedule.switches and 3 * network.delta_s >= schedule.round_s:
        lit_s = scheduler(jobs, network.with_delta(0.0), chosen).round_s
        if network.delta_s >= lit_s:
            raise TdmError(
                f"delta: {network.delta_s:g} s of darkness, longer than the round of {lit_s:g} s; take larger jobs, "
                "a faster cross-connect, or a policy that does not switch (pairs, static, no-tdm)"
            )
    return schedule


def check_jobs(jobs: Sequence[TdmJob], network: OpticalNetwork) -> None:
    """Raise `TdmError` for jobs that no policy can place."""
    if not jobs:
        raise TdmError("jobs: there is none")
    names: set[str] = set()
    for job in jobs:
        if job.name in names:
            raise TdmError(f"job {job.name[:40]!r}: name: is that of another job, too; names are unique")
        names.add(job.name)
        least = 2 if job.elastic else job.units
        if least > network.all_gpus:
            raise TdmError(
                f"job {job.name[:40]!r}: workers: {least} units, but the network has {network.all_gpus} GPUs; use "
                "fewer workers, or more hosts"
            )
        for host in job.hosts:
            try:
                network.pod_of(host)
            except TdmError as error:
                raise TdmError(f"job {job.name[:40]!r}: workers: {error}") from None
        pods = {network.pod_of(host) for host in job.hosts}
        across = len(pods) > 1 or (not job.hosts and least > network.pod_gpus)
        if across and network.ports == 0:
            raise TdmError(
                f"job {job.name[:40]!r}: needs more than one pod, but pods have no port to the OXC; write ports=1"
            )
    units = sum(2 if job.elastic else job.units for job in jobs)
    if units > 2 * network.all_gpus:
        raise TdmError(
            f"{units} units for {network.all_gpus} GPUs, of which each takes at most two jobs in turns; use fewer "
            "workers, or more hosts"
        )
