"""The part of a run's network that one of several machines executes: ``python -m p4reduce.runs.real.part OUTSIDE``.

A part with datagram links runs in its agent's process. A part with the kernel's links is a process in its own network
namespace, which runs this module; ``OUTSIDE`` is a file descriptor of the machine's namespace. The process reads a line
of JSON: ``share``, ``pem``, ``logs`` (a folder), ``name`` of the run. It answers by ``p4runtime``, the address of each
switch's server, and ``hosts``, the namespace of each; or by ``error``. Then it answers every line with its counts,
until its input ends.
"""

if __name__ == "__main__":
    import p4reduce.base.short  # noqa: F401

import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Final

from p4reduce.base.records import ITEMS, from_plain, to_plain
from p4reduce.base.signals import handling, raise_exit
from p4reduce.group import transport
from p4reduce.group.errors import ClusterError
from p4reduce.network.real.bmv2 import Bmv2Switches, why_no_bmv2
from p4reduce.network.real.io.path import PortSpec
from p4reduce.network.real.net import RealNetwork, Section, enter_command, join_command, why_not
from p4reduce.network.real.net.namespaces import inside, last_lines, start, stop
from p4reduce.network.real.net.network import why_no_tunnels
from p4reduce.network.real.net.state import RunFolder
from p4reduce.network.real.switches import PortCounters, SwitchHost
from p4reduce.network.virtual import Incidents, LinkCounters, Where
from p4reduce.runs.real.backend import REST_US
from p4reduce.runs.real.presence import cpu_seconds
from p4reduce.runs.real.wires import LinkRelays, MachineShare, relay_ends, switch_ends
from p4reduce.topologies.model import Hop
from p4switch.base.closing import Closable
from p4switch.native.objects import prepare
from p4switch.p4runtime import Tls

NEEDS: Final[Mapping[str, Callable[[], str | None]]] = {
    "namespaces": why_not,
    "tunnels": why_no_tunnels,
    "bmv2": why_no_bmv2,
}
"""needs of parts, with functions that return why a machine lacks them (None: it does not)"""
MACHINE_CODE: Final = ("p4reduce.workers.udp", "p4reduce.network.real.io.frames")
"""native code of workers and of switches, including what they import"""
LOOK_S: Final = 0.2
"""seconds between two checks of switches that are processes"""
CLOSE_S: Final = 4.0
"""seconds for the process to end"""
FAILED: Final = 3
"""exit code after the error was written"""
SAID_LINES: Final = 40
"""lines of the error, which may include a switch's last lines"""
PIECE: Final = 1 << 16
SHARE: Final = "what is here of the network"


def needs_of(target: str, links: str) -> list[str]:
    """Return the `NEEDS` of machines for switches and links of these kinds."""
    return [*(["namespaces", "tunnels"] if links == "veth" else []), *(["bmv2"] if target == "bmv2" else [])]


@dataclass(frozen=True)
class Counted:
    """Counts of a machine's switches and relays."""

    ports: Annotated[dict[Hop, PortCounters], ITEMS]
    relayed: Annotated[dict[Hop, LinkCounters], ITEMS]
    incidents: Annotated[dict[Where, Incidents], ITEMS]
    cpu_s: float
    """CPU seconds of the process and of its BMv2 processes"""


def merged(first: dict[Where, Incidents], other: dict[Where, Incidents]) -> dict[Where, Incidents]:
    """Return the sums of two observers' incidents, which are of different frames."""
    sums = dict(first)
    for where, seen in other.items():
        before = sums.get(where, Incidents())
        values = {each.name: getattr(before, each.name) + getattr(seen, each.name) for each in fields(Incidents)}
        sums[where] = Incidents(**values)
    return sums


class _Part(Closable):
    """The part of a network that one machine executes, as its agent uses it."""

    p4runtime: dict[str, str]
    """Address of the server of each switch."""
    hosts: dict[str, str]
    """Path of each host's network namespace; empty if hosts are in the machine's."""

    def entering(self, host: str, command: Sequence[str]) -> list[str]:
        """Return the command that runs another command at a host."""
        return join_command(command, self.hosts[host]) if host in self.hosts else list(command)


