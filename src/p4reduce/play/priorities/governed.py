"""Runs under a priority policy of the control plane, which gets its facts from an oracle or from counters."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import Final

import finsy as fy

from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.counters import stats_cell
from p4reduce.control_plane.priorities import (
    JOB_CLASSES,
    FlowDetector,
    Forecast,
    JobFacts,
    LaneDirection,
    Predictor,
    PriorityDecision,
    Situation,
    decide,
)
from p4reduce.control_plane.priorities.policy import asked_within
from p4reduce.network.jobs.network import EmbeddedSwitches, Job, bundled
from p4reduce.network.jobs.specs import chunk_times
from p4reduce.play.priorities.description import Classes, Description, Fixed, JobSeen
from p4reduce.play.priorities.run import PrioritiesResult, PrioritiesRun
from p4reduce.topologies.model import Hop
from p4switch.base.values import PS_PER_US

# Facts about running jobs for policies: from an oracle, from the switches' counters, or none.


READ_EVERY_PS: Final = 20 * PS_PER_US
QUIET_READINGS: Final = 4
"""Readings without bytes after which a flow may have ended."""


class Knowledge(Enum):
    """Source of a policy's facts about jobs."""

    ORACLE = "oracle"
    """Everything, exactly and at once."""
    PREDICTED = "predicted"
    """Facts derived from the switches' counters, one control latency late."""
    NONE = "none"
    """No facts."""


@dataclass(frozen=True)
class JobAlone:
    """Times of a job that has the network to itself."""

    communication_ps: int
    """Communication of a round."""
    completion_ps: int
    """All rounds of the description."""


def job_name(number: int) -> str:
    """Return the name of a job for policies; names sort as numbers do."""
    return f"job{number:04}"


def times_of(trees: Sequence[Job]) -> dict[Hop, float]:
    """Return the ps for which a chunk of a job occupies each directed link; several trees count by their parts."""
    times_ps: Counter[Hop] = Counter()
    for job in trees:
        _, weight, total = job.plan.part
        for hop, time_ps in chunk_times(job.plan).items():
            times_ps[hop] += time_ps * weight
    return {hop: time_ps / total for hop, time_ps in times_ps.items()}


class Oracle:
    """Source of facts that knows the description, times alone, and the progress of every job."""

    def __init__(self, description: Description, alone: Sequence[JobAlone], trees: Sequence[Sequence[Job]]) -> None:
        self._description, self._alone = description, alone
        self._links = [frozenset(times_of(own)) for own in trees]

    def facts(self, seen: Sequence[JobSeen], sent: Sequence[float], now_ps: int) -> list[JobFacts]:
        """Return the facts about all jobs."""
        return [self._of(job, share, now_ps) for job, share in zip(seen, sent, strict=True)]

    def _of(self, seen: JobSeen, share: float, now_ps: int) -> JobFacts:
        about, alone = self._description.jobs[seen.number], self._alone[seen.number]
        began = about.start_ps if seen.ended_ps is None else seen.ended_ps
        size = 4 * about.elements
        sending = seen.started_ps is not None and (seen.ended_ps is None or seen.ended_ps < seen.started_ps)
        batch = seen.iteration if sending else seen.iteration + 1
        return JobFacts(
            job_name(seen.number),
            self._links[seen.number],
            period_ps=about.compute_ps + alone.communication_ps,
            compute_ps=about.compute_ps,
            communication_ps=alone.communication_ps,
            bytes=size,
            sent=share,
            attained=round(size * share),
            next_ps=began + about.compute_ps - now_ps,
            deadline_ps=began + about.compute_ps + alone.communication_ps - now_ps,
            newest=batch,
            oldest=batch,
        )


@dataclass(frozen=True)
class CountReading:
    """Counts of a job's switches since it began, of first transmissions only.

    A switch sends a result the same way back for every contribution that it accepts, so the two numbers of frames are
    equal unless the job waits for a worker.
    """

    bytes: int
    came: int
    """Contributions."""
    answered: int
    """Results."""


@dataclass(frozen=True)
class TimedForecast:
    """A forecast of one flow of a job, and when it became available."""

    iteration: int
    forecast: Forecast
    known_ps: int


