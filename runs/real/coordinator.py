"""The coordinator of a group in real time: it hears its members' signs of life, and has them agree on who goes on.

One thread, the session's: messages (runs/real/member.py has them), the ends of processes, and leases. What follows from
what it heard is decided as in virtual time (``comm/membership``).
"""

import os
import selectors
import socket
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from pydantic import TypeAdapter

from p4reduce.comm.communicator import FloatArray
from p4reduce.comm.errors import ClusterError, CollectiveError
from p4reduce.comm.membership import (
    REAL_LEASE,
    Answer,
    Decision,
    Journal,
    Leases,
    OnFailure,
    cannot_redo,
    decide,
)
from p4reduce.comm.processes import how_ended
from p4reduce.control_plane.plans import Plan
from p4reduce.runs.real.control import Control
from p4reduce.runs.real.processor import Signs
from p4reduce.runs.real.trees import Trees
from p4reduce.workers.specs import EndpointSpec
from p4reduce.workers.status import WaitStatus

Message = dict[str, Any]
LOOK_S: Final = 0.05
"""between two looks at leases, switches and relays"""
END_S: Final = 0.1
"""between the end of a connection and that of its process"""
QUIET: Final = 3
"""beats without which a member's processor time is looked at: it may compute and have no turn to speak"""
_SPEC: TypeAdapter[EndpointSpec] = TypeAdapter(EndpointSpec)


@dataclass(frozen=True)
class Ended:
    """How the run's first rank failed that the others could not go on without."""

    rank: int
    code: int
    """Exit code, -n for signal n."""


@dataclass(frozen=True)
class Resumed:
    """When a change was noticed and when the survivors went on, nanoseconds of the machine's monotonic clock."""

    noticed_ns: int
    resumed_ns: int


@dataclass
class _Seen:
    """What the coordinator has of one rank."""

    process: "subprocess.Popen[bytes]"
    signs: Signs
    control: Control | None = None
    beat: Message = field(default_factory=dict)
    answer: Message | None = None
    left: int | None = None
    """operations that it had finished when it left"""
    code: int | None = None