class MachinePart(_Part):
    """One machine's part of a run's network: switches behind P4Runtime, and relays."""

    def __init__(
        self, share: MachineShare, pem: str, *, outside: int | None = None, name: str = "", logs: Path | None = None
    ) -> None:
        """Open and start all. ``pem``: the group's key, which a controller has to show.

        outside: the machine's network namespace, if this process is in its own; then also ``name`` of the run, and a
        folder for ``logs``. Raises ``FabricError``, ``RealError``, ``OSError``, ``ClusterError``.
        """
        prepare(*MACHINE_CODE)
        self._parts, self._topology = ExitStack(), share.topology
        self.p4runtime, self.hosts = {}, {}
        self._host: SwitchHost | None = None
        self._bmv2: Bmv2Switches | None = None
        key, certificate = transport.halves(pem)
        tls = Tls(certificate, key, client_ca=certificate)
        try:
            ports: dict[str, dict[int, PortSpec]] = {switch: {} for switch in share.devices}
            for (switch, port), spec in share.ports.items():
                ports[switch][port] = spec
            relayed, network = share.relayed, None
            if outside is not None:
                network = self._parts.enter_context(_network(share, name, outside))
                self.hosts = {host.name: network.namespace(host.name) for host in network.hosts}
                ports, relayed = switch_ends(network), tuple(relay_ends(network))
            relays = LinkRelays(share.topology, relayed, share.faults, share.seed)
            self._relays = self._parts.enter_context(relays)
            if not share.devices:
                return
            if share.inside is not None and share.inside.target == "bmv2":
                assert network is not None  # noqa: S101  (BMv2 has links of the kernel)
                assert logs is not None  # noqa: S101
                switches = Bmv2Switches(share.topology, network.switch_interfaces, logs, tls=tls)
                self._bmv2 = self._parts.enter_context(switches)
                targets = switches.targets
            else:
                host = SwitchHost(
                    share.devices,
                    ports,
                    address="127.0.0.1:0" if outside is not None else f"{share.address}:0",
                    tls=tls,
                    rates_bps=share.rates_bps,
                    queue_frames=share.queue_frames,
                    seed=share.seed,
                    rest_us=REST_US,
                )
                self._host = self._parts.enter_context(host)
                targets = host.targets
            self.p4runtime = {switch: address for switch, address, _ in targets}
            if outside is not None:
                own = {address: _carried(address, share.address, outside) for address in {*self.p4runtime.values()}}
                self.p4runtime = {switch: own[address] for switch, address in self.p4runtime.items()}
        except BaseException:
            self._parts.close()
            raise

    def check(self) -> None:
        """Raise ``FabricError`` or ``RealError`` if a data path or a switch has ended."""
        self._relays.check()
        if self._host is not None:
            self._host.check()
        if self._bmv2 is not None:
            self._bmv2.check()

    def counted(self) -> Counted:
        """Return the counts so far."""
        switches = None if self._host is None else self._host.switches
        incidents = merged({} if switches is None else switches.incidents(self._topology), self._relays.incidents())
        ports = {} if switches is None else switches.port_counters()
        others = 0.0 if self._bmv2 is None else cpu_seconds(self._bmv2.pids.values())
        return Counted(ports, self._relays.links(), incidents, time.process_time() + others)

    def close(self) -> None:
        """End switches and relays, and remove links."""
        self._parts.close()


def _network(share: MachineShare, name: str, outside: int) -> RealNetwork:
    given = share.inside
    assert given is not None  # noqa: S101
    return RealNetwork(
        share.topology,
        name=name,
        shape=given.shape,
        relayed=given.relays,
        queue_frames=share.queue_frames,
        section=Section(given.nodes, given.tunnels, outside, given.mtu),
    )


# P4Runtime servers in a namespace are reached at a port of the machine, which forwards their TLS connections unchanged.


def _carried(address: str, machine: str, outside: int) -> str:
    """Return the address of a port of the machine that forwards connections to ``address`` in this namespace."""
    listener = inside(outside, functools.partial(socket.create_server, (machine, 0)))
    host, port = address.rsplit(":", 1)
    threading.Thread(target=_carry_all, args=(listener, (host, int(port))), daemon=True).start()
    own, number = listener.getsockname()
    return f"{own}:{number}"


