"""The Communicator of a process that ``p4reduce launch`` started, and the coordinator's end of its connection."""

import atexit
import contextlib
import json
import os
import random
import socket
import struct
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from p4reduce.base.records import RecordError, from_json, from_plain, to_plain
from p4reduce.group.backend import Ahead, Asked, Clock, FloatArray, Move, Options, Served, Tallied, Wait, info
from p4reduce.group.communicator import Communicator
from p4reduce.group.errors import (
    ClusterError,
    CollectiveError,
    ExcludedError,
    GroupChanged,
    RefusedError,
    SaturatedError,
)
from p4reduce.group.transport import (
    CONNECT_TIMEOUT_S,
    PROTOCOL,
    TICKET,
    TLS,
    VERSION,
    Address,
    Ticket,
    dial,
    is_refusal,
    is_silent,
)
from p4switch.base.values import PS_PER_S, short

# Ports for servers that have to be given a number.


_CLIENT_PORTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LEAST_PORT: Final = 10_000
_PORT_TRIES: Final = 1000


def free_ports(count: int, host: str = "127.0.0.1", kind: socket.SocketKind = socket.SOCK_STREAM) -> list[int]:
    """Return ``count`` free TCP or UDP ports of an address of this machine, outside the kernel's ephemeral range.

    They are below the ports that the kernel gives to a socket that connects, or binds port 0: until they are used, only
    a server with the same given number could take one. Raises ``OSError`` if there are too few.
    """
    clients = int(_CLIENT_PORTS.read_text("ascii").split()[0])
    with contextlib.ExitStack() as stack:
        ports: list[int] = []
        for _ in range(_PORT_TRIES + count):
            if len(ports) == count:
                return ports
            holder = stack.enter_context(socket.socket(type=kind))
            # 0: the kernel chooses, if an administrator has left no room below the ephemeral range.
            port = random.randrange(_LEAST_PORT, clients) if clients > 2 * _LEAST_PORT else 0  # noqa: S311  (no secret)
            with contextlib.suppress(OSError):
                holder.bind((host, port))
                ports.append(int(holder.getsockname()[1]))
    protocol = {socket.SOCK_STREAM: "TCP"}.get(kind, "UDP")
    raise OSError(f"no {count} free {protocol} ports of {host} from {_LEAST_PORT} to {clients - 1}")


# Messages between a rank's process and the coordinator, over a stream socket.
#
# A message is the length of its header (4 bytes, network order), the header (a JSON object, UTF-8) and, if the header
# has ``floats``, that many float32 in the byte order of both machines, which the first message states. No data is
# unpickled; every size is checked before memory is allocated.


MAX_HEADER: Final = 64 * 1024
"""bytes"""
MAX_FLOATS: Final = 1 << 28
"""float32 elements in one message: 1 GiB"""
_LENGTH: Final = struct.Struct("!I")


class FramingError(ValueError):
    """The other end does not speak this protocol."""


class EndedError(FramingError):
    """The connection ended inside a message, for example because the sender was killed."""


def send(
    connection: socket.socket, header: dict[str, Any], array: FloatArray | None = None, *, limit: int = MAX_HEADER
) -> None:
    """Send one message; ``array`` is 1-D, C-contiguous float32. The header has at most ``limit`` bytes.

    Raises ``ValueError`` if it is too large, ``OSError`` if the other end is gone.
    """
    if array is not None:
        if array.size > MAX_FLOATS:
            raise ValueError(f"an array of {array.size} elements is too large: the limit is {MAX_FLOATS}")
        header = {**header, "floats": array.size}
    connection.sendall(pack(header, limit=limit))
    if array is not None:
        connection.sendall(array.data.cast("B"))


def pack(header: dict[str, Any], *, limit: int = MAX_HEADER) -> bytes:
    """Return a message without an array as bytes; raise ``ValueError`` if it is too large."""
    text = json.dumps(header).encode()
    if len(text) > limit:
        raise ValueError(f"a message header of {len(text)} bytes is too large: the limit is {limit}")
    return _LENGTH.pack(len(text)) + text


