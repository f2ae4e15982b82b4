"""Ranks on other machines: ssh starts one agent on each, which starts ranks there and ends them with its launcher.

The launcher and an agent (``python -m p4reduce.runs.agent``) exchange lines of JSON over the agent's standard input and
output, which ssh carries: requests (``do``) one way, news the other. Each says something every `BEAT_S`; who hears
nothing for `SILENT_S` takes the other for gone. An agent whose input ends, ends its ranks; whatever is left after a
kill -9 of the agent, a guardian of the agent's ends (`guarded`).
"""

import contextlib
import hashlib
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Self

from p4reduce import __version__
from p4reduce.base.records import RecordError, from_plain, to_plain
from p4reduce.base.signals import handling, raise_exit
from p4reduce.group.errors import ClusterError
from p4reduce.group.remote import free_ports
from p4reduce.group.transport import TICKET, Ticket, interface_of, source_towards
from p4reduce.network.real.net import why_not
from p4reduce.network.real.net.state import RunFolder, guarded, remove_stale
from p4reduce.runs.launch import GRACE_S, KEPT_LINES, Emit, RankProcess, end_all, script_command

BEAT_S: Final = 2.0
SILENT_S: Final = 20.0
END_S: Final = 2.0
"""Between asking ranks to end and ending them, where the launcher is gone."""
BEGIN_S: Final = 60.0
"""for an agent to start and say what its machine has"""
REACH_S: Final = 3.0
"""for one machine to connect to another"""
MOST_LINE: Final = 1 << 20
"""bytes of a message"""
SSH: Final = ("ssh", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
ANSWERS: Final = {"here", "clock", "port", "reached"}
INTERFACE: Final = "GLOO_SOCKET_IFNAME"


@dataclass(frozen=True)
class Here:
    """An agent's report on its machine."""

    version: str
    """of p4reduce"""
    seen: str
    """address from which the launcher came; "" where ssh does not say"""
    own: str
    """address at which it came in; "" likewise"""
    name: str
    named: str
    """the address that the machine's own name has there; "" where it has none"""
    mtu: int
    """bytes, of the interface with ``own``; 0 where that is not known"""
    port: int
    """TCP, free on the loopback interface"""
    digest: str
    """SHA-256 of the script there; "" where there is none"""
    fault: str
    """why no rank can start there, as far as it sees"""
    no_namespaces: str
    """why it has no network namespaces, where that was asked"""


# On the machine: the agent.


def main() -> int:
    """Obey the launcher until its end of the input is closed, or it says nothing any more."""
    remove_stale()
    with handling(raise_exit, signal.SIGTERM, signal.SIGHUP), RunFolder(kind="agent") as folder, guarded():
        _Here(folder).serve()
    return 0


class _Here:
    """Ranks of this machine, and their launcher."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._ranks: dict[int, RankProcess] = {}
        self._ticket = folder.aside() / "ticket.json"
        self._writing = threading.Lock()
        self._probes: list[socket.socket] = []

    def serve(self) -> None:
        """Serve until the launcher is gone; then end all ranks."""
        threading.Thread(target=self._beat, daemon=True).start()
        try:
            for request in _lines(sys.stdin.fileno()):
                self._perform(request.pop("do", None), request)
        except (ClusterError, RecordError, KeyError, OSError) as error:
            self._say(failed=str(error))
        finally:
            with handling(signal.SIG_IGN, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                end_all(list(self._ranks.values()), END_S)

    def _perform(self, what: object, request: dict[str, Any]) -> None:
        if what == "begin":
            self._say(here=to_plain(here(request["folder"], request["script"], namespaces=request["namespaces"])))
        elif what == "ticket":
            from_plain(Ticket, request["ticket"], "ticket").write(self._ticket)
        elif what == "start":
            self._start(request["rank"], request["command"], request["environment"])
        elif what == "signal" and request["rank"] in self._ranks:
            rank = self._ranks[request["rank"]]
            (rank.kill if request["kill"] else rank.terminate)()
        elif what == "clock":
            self._say(clock=time.time())
        elif what == "listen":
            self._probes.append(socket.create_server((request["host"], 0)))
            self._say(port=self._probes[-1].getsockname()[1])
        elif what == "reach":
            self._say(reached=[_reaches(host, port) for host, port in request["addresses"]])

    def _start(self, rank: int, command: Sequence[str], given: Mapping[str, str]) -> None:
        towards = source_towards(given.get("MASTER_ADDR", ""))
        interface = interface_of(towards) if towards else None
        gloo = {INTERFACE: interface[0]} if interface else {}
        own = {**os.environ, **gloo, **given, TICKET: str(self._ticket), **self._folder.environment}
        self._ranks[rank] = RankProcess(
            rank,
            script_command(command),
            own,
            emit=lambda rank, stream, line: self._say(line=[rank, stream, line]),
            ended=lambda rank, code: self._say(ended=[rank, code]),
        )

    def _beat(self) -> None:
        while True:
            self._say()
            time.sleep(BEAT_S)

    def _say(self, **news: Any) -> None:
        data = json.dumps(news).encode() + b"\n"
        with self._writing, contextlib.suppress(OSError):  # the launcher is gone, as the input says
            while data:
                data = data[os.write(sys.stdout.fileno(), data) :]


def here(folder: str, script: str | None, *, namespaces: bool = False) -> Here:
    """Report what this machine has; change to the launcher's folder and look for its script, if they are there."""
    digest, fault = "", ""
    try:
        os.chdir(folder)
        if script is not None:
            digest = digest_of(script)
    except OSError as error:
        fault = f"{error.filename}: {error.strerror}; the launcher's folder must be there"
    seen, _, own, _ = (os.environ.get("SSH_CONNECTION", "").split() + [""] * 4)[:4]
    name, named = socket.gethostname(), ""
    with contextlib.suppress(OSError):
        named = socket.gethostbyname(name)
    _, mtu = interface_of(own) or ("", 0)
    without = (why_not() or "") if namespaces else ""
    (port,) = free_ports(1)
    return Here(__version__, seen, own, name, named, mtu, port, digest, fault, without)


def digest_of(script: str) -> str:
    """SHA-256 of a file, hexadecimal."""
    return hashlib.sha256(Path(script).read_bytes()).hexdigest()


def _reaches(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), REACH_S).close()
    except OSError:
        return False
    return True