class Watcher:
    """Source of facts from counters of jobs: flows that have ended, and forecasts of the next ones.

    ``told`` has every forecast of each job, for reports of their error.
    """

    def __init__(self, trees: Sequence[Sequence[Job]], read_every_ps: int) -> None:
        self._links = [frozenset(times_of(own)) for own in trees]
        self._detectors = [FlowDetector(QUIET_READINGS * read_every_ps) for _ in trees]
        self._predictors = [Predictor() for _ in trees]
        self._flows: list[set[int]] = [set() for _ in trees]
        self.told: list[list[TimedForecast]] = [[] for _ in trees]

    def learn(self, read_ps: int, readings: Mapping[int, "CountReading"], now_ps: int) -> bool:
        """Take in readings of some jobs' counters, by number; return whether a flow has ended."""
        ended = False
        for number, reading in readings.items():
            flow = self._detectors[number].read(read_ps, reading.bytes, waiting=reading.came > reading.answered)
            if flow is None:
                continue
            ended = True
            self._predictors[number].observe(flow)
            self._flows[number].add(flow.start_ps)
            forecast = self._predictors[number].forecast()
            if forecast is not None:
                self.told[number].append(TimedForecast(len(self._flows[number]), forecast, now_ps))
        return ended

    @property
    def complete(self) -> bool:
        """Whether there is a forecast for every job."""
        return all(self.told)

    def facts(self, now_ps: int) -> list[JobFacts]:
        """Return the facts about all jobs; unknown ones are None."""
        return [self._of(number, now_ps) for number in range(len(self._detectors))]

    def _of(self, number: int, now_ps: int) -> JobFacts:
        detector, forecast = self._detectors[number], self._predictors[number].forecast()
        attained = detector.attained
        last = self._predictors[number].last
        if forecast is None:
            size = None if last is None else last.bytes
            return JobFacts(job_name(number), self._links[number], bytes=size, attained=attained)
        share = min(1.0, attained / forecast.bytes)
        return JobFacts(
            job_name(number),
            self._links[number],
            period_ps=forecast.period_ps,
            compute_ps=forecast.compute_ps,
            communication_ps=forecast.communication_ps,
            bytes=forecast.bytes,
            sent=share,
            attained=attained,
            next_ps=forecast.start_ps - now_ps,
            deadline_ps=forecast.start_ps + forecast.communication_ps - now_ps,
        )


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of forecasts, over all jobs and all rounds for which there was one.

    Attributes
    ----------
    rounds : int
        Rounds of all jobs, without those before two flows of the job had ended.
    errors : tuple of float
        |forecast - first frame|, as shares of the job's period alone.
    leads : tuple of float
        How long before the first frame the forecast was known, in the same unit.
    in_time : int
        Rounds whose class was in the switches before the first frame.
    """

    rounds: int
    errors: tuple[float, ...]
    leads: tuple[float, ...]
    in_time: int

    @property
    def median_error(self) -> float:
        """Median of ``errors``; 1 if there was no forecast."""
        return median(self.errors) if self.errors else 1.0

    @property
    def median_lead(self) -> float:
        """Median of ``leads``; 0 if there was no forecast."""
        return median(self.leads) if self.leads else 0.0

    @property
    def in_time_share(self) -> float:
        """Share of the rounds with a forecast that came in time."""
        return self.in_time / self.rounds if self.rounds else 0.0


FIRST_FORECAST: Final = 2
"""First round, from 0, that can be forecast: two flows have ended."""


def accuracy(
    told: Sequence[Sequence[TimedForecast]], starts: Sequence[Sequence[int]], periods: Sequence[int], write_ps: int
) -> Accuracy:
    """Compare forecasts with the first frames of each job's rounds; ``write_ps``: from a forecast to its class."""
    errors, leads, rounds, in_time = [], [], 0, 0
    for own, actual, period in zip(told, starts, periods, strict=True):
        # a flow that continued after a forecast has two; the last one counts
        last = {note.iteration: note for note in own}
        for iteration, start in enumerate(actual):
            if iteration < FIRST_FORECAST:
                continue
            rounds += 1
            if iteration in last:
                note = last[iteration]
                errors.append(abs(note.forecast.start_ps - start) / period)
                leads.append((start - note.known_ps) / period)
                in_time += note.known_ps + write_ps <= start
    return Accuracy(rounds, tuple(errors), tuple(leads), in_time)


@dataclass(frozen=True)
class Governing:
    """Policy of a run, and its source of facts.

    Attributes
    ----------
    policy : str
        Name of a priority policy (:mod:`p4reduce.control_plane.priorities`).
    knowledge : Knowledge
        Source of its facts about the jobs.
    rotate_rounds : int
        The order is rotated by one place after this many rounds of the slowest job; 0: never.
    every_ps : int
        Interval at which counters are read, and at which policies whose answers change during flows are queried.
    """

    policy: str = "fifo"
    knowledge: Knowledge = Knowledge.ORACLE
    rotate_rounds: int = 0
    every_ps: int = READ_EVERY_PS

    def __post_init__(self) -> None:
        if self.rotate_rounds < 0:
            raise ValueError(f"rotate_rounds: {self.rotate_rounds}, must be at least 0")
        if self.every_ps < PS_PER_US:
            raise ValueError(f"every_ps: {self.every_ps}, must be at least {PS_PER_US} (1 us)")


