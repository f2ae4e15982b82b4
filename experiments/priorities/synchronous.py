"""A job whose workers wait for each other's gradients in every round."""

from p4reduce.control_plane.plans import PlanRequest
from p4reduce.experiments.priorities.models import FloatArray
from p4reduce.experiments.priorities.stage import JobResult, Stage
from p4reduce.jobs.job import Job
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective


class Synchronous:
    """Rounds of one job: every worker computes, pushes its gradient, and goes on with the weights that come back."""

    def __init__(self, stage: Stage, number: int, pushes: int, pulls: int) -> None:
        self._stage, self._number = stage, number
        self._about = about = stage.description.jobs[number]
        self._seen, self._model = stage.seen[number], stage.model(number)
        request = PlanRequest(about.plan, job=number + 1, workers=about.workers, server=about.server, priority=pushes)
        plan = stage.controller.start_job(request)
        if pulls != pushes:
            stage.controller.change_priority(plan, pushes, pulls)
        self._job = stage.network.add(plan, self._model.numbers)
        stage.network.set_class(self._job, pushes, pulls)
        self.jobs: list[Job] = [self._job]
        self.writes = 0
        self._weights = self._model.initial()
        self._pulled = [self._weights.copy() for _ in about.workers]
        self._ends: list[list[int]] = [[] for _ in about.workers]

    def begin(self) -> None:
        """Its workers begin to compute."""
        self._serve(0)
        for rank in range(len(self._about.workers)):
            self._compute(rank, self._about.start_ps)

    def _compute(self, rank: int, now_ps: int) -> None:
        """A worker computes its next round; afterwards it communicates."""
        iteration = len(self._ends[rank])
        if iteration < self._stage.description.rounds:
            begin = now_ps + self._stage.policy.wait_ps(self._seen, now_ps)
            lasts = self._stage.description.compute_ps(self._about, rank, iteration)
            gradient = self._model.gradient(rank, iteration, self._pulled[rank])
            self._stage.clockwork.at(begin + lasts, lambda: self._push(rank, iteration, gradient))

    def _push(self, rank: int, iteration: int, gradient: FloatArray) -> None:
        stage, now = self._stage, self._stage.network.now
        if self._seen.iteration == iteration:  # the first of the round
            self._seen.iteration, self._seen.started_ps = iteration + 1, now
            self._job.note("push_pull", self._model.elements)
            stage.apply(stage.policy.started(self._seen, stage.seen, now))
        post = Post(Collective.PUSH_PULL, gradient, self._pulled[rank], iteration)
        index = self._job.members[self._about.workers[rank]]
        stage.clockwork.post(index, post, lambda done_ps: self._pulled_by(rank, done_ps))

    def _pulled_by(self, rank: int, done_ps: int) -> None:
        stage, ends = self._stage, self._ends
        ends[rank].append(done_ps)
        self._model.applied(done_ps, self._pulled[rank])
        rounds = len(ends[rank])
        if min(map(len, ends)) == rounds:  # the last of its round
            self._seen.ended_ps = max(own[rounds - 1] for own in ends)
            self._seen.bytes_sent = stage.sent(self.jobs, "bytes_sent")
            stage.apply(stage.policy.ended(self._seen, stage.seen, stage.network.now))
        self._compute(rank, done_ps)

    def _serve(self, iteration: int) -> None:
        """The global model takes part in round after round."""
        if iteration < self._stage.description.rounds:
            assert self._job.server is not None  # noqa: S101
            rate = self._model.learning_rate
            served = Post(Collective.PUSH_PULL, None, self._weights, iteration, learning_rate=rate)
            self._stage.clockwork.post(self._job.server, served, lambda _done: self._serve(iteration + 1))

    def check(self) -> None:
        """The weights are what they must be, everywhere. Raises ``ClusterError``."""
        for name, own in [("the server", self._weights), *zip(self._about.workers, self._pulled, strict=True)]:
            self._model.check(f"job {self._number}, {name}", own)

    def result(self) -> JobResult:
        """What came of it."""
        ends = [max(own[k] for own in self._ends) for k in range(self._stage.description.rounds)]
        frames, resends = (self._stage.sent(self.jobs, name) for name in ("frames_sent", "resends"))
        return JobResult(ends, self._about.start_ps, frames, resends, self._ends, scores=self._model.scores)