class Coordinator:
    """Of a group whose processes are ``processes``, by rank. Use as a context manager."""

    def __init__(self, folder: Path, on_failure: OnFailure) -> None:
        """Listen in ``folder``, which nobody else may enter."""
        self.address: Final = str(folder / "group")
        self.on_failure = on_failure
        self.journal = Journal()
        self.resumed: list[Resumed] = []
        self._seen: list[_Seen] = []
        self._leases = Leases(REAL_LEASE, (), 0)
        self._members: tuple[int, ...] = ()
        self._term = 0
        self._news: list[str] = []
        self._noticed_ns = 0
        self._asked: set[int] = set()
        """who has still to answer"""
        self._array: FloatArray | None = None
        self._released = self._closed = False
        self._watch: Callable[[], Collection[str]] = tuple
        self._deadline = 0.0
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(self.address)
            self._listener.listen()
        except OSError as error:
            self._listener.close()
            raise ClusterError(f"{self.address}: cannot listen there: {error.strerror or error}") from error
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    @property
    def survivors(self) -> tuple[int, ...]:
        """Members that have not died."""
        return tuple(member for member in self._members if member not in self._leases.dead)

    def add(self, process: "subprocess.Popen[bytes]") -> None:
        """The process of the next rank."""
        rank = len(self._seen)
        self._seen.append(_Seen(process, Signs(process.pid)))
        self._members = (*self._members, rank)
        pidfd = os.pidfd_open(process.pid)
        self._selector.register(pidfd, selectors.EVENT_READ, lambda: self._process_ended(rank, pidfd))

    def wait(self, trees: Trees, deadline: float, watch: Callable[[], Collection[str]]) -> Ended | None:
        """Until all who are not dead have ended; who failed, where that ended the run.

        ``watch`` looks at switches and links: it raises where nothing can go on, and returns what is news of
        ``trees.reach``. ``deadline``: of ``time.monotonic()``. Raises ``ClusterError`` where no group can go on.
        """
        self._trees, self._watch, self._deadline = trees, watch, deadline
        first: Ended | None = None
        while any(seen.code is None and rank not in self._leases.dead for rank, seen in enumerate(self._seen)):
            self._pump()
            failed = [Ended(rank, seen.code) for rank, seen in enumerate(self._seen) if seen.code]
            first = first or next(iter(failed), None)
            if first is not None and (self.on_failure == "abort" or len(failed) == len(self._seen)):
                return first
            if self._news:
                self._change()
            self._check_left()
            self._release()
        if not self.survivors and first is None:
            raise ClusterError(
                "nobody survived: " + "; ".join(f"rank {one} {why}" for one, why in self._leases.dead.items())
            )
        return None if self.survivors else first

    def close(self) -> None:
        """End all connections, and those processes that were excluded; may be called again."""
        if self._closed:
            return
        self._closed = True
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, int):
                os.close(key.fileobj)
        self._selector.close()
        for rank, seen in enumerate(self._seen):
            if seen.control is not None:
                seen.control.close()
            if rank in self._leases.dead:  # one that is stopped would not hear that it is to end
                seen.process.kill()
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- what comes in

    def _pump(self) -> None:
        """What happened since the last look; what of it is news. `ClusterError` when there is no time left."""
        for key, _ in self._selector.select(LOOK_S):
            key.data()
        for cause in self._watch():
            self._note(cause)
        now = time.monotonic_ns()
        for member in self._leases.expired(now + REAL_LEASE.term - QUIET * REAL_LEASE.beat):
            if self._seen[member].signs.seen():
                self._leases.heard(member, now)
        if self._leases.expired(now):
            for member in self._leases.accuse(self._blamed(), now):
                self._exclude(member, self._leases.dead[member])
                self._note(self._leases.dead[member])
        if time.monotonic() > self._deadline:
            left = ", ".join(str(rank) for rank, seen in enumerate(self._seen) if seen.code is None)
            raise ClusterError(f"the run took longer than its time-out; still running: rank {left}")

    def _note(self, cause: str) -> None:
        self._news.append(cause)
        self._noticed_ns = time.monotonic_ns()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        control = Control(connection)
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._first(control))

    def _first(self, control: Control) -> None:
        """What a new connection says first."""
        messages = self._messages(control, None)
        if not messages:
            return
        rank = messages[0][0].get("join")
        if not isinstance(rank, int) or not 0 <= rank < len(self._seen) or self._seen[rank].control is not None:
            self._forget(control)
            return
        self._seen[rank].control = control
        self._selector.modify(control.connection, selectors.EVENT_READ, lambda: self._hear(rank, control))
        if rank in self._leases.dead:
            self._exclude(rank, self._leases.dead[rank])
            return
        self._leases.join(rank, time.monotonic_ns())
        if rank in self._asked:
            control.send({"prepare": self._term})
        self._handle(rank, messages[1:])

    def _hear(self, rank: int, control: Control) -> None:
        self._handle(rank, self._messages(control, rank))

    def _handle(self, rank: int, messages: Sequence[tuple[Message, FloatArray | None]]) -> None:
        seen = self._seen[rank]
        for message, array in messages:
            self._leases.heard(rank, time.monotonic_ns())
            if "beat" in message:
                seen.beat = message
            elif message.get("stopped") == self._term:
                seen.answer = message
                self._asked.discard(rank)
            elif message.get("array") == self._term:
                self._array = array
            elif "left" in message:
                seen.left = int(message["left"])

    def _messages(self, control: Control, rank: int | None) -> Sequence[tuple[Message, FloatArray | None]]:
        """What a connection brought; its end is the end of its member."""
        found = control.receive()
        if found is not None:
            return found
        self._forget(control)
        if rank is not None and self._seen[rank].left is None:
            try:
                self._seen[rank].process.wait(END_S)  # how, its process's end tells
            except subprocess.TimeoutExpired:
                self._lost(rank, "ended its connection")
        return ()

    def _forget(self, control: Control) -> None:
        self._selector.unregister(control.connection)
        control.close()

    def _process_ended(self, rank: int, pidfd: int) -> None:
        self._selector.unregister(pidfd)
        os.close(pidfd)
        seen = self._seen[rank]
        seen.code = seen.process.wait()
        if seen.code != 0:
            self._lost(rank, f"ended with {how_ended(seen.code)}")
        elif seen.control is not None:
            self._lost(rank, "ended without leaving the group")

    def _lost(self, rank: int, reason: str) -> None:
        """A process is gone; that is no news of one that had left, or that is dead already."""
        if self._seen[rank].left is not None or rank in self._leases.dead:
            return
        if self._seen[rank].control is None:
            self._leases.join(rank, time.monotonic_ns())
        if self._leases.ended(rank, reason):
            self._note(reason)

    def _exclude(self, rank: int, reason: str) -> None:
        control = self._seen[rank].control
        if control is not None:
            control.send({"excluded": reason})

    def _blamed(self) -> Collection[int]:
        if self._asked:
            return frozenset(self._asked)  # all wait for their answers
        waiting = {
            member: (int(beat["waits"]), WaitStatus(**beat["told"]) if beat["told"] else None)
            for member in self.survivors
            if "waits" in (beat := self._seen[member].beat)
        }
        return self._trees.blamed(waiting)

    # --- the two phases

    def _change(self) -> None:
        """Have the survivors agree on who goes on; anew with whatever is learnt meanwhile."""
        members, noticed = self._members, self._noticed_ns
        while self._survivors_call():
            causes, self._news = "; ".join(self._news), []
            lost, cut = self._trees.reach.lost(members, self._leases.dead)
            for member in cut:
                self._leases.ended(member, lost[member])
                self._exclude(member, lost[member])
            if not lost and not self._trees.reach.damaged(self._trees.plan):
                return
            if self.on_failure == "abort":
                said = "; ".join(f"rank {rank} {why}" for rank, why in lost.items())
                raise CollectiveError(said or f"{causes}; the tree of the group has lost it")
            after = tuple(member for member in members if member not in lost)
            if not self._stopped(after):
                continue
            plan = self._trees.next(after)
            decision = self._decide(members, lost, causes)
            if self._has_what_it_takes(decision):
                self._commit(decision, plan)
                self.resumed.append(Resumed(noticed, time.monotonic_ns()))
                if not self._news:
                    return
                members, noticed = self._members, self._noticed_ns
            elif plan is not None:
                self._trees.drop(plan)

    def _survivors_call(self) -> bool:
        """Whether anybody is left who may still call; news of the dead is nobody's otherwise."""
        if any(self._seen[member].left is None for member in self.survivors):
            return True
        self._news = []
        return False

    def _stopped(self, members: Sequence[int]) -> bool:
        """The first phase: all of them have stopped and said what they have finished; False: there is news."""
        self._term += 1
        self._asked = set(members)
        for member in members:
            if (control := self._seen[member].control) is not None:
                control.send({"prepare": self._term})
        while self._asked and not self._news:
            self._pump()
        self._asked = set()
        return not self._news

    def _decide(self, members: tuple[int, ...], lost: Mapping[int, str], cause: str) -> Decision:
        said = {member: self._seen[member].answer or {} for member in members if member not in lost}
        answers = {member: Answer(one["finished"], tuple(one["contributors"])) for member, one in said.items()}
        operation = min(answer.finished for answer in answers.values())
        calls = [one for one in said.values() if one["operation"] is not None and one["finished"] == operation]
        whole = not any(cannot_redo(one["operation"], one["root"], set(lost)) for one in calls)
        return decide(
            answers,
            before=members,
            lost=lost,
            term=self._term,
            epoch=self._trees.epoch,
            redo=not lost or (self.on_failure == "shrink" and whole),
            cause=cause,
        )

    def _has_what_it_takes(self, decision: Decision) -> bool:
        """The array that some have and others lack; False: there is news."""
        self._array = None
        holder = decision.holder
        if holder is None:
            return True
        control = self._seen[holder].control
        assert control is not None  # noqa: S101  (it has answered)
        control.send({"give": self._term})
        while self._array is None and not self._news:
            self._pump()
        return not self._news

    def _commit(self, decision: Decision, plan: Plan | None) -> None:
        """The second phase: written down, then told; the old tree leaves the switches."""
        self.journal.write(decision)
        self._members = decision.after
        specs = {} if plan is None else self._trees.endpoints(plan)
        for member in decision.after:
            seen, host = self._seen[member], self._trees.hosts[member]
            lacks = seen.answer is not None and seen.answer["finished"] == decision.operation
            spec = None if plan is None else _SPEC.dump_python(specs[host], mode="json")
            if seen.control is not None:
                array = self._array if lacks and decision.holder is not None else None
                seen.control.send({"commit": decision.plain(), "endpoint": spec}, array)
        self._trees.swap(plan)

    # --- the end

    def _check_left(self) -> None:
        """`ClusterError` where somebody waits for one that has left, or never came."""
        ended = {one: seen for one in self.survivors if (seen := self._seen[one]).left is not None or seen.code == 0}
        for member in self.survivors:
            beat = self._seen[member].beat
            if member in ended or not beat.get("calls"):
                continue
            for other, seen in ended.items():
                if seen.control is None:
                    raise ClusterError(f"rank {other} ended well, but did not join the group, and rank {member} waits")
                if seen.left is not None and seen.left <= beat["beat"]:
                    waits = f"operation {beat['beat']}: rank {member} waits for rank {other}"
                    raise CollectiveError(f"{waits}, which left the group")

    def _release(self) -> None:
        """Once all have left, nobody needs anybody any more."""
        if self._released or any(self._seen[member].left is None for member in self.survivors):
            return
        self._released = True
        for member in self.survivors:
            control = self._seen[member].control
            if control is not None:
                control.send({"released": True})
