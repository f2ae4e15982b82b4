"""Run a description on packets and measure times: the jobs of a run on one network, under one policy.

Gradients are small whole numbers, the same in every round, and weights fall by their sum. So the final global model is
known to the last bit, in whatever order frames arrive.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from p4reduce.control_plane.counters import Traffic, add
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.control_plane.plans.best import FORESTS
from p4reduce.control_plane.scheduling import NetworkState, Task, plan_requests, policy_named
from p4reduce.group.errors import ClusterError
from p4reduce.network.jobs.asynchronous import (
    AsynchronousTraining,
    BatchOrder,
    Clockwork,
    ControllerOrder,
    Done,
    SwitchOrder,
    group_of,
    install,
)
from p4reduce.network.jobs.network import EmbeddedSwitches, Job, JobNetwork, bundled, parts_of
from p4reduce.play.priorities.description import POLICIES, Classes, ClassWriter, Description, JobSeen, RunningPolicy
from p4reduce.play.priorities.models import Digits, FloatArray, GradientModel, Score, WholeNumbers
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective

# State shared by all jobs of a run: the network, its clock, the controller, and the present classes of jobs.


@dataclass
class JobResult:
    """Result of a job; times in virtual picoseconds."""

    ends_ps: list[int] = field(default_factory=list)
    """Time of each round at which the last worker had the result."""
    started_ps: int = 0
    frames: int = 0
    """Frames that its hosts sent, resends included."""
    resends: int = 0
    by_worker_ps: list[list[int]] = field(default_factory=list)
    """Ends of the rounds of each worker."""
    most_ahead: int = 0
    """Most rounds by which a worker was ahead of the slowest when it began to communicate."""
    scores: list[Score] = field(default_factory=list)
    """Scores of the digits, after each round's worth of gradients."""

    @property
    def completion_ps(self) -> int:
        """Time from its start to the end of its last round."""
        return self.ends_ps[-1] - self.started_ps

    @property
    def iteration_ps(self) -> float:
        """Mean time of a round."""
        return self.completion_ps / len(self.ends_ps)


class JobStage:
    """Network, classes and models shared by the jobs of a run."""

    def __init__(self, description: Description, policy: RunningPolicy, switches: EmbeddedSwitches) -> None:
        self.description, self.policy, self.controller = description, policy, switches.controller
        self.network = JobNetwork(switches, queue_frames=description.queue_frames, seed=description.seed)
        self.clockwork = Clockwork(self.network)
        self.classes = ClassWriter(self.clockwork, switches.controller, description.control_latency_ps)
        self.seen = [JobSeen(number) for number in range(len(description.jobs))]
        self.parts: list[list[Job]] = []
        """Jobs in the network of each job of the description."""

    def model(self, number: int) -> GradientModel:
        """Make the model that the workers of a job compute."""
        about = self.description.jobs[number]
        if about.model == "digits":
            return Digits(len(about.workers), self.description.seed)
        return WholeNumbers(about.elements, len(about.workers), self.description.rounds)

    def apply(self, classes: Classes | None) -> None:
        """Change the classes of jobs: at hosts now, in switches one control latency later."""
        for number, wanted in (classes or {}).items():
            for job in self.parts[number]:
                self.classes.change(job, *both(wanted))

    def sent(self, jobs: list[Job], name: str) -> int:
        """Return a counter of endpoints, summed over all hosts of some jobs."""
        records = self.network.endpoints.records
        return sum(int(records[index][name]) for job in jobs for index in job.endpoints)


def both(wanted: int | tuple[int, int]) -> tuple[int, int]:
    """Return the classes of a job's gradients and of its parameters."""
    return (wanted, wanted) if isinstance(wanted, int) else wanted


