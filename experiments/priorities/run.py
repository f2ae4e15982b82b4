"""From a description to packets to times: the jobs of a run on one network, under one policy.

Gradients are small whole numbers, the same in every round, and weights fall by their sum: what the global model has at
the end is known to the last bit, whatever order frames came in.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.control_plane.predict import Traffic, add
from p4reduce.experiments.priorities.classes import ClassWriter
from p4reduce.experiments.priorities.description import Description, JobDescription
from p4reduce.experiments.priorities.policies import POLICIES, Classes, JobSeen, Policy
from p4reduce.jobs.clockwork import Clockwork
from p4reduce.jobs.job import Job
from p4reduce.jobs.network import JobNetwork
from p4reduce.jobs.programs import bundled
from p4reduce.jobs.switches import EmbeddedSwitches
from p4reduce.workers.numbers import FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective

NUMBERS: Final = FixedScale(1.0)
"""Gradients are whole numbers already."""
_LARGEST: Final = 8
FloatArray = NDArray[np.float32]


@dataclass
class JobResult:
    """What came of a job; times in virtual picoseconds."""

    ends_ps: list[int] = field(default_factory=list)
    """of its rounds: when the last worker had the result"""
    started_ps: int = 0
    frames: int = 0
    """that its hosts sent, resends among them"""
    resends: int = 0
    by_worker_ps: list[list[int]] = field(default_factory=list)
    """ends of the rounds of each worker"""

    @property
    def completion_ps(self) -> int:
        """From its start to the end of its last round."""
        return self.ends_ps[-1] - self.started_ps

    @property
    def iteration_ps(self) -> float:
        """Mean of a round."""
        return self.completion_ps / len(self.ends_ps)


@dataclass
class RunResult:
    """What came of a run."""

    jobs: list[JobResult]
    writes: int
    """entries of switches that were written while the jobs ran"""
    first_bytes: int
    """of first transmissions, summed over all directed links; they are those that were predicted"""
    resend_bytes: int

    @property
    def resend_share(self) -> float:
        """Of all frames that hosts sent."""
        return sum(job.resends for job in self.jobs) / max(1, sum(job.frames for job in self.jobs))


def run(description: Description, policy: str = "fifo") -> RunResult:
    """Carry all jobs of a description out. ``ClusterError`` when a sum or a count is wrong."""
    with EmbeddedSwitches(description.build(), bundled(description.lanes)) as switches:
        return Run(description, POLICIES[policy](), switches).result()


class Run:
    """One run: the jobs, installed with their first classes, on a network of their own."""

    def __init__(self, description: Description, policy: Policy, switches: EmbeddedSwitches) -> None:
        self.description, self.policy = description, policy
        self.network = JobNetwork(switches, queue_frames=description.queue_frames, seed=description.seed)
        self.clockwork = Clockwork(self.network)
        self.classes = ClassWriter(self.clockwork, switches.controller, description.control_latency_ps)
        self.seen = [JobSeen(number) for number in range(len(description.jobs))]
        controller = switches.controller
        first = policy.begin(description)
        self.jobs: list[Job] = []
        for number, one in enumerate(description.jobs):
            pushes, pulls = _both(first[number])
            plan = controller.start_job(_request(number, one, pushes))
            if pulls != pushes:
                controller.change_priority(plan, pushes, pulls)
            self.jobs.append(self.network.add(plan, NUMBERS))
            self.network.set_class(self.jobs[-1], pushes, pulls)
        self._training = [_Synchronous(self, number) for number in range(len(self.jobs))]

    def result(self) -> RunResult:
        """Let everything happen, and check it."""
        with self.network:
            for one in self._training:
                one.begin()
            self.clockwork.run()
            self.network.advance()  # what is still on its way
            for one in self._training:
                one.check()
            first, resent = self._count()
            return RunResult([one.result() for one in self._training], self.classes.writes, first, resent)

    def apply(self, classes: Classes | None) -> None:
        """Jobs get other classes than they have: at hosts now, in switches one control latency later."""
        for number, wanted in (classes or {}).items():
            self.classes.change(self.jobs[number], *_both(wanted))

    def _count(self) -> tuple[int, int]:
        """First transmissions and resends on all links. ``ClusterError`` where the former are not those predicted."""
        predicted = add(*(job.predicted() for job in self.jobs))
        first = resent = 0
        for hop, link in self.network.fabric.links.items():
            expected = predicted.get(hop, Traffic(0, 0))
            if (link.inc_first_frames, link.inc_first_bytes) != (expected.frames, expected.bytes):
                raise ClusterError(
                    f"link {hop[0]}:{hop[1]}: {link.inc_first_frames} first transmissions of {link.inc_first_bytes} "
                    f"bytes, predicted {expected.frames} of {expected.bytes}"
                )
            first, resent = first + link.inc_first_bytes, resent + link.inc_resend_bytes
        return first, resent


class _Synchronous:
    """A job whose workers wait for each other's gradients in every round."""

    def __init__(self, run: Run, number: int) -> None:
        self._run, self._number = run, number
        self._about: JobDescription = run.description.jobs[number]
        self._job, self._seen = run.jobs[number], run.seen[number]
        self._gradients = [_gradient(rank, self._about.elements) for rank in range(len(self._about.workers))]
        self._weights = np.zeros(self._about.elements, np.float32)
        self._pulled = [np.zeros(self._about.elements, np.float32) for _ in self._about.workers]
        self._ends: list[list[int]] = [[] for _ in self._about.workers]

    def begin(self) -> None:
        self._serve(0, 0)
        for rank in range(len(self._about.workers)):
            self._compute(rank, self._about.start_ps)

    def _compute(self, rank: int, now_ps: int) -> None:
        """A worker computes its next round; afterwards it communicates."""
        iteration = len(self._ends[rank])
        if iteration < self._run.description.rounds:
            begin = now_ps + self._run.policy.wait_ps(self._seen, now_ps)
            lasts = self._run.description.compute_ps(self._about, rank, iteration)
            self._run.clockwork.at(begin + lasts, lambda: self._push(rank, iteration))

    def _push(self, rank: int, iteration: int) -> None:
        run, now = self._run, self._run.network.now
        if all(len(ends) <= iteration for ends in self._ends) and self._seen.iteration < iteration + 1:
            self._seen.iteration, self._seen.started_ps = iteration + 1, now
            self._job.note("push_pull", self._about.elements)
            run.apply(run.policy.started(self._seen, run.seen, now))
        gradient = Post(Collective.PUSH_PULL, self._gradients[rank], self._pulled[rank], iteration)
        index = self._job.members[self._about.workers[rank]]
        run.clockwork.post(index, gradient, lambda done_ps: self._pulled_by(rank, done_ps))

    def _pulled_by(self, rank: int, done_ps: int) -> None:
        run, ends = self._run, self._ends
        ends[rank].append(done_ps)
        if min(map(len, ends)) == len(ends[rank]):  # the last of its round
            self._seen.ended_ps = max(own[len(ends[rank]) - 1] for own in ends)
            self._seen.bytes_sent = sum(self._sent("bytes_sent"))
            run.apply(run.policy.ended(self._seen, run.seen, run.network.now))
        self._compute(rank, done_ps)

    def _serve(self, iteration: int, done_ps: int) -> None:
        """The global model takes part in round after round."""
        del done_ps
        if iteration < self._run.description.rounds:
            assert self._job.server is not None  # noqa: S101
            rate = float(len(self._about.workers))
            served = Post(Collective.PUSH_PULL, None, self._weights, iteration, learning_rate=rate)
            self._run.clockwork.post(self._job.server, served, lambda done: self._serve(iteration + 1, done))

    def check(self) -> None:
        """The weights are what they must be, everywhere. Raises ``ClusterError``."""
        total = np.stack(self._gradients).astype(np.float64).sum(axis=0)
        expected = (-self._run.description.rounds * total).astype(np.float32)
        for name, own in [("the server", self._weights), *zip(self._about.workers, self._pulled, strict=True)]:
            if not np.array_equal(own, expected):
                wrong = int(np.flatnonzero(own != expected)[0])
                raise ClusterError(
                    f"job {self._number}, {name}: element {wrong} is {own[wrong]}, must be {expected[wrong]}"
                )

    def _sent(self, name: str) -> list[int]:
        records = self._run.network.endpoints.records
        return [int(records[index][name]) for index in self._job.endpoints]

    def result(self) -> JobResult:
        ends = [max(own[k] for own in self._ends) for k in range(self._run.description.rounds)]
        frames, resends = sum(self._sent("frames_sent")), sum(self._sent("resends"))
        return JobResult(ends, self._about.start_ps, frames, resends, self._ends)


def _request(number: int, job: JobDescription, priority: int) -> PlanRequest:
    return PlanRequest(job.plan, job=number + 1, workers=job.workers, server=job.server, priority=priority)


def _both(wanted: int | tuple[int, int]) -> tuple[int, int]:
    """Of a job's gradients and of its parameters."""
    return (wanted, wanted) if isinstance(wanted, int) else wanted


@lru_cache(maxsize=128)
def _gradient(rank: int, elements: int) -> FloatArray:
    """Whole numbers of -8..8, float32."""
    drawn = np.random.Generator(np.random.Philox(key=[rank, elements])).integers(-_LARGEST, _LARGEST + 1, elements)
    return drawn.astype(np.float32)
