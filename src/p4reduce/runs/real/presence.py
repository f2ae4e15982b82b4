"""Track the members of a group: their processes, their connections to the coordinator, and their leases.

Messages are those of runs/real/member.py. This module decides nothing; it turns news into events of
``group/agreement``.
"""

import json
import math
import os
import queue
import selectors
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from p4reduce.base.records import RecordError, from_plain
from p4reduce.group import remote
from p4reduce.group.agreement import PARTED, Answered, Beat, Event, Joined, Left, ProcessEnded
from p4reduce.group.backend import FloatArray
from p4reduce.group.errors import ClusterError
from p4reduce.group.membership import REAL_LEASE, Leases, SurvivorAnswer
from p4reduce.group.remote import FramingError
from p4reduce.network.real.net.namespaces import last_lines, stop
from p4reduce.runs.launch import how_ended
from p4reduce.runs.machines import RemoteRank
from p4reduce.runs.real.member import ArrayMessage, BeatMessage, LeftMessage, MemberMessage, StoppedMessage
from p4switch.base.closing import Closable
from p4switch.base.values import NS_PER_S

# CPU time of processes.


_TICKS: Final = os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> tuple[str, int, int]:
    """Return state, parent and ticks of CPU time of a process with its threads (proc(5)); ``OSError`` if it is gone."""
    behind_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return behind_name[0], int(behind_name[1]), int(behind_name[11]) + int(behind_name[12])


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU seconds that the processes, with all their threads, have used so far."""
    return sum(_stat(pid)[2] for pid in pids) / _TICKS


def descends(pid: int, ancestor: int) -> bool:
    """Return whether a process is ``ancestor`` or one of its descendants."""
    with suppress(OSError):
        while pid > 1 and pid != ancestor:
            pid = _stat(pid)[1]
    return pid == ancestor


class Idle:
    """Measures for how long a process has used no CPU time."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._used, self._since = -1, 0.0

    def seconds(self) -> float:
        """Return the seconds since the process was last seen to use CPU time; 0 if the process is gone."""
        try:
            used, now = _stat(self._pid)[2], time.monotonic()
        except OSError:
            return 0.0
        if used != self._used:
            self._used, self._since = used, now
        return now - self._since


class Signs:
    """Tells whether a process is doing anything, even if it sends no messages, as a busy one may not."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._used: float = math.inf

    def seen(self) -> bool:
        """Return whether the process is ready to run or has used CPU time since the last call; False if it is gone."""
        before = self._used
        try:
            state, _, self._used = _stat(self._pid)
        except OSError:
            return False
        return state == "R" or self._used > before


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped (SIGSTOP); False if it is gone."""
    try:
        return _stat(pid)[0] in {"T", "t"}
    except OSError:
        return False


# The workers of a real-time run: processes that are started, exchange lines of JSON, are watched and are ended.


Message = dict[str, Any]
Start = Callable[[str, Sequence[str], Mapping[str, Any]], Any]
"""Function that starts a command at a host: (host, argv, keyword arguments of Popen)."""
Watch = Callable[[], None]
"""Function that is called regularly while the group waits; raises when the run cannot go on."""
WATCH_EVERY_S: Final = 0.2
GRACE_S: Final = 3.0
"""seconds between asking a worker to end and killing it"""


class WorkerError(ClusterError):
    """A worker reported that it cannot carry out a command."""

    def __init__(self, host: str, text: str) -> None:
        super().__init__(text)
        self.host = host


class WorkerProcess:
    """A worker's process. Its standard error goes to its log."""

    def __init__(self, host: str, process: Any, log: Path) -> None:
        self.host = host
        self.process = process
        self.log = log
        self._partial = b""

    def send(self, message: Message) -> None:
        """Send one line to the process; if it is gone, the wait for its answer reports that."""
        assert self.process.stdin is not None  # noqa: S101  (for the type checker: it is a pipe)
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return

    def read(self) -> list[Message] | None:
        """Return the complete messages received so far, or None at the end of the worker's output."""
        assert self.process.stdout is not None  # noqa: S101
        data = self.process.stdout.read1(1 << 16)
        if not data:
            return None
        *lines, self._partial = (self._partial + data).split(b"\n")
        try:
            return [json.loads(line) for line in lines if line.strip()]
        except json.JSONDecodeError as error:
            raise ClusterError(f"worker {self.host} wrote what is no message: {error}{self.last_lines()}") from None

    def ended(self) -> ClusterError:
        """Return the error for a process that has ended, with the last lines of its log."""
        code = self.process.wait(GRACE_S)
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        own = f" (process {self.process.pid})" if self.process.pid > 0 else ""
        return ClusterError(f"worker {self.host}{own} ended with {how}{self.last_lines()}")

    def last_lines(self) -> str:
        """Return the last lines of the worker's log, to append to an error message."""
        return f"; its last lines:\n{last_lines(self.log)}"


