"""A job whose workers do not wait for each other, or for a bounded time only."""

from p4reduce.experiments.priorities.models import FloatArray
from p4reduce.experiments.priorities.stage import JobResult, Stage
from p4reduce.jobs.asynchronous import AsynchronousTraining, install
from p4reduce.jobs.batch_order import BatchOrder, ControllerOrder, SwitchOrder, group_of

JOBS_APART = 64
"""numbers that each such job has for its workers"""
UNORDERED = ("none", "strangers")
MOST = 3
"""classes above the lowest of its own, that its batches are put into"""


class Stale:
    """Rounds of one asynchronous or stale-synchronous job."""

    def __init__(self, stage: Stage, number: int, pushes: int, pulls: int) -> None:
        del pulls
        self._stage, self._number = stage, number
        self._about = about = stage.description.jobs[number]
        self._seen, self._model = stage.seen[number], stage.model(number)
        base = pushes if about.order in UNORDERED else max(1, pushes - MOST)
        self._weights = self._model.initial()
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
        self._ends: list[list[int]] = [[] for _ in about.workers]
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

    @property
    def writes(self) -> int:
        """Entries that were written for the order of its batches."""
        return 0 if self._order is None else self._order.writes

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
        """Its workers begin to compute."""
        self._training.begin(self._about.start_ps)

    def compute_ps(self, rank: int, iteration: int) -> int:
        """How long a worker computes in a round."""
        return self._stage.description.compute_ps(self._about, rank, iteration)

    def gradient(self, rank: int, iteration: int, weights: FloatArray) -> FloatArray:
        """The model's."""
        return self._model.gradient(rank, iteration, weights)

    def pulled(self, rank: int, iteration: int, done_ps: int, weights: FloatArray) -> None:
        """Note when."""
        del iteration, weights
        self._model.applied(done_ps, self._weights)
        self._ends[rank].append(done_ps)
        self._seen.iteration = self._training.staleness.newest
        self._seen.ended_ps = done_ps

    def check(self) -> None:
        """The weights are what they must be. Raises ``ClusterError``."""
        self._model.check(f"job {self._number}, the server", self._weights)

    def result(self) -> JobResult:
        """What came of it."""
        ends = [max(own[k] for own in self._ends) for k in range(self._stage.description.rounds)]
        frames, resends = (self._stage.sent(self.jobs, name) for name in ("frames_sent", "resends"))
        return JobResult(
            ends, self._about.start_ps, frames, resends, self._ends, self._training.most_ahead, self._model.scores
        )
