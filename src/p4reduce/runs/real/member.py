"""A member's end of the control connection: it sends heartbeats, stops on request, and receives decisions.

A thread serves the connection; the caller's thread runs the collectives. Messages are framed by ``group/remote.py``. A
member first sends ``join`` (its rank) and ``pid``, then messages of type `MemberMessage`.

| from the coordinator | |
|---|---|
| ``prepare``: term | stop, and answer |
| ``hold``: term, or null | begin no other operation, as a rank joins; or go on |
| ``give``: term | another member needs the last result |
| ``commit``: a decision | go on, with ``endpoints``; the operation's result follows if another member had it |
| … ``failed`` | the error that this result had |
| … ``history`` | all decisions so far, for a rank that joins and has waited since ``join`` |
| ``refused``: why | the rank that wanted to join is not admitted |
| ``excluded``: why | the others go on without this member |
| ``released`` | all have left |
"""

import atexit
import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from p4reduce.base.records import from_json, from_plain, to_json, to_plain
from p4reduce.control_plane.plans.forest import MOST_BLOCKS
from p4reduce.group import remote
from p4reduce.group.backend import Asked, FloatArray, Options
from p4reduce.group.errors import ClusterError, ExcludedError, SaturatedError
from p4reduce.group.membership import REAL_LEASE, MembershipDecision, cannot_redo, group_changed
from p4reduce.runs.real.backend import Counts, RealBackend, ScriptReport, ScriptSpec
from p4reduce.workers.records import EndpointState
from p4reduce.workers.specs import EndpointSpec
from p4reduce.workers.status import EndpointStatus, WaitStatus
from p4reduce.workers.udp import StoppedError
from p4switch.base.values import NS_PER_S

Message = dict[str, Any]
Operations = Annotated[int, Field(ge=0, lt=1 << 53)]
_UNLESS_NONE: Final = Field(exclude_if=lambda value: value is None)
CONNECT_S: Final = 30.0
BUSY_S: Final = 0.01
"""seconds between two attempts to connect while the coordinator's queue is full"""
BEAT_S: Final = REAL_LEASE.beat / NS_PER_S
_SEQS: Final = 1 << 32
_LEVELS: Final = 1 << 16
"""bound on the levels of a tree; the coordinator climbs that many"""


Seq = Annotated[int, Field(ge=0, lt=_SEQS)]


@dataclass(frozen=True)
class BeatMessage:
    """Heartbeat, sent every ``REAL_LEASE.beat``.

    beat: operations finished. calls: whether another operation is called. rests: whether that operation has not begun.
    held: term of the last ``hold``. waits, told: for each tree, the oldest seq without a result and the last WAIT,
    while an operation is under way.
    """

    beat: Operations
    calls: bool
    rests: bool
    held: int | None = None
    waits: Annotated[tuple[Seq | None, ...] | None, _UNLESS_NONE] = None
    told: Annotated[tuple[WaitStatus | None, ...] | None, _UNLESS_NONE] = None

    def __post_init__(self) -> None:
        told = () if self.told is None else self.told
        if len(told) != len(self.waits or ()) or len(told) > MOST_BLOCKS:
            raise ValueError("waits: it does not say for each tree what is waited for")
        if any(wait is not None and not (0 <= wait.seq < _SEQS and 0 <= wait.level < _LEVELS) for wait in told):
            raise ValueError("told: no switch tells that")


@dataclass(frozen=True)
class StoppedMessage:
    """Answer to ``prepare``: term, operations finished, contributors of the last result, and the pending call."""

    stopped: int
    finished: Operations
    contributors: tuple[int, ...]
    root: int
    operation: str | None = None


@dataclass(frozen=True)
class ArrayMessage:
    """Answer to ``give``: term and ``failed``, the error of the last operation's result, which follows."""

    array: int
    failed: str | None = None


@dataclass(frozen=True)
class LeftMessage:
    """Message that the member makes no more calls; ``left``: operations finished."""

    left: Operations


