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
from typing import TYPE_CHECKING

from p4reduce.comm.calls import SERVED, Call
from p4reduce.comm.errors import ClusterError, CollectiveError, ExcludedError
from p4reduce.comm.membership import Answer, cannot_redo, decide
from p4reduce.control_plane.plans import Plan
from p4reduce.fabric import Stop
from p4reduce.jobs.specs import PATIENCE_PS
from p4reduce.runs.virtual.attempts import SERVER_WAITS, Attempts
from p4reduce.runs.virtual.carrier import CONTROL_LATENCY_PS

if TYPE_CHECKING:
    from p4reduce.runs.virtual.surviving import SurvivingCarrier


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
        self._attempts = Attempts(carrier, calls)
        self._calls = self._attempts.calls
        self._first = self._attempts.first
        self._phase = _Phase.RUN
        self._deadline: int | None = None
        self._noticed = 0
        self._stopped_ps: int | None = None
        self._oldest: frozenset[int] = frozenset()
        self._causes: list[str] = []
        self._new: tuple[int, Plan] | None = None
        self._raised = False

    # --- from start to end

    def carry(self) -> None:
        """Until every survivor has its result, or is told that there is none. Raises ``CollectiveError``."""
        for call in self._calls.values():
            call.start_ps = max(call.start_ps, self._network.now)
        if not self._welcome():
            self._attempts.begin(self._check)
        while not self._over:
            watched = self._watched()
            whole = not self._attempts.unposted
            until = self._next_ps(whole=whole)
            if until is None and not watched and whole:
                raise CollectiveError(f"{self._first.operation}: nobody is left who could carry it on")
            reason = self._network.advance(until, watch=watched if whole else (), check=self._check)
            self._health.happen(self._network.fabric, self._silence, self._carrier.switches.restart)
            if self._phase in {_Phase.RUN, _Phase.STOPPING}:  # nobody begins once it was told to stop
                self._attempts.post_due()
                self._attempts.collect()
            self._proceed()
            if reason is Stop.QUIET and until is None and not self._over:
                raise CollectiveError(f"{self._first.operation}: nothing moves any more, but not all have a result")
            waited_ps = self._network.now - self._attempts.since_ps
            if whole and waited_ps > 2 * PATIENCE_PS:  # workers alone give up after half of it
                raise CollectiveError(f"{self._first.operation}: no result, and nobody is known to be dead")
        self._finish()

    @property
    def _over(self) -> bool:
        if self._phase is not _Phase.RUN:
            return False
        return self._raised or (self._attempts.nothing_left and not self._watched())

    def _watched(self) -> list[int]:
        return self._attempts.working if self._phase is _Phase.RUN else []

    def _next_ps(self, *, whole: bool) -> int | None:
        now = self._network.now
        times = [self._deadline] if self._deadline is not None else []
        if self._phase in {_Phase.RUN, _Phase.STOPPING}:
            times += [max(now, self._calls[rank].start_ps) for rank in self._attempts.unposted]
        event = self._health.next_ps(now)
        if event is not None:
            times.append(event)
        return min(times, default=None)

    def _welcome(self) -> bool:
        """Whether somebody joins before anybody has begun: then nobody begins, but for the new group to be decided."""
        network, begin = self._network, min((self._calls[rank].start_ps for rank in self._attempts.living), default=0)
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

    def _silence(self, rank: int) -> None:
        """A host has died: nothing of it is sent any more."""
        self._carrier.pause(self._carrier.host_of(rank))

    # --- when something happens

    def _proceed(self) -> None:
        """What the coordinator does now."""
        now = self._network.now
        cause = self._health.notice(now, self._blamed, self._carrier.look, patient=bool(self._attempts.unposted))
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
        job = self._attempts.job
        members = self._carrier.members
        if self._phase is _Phase.ANSWERING and self._deadline is None:
            return set(self._health.unknown(members))  # all wait for their answers
        silent: set[int] = set()
        if self._stopped_ps is not None and self._network.now >= self._stopped_ps + CONTROL_LATENCY_PS:
            silent = self._health.died_before(self._stopped_ps)  # they have not answered the first time
        if job is None or not self._attempts.posted:
            return silent
        oldest = self._attempts.oldest_missing() if self._stopped_ps is None else self._oldest
        if not oldest:
            return silent
        everybody = self._carrier.everybody
        if not job.plan.in_network or oldest == {SERVER_WAITS}:
            return set(members)
        blamed = self._carrier.switches.controller.blamed
        named = frozenset().union(*(blamed(job.plan, seq & 0xFFFFFFFF) for seq in oldest - {SERVER_WAITS}))
        if not named and job.plan.server is not None:
            named = frozenset({job.plan.server})  # all have asked, and it has not answered
        rank_at = {everybody[member]: member for member in members}
        return silent | {rank_at[name] for name in named if name in rank_at}

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
        self._oldest = self._attempts.oldest_missing()
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
        if self._phase is not _Phase.ANSWERING or self._attempts.posted or self._attempts.done:
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
        done = dict(self._attempts.done)
        left = [member for member in self._carrier.members if member not in lost]
        if self._first.operation in SERVED:
            done = dict.fromkeys(left, self._attempts.done[size]) if size in self._attempts.done else {}
        elif self._first.operation == "all_to_all" and not all(member in done for member in left):
            done = {}
        return {member: Answer(k + (member in done), done.get(member, ())) for member in left}

    def _plan_next(self) -> None:
        """The next tree, beside the old one."""
        carrier = self._carrier
        self._new = None
        if len(carrier.members) > 1 and not self._raised and not self._attempts.nothing_left:
            # What one has for the others is spread as a sum, where no server has it.
            served = self._first.operation in SERVED
            operation = "all_reduce" if self._attempts.held and not served else self._first.operation
            self._new = carrier.plan_for(operation, self._first.root)

    def _commit(self) -> None:
        """Survivors hear what was decided, and go on."""
        carrier = self._carrier
        carrier.forget_jobs()
        began = max((self._calls[rank].start_ps for rank in self._attempts.living if rank in self._calls), default=0)
        carrier.restored.append(Restored(began, self._noticed, self._network.now))
        self._phase, self._causes, self._stopped_ps = _Phase.RUN, [], None
        job = None
        if self._new is not None:
            job, self._new = carrier.attach(*self._new), None
        if self._raised or self._attempts.nothing_left:
            return
        if self._attempts.held and job is not None and self._first.operation in {"barrier", "push"}:
            self._attempts.settle_rest()
            return
        self._attempts.attempt(job, spread=self._attempts.held and job is not None)

    # --- what came of it

    def _finish(self) -> None:
        carrier = self._carrier
        for rank, call in self._calls.items():
            if rank in self._health.dead or (rank < len(carrier.everybody) and rank not in carrier.members):
                why = carrier.health.known().get(rank, "has died")
                call.error = ExcludedError(f"rank {rank} {why}: it is no member any more")
            elif self._raised:
                call.array[:] = self._attempts.given[rank]
                call.raised = True
                call.done_ps = self._network.now
            else:
                call.contributors = self._attempts.done[rank]
        if not self._raised:
            self._attempts.record()
