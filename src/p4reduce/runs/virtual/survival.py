"""One collective of a group whose members may die meanwhile: detect, stop, decide, go on.

| virtual time | what happens |
|---|---|
| 0 | the coordinator learns that a member, a link or a switch is gone: it asks the survivors to stop (*prepare*) |
| 1 ms | they stop, and answer what they have finished |
| 2 ms | it installs the tree that follows from that beside the old one |
| 3 ms | the switches have it |
| 4 ms | the decision is written down, the survivors have heard of it (*commit*) and go on |

The survivors then repeat the collective, or get the result that one of them has.

If the coordinator learns of another loss before 4 ms, all this begins anew. The agreement (``group/agreement.py``)
decides; this module reports events to it when they become known, and carries out its actions.

A rank joins between two collectives. Members are told 2 ms after it has started; if none has begun the next collective
by then, the coordinator decides as above, and they call again in the new group.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from p4reduce.control_plane.counters import Operation
from p4reduce.group import agreement
from p4reduce.group.agreement import Answered, Built, Event, Joined, Tell
from p4reduce.group.backend import COLLECTIVES, SERVED, CollectiveCall, FloatArray, Options, as_carried, part
from p4reduce.group.errors import ClusterError, CollectiveError, ExcludedError, RefusedError
from p4reduce.group.membership import MembershipDecision, SurvivorAnswer
from p4reduce.network.jobs.network import Job
from p4reduce.network.jobs.specs import PATIENCE_PS, exchanged
from p4reduce.network.virtual import StopReason
from p4reduce.runs.jobs import CONTROL_LATENCY_PS, MAIN_JOB, Part, beyond_int32, check_blocks
from p4reduce.workers.records import EndpointState
from p4switch.base.values import PS_PER_MS

if TYPE_CHECKING:
    from p4reduce.runs.virtual.surviving import SurvivingCarrier


# The attempts at one collective of a group whose members may die: the posts and results of each rank.
#
# In the first attempt members post their inputs. After a change of the group they post these again; or, if a member has
# the result already, it posts that and the others zeros: the sum is the result for all others (*spread*).


LONG_PS: Final = 500 * PS_PER_MS
"""interval after which, repeatedly, slots are read to find members that keep others out"""
OUT_OF_TURN: Final = "spoke out of turn"
SERVER_WAITS: Final = -1
"""stands for a chunk: the server waits"""
_WORDS: Final = Options(words=True)


class CollectiveAttempts:
    """One collective over all its attempts; ``Survival`` decides whether and when there is another attempt.

    Ranks are those of the start; the server's rank follows the last.
    """

    def __init__(self, carrier: "SurvivingCarrier", calls: list[CollectiveCall]) -> None:
        self._carrier = carrier
        self._network = carrier.network
        self._health = carrier.health
        self.calls = {call.rank: call for call in calls}
        """Calls by rank, of the ranks that have called."""
        self.first = calls[0]
        self.given = {call.rank: call.array.copy() for call in calls}
        """Copies of the calls' inputs, by rank."""
        self.done: dict[int, tuple[int, ...]] = {}
        """Ranks that have the result, with the members whose contributions are in it."""
        self.posted: set[int] = set()
        """Ranks that have begun in this attempt."""
        self.parts: Sequence[Part] = ()
        """Jobs of the last attempt with their parts of the array; empty for a single member."""
        self.since_ps = carrier.network.now
        """When the last rank began, picoseconds."""
        self._spread = False
        self._arrays: dict[int, FloatArray] = {}
        self._contributors = carrier.agreement.members
        self._before: list[tuple[int, int]] = []
        self._beyond = False
        carrier._host_of = carrier.hosts

    @property
    def living(self) -> list[int]:
        """Return the ranks that take part and are alive, whether deaths are known or not; with the server."""
        return self.living_of(self._carrier.agreement.members)

    def living_of(self, members: Iterable[int]) -> list[int]:
        """Return those of ``members`` that are alive, and the server if it takes part."""
        size = len(self._carrier.everybody)
        return [member for member in members if member not in self._health.dead] + (
            [size] if size in self.calls else []
        )

    @property
    def unposted(self) -> list[int]:
        """Return the ranks that have still to begin, because their calls come later."""
        return [rank for rank in self.living if rank not in self.posted and rank not in self.done]

    @property
    def held(self) -> bool:
        """Return whether a living rank has the result."""
        return any(rank in self.done for rank in self.living)

    @property
    def nothing_left(self) -> bool:
        """Return whether all living ranks have the result."""
        return all(rank in self.done for rank in self.living)

    def begin(self, check: Callable[[], None]) -> None:
        """Make the first attempt, on an existing job or on a new one."""
        carrier, first = self._carrier, self.first
        if first.operation in SERVED and len(carrier.everybody) not in self.calls:
            raise CollectiveError(f"{first.operation}: the server takes no part")
        if len(carrier.agreement.members) == 1:
            self.attempt(None, spread=False)
            return
        number, *_ = carrier._place(first.operation, first.root, carrier.workers, carrier.everybody)
        job = carrier._jobs.get(number)
        if job is None:
            try:
                coming = carrier.plan_for(first.operation, first.root, carrier.agreement.members)
            except ClusterError as error:
                if number == MAIN_JOB:
                    raise  # the group has no tree any more
                raise RefusedError(f"{first.operation} #{first.iteration}: {error}") from error
            self._network.advance(self._network.now + CONTROL_LATENCY_PS, check=check)
            job = carrier.attach(coming)
        self.attempt(job, spread=False)

    def attempt(self, job: Job | None, *, spread: bool) -> None:
        """Have all members post their inputs; or, to spread one member's result, that result and zeros."""
        self._spread = spread
        operation = "all_reduce" if spread and self.first.operation not in SERVED else self.first.operation
        elements = 1 if operation == "barrier" else self.first.array.size
        self.parts = () if job is None else self._carrier._parts(job, operation, elements)
        self._before = [self._carrier._totals(tree) for tree, _ in self.parts]
        self.posted = set()
        self._arrays = {}
        if not spread:
            self._contributors = self._carrier.agreement.members
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
        if job is None and len(self._carrier.agreement.members) == 1 and self.living:
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
        """Let ranks begin whose calls are due."""
        if not self.parts:
            return
        now = self._network.now
        for rank in sorted(self._arrays, key=lambda rank: self.calls[rank].start_ps):
            call = self.calls[rank]
            if rank not in self.posted and rank not in self._health.dead and call.start_ps <= now:
                self.posted.add(rank)
                self.since_ps = self._network.now
                self._health.begun()
                self._post(rank, call)

    def _post(self, rank: int, call: CollectiveCall) -> None:
        carrier = self._carrier
        if self._spread and self.first.operation in SERVED:
            operation, options = "pull", call.options
        elif self._spread:
            operation, options = "all_reduce", _WORDS
        else:
            operation, options = as_carried(call.operation, ring=bool(self.parts[0][0].plan.ring)), call.options
        collective = COLLECTIVES[operation]
        for job, where in self.parts:
            index = carrier._endpoint(job, call)
            if job.server is not None and operation in {"all_reduce", "barrier"}:
                carrier._post_host_server(job, collective, call)
            array, serves = self._arrays[rank][where], index == job.server
            self._network.post(
                index, part(collective, array, call.iteration, call.learning_rate, options, serves=serves)
            )

    def _at_work(self, ranks: Iterable[int]) -> Iterator[tuple[int, Job, int]]:
        """Yield rank, job and endpoint of those of ``ranks`` that have begun and are active."""
        for rank in ranks:
            for job, _ in self.parts if rank in self.posted else ():
                index = self._carrier._endpoint(job, self.calls[rank])
                if self._network.status(index).state is EndpointState.ACTIVE:
                    yield rank, job, index

    @property
    def working(self) -> list[int]:
        """Return the active endpoints of living ranks, even of those that have the result already."""
        return [index for _, _, index in self._at_work(self.living)]

    def oldest_missing(self) -> frozenset[tuple[int, int]]:
        """Return the chunks that survivors wait for: place of the part, and seq; `SERVER_WAITS` for the server."""
        places = {job.plan.job: place for place, (job, _) in enumerate(self.parts)}
        oldest = self._network.endpoints.oldest_missing
        return frozenset(
            (places[job.plan.job], SERVER_WAITS if index == job.server else oldest(index))
            for rank, job, index in self._at_work(self.living)
            if rank not in self.done
        )

    def collect(self) -> None:
        """Note the ranks that have their results by now."""
        for rank in list(self.posted) if self.parts else ():
            if rank in self.done or rank in self._health.dead:
                continue
            call = self.calls[rank]
            every = [self._network.status(self._carrier._endpoint(job, call)) for job, _ in self.parts]
            for status in every:
                if status.state is EndpointState.FAILED or status.error is not None:
                    raise CollectiveError(f"{self.first.operation}: {self._carrier.hosts[rank]}: {status.error}")
            if all(status.state is not EndpointState.ACTIVE for status in every):
                # A rank that gets this result from another rank gets its error, too.
                held = any(now.saturated > before for now, (_, before) in zip(every, self._before, strict=True))
                self._beyond |= self.first.options.words and held and not self._spread
                self._settle(rank, max(status.done_at_ps for status in every))

    def _settle(self, rank: int, done_ps: int) -> None:
        self.done[rank] = self._contributors
        call = self.calls[rank]
        call.done_ps = done_ps
        if self._spread and self._arrays[rank] is not call.array:
            call.array[:] = self._arrays[rank]

    def settle_rest(self) -> None:
        """Note that all other ranks are done: they only had not been told, and there is nothing to spread."""
        for rank in self.living:
            if rank not in self.done:
                self._contributors = next(iter(self.done.values()))
                self._spread = False
                self._settle(rank, self._network.now)

    def record(self) -> None:
        """Check the result and add its record."""
        carrier, first = self._carrier, self.first
        left = [self.calls[rank] for rank in self.living]
        if not self.parts:
            for call in left if self._beyond else ():
                call.error = beyond_int32(call)
        if not self.parts or not left:
            return
        contributors = [rank for rank in self._contributors if rank in self.given]
        expected = carrier._expect(self.parts, first, [self.given[rank] for rank in contributors])
        if first.operation == "all_to_all":
            check_blocks(left, exchanged([self.given[call.rank] for call in left]))
        for job, where in () if self._spread else self.parts:
            called = as_carried(first.operation, ring=bool(job.plan.ring))
            job.note(called, where.stop - where.start, words=first.options.words)
        spread = Operation.PULL if first.operation in SERVED else Operation.ALL_REDUCE
        carried = spread if self._spread else None
        before = sum(count for count, _ in self._before), sum(count for _, count in self._before)
        carrier._add_record(self.parts, left, expected, before, carried, beyond=self._beyond)