MemberMessage = BeatMessage | StoppedMessage | ArrayMessage | LeftMessage


@dataclass(frozen=True)
class Calling:
    """A call of the caller's thread; ``view``: number of changes that the caller has heard of."""

    operation: str
    root: int
    view: int


@dataclass(frozen=True)
class MemberTurn:
    """The caller's next step: try (with new ``endpoints`` in a new epoch), or take over ``array`` as the result."""

    members: tuple[int, ...]
    endpoints: tuple[EndpointSpec, ...]
    epoch: int
    weights: tuple[int, ...] = ()
    """Weight of the tree of each endpoint."""
    array: FloatArray | None = None
    """The operation's result, if another member had it …"""
    contributors: tuple[int, ...] = ()
    """… and the members whose arrays are in it."""
    failed: str | None = None
    """Error that the other member got instead (``SaturatedError``), or None."""


@dataclass(frozen=True)
class Committed:
    """The coordinator's message about a decision. The result that the member lacks, if any, follows.

    commit: the decision. endpoints: the member's endpoint in each tree from now on; empty if there is no new tree.
    weights: of these trees. failed: error of the operation, or None. history: all decisions so far, for a member that
    joins by this decision.
    """

    commit: MembershipDecision
    endpoints: tuple[EndpointSpec, ...]
    weights: tuple[int, ...] = ()
    failed: Annotated[str | None, Field(exclude_if=lambda error: error is None)] = None
    history: Annotated[tuple[MembershipDecision, ...] | None, Field(exclude_if=lambda every: every is None)] = None