class Training(ABC):
    """A job of a run: rounds of all its workers."""

    jobs: list[Job]
    """Its jobs in the network: one, or one for each worker."""
    writes = 0
    """Entries that were written for the order of its batches."""
    most_ahead = 0
    """As in ``JobResult``."""

    def __init__(self, stage: JobStage, number: int) -> None:
        self._stage, self._number = stage, number
        self._about = stage.description.jobs[number]
        self._seen, self._model = stage.seen[number], stage.model(number)
        self._weights = self._model.initial()
        self._ends: list[list[int]] = [[] for _ in self._about.workers]

    @abstractmethod
    def begin(self) -> None:
        """Start the workers' computations."""

    @abstractmethod
    def check(self) -> None:
        """Check the weights of all hosts. Raises ``ClusterError``."""

    def result(self) -> JobResult:
        """Return the result of the job."""
        ends = [max(own[k] for own in self._ends) for k in range(self._stage.description.rounds)]
        frames, resends = (self._stage.sent(self.jobs, name) for name in ("frames_sent", "resends"))
        return JobResult(ends, self._about.start_ps, frames, resends, self._ends, self.most_ahead, self._model.scores)


# Jobs whose workers do not wait for each other, or for a bounded number of rounds only.


JOBS_APART = 64
"""Job numbers reserved for the workers of each such job."""
UNORDERED = ("none", "strangers")
MOST = 3
"""Classes above its lowest that the job's batches use."""


class Stale(Training):
    """Rounds of one asynchronous or stale-synchronous job."""

    def __init__(self, stage: JobStage, number: int, pushes: int, pulls: int) -> None:
        del pulls
        super().__init__(stage, number)
        about = self._about
        base = pushes if about.order in UNORDERED else max(1, pushes - MOST)
        self._job = install(
            stage.network,
            stage.controller,
            about.workers,
            about.server,
            self._weights,
            first_job=JOBS_APART * (number + 1),
            priority=base,
            by_batch=about.order != "strangers",
        )
        self.jobs = self._job.jobs
        self._order = self._ordered(base)
        self._training = AsynchronousTraining(
            stage.clockwork,
            self._job,
            self,
            iterations=stage.description.rounds,
            staleness=about.staleness,
            learning_rate=self._model.learning_rate,
            moved=None if self._order is None else self._order.moved,
        )

    def _ordered(self, base: int) -> BatchOrder | None:
        stage, about = self._stage, self._about
        if about.order in UNORDERED:
            return None
        group = group_of(self._job, self._number, base, MOST)
        if about.order == "switch":
            return SwitchOrder(stage.clockwork, stage.controller, self._job, group)
        return ControllerOrder(
            stage.clockwork,
            stage.controller,
            self._job,
            group,
            staleness=about.staleness,
            latency_ps=stage.description.control_latency_ps,
            rebase=about.rebase,
        )

    def begin(self) -> None:
        """Start the workers' computations."""
        self._training.begin(self._about.start_ps)

    def compute_ps(self, rank: int, iteration: int) -> int:
        """Return the picoseconds that a worker computes in a round."""
        return self._stage.description.compute_ps(self._about, rank, iteration)

    def gradient(self, rank: int, iteration: int, weights: FloatArray) -> FloatArray:
        """Return the model's gradient."""
        return self._model.gradient(rank, iteration, weights)

    def pulled(self, rank: int, iteration: int, done_ps: int, weights: FloatArray) -> None:
        """Note the end of a worker's round."""
        del iteration, weights
        self._model.applied(done_ps, self._weights)
        self._ends[rank].append(done_ps)
        self._seen.iteration = self._training.staleness.newest
        self._seen.ended_ps = done_ps

    def check(self) -> None:
        """Check the server's weights. Raises ``ClusterError``."""
        self._model.check(f"job {self._number}, the server", self._weights)

    def result(self) -> JobResult:
        """Return the result of the job."""
        self.writes = 0 if self._order is None else self._order.writes
        self.most_ahead = self._training.most_ahead
        return super().result()


# Jobs whose workers wait for each other's gradients in every round.


