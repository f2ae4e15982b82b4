"""``p4reduce launch``: a coordinator that owns the network, and a process for each rank of a user's script."""

import contextlib
import os
import queue
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Protocol

from p4reduce import __version__
from p4reduce.base.errors import RealError
from p4reduce.base.output import Output, time_text
from p4reduce.base.records import to_json, to_plain
from p4reduce.base.signals import SEEN_S, handling, raise_exit
from p4reduce.group import remote, transport
from p4reduce.group.backend import Group, Joined, Served, Tallied
from p4reduce.group.errors import ClusterError
from p4reduce.group.remote import Lost, Membership, Seats, free_ports
from p4reduce.group.transport import Ticket
from p4reduce.network.real.net.state import RunFolder, guarded, remove_stale

if TYPE_CHECKING:
    from p4reduce.runs.jobs import TransferTime
    from p4reduce.runs.machines import Agents

# The coordinator's socket: processes of a group connect to it, and a thread serves each.


FEWEST_UNKNOWN: Final = 64
_MAX_SOCKET_PATH: Final = 107
"""bytes for a path in ``sockaddr_un`` (unix(7)), without the terminating zero"""


class Listener:
    """Serves the processes that connect to ``address``; must be closed.

    Callbacks, which threads of this object call: ``failed`` for a process that violates the protocol; ``lost``, with
    the reason, for a process whose connection ended before it left, violations included; ``left`` for a process that
    has left and has its answer, whose connection is not waited for any more. A process that does not first say the word
    ``start`` is refused.

    With ``at``, hosts of this machine or ``tls://HOST:PORT``, it also serves processes from other machines that show
    the group's key (``ticket``). A connection without the key is ended and counted. So is one that has not said hello
    in time, and the oldest of those if there are too many: a rank tries again.
    """

    def __init__(
        self,
        folder: Path,
        seats: Seats,
        *,
        failed: Callable[[ClusterError], None],
        lost: Callable[[Served, str], None],
        left: Callable[[Served], None] = lambda _: None,
        start: str = "",
        at: Sequence[str] = (),
        size: int = 0,
        server: bool = False,
        pem: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Listen in ``folder``, which no other user may enter. Raises ``ClusterError`` if its path is too long.

        size: workers of the group; twice as many connections, at least `FEWEST_UNKNOWN`, may be about to say hello.
        server: whether a parameter server belongs to the group. pem: the group's key, instead of a new one.
        """
        self.address: Final = str(folder / "socket")
        self._seats = seats
        self._failed = failed
        self._lost = lost
        self._left = left
        self._start_word = start
        self._clock = clock
        self._most_unknown = max(FEWEST_UNKNOWN, 2 * size)
        self._unknown: dict[socket.socket, float] = {}
        """TLS connections that have not said hello, oldest first, with their deadlines"""
        self._serving: dict[socket.socket, threading.Thread] = {}
        self._lock = threading.Lock()
        self.strangers = 0
        """connections that ended before they said hello"""
        if len(os.fsencode(self.address)) > _MAX_SOCKET_PATH:
            raise ClusterError(f"{folder}: too long a path for a socket; set TMPDIR to a shorter one, e.g. /tmp")
        pem = pem or (transport.make_key() if at else "")
        self._tls = transport.context(pem, server=True) if at else None
        self._listeners = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)]
        self._wake, self._wake_acceptor = socket.socketpair()
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        try:
            self._listeners[0].bind(self.address)
            self._listeners[0].listen(socket.SOMAXCONN)
            for place in at:
                self._listeners.append(transport.listen(*(transport.parts(place) if "//" in place else (place, 0))))
            urls = [transport.url_of(*listener.getsockname()[:2]) for listener in self._listeners[1:]]
            self.ticket: Final = Ticket(tuple(urls), size, start, __version__, pem, server)
            self._acceptor.start()
        except BaseException:
            self.close(0.0)
            raise

    def close(self, patience_s: float) -> None:
        """End all connections; wait up to ``patience_s`` for each thread to end."""
        self._wake_acceptor.close()
        if self._acceptor.ident is not None:
            self._acceptor.join(patience_s)
        with self._lock:
            serving = dict(self._serving)
        for connection in serving:
            transport.end(connection)
        for thread in serving.values():
            thread.join(patience_s)
        for end in (*self._listeners, self._wake):
            end.close()

    def _accept(self) -> None:
        while True:
            ready, _, _ = select.select([*self._listeners, self._wake], [], [], self._drop_late())
            if self._wake in ready:
                return
            for listener in ready:
                try:
                    self._admit(listener.accept()[0], private=listener is self._listeners[0])
                except OSError:  # closed already, or sent data before TLS began; or too many open files
                    self._drop_late(spare=False)

    def _admit(self, connection: socket.socket, *, private: bool) -> None:
        if not private and self._tls is not None:
            transport.KEEPALIVE.apply(connection)
            connection.settimeout(transport.HANDSHAKE_S)
            self.strangers += 1  # until it has said hello
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
        with self._lock:
            self._serving[connection] = thread
            if isinstance(connection, ssl.SSLSocket):
                self._unknown[connection] = self._clock() + transport.HANDSHAKE_S
        self._drop_late()
        thread.start()

    def _drop_late(self, *, spare: bool = True) -> float | None:
        """End late or surplus connections, and unless ``spare`` the oldest; return seconds to the next deadline."""
        with self._lock:
            while self._unknown:
                oldest, until = next(iter(self._unknown.items()))
                left_s = until - self._clock()
                if spare and left_s > 0 and len(self._unknown) <= self._most_unknown:
                    return left_s
                spare = True
                del self._unknown[oldest]
                transport.end(oldest)
        return None

    def _know(self, connection: socket.socket) -> None:
        """Note that a connection has shown the key and sent a message. Raises ``OSError`` if it was given up before."""
        with self._lock:
            if self._unknown.pop(connection, None) is None:
                raise ConnectionAbortedError
            self.strangers -= 1
        connection.settimeout(None)

    def _serve(self, connection: socket.socket) -> None:
        taken: list[Served] = []

        def seats(rank: int, group: remote.Membership | None) -> Served:
            taken.append(self._seats(rank, group))
            return taken[-1]

        try:
            if isinstance(connection, ssl.SSLSocket):
                connection.do_handshake()
                gone = remote.serve(connection, seats, self._start_word, known=lambda: self._know(connection))
            else:
                gone = remote.serve(connection, seats, self._start_word)
        except OSError:  # of a handshake
            gone = None
        except ClusterError as error:
            self._failed(error)
            gone = Lost(taken[0]) if taken else None
        finally:
            connection.close()
            with self._lock:
                del self._serving[connection]
                self._unknown.pop(connection, None)
        if gone is not None:
            self._lost(gone.seat, gone.why)
        elif taken:
            self._left(taken[0])


# A rank's process: started in its own session, read line by line, ended with all that it started.


MAX_LINE: Final = 64 * 1024
"""bytes; a longer line is shown in pieces"""
KEPT_LINES: Final = 20
"""lines of standard error, for the report of a failure"""
OUTPUT_TIMEOUT_S: Final = 2.0
"""seconds to read what a process wrote before it ended; used up only if a child outside its session holds the pipe"""

Emit = Callable[[int, str, str], None]
"""``emit(rank, stream, line)`` with stream 'stdout' or 'stderr'; called from several threads."""


class RankProcess:
    """The process of one rank. ``ended(rank, exit code)`` is called once, from another thread."""

    def __init__(
        self,
        rank: int,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        emit: Emit,
        ended: Callable[[int, int], None],
        asks: bool = False,
    ) -> None:
        """Start the process. ``asks``: whether it is sent lines."""
        self.rank = rank
        self.last_lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._emit = emit
        self._ended = ended
        self._reaping = threading.Lock()
        try:
            self._process = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.PIPE if asks else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # so that a rank's children end with it, and Ctrl-C reaches only this process
            )
        except OSError as error:
            raise ClusterError(f"cannot start {command[0]!r}: {error.strerror}") from error
        assert self._process.stdout is not None  # noqa: S101  (for the type checker: both are pipes)
        assert self._process.stderr is not None  # noqa: S101
        self._threads = [
            threading.Thread(target=self._read, args=(self._process.stdout, "stdout"), daemon=True),
            threading.Thread(target=self._read, args=(self._process.stderr, "stderr"), daemon=True),
        ]
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        for thread in (*self._threads, self._waiter):
            thread.start()

    @property
    def pid(self) -> int:
        """Return the process ID."""
        return self._process.pid

    def send(self, line: str) -> None:
        """Send a line to a process that was started with ``asks``; do nothing if it is gone."""
        assert self._process.stdin is not None  # noqa: S101
        with contextlib.suppress(OSError):
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def terminate(self) -> None:
        """Ask the process, and what it started, to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the process and what it started."""
        self._signal(signal.SIGKILL)

    def join(self, timeout: float) -> bool:
        """Wait until it has ended and its output is read; return False after ``timeout`` seconds."""
        self._waiter.join(timeout)
        return not self._waiter.is_alive()

    def _signal(self, number: signal.Signals) -> None:
        with self._reaping, contextlib.suppress(ProcessLookupError):
            if self._process.returncode is None:
                os.killpg(self._process.pid, number)

    def _wait(self) -> None:
        # Until it is reaped, its process group cannot be reused, so killing its remaining children is safe.
        os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        self.kill()
        with self._reaping:
            code = self._process.wait()
        for thread in self._threads:
            thread.join(OUTPUT_TIMEOUT_S)
        self._ended(self.rank, code)

    def _read(self, pipe: IO[bytes], stream: str) -> None:
        with pipe:
            while line := pipe.readline(MAX_LINE):
                text = line.decode(errors="replace").rstrip("\r\n")
                if stream == "stderr":
                    self.last_lines.append(text)
                self._emit(self.rank, stream, text)


class Ends(Protocol):
    """A rank's process, here or on another machine."""

    last_lines: deque[str]

    def terminate(self) -> None:
        """Ask the process, and what it started, to end."""

    def kill(self) -> None:
        """Kill the process and what it started."""

    def join(self, timeout: float) -> bool:
        """Wait until it has ended; return False after ``timeout`` seconds."""


def end_all(ranks: Iterable[Ends], grace_s: float) -> None:
    """Ask ranks to end; kill those that have not ended after ``grace_s`` seconds."""
    every = list(ranks)
    for rank in every:
        rank.terminate()
    deadline = time.monotonic() + grace_s
    for rank in every:
        if not rank.join(max(0.0, deadline - time.monotonic())):
            rank.kill()
    for rank in every:
        rank.join(grace_s)


def how_ended(code: int) -> str:
    """Return a text for an exit code (-n for signal n)."""
    if code > 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


GRACE_S: Final = 3.0
"""seconds between asking a process to end and killing it"""
DEFAULT_TIMEOUT_S: Final = 24 * 3600.0
NOTHING: Final[Mapping[str, str]] = {}


Names = dict[str, str]
"""environment variables with their values"""


@dataclass(frozen=True)
class Launched:
    """The end of all ranks: exit code, and the rank that failed."""

    exit_code: int
    """0, or that of the first rank that failed (128 + n for signal n)."""
    failure: str | None
    """Which rank failed, and how; None if none ended the launch."""
    last_lines: tuple[str, ...] = ()
    """last lines of the failed rank's standard error"""
    failed: int | None = None
    """first rank that failed, or None"""
    connected: int = 0
    """Number of ranks that joined the group."""
    survived: tuple[str, ...] = ()
    """Ranks that failed while the others went on, and how."""
    strangers: int = 0
    """Number of connections from other machines that belonged to no rank."""


@dataclass(frozen=True)
class Joining:
    """Workers that may join a launch."""

    places: int
    """number of ranks that may join"""
    when: Callable[[Joined], None]
    """Registers a function, which is called when some have joined."""


@dataclass(frozen=True)
class Elsewhere:
    """Ranks on other machines, started by ``agents``, or by others that have the file ``ticket`` (`p4reduce join`).

    listen: addresses of this machine for their connections; empty: those by which agents reach it. environment: further
    variables of agents' ranks.
    """

    agents: "Agents | None" = None
    ticket: Path | None = None
    listen: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Joined:
    ranks: tuple[int, ...]
    view: int
    members: tuple[int, ...]


def script_command(command: Sequence[str]) -> list[str]:
    """Return the command, run by this Python if it is a ``.py`` file. Raises ``ClusterError`` if that is missing."""
    if command and command[0].endswith(".py"):
        if not Path(command[0]).is_file():
            raise ClusterError(f"{command[0]}: there is no such file")
        return [sys.executable, *command]
    return list(command)


def launch(
    command: Sequence[str],
    group: Group,
    *,
    workers: int,
    server: bool,
    emit: Emit,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    extra: Mapping[str, str] = NOTHING,
    joining: Joining | None = None,
    elsewhere: Elsewhere | None = None,
) -> Launched:
    """Run ``command`` once for each worker and, with ``server``, once for the parameter server (the last rank).

    ``emit(rank, stream, line)`` gets the ranks' output. If a rank fails without which the others cannot go on
    (``Group.die``), or at Ctrl-C, all ranks and the group are ended; processes, socket and directory are gone when this
    returns or raises. ``extra``: variables of their environment. ``joining``: how many workers may join, each started
    when it joins, and the source of that news. ``elsewhere``: ranks are on other machines; without agents, others start
    them. Raises ``ClusterError`` if the command cannot be started, ``timeout_s`` ran out, or the group failed although
    all ranks ended well; ``KeyboardInterrupt``, and ``SystemExit`` at SIGTERM or SIGHUP.
    """
    remove_stale()  # remains of a killed launch
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(handling(raise_exit, signal.SIGTERM, signal.SIGHUP))
            if elsewhere is not None:
                stack.enter_context(guarded())
            folder = stack.enter_context(RunFolder(kind="launch"))
            places = workers + (0 if joining is None else joining.places)
            coordinator = _Coordinator(group, folder, extra, places, emit, elsewhere, server=server)
            try:
                if joining is not None:
                    joining.when(coordinator.note_joined)
                return coordinator.run(command, workers, server=server, timeout_s=timeout_s)
            finally:
                with handling(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                    coordinator.close()
    except RealError as error:
        raise ClusterError(str(error)) from error


class _Coordinator:
    """Owns the socket, the processes and the threads of one launch."""

    def __init__(
        self,
        group: Group,
        folder: RunFolder,
        extra: Mapping[str, str],
        places: int,
        emit: Emit,
        elsewhere: Elsewhere | None,
        *,
        server: bool,
    ) -> None:
        self._group = group
        self._extra = extra
        self._places = places
        self._emit = emit
        self._elsewhere = elsewhere
        self._agents = None if elsewhere is None else elsewhere.agents
        self._events: queue.Queue[tuple[int, int, str] | _Joined | ClusterError] = queue.Queue()
        self._processes: dict[int, Ends] = {}
        self._taken: set[int] = set()
        self._lock = threading.Lock()
        self._run = folder
        self._seats: dict[Served, int] = {}
        """seats of the whole group, with their ranks"""
        # Other users cannot reach the socket. The exit code of a process says how it ended, so ``lost`` is only needed
        # if others have started it.
        alone = elsewhere is not None and elsewhere.agents is None
        self._listener = Listener(
            folder.aside(),
            self._seat,
            failed=self._events.put,
            lost=lambda seat, why: self._note_seat(seat, 1, why) if alone else None,
            left=lambda seat: self._note_seat(seat, 0, "") if alone else None,
            start=folder.mark if elsewhere is not None else "",
            at=self._addresses(),
            size=places,
            server=server,
        )

    def _addresses(self) -> list[str]:
        """Return the addresses at which it listens for other machines."""
        if self._elsewhere is None:
            return []
        if self._elsewhere.listen or self._agents is None:
            return list(self._elsewhere.listen)
        return sorted({self._agents.address(agent) for agent in self._agents.every})

    def _note_seat(self, seat: Served, code: int, why: str) -> None:
        """Note that a rank that another program started has left or is lost."""
        if (rank := self._seats.get(seat)) is not None:
            self._events.put((rank, code, why))

    def run(self, command: Sequence[str], workers: int, *, server: bool, timeout_s: float) -> Launched:
        """Start the ranks and wait for them."""
        ranks = [*range(workers), *([self._places] if server else [])]
        for rank in ranks:
            self._group.backend(rank)  # raises for a rank outside the group
        torch = self._torch_environments(workers)
        if self._agents is not None:
            for agent in self._agents.every:
                agent.ask("ticket", ticket=to_plain(self._listener.ticket.nearest(self._agents.address(agent))))
        elif self._elsewhere is not None and self._elsewhere.ticket is not None:
            self._run.note_secret(self._elsewhere.ticket)
            self._listener.ticket.write(self._elsewhere.ticket)
        for rank in ranks:
            alone = torch[rank] if rank < workers else {}
            if self._places > workers:
                alone[remote.MEMBERS] = to_json(remote.GroupMembers(0, tuple(range(workers))))
            self._begin(command, rank, alone)
        deadline = time.monotonic() + timeout_s
        left = {*ranks}
        first: Launched | None = None
        survived: list[str] = []
        while left:
            try:
                event = self._events.get(timeout=SEEN_S)
            except queue.Empty:
                if time.monotonic() < deadline:
                    continue
                names = ", ".join(map(str, sorted(left)))
                late = f"the run took longer than {timeout_s:g} s; still running: rank {names}"
                raise ClusterError("; ".join(filter(None, (late, self._group.waiting())))) from None
            if isinstance(event, ClusterError):
                raise event
            if isinstance(event, _Joined):
                for rank in event.ranks:
                    self._begin(
                        command, rank, {remote.MEMBERS: to_json(remote.GroupMembers(event.view, tuple(event.members)))}
                    )
                left |= {*event.ranks}
                ranks += event.ranks
                continue
            rank, code, why = event
            if rank not in left:
                continue
            if code != 0:
                failed = self._failed(rank, code, why)
                first = first or failed
                if len(left) == 1 and len(survived) == len(ranks) - 1:
                    return first  # all have failed
                if not self._group.die(rank, why or f"ended with {how_ended(code)}"):
                    return failed
                survived.append(str(failed.failure))
            else:
                self._group.backend(rank).close()
            left.remove(rank)
        if self._group.failure is not None:  # even if the ranks ignored it
            raise self._group.failure
        strangers = self._listener.strangers
        return Launched(0, None, connected=len(self._taken), survived=tuple(survived), strangers=strangers)

    def _begin(self, command: Sequence[str], rank: int, alone: Names) -> None:
        """Start a rank; ``alone``: variables for this rank only."""
        if self._elsewhere is not None:
            if self._agents is not None:
                ours = rank_environment({}, "", rank, self._places)
                del ours[remote.ADDRESS]  # the agent has a ticket
                given = {**ours, **self._elsewhere.environment, **alone, **self._extra}
                self._processes[rank] = self._agents.start(rank, command, given, self._note_end)
            return
        environment = {
            **rank_environment(os.environ, self._listener.address, rank, self._places),
            **alone,
            **self._extra,
            **self._run.environment,
        }
        argv = script_command(command)
        self._processes[rank] = RankProcess(rank, argv, environment, emit=self._emit, ended=self._note_end)

    def _torch_environments(self, workers: int) -> list[Names]:
        """Return each worker's environment for PyTorch: the address of rank 0's store, and its place on its machine."""
        if self._agents is None:
            (port,) = free_ports(1)
            return [torch_environment(rank, workers, port) for rank in range(workers)]
        return self._agents.torch_environments([self._agents.of(rank) for rank in range(workers)])

    def note_joined(self, ranks: tuple[int, ...], view: int, members: tuple[int, ...]) -> None:
        """Note that workers have joined, so that their processes are started. May be called from any thread."""
        self._events.put(_Joined(ranks, view, members))

    def close(self) -> None:
        """End and remove everything; calls that still wait in the group get an error."""
        end_all(self._processes.values(), GRACE_S)
        self._group.fail(ClusterError("the launch has ended"))
        self._listener.close(GRACE_S)

    def _seat(self, rank: int, group: Membership | None) -> Served:
        if group is not None:
            return self._group.backend(rank).group(*group)
        with self._lock:
            if rank in self._taken:
                raise ClusterError(f"rank {rank} is connected already; call connect() once in each process")
            backend = self._group.backend(rank)
            self._taken.add(rank)
            self._seats[backend] = rank
            return backend

    def _note_end(self, rank: int, code: int, why: str = "") -> None:
        self._events.put((rank, code, why))

    def _failed(self, rank: int, code: int, why: str) -> Launched:
        lines = tuple(self._processes[rank].last_lines) if rank in self._processes else ()
        ended = why or f"ended with {how_ended(code)}{'' if lines else '; it wrote nothing to standard error'}"
        failure = f"rank {rank} {ended}"
        return Launched(code if code > 0 else 128 - code, failure, lines, rank, len(self._taken))


def table_of_calls(tallied: Iterable[Tallied], moved: Iterable["TransferTime"], output: Output) -> None:
    """Print the calls of ranks with their carriers, then the times of other libraries' transfers (``moved``).

    Empty tables are left out.
    """
    rows = [[row.collective, row.kind, row.by, f"{row.calls:,}", f"{row.octets:,}"] for row in tallied]
    if rows:
        output.table(["call", "type", "carried by", "calls", "bytes"], rows, title="Calls of all ranks")
    by_name: dict[str, list[TransferTime]] = {}
    for move in moved:
        by_name.setdefault(move.name, []).append(move)
    rows = [
        [
            name,
            f"{len(own):,}",
            f"{sum(move.octets for move in own):,}",
            time_text(sum(move.done_ps - move.start_ps for move in own) / len(own)),
            time_text(sum(move.bound_ps for move in own) / len(own)),
        ]
        for name, own in sorted(by_name.items())
    ]
    if rows:
        head = ["call", "times", "bytes on links", "mean time", "of its busiest link"]
        output.table(head, rows, title="gloo's flows, from the last rank's call to the last result")


def rank_environment(base: Mapping[str, str], address: str, rank: int, workers: int) -> dict[str, str]:
    """Return the environment of one rank: how to reach the coordinator, and one BLAS thread for each process."""
    threads = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS") if name not in base}
    ours = {remote.ADDRESS: address, remote.RANK: str(rank), remote.SIZE: str(workers)}
    return {**base, "PYTHONUNBUFFERED": "1", **threads, **ours}


def torch_environment(rank: int, workers: int, port: int, address: str = "127.0.0.1", interface: str = "lo") -> Names:
    """Return the variables that ``torch.distributed`` reads by default: rank 0's store, and gloo's interface."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(workers),
        "LOCAL_WORLD_SIZE": str(workers),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": interface,
    }
