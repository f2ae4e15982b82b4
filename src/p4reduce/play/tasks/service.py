"""A world behind a Unix socket. Several clients may read it; only the orchestrator of the newest term gives orders."""

import contextlib
import fcntl
import os
import select
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from p4reduce.base.records import from_plain, to_plain
from p4reduce.base.signals import SEEN_S
from p4reduce.control_plane.connection import Target
from p4reduce.control_plane.orchestrator.executor import (
    ExecutorReport,
    Role,
    Running,
    ScheduleTurn,
    TaskOrder,
    Timetable,
)
from p4reduce.control_plane.orchestrator.options import TaskRefusedError
from p4reduce.control_plane.plans import Plan
from p4reduce.group import remote
from p4reduce.group.errors import ClusterError
from p4reduce.play.tasks.world import World
from p4reduce.topologies import Topology
from p4reduce.topologies.files import build, describe
from p4reduce.topologies.model import Hop
from p4switch.base.closing import Closable
from p4switch.base.values import one_line

# Requests to an executor in another process and its answers, as plain data in messages of ``group/remote.py``.


LIMIT: Final = 64 << 20
"""Largest message, bytes: a plan has some 200 bytes for each path."""
VERSION: Final = 15
"""Version of these messages; both ends must have the same."""


def send(connection: socket.socket, message: Mapping[str, Any]) -> None:
    """Send one message; raise ``OSError`` when the other end is gone."""
    remote.send(connection, dict(message), limit=LIMIT)


def receive(connection: socket.socket) -> dict[str, Any] | None:
    """Receive one message; None at the end. Raises ``FramingError`` and ``OSError``."""
    message = remote.receive(connection, limit=LIMIT)
    return None if message is None else message[0]


Answer = TypeVar("Answer")
Plans = dict[Role, Plan]
Reports = list[ExecutorReport]
RunningTasks = dict[str, Running]
Octets = list[tuple[Hop, int]]
"""Bytes by directed link."""
Hops = list[Hop]


PATIENCE_S: Final = 600.0
"""Time-out of one answer, seconds: an ``advance`` carries the packets of all tasks."""


class AbsentError(ClusterError):
    """Raised if no network listens at a socket, or if it ended before it answered."""