class WorkerGroup(Closable):
    """All workers of a run. Use as a context manager: on exit every process is ended."""

    def __init__(self, start: Start, commands: Mapping[str, Sequence[str]], folder: Path, watch: Watch) -> None:
        """Start a process for each host and write its log to ``folder``; ``watch`` checks everything else."""
        self._watch = watch
        self._selector = selectors.DefaultSelector()
        self._early: dict[str, list[Message]] = {host: [] for host in commands}
        self.workers: dict[str, WorkerProcess] = {}
        try:
            for host, command in commands.items():
                log = folder / f"{host}.log"
                with log.open("wb") as errors:
                    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
                    process = start(host, command, pipes)
                worker = self.workers[host] = WorkerProcess(host, process, log)
                self._selector.register(process.stdout, selectors.EVENT_READ, worker)
        except BaseException:
            self.close()
            raise

    def pids(self) -> dict[str, int]:
        """Return the process ID of each host's worker."""
        return {host: worker.process.pid for host, worker in self.workers.items()}

    def tell(self, messages: Mapping[str, Message]) -> None:
        """Send one line to each of the named workers."""
        for host, message in messages.items():
            self.workers[host].send(message)

    def answers(self, hosts: Sequence[str], what: str, deadline: float, idle_s: float = math.inf) -> dict[str, Message]:
        """Wait for one message from each of ``hosts``, until ``deadline`` (``time.monotonic()``).

        Raises ``ClusterError`` that names the workers that ended, reported an error, did not answer in time, or used no
        CPU time for ``idle_s`` seconds (because they are stopped, or wait forever).
        """
        answers: dict[str, Message] = {}
        idle = {host: Idle(self.workers[host].process.pid) for host in hosts} if idle_s < math.inf else {}
        while True:
            for host in hosts:
                if host not in answers and self._early[host]:
                    answers[host] = self._early[host].pop(0)
                    if "error" in answers[host]:
                        raise WorkerError(host, f"{what}: worker {host}: {answers[host]['error']}")
            missing = [host for host in hosts if host not in answers]
            if not missing:
                return answers
            left = deadline - time.monotonic()
            if left <= 0:
                raise ClusterError(
                    f"{what}: no answer of worker {', '.join(missing)} within the run's wall-clock time (--budget-s)"
                )
            for key, _ in self._selector.select(min(left, WATCH_EVERY_S)):
                self._take(key.data)
            self._watch()
            asleep = [host for host in missing if host in idle and idle[host].seconds() > idle_s]
            if asleep:
                raise ClusterError(
                    f"{what}: worker {', '.join(asleep)} has neither answered nor used any processor time for "
                    f"{idle_s:g} s (--budget-s); was it stopped?"
                )

    def _take(self, worker: WorkerProcess) -> None:
        messages = worker.read()
        if messages is None:
            raise worker.ended()
        self._early[worker.host] += messages

    def close(self) -> None:
        """End every process."""
        self._selector.close()
        processes = [worker.process for worker in self.workers.values()]
        stop(processes, GRACE_S)
        for process in processes:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    _close(pipe)


def _close(pipe: Any) -> None:
    try:
        pipe.close()
    except BrokenPipeError:
        return  # the reader of the pending output is gone


# The coordinator's end of a member's control connection: it returns complete messages without waiting for more.


_READ: Final = 1 << 20
_FLOAT_BYTES: Final = 4
SEND_S: Final = 1.0
"""seconds for which a member may take nothing that is sent to it: the term of a lease"""