def _carry_all(listener: socket.socket, server: tuple[str, int]) -> None:
    while True:
        near, _ = listener.accept()
        try:
            far = socket.create_connection(server)
        except OSError:
            near.close()
            continue
        for source, sink in ((near, far), (far, near)):
            threading.Thread(target=_carry, args=(source, sink), daemon=True).start()


def _carry(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(PIECE):
            sink.sendall(data)
    for end, how in ((source, socket.SHUT_RD), (sink, socket.SHUT_WR)):
        with suppress(OSError):
            end.shutdown(how)


# The agent's end of a part that is a process.


@dataclass(frozen=True)
class PartProcess:
    """The process of a part, in its own network namespace."""

    process: "subprocess.Popen[bytes]"
    log: Path
    """file of the process's standard error"""


def enter(folder: RunFolder) -> PartProcess:
    """Start the process, from the main thread; it ends with the agent's ``folder``."""
    outside, log = os.open("/proc/self/ns/net", os.O_RDONLY), folder.logs / "network.log"
    try:
        with log.open("wb") as errors:
            process = start(
                enter_command([sys.executable, "-m", "p4reduce.runs.real.part", str(outside)]),
                env={**os.environ, **folder.environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                pass_fds=[outside],
                start_new_session=True,
            )
    finally:
        os.close(outside)
    return PartProcess(process, log)


class InsidePart(_Part):
    """A part that is a process in its own namespaces."""

    def __init__(self, made: PartProcess, request: Mapping[str, Any]) -> None:
        """Have the process open its part; ``request``: its first line. Raises ``ClusterError`` if it cannot."""
        self._process, self._log = made.process, made.log
        answer = self._ask({**request, "logs": str(made.log.parent)})
        if "error" in answer:
            raise ClusterError(str(answer["error"]))
        self.p4runtime, self.hosts = answer["p4runtime"], answer["hosts"]

    def check(self) -> None:
        """Raise ``ClusterError`` if the process has ended."""
        if self._process.poll() is not None:
            raise self._end()

    def counted(self) -> Counted:
        """Return the counts so far; raises ``ClusterError`` if the process has ended."""
        return from_plain(Counted, self._ask({"do": "count"}), "counts of this machine")

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None  # noqa: S101
        with suppress(OSError):
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_S)
        stop([self._process], 0.0)

    def _end(self) -> ClusterError:
        """Return the error for the ended process: its own explanation, or how it ended."""
        code = self._process.returncode
        if code == FAILED:
            return ClusterError(last_lines(self._log, SAID_LINES))
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return ClusterError(
            f"the process of its switches and links ended ({how}); its last lines:\n{last_lines(self._log)}"
        )

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        with suppress(OSError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise self._end()
        answer: dict[str, Any] = json.loads(line)
        return answer


def open_part(request: Mapping[str, Any], process: PartProcess | None) -> MachinePart | InsidePart:
    """Open a machine's part; ``process``: that of its part in namespaces, or None.

    May raise ``ValueError`` as records do.

    ``request``: ``share``, a `MachineShare` as plain data, ``pem``, and ``name`` of the run.
    """
    if process is not None:
        return InsidePart(process, request)
    return MachinePart(from_plain(MachineShare, request["share"], SHARE), request["pem"])


# The process.


def main(outside: int) -> int:
    """Execute the part until the input ends; return `FAILED` if a component cannot start or ends before."""
    request = json.loads(sys.stdin.readline())
    try:
        share, logs = from_plain(MachineShare, request["share"], SHARE), Path(request["logs"])
        part = MachinePart(share, request["pem"], outside=outside, name=request["name"], logs=logs)
    except (OSError, RuntimeError, ValueError) as error:
        _say(error=str(error))
        return FAILED
    with part:
        _say(p4runtime=part.p4runtime, hosts=part.hosts)
        try:
            while True:
                part.check()
                if select.select([sys.stdin], [], [], LOOK_S)[0]:
                    if not sys.stdin.readline():
                        return 0
                    _say(**to_plain(part.counted()))
        except (OSError, RuntimeError) as error:
            print(error, file=sys.stderr, flush=True)
            return FAILED


def _say(**answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with handling(raise_exit, signal.SIGTERM, signal.SIGHUP):
        sys.exit(main(int(sys.argv[1])))