class RemoteExecutor(Closable):
    """An :class:`~p4reduce.control_plane.orchestrator.executor.Executor` behind a socket. Raises ``ClusterError``."""

    def __init__(self, path: Path, *, patience_s: float = PATIENCE_S) -> None:
        """Connect to the network that serves at ``path``."""
        self._path = path
        self._patience_s = patience_s
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.settimeout(patience_s)
        try:
            self._connection.connect(str(path))
            hello = self._ask("hello", version=VERSION)
        except OSError as error:
            self._connection.close()
            raise AbsentError(f"{path}: no network answers there: {error.strerror or error}") from None
        except ClusterError:
            self._connection.close()
            raise
        self._instance = str(hello["instance"])
        self.topology: Topology = build(hello["topology"], "network")
        """The network's topology."""
        self.program = str(hello["program"])
        """SHA-256 of the JSON that its switches run."""
        self.background = str(hello["background"])
        """Background traffic, as :func:`~p4reduce.network.background.parse_background` takes it; '' without."""
        self.time = str(hello["time"])
        """'virtual' or 'flow'."""
        self.targets = [Target(name, address, device_id) for name, address, device_id in hello["targets"]]
        """P4Runtime targets of the network's switches."""

    @property
    def instance(self) -> str:
        """Identity of the network."""
        return self._instance

    @property
    def switches_count(self) -> bool:
        """Whether frames cross switches."""
        return self.time != "flow"

    def take_charge(self, term: int, database: str) -> None:
        """Take charge from now on; the network refuses orders of an earlier term."""
        self._ask("take_charge", term=term, database=database)

    def now(self) -> int:
        """Return the network's virtual time, picoseconds."""
        return int(self._ask("now"))

    def start(self, order: TaskOrder) -> None:
        """Run a task."""
        self._ask("start", order=to_plain(order))

    def swap(self, task: str, plans: Mapping[Role, Plan]) -> None:
        """Change a task's jobs to other epochs."""
        self._ask("swap", task=task, plans=to_plain(plans, Plans))

    def replan(self, order: TaskOrder, *, at_once: bool = False) -> None:
        """Give a task other plans between two rounds."""
        self._ask("replan", order=to_plain(order), at_once=at_once)

    def keep_plans(self, task: str) -> None:
        """Forget a waiting order to replan."""
        self._ask("keep_plans", task=task)

    def set_schedule(self, timetable: Timetable) -> None:
        """Have tasks take turns from the end of this round on."""
        self._ask("set_schedule", timetable=to_plain(timetable))

    def turn(self) -> ScheduleTurn:
        """Return the present schedule and configuration."""
        return self._answer_to(ScheduleTurn, "turn")

    def stop(self, task: str) -> None:
        """Stop a task."""
        self._ask("stop", task=task)

    def advance(self, until_ps: int, *, after: int | None = None) -> int:
        """Let time pass."""
        return int(self._ask("advance", until_ps=until_ps, after=after))

    def reports(self, after: int) -> list[ExecutorReport]:
        """Return reports from number ``after`` + 1 on."""
        return self._answer_to(Reports, "reports", after=after)

    def running(self, names: Collection[str] | None = None) -> dict[str, Running]:
        """Return the tasks that were started."""
        return self._answer_to(RunningTasks, "running", names=None if names is None else list(names))

    def interface_bytes(self) -> dict[Hop, int]:
        """Return the bytes that interfaces have sent."""
        return dict(self._answer_to(Octets, "interface_bytes"))

    def host_bytes(self) -> dict[Hop, int]:
        """Return the bytes that hosts have sent for tasks."""
        return dict(self._answer_to(Octets, "host_bytes"))

    def links_down(self) -> set[Hop]:
        """Return the links without a carrier."""
        return set(self._answer_to(Hops, "links_down"))

    def change_link(self, a: str, b: str, *, up: bool, at_ps: int | None = None) -> None:
        """Cut or mend a link of the network, now or at a time; raise ``TopologyError`` if there is no such link."""
        self.topology.link_between(a, b)
        self._ask("change_link", a=a, b=b, up=up, at_ps=at_ps)

    def page(self, **wanted: Any) -> Any:
        """Return the address of the live page (``views/live/tasks``), if the network's process has one."""
        return self._ask("page", **wanted)

    def end_host(self, host: str, *, at_ps: int | None = None) -> None:
        """End a host with all its processes, now or at a time."""
        self._ask("end_host", host=host, at_ps=at_ps)

    def end_process(self, host: str, *, task: str, at_ps: int | None = None) -> None:
        """End a task's process at a host, now or at a time."""
        self._ask("end_process", host=host, task=task, at_ps=at_ps)

    def end(self) -> None:
        """Make the network end, and close the connection."""
        self._ask("end")
        self.close()

    def close(self) -> None:
        """Close the connection; the network stays."""
        self._connection.close()

    def _answer_to(self, kind: type[Answer], what: str, **fields: Any) -> Answer:
        return from_plain(kind, self._ask(what, **fields), f"{self._path}: the network's answer to {what}")

    def _ask(self, what: str, **fields: Any) -> Any:
        try:
            try:
                send(self._connection, {"do": what, **fields})
            except ValueError as error:  # too large: nothing was sent
                raise TaskRefusedError(f"{what}: {error}") from None
            answer = receive(self._connection)
            while answer is not None and answer.get("still"):  # time is passing, or a viewer holds it
                answer = receive(self._connection)
        except TimeoutError:
            raise ClusterError(
                f"{self._path}: the network did not answer {what} within {self._patience_s:g} s"
            ) from None
        except (OSError, remote.FramingError) as error:
            raise AbsentError(f"{self._path}: the network was lost in {what}: {error}") from None
        if answer is None:
            raise AbsentError(f"{self._path}: the network was lost in {what}: it has ended")
        if answer.get("refused"):
            raise TaskRefusedError(str(answer["error"]))
        if "error" in answer:
            raise ClusterError(f"{self._path}: {answer['error']}")
        return answer["answer"]


