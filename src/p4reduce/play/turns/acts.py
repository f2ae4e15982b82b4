"""Acts of a schedule's jobs, which take turns: a generator for each cycle. Carriers decide when bytes move.

Packets (`player`) and the flow level (`flow_model`) play the same turns, so they differ only in the time that
communication takes.
"""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.schedule import Cycle, JobPlan, Matrix, Schedule, turns_of
from p4switch.base.values import PS_PER_S

# GPUs of hosts that several jobs train on: rates divide, or the first job has them all. Fluid, in picoseconds.


@dataclass
class _Training:
    units: Mapping[str, int]
    left: float
    """Remaining picoseconds on GPUs of its own."""
    priority: int | None
    rate: float = 1.0


class Gpus:
    """GPUs that jobs share. A job is as fast as its slowest host; times are those of a fluid, rounded up."""

    def __init__(self, each: int) -> None:
        """Set up GPUs without jobs; ``each``: GPUs of a host."""
        self._each = each
        self._jobs: dict[str, _Training] = {}
        self._now = 0

    def begin(self, job: str, units: Mapping[str, int], train_ps: int, now: int, priority: int | None = None) -> None:
        """Start training of a job; with priorities, the lower number gets GPUs first."""
        self._pass(now)
        self._jobs[job] = _Training(units, float(train_ps), priority)
        self._share()

    def next_end(self) -> int | None:
        """Return when the next job will have trained if nothing changes, picoseconds; None if no job trains."""
        ends = [self._now + job.left / job.rate for job in self._jobs.values() if job.rate > 0]
        return max(self._now, _up(min(ends))) if ends else None

    def done(self, now: int) -> list[str]:
        """Return the jobs that have trained by now; they leave their GPUs."""
        self._pass(now)
        ended = [name for name, job in self._jobs.items() if job.left <= 0.5]
        for name in ended:
            del self._jobs[name]
        if ended:
            self._share()
        return ended

    def _pass(self, now: int) -> None:
        for job in self._jobs.values():
            job.left -= job.rate * (now - self._now)
        self._now = now

    def _share(self) -> None:
        wanted: dict[str, int] = {}
        order = sorted(self._jobs.values(), key=lambda job: (job.priority is None, job.priority or 0))
        for job in order:
            for host, units in job.units.items():
                wanted[host] = wanted.get(host, 0) + units
        taken: dict[str, int] = {}
        for job in order:
            rates = []
            for host, units in job.units.items():
                if job.priority is None:
                    rates.append(min(1.0, self._each / wanted[host]))
                else:
                    rates.append(max(0.0, min(1.0, (self._each - taken.get(host, 0)) / units)))
                    taken[host] = taken.get(host, 0) + units
            job.rate = min(rates)