class Synchronous(Training):
    """Rounds of one job: every worker computes, pushes its gradient, and continues with the weights that come back."""

    def __init__(self, stage: JobStage, number: int, pushes: int, pulls: int) -> None:
        super().__init__(stage, number)
        about = self._about
        self.jobs: list[Job] = []
        for request in self._requests(pushes):
            plan = stage.controller.start_job(request)
            if pulls != pushes:
                stage.controller.change_priority(plan, pushes, pulls)
            self.jobs.append(stage.network.add(plan, self._model.numbers))
            stage.network.set_class(self.jobs[-1], pushes, pulls)
        self._pulled = [self._weights.copy() for _ in about.workers]

    def _requests(self, priority: int) -> list[PlanRequest]:
        """Return the plan requests of the job, in a class."""
        about = self._about
        return [
            PlanRequest(about.plan, self._number + 1, workers=about.workers, server=about.server, priority=priority)
        ]

    def begin(self) -> None:
        """Start the workers' computations."""
        self._serve(0)
        for rank in range(len(self._about.workers)):
            self._compute(rank, self._about.start_ps)

    def _compute(self, rank: int, now_ps: int) -> None:
        """Compute a worker's next round; afterwards it communicates."""
        iteration = len(self._ends[rank])
        if iteration < self._stage.description.rounds:
            begin = now_ps + self._stage.policy.wait_ps(self._seen, now_ps)
            lasts = self._stage.description.compute_ps(self._about, rank, iteration)
            gradient = self._model.gradient(rank, iteration, self._pulled[rank])
            self._stage.clockwork.at(begin + lasts, lambda: self._push(rank, iteration, gradient))

    def _push(self, rank: int, iteration: int, gradient: FloatArray) -> None:
        stage, now = self._stage, self._stage.network.now
        if self._seen.iteration == iteration:  # first worker of the round
            self._seen.iteration, self._seen.started_ps = iteration + 1, now
            self._note()
            stage.apply(stage.policy.started(self._seen, stage.seen, now))
        self._communicate(rank, iteration, gradient)

    def _note(self) -> None:
        """Record a round's collective, which is about to begin."""
        self.jobs[0].note("push_pull", self._model.elements)

    def _communicate(self, rank: int, iteration: int, gradient: FloatArray) -> None:
        """Push a worker's gradient and pull the weights."""
        post = Post(Collective.PUSH_PULL, gradient, self._pulled[rank], iteration)
        index = self.jobs[0].members[self._about.workers[rank]]
        self._stage.clockwork.post(index, post, lambda done_ps: self._pulled_by(rank, done_ps))

    def _pulled_by(self, rank: int, done_ps: int) -> None:
        stage, ends = self._stage, self._ends
        ends[rank].append(done_ps)
        self._model.applied(done_ps, self._pulled[rank])
        rounds = len(ends[rank])
        if min(map(len, ends)) == rounds:  # last worker of its round
            self._seen.ended_ps = max(own[rounds - 1] for own in ends)
            self._seen.bytes_sent = stage.sent(self.jobs, "bytes_sent")
            stage.apply(stage.policy.ended(self._seen, stage.seen, stage.network.now))
        self._compute(rank, done_ps)

    def _serve(self, iteration: int) -> None:
        """Have the server take part in round after round."""
        if iteration < self._stage.description.rounds:
            server = self.jobs[0].server
            assert server is not None  # noqa: S101
            rate = self._model.learning_rate
            served = Post(Collective.PUSH_PULL, None, self._weights, iteration, learning_rate=rate)
            self._stage.clockwork.post(server, served, lambda _done: self._serve(iteration + 1))

    def check(self) -> None:
        """Check the weights of all hosts. Raises ``ClusterError``."""
        for name, own in [("the server", self._weights), *zip(self._about.workers, self._pulled, strict=True)]:
            self._model.check(f"job {self._number}, {name}", own)