def _lines(descriptor: int) -> Iterator[dict[str, Any]]:
    """Messages until the end, or until none has come for `SILENT_S`; ``ClusterError`` for what is none."""
    buffer = bytearray()
    silent_s = BEGIN_S
    while select.select([descriptor], [], [], silent_s)[0]:
        silent_s, piece = SILENT_S, os.read(descriptor, 1 << 16)
        if not piece:
            return
        buffer += piece
        *whole, rest = buffer.split(b"\n")
        buffer = bytearray(rest)
        for line in whole:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if not isinstance(message, dict):
                raise ClusterError(f"it said {bytes(line[:60])!r}, which is no message of p4reduce")
            yield message
        if len(buffer) > MOST_LINE:
            raise ClusterError(f"a message of more than {MOST_LINE} bytes")


# At the launcher: agents, and ranks that they started.


@dataclass(frozen=True)
class Machine:
    """A machine of ``--hosts`` or ``--hostfile``. slots: ranks there; None: as many as on the others."""

    name: str
    slots: int | None = None


def ssh_of(words: str) -> list[str]:
    """The command that runs another one on a machine: ssh with flags by which it never asks and sees a dead network."""
    return [*SSH] if words == SSH[0] else shlex.split(words)


def spread(machines: Sequence[Machine], ranks: int) -> list[int]:
    """Which machine each rank is on: as many in a row as it has slots. ``ClusterError`` where they do not fit."""
    open_ = [one for one in machines if one.slots is None]
    left = ranks - sum(one.slots or 0 for one in machines)
    if left > 0 and not open_:
        raise ClusterError(f"-n: {ranks} ranks, but the machines have {ranks - left} slots; add machines or slots")
    shares = iter([max(left, 0) // len(open_) + (n < max(left, 0) % len(open_)) for n in range(len(open_))])
    slots = [next(shares) if one.slots is None else one.slots for one in machines]
    return [number for number, count in enumerate(slots) for _ in range(count)][:ranks]


class _RemoteRank:
    """A rank that an agent started on its machine, with the interface of `RankProcess`."""

    def __init__(self, rank: int, agent: "Agent", ended: Callable[[int, int, str], None]) -> None:
        self.rank = rank
        self.last_lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._agent, self._ended, self._over = agent, ended, threading.Event()

    def terminate(self) -> None:
        """Ask the process, and what it started, to end."""
        self._agent.ask("signal", rank=self.rank, kill=False)

    def kill(self) -> None:
        """End the process and what it started."""
        self._agent.ask("signal", rank=self.rank, kill=True)

    def join(self, timeout: float) -> bool:
        """Wait until it has ended; False when ``timeout`` seconds were not enough."""
        return self._over.wait(timeout)

    def end(self, code: int, why: str = "") -> None:
        """Note that the rank has ended."""
        if not self._over.is_set():
            self._over.set()
            self._ended(self.rank, code, why)


class Agent:
    """The launcher's end of an agent."""

    def __init__(self, machine: Machine, ssh: Sequence[str], emit: Emit) -> None:
        self.machine = machine
        self.here: Here | None = None
        self.offset_s = 0.0
        """by which its clock is ahead of ours at least"""
        self.gone = ""
        """why it is"""
        self._emit = emit
        self._ranks: dict[int, _RemoteRank] = {}
        self._answers: dict[str, Any] = {}
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._last_lines: deque[str] = deque(maxlen=KEPT_LINES)
        try:
            self._process = subprocess.Popen(
                [*ssh, machine.name, shlex.join(["exec", sys.executable, "-m", "p4reduce.runs.agent"])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C reaches the launcher alone, which tells the agent
            )
        except OSError as error:
            raise ClusterError(f"cannot start {ssh[0]!r}: {error.strerror}") from None
        assert self._process.stdout is not None  # noqa: S101  (all are pipes)
        assert self._process.stderr is not None  # noqa: S101
        self._threads = [
            threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_errors, args=(self._process.stderr,), daemon=True),
            threading.Thread(target=self._beat, daemon=True),
        ]
        for thread in reversed(self._threads):  # the first waits for the second at its end
            thread.start()

    def ask(self, what: str, **request: Any) -> None:
        """Send a request; nothing where the agent is gone, which its ranks hear."""
        assert self._process.stdin is not None  # noqa: S101
        with self._writing, contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(json.dumps({"do": what, **request}).encode() + b"\n")
            self._process.stdin.flush()

    def answer(self, name: str, timeout_s: float) -> Any:
        """Wait for the agent's message ``name`` and return it, once. ``ClusterError`` if it is gone or silent."""
        with self._changed:
            there = self._changed.wait_for(lambda: name in self._answers or self.gone, timeout_s)
            if name in self._answers:
                return self._answers.pop(name)
        why = self.gone if there else f"the agent said nothing for {timeout_s:g} s"
        raise ClusterError(f"{self.machine.name}: {why}")

    def begin(self, folder: Path, script: str | None, *, namespaces: bool = False) -> None:
        """Ask what its machine has."""
        self.ask("begin", folder=str(folder), script=script, namespaces=namespaces)

    def began(self) -> Here:
        """The agent's report on its machine; ``ClusterError`` if it did not start."""
        self.here = from_plain(Here, self.answer("here", BEGIN_S), f"{self.machine.name}: what it has")
        return self.here

    def look_at_clock(self) -> None:
        """Measure how far its clock is ahead."""
        asked = time.time()
        self.ask("clock")
        there = self.answer("clock", SILENT_S)
        self.offset_s = there - min(max(there, asked), time.time())  # none where it answered in between

    def start(
        self,
        rank: int,
        command: Sequence[str],
        environment: Mapping[str, str],
        ended: Callable[[int, int, str], None],
    ) -> _RemoteRank:
        """Start a rank there; ``ended(rank, code, why)`` is called once."""
        made = self._ranks[rank] = _RemoteRank(rank, self, ended)
        self.ask("start", rank=rank, command=list(command), environment=dict(environment))
        if self.gone:
            made.end(255, self.gone)
        return made

    def close(self) -> None:
        """End it, and with it all that it started."""
        assert self._process.stdin is not None  # noqa: S101
        with self._writing, contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(END_S + GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in self._threads[:2]:
            thread.join(GRACE_S)

    def _read(self, pipe: IO[bytes]) -> None:
        why = ""
        try:
            for news in _lines(pipe.fileno()):
                self._hear(news)
            if self._process.poll() is None and not select.select([pipe], [], [], 0)[0]:
                why = f"does not answer: nothing came from {self.machine.name} for {SILENT_S:g} s"
        except (ClusterError, OSError, ValueError, TypeError, KeyError) as error:
            why = f"lost its agent on {self.machine.name}: {error}"
        if not why:
            self._threads[1].join(GRACE_S)
            said = " / ".join(list(self._last_lines)[-3:])
            why = f"lost its agent on {self.machine.name}, which ended{f': {said}' if said else ''}"
        self._process.kill()
        with self._changed:
            self.gone = why
            self._changed.notify_all()
        for rank in list(self._ranks.values()):
            rank.end(255, why)

    def _hear(self, news: dict[str, Any]) -> None:
        if "line" in news:
            number, stream, text = news["line"]
            rank = self._ranks[number]
            if stream == "stderr":
                rank.last_lines.append(str(text))
            self._emit(rank.rank, str(stream), str(text))
        elif "ended" in news:
            number, code = news["ended"]
            self._ranks[number].end(int(code))
        elif "failed" in news:
            raise ClusterError(str(news["failed"]))
        for name in ANSWERS & news.keys():
            with self._changed:
                self._answers[name] = news[name]
                self._changed.notify_all()

    def _read_errors(self, pipe: IO[bytes]) -> None:
        for line in iter(lambda: pipe.readline(MOST_LINE), b""):
            self._last_lines.append(line.decode(errors="replace").rstrip())

    def _beat(self) -> None:
        while self._process.poll() is None:
            self.ask("alive")
            time.sleep(BEAT_S)


class Agents:
    """One agent on each machine; a context manager, after which nothing of them runs anywhere."""

    def __init__(
        self,
        machines: Sequence[Machine],
        ranks: int = 0,
        *,
        ssh: Sequence[str] = SSH,
        emit: Emit = lambda *_: None,
    ) -> None:
        self._spread = spread(machines, ranks)
        self.every: list[Agent] = []
        try:
            for machine in machines:
                self.every.append(Agent(machine, ssh, emit))
        except BaseException:
            self.close()
            raise

    def of(self, rank: int) -> Agent:
        """The agent whose ranks a rank is among; those behind all that were there at first are on machines in turn."""
        return self.every[self._spread[rank] if rank < len(self._spread) else rank % len(self.every)]

    def begin(self, script: str | None) -> None:
        """Ask all; ``ClusterError`` names every machine on which no rank can start, and why."""
        folder = Path.cwd()
        for agent in self.every:
            agent.begin(folder, script)
        faults = []
        for agent in self.every:
            name = agent.machine.name
            try:
                here = agent.began()
            except ClusterError as error:
                faults.append(str(error))
                continue
            if here.fault:
                faults.append(f"{name}: {here.fault}")
            elif here.version != __version__:
                faults.append(f"{name} has p4reduce {here.version}, here {__version__}: install the same")
            elif script is not None and here.digest != digest_of(script):
                faults.append(f"{name}: {script} is another file there than here: copy it, or use a shared folder")
        if faults:
            raise ClusterError("; ".join(faults))

    def address(self, agent: Agent) -> str:
        """The address at which an agent's machine reaches this one. ``ClusterError`` if none is known."""
        seen = (agent.here.seen if agent.here else "") or source_towards(agent.machine.name)
        if not seen:
            raise ClusterError(f"{agent.machine.name}: no address of this machine is known there: give --listen")
        return seen

    def master(self, agent: Agent) -> tuple[str, int]:
        """Address and port of a store of ``torch.distributed`` on an agent's machine, as the others reach it."""
        here = agent.here
        assert here is not None  # noqa: S101  (it began)
        return here.own or agent.machine.name, here.port

    def close(self) -> None:
        """End all, side by side."""
        threads = [threading.Thread(target=agent.close) for agent in self.every]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with handling(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self.close()


# What is wrong with several machines: ``p4reduce doctor --hosts``.


_LAUNCHER: Final = "the launcher"
LEAST_MTU: Final = 1280
MOST_OFFSET_S: Final = 1.0


def faults(agents: Sequence[Agent], reached: Mapping[tuple[str, str], bool]) -> list[tuple[str, str]]:
    """(machine, fault) of machines that have begun. reached: whether one connects to the other, by their names."""
    found = []
    known = [(agent.machine.name, agent, agent.here) for agent in agents if agent.here is not None]
    largest = max((here.mtu for _, _, here in known), default=0)
    names = [here.name for _, _, here in known]
    for name, agent, here in known:
        if here.version != __version__:
            found.append((name, f"has p4reduce {here.version}, here {__version__}: install the same"))
        if here.fault:
            found.append((name, here.fault))
        if abs(agent.offset_s) > MOST_OFFSET_S:
            found.append((name, f"its clock is {agent.offset_s:+.1f} s from ours: run chrony or ntpd"))
        if here.mtu and here.mtu < max(largest, LEAST_MTU):
            found.append(
                (name, f"MTU {here.mtu} at {here.own}, others have {largest}: large packets get lost; set one")
            )
        if here.named.startswith("127.") and not here.own.startswith("127."):
            text = (
                f"its own name {here.name!r} is {here.named} there, which no other machine reaches: correct /etc/hosts"
            )
            found.append((name, f"{text}; torchrun needs '--rdzv-conf is_host=1' on the first machine until then"))
        if names.count(here.name) > 1 and not here.own.startswith("127."):
            found.append((name, f"another machine has the name {here.name!r}, too: rename one"))
        if here.no_namespaces:
            found.append((name, f"no network namespaces (only --time real needs them): {here.no_namespaces}"))
    for (one, other), good in reached.items():
        if not good:
            found.append((one, f"cannot connect to {other}: a firewall, or no route; gloo needs all pairs"))
    return found


def examine(agents: Agents) -> list[tuple[str, str]]:
    """(machine, fault) of all machines: what they have, and who reaches whom; changes nothing."""
    found = []
    for agent in agents.every:
        agent.begin(Path("/"), None, namespaces=True)
    for agent in agents.every:
        try:
            agent.began()
            agent.look_at_clock()
        except ClusterError as error:
            found.append((agent.machine.name, str(error).removeprefix(f"{agent.machine.name}: ")))
    there = [agent for agent in agents.every if agent.here is not None]
    ports: dict[str, tuple[str, int]] = {}
    reached: dict[tuple[str, str], bool] = {}
    for agent in there:
        agent.ask("listen", host=agents.master(agent)[0])
    for agent in there:
        with contextlib.suppress(ClusterError):  # it cannot listen at its own address, so no other machine reaches it
            ports[agent.machine.name] = (agents.master(agent)[0], agent.answer("port", BEGIN_S))
    with contextlib.ExitStack() as stack:
        for agent in there:
            name = agent.machine.name
            targets = {other: port for other, port in ports.items() if other != name}
            with contextlib.suppress(OSError):
                mine = stack.enter_context(socket.create_server((agents.address(agent), 0)))
                targets[_LAUNCHER] = mine.getsockname()[:2]
            agent.ask("reach", addresses=list(targets.values()))
            with contextlib.suppress(ClusterError):
                answers = agent.answer("reached", BEGIN_S + REACH_S * len(targets))
                reached |= {(name, other): good for other, good in zip(targets, answers, strict=True)}
            for other in ({_LAUNCHER} | {one.machine.name for one in there}) - targets.keys() - {name}:
                reached[name, other] = False
    return found + faults(there, reached)


if __name__ == "__main__":
    sys.exit(main())