class Member:
    """One participant's end of the control connection to its group. Must be closed.

    ``members``: of the start; empty for a rank that joins, which must call :meth:`admitted` first. ``stop`` and
    ``go_on``: those of the ``Driver`` that carries operations. ``waits``: function that returns the fields of a beat
    about waits.
    """

    def __init__(
        self,
        address: str,
        rank: int,
        members: tuple[int, ...],
        *,
        stop: Callable[[], None],
        go_on: Callable[[], None],
        waits: Callable[[], Message],
    ) -> None:
        self.rank = rank
        self._stop, self._go_on, self._waits = stop, go_on, waits
        self._changes: list[MembershipDecision] = []
        self._finished = 0
        self._result: tuple[FloatArray, tuple[int, ...], str | None] | None = None
        self._calling: Calling | None = None
        self._trying = False
        self._term: int | None = None  # term of the request to stop, until the coordinator commits
        self._answered = False
        self._held: int | None = None  # term of the request to begin no operation
        self._next = MemberTurn(members, (), 0)
        self._admission: tuple[MemberTurn, int, int] | None = None
        # a result that the caller has not taken yet, its contributors and its error
        self._given: tuple[FloatArray, tuple[int, ...], str | None] | None = None
        self._ended: ClusterError | None = None
        self._released = threading.Event()
        self._changed = threading.Condition()
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.settimeout(CONNECT_S)
        try:
            _connect(self._connection, address)
            remote.send(self._connection, {"join": rank, "pid": os.getpid()})
        except OSError as error:
            self._connection.close()
            raise ClusterError(f"rank {rank}: cannot reach the run's coordinator at {address}: {error}") from error
        self._thread = threading.Thread(target=self._serve, name="member", daemon=True)
        self._thread.start()

    # --- the caller's thread

    def admitted(self) -> tuple[MemberTurn, int, int]:
        """Wait for admission; return the first turn, and the numbers of changes and operations before it.

        Raises ``ClusterError`` if it is refused.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._ended is not None or self._admission is not None)
            if self._admission is None:
                raise ClusterError(str(self._ended))
            return self._admission

    def begin(self, calling: Calling) -> MemberTurn:
        """Wait until the operation may be tried or its result is there.

        Raises ``GroupChanged`` if the caller has to hear of a change first, ``ExcludedError``, or ``ClusterError``.
        """
        with self._changed:
            if self._given is None:
                self._calling = calling
            try:
                if self._held is not None:
                    self._beat()
                self._changed.wait_for(self._may_go_on)
                if self._ended is not None:
                    raise type(self._ended)(str(self._ended))
                if self._given is not None:  # this was decided already, whatever happened since
                    return MemberTurn(self._next.members, (), self._next.epoch, (), *self._given)
                self._hear(calling)
            except BaseException:
                self._calling = None
                raise
            self._trying = True
            self._go_on()
            return self._next

    def stopped(self, *, failed: bool = False) -> None:
        """Note that an attempt ended without a result: it was stopped, or it ``failed``."""
        with self._changed:
            self._trying = False
            if failed:
                self._calling = None
            self._answer()

    def done(self, array: FloatArray, contributors: tuple[int, ...], failed: str | None = None) -> None:
        """Note that an operation is done; keep ``array``, and the error of its sum, for members that lack them."""
        with self._changed:
            self._trying, self._calling = False, None
            if self._given is None:
                self._finished += 1
                self._result = (array, contributors, failed)
            self._given = None
            self._answer()

    def leave(self) -> None:
        """Announce no more calls, and wait until all have left, as others may still need answers."""
        self._say(LeftMessage(self._finished))
        self._released.wait()

    def close(self) -> None:
        """Close the connection, and wait for its thread."""
        with contextlib.suppress(OSError):  # the other end may be gone
            self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._connection.close()

    def _hear(self, calling: Calling) -> None:
        """Raise `GroupChanged` for the first change unknown to the caller if it, or a later one, is due now.

        If an operation was to be redone and a later change prevented that, the caller hears of the earlier change
        first.
        """
        for change in self._changes[calling.view :]:
            lost = set(change.before) - set(change.after)
            if change.heard_before <= self._finished or cannot_redo(calling.operation, calling.root, lost):
                raise group_changed(self._changes[: calling.view + 1], calling.view, self._finished)

    def _may_go_on(self) -> bool:
        return self._ended is not None or self._given is not None or (self._term is None and self._held is None)

    # --- the connection's thread

    def _serve(self) -> None:
        beat = time.monotonic()
        try:
            self._connection.settimeout(None)
            while True:
                now = time.monotonic()
                if now >= beat:
                    beat = now + BEAT_S
                    self._beat()
                if not select.select([self._connection], [], [], max(0.0, beat - time.monotonic()))[0]:
                    continue
                message = remote.receive(self._connection)
                if message is None:
                    return
                self._take(*message)
        except (OSError, remote.FramingError):
            return
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            fault = f"the coordinator said what it never says: {type(error).__name__}: {error}"
            self._ended = self._ended or ClusterError(fault)
        finally:
            with self._changed:
                self._ended = self._ended or ClusterError("the run has ended")
                self._interrupt()
                self._changed.notify_all()
            self._released.set()

    def _beat(self) -> None:
        with self._changed:
            waits = self._waits() if self._trying else {}
            calls = self._calling is not None
            rests = calls and not self._trying
            self._say(BeatMessage(self._finished, calls, rests, self._held, **waits))

    def _take(self, message: Message, array: FloatArray | None) -> None:
        if "prepare" in message:
            with self._changed:
                self._term, self._answered = int(message["prepare"]), False
                self._interrupt()
                if not self._trying:
                    self._answer()
        elif "give" in message:
            result = self._result
            if result is not None:
                self._say(ArrayMessage(message["give"], result[2]), result[0])
        elif "hold" in message:
            with self._changed:
                self._held = message["hold"]
                self._changed.notify_all()
                self._beat()
        elif "refused" in message:
            with self._changed:
                self._ended = ClusterError(f"rank {self.rank} did not join: {message['refused']}")
                self._changed.notify_all()
            self._released.set()
        elif "commit" in message:
            self._hear_of(from_plain(Committed, message, "a decision"), array)
        elif "excluded" in message:
            with self._changed:
                self._ended = ExcludedError(f"rank {self.rank} {message['excluded']}: it is no member any more")
                self._interrupt()
                self._changed.notify_all()
            self._released.set()
        elif "released" in message:
            self._released.set()

    def _hear_of(self, told: Committed, array: FloatArray | None) -> None:
        """Take in a decision; a joining rank's first operation is the one that the others call next."""
        decision = told.commit
        with self._changed:
            self._next = MemberTurn(decision.after, told.endpoints, decision.epoch, told.weights)
            every = (decision,) if told.history is None else told.history
            self._changes += [change for change in every if change.after != change.before]
            if told.history is not None:
                self._finished = decision.operation
                self._admission = self._next, len(self._changes), self._finished
            if array is not None:  # done, even if the caller takes it later
                self._given = self._result = array, decision.contributors, told.failed
                self._finished, self._calling = decision.operation + 1, None
            self._term = self._held = None
            self._changed.notify_all()

    def _interrupt(self) -> None:
        if self._trying:
            self._stop()

    def _answer(self) -> None:
        """Report what is finished, once for each request."""
        if self._term is None or self._answered:
            return
        self._answered = True
        calling, result = self._calling, self._result
        contributors = () if result is None else result[1]
        operation, root = (None, -1) if calling is None else (calling.operation, calling.root)
        self._say(StoppedMessage(self._term, self._finished, contributors, root, operation))

    def _say(self, message: MemberMessage, array: FloatArray | None = None) -> None:
        with self._changed:  # whole messages, one after the other
            try:
                remote.send(self._connection, to_plain(message), array)
            except OSError:
                return  # the reader notices that the connection has ended


