"""Who of a group is there: its processes, their connections to the coordinator, and their leases.

Messages are those of runs/real/member.py. Nothing is decided here; what is heard of is news.
"""

import os
import selectors
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from p4reduce.comm.backend import FloatArray
from p4reduce.comm.errors import ClusterError
from p4reduce.comm.framing import FramingError
from p4reduce.comm.membership import REAL_LEASE, Leases
from p4reduce.comm.processes import how_ended
from p4reduce.runs.real.control import Control
from p4reduce.runs.real.processor import Signs, descends
from p4reduce.runs.real.said import check, joins

Message = dict[str, Any]
LOOK_S: Final = 0.05
"""between two looks at leases"""
END_S: Final = 0.1
"""between the end of a connection, which is known at once, and that of its process, which tells how"""
PARTED: Final = "ended its connection"
LATE: Final = REAL_LEASE.term // 2
"""for which a member has waited for the same when others have a reason to look who is missing"""
MOST_STRANGERS: Final = 64
"""connections that have not said whose they are; for one more the oldest of them ends …"""
STRANGER_S: Final = 0.1
"""… once it has had the time to say so"""
_CREDENTIALS: Final = struct.Struct("3i")
"""pid, uid, gid of SO_PEERCRED (unix(7))"""
QUIET: Final = 3
"""beats without which a member's processor time is looked at: it may compute and have no turn to speak"""


@dataclass
class Seen:
    """What the coordinator has of one rank."""

    process: "subprocess.Popen[bytes]"
    signs: Signs
    control: Control | None = None
    beat: Message = field(default_factory=dict)
    finished: int = 0
    """operations, by all that it has said"""
    answer: Message | None = None
    since_ns: int = 0
    """since when it has said the same of what it waits for"""
    left: int | None = None
    """operations that it had finished when it left"""
    parted_s: float | None = None
    """when its connection ended, of ``time.monotonic()``"""
    code: int | None = None
    member: bool = True
    """Or it wants to join …"""
    refused: str | None = None
    """… and why it did not."""


