"""The rendezvous of a group: each participant posts its call and blocks until the network has carried it out.

Virtual time stands still while scripts compute. The network runs once every participant that the operation needs has
called, so the outcome does not depend on how threads or processes are scheduled.

The thread of the last caller carries out the collective, without holding the lock: meanwhile any thread may ask which
participants wait, leave, or end the group.
"""

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence

from p4reduce.group.backend import (
    COMPUTE,
    OPERATIONS,
    SERVED,
    Asked,
    Called,
    Carry,
    CarryMove,
    CarryStale,
    Clock,
    CollectiveCall,
    Death,
    Figure,
    Joined,
    Move,
    Moves,
    Participant,
    ParticipantTrace,
    Seat,
    Subgroup,
    TimeSpan,
    Wait,
    check_agreement,
    first_bad_value,
)
from p4reduce.group.errors import GOES_ON, ClusterError, CollectiveError, ExcludedError
from p4reduce.group.membership import MembershipDecision, group_changed
from p4switch.base.values import PS_PER_S


class Rendezvous:
    """Matches the calls of ``size`` workers and, with ``server``, of a parameter server (rank ``size``).

    ``ranks`` and ``clocks``, of a subgroup: those of its participants in the whole group; errors use these ranks.
    ``subgroup`` makes subgroups. ``on_death``: called for each participant that dies; without it, a death ends the
    group. ``members``: number of workers (the first ranks) at the start; others may join. ``moves``: numbers of parts
    of other libraries' transfers, if several groups share them.
    """

    def __init__(
        self,
        size: int,
        *,
        server: bool,
        carry: Carry,
        start_ps: int,
        patience_s: float = 600.0,
        ranks: Sequence[int] | None = None,
        clocks: list[Clock] | None = None,
        subgroup: Subgroup | None = None,
        carry_stale: CarryStale | None = None,
        on_death: Death | None = None,
        members: int | None = None,
        carry_move: CarryMove | None = None,
        moves: Iterator[int] | None = None,
    ) -> None:
        self.subgroup = subgroup
        self.on_joined: Joined | None = None
        self._on_death = on_death
        self._members = tuple(range(size if members is None else members))
        self._changes: list[MembershipDecision] = []
        self._carry_stale = carry_stale
        self._carry_move = carry_move
        numbers = itertools.count() if moves is None else moves
        self._moves = Moves(self._moved, numbers, lambda rank, moved: self._seats[rank].told.moves.append(moved))
        self._carrying = False
        self._size = size
        self._known_as = range(size) if ranks is None else ranks
        self._server = server
        self._carry = carry
        self._patience_s = patience_s
        count = size + int(server)
        clocks = [Clock(start_ps) for _ in range(count)] if clocks is None else clocks
        self._seats = [Participant(clock, start_ps) for clock in clocks]
        self._changed = threading.Condition()
        self._failure: ClusterError | None = None

    def backend(self, rank: int) -> Seat:
        """Return the backend of participant ``rank``."""
        if not 0 <= rank < len(self._seats):
            raise ValueError(f"rank {rank}: this group has ranks 0 to {len(self._seats) - 1}")
        return Seat(self, rank, self._size)

    def figures(self) -> list[Figure]:
        """Return all recorded figures, by rank and in order."""
        with self._changed:
            return [figure for seat in self._seats for figure in seat.figures]

    def fail(self, error: ClusterError) -> None:
        """End the group: participants that wait, or call later, get ``error``; a collective under way is given up."""
        with self._changed:
            self._end(error)

    def lose(self, rank: int) -> None:
        """Handle the end of ``rank``'s process without a leave: the others get an error, or go on without it."""
        if not self.die(rank, "ended without leaving the group"):
            self.fail(CollectiveError(f"{self._name(rank)} ended without leaving the group"))

    def die(self, rank: int, reason: str) -> bool:
        """Note that ``rank``'s process ended without leaving; return False if the others cannot go on without it.

        A collective that has its array already is carried to its end.
        """
        with self._changed:
            seat = self._seats[rank]
            if self._on_death is None or rank >= self._size or self._failure is not None:
                return False
            if seat.left or seat.died:
                return True
            self._on_death(rank, seat.clock.now_ps, reason)
            seat.died = reason
            complete = self._take_complete()
            self._changed.notify_all()
        if complete:
            self._carry_out(complete)
        return True

    @property
    def failure(self) -> ClusterError | None:
        """Return the error that ended the group, or None."""
        return self._failure

    def close(self) -> None:
        """End the group and wait until the network uses no participant's array any more."""
        with self._changed:
            self._end(ClusterError("the group has ended"))
            self._changed.wait_for(lambda: not self._carrying)

    def waiting(self) -> str:
        """Return one line that says which participants wait for which; empty if none waits."""
        with self._changed:
            calls = self._waiting_calls()
            if not calls:
                return ""
            verb = "waits" if len(calls) == 1 else "wait"
            names = self._names([call.rank for call in calls])
            return f"{calls[0].operation} #{calls[0].iteration}: {names} {verb} for {self._missing(calls[0].operation)}"

    def spans(self) -> list[TimeSpan]:
        """Return the intervals of all participants, by rank and start."""
        with self._changed:
            every = [span for seat in self._seats for span in (*seat.computed, *seat.spans)]
        return sorted(every, key=lambda span: (span.rank, span.start_ps, span.end_ps))

    def post(self, rank: int, asked: Asked) -> int:
        """Post ``rank``'s call, wait for its result, and return the time of the result, picoseconds.

        With ``start_ps``, the collective starts then, and the rank's clock stays as it is. Without, it starts at the
        time of the clock, which then moves to its end. It never starts before the end of the rank's last collective.
        """
        operation, array, root, options, start_ps = (
            asked.operation, asked.array, asked.root, asked.options, asked.start_ps
        )  # fmt: skip
        if operation not in OPERATIONS:
            raise ValueError(f"unknown operation {operation!r}; known: {', '.join(sorted(OPERATIONS))}")
        if operation in SERVED and not self._server:
            raise CollectiveError(f"{operation} needs a parameter server: choose a topology with a server host")
        if operation not in SERVED and rank == self._size:
            raise CollectiveError(f"{operation} is for workers; the server takes part in push, pull and push_pull")
        if not 0 <= root < self._size:
            raise ValueError(f"root {root}: this group has workers 0 to {self._size - 1}")
        summed = operation in {"all_reduce", "push", "push_pull"} and not (options.words or options.poison)
        if options.stale and self._carry_stale is None:
            raise CollectiveError("staleness: only the whole group, in virtual time, has workers that do not wait")
        bad = first_bad_value(array) if summed else None
        if bad is not None:
            raise ValueError(f"{operation}: {self._name(rank)} gave {array[bad]} at index {bad}; a sum cannot carry it")
        with self._changed:
            seat = self._seats[rank]
            if seat.call is not None:
                raise CollectiveError(
                    f"{self._name(rank)} calls {operation} while its {seat.call.operation} is under way"
                )
            self._raise_failure()
            self._raise_change(rank, options.view, seat.iteration)
            called = seat.clock.now_ps if start_ps is None else start_ps
            begin = max(called, seat.ready_ps)
            rate, number = asked.learning_rate, seat.iteration
            seat.call = CollectiveCall(
                rank, operation, array, root, rate, begin, number, called_ps=called, options=options
            )
            seat.finished = False
            complete = self._take_complete()
        if complete:
            self._carry_out(complete)
        patience_s = self._patience_s if options.patience_s is None else options.patience_s
        with self._changed:
            self._changed.wait_for(
                lambda: seat.under_way or seat.finished or seat.died or self._failure is not None, patience_s
            )
            # Until then the network writes to the array; it may wait for others' next calls meanwhile.
            while not self._changed.wait_for(lambda: self._released(seat), patience_s) and self._carrying:
                pass
            missing = "" if seat.finished else self._missing(operation)
            seat.under_way = False
            call, seat.call = seat.call, None
            if isinstance(call.error, GOES_ON):
                self._count(seat, call, start_ps)
            if call.error is not None:
                raise call.error
            if call.raised:
                self._raise_change(rank, options.view, seat.iteration)
            if seat.died:
                raise ExcludedError(f"{self._name(rank)} {seat.died}: it is no member any more")
            if seat.finished:
                self._count(seat, call, start_ps)
                return call.done_ps
            self._raise_failure()
            waited = f"{self._name(rank)} reached its timeout of {patience_s:g} s waiting for {missing}"
            error = CollectiveError(f"{operation} #{seat.iteration}: {waited}")
        self.fail(error)
        raise error

    def _count(self, seat: Participant, call: CollectiveCall, start_ps: int | None) -> None:
        """Record the end of a collective, with a result or an error, before the participant's next one."""
        seat.iteration += 1
        if call.done_ps < 0:  # refused: no time passed
            return
        seat.ready_ps = call.done_ps
        if start_ps is None:
            seat.told.waits.append(Wait(call.called_ps, call.done_ps))
            seat.clock.reach(call.done_ps)
        name = call.options.name or call.operation
        meant = {"own": "reduce_scatter", "all": "all_gather"}.get(call.options.blocks, call.operation)
        seat.told.calls.append(Called(meant, call.array.size, call.root, call.called_ps, call.done_ps))
        seat.spans.append(TimeSpan(call.rank, name, call.start_ps, call.done_ps, call.array.size))

    def leave(self, rank: int) -> None:
        """Note that ``rank`` makes no more calls; participants that wait for it get an error."""
        with self._changed:
            self._seats[rank].left = True
            complete = self._take_complete()
        if complete:
            self._carry_out(complete)

    def compute(self, rank: int, seconds: float) -> None:
        """Advance ``rank``'s clock."""
        self.computed(rank, *self._seats[rank].clock.advance(round(seconds * PS_PER_S)))

    def computed(self, rank: int, start_ps: int, end_ps: int) -> None:
        """Record an interval of ``rank``'s computation; adjacent intervals become one."""
        spans = self._seats[rank].computed
        if spans and spans[-1].end_ps == start_ps:
            start_ps = spans.pop().start_ps
        if end_ps > start_ps:
            spans.append(TimeSpan(rank, COMPUTE, start_ps, end_ps))

    def move(self, rank: int, move: Move) -> int:
        """Record ``rank``'s part of another library's transfer; return its number."""
        ranks = {*move.meets, *(peer for peer, _ in move.sent)}
        if self._carry_move is None or rank not in move.meets or not ranks <= {*range(self._size)}:
            raise ValueError(f"move: ranks {sorted(ranks)} of rank {rank}, of a group of {self._size}")
        if any(octets < 0 or peer == rank for peer, octets in move.sent):
            raise ValueError(f"move: {move.sent}: must be bytes, 0 or more, for others than rank {rank}")
        with self._changed:
            self._raise_failure()
            return self._moves.post(rank, move)

    def moved_ps(self, rank: int, number: int) -> int:
        """Return when ``rank``'s part was complete, ps; -1 until the others have recorded theirs."""
        with self._changed:
            self._raise_failure()
            return self._moves.done_ps(rank, number)

    def _moved(self, name: str, starts: Mapping[int, int], sent: Sequence[tuple[int, int, int]]) -> dict[int, int]:
        """Carry a transfer as ``CarryMove``, and record a span for each rank."""
        assert self._carry_move is not None  # noqa: S101  (as `move` has it)
        done = self._carry_move(name, starts, sent)
        for rank, start_ps in starts.items():
            words = sum(octets for sender, _, octets in sent if sender == rank) // 4
            self._seats[rank].spans.append(TimeSpan(rank, name, start_ps, done[rank], words))
        return done

    def told(self, rank: int) -> ParticipantTrace:
        """Return ``rank``'s collectives, waits and messages, for its trace."""
        return self._seats[rank].told

    def contributors(self, rank: int) -> tuple[int, ...]:
        """Return the members whose arrays are in the result of ``rank``'s last collective."""
        return self._seats[rank].contributors or self._members

    def summed(self, rank: int) -> tuple[tuple[int, int], ...]:
        """Return (elements, contributions) of each stretch of ``rank``'s last result; empty: all contributors."""
        return self._seats[rank].summed

    def clock(self, rank: int) -> Clock:
        """Return the clock of ``rank``."""
        return self._seats[rank].clock

    def record(self, rank: int, name: str, value: float, at_ps: int | None = None) -> None:
        """Record a figure with time ``at_ps``, or now."""
        with self._changed:
            seat = self._seats[rank]
            now = seat.clock.now_ps if at_ps is None else at_ps
            seat.figures.append(Figure(rank, name, seat.iteration, now, value))

    def _waiting_calls(self) -> list[CollectiveCall]:
        return [seat.call for seat in self._seats if seat.waits and seat.call is not None]

    def _take_complete(self) -> list[CollectiveCall]:
        """Take the calls of a collective that all participants have called, and which begins now; or none."""
        if any(seat.call is not None and seat.call.options.stale and not seat.finished for seat in self._seats):
            return self._take_stale()
        calls = self._waiting_calls()
        workers = [call for call in calls if call.rank < self._size]
        served = bool(workers) and workers[0].operation in SERVED
        needed = calls if served else workers
        alive = sum(not self._seats[member].died for member in self._members)
        if len(workers) < alive or not workers or (served and len(calls) < alive + 1):
            self._check_left()
            return []
        try:
            check_agreement(needed, self._name)
        except CollectiveError as error:
            self._end(error)
            return []
        for call in needed:
            self._seats[call.rank].under_way = True
        self._carrying = True
        return needed

    def _take_stale(self) -> list[CollectiveCall]:
        """Take the calls of all participants that have not left, once each has one; otherwise empty."""
        there = [seat for seat in self._seats if not seat.left]
        if self._carrying or self._failure is not None or any(seat.call is None or seat.finished for seat in there):
            return []
        calls = [seat.call for seat in there if seat.call is not None]
        if self._seats[self._size].left:
            self._end(CollectiveError(f"push_pull: {self._names([calls[0].rank])} waits for the server, which left"))
            return []
        try:
            check_agreement(calls, self._name)
        except CollectiveError as error:
            self._end(error)
            return []
        for seat in there:
            seat.under_way = True
        self._carrying = True
        return calls

    def _released(self, seat: Participant) -> bool:
        """Return whether the network does not use a participant's array any more."""
        return seat.finished or not seat.under_way or (self._failure is not None and not self._carrying)

    def _carry_out(self, calls: list[CollectiveCall]) -> None:
        finished: list[CollectiveCall] = []
        try:
            if calls[0].options.stale and self._carry_stale is not None:
                finished = self._carry_stale(calls, self._check)
            else:
                decisions = self._carry(calls, self._check) or ()
                finished = calls
                with self._changed:
                    self._apply(decisions, calls)
        except GOES_ON as error:  # the same at all callers, and no array is in use any more
            finished = calls
            for call in calls:
                call.error = type(error)(str(error))
        except ClusterError as error:
            self.fail(error)
        except BaseException as error:
            self.fail(ClusterError(f"{calls[0].operation}: {error}"))
            raise
        finally:
            with self._changed:
                self._carrying = False
                for call in finished:
                    self._seats[call.rank].under_way, self._seats[call.rank].finished = False, True
                if not finished:
                    for call in calls:
                        self._seats[call.rank].under_way = False
                self._changed.notify_all()

    def _apply(self, decisions: Sequence[MembershipDecision], calls: list[CollectiveCall]) -> None:
        """Change the group as decided; each participant is told at its next call."""
        for call in calls:
            seat = self._seats[call.rank]
            seat.contributors = call.contributors or self._members
            seat.summed = call.summed
            if isinstance(call.error, ExcludedError):
                seat.died = seat.died or "has died"
        for decision in decisions:
            if decision.after != self._members:
                self._members = decision.after
                self._changes.append(decision)
            for member, reason in decision.lost.items():
                self._seats[member].died = self._seats[member].died or reason
        newcomers = tuple(
            newcomer for decision in decisions for newcomer in decision.joined if newcomer in self._members
        )
        for member in newcomers:
            seat = self._seats[member]
            seat.iteration = calls[0].iteration
            seat.ready_ps = max(call.done_ps for call in calls)
            seat.clock.reach(seat.ready_ps)
        if newcomers and self.on_joined is not None:
            self.on_joined(newcomers, len(self._changes), self._members)

    def _raise_change(self, rank: int, view: int, operation: int) -> None:
        """Raise `GroupChanged` if the caller does not know the last change, `ExcludedError` if it is dead."""
        if self._seats[rank].died:
            raise ExcludedError(f"{self._name(rank)} {self._seats[rank].died}: it is no member any more")
        if view < len(self._changes):
            raise group_changed(self._changes, view, operation)

    def _check(self) -> None:
        with self._changed:
            self._raise_failure()

    def _end(self, error: ClusterError) -> None:
        self._failure = self._failure or error
        self._changed.notify_all()

    def _check_left(self) -> None:
        gone = [rank for rank in self._members if self._seats[rank].left and not self._seats[rank].died]
        waiting = self._waiting_calls()
        served = any(call.operation in SERVED for call in waiting)
        if self._server and served and self._seats[self._size].left:
            gone.append(self._size)
        if gone and waiting:
            call = waiting[0]
            self._end(
                CollectiveError(
                    f"{call.operation} #{call.iteration}: {self._name(call.rank)} waits for {self._names(gone)}, "
                    "which left the group"
                )
            )

    def _missing(self, operation: str) -> str:
        ranks = [*self._members, *([self._size] if self._server and operation in SERVED else [])]
        needed = {rank: self._seats[rank] for rank in ranks if not self._seats[rank].died}
        # If workers do not wait for each other, their calls stay posted while others arrive.
        stale = any(seat.call is not None and seat.call.options.stale for seat in needed.values())
        return self._names([rank for rank, seat in needed.items() if not (seat.waits or (stale and seat.under_way))])

    def _names(self, ranks: list[int]) -> str:
        return ", ".join(map(self._name, ranks))

    def _name(self, rank: int) -> str:
        return "the server" if rank == self._size else f"rank {self._known_as[rank]}"

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise type(self._failure)(str(self._failure))
