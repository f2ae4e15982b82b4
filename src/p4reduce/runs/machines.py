"""Machines of a run: the launcher's ends of their agents (runs/agent.py), and the ranks that agents started."""

import base64
import contextlib
import ipaddress
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Self

from p4reduce import __version__
from p4reduce.base.records import from_plain
from p4reduce.base.signals import SEEN_S, handling
from p4reduce.group.errors import ClusterError
from p4reduce.group.transport import end, source_towards
from p4reduce.runs.agent import (
    BEAT_S,
    BEGIN_S,
    BUSY_S,
    INTERFACE,
    MOST_LINE,
    PIECE,
    SILENT_S,
    Here,
    digest_of,
    lines,
)
from p4reduce.runs.launch import (
    GRACE_S,
    KEPT_LINES,
    Emit,
    Names,
    torch_environment,
)

SSH: Final = ("ssh", *(f"-o{flag}" for flag in ("BatchMode=yes", "ConnectTimeout=20", "ServerAliveInterval=5",
        "ServerAliveCountMax=3")))  # fmt: skip
ANSWERS: Final = {"here", "clock", "probed", "reached", "heard", "ports", "part", "counted"}
START_S: Final = 600.0
"""seconds for an agent to compile switches and open their ports"""
CLOSE_S: Final = 10.0
"""seconds for an agent to end its ranks and its part of the network"""
EXCHANGES: Final = 16
"""measurements of a clock, of which the one with the shortest round trip counts"""
BMV2: Final = "SIMPLE_SWITCH_GRPC"
"""variable that names the BMv2 of all machines, if the launcher has it"""


@dataclass(frozen=True)
class Machine:
    """A machine of ``--hosts`` or ``--hostfile``. slots: ranks there; None: an equal share of the remaining ranks."""

    name: str
    slots: int | None = None


def ssh_of(words: str) -> list[str]:
    """Return the command that runs another one on a machine: ssh with flags against prompts and dead networks."""
    return [*SSH] if words == SSH[0] else shlex.split(words)