def _up(value: float) -> int:
    return -int(-value // 1)


def pairs_of(plan: JobPlan, configuration: int = -1) -> set[tuple[int, int]]:
    """Return the pairs of pods between which a job needs circuits, in one configuration of its process (-1: in any)."""
    edges: list[tuple[int, int]] = []
    for tree in plan.trees:
        edges += tree.edges if configuration in (-1, tree.configuration) else ()
    for route in plan.routes:
        edges += pairwise(route.path) if configuration in (-1, route.configuration) else ()
    if plan.ring is not None and configuration in (-1, plan.ring.configuration) and len(plan.ring.order) > 1:
        edges += pairwise((*plan.ring.order, plan.ring.order[0]))
    return {(min(edge), max(edge)) for edge in edges}


# Result of a played schedule.


What = Literal["train", "communicate", "dark"]


@dataclass(frozen=True)
class ActSpan:
    """An interval of a job or (job '') of the cross-connect, picoseconds."""

    job: str
    what: What
    start_ps: int
    end_ps: int


@dataclass(frozen=True)
class Window:
    """One process of one round: its beginning, the next one's, and the time in which it communicated; picoseconds."""

    process: int
    start_ps: int
    end_ps: int
    communicated_ps: int
    """From the first light of its circuits until the last result."""
    frames: int
    """First transmissions on all links."""
    differing: tuple[str, ...]
    """Links whose first transmissions differ from the prediction."""


@dataclass
class PlayedSchedule:
    """Result of a schedule that was played.

    rounds_ps: how long each round took, whole rounds only. iterations_ps: for each job, from one end of communication
    to the next. dark_lost, misrouted, resends: frames. exact: every sum and block was right, everywhere. guard_s: of
    slots; least_guard_s: what the longest path and the queues may need.
    """

    policy: str
    predicted_round_s: float
    rounds_ps: list[int] = field(default_factory=list)
    iterations_ps: dict[str, list[int]] = field(default_factory=dict)
    windows: list[Window] = field(default_factory=list)
    spans: list[ActSpan] = field(default_factory=list)
    dark_lost: int = 0
    misrouted: int = 0
    lost: int = 0
    resends: int = 0
    reconfigurations: int = 0
    exact: bool = True
    differing: list[str] = field(default_factory=list)
    lasted_ps: int = 0
    guard_s: float = 0.0
    least_guard_s: float = 0.0

    @property
    def round_s(self) -> float:
        """Mean round, seconds; without rounds the mean iteration of all jobs."""
        every = self.rounds_ps or [iteration_ps for own in self.iterations_ps.values() for iteration_ps in own]
        return sum(every) / max(1, len(every)) / PS_PER_S

    @property
    def ratio(self) -> float:
        """Measured round over the predicted one."""
        return self.round_s / self.predicted_round_s if self.predicted_round_s else float("nan")

    def iteration_s(self, job: str) -> float:
        """Return the mean iteration of a job, seconds."""
        own = self.iterations_ps[job]
        return sum(own) / max(1, len(own)) / PS_PER_S

    def as_data(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        data = asdict(self)
        return {"round_s": self.round_s, "ratio": self.ratio, **data}


class Sending(Protocol):
    """A communication in progress, phase by phase."""

    @property
    def now(self) -> Sequence[object]:
        """Parts of its present phase; empty: it is over."""

    def through(self) -> bool:
        """Return whether nothing of this phase is in progress any more."""

    def go_on(self) -> object:
        """Begin the next phase."""


class Actor(Protocol):
    """A job, as turns see it."""

    @property
    def job(self) -> TdmJob:
        """The job's description."""

    @property
    def plan(self) -> JobPlan:
        """The job's place and times in the schedule."""

    @property
    def local(self) -> bool:
        """Whether it crosses no circuit."""

    @property
    def together(self) -> bool:
        """Whether its sub-phases are those of its group."""


Who = TypeVar("Who", bound=Actor)
Under = TypeVar("Under", bound=Sending)
Wait = tuple[int | None, Sequence[Under]]
"""Condition that an act waits for: a time, while communications are in progress, or (None) their end."""
Act = Generator[Wait[Under], None, None]


ITSELF: Final = "no job trains and no job communicates: the schedule waits for itself"


class Acts(ABC, Generic[Who, Under]):
    """Engine that moves jobs through their rounds. Subclasses define communication and the passing of time."""

    def __init__(self, schedule: Schedule, jobs: Mapping[str, Who], rounds: int) -> None:
        self.schedule, self.jobs, self.rounds = schedule, jobs, rounds
        self.delta_ps = round(schedule.network.delta_s * PS_PER_S)
        self.gpus = Gpus(schedule.network.gpus)
        self.played = PlayedSchedule(schedule.policy, schedule.round_s)
        self.played.iterations_ps = {name: [] for name in jobs}
        self.stopping = self.halted = False
        self._trained: set[str] = set()
        self._began: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._lit: Matrix | None = None

    # --- to be defined by subclasses

    @property
    @abstractmethod
    def now(self) -> int:
        """Present time, picoseconds."""

    @abstractmethod
    def send(self, jobs: Sequence[Who], configuration: int) -> Sequence[Under]:
        """Begin to communicate: all data of some jobs (-1), or the part of one configuration of their process."""

    @abstractmethod
    def light(self, matrix: Matrix, dark_ps: int) -> None:
        """Change the circuits."""

    @abstractmethod
    def let_pass(self, until: int | None, under: Sequence[Under]) -> None:
        """Advance to ``until``, or until something in ``under`` ends. Raises an error if neither ever happens."""

    def step(self, sending: Under) -> None:
        """Begin the next phase of a communication."""
        sending.go_on()

    def sent(self, jobs: Sequence[Who], under: Sequence[Under], start: int) -> None:
        """Take in that all of ``under`` is through."""

    def ended_ps(self, job: Who, start: int) -> int:
        """Return when a job had its last result of a communication that began at ``start``, picoseconds."""
        del job, start
        return self.now

    def boundary(self) -> tuple[int, tuple[str, ...]]:
        """Return the frames since the last call, and the links that differ from the prediction."""
        return 0, ()

    # --- turns

    def drive(self) -> None:
        """Play the acts of all jobs to their end, or until ``halted``."""
        acts = self.acts()
        waits: dict[int, Wait[Under]] = {}
        ready = list(range(len(acts)))
        while ready or (waits and not self.halted):
            for number in ready:
                wait = next(acts[number], None)
                if wait is not None:
                    waits[number] = wait
                else:
                    waits.pop(number, None)
            if not waits or self.halted:
                return
            now = self.now
            self.look()
            ready = [number for number, wait in waits.items() if self._over(wait, now)]
            if not ready:
                times = [at for at, _ in waits.values() if at is not None]
                times += [] if (end := self.gpus.next_end()) is None else [end]
                self.let_pass(min(times, default=None), [sending for _, own in waits.values() for sending in own])

    def _over(self, wait: Wait[Under], now: int) -> bool:
        at, under = wait
        over = True
        for sending in under:
            while sending.now and sending.through():
                self.step(sending)
            over &= not sending.now
        return over if at is None else now >= at

    def acts(self) -> list[Act[Under]]:
        """Make the acts of all cycles."""
        cycle_acts: list[Act[Under]] = []
        alone = len(self.schedule.cycles) == 1  # otherwise other cycles send across its boundaries
        for cycle in self.schedule.cycles:
            if cycle.mode == "gated":
                cycle_acts.append(self._gated(cycle, report=alone))
            elif cycle.mode == "exclusive":
                cycle_acts.append(self._exclusive(cycle))
            else:
                cycle_acts += [self._alone(self.jobs[name], cycle) for name in cycle.jobs]
        return cycle_acts

    def look(self) -> None:
        """Remove jobs that have trained by now from their GPUs."""
        for name in self.gpus.done(self.now):
            self._trained.add(name)
            self.span(name, "train", self._began[name], self.now)

    def train(self, jobs: Sequence[Who], cycle: Cycle) -> None:
        """Start the training of jobs."""
        for job in jobs:
            name, units = job.plan.job, dict(job.plan.placement)
            self._trained.discard(name)
            self._began[name] = self.now
            priority = job.plan.priority if cycle.mode == "priority" else None
            takes = round(job.job.compute_on(sum(units.values())) * PS_PER_S)
            self.gpus.begin(name, units, takes, self.now, priority)

    def until_trained(self, jobs: Sequence[Who]) -> Act[Under]:
        """Wait until jobs have trained."""
        while not all(job.plan.job in self._trained for job in jobs):
            end = self.gpus.next_end()
            assert end is not None  # noqa: S101
            yield (end, ())

    def communicate(
        self, jobs: Sequence[Who], configuration: int = -1, *, later: Sequence[Who] = (), dark_ps: int = 0
    ) -> Act[Under]:
        """Send and wait until all is through; ``later``: jobs whose circuits are dark for ``dark_ps`` first."""
        starts = {job.plan.job: self.now for job in jobs}
        under = list(self.send(jobs, configuration)) if jobs else []
        if later:
            yield (self.now + dark_ps, under)
            starts |= {job.plan.job: self.now for job in later}
            under += self.send(later, configuration)
        yield (None, under)
        everybody = [*jobs, *later]
        self.sent(everybody, under, min(starts.values()))
        for job in everybody:
            start = starts[job.plan.job]
            self.span(job.plan.job, "communicate", start, self.ended_ps(job, start))

    def changes(self, job: Who, before: Matrix, after: Matrix, configuration: int) -> bool:
        """Return whether ports that a job needs in a configuration (-1: in any) change between two matrices."""
        return any(before[a][b] != after[a][b] for a, b in pairs_of(job.plan, configuration))

    def finished(self, jobs: Sequence[Who]) -> None:
        """Note the end of an iteration of each job."""
        for job in jobs:
            name = job.plan.job
            if name in self._last:
                self.played.iterations_ps[name].append(self.now - self._last[name])
            self._last[name] = self.now

    def reconfigure(self, matrix: Matrix, dark_ps: int) -> int:
        """Light a configuration; return how long ports are dark for it: 0 if it is lit already."""
        if matrix == self._lit:
            return 0
        if self._lit is not None:
            self.played.reconfigurations += 1
        self._lit = matrix
        self.light(matrix, dark_ps)
        if dark_ps:
            self.span("", "dark", self.now, self.now + dark_ps)
        return dark_ps

    def span(self, job: str, what: What, start: int, end: int) -> None:
        """Note an interval."""
        self.played.spans.append(ActSpan(job, what, start, end))

    def begin(self) -> None:
        """Light the first circuits."""
        self.reconfigure(self.schedule.processes[0].configurations[0].circuits, 0)

    def _gated(self, cycle: Cycle, *, report: bool) -> Act[Under]:
        """Groups take turns: one communicates while the others train; a single group does both alternately."""
        turns = turns_of(self.schedule, cycle)
        groups = {key: [self.jobs[name] for name in own] for key, own in turns.items()}
        order = sorted(groups)
        first = groups[order[0]]
        self.train(first, cycle)
        yield from self.until_trained(first)
        began = self.now
        for number in range(self.rounds + 1):
            for place, key in enumerate(order):
                start = self.now
                own = groups[key]
                others = groups[order[(place + 1) % len(order)]] if len(order) > 1 else []
                self.train(others, cycle)
                lit, done = yield from self._process(own, switching=len(self.schedule.processes) > 1, key=key)
                self.finished(own)
                if len(order) == 1:
                    others = own
                    self.train(own, cycle)
                yield from self.until_trained(others)
                if report:
                    frames, differing = self.boundary()
                    self.played.windows.append(Window(key, start, self.now, done - lit, frames, differing))
                    self.played.differing += differing
            if number > 0 and report:  # in the first round circuits are lit already
                self.played.rounds_ps.append(self.now - began)
            began = self.now

    def _process(
        self, own: Sequence[Who], *, switching: bool, key: int
    ) -> Generator[Wait[Under], None, tuple[int, int]]:
        """Run a process: circuits, darkness, communication. Return when light was there, and when all was done."""
        configurations = self.schedule.processes[key if switching else 0].configurations
        lit = done = self.now
        for place, configuration in enumerate(configurations):
            number = place if len(configurations) > 1 else -1
            before = self._lit or configuration.circuits
            dark = self.reconfigure(configuration.circuits, self.delta_ps)
            # Ports that stay never go dark: jobs that need no other ports continue at once.
            later = [job for job in own if dark and self.changes(job, before, configuration.circuits, number)]
            if any(job.together for job in own):
                later = list(own) if later else []
            if place == 0:
                lit = self.now + (dark if later else 0)
            waiting = {job.plan.job for job in later}
            at_once = [job for job in own if job.plan.job not in waiting]
            yield from self.communicate(at_once, number, later=later, dark_ps=dark)
            done = max([done, *(self.ended_ps(job, lit) for job in own)])
        return lit, done

    def _exclusive(self, cycle: Cycle) -> Act[Under]:
        """Whole iterations of one job after the other; next is the job with the least time so far."""
        had = dict.fromkeys(cycle.jobs, 0)
        times = dict.fromkeys(cycle.jobs, 0)
        while min(times.values()) <= self.rounds:
            name = min(cycle.jobs, key=lambda job: had[job])
            start = self.now
            yield from self._once(self.jobs[name], cycle)
            had[name] += self.now - start
            times[name] += 1

    def _alone(self, job: Who, cycle: Cycle) -> Act[Under]:
        own = self.played.iterations_ps
        if job.plan.train_start_s > 0:
            yield (self.now + round(job.plan.train_start_s * PS_PER_S), ())
        while not self.stopping:
            yield from self._once(job, cycle)
            self.stopping = min(map(len, own.values())) >= self.rounds

    def _once(self, job: Who, cycle: Cycle) -> Act[Under]:
        self.train([job], cycle)
        yield from self.until_trained([job])
        yield from self.communicate([job])
        self.finished([job])