class Control:
    """A control connection with messages of ``group/remote.py``.

    ``wrong``: error of the last invalid message, empty before. ``asked``: arrays that were requested and have not
    arrived; the other end may send no others. ``since_s``: time at which the connection was accepted
    (``time.monotonic()``). ``rank``: the rank that another machine's agent names as its owner, or None.
    """

    def __init__(self, connection: socket.socket, since_s: float, rank: int | None = None) -> None:
        self.connection = connection
        self.rank = rank
        self.since_s = since_s
        self.wrong = ""
        self.asked = 0
        connection.settimeout(SEND_S)
        self._buffer = bytearray()
        self._message: Message | None = None
        """message whose array has not arrived completely"""

    def receive(self) -> Sequence[tuple[Message, FloatArray | None]] | None:
        """Return complete messages; None if the other end is gone or violates the protocol."""
        try:
            data = os.read(self.connection.fileno(), _READ)  # ``recv`` would wait for the time-out of ``send``
        except BlockingIOError:
            return ()
        except OSError:
            return None
        if not data:
            return None
        self._buffer += data
        try:
            return list(self._whole())
        except remote.FramingError as error:
            self.wrong = str(error)
            return None

    def send(self, message: Message, array: FloatArray | None = None) -> None:
        """Send; shut the connection down if the other end is gone or takes nothing for ``SEND_S``."""
        try:
            if array is None:
                self.connection.sendall(remote.pack(message))
                return
            self.connection.sendall(remote.pack({**message, "floats": array.size}))
            octets = array.data.cast("B")
            for begin in range(0, len(octets), _READ):
                self.connection.sendall(octets[begin : begin + _READ])
        except OSError:
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

    @property
    def ended(self) -> bool:
        """Return whether the connection was closed here."""
        return self.connection.fileno() < 0

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def _whole(self) -> Iterator[tuple[Message, FloatArray | None]]:
        while True:
            if self._message is None:
                self._message = remote.unpack(self._buffer)
                if self._message is None:
                    return
            floats = self._message.get("floats", 0)
            if type(floats) is not int or not 0 <= floats <= remote.MAX_FLOATS:
                raise remote.FramingError(f"floats: {floats!r}")
            if floats and not self.asked:
                raise remote.FramingError(f"an array of {floats} elements that was not asked for")
            if len(self._buffer) < _FLOAT_BYTES * floats:
                return
            message, self._message = self._message, None
            message.pop("floats", None)
            array = None
            if floats:
                self.asked -= 1
                array = np.frombuffer(bytes(self._buffer[: _FLOAT_BYTES * floats]), np.float32)
                del self._buffer[: _FLOAT_BYTES * floats]
            yield message, array


# Checks of a member's messages against the protocol of runs/real/member.py, before the coordinator relies on them.
#
# A message must have a valid form and fit the state: numbers of finished operations do not decrease, a member answers
# only questions that were asked, and it joins once. Repeated or outdated messages are refused.


MESSAGES: Final[Mapping[str, type[MemberMessage]]] = {
    "beat": BeatMessage,
    "stopped": StoppedMessage,
    "array": ArrayMessage,
    "left": LeftMessage,
}
"""message class by the field that identifies it"""


def check(message: Mapping[str, Any], *, finished: int, term: int, left: bool, ranks: int) -> MemberMessage:
    """Return the typed message. Raises ``FramingError`` if it is not valid for this member.

    finished: operations that the member has reported as finished. term: the last term in which a member was asked.
    left: whether the member has said that it leaves. ranks: number of ranks.
    """
    name = next((name for name in MESSAGES if name in message), None)
    if name is None:
        raise FramingError("it joined twice" if "join" in message else f"a message of {sorted(message)[:5]!r}")
    try:
        checked = from_plain(MESSAGES[name], message, "a message")
    except RecordError as error:
        raise FramingError(str(error)) from None
    if name in ("stopped", "array") and not 0 < message[name] <= term:
        raise FramingError(f"{name}: there was no question in a term {message[name]}")
    if name == "left" and left:
        raise FramingError("it left twice")
    number = message.get("finished", finished if name == "array" else message[name])
    if number < finished:
        raise FramingError(f"{name}: {number} operations, and it had finished {finished}")
    if any(not 0 <= rank < ranks for rank in message.get("contributors", ())):
        raise FramingError(f"contributors: {message['contributors']!r}")
    return checked