# Start of the network's process, so that it outlives its starter; there is one process per socket at a time.
#
# The log beside a socket is locked from before the process begins until it has ended. The lock belongs to a descriptor
# that starter and process share, so it is held as long as one of them lives, however the other one ended.


READY: Final = "ready\n"
"""Output of the process when its socket listens."""
MODULE: Final = "p4reduce.play.tasks"
START_S: Final = 300.0
"""Seconds for loading the program into all switches; on a machine's first run it is compiled."""
END_S: Final = 10.0
"""Seconds for a process that was told to end."""


class OccupiedError(ClusterError):
    """Raised if a network at this socket is being started, or has not ended yet."""


def log_of(path: Path) -> Path:
    """Return the file with the standard error of a network whose socket is at ``path``."""
    return path.with_name(path.name + ".log")


def join_network(
    path: Path,
    topology: str,
    *,
    lanes: int,
    options: Sequence[str] = (),
    module: str = MODULE,
    patience_s: float = START_S,
) -> RemoteExecutor:
    """Connect to the network at a socket; start it if there is none. Parameters as in :func:`start_network`.

    A process that has the socket without answering yet is waited for: it is being started by another call, or its
    starter was killed and it ends by itself as soon as it finds that out.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return RemoteExecutor(path)
        except AbsentError:
            try:
                start_network(path, topology, lanes=lanes, options=options, module=module, patience_s=patience_s)
            except OccupiedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(SEEN_S)


def start_network(
    path: Path,
    topology: str,
    *,
    lanes: int,
    options: Sequence[str] = (),
    module: str = MODULE,
    patience_s: float = START_S,
) -> subprocess.Popen[bytes]:
    """Start the process that serves a topology at ``path``, in a separate session, and wait until it listens.

    Parameters
    ----------
    path : Path
        Its socket; the socket of an ended process is replaced.
    topology : str
        File, bundled name or builder with parameters.
    lanes : int
        Lanes of its switches' program.
    options : sequence of str
        Further flags of ``python -m p4reduce.play.tasks``.
    module : str
        Module to run instead, which takes the same flags.
    patience_s : float
        Seconds to wait.

    Raises
    ------
    OccupiedError
        When there is such a process already, listening or not.
    ClusterError
        When it cannot serve; with its error output.
    """
    command = [sys.executable, "-m", module, "--socket", str(path), "--topology", topology]
    with _locked(path) as lock, log_of(path).open("wb") as errors:
        path.unlink(missing_ok=True)  # no other process has it
        process = subprocess.Popen(
            [*command, "--lanes", str(lanes), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            pass_fds=(lock,),
            start_new_session=True,  # not affected by Ctrl-C and the death of an orchestrator
        )
        try:
            if _is_ready(process, time.monotonic() + patience_s):
                return process
        except BaseException:  # interrupted: no caller knows the process yet, so it is killed here
            process.kill()
            process.wait()
            path.unlink(missing_ok=True)
            _drop_if_empty(log_of(path))
            raise
        process.kill()
        process.wait()
        path.unlink(missing_ok=True)
    log = log_of(path).read_text("utf-8", "replace").strip().removeprefix("error: ")
    raise ClusterError(f"the network could not be started: {log or f'not ready within {patience_s:g} s'}")


def await_end(path: Path, patience_s: float = END_S) -> None:
    """Wait until a process that was told to end has ended; remove a killed process's log if it is empty.

    A network that was started at the socket meanwhile is left alone.
    """
    deadline = time.monotonic() + patience_s
    while log_of(path).exists() and time.monotonic() < deadline:
        try:
            with _locked(path):
                _drop_if_empty(log_of(path))
                return
        except OccupiedError:
            time.sleep(SEEN_S / 10)


def abandon(path: Path) -> None:
    """Remove this process's log if it is empty; called at its end, while it holds the lock.

    The process that told it to end may have ended too, or may not wait so long.
    """
    _drop_if_empty(log_of(path))


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Hold the lock of a socket, for this process and for processes that inherit the descriptor."""
    log = log_of(path)
    while True:
        try:
            lock = os.open(log, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ClusterError(f"{log}: {error.strerror}") from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OccupiedError(f"{path}: another network is there, or is being started") from None
            if _is_file(lock, log):
                yield lock
                return
        finally:
            os.close(lock)


def _is_file(descriptor: int, path: Path) -> bool:
    """Return whether an open file is still the one at the path; the last lock holder may have removed it."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def _drop_if_empty(log: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if not log.stat().st_size:
            log.unlink()


def _is_ready(process: subprocess.Popen[bytes], deadline: float) -> bool:
    if process.stdout is None:
        return False
    with process.stdout as output:
        ready: list[IO[bytes]] = []
        while not ready and time.monotonic() < deadline:
            ready = select.select([output], [], [], SEEN_S)[0]
        return bool(ready) and output.readline() == READY.encode()


# One end of a connection that never blocks, even if the other process stops in the middle of a message.


_CHUNK: Final = 1 << 16


class Peer:
    """A connection with its buffers of incomplete input and unsent output.

    Attributes
    ----------
    term : int or None
        Term of the orchestrator at the other end; None for a client that only reads.
    closed : bool
        The other end is gone, or does not speak the protocol.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection: Final = connection
        self.term: int | None = None
        self.closed = False
        self._in = bytearray()
        self._out = bytearray()

    def fileno(self) -> int:
        """Return the file descriptor, for selectors."""
        return self.connection.fileno()

    @property
    def sending(self) -> bool:
        """Whether output is pending; until it is sent nothing more is received."""
        return bool(self._out)

    @property
    def has_more(self) -> bool:
        """Whether a whole message is buffered, which no selector reports: a client did not wait for an answer."""
        return not self._out and remote.is_whole(self._in)

    def receive(self) -> dict[str, Any] | None:
        """Return a whole message, or None if there is none now."""
        try:
            message = remote.unpack(self._in, limit=LIMIT)
            if message is None:
                data = self.connection.recv(_CHUNK)
                self.closed = not data
                self._in += data
                message = remote.unpack(self._in, limit=LIMIT)
        except BlockingIOError:
            return None
        except (OSError, remote.FramingError):
            self.closed = True
            return None
        return message

    def send(self, message: Mapping[str, Any]) -> None:
        """Send as much of a message as the other end takes; :meth:`flush` continues. Raises ``ValueError``."""
        self._out += remote.pack(dict(message), limit=LIMIT)
        self.flush()

    def flush(self) -> None:
        """Send as much of the pending output as the other end takes."""
        try:
            while self._out:
                del self._out[: self.connection.send(self._out[:_CHUNK])]
        except BlockingIOError:
            return
        except OSError:
            self.closed = True
            self._out.clear()


SILENCE_S: Final = 3600.0
"""Seconds without an orchestrator after which the network ends."""

MOST_PEERS: Final = 64
"""Most connections at one time; beyond that the oldest that is not in charge is closed."""
ORDERS: Final = frozenset({"start", "swap", "replan", "keep_plans", "set_schedule", "stop", "advance"})
"""Requests that only the orchestrator in charge may make."""

STILL_S: Final = 60.0
"""Seconds between messages that time is still passing, or is held by a viewer."""

Request = dict[str, Any]
Pages = Callable[[World, Request], Any]
"""Answers 'page', the request of a viewer to look at a world."""


@dataclass(frozen=True)
class _Advance:
    """An ``advance`` request that has not been completed."""

    peer: Peer
    until_ps: int
    after: int | None


class Service:
    """Server of requests; :class:`~p4reduce.play.tasks.service.RemoteExecutor` is the other end.

    It never waits for one connection: an orchestrator that is stopped, in the middle of a message or with an answer
    that it does not receive, is displaced by the next term like any other.
    """

    def __init__(self, world: World, path: Path, *, silence_s: float = SILENCE_S, pages: Pages | None = None) -> None:
        """Listen at ``path``, which must not exist; raise ``ClusterError`` if that is not possible."""
        self._world = world
        self._pages = pages
        self._told_s = 0.0
        self._path = path
        self._silence_s = silence_s
        self._ended = False
        self._peers: list[Peer] = []
        self._advance: _Advance | None = None
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._answers: dict[str, Callable[[Request], Any]] = {
            "hello": self._hello,
            "now": lambda _: world.now(),
            "start": lambda request: world.start(self._given(TaskOrder, request, "order")),
            "swap": lambda request: world.swap(str(request["task"]), self._given(Plans, request, "plans")),
            "replan": lambda request: world.replan(
                self._given(TaskOrder, request, "order"), at_once=bool(request["at_once"])
            ),
            "keep_plans": lambda request: world.keep_plans(str(request["task"])),
            "set_schedule": lambda request: world.set_schedule(self._given(Timetable, request, "timetable")),
            "turn": lambda _: to_plain(world.turn()),
            "stop": lambda request: world.stop(str(request["task"])),
            "reports": lambda request: to_plain(world.reports(int(request["after"])), Reports),
            "running": lambda request: to_plain(world.running(request.get("names")), RunningTasks),
            "interface_bytes": lambda _: list(world.interface_bytes().items()),
            "host_bytes": lambda _: list(world.host_bytes().items()),
            "links_down": lambda _: sorted(world.links_down()),
            "change_link": self._change_link,
            "page": self._page,
            "end_host": lambda request: world.damage.end_host(str(request["host"]), at_ps=request.get("at_ps")),
            "end_process": lambda request: world.damage.end_process(
                str(request["host"]), task=str(request["task"]), at_ps=request.get("at_ps")
            ),
            "end": self._end,
        }
        try:
            before = os.umask(0o177)  # no other user can reach the socket
            try:
                self._listener.bind(str(path))
            finally:
                os.umask(before)
            self._listener.listen()
        except OSError as error:
            self._listener.close()
            raise ClusterError(f"{path}: cannot listen there: {error.strerror or error}") from None

    def serve(self) -> None:
        """Serve until a client sends 'end', or until no request has come for ``silence_s`` seconds."""
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        try:
            while not self._ended:
                idle = self._advance is None and not any(peer.has_more for peer in self._peers)
                events = self._selector.select(self._silence_s if idle else 0)
                if idle and not events:
                    return
                if any(key.fileobj is self._listener for key, _ in events):
                    self._accept()
                for peer in list(self._peers):
                    self._talk(peer)
                if self._advance is not None and not self._ended:
                    self._go_on(self._advance)
        finally:
            self.close()

    def close(self) -> None:
        """Remove the socket and close all connections."""
        for peer in self._peers:
            peer.connection.close()
        self._selector.close()
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if len(self._peers) >= MOST_PEERS:
            self._drop(next(peer for peer in self._peers if peer.term is None or peer.term < self._world.term))
        peer = Peer(connection)
        self._peers.append(peer)
        self._selector.register(peer, selectors.EVENT_READ)

    def _drop(self, peer: Peer) -> None:
        """Drop a closed connection; cancel an ``advance`` that only this orchestrator requested."""
        if self._advance is not None and self._advance.peer is peer:
            self._advance = None
        self._peers.remove(peer)
        self._selector.unregister(peer)
        peer.connection.close()

    def _talk(self, peer: Peer) -> None:
        """Take one request of a peer that has its last answer."""
        peer.flush()
        if not peer.sending and not self._ended and (request := peer.receive()) is not None:
            if self._advance is not None and self._advance.peer is peer and request.get("do") != "end":
                peer.closed = True  # a second request before the answer: not one of our clients
            elif (answer := self._answer(peer, request)) is not None:
                self._send(peer, answer)
        if peer.closed:
            self._drop(peer)
        else:
            self._selector.modify(peer, selectors.EVENT_WRITE if peer.sending else selectors.EVENT_READ)

    @staticmethod
    def _send(peer: Peer, answer: Request) -> None:
        try:
            peer.send(answer)
        except ValueError as error:
            peer.send({"error": one_line(error)})

    def _answer(self, peer: Peer, request: Request) -> Request | None:
        """Return the answer to any request; None if it comes later."""
        what = one_line(request.get("do"), 60)
        try:
            if what in ORDERS or (what == "end" and peer.term is not None):
                self._check_charge(peer)
            if what == "take_charge":
                self._take_charge(peer, int(request["term"]), str(request["database"]))
                return {"answer": None}
            if what == "advance":
                after = request["after"]
                self._told_s = time.monotonic()
                self._advance = _Advance(peer, int(request["until_ps"]), None if after is None else int(after))
                return None
            handler = self._answers.get(what)
            return {"error": f"unknown request {what!r}"} if handler is None else {"answer": handler(request)}
        except TaskRefusedError as error:
            return {"error": str(error), "refused": True}
        except Exception as error:  # no request may end the network
            return {"error": f"{what}: {type(error).__name__}: {one_line(error)}"}

    def _given(self, kind: Any, request: Request, name: str) -> Any:
        """Return a record from a request."""
        return from_plain(kind, request[name], name, topology=self._world.topology)

    def _check_charge(self, peer: Peer) -> None:
        if peer.term is None:
            raise ClusterError("orders need a term; take charge first")
        if peer.term < self._world.term:
            raise ClusterError(_taken_over(self._world.term, peer.term))

    def _take_charge(self, peer: Peer, term: int, database: str) -> None:
        if any(other is not peer and other.term == term for other in self._peers):
            raise ClusterError(f"an orchestrator of term {term} is in charge already")
        self._world.take_charge(term, database)
        peer.term = term
        if self._advance is not None:
            waiting, self._advance = self._advance.peer, None
            self._send(waiting, {"error": _taken_over(term, waiting.term)})

    def _go_on(self, advance: _Advance) -> None:
        """Let time pass until the request is complete, or until another client sends a request."""
        answer: Request
        try:
            if time.monotonic() - self._told_s > STILL_S:
                self._told_s = time.monotonic()
                self._send(advance.peer, {"still": True})
            now = self._world.advance(advance.until_ps, after=advance.after, unless=self._is_wanted)
            answer = {"answer": now}
            if now < advance.until_ps and (advance.after is None or self._world.news <= advance.after):
                return
        except Exception as error:
            answer = {"error": f"advance: {type(error).__name__}: {one_line(error)}"}
        self._advance = None
        self._send(advance.peer, answer)

    def _is_wanted(self) -> bool:
        return bool(self._selector.select(0)) or time.monotonic() - self._told_s > STILL_S

    def _hello(self, request: Request) -> Request:
        if request.get("version") != VERSION:
            raise ClusterError(f"version {request.get('version')!r} of the messages, not {VERSION}")
        targets = self._world.switches.targets()
        return {
            "instance": self._world.instance,
            "topology": describe(self._world.topology),
            "program": self._world.program.sha256,
            "time": self._world.time,
            "background": "" if self._world.background is None else str(self._world.background),
            "targets": [(target.name, target.address, target.device_id) for target in targets],
        }

    def _change_link(self, request: Request) -> None:
        self._world.change_link(
            str(request["a"]), str(request["b"]), up=bool(request["up"]), at_ps=request.get("at_ps")
        )

    def _page(self, request: Request) -> Any:
        if self._pages is None:
            raise ClusterError("this network was started without a page; 'p4reduce orchestrate' starts one with it")
        return self._pages(self._world, request)

    def _end(self, _: Request) -> None:
        self._ended = True


def _taken_over(term: int, from_term: int | None) -> str:
    return f"an orchestrator of term {term} has taken over from that of term {from_term}"