@dataclass(frozen=True)
class Governed:
    """Result of a run, and the accuracy of forecasts (None if there were none)."""

    run: PrioritiesResult
    accuracy: Accuracy | None
    readings: int
    """Readings of counters."""
    classes: tuple[int, ...]
    """Class of each job's gradients at the end."""


def run_governed(description: Description, governing: Governing, alone: Sequence[JobAlone]) -> Governed:
    """Run all jobs of a description under a policy.

    Parameters
    ----------
    description : Description
        The network and its jobs.
    governing : Governing
        The policy, and its source of facts.
    alone : sequence of Alone
        Times of each job by itself: known to an oracle, and the unit of errors.

    Raises
    ------
    ClusterError
        When a sum or a count is wrong.
    PlanError
        When the policy is not known, or its answer does not fit.
    """
    with EmbeddedSwitches(description.build(), bundled(description.lanes)) as switches:
        policy = _Governor(description, governing, alone)
        run = PrioritiesRun(description, policy, switches)
        policy.attach(run, switches.controller)
        result = run.result()
        return Governed(result, policy.accuracy(), policy.readings, tuple(job.priority for job, *_ in run.trees))


class _Governor(Fixed):
    """Policy that queries the priority policy after events, and applies its answers."""

    def __init__(self, description: Description, governing: Governing, alone: Sequence[JobAlone]) -> None:
        self._description, self._governing, self._alone = description, governing, alone
        self._waits: dict[tuple[int, int], int] = {}  # by (job, rounds so far): time shift
        self._shifted = False
        self._starts: list[list[int]] = [[] for _ in description.jobs]
        self._watcher: Watcher | None = None
        self._oracle: Oracle | None = None
        self._run: PrioritiesRun | None = None
        self.readings = 0

    def begin(self, description: Description) -> Classes:
        """Put all jobs in the highest class, until the priority policy is queried."""
        return dict.fromkeys(range(len(description.jobs)), JOB_CLASSES[-1])

    def attach(self, run: PrioritiesRun, controller: Controller) -> None:
        """Connect to a run whose jobs are installed and have not begun."""
        self._run, self._controller = run, controller
        match self._governing.knowledge:
            case Knowledge.ORACLE:
                self._oracle = Oracle(self._description, self._alone, run.trees)
            case Knowledge.PREDICTED:
                self._watcher = Watcher(run.trees, self._governing.every_ps)
                self._cells = [[cell for job in own for cell in _cells(job)] for own in run.trees]
        self._chunk_times = [times_of(own) for own in run.trees]
        self._ask(run.seen, 0)
        if self._watcher is not None or asked_within(self._governing.policy):
            run.clockwork.at(0, self._tick)

    # --- events of the jobs

    def started(self, job: JobSeen, jobs: Sequence[JobSeen], now_ps: int) -> Classes | None:
        """Record the start; query the policy only for an oracle, because predictions must not know of it."""
        self._starts[job.number].append(now_ps)
        if self._oracle is not None:
            self._ask(jobs, now_ps)
        return None

    def ended(self, job: JobSeen, jobs: Sequence[JobSeen], now_ps: int) -> Classes | None:
        """Query the policy for an oracle, which knows at once."""
        if self._oracle is not None:
            self._ask(jobs, now_ps)
        return None

    def wait_ps(self, job: JobSeen, now_ps: int) -> int:
        """Return the time shift of a job before one of its rounds."""
        return self._waits.get((job.number, job.iteration), 0)

    def accuracy(self) -> Accuracy | None:
        """Return the accuracy of forecasts from counters; None without counters."""
        if self._watcher is None:
            return None
        periods = [
            job.compute_ps + alone.communication_ps
            for job, alone in zip(self._description.jobs, self._alone, strict=True)
        ]
        return accuracy(self._watcher.told, self._starts, periods, self._description.control_latency_ps)

    # --- queries

    def _tick(self) -> None:
        run = self._attached
        if all(self._over(job) for job in run.seen):
            return
        now = run.network.now
        if self._watcher is not None:
            readings = self._read()
            run.clockwork.at(now + self._description.control_latency_ps, lambda: self._learn(now, readings))
        else:
            self._ask(run.seen, now)
        run.clockwork.at(now + self._governing.every_ps, self._tick)

    def _learn(self, read_ps: int, readings: Mapping[int, CountReading]) -> None:
        run, watcher = self._attached, self._watcher
        assert watcher is not None  # noqa: S101
        if watcher.learn(read_ps, readings, run.network.now) or asked_within(self._governing.policy):
            self._ask(run.seen, run.network.now)

    def _ask(self, seen: Sequence[JobSeen], now_ps: int) -> None:
        situation = Situation(self._facts(seen, now_ps), self._description.seed)
        rounds = min((job.iteration for job in seen), default=0)
        turn = rounds // self._governing.rotate_rounds if self._governing.rotate_rounds else 0
        decision = decide(self._governing.policy, situation, turn=turn, queues=self._description.queues)
        run = self._attached
        run.apply(_classes(decision))
        self._shift(decision, seen)
        if decision.weights:
            self._pace(decision, seen)

    def _facts(self, seen: Sequence[JobSeen], now_ps: int) -> list[JobFacts]:
        if self._oracle is not None:
            return self._oracle.facts(seen, [self._sent(job) for job in seen], now_ps)
        if self._watcher is not None:
            return self._watcher.facts(now_ps)
        return [JobFacts(job_name(number), frozenset(times)) for number, times in enumerate(self._chunk_times)]

    @property
    def _attached(self) -> PrioritiesRun:
        assert self._run is not None  # noqa: S101
        return self._run

    def _over(self, seen: JobSeen) -> bool:
        return seen.iteration == self._description.rounds and (seen.ended_ps or -1) >= (seen.started_ps or 0)

    # --- progress of jobs

    def _sent(self, seen: JobSeen) -> float:
        """Return the share of the running round whose result every worker has; 0 while the job computes."""
        if seen.started_ps is None or (seen.ended_ps is not None and seen.ended_ps >= seen.started_ps):
            return 0.0
        run = self._attached
        records = run.network.endpoints.records
        done = [
            (int(records[index]["low"]) - int(records[index]["start"]))
            / max(1, int(records[index]["end"]) - int(records[index]["start"]))
            for job in run.trees[seen.number]
            for index in job.members.values()
            if job.carried
        ]
        return min(1.0, max(0.0, min(done)))

    def _read(self) -> dict[int, CountReading]:
        """Read every job's counters by P4Runtime."""
        self.readings += 1
        entities = [entry for entries in self._cells for entry in entries]
        sums: dict[int, Counter[str]] = {number: Counter() for number in range(len(self._cells))}
        owner = {(entry.counter_id, entry.index): number for number, own in enumerate(self._cells) for entry in own}
        for answers in self._controller.read(entities).values():
            for answer in answers:
                if isinstance(answer, fy.P4CounterEntry):
                    own = sums[owner[answer.counter_id, answer.index]]
                    own["bytes"] += answer.byte_count
                    own[answer.counter_id] += answer.packet_count
        return {
            number: CountReading(own["bytes"], own["job_received"], own["job_sent"]) for number, own in sums.items()
        }

    # --- applying decisions

    def _shift(self, decision: PriorityDecision, seen: Sequence[JobSeen]) -> None:
        """Set the time shifts, once, when there are facts about all jobs; they apply from the next round on."""
        if self._shifted or not decision.shifts or not (self._watcher is None or self._watcher.complete):
            return
        self._shifted = True
        for job in seen:
            wait = decision.shifts.get(job_name(job.number), 0)
            begun = job.iteration > 0 or job.started_ps is not None
            if wait:
                self._waits[job.number, job.iteration + 1 if begun else 0] = wait

    def _pace(self, decision: PriorityDecision, seen: Sequence[JobSeen]) -> None:
        """Pace sending jobs: they share every link by their weights, and each sends at the least of its shares."""
        run = self._attached
        active = [seen_job.number for seen_job in seen if self._sending(seen_job)]
        for number in active:
            own = decision.weights.get(job_name(number), 1.0)
            pace = 0.0
            for hop, time_ps in self._chunk_times[number].items():
                others = sum(
                    decision.weights.get(job_name(other), 1.0) for other in active if hop in self._chunk_times[other]
                )
                pace = max(pace, time_ps * others / own)
            for job in run.trees[number]:
                _, weight, total = job.plan.part
                for index in job.members.values():
                    run.network.endpoints.change_pace(index, round(pace * total / weight))

    @staticmethod
    def _sending(seen: JobSeen) -> bool:
        return seen.started_ps is not None and (seen.ended_ps is None or seen.ended_ps < seen.started_ps)


def _classes(decision: PriorityDecision) -> dict[int, tuple[int, int]]:
    """Return the classes of each job's gradients and parameters: those of its newest batch."""
    newest = {(flow.job, flow.kind): value for flow, value in decision.classes.items() if flow.lag == 0}
    names = sorted({name for name, _ in newest})
    return {
        number: (newest[name, LaneDirection.PUSH], newest[name, LaneDirection.PULL])
        for number, name in enumerate(names)
    }


def _cells(job: Job) -> list[fy.P4CounterEntry]:
    """Return the counter cells of a job: contributions and results, first transmissions only."""
    stats = job.plan.grant.stats
    return [
        fy.P4CounterEntry("job_received", index=stats_cell(stats, "PUSH", resend=False)),
        fy.P4CounterEntry("job_sent", index=stats_cell(stats, "RESULT", resend=False)),
    ]