def joins(message: Mapping[str, Any], ranks: int) -> int | None:
    """Return the rank that a new connection claims, or None if it claims no valid rank."""
    rank = message.get("join")
    return rank if type(rank) is int and 0 <= rank < ranks else None


LOOK_S: Final = 0.05
"""seconds between two checks of the leases"""
END_NS: Final = NS_PER_S // 10
"""grace between the end of a connection, which is noticed at once, and of its process, which gives the reason"""
REMOTE_END_NS: Final = 3 * NS_PER_S
"""the same on another machine, whose agent first reads the process's output"""
LATE: Final = REAL_LEASE.term // 2
"""nanoseconds after which a wait for the same seq, or a gap between two looks, is too long"""
MOST_STRANGERS: Final = 64
"""connections that have not named their rank; to accept one more, the oldest is closed …"""
STRANGER_S: Final = 0.1
"""… once it has had this many seconds to do so"""
_CREDENTIALS: Final = struct.Struct("3i")
"""pid, uid, gid of SO_PEERCRED (unix(7))"""
QUIET: Final = 3
"""missed beats after which a member's CPU time is checked: a busy member may not get to send any"""


Process = subprocess.Popen[bytes] | RemoteRank


@dataclass
class RankState:
    """The coordinator's state of one rank."""

    process: Process
    signs: Signs | RemoteRank
    control: Control | None = None
    beat: BeatMessage | None = None
    """last beat, while its contents are valid; None otherwise"""
    finished: int = 0
    """operations that the rank has reported as finished"""
    since_ns: int = 0
    """since when its beats have named the same awaited operation and seqs, nanoseconds"""
    left: int | None = None
    """operations that it had finished when it left, or None"""
    code: int | None = None
    member: bool = True
    """False for a rank that wants to join."""