def spread(machines: Sequence[Machine], ranks: int) -> list[int]:
    """Return the machine of each rank: consecutive ranks fill its slots. Raises ``ClusterError`` if they do not fit."""
    open_ = [machine for machine in machines if machine.slots is None]
    left = ranks - sum(machine.slots or 0 for machine in machines)
    if left > 0 and not open_:
        raise ClusterError(f"-n: {ranks} ranks, but the machines have {ranks - left} slots; add machines or slots")
    shares = iter([max(left, 0) // len(open_) + (n < max(left, 0) % len(open_)) for n in range(len(open_))])
    slots = [next(shares) if machine.slots is None else machine.slots for machine in machines]
    return [number for number, count in enumerate(slots) for _ in range(count)][:ranks]


class RemoteRank:
    """A rank that an agent started on its machine, with the interface of `RankProcess`."""

    pid: Final = -1
    """ID of no local process"""

    def __init__(self, rank: int, agent: "Agent", ended: Callable[[int, int, str], None]) -> None:
        self.rank = rank
        self.last_lines: deque[str] = deque(maxlen=KEPT_LINES)
        self.report = ""
        """contents of its report in real time, once it has ended"""
        self.busy = False
        """Whether it has used CPU time since this was last reset."""
        self._agent, self._ended, self._over = agent, ended, threading.Event()
        self._code = 0

    def terminate(self) -> None:
        """Ask the process, and what it started, to end."""
        self._agent.ask("signal", rank=self.rank, kill=False)

    def kill(self) -> None:
        """Kill the process and what it started."""
        self._agent.ask("signal", rank=self.rank, kill=True)

    def join(self, timeout: float) -> bool:
        """Wait until it has ended; return False after ``timeout`` seconds."""
        return self._over.wait(timeout)

    def wait(self) -> int:
        """Wait until it has ended; return its exit code, -n for signal n."""
        self._over.wait()
        return self._code

    def seen(self) -> bool:
        """Return whether it has used CPU time since the last call, or its machine has not been heard of recently."""
        busy, self.busy = self.busy, False
        return busy or time.monotonic() - self._agent.heard_s > 2 * BUSY_S

    def end(self, code: int, why: str = "") -> None:
        """Note that the rank has ended."""
        if not self._over.is_set():
            self._code = code
            self._over.set()
            self._ended(self.rank, code, why)


@dataclass(frozen=True)
class MachineClock:
    """Offset of a machine's monotonic clock, nanoseconds."""

    offset_ns: int
    """time by which it is ahead of the session's clock …"""
    error_ns: int
    """… with this uncertainty: half of the shortest round trip, plus half of the drift between measurements"""

    def and_then(self, later: "MachineClock") -> "MachineClock":
        """Return the clock between two measurements."""
        drift = abs(later.offset_ns - self.offset_ns) // 2
        return MachineClock((self.offset_ns + later.offset_ns) // 2, max(self.error_ns, later.error_ns) + drift)


class Agent:
    """The launcher's end of an agent."""

    def __init__(self, machine: Machine, ssh: Sequence[str], emit: Emit) -> None:
        self.machine = machine
        self.here: Here | None = None
        self.offset_s = 0.0
        """lower bound of the seconds by which its clock is ahead of ours"""
        self.gone = ""
        """why the agent is gone; empty while it is there"""
        self.heard_s = time.monotonic()
        """when it last sent anything"""
        self.admit: Callable[[socket.socket, int], None] = lambda connection, _: connection.close()
        """takes a rank's control connection, in real time"""
        self._links: dict[int, socket.socket] = {}
        self._emit = emit
        self._ranks: dict[int, RemoteRank] = {}
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
                start_new_session=True,  # Ctrl-C reaches only the launcher, which tells the agent
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
        """Send a request; do nothing if the agent is gone, as its ranks are told."""
        assert self._process.stdin is not None  # noqa: S101
        with self._writing, contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(json.dumps({"do": what, **request}).encode() + b"\n")
            self._process.stdin.flush()

    def answer(self, name: str, timeout_s: float = BEGIN_S) -> Any:
        """Wait for the agent's message ``name`` and return it, once; ``ClusterError`` if it is gone or silent."""
        deadline = time.monotonic() + timeout_s
        there: object = None
        while not there and time.monotonic() < deadline:
            with self._changed:
                there = self._changed.wait_for(lambda: name in self._answers or self.gone, SEEN_S)
                if name in self._answers:
                    return self._answers.pop(name)
        why = self.gone if there else f"the agent said nothing for {timeout_s:g} s"
        raise ClusterError(f"{self.machine.name}: {why}")

    def begin(self, folder: Path, script: str | None, needs: Sequence[str] = (), *, examine: bool = False) -> None:
        """Ask the agent for its report on its machine."""
        environment = {name: os.environ[name] for name in (BMV2,) if name in os.environ}
        self.ask(
            "begin", folder=str(folder), script=script, needs=list(needs), examine=examine, environment=environment
        )

    def began(self) -> Here:
        """Return the agent's report on its machine; raise ``ClusterError`` if it did not start."""
        self.here = from_plain(Here, self.answer("here", BEGIN_S), f"{self.machine.name}: what it has")
        return self.here

    def look_at_clock(self) -> None:
        """Measure how far the machine's clock is ahead."""
        asked = time.time()
        self.ask("clock")
        there, _ = self.answer("clock", SILENT_S)
        self.offset_s = there - min(max(there, asked), time.time())  # 0 if it answered in between

    def clock(self) -> MachineClock:
        """Measure the machine's monotonic clock, by the exchange with the shortest round trip."""
        clocks = []
        for _ in range(EXCHANGES):
            asked = time.monotonic_ns()
            self.ask("clock")
            _, there = self.answer("clock", SILENT_S)
            now = time.monotonic_ns()
            clocks.append(MachineClock(there - (asked + now) // 2, (now - asked + 1) // 2))
        return min(clocks, key=lambda clock: clock.error_ns)

    @property
    def address(self) -> str:
        """Return the machine's IPv4 address. Raises ``ClusterError`` if it has none, or the launcher used another."""
        own = (self.here.own if self.here else "") or self.machine.name.rpartition("@")[2]
        try:
            return str(ipaddress.IPv4Address(own if self.here and self.here.own else socket.gethostbyname(own)))
        except (OSError, ValueError):
            raise ClusterError(f"{self.machine.name}: {own} is no IPv4 address, which links need") from None

    def start(
        self,
        rank: RemoteRank,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        host: str = "",
        spec: Mapping[str, Any] | None = None,
        report: str = "",
        asks: bool = False,
    ) -> None:
        """Start a rank on the machine.

        In real time: ``host``: its host; ``spec``: its description, in which the agent sets files and sockets;
        ``report``: file of its report; ``asks``: whether it is sent lines (``input``).
        """
        self._ranks[rank.rank] = rank
        given = {"command": list(command), "environment": dict(environment), "spec": spec, "report": report}
        self.ask("start", rank=rank.rank, host=host, **given, asks=asks)
        if self.gone:
            rank.end(255, self.gone)

    def close(self) -> None:
        """End the agent, and with it all that it started."""
        assert self._process.stdin is not None  # noqa: S101
        with self._writing, contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in self._threads[:2]:
            thread.join(GRACE_S)

    def _read(self, pipe: IO[bytes]) -> None:
        why = ""
        try:
            for news in lines(pipe.fileno()):
                self._hear(news)
            if self._process.poll() is None and not select.select([pipe], [], [], 0)[0]:
                why = f"does not answer: nothing came from {self.machine.name} for {SILENT_S:g} s"
        except (ClusterError, OSError, ValueError, TypeError, KeyError) as error:
            why = f"lost its agent on {self.machine.name}: {error}"
        if not why:
            self._threads[1].join(GRACE_S)
            last_lines = " / ".join(list(self._last_lines)[-3:])
            why = f"lost its agent on {self.machine.name}, which ended{f': {last_lines}' if last_lines else ''}"
        self._process.kill()
        with self._changed:
            self.gone = why
            self._changed.notify_all()
        for rank in list(self._ranks.values()):
            rank.end(255, why)

    def _hear(self, news: dict[str, Any]) -> None:
        self.heard_s = time.monotonic()
        for number in news.get("busy", ()):
            self._ranks[number].busy = True
        if "line" in news:
            number, stream, text = news["line"]
            rank = self._ranks[number]
            if stream == "stderr":
                rank.last_lines.append(str(text))
            self._emit(rank.rank, str(stream), str(text))
        elif "ended" in news:
            number, code = news["ended"]
            self._ranks[number].end(int(code))
        elif "report" in news:
            number, text = news["report"]
            self._ranks[number].report += text
        elif "control" in news:
            self._take(*news["control"])
        elif "failed" in news:
            raise ClusterError(str(news["failed"]))
        for name in ANSWERS & news.keys():
            with self._changed:
                self._answers[name] = news[name]
                self._changed.notify_all()

    def _take(self, number: int, rank: int, data: str | None) -> None:
        """Pass on data of a rank's control connection; None: its end."""
        if data is not None and number not in self._links:
            self._links[number], theirs = socket.socketpair()
            threading.Thread(target=self._reply, args=(number, self._links[number]), daemon=True).start()
            self.admit(theirs, rank)
        if data is None:
            if (link := self._links.pop(number, None)) is not None:
                end(link)
            return
        with contextlib.suppress(OSError):  # the coordinator has ended it
            self._links[number].sendall(base64.b64decode(data))

    def _reply(self, number: int, link: socket.socket) -> None:
        with link, contextlib.suppress(OSError):
            while data := link.recv(PIECE):
                self.ask("control", number=number, data=base64.b64encode(data).decode())
        self.ask("control", number=number, data=None)

    def _read_errors(self, pipe: IO[bytes]) -> None:
        for line in iter(lambda: pipe.readline(MOST_LINE), b""):
            self._last_lines.append(line.decode(errors="replace").rstrip())

    def _beat(self) -> None:
        while self._process.poll() is None:
            self.ask("alive")
            time.sleep(BEAT_S)


class Agents:
    """One agent on each machine. Use as a context manager; on exit all agents and their processes have ended."""

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
        """Return the agent of a rank; ranks beyond those of the start are assigned to the machines in turn."""
        return self.every[self._spread[rank] if rank < len(self._spread) else rank % len(self.every)]

    def start(
        self, rank: int, command: Sequence[str], environment: Mapping[str, str], ended: Callable[[int, int, str], None]
    ) -> RemoteRank:
        """Start a rank on its machine; ``ended(rank, code, why)`` is called once."""
        agent = self.of(rank)
        made = RemoteRank(rank, agent, ended)
        agent.start(made, command, environment)
        return made

    def begin(self, script: str | None, needs: Sequence[str] = ()) -> None:
        """Begin all agents. Raises ``ClusterError`` with every unusable machine and its faults. needs: of ``NEEDS``."""
        folder = Path.cwd()
        for agent in self.every:
            agent.begin(folder, script, needs)
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
            faults += [f"{name}: {why}" for why in here.lacks.values()]
        if faults:
            raise ClusterError("; ".join(faults))

    def address(self, agent: Agent) -> str:
        """Return the address at which an agent's machine reaches this one. Raises ``ClusterError`` if none is known."""
        seen = (agent.here.seen if agent.here else "") or source_towards(agent.machine.name)
        if not seen:
            raise ClusterError(f"{agent.machine.name}: no address of this machine is known there: give --listen")
        return seen

    def master(self, agent: Agent) -> tuple[str, int]:
        """Return address and port of a ``torch.distributed`` store on an agent's machine, as the others reach it."""
        here = agent.here
        assert here is not None  # noqa: S101  (it began)
        return here.own or agent.machine.name, here.port

    def torch_environments(self, places: Sequence[Agent], store: tuple[str, int, str] | None = None) -> list[Names]:
        """Return the variables of each rank for ``torch.distributed``; ``places``: the agent of each.

        ``store``: address, port and interface if the ranks' network is not that of the machines.
        """
        address, port = self.master(places[0]) if store is None else store[:2]
        environments = []
        for rank, place in enumerate(places):
            there = [other_rank for other_rank, other in enumerate(places) if other is place]
            own = torch_environment(rank, len(places), port, address)
            del own[INTERFACE]  # the agent sets its own
            if store is not None:
                own[INTERFACE] = store[2]
            environments.append(own | {"LOCAL_RANK": str(there.index(rank)), "LOCAL_WORLD_SIZE": str(len(there))})
        return environments

    def check_addresses(self) -> None:
        """Raise `ClusterError` that names a machine that others cannot reach at its address."""
        inside = {agent: ipaddress.ip_address(agent.address).is_loopback for agent in self.every}
        for agent, loopback in inside.items():
            if loopback and not all(inside.values()):
                raise ClusterError(
                    f"{agent.machine.name} is {agent.address}, which no other machine reaches: name it by its address"
                )

    def check(self) -> None:
        """Raise `ClusterError` that names a machine whose agent is gone."""
        for agent in self.every:
            if agent.gone:
                raise ClusterError(f"{agent.machine.name}: {agent.gone}")

    def close(self) -> None:
        """End all agents, in parallel."""
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
