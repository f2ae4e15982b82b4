"""One collective of a group whose members may die meanwhile: detect, stop, decide, go on.

| virtual time | what happens |
|---|---|
| 0 | the coordinator learns that a member, a link or a switch is gone: it asks the survivors to stop (*prepare*) |
| 1 ms | they stop, and answer what they have finished |
| 2 ms | it decides, writes that down, and installs the new tree beside the old one |
| 3 ms | the switches have it; it tells the survivors (*commit*) |
| 4 ms | they go on: the collective again over the survivors, or the array that one of them has for all others |

When it learns of another one meanwhile, all this begins anew.

Who joins waits for the moment between two collectives. Members hear of it 2 ms after it has begun; those that had not
begun the next collective by then begin it in the new group. The coordinator decides as above; they call once more.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import numpy as np

from p4reduce.comm.backend import FloatArray, Options
from p4reduce.comm.calls import SERVED, Call
from p4reduce.comm.errors import ClusterError, CollectiveError, ExcludedError
from p4reduce.comm.membership import Answer, cannot_redo, decide
from p4reduce.comm.operations import COLLECTIVES, as_carried, part
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.predict import Operation
from p4reduce.fabric import Stop
from p4reduce.jobs.job import Job
from p4reduce.jobs.specs import PATIENCE_PS
from p4reduce.jobs.verify import exchanged, expect_sum, expect_words
from p4reduce.runs.virtual.carrier import CONTROL_LATENCY_PS
from p4reduce.workers.records import State

if TYPE_CHECKING:
    from p4reduce.runs.virtual.surviving import SurvivingCarrier

_WORDS: Final = Options(words=True)
_SERVER_WAITS: Final = -1


@dataclass(frozen=True)
class Restored:
    """One change of the group, picoseconds of virtual time."""

    began_ps: int
    """When the last of the survivors had called the collective that was under way."""
    noticed_ps: int
    """When the coordinator knew the last of what it decided about."""
    resumed_ps: int
    """When the survivors went on."""


class _Phase(Enum):
    RUN = auto()
    STOPPING = auto()
    """survivors have not heard yet that they are to stop"""
    ANSWERING = auto()
    COMMITTING = auto()


class Survival:
    """Carries one collective to its end, whoever dies; see the module."""

    def __init__(self, carrier: "SurvivingCarrier", calls: list[Call], check: Callable[[], None]) -> None:
        self._carrier = carrier
        self._network = carrier.network
        self._health = carrier.health
        self._check = check
        self._calls = {call.rank: call for call in calls}
        self._first = calls[0]
        self._given = {call.rank: call.array.copy() for call in calls}
        self._done: dict[int, tuple[int, ...]] = {}
        """who has the result, and whose contributions are in it"""
        self._phase = _Phase.RUN
        self._deadline: int | None = None
        self._noticed = 0
        self._since = carrier.network.now
        self._stopped_ps: int | None = None
        self._oldest: frozenset[int] = frozenset()
        self._causes: list[str] = []
        self._new: tuple[int, Plan] | None = None
        self._raised = False
        self._job: Job | None = None
        self._spread = False
        self._arrays: dict[int, FloatArray] = {}
        self._posted: set[int] = set()
        self._contributors = carrier.members
        self._before = (0, 0)
        carrier._host_of = carrier.hosts

    # --- from start to end

    def carry(self) -> None:
        """Until every survivor has its result, or is told that there is none. Raises ``CollectiveError``."""
        for call in self._calls.values():
            call.start_ps = max(call.start_ps, self._network.now)
        if not self._welcome():
            self._begin()
        while not self._over:
            watched = self._watched()
            whole = not self._unposted
            until = self._next_ps(whole=whole)
            if until is None and not watched and whole:
                raise CollectiveError(f"{self._first.operation}: nobody is left who could carry it on")
            reason = self._network.advance(until, watch=watched if whole else (), check=self._check)
            self._health.happen(self._network.fabric, self._silence, self._carrier.switches.restart)
            self._post_due()
            self._collect()
            self._proceed()
            if reason is Stop.QUIET and until is None and not self._over:
                raise CollectiveError(f"{self._first.operation}: nothing moves any more, but not all have a result")
            if whole and self._network.now - self._since > 2 * PATIENCE_PS:  # workers alone give up after half of it
                raise CollectiveError(f"{self._first.operation}: no result, and nobody is known to be dead")
        self._finish()

    @property
    def _living(self) -> list[int]:
        """Who takes part and has not died, known or not; the server too."""
        members = [member for member in self._carrier.members if member not in self._health.dead]
        size = len(self._carrier.everybody)
        return members + ([size] if size in self._calls else [])

    @property
    def _over(self) -> bool:
        if self._phase is not _Phase.RUN:
            return False
        return self._raised or (self._nothing_left and not self._watched())

    @property
    def _unposted(self) -> list[int]:
        """Who has still to begin: its call comes later."""
        return [rank for rank in self._living if rank not in self._posted and rank not in self._done]

    def _watched(self) -> list[int]:
        """Endpoints of the living that are at work; of one that had the result before others, too."""
        if self._job is None or self._phase is not _Phase.RUN:
            return []
        working = (self._endpoint(rank) for rank in self._living if rank in self._posted)
        return [index for index in working if self._network.status(index).state is State.ACTIVE]

    def _next_ps(self, *, whole: bool) -> int | None:
        now = self._network.now
        times = [self._deadline] if self._deadline is not None else []
        if self._phase in {_Phase.RUN, _Phase.STOPPING}:
            times += [max(now, self._calls[rank].start_ps) for rank in self._unposted]
        event = self._health.next_ps(now)
        if event is not None:
            times.append(event)
        return min(times, default=None)

    def _welcome(self) -> bool:
        """Whether somebody joins before anybody has begun: then nobody begins, but for the new group to be decided."""
        network, begin = self._network, min((self._calls[rank].start_ps for rank in self._living), default=0)
        if not self._health.joins_by(begin):
            return False
        network.advance(begin, check=self._check)
        self._health.happen(network.fabric, self._silence, self._carrier.switches.restart)
        if not self._carrier.newcomers():
            return False
        self._carrier.stop_jobs()
        self._stopped_ps = self._noticed = network.now
        self._phase, self._deadline = _Phase.ANSWERING, network.now + CONTROL_LATENCY_PS
        return True

    # --- an attempt

    def _begin(self) -> None:
        """The first attempt: on the job that is there, or on a new one."""
        carrier, first = self._carrier, self._first
        if first.operation in SERVED and len(carrier.everybody) not in self._calls:
            raise CollectiveError(f"{first.operation}: the server takes no part")
        if len(carrier.members) == 1:
            self._attempt(None, spread=False)
            return
        job = carrier.job_of(first.operation, first.root)
        if job is None:
            number, plan = carrier.plan_for(first.operation, first.root)
            self._network.advance(self._network.now + CONTROL_LATENCY_PS, check=self._check)
            job = carrier.attach(number, plan)
        self._attempt(job, spread=False)

    def _attempt(self, job: Job | None, *, spread: bool) -> None:
        """Have everybody post: its input, or, to spread the result of one to all, that result and zeros."""
        self._job, self._spread = job, spread
        self._before = (0, 0) if job is None else self._carrier._totals(job)
        self._posted = set()
        self._arrays = {}
        if not spread:
            self._contributors = self._carrier.members
        for rank in self._living:
            if rank in self._done and not spread:
                continue
            call = self._calls.get(rank)
            if call is None:
                raise ClusterError(f"rank {rank} is a member, but did not call {self._first.operation}")
            if not spread:
                call.array[:] = self._given[rank]
                self._arrays[rank] = call.array
        if spread:
            self._prepare_spread()
        if job is None and len(self._carrier.members) == 1 and self._living:
            rank = self._living[0]
            self._settle(rank, max(self._calls[rank].start_ps, self._network.now))
        self._post_due()

    def _prepare_spread(self) -> None:
        holder = min(rank for rank in self._living if rank in self._done)
        self._contributors = self._done[holder]
        for rank in self._living:
            call = self._calls[rank]
            if rank == holder:
                self._arrays[rank] = call.array.copy()
            elif self._first.operation in SERVED:
                self._arrays[rank] = call.array
            else:
                self._arrays[rank] = np.zeros_like(call.array)

    def _post_due(self) -> None:
        """Who is there begins; nobody once it was told to stop."""
        if self._phase not in {_Phase.RUN, _Phase.STOPPING} or self._job is None:
            return
        now = self._network.now
        for rank in sorted(self._arrays, key=lambda rank: self._calls[rank].start_ps):
            call = self._calls[rank]
            if rank not in self._posted and rank not in self._health.dead and call.start_ps <= now:
                self._posted.add(rank)
                self._since = self._network.now
                self._health.begun()
                self._post(rank, call)

    def _post(self, rank: int, call: Call) -> None:
        job, carrier = self._job, self._carrier
        assert job is not None  # noqa: S101
        if self._spread and self._first.operation in SERVED:
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
        assert self._job is not None  # noqa: S101
        host = self._carrier.host_of(rank)
        if host in self._job.members:
            return self._job.members[host]
        assert self._job.server is not None  # noqa: S101
        return self._job.server

    def _silence(self, rank: int) -> None:
        """A host has died: nothing of it is sent any more."""
        self._carrier.pause(self._carrier.host_of(rank))

    def _collect(self) -> None:
        """Who has its result by now."""
        if self._job is None or self._phase not in {_Phase.RUN, _Phase.STOPPING}:
            return
        for rank in list(self._posted):
            if rank in self._done or rank in self._health.dead:
                continue
            status = self._network.status(self._endpoint(rank))
            if status.state is State.FAILED or status.error is not None:
                raise CollectiveError(f"{self._first.operation}: {self._carrier.host_of(rank)}: {status.error}")
            if status.state is not State.ACTIVE:
                self._settle(rank, status.done_at_ps)

    def _settle(self, rank: int, done_ps: int) -> None:
        self._done[rank] = self._contributors
        call = self._calls[rank]
        call.done_ps = done_ps
        if self._spread and self._arrays[rank] is not call.array:
            call.array[:] = self._arrays[rank]

    # --- when something happens

    def _proceed(self) -> None:
        """What the coordinator does now."""
        now = self._network.now
        cause = self._health.notice(now, self._blamed, self._carrier.look, patient=bool(self._unposted))
        if cause is not None and self._concerned(cause):
            self._ask_to_stop(cause)
        elif self._deadline is not None and now >= self._deadline:
            self._deadline = None
            if self._phase is _Phase.STOPPING:
                self._stop()
            elif self._phase is _Phase.ANSWERING:
                self._decide()
            elif self._phase is _Phase.COMMITTING:
                self._commit()

    def _concerned(self, cause: str) -> bool:
        """Whether the group has to change; `CollectiveError` where it must not."""
        lost = self._carrier.losses()
        plans = [job.plan for job in self._carrier.jobs] if self._phase is _Phase.RUN else []  # else they go anyway
        plans += [] if self._new is None else [self._new[1]]
        if not lost and not any(self._carrier.damaged(plan) for plan in plans):
            return False
        if self._carrier.on_failure == "abort":
            said = "; ".join(f"rank {rank} {why}" for rank, why in lost.items()) or f"its tree is lost: {cause}"
            raise CollectiveError(f"{self._first.operation} #{self._first.iteration}: {said}")
        return True

    def _blamed(self) -> set[int]:
        """Members that the operation under way waits for, by the slots of its tree; of other plans, who is not done."""
        job = self._job
        members = self._carrier.members
        if self._phase is _Phase.ANSWERING and self._deadline is None:
            return set(self._health.unknown(members))  # all wait for their answers
        silent: set[int] = set()
        if self._stopped_ps is not None and self._network.now >= self._stopped_ps + CONTROL_LATENCY_PS:
            silent = self._health.died_before(self._stopped_ps)  # they have not answered the first time
        if job is None or not self._posted:
            return silent
        oldest = self._oldest_missing() if self._stopped_ps is None else self._oldest
        if not oldest:
            return silent
        everybody = self._carrier.everybody
        if not job.plan.in_network or oldest == {_SERVER_WAITS}:
            return set(members)
        blamed = self._carrier.switches.controller.blamed
        named = frozenset().union(*(blamed(job.plan, seq & 0xFFFFFFFF) for seq in oldest - {_SERVER_WAITS}))
        if not named and job.plan.server is not None:
            named = frozenset({job.plan.server})  # all have asked, and it has not answered
        rank_at = {everybody[member]: member for member in members}
        return silent | {rank_at[name] for name in named if name in rank_at}

    def _oldest_missing(self) -> frozenset[int]:
        """The chunks that survivors wait for; of a server, that it waits."""
        if self._job is None:
            return frozenset()
        waiting = (self._endpoint(rank) for rank in self._living if rank in self._posted and rank not in self._done)
        oldest = self._network.endpoints.oldest_missing
        return frozenset(_SERVER_WAITS if index == self._job.server else oldest(index) for index in waiting)

    def _ask_to_stop(self, cause: str) -> None:
        """The first phase, for the first time or anew."""
        self._causes.append(cause)
        if self._new is not None:
            self._carrier.uninstall(self._new[1])
            self._new = None
        self._noticed = self._network.now
        if self._phase in {_Phase.RUN, _Phase.STOPPING}:
            self._phase, self._deadline = _Phase.STOPPING, self._network.now + CONTROL_LATENCY_PS
        else:  # they have stopped already
            self._phase, self._deadline = _Phase.ANSWERING, self._network.now + 2 * CONTROL_LATENCY_PS

    def _stop(self) -> None:
        """Survivors hear that they are to stop."""
        self._oldest = self._oldest_missing()
        self._carrier.stop_jobs()  # what is still on its way writes to nobody's array
        self._stopped_ps = self._network.now
        self._phase, self._deadline = _Phase.ANSWERING, self._network.now + CONTROL_LATENCY_PS

    def _decide(self) -> None:
        """All answers are in, unless one more has died, which will be noticed."""
        carrier = self._carrier
        if self._health.unknown(carrier.members):
            self._health.look_at(self._network.now)
            return
        lost = carrier.losses()
        carrier.term += 1
        op, root = self._first.operation, self._first.root
        redo = not lost or (carrier.on_failure == "shrink" and not cannot_redo(op, root, lost))
        # Who came by a decision before this one has not called; nor has a process that died before it could.
        uncalled = any(member not in self._calls and member not in lost for member in carrier.members)
        joined = self._plan_with_newcomers(lost)
        decision = decide(
            self._answers(lost),
            before=carrier.members,
            lost=lost,
            term=carrier.term,
            epoch=carrier.journal.next_epoch,
            redo=redo and not uncalled,
            cause="; ".join(self._causes),
            joined=joined,
        )
        carrier.change(decision)
        self._raised = decision.outcome == "raised" and decision.operation == self._first.iteration
        if not joined:
            self._plan_next()
        self._phase, self._deadline = _Phase.COMMITTING, self._network.now + 2 * CONTROL_LATENCY_PS

    def _plan_with_newcomers(self, lost: Mapping[int, str]) -> tuple[int, ...]:
        """Who joins; the tree of the group with them stands beside the old one. Nobody where there is no such tree."""
        carrier = self._carrier
        self._new = None
        if self._phase is not _Phase.ANSWERING or self._posted or self._done:
            return ()
        newcomers = carrier.newcomers()
        left = [member for member in carrier.members if member not in lost]
        if not newcomers or not left:
            return ()
        mesh = carrier.experiment.plan == "all-to-all"
        try:
            self._new = carrier.plan_for("all_to_all" if mesh else "all_reduce", 0, [*left, *newcomers])
        except ClusterError as error:
            carrier.refuse(newcomers, str(error))
            return ()
        return newcomers

    def _answers(self, lost: dict[int, str]) -> dict[int, Answer]:
        """What survivors say. Of an operation with a server, it says for all; blocks for each rank are nobody's."""
        k, size = self._first.iteration, len(self._carrier.everybody)
        done = dict(self._done)
        left = [member for member in self._carrier.members if member not in lost]
        if self._first.operation in SERVED:
            done = dict.fromkeys(left, self._done[size]) if size in self._done else {}
        elif self._first.operation == "all_to_all" and not all(member in done for member in left):
            done = {}
        return {member: Answer(k + (member in done), done.get(member, ())) for member in left}

    def _plan_next(self) -> None:
        """The next tree, beside the old one."""
        carrier = self._carrier
        self._new = None
        if len(carrier.members) > 1 and not self._raised and not self._nothing_left:
            # What one has for the others is spread as a sum, where no server has it.
            served = self._first.operation in SERVED
            spread = any(rank in self._done for rank in self._living)
            operation = "all_reduce" if spread and not served else self._first.operation
            self._new = carrier.plan_for(operation, self._first.root)

    @property
    def _nothing_left(self) -> bool:
        return all(rank in self._done for rank in self._living)

    def _commit(self) -> None:
        """Survivors hear what was decided, and go on."""
        carrier = self._carrier
        carrier.forget_jobs()
        began = max((self._calls[rank].start_ps for rank in self._living if rank in self._calls), default=0)
        carrier.restored.append(Restored(began, self._noticed, self._network.now))
        self._phase, self._causes, self._stopped_ps = _Phase.RUN, [], None
        job = None
        if self._new is not None:
            job, self._new = carrier.attach(*self._new), None
        if self._raised or self._nothing_left:
            return
        held = any(rank in self._done for rank in self._living)
        if held and job is not None and self._first.operation in {"barrier", "push"}:
            for rank in self._living:  # there is nothing to spread: they only had not heard of it
                if rank not in self._done:
                    self._contributors = next(iter(self._done.values()))
                    self._spread = False
                    self._settle(rank, self._network.now)
            return
        self._attempt(job, spread=held and job is not None)

    # --- what came of it

    def _finish(self) -> None:
        carrier = self._carrier
        for rank, call in self._calls.items():
            if rank in self._health.dead or (rank < len(carrier.everybody) and rank not in carrier.members):
                why = carrier.health.known().get(rank, "has died")
                call.error = ExcludedError(f"rank {rank} {why}: it is no member any more")
            elif self._raised:
                call.array[:] = self._given[rank]
                call.raised = True
                call.done_ps = self._network.now
            else:
                call.contributors = self._done[rank]
        if not self._raised:
            self._record()

    def _record(self) -> None:
        """Check the result and keep the record of it."""
        carrier, first = self._carrier, self._first
        left = [self._calls[rank] for rank in self._living]
        if self._job is None or not left:
            return
        contributors = [rank for rank in self._contributors if rank in self._given]
        inputs = [self._given[rank] for rank in contributors]
        expected = None
        if first.operation in {"all_reduce", "push"}:
            numbers, lanes = self._job.numbers, carrier.experiment.lanes
            expected = expect_words(inputs) if first.options.words else expect_sum(inputs, numbers, lanes)
        if first.operation == "all_to_all":
            for call, wanted in zip(left, exchanged([self._given[call.rank] for call in left]), strict=True):
                if not np.array_equal(call.array.view(np.uint32), wanted.view(np.uint32)):
                    raise ClusterError(
                        f"all_to_all #{call.iteration}: rank {call.rank} has another block than was sent"
                    )
        elements = 1 if first.operation == "barrier" else first.array.size
        if not self._spread:
            carried = as_carried(first.operation, ring=bool(self._job.plan.ring))
            self._job.note(carried, elements, words=first.options.words)
        spread = Operation.PULL if first.operation in SERVED else Operation.ALL_REDUCE
        carrier._add_record(self._job, left, expected, self._before, spread if self._spread else None)
