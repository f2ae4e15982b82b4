"""An asynchronous parameter server: workers that do not wait for each other, or for a bounded time only.

No new protocol: each worker is a job of its own with the server, and the server's endpoints of all these jobs update
one array of weights, chunk by chunk, as contributions come. What a worker gets back are the weights as they are then.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from p4reduce.control_plane.batches import group_size
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.errors import ControllerError, PlanError
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.control_plane.plans.plan import Plan
from p4reduce.jobs.clockwork import Clockwork
from p4reduce.jobs.job import Job
from p4reduce.jobs.network import JobNetwork
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective

PLAN: Final = "ps"
FloatArray = NDArray[np.float32]


class Staleness:
    """Who may communicate: a worker is at most ``bound`` rounds ahead of the slowest; None: of anybody.

    0 keeps workers in step, though what each gets back need not hold the others' gradients of the same round.
    """

    def __init__(self, workers: int, bound: int | None) -> None:
        if bound is not None and bound < 0:
            raise ValueError(f"staleness: {bound}, must be at least 0, or None for no bound")
        self.done = [0] * workers
        self.bound = bound
        self._watched = list(range(workers))

    def watch(self, ranks: Sequence[int]) -> None:
        """Only these workers count from now on: the others have left."""
        self._watched = list(ranks)

    def may(self, rank: int) -> bool:
        """Whether a worker may begin to communicate in its next round."""
        return self.bound is None or self.done[rank] - self.oldest <= self.bound

    @property
    def oldest(self) -> int:
        """The round of whoever is slowest."""
        return min((self.done[rank] for rank in self._watched), default=0)

    @property
    def newest(self) -> int:
        """The round of whoever is fastest."""
        return max(self.done)


@dataclass
class AsynchronousJob:
    """One job for each worker, all with one server, whose weights they share."""

    jobs: list[Job]
    weights: FloatArray

    @property
    def plans(self) -> list[Plan]:
        """Of the workers, in rank order."""
        return [job.plan for job in self.jobs]

    def worker(self, rank: int) -> int:
        """Endpoint of a worker."""
        (index,) = self.jobs[rank].members.values()
        return index

    def server(self, rank: int) -> int:
        """Endpoint of the server that answers a worker."""
        index = self.jobs[rank].server
        assert index is not None  # noqa: S101
        return index

    def uninstall(self, network: JobNetwork, controller: Controller) -> None:
        """Take all of it out again."""
        for job in self.jobs:
            network.retire(job)
            controller.uninstall(job.plan)


def install(
    network: JobNetwork,
    controller: Controller,
    workers: Sequence[str],
    server: str,
    weights: FloatArray,
    *,
    first_job: int,
    priority: int | None = None,
    window: int | None = None,
    by_batch: bool = True,
) -> AsynchronousJob:
    """Install the jobs ``first_job``, ``first_job + 1``, ... of these workers, in rank order.

    by_batch: their senders know of each other (``JobNetwork.add``); without it they take a queue that all of them fill
    for loss, as jobs do that have nothing to do with each other.

    Raises
    ------
    PlanError
        When ``first_job`` is no multiple of the group's size (a power of two): one match has to cover the group.
    ControllerError
        As of ``Controller.install``; nothing is left of it then.
    """
    size = group_size(len(workers))
    if first_job % size:
        raise PlanError(f"first_job: {first_job}, must be a multiple of {size} for {len(workers)} workers")
    made = AsynchronousJob([], weights)
    try:
        for rank, worker in enumerate(workers):
            request = PlanRequest(
                PLAN, first_job + rank, workers=(worker,), server=server, priority=priority, window=window
            )
            made.jobs.append(network.add(controller.start_job(request), by_batch=by_batch))
    except (ControllerError, PlanError):
        made.uninstall(network, controller)
        raise
    return made


class Worker(Protocol):
    """What the workers of a training compute."""

    def compute_ps(self, rank: int, iteration: int) -> int:
        """How long a worker computes in a round."""

    def gradient(self, rank: int, iteration: int, weights: FloatArray) -> FloatArray:
        """The gradient of a round at the weights that the worker has; float32 of their shape, kept until it is sent."""

    def pulled(self, rank: int, iteration: int, done_ps: int, weights: FloatArray) -> None:
        """A round has ended: these are the weights that the worker goes on with."""


Moved = Callable[[Sequence[int], int, int], None]
"""Told the rounds that workers have done, and which of them is the oldest and the newest that may communicate."""


class AsynchronousTraining:
    """Rounds of all workers of an `AsynchronousJob`, each at its own pace within the bound.

    Parameters
    ----------
    clockwork : Clockwork
        Whose network the job is in.
    job : AsynchronousJob
        Installed; its weights are where training begins.
    worker : Worker
        What is computed, and how long that takes.
    iterations : int
        Of each worker.
    staleness : int or None
        The bound (:class:`Staleness`).
    learning_rate : float
        A worker's gradient moves the weights by ``learning_rate / workers`` times itself: a round of all of them is as
        large a step as a synchronous one.
    moved : callable
        Told whenever a round has ended.
    """

    def __init__(
        self,
        clockwork: Clockwork,
        job: AsynchronousJob,
        worker: Worker,
        *,
        iterations: int,
        staleness: int | None,
        learning_rate: float,
        moved: Moved | None = None,
    ) -> None:
        self._clockwork, self._job, self._worker = clockwork, job, worker
        self._iterations, self._rate = iterations, learning_rate / len(job.jobs)
        self._moved = moved
        self.staleness = Staleness(len(job.jobs), staleness)
        self.most_ahead = 0
        """rounds by which a worker was ahead of the slowest when it began to communicate, at most"""
        self._held: dict[int, tuple[int, FloatArray]] = {}
        self._own = [job.weights.copy() for _ in job.jobs]

    def begin(self, at_ps: int = 0) -> None:
        """All workers begin to compute at this time."""
        for rank in range(len(self._job.jobs)):
            self._serve(rank, 0)
            self._compute(rank, at_ps)

    @property
    def finished(self) -> bool:
        """Whether all rounds of all workers are over."""
        return self.staleness.oldest == self._iterations

    def _compute(self, rank: int, now_ps: int) -> None:
        iteration = self.staleness.done[rank]
        if iteration < self._iterations:
            gradient = self._worker.gradient(rank, iteration, self._own[rank])
            ready = now_ps + self._worker.compute_ps(rank, iteration)
            self._clockwork.at(ready, lambda: self._ready(rank, iteration, gradient))

    def _ready(self, rank: int, iteration: int, gradient: FloatArray) -> None:
        """A gradient is there; it waits for the slowest worker where that is too far behind."""
        if self.staleness.may(rank):
            self._push(rank, iteration, gradient)
        else:
            self._held[rank] = iteration, gradient

    def _push(self, rank: int, iteration: int, gradient: FloatArray) -> None:
        self.most_ahead = max(self.most_ahead, self.staleness.done[rank] - self.staleness.oldest)
        self._job.jobs[rank].note("push_pull", gradient.size)
        post = Post(Collective.PUSH_PULL, gradient, self._own[rank], iteration)
        self._clockwork.post(self._job.worker(rank), post, lambda done: self._pulled(rank, iteration, done))

    def _pulled(self, rank: int, iteration: int, done_ps: int) -> None:
        self.staleness.done[rank] += 1
        self._worker.pulled(rank, iteration, done_ps, self._own[rank])
        if self._moved is not None:
            done = self.staleness.done
            self._moved(done, self.staleness.oldest, self.staleness.newest)
        for held in sorted(self._held):
            if self.staleness.may(held):
                self._push(held, *self._held.pop(held))
        self._compute(rank, done_ps)

    def _serve(self, rank: int, iteration: int) -> None:
        """The server takes part in round after round of each worker."""
        if iteration < self._iterations:
            post = Post(Collective.PUSH_PULL, None, self._job.weights, iteration, learning_rate=self._rate)
            self._clockwork.post(self._job.server(rank), post, lambda _done: self._serve(rank, iteration + 1))