def unpack(buffer: bytearray, *, limit: int = MAX_HEADER) -> dict[str, Any] | None:
    """Remove the first message, without an array, from ``buffer`` and return it; None while it is incomplete.

    Raises ``FramingError`` for anything malformed, as soon as its length is known.
    """
    if len(buffer) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(buffer)
    if length > limit:
        raise FramingError(f"a message header of {length} bytes: the limit is {limit}")
    if not is_whole(buffer):
        return None
    end = _LENGTH.size + length
    header = _parse(buffer[_LENGTH.size : end])
    del buffer[:end]
    return header


def is_whole(buffer: bytearray) -> bool:
    """Return whether the first message is complete."""
    return len(buffer) >= _LENGTH.size and len(buffer) - _LENGTH.size >= _LENGTH.unpack_from(buffer)[0]


def receive(
    connection: socket.socket, into: FloatArray | None = None, *, limit: int = MAX_HEADER
) -> tuple[dict[str, Any], FloatArray | None] | None:
    """Receive one message; return its header and its array, or None if the other end has closed the connection.

    With ``into``, the array is written there, and must have its size. Raises ``FramingError`` for anything malformed,
    ``OSError`` (``TimeoutError`` if the socket has a time-out) if the connection breaks.
    """
    prefix = bytearray(_LENGTH.size)
    if not _fill(connection, memoryview(prefix), may_end=True):
        return None
    (length,) = _LENGTH.unpack(prefix)
    if length > limit:
        raise FramingError(f"a message header of {length} bytes: the limit is {limit}")
    text = bytearray(length)
    _fill(connection, memoryview(text))
    header = _parse(text)
    floats = header.pop("floats", None)
    if floats is None:
        return header, None
    if isinstance(floats, bool) or not isinstance(floats, int) or not 0 < floats <= MAX_FLOATS:
        raise FramingError(f"floats: expected 1 to {MAX_FLOATS}, got {floats!r}")
    if into is None:
        array: FloatArray = np.empty(floats, np.float32)
    elif into.size == floats:
        array = into
    else:
        raise FramingError(f"floats: expected {into.size}, got {floats}")
    _fill(connection, array.data.cast("B"))
    return header, array


