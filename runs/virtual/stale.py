"""Workers that do not wait for each other: their calls, carried on until one of them is done.

Virtual time stands still unless every participant who has not left has a call: so none of them can still come with one
that begins earlier, and the outcome does not depend on how threads or processes are scheduled.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from p4reduce.comm.backend import FloatArray
from p4reduce.comm.calls import Call
from p4reduce.comm.errors import CollectiveError
from p4reduce.control_plane.controller import Controller
from p4reduce.jobs.asynchronous import AsynchronousJob, Staleness, install
from p4reduce.jobs.clockwork import Clockwork
from p4reduce.jobs.network import JobNetwork
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective

FIRST_JOB = 16384
"""Jobs of workers that do not wait for each other; a multiple of any number of workers that is a power of two."""


@dataclass
class StaleCalls:
    """The asynchronous job of a run, and what is asked of it."""

    clockwork: Clockwork
    job: AsynchronousJob
    staleness: Staleness
    rate: float
    """of one worker's gradient"""
    posted: dict[int, Call] = field(default_factory=dict)
    """by rank: workers whose call is under way, or waits for its time or for others"""
    taken: int = 0
    """calls of the server that have ended"""
    finished: list[Call] = field(default_factory=list)
    _held: dict[int, Call] = field(default_factory=dict)
    _rounds: list[int] = field(default_factory=list)
    _server: Call | None = None

    @classmethod
    def begin(
        cls,
        network: JobNetwork,
        controller: Controller,
        workers: tuple[str, ...],
        server: str,
        first: Call,
        *,
        window: int | None,
    ) -> "StaleCalls":
        """Install the job of a run whose first call this is."""
        weights = np.zeros(first.array.size, np.float32)
        job = install(network, controller, workers, server, weights, first_job=FIRST_JOB, window=window)
        made = cls(
            Clockwork(network),
            job,
            Staleness(len(workers), first.options.staleness),
            first.learning_rate / len(workers),
        )
        made._rounds = [0] * len(workers)
        for rank in range(len(workers)):
            made._serve(rank)
        return made

    def carry(self, calls: list[Call], check: Callable[[], None]) -> list[Call]:
        """Carry on until at least one call is done; those that are. ``CollectiveError`` when nothing moves any more."""
        size = len(self.job.jobs)
        if calls[0].array.size != self.job.weights.size or calls[0].options.staleness != self.staleness.bound:
            raise CollectiveError("push_pull: a run has one size of model and one staleness")
        self.rate = calls[0].learning_rate / size
        there = {call.rank for call in calls}
        self.staleness.watch([rank for rank in range(size) if rank in there])
        for call in calls:
            if call.rank == size:
                self._take_server(call)
            elif self.posted.get(call.rank) is not call:
                self._take(call)
        self._release()
        self.finished = []
        self.clockwork.run(check=check, until=lambda: bool(self.finished))
        if not self.finished:
            raise CollectiveError("push_pull: nothing moves any more, but calls are left")
        return self.finished

    def _take_server(self, call: Call) -> None:
        """The server is there: the weights are its own until it gets them back."""
        if self._server is not call:
            self._server = call
            self.job.weights[:] = call.array

    def _take(self, call: Call) -> None:
        call.start_ps = max(call.start_ps, self.clockwork.network.now)
        self.posted[call.rank] = call
        self.clockwork.at(call.start_ps, lambda: self._ready(call))

    def _ready(self, call: Call) -> None:
        if self.staleness.may(call.rank):
            self._push(call)
        else:
            self._held[call.rank] = call

    def _push(self, call: Call) -> None:
        rank = call.rank
        self.job.jobs[rank].note("push_pull", call.array.size)
        post = Post(Collective.PUSH_PULL, call.array, call.array, self.staleness.done[rank])
        self.clockwork.post(self.job.worker(rank), post, lambda done_ps: self._done(call, done_ps))

    def _done(self, call: Call, done_ps: int) -> None:
        call.done_ps = done_ps
        self.posted.pop(call.rank)
        self.staleness.done[call.rank] += 1
        self.finished.append(call)
        server, size = self._server, len(self.job.jobs)
        if server is not None and sum(self.staleness.done) >= (self.taken + 1) * size:
            self.taken += 1
            server.done_ps, self._server = done_ps, None
            server.array[:] = self.job.weights
            self.finished.append(server)
        self._release()

    def _release(self) -> None:
        """Those whom the bound does not hold back any more."""
        for rank in sorted(self._held):
            if self.staleness.may(rank):
                self._push(self._held.pop(rank))

    def _serve(self, rank: int) -> None:
        """The server's end of one worker takes part in round after round."""
        post = Post(Collective.PUSH_PULL, None, self.job.weights, self._rounds[rank], learning_rate=self.rate)
        self._rounds[rank] += 1
        self.clockwork.serve(self.job.server(rank), post, lambda _done: self._serve(rank))

    @property
    def weights(self) -> FloatArray:
        """Those of the server now."""
        return self.job.weights