class Exchanging(Synchronous):
    """A job in several trees at once: hosts exchange gradients, the server zeros, and each host updates its weights."""

    _serves = False

    def _requests(self, priority: int) -> list[PlanRequest]:
        about, stage = self._about, self._stage
        task = Task(about.name or f"job {self._number}", about.server, about.workers, self._model.elements)
        state = NetworkState(stage.network.switches.topology)
        decision = policy_named(about.plan)(task, state, lanes=stage.description.lanes)
        return plan_requests(decision, job=JOBS_APART * (self._number + 1), priority=priority)

    def _note(self) -> None:
        for job, part in parts_of(self.jobs, self._model.elements):
            job.note("all_reduce", part.stop - part.start)
        if not self._serves:
            self._serve(self._seen.iteration - 1)

    def _communicate(self, rank: int, iteration: int, gradient: FloatArray) -> None:
        host, weights = self._about.workers[rank], self._pulled[rank]
        self._exchange(host, iteration, gradient, weights, lambda done_ps: self._pulled_by(rank, done_ps))

    def _serve(self, iteration: int) -> None:
        """Have the server's host take part once the first worker does, so that counters show when a round begins."""
        self._serves = self._seen.iteration > iteration
        if self._serves:
            zeros = np.zeros_like(self._weights)
            self._exchange(self._about.server, iteration, zeros, self._weights, lambda _: self._serve(iteration + 1))

    def _exchange(self, host: str, iteration: int, given: FloatArray, weights: FloatArray, then: Done) -> None:
        """Have a host take part in an all-reduce, and update its weights afterwards."""
        total = np.zeros_like(given)
        parts = parts_of(self.jobs, self._model.elements)
        ends: list[int] = []

        def done(done_ps: int) -> None:
            ends.append(done_ps)
            if len(ends) == len(parts):
                weights[:] -= np.float32(self._model.learning_rate / len(self._about.workers)) * total
                then(max(ends))

        for job, part in parts:
            post = Post(Collective.ALL_REDUCE, given[part], total[part], iteration)
            self._stage.clockwork.post(job.members[host], post, done)


@dataclass
class PrioritiesResult:
    """Result of a run."""

    jobs: list[JobResult]
    writes: int
    """Entries of switches that were written while the jobs ran."""
    first_bytes: int
    """Bytes of first transmissions, summed over all directed links; equal to the prediction."""
    resend_bytes: int

    @property
    def resend_share(self) -> float:
        """Share of frames sent again among all frames that hosts sent."""
        return sum(job.resends for job in self.jobs) / max(1, sum(job.frames for job in self.jobs))


def run(description: Description, policy: str = "fifo") -> PrioritiesResult:
    """Run all jobs of a description. Raises ``ClusterError`` if a sum or a count is wrong."""
    with EmbeddedSwitches(description.build(), bundled(description.lanes)) as switches:
        return PrioritiesRun(description, POLICIES[policy](), switches).result()


class PrioritiesRun(JobStage):
    """One run: the jobs, installed with their first classes, on a separate network."""

    def __init__(self, description: Description, policy: RunningPolicy, switches: EmbeddedSwitches) -> None:
        super().__init__(description, policy, switches)
        first = policy.begin(description)
        self._training: list[Training] = []
        for number, described in enumerate(description.jobs):
            kind = Stale if described.asynchronous else Exchanging if described.plan in FORESTS else Synchronous
            training: Training = kind(self, number, *both(first[number]))
            self._training.append(training)
            self.parts.append(training.jobs)
        pairs = zip(description.jobs, self.parts, strict=True)
        self.trees = [parts[:1] if described.asynchronous else parts for described, parts in pairs]
        """Jobs that carry each job of the description; for an asynchronous job only the first."""

    def result(self) -> PrioritiesResult:
        """Run all jobs to the end, and check the results."""
        with self.network:
            for training in self._training:
                training.begin()
            self.clockwork.run()
            self.network.advance()  # frames still in flight
            for training in self._training:
                training.check()
            first, resent = self._count()
            results = [training.result() for training in self._training]
            writes = self.classes.writes + sum(training.writes for training in self._training)
            return PrioritiesResult(results, writes, first, resent)

    def _count(self) -> tuple[int, int]:
        """Return bytes of first transmissions, checked against predictions, and of resends; raise ``ClusterError``."""
        predicted = add(*(job.predicted() for parts in self.parts for job in parts))
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