class Presence(Closable):
    """The processes and connections of all ranks. Use as a context manager, from one thread.

    ``leases`` belong to an agreement, which ends them; this class extends them.
    """

    def __init__(self, folder: Path) -> None:
        """Listen in ``folder``, which no other user may enter."""
        self.address: Final = str(folder / "group")
        self.seen: list[RankState] = []
        self.leases = Leases(REAL_LEASE, (), 0)
        self.term = 0
        """Term of the last question to the members."""
        self._events: list[Event] = []
        self._closed = False
        self._posted: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        """functions that other threads want this thread to call"""
        self._strangers: list[Control] = []
        """Connections that have not named their rank, oldest first."""
        self._looked_ns: int | None = None
        """Time at which the last look ended, nanoseconds."""
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
        """End a wait. May be called from any thread."""
        with suppress(ValueError, OSError):  # closed already
            os.eventfd_write(self._alarm, 1)

    def wake_for(self, events: socket.socket) -> None:
        """End a wait when this socket becomes readable; the caller of the wait reads it."""
        self._selector.register(events, selectors.EVENT_READ, lambda: None)

    def wake_at_end(self, pid: int, then: Callable[[], None] = lambda: None) -> None:
        """End a wait when a process ends, and call ``then``."""
        pidfd = os.pidfd_open(pid)

        def ended() -> None:
            self._selector.unregister(pidfd)
            os.close(pidfd)
            then()

        self._selector.register(pidfd, selectors.EVENT_READ, ended)

    @property
    def late(self) -> bool:
        """Return whether a member has waited for the same seq for longer than ``LATE``."""
        until = time.monotonic_ns() - LATE
        alive = [self.seen[member] for member in self.leases.alive]
        return any(seen.beat is not None and seen.beat.waits is not None and seen.since_ns < until for seen in alive)

    def add(self, process: Process, *, member: bool = True) -> None:
        """Add the process of the next rank, either a ``member`` of the start or a rank that joins.

        The end of a process on another machine is reported to ``note_end``.
        """
        rank, signs = len(self.seen), process if isinstance(process, RemoteRank) else Signs(process.pid)
        self.seen.append(RankState(process, signs, member=member))
        if signs is not process:
            self.wake_at_end(process.pid, lambda: self._process_ended(rank))

    def note_end(self, rank: int) -> None:
        """Note that a rank's process on another machine has ended. May be called from any thread."""
        self._posted.put(lambda: self._process_ended(rank))
        self.wake()

    def admit(self, connection: socket.socket, rank: int) -> None:
        """Accept the control connection of a rank on another machine, as its agent says. Callable from any thread."""
        self._posted.put(lambda: self._welcome(Control(connection, time.monotonic(), rank)))
        self.wake()

    def pump(self) -> list[Event]:
        """Wait up to ``LOOK_S`` and return the events since the last call."""
        for key, _ in self._selector.select(LOOK_S):
            key.data()
        while not self._posted.empty():
            self._posted.get()()
        now = time.monotonic_ns()
        if self._looked_ns is not None and (gap := now - self._looked_ns) > LATE:
            self.leases.postpone(gap)  # this process stood still, as others may have
        self._looked_ns = now
        quiet = self.leases.expired(now + REAL_LEASE.term - QUIET * REAL_LEASE.beat)
        for member in quiet:
            if self.seen[member].signs.seen():
                self.leases.heard(member, now)
        events, self._events = self._events, []
        return events

    def tell(self, members: Iterable[int], message: Message) -> None:
        """Send a message to each of the members that has connected."""
        for member in members:
            if (control := self.seen[member].control) is not None:
                control.asked += "give" in message
                control.send(message)

    def replace(self, rank: int) -> None:
        """Kill a rank's process whose host another rank takes over."""
        self._events.append(ProcessEnded(rank, "was started anew"))
        self.seen[rank].process.kill()

    def close(self) -> None:
        """Close all connections and kill excluded processes; may be called again."""
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
            if rank in self.leases.dead:  # a stopped process does not read that it is to end
                seen.process.kill()
        self._listener.close()

    def _accept(self) -> None:
        """Accept the waiting connections while there is room for another one without a rank."""
        while self._has_room():
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # out of file descriptors
                if self._strangers:
                    self._forget(self._strangers[0])
                return
            self._welcome(Control(connection, time.monotonic()))

    def _welcome(self, control: Control) -> None:
        self._strangers.append(control)
        self._selector.register(control.connection, selectors.EVENT_READ, lambda: self._first(control))

    def _has_room(self) -> bool:
        """Return whether one more connection without a rank fits; if not, close the oldest one unless it is new."""
        if len(self._strangers) < MOST_STRANGERS:
            return True
        oldest = self._strangers[0]
        self._first(oldest)
        if oldest in self._strangers and time.monotonic() > oldest.since_s + STRANGER_S:
            self._forget(oldest)
        return len(self._strangers) < MOST_STRANGERS

    def _first(self, control: Control) -> None:
        """Take in the first message of a new connection."""
        messages = self._messages(control, None)
        if not messages:
            return
        rank = joins(messages[0][0], len(self.seen))
        if rank is None or self.seen[rank].control is not None:
            self._forget(control)
            return
        its = control.rank == rank
        if control.rank is None:
            its = is_of(control.connection, self.seen[rank].process.pid)
        if not its:
            control.send({"refused": f"the connection is not of a process of rank {rank}"})
            self._forget(control)
            return
        self._strangers.remove(control)
        self.seen[rank].control = control
        self._selector.modify(
            control.connection, selectors.EVENT_READ, lambda: self._handle(rank, self._messages(control, rank))
        )
        self._events.append(Joined(rank))
        self._handle(rank, messages[1:])

    def _handle(self, rank: int, messages: Sequence[tuple[Message, FloatArray | None]]) -> None:
        seen = self.seen[rank]
        for message, array in messages:
            if rank in self.leases.dead:
                return  # a dead rank's messages do not count
            try:
                checked = check(
                    message, finished=seen.finished, term=self.term, left=seen.left is not None, ranks=len(self.seen)
                )
                if array is None and isinstance(checked, ArrayMessage):
                    raise FramingError("an array without elements")
            except FramingError as error:
                self.out_of_turn(rank, str(error))
                return
            if seen.member:
                self._events.append(self._take(rank, seen, checked, array))

    def _take(self, rank: int, seen: RankState, message: MemberMessage, array: FloatArray | None) -> Event:
        """Return the event that corresponds to a member's message."""
        match message:
            case BeatMessage(finished, calls, rests, held, waits):
                if seen.beat is None or (finished, waits) != (seen.beat.beat, seen.beat.waits):
                    seen.since_ns = time.monotonic_ns()
                seen.beat, seen.finished = message, finished
                return Beat(rank, finished, calls, held, rests)
            case LeftMessage(finished):
                seen.beat, seen.left, seen.finished = None, finished, finished  # it waits for nothing any more
                return Left(rank, finished)
            case StoppedMessage(term, finished, contributors, root, operation):
                seen.finished = finished
                return Answered(rank, term, SurvivorAnswer(finished, contributors, operation, root))
            case ArrayMessage(term, failed):
                return Answered(rank, term, None, None if array is None else (array, failed))

    def out_of_turn(self, rank: int, why: str) -> None:
        """Exclude a rank after an invalid message; the others go on without it."""
        reason = f"said what no member says: {why}"
        control = self.seen[rank].control
        self._events.append(ProcessEnded(rank, reason))
        if control is not None:
            control.send({"excluded" if self.seen[rank].member else "refused": reason})
            self._forget(control)

    def _messages(self, control: Control, rank: int | None) -> Sequence[tuple[Message, FloatArray | None]]:
        """Read the messages of a connection; note the member's end if the connection has ended."""
        if control.ended:
            return ()
        message = control.receive()
        if message is not None:
            return message
        if rank is not None and control.wrong:
            self.out_of_turn(rank, control.wrong)
            return ()
        self._forget(control)
        if rank is not None and self.seen[rank].code is None:
            until = REMOTE_END_NS if control.rank is not None else END_NS
            self._events.append(ProcessEnded(rank, PARTED, time.monotonic_ns() + until))
        return ()

    def _forget(self, control: Control) -> None:
        if not control.ended:
            self._selector.unregister(control.connection)
            control.close()
        if control in self._strangers:
            self._strangers.remove(control)

    def _process_ended(self, rank: int) -> None:
        seen = self.seen[rank]
        seen.code = seen.process.wait()
        how = f"ended with {how_ended(seen.code)}" if seen.code else "ended without leaving the group"
        if seen.code or seen.control is not None:
            self._events.append(ProcessEnded(rank, how))
        else:
            self._events.append(Left(rank, None))