class Presence:
    """Of the processes that are added, by rank. Use as a context manager; one thread calls it.

    ``news``: what was heard of since somebody emptied it, and ``noticed_ns`` when the last of it was.
    """

    def __init__(self, folder: Path) -> None:
        """Listen in ``folder``, which nobody else may enter."""
        self.address: Final = str(folder / "group")
        self.seen: list[Seen] = []
        self.leases = Leases(REAL_LEASE, (), 0)
        self.news: list[str] = []
        self.noticed_ns = 0
        self.asked: set[int] = set()
        """Who has still to answer in ``term``."""
        self.term = 0
        self.array: FloatArray | None = None
        self.failed: str | None = None
        """That somebody was asked to give."""
        self._closed = False
        self._strangers: list[Control] = []
        """Connections that have not said whose they are, the oldest first."""
        self._looked_ns: int | None = None
        """When the last look ended."""
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(self.address)
            self._listener.listen(socket.SOMAXCONN)
            self._listener.setblocking(False)
        except OSError as error:
            self._listener.close()
            raise ClusterError(f"{self.address}: cannot listen there: {error.strerror or error}") from error
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._alarm = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._selector.register(self._alarm, selectors.EVENT_READ, lambda: os.eventfd_read(self._alarm))

    def wake(self) -> None:
        """End a wait; from any thread."""
        with suppress(ValueError, OSError):  # it is closed
            os.eventfd_write(self._alarm, 1)

    def wake_for(self, events: socket.socket) -> None:
        """A wait ends when there is something to read from this socket, which whoever is woken does."""
        self._selector.register(events, selectors.EVENT_READ, lambda: None)

    def wake_at_end(self, pid: int) -> None:
        """A wait ends when a process does."""
        pidfd = os.pidfd_open(pid)

        def ended() -> None:
            self._selector.unregister(pidfd)
            os.close(pidfd)

        self._selector.register(pidfd, selectors.EVENT_READ, ended)

    @property
    def ending(self) -> bool:
        """Whether a process is about to end: its connection has."""
        until = time.monotonic() - END_S
        return any(seen.code is None and seen.parted_s is not None and seen.parted_s > until for seen in self.seen)

    @property
    def late(self) -> bool:
        """Whether a member has waited for the same for a while."""
        until = time.monotonic_ns() - LATE
        return any(
            "waits" in self.seen[member].beat and self.seen[member].since_ns < until for member in self.leases.alive
        )

    @property
    def newcomers(self) -> tuple[int, ...]:
        """Who wants to join."""
        every = enumerate(self.seen)
        return tuple(rank for rank, one in every if not one.member and one.control is not None and one.refused is None)

    def hold(self, members: Iterable[int]) -> int:
        """Have members begin no other operation; the term of that."""
        self.term += 1
        self.tell(members, {"hold": self.term})
        return self.term

    def between(self, members: Iterable[int], term: int) -> bool:
        """Whether all members have called the same operation, and one that was held in ``term`` has not begun it."""
        beats = [self.seen[member].beat for member in members]
        calling = all(beat.get("held") == term and beat["calls"] for beat in beats)
        return calling and len({beat["beat"] for beat in beats}) == 1 and any(beat["rests"] for beat in beats)

    def admit(self, newcomers: Iterable[int]) -> None:
        """They are members from now on."""
        for rank in newcomers:
            self.seen[rank].member = True
            self.leases.join(rank, time.monotonic_ns())
            if self.seen[rank].refused is not None:  # it has ended meanwhile
                self._lost(rank, str(self.seen[rank].refused))

    def refuse(self, rank: int, why: str) -> None:
        """One that wants to join cannot."""
        self.seen[rank].refused = why
        self.tell([rank], {"refused": why})

    def add(self, process: "subprocess.Popen[bytes]", *, member: bool = True) -> None:
        """The process of the next rank, a ``member`` of the start or one that joins."""
        rank = len(self.seen)
        self.seen.append(Seen(process, Signs(process.pid), member=member))
        pidfd = os.pidfd_open(process.pid)
        self._selector.register(pidfd, selectors.EVENT_READ, lambda: self._process_ended(rank, pidfd))

    def pump(self, blamed: Callable[[], Collection[int]]) -> None:
        """What has happened since the last look. ``blamed``: whom the others wait for, asked when a lease runs out."""
        for key, _ in self._selector.select(LOOK_S):
            key.data()
        now = time.monotonic_ns()
        if self._looked_ns is not None and (gap := now - self._looked_ns) > LATE:
            self.leases.postpone(gap)  # this process stood still, as the others may have
        self._looked_ns = now
        for member in self.leases.expired(now + REAL_LEASE.term - QUIET * REAL_LEASE.beat):
            if self.seen[member].signs.seen():
                self.leases.heard(member, now)
        if self.leases.expired(now):
            for member in self.leases.accuse(self.asked or blamed(), now):
                self._tell_excluded(member)
                self.note(self.leases.dead[member])

    def note(self, cause: str) -> None:
        """Something is news."""
        self.news.append(cause)
        self.noticed_ns = time.monotonic_ns()

    def ask(self, members: Iterable[int]) -> None:
        """Have members stop, and answer, in a term of its own; one that has not joined yet, when it does."""
        self.term += 1
        self.asked = set(members)
        self.tell(members, {"prepare": self.term})

    def request_array(self, holder: int) -> None:
        """Have one that has stopped send the result of its last operation."""
        self.array = None
        self.asked = {holder}
        if (control := self.seen[holder].control) is not None:
            control.asked += 1
            control.send({"give": self.term})

    def tell(self, members: Iterable[int], message: Message) -> None:
        """A message to each of them that has joined."""
        for member in members:
            if (control := self.seen[member].control) is not None:
                control.send(message)

    def replace(self, rank: int) -> None:
        """End a process whose host another one is to have."""
        self._lost(rank, "was started anew")
        self.seen[rank].process.kill()

    def exclude(self, rank: int, reason: str) -> None:
        """One that lives cannot go on with the others."""
        if self.leases.ended(rank, reason):
            self._tell_excluded(rank)

    def close(self) -> None:
        """End all connections, and those processes that were excluded; may be called again."""
        if self._closed:
            return
        self._closed = True
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, int):
                os.close(key.fileobj)
        self._selector.close()
        for stranger in self._strangers:
            stranger.close()
        for rank, seen in enumerate(self.seen):
            if seen.control is not None:
                seen.control.close()
            if rank in self.leases.dead:  # one that is stopped would not hear that it is to end
                seen.process.kill()
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        """Take the connections that wait, as long as there is room for one that has not said whose it is."""
        while self._has_room():
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # no room for one more, as files go
                if self._strangers:
                    self._forget(self._strangers[0])
                return
            control = Control(connection, time.monotonic())
            self._strangers.append(control)
            self._selector.register(connection, selectors.EVENT_READ, lambda control=control: self._first(control))

    def _has_room(self) -> bool:
        """Where there is none, the oldest stranger makes some, unless it came just now."""
        if len(self._strangers) < MOST_STRANGERS:
            return True
        oldest = self._strangers[0]
        self._first(oldest)
        if oldest in self._strangers and time.monotonic() > oldest.since_s + STRANGER_S:
            self._forget(oldest)
        return len(self._strangers) < MOST_STRANGERS

    def _first(self, control: Control) -> None:
        """What a new connection says first."""
        messages = self._messages(control, None)
        if not messages:
            return
        rank = joins(messages[0][0], len(self.seen))
        if rank is None or self.seen[rank].control is not None:
            self._forget(control)
            return
        if not is_of(control.connection, self.seen[rank].process.pid):
            control.send({"refused": f"the connection is not of a process of rank {rank}"})
            self._forget(control)
            return
        self._strangers.remove(control)
        self.seen[rank].control = control
        self._selector.modify(control.connection, selectors.EVENT_READ, lambda: self._hear(rank, control))
        if self.seen[rank].member:
            if rank in self.leases.dead:
                self._tell_excluded(rank)
                return
            self.leases.join(rank, time.monotonic_ns())
            if rank in self.asked:
                control.send({"prepare": self.term})
        self._handle(rank, messages[1:])

    def _hear(self, rank: int, control: Control) -> None:
        self._handle(rank, self._messages(control, rank))

    def _handle(self, rank: int, messages: Sequence[tuple[Message, FloatArray | None]]) -> None:
        seen = self.seen[rank]
        for message, array in messages:
            if seen.member and rank in self.leases.dead:
                return  # it has no say any more
            try:
                kind = check(
                    message, finished=seen.finished, term=self.term, left=seen.left is not None, ranks=len(self.seen)
                )
                if array is None and kind == "array":
                    raise FramingError("an array without elements")
            except FramingError as error:
                self.out_of_turn(rank, str(error))
                return
            if seen.member:
                self._take(rank, seen, kind, message, array)

    def _take(self, rank: int, seen: Seen, kind: str, message: Message, array: FloatArray | None) -> None:
        """One message of a member, which is one."""
        self.leases.heard(rank, time.monotonic_ns())
        if kind == "beat":
            if any(message.get(name) != seen.beat.get(name) for name in ("beat", "waits")):
                seen.since_ns = time.monotonic_ns()
            seen.beat, seen.finished = message, message["beat"]
        elif kind == "left":
            seen.left = seen.finished = message["left"]
        elif message[kind] == self.term and rank in self.asked:  # else it is an older answer, or the same again
            if kind == "stopped":
                seen.answer, seen.finished = message, message["finished"]
            else:
                self.array, self.failed = array, message.get("failed")
            self.asked.discard(rank)

    def out_of_turn(self, rank: int, why: str) -> None:
        """It said what no member says: the others go on without it."""
        reason = f"said what no member says: {why}"
        control = self.seen[rank].control
        self._lost(rank, reason)
        if control is not None:
            control.send({"excluded" if self.seen[rank].member else "refused": reason})
            self._forget(control)

    def _messages(self, control: Control, rank: int | None) -> Sequence[tuple[Message, FloatArray | None]]:
        """What a connection brought; its end is the end of its member."""
        if control.ended:
            return ()
        found = control.receive()
        if found is not None:
            return found
        if rank is not None and control.wrong:
            self.out_of_turn(rank, control.wrong)
            return ()
        self._forget(control)
        if rank is not None and self.seen[rank].code is None and self._lost(rank, PARTED):
            self.seen[rank].parted_s = time.monotonic()
        return ()

    def _forget(self, control: Control) -> None:
        if not control.ended:
            self._selector.unregister(control.connection)
            control.close()
        if control in self._strangers:
            self._strangers.remove(control)

    def _process_ended(self, rank: int, pidfd: int) -> None:
        self._selector.unregister(pidfd)
        os.close(pidfd)
        seen = self.seen[rank]
        seen.code = seen.process.wait()
        how = f"ended with {how_ended(seen.code)}" if seen.code else "ended without leaving the group"
        if seen.refused == PARTED:
            seen.refused = how
        if seen.parted_s is not None:
            self.leases.explain(rank, how)
        elif seen.code or seen.control is not None:
            self._lost(rank, how)

    def _lost(self, rank: int, reason: str) -> bool:
        """A process is gone; whether that is news: not of one that had left, or that is dead already."""
        if not self.seen[rank].member:
            self.seen[rank].refused = self.seen[rank].refused or reason
            return False
        if self.seen[rank].left is not None or rank in self.leases.dead:
            return False
        if self.seen[rank].control is None:
            self.leases.join(rank, time.monotonic_ns())
        self.leases.ended(rank, reason)
        self.note(reason)
        return True

    def _tell_excluded(self, rank: int) -> None:
        self.tell([rank], {"excluded": self.leases.dead[rank]})


def is_of(connection: socket.socket, pid: int) -> bool:
    """Whether the process at the other end is this one or one that it started, as the kernel knows it."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return descends(_CREDENTIALS.unpack(credentials)[0], pid)