def _parse(text: bytearray) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FramingError(f"the message header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise FramingError("the message header is not a JSON object")
    return header


def _fill(connection: socket.socket, buffer: memoryview, *, may_end: bool = False) -> bool:
    """Fill ``buffer``; return False if the stream ends before its first byte and ``may_end`` is set."""
    done = 0
    while done < len(buffer):
        count = connection.recv_into(buffer[done:])
        if count == 0:
            if may_end and done == 0:
                return False
            raise EndedError(f"the connection ended inside a message, after {done} of {len(buffer)} bytes")
        done += count
    return True


# The identity of a process that Slurm started: its rank, and the socket of its job.


NETWORK: Final = "P4REDUCE_NETWORK"
"""environment variable: folder with a subfolder for each job, which holds the job's socket"""


def is_in_step(environment: Mapping[str, str]) -> bool:
    """Return whether ``srun`` started this process, in a job that has a p4reduce network."""
    return NETWORK in environment and "SLURM_PROCID" in environment


def job_folder(number: int | str) -> str:
    """Return the name of a job's folder."""
    return f"job-{number}"


def place(environment: Mapping[str, str]) -> tuple[str, int, int]:
    """Return the coordinator's address, rank and size; raise ``ClusterError`` if Slurm's variables are invalid."""
    values = {}
    for what, names in (
        ("job", ("SLURM_JOB_ID",)),
        ("rank", ("SLURM_PROCID",)),
        ("size", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")),
    ):
        text = next((environment[name] for name in names if name in environment), "")
        if not (text.isascii() and text.isdecimal()):
            raise ClusterError(f"{names[0]}: expected a number, got {text!r}; start ranks with srun")
        values[what] = int(text)
    folder = Path(environment[NETWORK]) / job_folder(values["job"])
    return str(folder / "socket"), values["rank"], values["size"]


ADDRESS: Final = "P4REDUCE_ADDRESS"
"""the coordinator's address: its socket (``unix:PATH``), or ``tls://HOST:PORT`` (several by commas) without a ticket"""
RANK: Final = "P4REDUCE_RANK"
SIZE: Final = "P4REDUCE_SIZE"
RESTART: Final = "P4REDUCE_RESTART"
"""number of earlier starts of the script, whose ranks failed; "0" at first"""
COMPUTE: Final = "P4REDUCE_COMPUTE"
"""How the computation of PyTorch scripts takes virtual time (adapters/torch/process_time.py)."""
MEMBERS: Final = "P4REDUCE_MEMBERS"
"""If ranks may join: `GroupMembers` as JSON."""
SPEC: Final = "P4REDUCE_SPEC"
"""In real time: the file that describes this process's end of the network."""
_LOOK_S: Final = 0.02
NOTES: Final = 200
"""figures and spans of computation in one message"""
ANSWER_TIMEOUT_S: Final = 24 * 3600.0
"""Longer than the coordinator's own patience, whose error names the missing ranks."""

Membership = tuple[tuple[int, ...], int]
"""Ranks of a group, and the number of the group of these ranks."""


# Contents of messages. The header of a request has its record's fields, and ``do``, the kind of request.


@dataclass(frozen=True)
class GroupMembers:
    """The group of a process that joins late: number of changes so far, and members."""

    view: int
    members: tuple[int, ...]


@dataclass(frozen=True)
class Hello:
    """The first message of a process: its rank, the word of its start, and its group (None: all ranks)."""

    rank: int
    start: str = ""
    group: Membership | None = None


@dataclass(frozen=True)
class Greeting:
    """The answer to ``Hello``: the participant's virtual time."""

    now_ps: int


@dataclass(frozen=True)
class AheadCall:
    """The participant's next call (`Ahead`), whose array follows that of the collective."""

    elements: int
    start_ps: int
    poison: bool


@dataclass(frozen=True)
class RemoteCall:
    """A request for a collective; its array follows the header."""

    operation: str
    root: int
    learning_rate: float
    options: Options
    start_ps: int
    ahead: AheadCall | None = None


@dataclass(frozen=True)
class Done:
    """The answer to ``RemoteCall``, with results as in `Backend`; the array follows."""

    done_ps: int
    contributors: tuple[int, ...]
    summed: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Computed:
    """An interval in which a participant computed."""

    start_ps: int
    end_ps: int


@dataclass(frozen=True)
class RecordedFigure:
    """A figure that a participant recorded."""

    name: str
    value: float
    at_ps: int


@dataclass(frozen=True)
class Noted:
    """Records of a participant since its last message."""

    notes: tuple[Computed | RecordedFigure | Wait | Tallied, ...]


@dataclass(frozen=True)
class GroupChange:
    """The content of a `GroupChanged`."""

    view: int
    members: tuple[int, ...]
    lost: Mapping[int, str]
    operation: int
    joined: tuple[int, ...]


@dataclass(frozen=True)
class Failure:
    """The answer to a request that failed: the error's class and text."""

    error: str
    message: str = ""
    change: GroupChange | None = None


SPOKEN: Final[Mapping[str, Any]] = {"protocol": PROTOCOL, "version": VERSION, "order": sys.byteorder}
"""fields of the first message besides `Hello`; if they differ at the two ends, the coordinator refuses the rank"""
Seats = Callable[[int, Membership | None], Served]
_ERRORS: Final[Mapping[str, type[Exception]]] = {
    "RecordError": RecordError,
    "ValueError": ValueError,
    "TypeError": TypeError,
    "CollectiveError": CollectiveError,
    "SaturatedError": SaturatedError,
    "RefusedError": RefusedError,
    "ExcludedError": ExcludedError,
    "GroupChanged": GroupChanged,
    "ClusterError": ClusterError,
}


def connect(environment: Mapping[str, str] = os.environ, *, patience_s: float | None = None) -> Communicator:
    """Return the Communicator of this process, if ``p4reduce launch`` or Slurm's ``srun`` started it.

    patience_s: wall-clock seconds that it waits for the others in a collective; None: the group's time-out.

    Raises ``ClusterError`` if the process belongs to no group, or if the coordinator cannot be reached.
    """
    address = _address(environment)
    if address is None and is_in_step(environment):
        address, rank, size = place(environment)
        _await_socket(address)
        return _telling(Communicator(RemoteBackend.join(address, rank, size), patience_s=patience_s))
    if address is None:
        raise ClusterError("this process belongs to no group: start the script with 'p4reduce launch -n 8 script.py'")
    rank, size = _number(environment, RANK), _number(environment, SIZE)
    view, members = _members(environment, rank, size)
    backend = RemoteBackend.join(address, rank, size)
    backend.contributors = members
    return _telling(Communicator(backend, patience_s=patience_s, members=members, view=view))


def _telling(communicator: Communicator) -> Communicator:
    """Make the communicator send its counts of calls even if the script ends without leaving."""
    atexit.register(communicator.tell)
    return communicator


def _address(environment: Mapping[str, str]) -> Address | None:
    """Return the coordinator's address from the environment, or None."""
    given, file = environment.get(ADDRESS), environment.get(TICKET)
    if file is not None:
        ticket = Ticket.read(Path(file))
        return ticket if given is None else replace(ticket, addresses=tuple(given.split(",")))
    if given is not None and given.startswith(TLS):
        raise ClusterError(f"{ADDRESS}: {given} needs the key of the group: {TICKET} must name the file of a ticket")
    return given


def _members(environment: Mapping[str, str], rank: int, size: int) -> tuple[int, tuple[int, ...]]:
    """Return the number of the group's changes before this process joined, and its members then."""
    text = environment.get(MEMBERS)
    if text is None:
        return 0, tuple(range(size))
    try:
        told = from_json(GroupMembers, text, MEMBERS)
    except RecordError as error:
        raise ClusterError(str(error)) from None
    if told.view < 0 or not {*range(size)}.issuperset(told.members) or rank not in {*told.members, size}:
        raise ClusterError(f"{MEMBERS}: {text!r} is no view and ranks of 0 to {size - 1}, {rank} among them")
    return told.view, told.members


def _await_socket(address: str) -> None:
    """Wait until the socket of this process's job exists, or until the time-out."""
    deadline = time.monotonic() + CONNECT_TIMEOUT_S
    while not os.path.exists(address) and time.monotonic() < deadline:  # noqa: PTH110  (a path as it came)
        time.sleep(_LOOK_S)


class RemoteBackend:
    """Carries a process's calls to the coordinator; implements ``backend.Backend``.

    The clock is kept here, so that computation goes on while a collective uses the connection. Recorded computation and
    figures travel with the next request.
    """

    looks_ahead = True

    def __init__(self, connection: socket.socket, rank: int, size: int, clock: Clock | None = None) -> None:
        self.rank, self.size, self.is_server = rank, size, rank == size
        self.contributors = tuple(range(size))
        """members whose arrays are in the result of its last collective"""
        self.summed: tuple[tuple[int, int], ...] = ()
        """its last result as stretches of (elements, contributions)"""
        self._connection = connection
        self._clock = Clock() if clock is None else clock
        self._home: Address = ""
        self._hello = Hello(rank)
        self._notes: list[Computed | RecordedFigure | Wait | Tallied] = []
        self._waits: list[Wait] = []
        self._noting, self._asking = threading.Lock(), threading.Lock()
        _JOINED.add(self)

    def leave_to_parent(self) -> None:
        """Leave the connection to the parent, in a process that was forked after joining.

        The child does not use the connection, nor keep it open after the parent has died.
        """
        self._connection.close()
        self._noting, self._asking = threading.Lock(), threading.Lock()  # the locks' holders are not in this process

    @classmethod
    def join(cls, address: Address, rank: int, size: int, start: str = "") -> "RemoteBackend":
        """Connect to the coordinator at ``address``. Raises ``ClusterError`` if that fails.

        start: the word of the start that this process belongs to, if the coordinator has one; a ticket contains it.
        """
        word = address.start if isinstance(address, Ticket) else start
        return cls._reached(address, Hello(rank, word), rank, size, Clock())

    def group(self, ranks: tuple[int, ...], serial: int) -> "RemoteBackend":
        """Open another connection, for the serial-th group of ``ranks``; it has the same clock."""
        hello = replace(self._hello, group=(ranks, serial))
        return self._reached(self._home, hello, ranks.index(self.rank), len(ranks), self._clock)

    @classmethod
    def _reached(cls, address: Address, hello: Hello, rank: int, size: int, clock: Clock) -> "RemoteBackend":
        """Connect and say hello. At a TLS port, which others may block, retry for `CONNECT_TIMEOUT_S`."""
        until = time.monotonic() + CONNECT_TIMEOUT_S * isinstance(address, Ticket)
        while True:
            try:
                backend = cls(dial(address), rank, size, clock)
                backend._home, backend._hello = address, hello
                backend._greet()
                return backend
            except (OSError, EndedError) as error:
                refused = isinstance(error, OSError) and is_refusal(error)
                if refused or time.monotonic() > until:
                    what = f"rank {hello.rank}: cannot reach the coordinator at {address}"
                    why = "its key is that of another group, or of another start" if refused else error
                    raise ClusterError(f"{what}: {why}") from error
            time.sleep(_LOOK_S)

    def _greet(self) -> None:
        """Say hello; raise ``OSError`` or ``EndedError`` if the connection ends instead."""
        try:
            send(self._connection, {"do": "hello", **SPOKEN, **to_plain(self._hello)})
            answer = receive(self._connection)
            if answer is None:
                raise EndedError("it closed the connection")
            if "error" in answer[0]:
                raise _error_of(from_plain(Failure, answer[0], "the answer to hello"))
            greeting = from_plain(Greeting, answer[0], "the answer to hello")
        except BaseException:
            self._connection.close()
            raise
        self._clock.reach(greeting.now_ps)
        self._connection.settimeout(ANSWER_TIMEOUT_S)
        by = "a Unix socket" if isinstance(self._home, str) else f"TLS, {' or '.join(self._home.addresses)}"
        info(f"{VERSION}: rank {self._hello.rank} of {self.size} came in by {by}")

    def collective(self, asked: Asked) -> int:
        """Take part in one collective, in place; return the time of the result, picoseconds."""
        array, options = asked.array, asked.options
        begin = self._clock.now_ps if asked.start_ps is None else asked.start_ps
        ahead, sent, told = options.ahead, array, None
        if ahead is not None and array.size + ahead.array.size <= MAX_FLOATS:
            told = AheadCall(ahead.array.size, ahead.start_ps, ahead.poison)
            sent = np.concatenate((array, ahead.array))
        call = to_plain(RemoteCall(asked.operation, asked.root, asked.learning_rate, options, begin, told))
        answer = self.ask({"do": "collective", **call}, sent, into=array)
        done = from_plain(Done, answer, f"the answer to {asked.operation}")
        self.contributors, self.summed = done.contributors, done.summed
        if asked.start_ps is None:
            self.waited(Wait(begin, done.done_ps))
            self._clock.reach(done.done_ps)
        return done.done_ps

    def compute(self, seconds: float) -> None:
        """Let virtual time pass."""
        begin, end = self._clock.advance(round(seconds * PS_PER_S))
        with self._noting:
            last = self._notes[-1] if self._notes else None
            if isinstance(last, Computed) and last.end_ps == begin:
                self._notes[-1] = Computed(last.start_ps, end)
            elif end > begin:
                self._notes.append(Computed(begin, end))

    def now(self) -> float:
        """Return the virtual time, seconds."""
        return self._clock.now_ps / PS_PER_S

    def now_ps(self) -> int:
        """Return the virtual time, picoseconds."""
        return self._clock.now_ps

    def reach(self, time_ps: int, move: int = -1) -> None:
        """Advance virtual time to at least ``time_ps``, and record the wait."""
        self.waited(Wait(self._clock.now_ps, time_ps, move))
        self._clock.reach(time_ps)

    def waited(self, wait: Wait) -> None:
        """Record a wait; it is sent at the end, since each collective would need another message. The clock stays."""
        with self._noting:
            self._waits.append(wait)

    def messenger(self) -> "RemoteBackend":
        """Open another connection, on which nothing waits for other ranks; it has the same clock."""
        ranks, serial = self._hello.group or (tuple(range(self.size)), -1)
        hello = replace(self._hello, group=(ranks, serial if serial < 0 else -2 - serial))
        return self._reached(self._home, hello, self.rank, self.size, self._clock)

    def move(self, move: Move) -> int:
        """Record a part of another library's transfer; return its number."""
        return int(self.ask({"do": "move", **to_plain(move)})["number"])

    def moved_ps(self, number: int) -> int:
        """Return when the transfer was complete, picoseconds, or -1."""
        return int(self.ask({"do": "moved", "number": number})["done_ps"])

    def tallied(self, rows: Sequence[Tallied]) -> None:
        """Send the counts of calls, and the waits so far."""
        self._note_waits(rows)
        self._flush()

    def _note_waits(self, rows: Sequence[Tallied] = ()) -> None:
        with self._noting:
            self._notes += [*rows, *self._waits]
            self._waits = []

    def record(self, name: str, value: float) -> None:
        """Record a figure."""
        with self._noting:
            self._notes.append(RecordedFigure(name, value, self._clock.now_ps))
        self._flush()

    def close(self) -> None:
        """Leave the group and close the connection; does nothing the second time."""
        if self._connection.fileno() >= 0:
            with self._asking:
                self._note_waits()
                self._tell_notes()
                self._exchange({"do": "close"}, "close")
                self._connection.close()

    def ask(
        self, request: dict[str, Any], array: FloatArray | None = None, into: FloatArray | None = None
    ) -> dict[str, Any]:
        """Send a request and return its answer; raise the error that the answer carries."""
        what = request.get("operation", request.get("do"))
        with self._asking:
            self._tell_notes()
            answer = self._exchange(request, what, array, into)
        self._flush()
        return answer

    def _flush(self) -> None:
        """Send what was recorded, unless a collective is under way, which sends it when it is done."""
        while self._notes and self._asking.acquire(blocking=False):
            try:
                self._tell_notes()
            finally:
                self._asking.release()

    def _tell_notes(self) -> None:
        while notes := self._take_notes():
            self._exchange({"do": "note", **to_plain(Noted(notes))}, "note")

    def _take_notes(self) -> tuple[Computed | RecordedFigure | Wait | Tallied, ...]:
        with self._noting:
            taken, self._notes = self._notes[:NOTES], self._notes[NOTES:]
            return tuple(taken)

    def _exchange(
        self, request: dict[str, Any], what: Any, array: FloatArray | None = None, into: FloatArray | None = None
    ) -> dict[str, Any]:
        if self._connection.fileno() < 0:
            raise ClusterError(
                f"rank {self.rank}: {what}: this process has left the group, or was forked after it joined"
            )
        try:
            send(self._connection, request, array)
            answer = receive(self._connection, into)
        except TimeoutError as error:
            waited = self._connection.gettimeout()
            raise ClusterError(f"rank {self.rank} waited {waited:g} s for the answer to {what}") from error
        except (OSError, FramingError) as error:
            raise ClusterError(f"rank {self.rank} lost the coordinator in {what}: {error}") from error
        if answer is None:
            raise ClusterError(f"rank {self.rank} lost the coordinator in {what}: it has ended")
        header, _ = answer
        if "error" in header:
            raise _error_of(from_plain(Failure, header, f"the answer to {what}"))
        return header


_JOINED: Final["weakref.WeakSet[RemoteBackend]"] = weakref.WeakSet()


def _after_fork() -> None:
    for backend in list(_JOINED):
        backend.leave_to_parent()


os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True)
class Lost:
    """A rank whose connection ended before it left."""

    seat: Served
    why: str = "ended without leaving the group"


def serve(
    connection: socket.socket, seats: Seats, start: str = "", *, known: Callable[[], None] = lambda: None
) -> Lost | None:
    """Answer one rank's requests until its connection ends; ``seats(rank, group)`` returns its seat in a group.

    group: its ranks, and the number of the group of these ranks; None for the whole run. Invalid requests are answered
    with an error. start: word that all ranks say first; a rank with another word, version or byte order is refused.
    known: called when the first message has arrived. Returns a rank that was lost, or None for a rank that left and has
    its answer. Raises ``ClusterError`` if the rank does not speak the protocol.
    """
    backend: Served | None = None
    try:
        first = receive(connection)
        if first is None:
            return None
        known()
        try:
            hello = _hello(first[0], start)
            backend = seats(hello.rank, hello.group)
        except FramingError:
            raise
        except (ClusterError, ValueError) as error:
            send(connection, to_plain(_failure(error)))
            return None
        send(connection, to_plain(Greeting(backend.now_ps())))
        while (message := receive(connection)) is not None:
            header, array = message
            what = header.pop("do", None)
            try:
                answer, array = _perform(backend, what, header, array)
            except (ClusterError, ValueError, TypeError) as error:
                send(connection, to_plain(_failure(error)))
            else:
                if what == "close":
                    with contextlib.suppress(OSError):  # the rank has left, and may be gone
                        send(connection, answer)
                    return None
                send(connection, answer, array)
    except EndedError:
        pass
    except FramingError as error:
        raise ClusterError(f"a process of the group sent something else than requests: {error}") from error
    except OSError:
        pass  # the process has ended; its exit code says how
    finally:
        silent = is_silent(connection)
        connection.close()
    if backend is None:
        return None
    return Lost(backend, "does not answer: its machine or the network to it is down") if silent else Lost(backend)


def _hello(header: dict[str, Any], start: str) -> Hello:
    """Read a rank's first message. ``FramingError`` if it is no hello, ``ClusterError`` if the rank is refused."""
    if header.pop("do", None) != "hello":
        raise FramingError("the first message must be a hello")
    spoken = {name: header.pop(name, None) for name in SPOKEN}
    for name, value in spoken.items():
        if value != SPOKEN[name]:
            raise ClusterError(
                f"rank {short(header.get('rank'))} has another {name} than the coordinator: {short(value)}, "
                f"not {SPOKEN[name]!r}; install p4reduce {VERSION} on its machine"
            )
    try:
        hello = from_plain(Hello, header, "hello")
    except RecordError as error:
        raise FramingError(str(error)) from None
    if hello.start != start:
        word = f"its word is {hello.start!r}, not {start!r}"
        raise ClusterError(f"rank {hello.rank} is of another start of this group: {word}")
    return hello


def _perform(
    backend: Served, what: object, header: dict[str, Any], array: FloatArray | None
) -> tuple[dict[str, Any], FloatArray | None]:
    """Carry out a request; return the answer's header, and the array that follows it (a collective's result)."""
    if what == "collective" and array is not None:
        told, ahead = from_plain(RemoteCall, header, "collective", ahead=None), None
        if told.ahead is not None:
            own = array.size - told.ahead.elements
            if not 0 < own < array.size:
                raise ValueError(f"ahead: {told.ahead.elements} of {array.size} elements")
            array, ahead = array[:own], Ahead(array[own:], told.ahead.start_ps, told.ahead.poison)
        options = replace(told.options, ahead=ahead)
        done = backend.collective(Asked(told.operation, array, told.root, told.learning_rate, options, told.start_ps))
        return to_plain(Done(done, backend.contributors, backend.summed)), array
    if what == "note":
        for note in from_plain(Noted, header, "note").notes:
            if isinstance(note, RecordedFigure):
                backend.record(note.name, note.value, note.at_ps)
            elif isinstance(note, Wait):
                backend.waited(note)
            elif isinstance(note, Tallied):
                backend.tallied([note])
            else:
                backend.computed(note.start_ps, note.end_ps)
    elif what == "move":
        return {"number": backend.move(from_plain(Move, header, "move"))}, None
    elif what == "moved" and isinstance(header.get("number"), int):
        return {"done_ps": backend.moved_ps(header["number"])}, None
    elif what == "close":
        backend.close()
    else:
        raise ValueError(f"unknown request {what!r}")
    return {}, None


def _failure(error: Exception) -> Failure:
    kind = next((name for name, known in _ERRORS.items() if type(error) is known), "ClusterError")
    names = [field.name for field in fields(GroupChange)]
    change = GroupChange(**{name: getattr(error, name) for name in names}) if isinstance(error, GroupChanged) else None
    return Failure(kind, str(error)[: MAX_HEADER // 16], change)


def _error_of(failure: Failure) -> Exception:
    """Return the error that :func:`_failure` put into a message."""
    if failure.change is not None:
        return GroupChanged(failure.message, **vars(failure.change))
    return _ERRORS.get(failure.error, ClusterError)(failure.message)


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    if not text.isdecimal():
        raise ClusterError(f"{name}: expected a number, got {text!r}; start the script with 'p4reduce launch'")
    return int(text)