def is_of(connection: socket.socket, pid: int) -> bool:
    """Return whether the process at the other end is ``pid`` or one of its descendants, according to the kernel."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return descends(_CREDENTIALS.unpack(credentials)[0], pid)


# Ranks that join a group in real time: each is started at its time, at a host without a rank.


StartRank = Callable[[int], "subprocess.Popen[bytes]"]


class Arrivals:
    """Starts ranks that join after the start, in the order of ``times`` (seconds from now).

    ``hosts``: of all ranks. ``start`` starts the process of a rank. If a host's process still runs, it is killed first.
    """

    def __init__(self, times: Sequence[float], hosts: Sequence[str], presence: Presence, start: StartRank) -> None:
        began = time.monotonic()
        self._due = [began + after_s for after_s in times]
        self._hosts, self._presence, self._start = hosts, presence, start
        self._first = len(hosts) - len(times)

    def start_due(self, members: Collection[int]) -> None:
        """Start the ranks that are due, as long as one of the ``members`` may still call."""
        seen = self._presence.seen
        while len(seen) < len(self._hosts) and time.monotonic() >= self._due[len(seen) - self._first]:
            rank = len(seen)
            there = [peer for peer in range(rank) if self._hosts[peer] == self._hosts[rank] and seen[peer].code is None]
            for peer in there:
                self._presence.replace(peer)
            if there or not any(seen[member].left is None and seen[member].code is None for member in members):
                return
            self._presence.add(self._start(rank), member=False)

    def outside(self, refused: Mapping[int, str]) -> dict[int, str]:
        """Return the ranks that did not join, with the reason; ``refused``: reasons of those that had connected."""
        seen = self._presence.seen
        ranks = range(self._first, len(self._hosts))
        left = [rank for rank in ranks if rank >= len(seen) or not seen[rank].member]
        return {rank: refused.get(rank, "the others ended before") for rank in left}
