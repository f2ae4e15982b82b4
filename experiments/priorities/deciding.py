"""What a policy is told of the jobs of a run, and when it is asked.

Here an oracle tells: bytes, links and times are those of the plans and descriptions. Where they are predicted instead,
another source of `JobFacts` takes its place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from p4reduce.base.units import PS_PER_US
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.predict import Operation, predict
from p4reduce.control_plane.priorities import Decision, JobFacts, Situation, decide
from p4reduce.control_plane.priorities.policy import asked_within
from p4reduce.experiments.priorities.description import Description
from p4reduce.jobs.waiting import chunk_times

WITHIN_PS: Final = 20 * PS_PER_US
"""how often policies are asked that go by what a running communication has sent"""


@dataclass
class JobSeen:
    """What a job has done so far; times in picoseconds, None before there is one."""

    number: int
    iteration: int = 0
    """rounds that its first worker has begun to communicate in"""
    started_ps: int | None = None
    """when the first worker's first frame of its present or last communication could leave"""
    ended_ps: int | None = None
    """when the last worker had the result of the last round that all have"""
    share_sent: float = 0.0
    """of the running round's chunks, by the slowest worker"""

    @property
    def communicating(self) -> bool:
        """Whether a round is under way."""
        return self.started_ps is not None and (self.ended_ps is None or self.ended_ps < self.started_ps)


class Facts(Protocol):
    """Where facts about jobs come from."""

    def of(self, seen: JobSeen, now_ps: int) -> JobFacts:
        """Of one job now."""


def job_name(number: int) -> str:
    """What policies know a job by."""
    return f"job{number:03d}"


class Oracle:
    """Facts that are told: of the plans and the description."""

    def __init__(self, description: Description, plans: Sequence[Plan]) -> None:
        self._description, self._links, self._bytes, self._lasts = description, [], [], []
        for job, plan in zip(description.jobs, plans, strict=True):
            once = predict(plan, Operation.PUSH_PULL, job.elements)
            self._links.append(frozenset(chunk_times(plan)))
            self._bytes.append(max(traffic.bytes for traffic in once.values()))
            self._lasts.append(-(-job.elements // plan.lanes) * plan.chunk_ps + plan.rtt_ps)

    def of(self, seen: JobSeen, now_ps: int) -> JobFacts:
        """Of one job now."""
        number = seen.number
        compute = round(self._description.jobs[number].compute_ps)
        since = self._description.jobs[number].start_ps if seen.ended_ps is None else seen.ended_ps
        share = seen.share_sent if seen.communicating else 0.0
        period = compute + self._lasts[number]
        started = seen.started_ps or 0
        return JobFacts(
            job_name(number),
            self._links[number],
            period,
            compute,
            self._lasts[number],
            self._bytes[number],
            sent=share,
            attained=round(share * self._bytes[number]),
            next_ps=(started if seen.communicating else since + compute) - now_ps,
            deadline_ps=(started + self._lasts[number] if seen.communicating else since + period) - now_ps,
            newest=max(seen.iteration - 1, 0),
            oldest=max(seen.iteration - 1, 0),
        )


class Decider:
    """Asks one policy about all jobs of a run."""

    def __init__(self, policy: str, description: Description, facts: Facts) -> None:
        self.policy, self._description, self._facts = policy, description, facts

    @property
    def within(self) -> bool:
        """Whether it goes by what a running communication has sent."""
        return asked_within(self.policy)

    def decide(self, jobs: Sequence[JobSeen], now_ps: int) -> Decision:
        """Its answer now."""
        situation = Situation((self._facts.of(one, now_ps) for one in jobs), self._description.seed)
        return decide(self.policy, situation, queues=self._description.queues)
