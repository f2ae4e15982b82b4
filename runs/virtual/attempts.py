"""The attempts at one collective of a group whose members may die: who posts what, and who has its result.

In the first attempt members post their inputs; in each after a change of the group, those or, where one of them has the
result already, that result and zeros: their sum is the result for all others (*spread*).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from p4reduce.comm.backend import FloatArray, Options
from p4reduce.comm.calls import SERVED, Call
from p4reduce.comm.errors import ClusterError, CollectiveError, RefusedError
from p4reduce.comm.operations import COLLECTIVES, as_carried, part
from p4reduce.control_plane.predict import Operation
from p4reduce.jobs.job import Job
from p4reduce.jobs.verify import ExpectedSum, ExpectedWords, exchanged, expect_sum, expect_words
from p4reduce.runs.virtual.carrier import CONTROL_LATENCY_PS, beyond_int32
from p4reduce.workers.records import State

if TYPE_CHECKING:
    from p4reduce.runs.virtual.surviving import SurvivingCarrier

SERVER_WAITS: Final = -1
"""in place of a chunk: the server waits"""
_WORDS: Final = Options(words=True)


class Attempts:
    """One collective over all its attempts; whether and when there is another one, ``Survival`` decides.

    Ranks are those of the start; that after the last one is the server.
    """

    def __init__(self, carrier: "SurvivingCarrier", calls: list[Call]) -> None:
        self._carrier = carrier
        self._network = carrier.network
        self._health = carrier.health
        self.calls = {call.rank: call for call in calls}
        """By rank, of those who called."""
        self.first = calls[0]
        self.given = {call.rank: call.array.copy() for call in calls}
        """What they called with."""
        self.done: dict[int, tuple[int, ...]] = {}
        """Who has the result, and whose contributions are in it."""
        self.posted: set[int] = set()
        """Who has begun in this attempt."""
        self.job: Job | None = None
        """Of the last attempt."""
        self.since_ps = carrier.network.now
        """When the last of them began."""
        self._spread = False
        self._arrays: dict[int, FloatArray] = {}
        self._contributors = carrier.members
        self._before = (0, 0)
        self._beyond = False
        carrier._host_of = carrier.hosts

    @property
    def living(self) -> list[int]:
        """Who takes part and has not died, known or not; the server too."""
        members = [member for member in self._carrier.members if member not in self._health.dead]
        size = len(self._carrier.everybody)
        return members + ([size] if size in self.calls else [])

    @property
    def unposted(self) -> list[int]:
        """Who has still to begin: its call comes later."""
        return [rank for rank in self.living if rank not in self.posted and rank not in self.done]

    @property
    def held(self) -> bool:
        """Whether one of the living has the result."""
        return any(rank in self.done for rank in self.living)

    @property
    def nothing_left(self) -> bool:
        """Whether all the living have it."""
        return all(rank in self.done for rank in self.living)

    def begin(self, check: Callable[[], None]) -> None:
        """The first attempt: on the job that is there, or on a new one."""
        carrier, first = self._carrier, self.first
        if first.operation in SERVED and len(carrier.everybody) not in self.calls:
            raise CollectiveError(f"{first.operation}: the server takes no part")
        if len(carrier.members) == 1:
            self.attempt(None, spread=False)
            return
        job = carrier.job_of(first.operation, first.root)
        if job is None:
            try:
                number, plan = carrier.plan_for(first.operation, first.root)
            except ClusterError as error:
                if carrier.is_main(first.operation):
                    raise  # the group has no tree any more
                raise RefusedError(f"{first.operation} #{first.iteration}: {error}") from error
            self._network.advance(self._network.now + CONTROL_LATENCY_PS, check=check)
            job = carrier.attach(number, plan)
        self.attempt(job, spread=False)

    def attempt(self, job: Job | None, *, spread: bool) -> None:
        """Have everybody post: its input, or, to spread the result of one to all, that result and zeros."""
        self.job, self._spread = job, spread
        self._before = (0, 0) if job is None else self._carrier._totals(job)
        self.posted = set()
        self._arrays = {}
        if not spread:
            self._contributors = self._carrier.members
            self._beyond &= self.held
        for rank in self.living:
            if rank in self.done and not spread:
                continue
            call = self.calls.get(rank)
            if call is None:
                raise ClusterError(f"rank {rank} is a member, but did not call {self.first.operation}")
            if not spread:
                call.array[:] = self.given[rank]
                self._arrays[rank] = call.array
        if spread:
            self._prepare_spread()
        if job is None and len(self._carrier.members) == 1 and self.living:
            rank = self.living[0]
            self._settle(rank, max(self.calls[rank].start_ps, self._network.now))
        self.post_due()

    def _prepare_spread(self) -> None:
        holder = min(rank for rank in self.living if rank in self.done)
        self._contributors = self.done[holder]
        for rank in self.living:
            call = self.calls[rank]
            if rank == holder:
                self._arrays[rank] = call.array.copy()
            elif self.first.operation in SERVED:
                self._arrays[rank] = call.array
            else:
                self._arrays[rank] = np.zeros_like(call.array)

    def post_due(self) -> None:
        """Who is there begins."""
        if self.job is None:
            return
        now = self._network.now
        for rank in sorted(self._arrays, key=lambda rank: self.calls[rank].start_ps):
            call = self.calls[rank]
            if rank not in self.posted and rank not in self._health.dead and call.start_ps <= now:
                self.posted.add(rank)
                self.since_ps = self._network.now
                self._health.begun()
                self._post(rank, call)

    def _post(self, rank: int, call: Call) -> None:
        job, carrier = self.job, self._carrier
        assert job is not None  # noqa: S101
        if self._spread and self.first.operation in SERVED:
            operation, options = "pull", call.options
        elif self._spread:
            operation, options = "all_reduce", _WORDS
        else:
            operation, options = as_carried(call.operation, ring=bool(job.plan.ring)), call.options
        collective = COLLECTIVES[operation]
        index = self._endpoint(rank)
        if job.server is not None and operation in {"all_reduce", "barrier"}:
            carrier._post_host_server(job, collective, call)
        serves = index == job.server
        self._network.post(
            index,
            part(collective, self._arrays[rank], call.iteration, call.learning_rate, options, serves=serves),
        )

    def _endpoint(self, rank: int) -> int:
        assert self.job is not None  # noqa: S101
        host = self._carrier.host_of(rank)
        if host in self.job.members:
            return self.job.members[host]
        assert self.job.server is not None  # noqa: S101
        return self.job.server

    @property
    def working(self) -> list[int]:
        """Endpoints of the living that are at work; of one that had the result before others, too."""
        if self.job is None:
            return []
        working = (self._endpoint(rank) for rank in self.living if rank in self.posted)
        return [index for index in working if self._network.status(index).state is State.ACTIVE]

    def oldest_missing(self) -> frozenset[int]:
        """The chunks that survivors wait for; of a server, that it waits."""
        if self.job is None:
            return frozenset()
        waiting = (self._endpoint(rank) for rank in self.living if rank in self.posted and rank not in self.done)
        oldest = self._network.endpoints.oldest_missing
        return frozenset(SERVER_WAITS if index == self.job.server else oldest(index) for index in waiting)

    def collect(self) -> None:
        """Who has its result by now."""
        if self.job is None:
            return
        for rank in list(self.posted):
            if rank in self.done or rank in self._health.dead:
                continue
            status = self._network.status(self._endpoint(rank))
            if status.state is State.FAILED or status.error is not None:
                raise CollectiveError(f"{self.first.operation}: {self._carrier.host_of(rank)}: {status.error}")
            if status.state is not State.ACTIVE:
                # Who gets this result from another rank gets its error, too.
                self._beyond |= self.first.options.words and status.saturated > self._before[1] and not self._spread
                self._settle(rank, status.done_at_ps)

    def _settle(self, rank: int, done_ps: int) -> None:
        self.done[rank] = self._contributors
        call = self.calls[rank]
        call.done_ps = done_ps
        if self._spread and self._arrays[rank] is not call.array:
            call.array[:] = self._arrays[rank]

    def settle_rest(self) -> None:
        """All others are done too: there is nothing to spread, they only had not heard of it."""
        for rank in self.living:
            if rank not in self.done:
                self._contributors = next(iter(self.done.values()))
                self._spread = False
                self._settle(rank, self._network.now)

    def record(self) -> None:
        """Check the result and keep the record of it."""
        carrier, first = self._carrier, self.first
        left = [self.calls[rank] for rank in self.living]
        if self.job is None:
            for call in left if self._beyond else ():
                call.error = beyond_int32(call)
        if self.job is None or not left:
            return
        contributors = [rank for rank in self._contributors if rank in self.given]
        inputs = [self.given[rank] for rank in contributors]
        expected: ExpectedSum | ExpectedWords | None = None
        if first.operation in {"all_reduce", "push"}:
            numbers, lanes = self.job.numbers, carrier.experiment.lanes
            if first.options.words:
                expected = expect_words(inputs)
            else:
                expected = expect_sum(inputs, numbers, lanes, guessed=self.job.guessed)
        if first.operation == "all_to_all":
            for call, wanted in zip(left, exchanged([self.given[call.rank] for call in left]), strict=True):
                if not np.array_equal(call.array.view(np.uint32), wanted.view(np.uint32)):
                    raise ClusterError(
                        f"all_to_all #{call.iteration}: rank {call.rank} has another block than was sent"
                    )
        elements = 1 if first.operation == "barrier" else first.array.size
        if not self._spread:
            called = as_carried(first.operation, ring=bool(self.job.plan.ring))
            self.job.note(called, elements, words=first.options.words)
        spread = Operation.PULL if first.operation in SERVED else Operation.ALL_REDUCE
        carried = spread if self._spread else None
        carrier._add_record(self.job, left, expected, self._before, carried, beyond=self._beyond)