def _connect(connection: socket.socket, address: str) -> None:
    """Connect, retrying while the coordinator's queue is full: with a time-out set, that is an error at once."""
    deadline = time.monotonic() + CONNECT_S
    while True:
        try:
            connection.connect(address)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(BUSY_S)
        else:
            return


# A process's end of the network in real time, if ``p4reduce launch --time real`` started the process.


class ScriptBackend(RealBackend):
    """A ``RealBackend`` whose group may lose members (``on_failure``); it writes a report when it leaves."""

    def __init__(self, spec: ScriptSpec) -> None:
        self._folder = Path(spec.folder)
        self._survives = spec.on_failure != "abort" or spec.grows
        self._epoch = self.view = 0
        """``view``: number of changes of the group before this participant joined."""
        self._earlier: list[EndpointStatus] = []
        self._there = True
        self._process = os.getpid()
        if spec.members:
            super().__init__(spec.worker)
            self.members = self.contributors = spec.members
            try:
                self._member = self._meet(spec)
            except BaseException:
                super().close()
                raise
        else:
            self._member = self._meet(spec)
            try:
                self._come_in(spec)
            except BaseException:
                self._member.close()
                raise
        self._job = next(iter(self._places))
        atexit.register(self.close)

    def _meet(self, spec: ScriptSpec) -> Member:
        return Member(
            spec.coordinator,
            spec.worker.rank,
            spec.members,
            stop=self._stop,
            go_on=self._go_on,
            waits=self._waits,
        )

    def _stop(self) -> None:
        self._driver.stop()

    def _go_on(self) -> None:
        self._driver.go_on()

    def _come_in(self, spec: ScriptSpec) -> None:
        """Join a running group, in the tree that includes this rank."""
        turn, view, first = self._member.admitted()
        assert turn.endpoints  # noqa: S101  (a group that takes a rank in has a tree)
        trees = _weighted(turn)
        super().__init__(spec.worker.model_copy(update={"endpoints": list(turn.endpoints), "trees": trees}))
        self.members = self.contributors = turn.members
        self._epoch, self.view, self.first = turn.epoch, view, first

    def collective(self, asked: Asked) -> int:
        """Carry an operation as ``RealBackend``; members may die. Also raises ``GroupChanged``, ``ExcludedError``."""
        array, options = asked.array, asked.options
        self.check(asked.operation, asked.root, options)
        given = array.copy() if self._survives else array
        while True:
            turn = self._member.begin(Calling(asked.operation, asked.root, options.view))
            if turn.array is not None:
                self._take_over(asked.operation, array, turn, options)
                return self.now_ps()
            self._adopt(turn)
            try:
                carried = self.attempt(asked)
            except StoppedError:
                array[:] = given
                self._member.stopped()
                continue
            except SaturatedError as error:  # all others get the same error
                self._finish(array, turn.members, str(error))
                raise
            except BaseException:
                self._member.stopped(failed=True)
                raise
            self._finish(carried, turn.members)
            return self.now_ps()

    def close(self) -> None:
        """Wait until all members have left, then write the report; does nothing the second time."""
        if not self._there or os.getpid() != self._process:  # a process forked from a script is not its rank
            return
        self._there = False
        self._member.leave()
        self._member.close()
        self._note_endpoints()
        endpoints = {f"{self._job}/{number}": status for number, status in enumerate(self._earlier)}
        counts = Counts(endpoints, self.counts(), time.process_time())
        report = ScriptReport(self.began_ns, self.first, tuple(self.carried), tuple(self.figures), counts)
        super().close()
        (self._folder / ScriptSpec.report(self.rank)).write_text(to_json(report))

    def _finish(self, carried: FloatArray, contributors: tuple[int, ...], failed: str | None = None) -> None:
        self.contributors = contributors
        # The caller may change its own array at once.
        self._member.done(carried.copy() if self._survives else carried, contributors, failed)

    def _take_over(self, operation: str, array: FloatArray, turn: MemberTurn, options: Options) -> None:
        """Take over the result of an operation from a member that had it."""
        assert turn.array is not None  # noqa: S101
        start = time.monotonic_ns()
        if operation == "all_to_all":
            self._take_blocks(array, turn.array, turn.contributors)
        else:
            array[:] = turn.array
        words = options.words or operation in {"broadcast", "all_to_all"}
        self._note(options.name or operation, turn.array, start, words=words, failed=turn.failed)
        self._finish(turn.array, turn.contributors, turn.failed)
        if turn.failed is not None:
            raise SaturatedError(turn.failed)

    def _adopt(self, turn: MemberTurn) -> None:
        """Go on in the epoch of this turn."""
        self.members = turn.members
        if turn.epoch == self._epoch:
            return
        self._epoch = turn.epoch
        self._note_endpoints()
        places = self._driver.replace((index for index, _ in self._places.values()), turn.endpoints)
        self._places = {spec.job: (index, spec) for index, spec in zip(places, turn.endpoints, strict=True)}
        self._trees = _weighted(turn)

    def _note_endpoints(self) -> None:
        self._earlier += self.statuses().values()

    def _waits(self) -> dict[str, Any]:
        """Return what the active endpoints wait for now, as fields of a beat."""
        places = [index for index, _ in [*self._places.values()]]
        every = [self._endpoints.status(index) for index in places]
        oldest = [self._endpoints.oldest_missing(index) & 0xFFFFFFFF for index in places]
        active = [status.state is EndpointState.ACTIVE for status in every]
        return {
            "waits": tuple(seq if works else None for seq, works in zip(oldest, active, strict=True)),
            "told": tuple(status.waiting for status in every),
        }


def _weighted(turn: MemberTurn) -> list[tuple[int, int]]:
    """Return job and weight of each tree; empty for a single tree."""
    if len(turn.endpoints) < 2:
        return []
    return [(spec.job, weight) for spec, weight in zip(turn.endpoints, turn.weights, strict=True)]


def join(path: str) -> ScriptBackend:
    """Return the backend for the description in a file (``ScriptSpec``, JSON)."""
    return ScriptBackend(from_json(ScriptSpec, Path(path).read_text(), path))
