"""What policies are told of jobs while these run: by an oracle, by the switches' counters, or nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import Final

from p4reduce.base.units import PS_PER_US
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.priorities import FlowDetector, Forecast, JobFacts, Predictor
from p4reduce.experiments.priorities.description import Description
from p4reduce.experiments.priorities.policies import JobSeen
from p4reduce.jobs.waiting import chunk_times

READ_EVERY_PS: Final = 20 * PS_PER_US
QUIET_READINGS: Final = 4
"""without bytes, after which a flow may have ended"""


class Knowledge(Enum):
    """Who tells a policy about jobs."""

    ORACLE = "oracle"
    """everything, exactly and at once"""
    PREDICTED = "predicted"
    """what follows from the switches' counters, one control latency late"""
    NONE = "none"
    """nobody"""


@dataclass(frozen=True)
class Alone:
    """A job that has the network to itself."""

    communication_ps: int
    """of a round"""
    completion_ps: int
    """of all rounds of the description"""


def job_name(number: int) -> str:
    """How policies call a job of a description; names sort as numbers do."""
    return f"job{number:04}"


class Oracle:
    """Knows the description, times alone, and how far every job has come."""

    def __init__(self, description: Description, alone: Sequence[Alone], plans: Sequence[Plan]) -> None:
        self._description, self._alone = description, alone
        self._links = [frozenset(chunk_times(plan)) for plan in plans]

    def facts(self, seen: Sequence[JobSeen], sent: Sequence[float], now_ps: int) -> list[JobFacts]:
        """Of all jobs."""
        return [self._of(one, share, now_ps) for one, share in zip(seen, sent, strict=True)]

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
class Reading:
    """What the switches of a job have counted since it began: first transmissions only.

    For every contribution that a switch accepts it sends a result the same way back, so the two numbers of frames are
    equal unless the job waits for somebody.
    """

    bytes: int
    came: int
    """contributions"""
    answered: int
    """results"""


@dataclass(frozen=True)
class Told:
    """A forecast of one flow of a job, and when it was there to be used."""

    iteration: int
    forecast: Forecast
    known_ps: int


class Watcher:
    """Knows what counters of jobs tell: flows that have ended, and the next ones.

    ``told`` has every forecast of each job, for reports of their error.
    """

    def __init__(self, plans: Sequence[Plan], read_every_ps: int) -> None:
        self._links = [frozenset(chunk_times(plan)) for plan in plans]
        self._detectors = [FlowDetector(QUIET_READINGS * read_every_ps) for _ in plans]
        self._predictors = [Predictor() for _ in plans]
        self._flows: list[set[int]] = [set() for _ in plans]
        self.told: list[list[Told]] = [[] for _ in plans]

    def learn(self, read_ps: int, readings: Mapping[int, "Reading"], now_ps: int) -> bool:
        """Readings of some jobs' counters, by number, have arrived; whether a flow has ended."""
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
                self.told[number].append(Told(len(self._flows[number]), forecast, now_ps))
        return ended

    @property
    def complete(self) -> bool:
        """Whether there is a forecast for every job."""
        return all(self.told)

    def facts(self, now_ps: int) -> list[JobFacts]:
        """Of all jobs; what is not known yet is None."""
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
    """How good forecasts were, over all jobs and all rounds for which there was one.

    Attributes
    ----------
    rounds : int
        Of all jobs, but for those before two flows of the job had ended.
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
        """1 where there was no forecast."""
        return median(self.errors) if self.errors else 1.0

    @property
    def median_lead(self) -> float:
        """0 where there was no forecast."""
        return median(self.leads) if self.leads else 0.0

    @property
    def in_time_share(self) -> float:
        """Of the rounds."""
        return self.in_time / self.rounds if self.rounds else 0.0


FIRST_FORECAST: Final = 2
"""the first round, from 0, that can be forecast: two flows have ended"""


def accuracy(
    told: Sequence[Sequence[Told]], starts: Sequence[Sequence[int]], periods: Sequence[int], write_ps: int
) -> Accuracy:
    """Compare forecasts with the first frames of each job's rounds; ``write_ps``: from a forecast to its class."""
    errors, leads, rounds, in_time = [], [], 0, 0
    for own, actual, period in zip(told, starts, periods, strict=True):
        last = {one.iteration: one for one in own}  # a flow that went on has two; the last one counts
        for iteration, start in enumerate(actual):
            if iteration < FIRST_FORECAST:
                continue
            rounds += 1
            if iteration in last:
                one = last[iteration]
                errors.append(abs(one.forecast.start_ps - start) / period)
                leads.append((start - one.known_ps) / period)
                in_time += one.known_ps + write_ps <= start
    return Accuracy(rounds, tuple(errors), tuple(leads), in_time)