@dataclass(frozen=True)
class Restored:
    """Times of one change of the group, picoseconds of virtual time."""

    began_ps: int
    """When the last survivor had called the collective that was under way."""
    noticed_ps: int
    """When the coordinator knew the last event behind the decision."""
    resumed_ps: int
    """When the survivors went on."""


class Survival:
    """Carries one collective to its end even if members die; see the module."""

    def __init__(self, carrier: "SurvivingCarrier", calls: list[CollectiveCall], check: Callable[[], None]) -> None:
        self._carrier = carrier
        self._network = carrier.network
        self._health = carrier.health
        self._agreement = carrier.agreement
        self._agreement.blamed = self._blamed
        self._check = check
        self._attempts = CollectiveAttempts(carrier, calls)
        self._calls = self._attempts.calls
        self._first = self._attempts.first
        self._due: tuple[int, Callable[[], None]] | None = None  # arrival of a control message: when, and its effect
        self._stopped_ps: int | None = None
        self._oldest: frozenset[tuple[int, int]] = frozenset()
        self._raised = False
        self._look_again_ps = 0

    # --- from start to end

    def carry(self) -> None:
        """Run until every survivor has its result, or is told that there is none. Raises ``CollectiveError``."""
        for call in self._calls.values():
            call.start_ps = max(call.start_ps, self._network.now)
        if not self._welcome():
            self._attempts.begin(self._check)
        while not self._over:
            watched = [] if self._carrier.changing else self._attempts.working
            whole = not self._attempts.unposted
            until = self._next_ps(whole=whole)
            if until is None and not watched and whole:
                raise CollectiveError(f"{self._first.operation}: no rank is left that could carry it on")
            reason = self._network.advance(until, watch=watched if whole else (), check=self._check)
            self._health.happen()
            if self._stopped_ps is None:  # no member begins after it was told to stop
                self._attempts.post_due()
                self._attempts.collect()
            self._proceed()
            if reason is StopReason.QUIET and until is None and not self._over:
                raise CollectiveError(f"{self._first.operation}: nothing moves any more, but not all have a result")
            if whole and self._network.now > self._attempts.since_ps + 2 * PATIENCE_PS:  # workers give up after half
                raise CollectiveError(f"{self._first.operation}: no result, and no rank is known to be dead")
        self._finish()

    @property
    def _over(self) -> bool:
        done = self._raised or (self._attempts.nothing_left and not self._attempts.working)
        return done and not self._carrier.changing

    def _next_ps(self, *, whole: bool) -> int | None:
        now = self._network.now
        times = [] if self._due is None else [self._due[0]]
        if self._stopped_ps is None:
            times += [max(now, self._calls[rank].start_ps) for rank in self._attempts.unposted]
        if not self._carrier.changing and whole:
            times.append(max(now, self._looks_at_ps))
        times += [] if (at_ps := self._health.next_ps(now)) is None else [at_ps]
        return min(times, default=None)

    @property
    def _looks_at_ps(self) -> int:
        """Return when the coordinator next checks why an operation takes long."""
        return max(self._attempts.since_ps + LONG_PS, self._look_again_ps)

    def _welcome(self) -> bool:
        """Return whether a rank joins before any member has begun; then none begins until the new group is decided."""
        network, begin = self._network, min((self._calls[rank].start_ps for rank in self._attempts.living), default=0)
        if not self._health.joins_by(begin):
            return False
        network.advance(begin, check=self._check)
        self._health.happen()
        newcomers = self._health.newcomers()
        if not newcomers:
            return False
        self._carrier.stop_jobs()
        self._stopped_ps = network.now
        self._hear(*map(Joined, newcomers))
        return True

    # --- events that the coordinator learns of

    def _proceed(self) -> None:
        """Take in the events that are known by now, and do what is due."""
        now = self._network.now
        events = self._health.heard_of(now)
        if not events and not self._carrier.changing and not self._attempts.unposted and now >= self._looks_at_ps:
            self._look_again_ps = now + LONG_PS
            events = self._turn_out()
        self._hear(*events)
        if self._due is not None and now >= self._due[0]:
            (_, arrives), self._due = self._due, None
            arrives()

    def _hear(self, *events: Event) -> None:
        """Report events to the agreement, after signs of life of all living members; carry out its actions."""
        self._health.beat(self._network.now)
        try:
            actions = self._agreement.on(self._network.now, *events)
        except CollectiveError as error:
            raise CollectiveError(f"{self._first.operation} #{self._first.iteration}: {error}") from None
        for action in actions:
            self._do(action)
        if not self._agreement.survivors:
            dead = self._agreement.leases.dead
            fates = "; ".join(f"rank {member} {dead[member]}" for member in self._agreement.members)
            raise ClusterError(f"no rank survived: {fates}")

    def _turn_out(self) -> list[Event]:
        """Exclude members that keep others out of slots; return the events."""
        oldest = self._attempts.oldest_missing()
        pulls = as_carried(self._first.operation, ring=False) == "pull"
        names: set[str] = set()
        for place, (job, _) in enumerate(self._attempts.parts):
            seqs = {seq & 0xFFFFFFFF for at, seq in oldest if at == place and seq != SERVER_WAITS}
            if job.plan.in_network:
                names |= self._carrier.switches.controller.out_of_turn(job.plan, seqs, pulls=pulls)
        out_of_turn = [member for member in self._agreement.members if self._carrier.everybody[member] in names]
        for member in out_of_turn:
            self._carrier.pause(self._carrier.hosts[member])
        return [agreement.ProcessEnded(member, OUT_OF_TURN) for member in out_of_turn]

    def _blamed(self, asked: Collection[int]) -> set[int]:
        """Return the members that others wait for; if others' leases have run out, look for these again later."""
        now = self._network.now
        # All wait for the answers of those who are asked.
        named = set(self._health.dead) if asked and self._due is None else self._named()
        if set(self._agreement.leases.expired(now)) - named:
            self._health.ask_again(now, patient=bool(self._attempts.unposted))
        return named

    def _named(self) -> set[int]:
        """Return the members that the operation waits for, by the slots of its tree; all members for other plans."""
        members = self._agreement.members
        silent: set[int] = set()
        if self._stopped_ps is not None and self._network.now >= self._stopped_ps + CONTROL_LATENCY_PS:
            # They have not answered the first request.
            silent = {rank for rank, died_ps in self._health.dead.items() if died_ps < self._stopped_ps}
        oldest = self._attempts.oldest_missing() if self._stopped_ps is None else self._oldest
        if not oldest:
            return silent
        parts, everybody = self._attempts.parts, self._carrier.everybody
        waited = [(parts[place][0].plan, seq) for place, seq in oldest if seq != SERVER_WAITS]
        if not waited or any(not plan.in_network for plan, _ in waited):
            return set(members)
        blamed = self._carrier.switches.controller.blamed
        named = frozenset().union(*(blamed(plan, seq & 0xFFFFFFFF) for plan, seq in waited))
        server = parts[0][0].plan.server
        if server is not None and named <= {everybody[rank] for rank in self._attempts.posted if rank < len(everybody)}:
            named |= {server}  # all have called; a member may have died before it asked again, or the server
        rank_at = {everybody[member]: member for member in members}
        return silent | {rank_at[name] for name in named if name in rank_at}

    # --- actions of the agreement

    def _do(self, action: agreement.Action) -> None:
        match action:
            case Tell(members, "hold", int(term)):  # they heard of it before they called
                self._hear(*(agreement.Beat(member, self._first.iteration, True, term, True) for member in members))
            case Tell(_, "prepare"):
                self._ask()
            case Tell((holder,), "give", int(term)):  # the next tree carries it
                self._hear(Answered(holder, term, None))
            case Tell((member,), "refused"):
                self._health.came.pop(member, None)
            case agreement.Install(decision):
                self._install(decision)
            case agreement.Abandon():
                self._carrier.uninstall(self._carrier.coming)
            case agreement.Commit(decision, _, _, (_, noticed)):
                self._commit(decision, noticed)

    def _ask(self) -> None:
        """Schedule the request to survivors and their answers; members that stopped for a join need no request."""
        now, waits = self._network.now, self._stopped_ps is not None
        if not waits:
            self._due = now + CONTROL_LATENCY_PS, self._stop
        else:
            self._due = now + (1 + self._carrier.changing) * CONTROL_LATENCY_PS, self._answer
        self._carrier.changing = True

    def _stop(self) -> None:
        """Stop the survivors, which receive the request now."""
        self._oldest = self._attempts.oldest_missing()
        self._carrier.stop_jobs()  # frames still on their way write to no array
        self._stopped_ps = self._network.now
        self._due = self._network.now + CONTROL_LATENCY_PS, self._answer

    def _answer(self) -> None:
        """Report the answers of all living members; for an operation with a server, the server answers for all."""
        attempts, first, term = self._attempts, self._first, self._agreement.term
        size, done, asked = len(self._carrier.everybody), dict(self._attempts.done), sorted(self._agreement.asked)
        if first.operation in SERVED:
            done = dict.fromkeys(asked, done[size]) if size in done else {}
        elif first.operation == "all_to_all" and not all(member in done for member in asked):
            done = {}  # blocks for one rank are of no use to another
        events: list[Event] = []
        if not attempts.posted and not attempts.done:
            events += map(Joined, self._health.newcomers())
        for member in asked:
            if member not in self._health.dead:
                finished = first.iteration + (member in done)
                answer = SurvivorAnswer(finished, done.get(member, ()), first.operation, first.root)
                events.append(Answered(member, term, answer))
        self._hear(*events)

    def _install(self, decision: MembershipDecision) -> None:
        """Install the next tree beside the old one: one latency until it stands, one until survivors are told."""
        carrier, attempts, first = self._carrier, self._attempts, self._first
        done = [rank in attempts.done for rank in attempts.living_of(decision.after)]
        operation = first.operation
        if decision.joined:
            operation = "all_to_all" if carrier.experiment.plan == "all-to-all" else "all_reduce"
        elif any(done) and operation not in SERVED:
            operation = "all_reduce"  # a member's result is spread as a sum, unless a server has it
        for member in decision.joined:  # from now on they send heartbeats
            self._health.came.pop(member, None)
        try:
            if decision.joined or (len(decision.after) > 1 and not self._raises(decision) and not all(done)):
                carrier.coming = carrier.plan_for(operation, first.root, decision.after)
        except ClusterError as error:
            self._hear(Built(decision.epoch, str(error)))
        else:
            self._due = self._network.now + 2 * CONTROL_LATENCY_PS, lambda: self._hear(Built(decision.epoch))

    def _raises(self, decision: MembershipDecision) -> bool:
        """Return whether this collective is not done."""
        return decision.outcome == "raised" and decision.operation == self._first.iteration

    def _commit(self, decision: MembershipDecision, noticed_ps: int) -> None:
        """Change the group as decided, and let survivors go on."""
        carrier, attempts, now = self._carrier, self._attempts, self._network.now
        carrier.journal.write(decision)
        carrier.workers = tuple(carrier.everybody[member] for member in decision.after)
        self._raised = self._raises(decision)
        carrier.uninstall(carrier.stopped)
        began = max((self._calls[rank].start_ps for rank in attempts.living if rank in self._calls), default=0)
        carrier.restored.append(Restored(began, noticed_ps, now))
        carrier.changing, self._stopped_ps = False, None
        job, carrier.coming = carrier.attach(carrier.coming) if carrier.coming else None, []
        if self._raised or attempts.nothing_left:
            return
        if attempts.held and job is not None and self._first.operation in {"barrier", "push"}:
            attempts.settle_rest()
            return
        attempts.attempt(job, spread=attempts.held and job is not None)

    # --- results

    def _finish(self) -> None:
        carrier = self._carrier
        for rank, call in self._calls.items():
            if rank in self._health.dead or (rank < len(carrier.everybody) and rank not in self._agreement.members):
                why = self._agreement.leases.dead.get(rank, "has died")
                call.error = ExcludedError(f"rank {rank} {why}: it is no member any more")
            elif self._raised:
                call.array[:] = self._attempts.given[rank]
                call.raised = True
                call.done_ps = self._network.now
            else:
                call.contributors = self._attempts.done[rank]
        if not self._raised:
            self._attempts.record()
