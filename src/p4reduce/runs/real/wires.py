"""Links between hosts and switches in real time: veth pairs, or datagrams, on one machine or between machines."""

import contextlib
import random
import secrets
import socket
import subprocess
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Annotated, Any, Final, Literal, Protocol, Self

from p4reduce.base.errors import BadInput
from p4reduce.base.records import ITEMS
from p4reduce.group.errors import ClusterError
from p4reduce.network.real.io.path import PortSpec, Udp, Veth
from p4reduce.network.real.net import RealNetwork, here_command
from p4reduce.network.real.net.network import ETHERNET_BYTES, MTU, VXLAN_BYTES, Carriers, Tunnel
from p4reduce.network.real.relay import Relays
from p4reduce.network.virtual import Incidents, LinkCounters, Where
from p4reduce.network.virtual.records import Faults
from p4reduce.runs.agent import datagram_ports
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.machines import Agent, Machine, RemoteRank, spread
from p4reduce.runs.real.backend import SocketSpec
from p4reduce.topologies import Link, Topology
from p4reduce.topologies.model import Hop
from p4reduce.topologies.optical import Ends
from p4reduce.workers.wire import INC_UDP_PORT, frame_bytes

UNSHAPED_FROM_BPS: Final = 10**10
"""Rates that software switches do not reach: such links are not shaped."""
RELAYED_FROM_PS: Final = 100_000_000
"""Delays below 0.1 ms are less than what processes add; longer ones are made by relays."""
REORDER_DELAY_PS: Final = 2_000_000_000
"""Reordered frames are late by up to 2 ms, about a round trip between processes."""


Events = socket.socket | None
Socket = tuple[str, int]
"""IP address and UDP port."""


@dataclass(frozen=True)
class Relayed:
    """A link that is cut in two, with a relay between the halves."""

    link: Link
    a: PortSpec
    """The relay's end towards node ``link.a``."""
    b: PortSpec


class Wires(Protocol):
    """Links of a run in real time. Use as a context manager."""

    shaping: str
    """text that names what limits links to their rates"""

    def ports(self) -> dict[str, dict[int, PortSpec]]:
        """Return the ports of the embedded switches."""

    def relayed(self) -> list[Relayed]:
        """Return the links that relays carry; empty if links need no relays."""

    def socket(self, host: str) -> SocketSpec:
        """Return the socket by which a worker reaches its switch."""

    def cut(self) -> Collection[Ends]:
        """Return the links that are known to have gone down."""

    @property
    def events(self) -> Events:
        """Return a socket that is readable when :meth:`cut` may have news, until it is called; None: never."""

    def start(
        self, host: str, argv: Sequence[str], options: Mapping[str, Any]
    ) -> "subprocess.Popen[bytes] | RemoteProcess":
        """Start a program at a host; it ends with this process."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def shaped_rates(experiment: Experiment, topology: Topology) -> dict[tuple[str, int], int]:
    """Return the rate in bit/s of each (node, port) whose link is shaped."""
    if experiment.unshaped:
        return {}
    return {
        end: link.rate_bps
        for link in topology.links
        if link.rate_bps < UNSHAPED_FROM_BPS
        for end in ((link.a, link.port_a), (link.b, link.port_b))
    }


def needs_relays(experiment: Experiment, topology: Topology) -> bool:
    """Return whether links lose, reorder or delay frames, which neither hosts nor BMv2 do by themselves."""
    late = max(link.delay_ps for link in topology.links) >= RELAYED_FROM_PS
    return late or any(probability > 0 for _, probability in experiment.faults)


def kernel_shaping(experiment: Experiment, *, shape: bool) -> str:
    """Return the text that names what limits the kernel's links to their rates. shape: whether anything does."""
    own = "kernel (tbf) at hosts, switches' own queues" if experiment.target == "embedded" else "kernel (tbf)"
    return own if shape else "none"


def switch_ends(network: RealNetwork) -> dict[str, dict[int, PortSpec]]:
    """Return the ports of switches in a network of the kernel."""
    interfaces = network.switch_interfaces
    return {switch: {port: Veth(name) for port, name in own.items()} for switch, own in interfaces.items()}


def relay_ends(network: RealNetwork) -> list[Relayed]:
    """Return the links of a network of the kernel that are cut in two."""
    return [Relayed(relay.link, Veth(relay.a_interface), Veth(relay.b_interface)) for relay in network.relays]


class VethWires:
    """Namespaces and veth pairs; this process must be in its own namespaces (``enter_command``)."""

    def __init__(self, experiment: Experiment, topology: Topology, name: str) -> None:
        shape = bool(shaped_rates(experiment, topology))
        self.network = RealNetwork(
            topology,
            name=name,
            shape=shape,
            relayed=needs_relays(experiment, topology),
            queue_frames=experiment.queue_frames,
        )
        self._ends: dict[str, Ends] = {}
        self._carriers: Carriers | None = None
        self.shaping = kernel_shaping(experiment, shape=shape)

    def ports(self) -> dict[str, dict[int, PortSpec]]:
        """Return the switch ends of the pairs, before the kernel's shaping, as embedded switches limit rates."""
        return switch_ends(self.network)

    def relayed(self) -> list[Relayed]:
        """Return the links with relays, as pairs of interfaces in this namespace."""
        return relay_ends(self.network)

    def socket(self, host: str) -> SocketSpec:
        """Return the address of the host in the kernel's own IP stack."""
        return SocketSpec(local=(self.network.topology.node(host).ip_text, INC_UDP_PORT))

    def cut(self) -> Collection[Ends]:
        """Return the links whose interface at a switch has lost its carrier."""
        down = self._carriers.down() if self._carriers else ()
        return {self._ends[name] for name in down}

    @property
    def events(self) -> Events:
        """Return the kernel's socket for events of interfaces."""
        return self._carriers.events if self._carriers else None

    def start(self, host: str, argv: Sequence[str], options: Mapping[str, Any]) -> "subprocess.Popen[bytes]":
        """Start a program in the host's namespace."""
        return self.network.popen(host, argv, **options)

    def __enter__(self) -> Self:
        self.network.__enter__()
        topology = self.network.topology
        for switch, own in self.network.switch_interfaces.items():
            for port, name in own.items():
                self._ends[name] = frozenset((switch, topology.neighbour(switch, port)))
        try:
            self._carriers = Carriers(self._ends)
        except BaseException:
            self.network.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._carriers:
            self._carriers.close()
        self.network.__exit__(kind, error, trace)


class _Datagrams:
    """A pair of UDP sockets for each end of a link."""

    def __init__(self, experiment: Experiment, topology: Topology) -> None:
        self._topology = topology
        self._rates = shaped_rates(experiment, topology)
        self.shaping = "hosts' and switches' own queues" if self._rates else "none"
        self._pairs: dict[Hop, tuple[Socket, Socket]] = {}

    def socket(self, host: str) -> SocketSpec:
        """Return a socket that carries whole frames in datagrams."""
        local, remote = self._pairs[host, 1]
        return SocketSpec(local=local, remote=remote, rate_bps=self._rates.get((host, 1), 0))

    def cut(self) -> Collection[Ends]:
        """Return no links: datagrams have no carrier."""
        return ()

    @property
    def events(self) -> Events:
        """Return None, as no link can go down."""
        return None


class UdpWires(_Datagrams):
    """A pair of UDP sockets for each link, or one on each side of its relay, at an address that only this run uses."""

    def __init__(self, experiment: Experiment, topology: Topology) -> None:
        super().__init__(experiment, topology)
        self._relayed: list[Relayed] = []
        with_relays = needs_relays(experiment, topology)
        free = iter(datagram_ports("", [False] * ((4 if with_relays else 2) * len(topology.links))))
        for link in topology.links:
            a, b = next(free), next(free)
            to_a, to_b = (next(free), next(free)) if with_relays else (b, a)
            self._pairs[link.a, link.port_a] = (a, to_a)
            self._pairs[link.b, link.port_b] = (b, to_b)
            if to_a != b:
                self._relayed.append(Relayed(link, Udp(to_a, a), Udp(to_b, b)))

    def ports(self) -> dict[str, dict[int, PortSpec]]:
        """Return a datagram port for each link of a switch."""
        ports: dict[str, dict[int, PortSpec]] = {switch.name: {} for switch in self._topology.switches}
        for (node, port), (local, remote) in self._pairs.items():
            if node in ports:
                ports[node][port] = Udp(local, remote)
        return ports

    def relayed(self) -> list[Relayed]:
        """Return the links with relays, as pairs of sockets."""
        return self._relayed

    def start(self, host: str, argv: Sequence[str], options: Mapping[str, Any]) -> "subprocess.Popen[bytes]":
        """Start a program beside this process."""
        return subprocess.Popen(here_command(argv), **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return


def open_wires(experiment: Experiment, topology: Topology, name: str) -> Wires:
    """Return the wires that the experiment names."""
    return UdpWires(experiment, topology) if experiment.links == "udp" else VethWires(experiment, topology, name)


# Links between machines: the session asks each machine for ports, and tells it its share of the network.


UDP_BYTES: Final = 28
"""bytes of the headers of IPv4 and UDP before a frame"""


def placed(
    topology: Topology, workers: Sequence[str], machines: Sequence[Machine], given: Mapping[str, str]
) -> dict[str, str]:
    """Return the machine of each node: ranks are spread by `spread`, a switch goes where most of its neighbours are.

    Only neighbours that have a place count, so switches with ranks come first; ties go to the first machine. Other
    hosts are placed with their switch. given: nodes with a fixed machine. Raises ``BadInput`` for an unknown node or
    machine.
    """
    names = [machine.name for machine in machines]
    for node, name in given.items():
        if node not in topology.by_name:
            raise BadInput(f"--place: topology {topology.name!r} has no node {node!r}")
        if name not in names:
            raise BadInput(f"--place: {node}={name}: the machines are {', '.join(names)}")
    place = {host: names[at] for host, at in zip(workers, spread(machines, len(workers)), strict=True)} | dict(given)
    left = [node.name for node in topology.nodes if not node.is_host and node.name not in place]
    while left:
        counts = {
            name: Counter(place[neighbour] for neighbour in topology.neighbours(name) if neighbour in place)
            for name in left
        }
        for name in [name for name in left if counts[name]]:
            place[name] = max(names, key=counts[name].__getitem__)
        left = [name for name in left if name not in place]
    rest = [host.name for host in topology.hosts if host.name not in place]
    return place | {name: place[topology.neighbours(name)[0]] for name in rest}


@dataclass(frozen=True)
class Machines:
    """The machines of a run, and the place of each node of its topology."""

    names: tuple[str, ...]
    place: dict[str, str]
    ssh: tuple[str, ...]
    """command that runs another command on a machine"""
    environment: dict[str, str]
    """Variables for ranks, besides those of p4reduce and PyTorch."""
    script: str | None = None
    """File that has to be the same on all machines, or None."""


@dataclass(frozen=True)
class Inside:
    """How a machine builds its share of the kernel's links, in namespaces."""

    target: Literal["embedded", "bmv2"]
    nodes: tuple[str, ...]
    tunnels: tuple[Tunnel, ...]
    shape: bool
    relays: bool
    """Whether links have relays."""
    mtu: int


@dataclass(frozen=True)
class MachineShare:
    """The switches and relays of a run's network that one machine executes."""

    topology: Topology
    address: str
    """IPv4 address at which the other machines reach it."""
    devices: dict[str, int]
    """P4Runtime device ID of each switch."""
    ports: Annotated[dict[Hop, Udp], ITEMS]
    rates_bps: Annotated[dict[Hop, int], ITEMS]
    queue_frames: int
    relayed: tuple[Relayed, ...]
    faults: Faults
    seed: int
    inside: Inside | None = None
    """Links of the kernel, in place of ``ports`` and ``relayed``; None for datagrams."""


class RemoteProcess(RemoteRank):
    """A program on another machine that exchanges lines with this process; a subset of ``subprocess.Popen``."""

    def __init__(self, number: int, agent: Agent, argv: Sequence[str], log: Path) -> None:
        """Prepare the program; it is started later. ``log``: file for its standard error."""
        super().__init__(number, agent, lambda *_: self._mine.close())
        self._argv, self._log, self._input_of = argv, log, agent
        self._mine, theirs = socket.socketpair()
        self.stdout: IO[bytes] = theirs.makefile("rb")
        self.stdin = self
        theirs.close()

    def write(self, lines: bytes) -> None:
        """Write lines to the program's input."""
        for line in lines.decode().splitlines():
            self._input_of.ask("input", rank=self.rank, line=line)

    def flush(self) -> None:
        """Do nothing: writes are not buffered."""

    def close(self) -> None:
        """Do nothing: the program's input is closed with its agent."""

    def take(self, stream: str, line: str) -> None:
        """Take a line that the program wrote."""
        if stream == "stderr":
            with self._log.open("a", encoding="utf-8") as log:
                log.write(f"{line}\n")
            return
        with contextlib.suppress(OSError):
            self._mine.sendall(line.encode() + b"\n")

    def send_signal(self, number: int) -> None:
        """Do nothing: the program takes no signals."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the program has ended; raise ``TimeoutExpired`` after ``timeout`` seconds."""
        if timeout is not None and not self.join(timeout):
            raise subprocess.TimeoutExpired(list(self._argv), timeout)
        return super().wait()


class MachineWires(ABC):
    """Links between nodes on several machines. ``place``: the started agent of each node's machine."""

    shaping: str

    def __init__(self, experiment: Experiment, topology: Topology, place: Mapping[str, Agent]) -> None:
        self._experiment, self._topology, self._place = experiment, topology, place
        self._started: list[RemoteProcess] = []

    @property
    def events(self) -> Events:
        """Return None, as no link can go down."""
        return None

    def cut(self) -> Collection[Ends]:
        """Return no links: if a machine ends, the run ends too."""
        return ()

    @abstractmethod
    def share(self, agent: Agent, number: int) -> MachineShare:
        """Return a machine's share of the network. number: of the machine, for the seed of its faults."""

    @abstractmethod
    def socket(self, host: str) -> SocketSpec:
        """Return the socket by which a worker reaches its switch, as `Wires` does."""

    def devices(self, agent: Agent) -> dict[str, int]:
        """Return the switches on a machine, each with its P4Runtime device ID."""
        return {
            switch.name: switch.index + 1 for switch in self._topology.switches if self._place[switch.name] is agent
        }

    def ports(self) -> dict[str, dict[int, PortSpec]]:
        """Return no ports: no switch is in this process."""
        return {}

    def relayed(self) -> list[Relayed]:
        """Return no links: no relay is in this process."""
        return []

    def start(self, host: str, argv: Sequence[str], options: Mapping[str, Any]) -> "RemoteProcess":
        """Start a program on the host's machine; of ``options``, only the file ``stderr`` is used."""
        number = len(self._started)
        process = RemoteProcess(number, self._place[host], argv, Path(options["stderr"].name))
        self._started.append(process)
        self._place[host].start(process, argv, {}, host=host, asks=True)
        return process

    def take(self, number: int, stream: str, line: str) -> None:
        """Pass on a line that a program wrote."""
        self._started[number].take(stream, line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def _check_mtu(self, agents: Iterable[Agent], before: int) -> int:
        """Return the least MTU of the machines, at most that of Ethernet, bytes.

        ``before``: bytes of outer headers of a frame.

        Raises ``ClusterError`` if frames do not fit.
        """
        longest, least = frame_bytes(self._experiment.lanes) + before, MTU + ETHERNET_BYTES + before
        for agent in agents:
            mtu = 0 if agent.here is None else agent.here.mtu
            if 0 < mtu < longest:
                raise ClusterError(
                    f"{agent.machine.name}: MTU {mtu}, but frames of {self._experiment.lanes} lanes need "
                    f"{longest}: raise it, or choose --lanes 64"
                )
            least = min(least, mtu or least)
        return least

    def _seed(self, number: int) -> int:
        return self._experiment.seed ^ number << _MACHINE_BITS


class MachineDatagrams(_Datagrams, MachineWires):
    """A pair of UDP sockets for each link, or one on each side of its relay, on one machine or between two.

    Sockets are at the machines' addresses if the link is between two machines, else on loopback. A relay is on the
    machine of the link's first end. The machine that binds a port has chosen it. All sockets are connected, so the
    kernel accepts only datagrams from the other end's address and port.
    """

    def __init__(self, experiment: Experiment, topology: Topology, place: Mapping[str, Agent]) -> None:
        """Ask the machines for ports; raise ``ClusterError`` if a machine's MTU is too small."""
        _Datagrams.__init__(self, experiment, topology)
        MachineWires.__init__(self, experiment, topology, place)
        self._relayed: dict[Agent, list[Relayed]] = {agent: [] for agent in place.values()}
        with_relays = needs_relays(experiment, topology)
        pieces: list[tuple[Agent, Agent]] = []
        for link in topology.links:
            a, b = place[link.a], place[link.b]
            pieces += [(a, a), (a, b)] if with_relays else [(a, b)]
        wanted: dict[Agent, list[bool]] = {agent: [] for agent in place.values()}
        for piece in pieces:
            for end in piece:
                wanted[end].append(piece[0] is not piece[1])
        self._check_mtu([agent for agent, across in wanted.items() if any(across)], UDP_BYTES)
        for agent, across in wanted.items():
            agent.ask("ports", address=agent.address, across=across)
        free = {agent: iter(agent.answer("ports")) for agent in wanted}
        sockets = [[(str(host), int(port)) for host, port in (next(free[end]) for end in piece)] for piece in pieces]
        for place_of, link in enumerate(topology.links):
            hops = (link.a, link.port_a), (link.b, link.port_b)
            if with_relays:
                (a_end, to_a), (to_b, b_end) = sockets[2 * place_of : 2 * place_of + 2]
                self._relayed[place[link.a]].append(Relayed(link, Udp(to_a, a_end), Udp(to_b, b_end)))
            else:
                a_end, b_end = to_b, to_a = sockets[place_of]
            self._pairs |= {hops[0]: (a_end, to_a), hops[1]: (b_end, to_b)}

    def share(self, agent: Agent, number: int) -> MachineShare:
        """Return the sockets of the machine's switches and relays."""
        switches = self.devices(agent)
        ports = {hop: Udp(*pair) for hop, pair in self._pairs.items() if hop[0] in switches}
        return MachineShare(
            self._topology,
            agent.address,
            switches,
            ports,
            {hop: rate for hop, rate in self._rates.items() if hop in ports},
            self._experiment.queue_frames,
            tuple(self._relayed.get(agent, ())),
            relay_faults(self._experiment),
            self._seed(number),
        )


class MachineTunnels(MachineWires):
    """Namespaces and veth pairs on each machine, and a VXLAN tunnel for each link between two.

    All tunnels of a run use one UDP port that is free on all machines; each has its own VXLAN number.
    """

    def __init__(self, experiment: Experiment, topology: Topology, place: Mapping[str, Agent]) -> None:
        """Choose the port; raise ``ClusterError`` if a machine's MTU is too small, or no port is free everywhere."""
        super().__init__(experiment, topology, place)
        self._across = {
            number: (place[link.a], place[link.b])
            for number, link in enumerate(topology.links)
            if place[link.a] is not place[link.b]
        }
        agents = {agent for ends in self._across.values() for agent in ends}
        self._mtu = min(MTU, self._check_mtu(agents, VXLAN_BYTES) - VXLAN_BYTES - ETHERNET_BYTES)
        self._port = _common_port(agents) if agents else 0
        self._first = secrets.randbelow(_NUMBERS - len(topology.links)) + 1
        self._rates = shaped_rates(experiment, topology)
        self.shaping = kernel_shaping(experiment, shape=bool(self._rates))

    def socket(self, host: str) -> SocketSpec:
        """Return the address of the host in the kernel's own IP stack."""
        return SocketSpec(local=(self._topology.node(host).ip_text, INC_UDP_PORT))

    def share(self, agent: Agent, number: int) -> MachineShare:
        """Return the machine's nodes and tunnels."""
        given, switches = self._experiment, self.devices(agent)
        tunnels = [
            Tunnel(link, agent.address, (b if a is agent else a).address, self._port, self._first + link)
            for link, (a, b) in self._across.items()
            if agent in (a, b)
        ]
        inside = Inside(
            given.target,
            tuple(node for node, machine in self._place.items() if machine is agent),
            tuple(tunnels),
            bool(self._rates),
            needs_relays(given, self._topology),
            self._mtu,
        )
        return MachineShare(
            self._topology,
            agent.address,
            switches,
            {},
            {hop: rate for hop, rate in self._rates.items() if hop[0] in switches},
            given.queue_frames,
            (),
            relay_faults(given),
            self._seed(number),
            inside,
        )


def _common_port(agents: Collection[Agent]) -> int:
    """Return a UDP port that is free on all machines."""
    ports = [_FIRST_PORT + place for place in random.SystemRandom().sample(range(_PORTS), _TRIED_PORTS)]
    for agent in agents:
        agent.ask("unbound", ports=ports)
    unbound = [set(agent.answer("ports")) for agent in agents]
    for port in ports:
        if all(port in there for there in unbound):
            return port
    raise ClusterError(f"none of {_TRIED_PORTS} UDP ports is free on all machines")


def machine_wires(experiment: Experiment, topology: Topology, place: Mapping[str, Agent]) -> MachineWires:
    """Return links of the experiment's kind between the machines of ``place``."""
    kind = MachineDatagrams if experiment.links == "udp" else MachineTunnels
    return kind(experiment, topology, place)


_MACHINE_BITS: Final = 48
"""bits of a seed below those that differ between machines"""
_NUMBERS: Final = 1 << 24
_FIRST_PORT: Final = 20_000
_PORTS: Final = 12_000
"""number of ports, all below the kernel's ephemeral range"""
_TRIED_PORTS: Final = 32


# The relays of a run: threads between the kernel's links that lose, delay and reorder frames.


def relay_faults(experiment: Experiment) -> Faults:
    """Return the faults that relays apply to frames."""
    return Faults(**experiment.faults.model_dump(), reorder_delay_ps=REORDER_DELAY_PS)


class RelaySights(Protocol):
    """The counts of a run's relays."""

    def check(self) -> None:
        """Raise ``FabricError`` if the relays have ended."""

    def links(self) -> dict[Hop, LinkCounters]:
        """Return the counts of the frames of each directed link."""

    def incidents(self) -> dict[Where, Incidents]:
        """Return losses and duplicates of first transmissions."""


class LinkRelays:
    """Relays for every link that is ``cut`` in two; does nothing without such links. Use as a context manager."""

    def __init__(self, topology: Topology, cut: Sequence[Relayed], faults: Faults, seed: int) -> None:
        self._topology = topology
        self._ends: list[tuple[Hop, Hop]] = [
            ((relayed.link.a, relayed.link.port_a), (relayed.link.b, relayed.link.port_b)) for relayed in cut
        ]
        delays = [relayed.link.delay_ps if relayed.link.delay_ps >= RELAYED_FROM_PS else 0 for relayed in cut]
        self._relays = Relays([(relayed.a, relayed.b) for relayed in cut], faults=faults, delay_ps=delays, seed=seed)

    def check(self) -> None:
        """Raise ``FabricError`` if the relays have ended."""
        self._relays.check()

    def links(self) -> dict[Hop, LinkCounters]:
        """Return the counts of the frames of each directed link."""
        sent = {}
        for pair, (a, b) in enumerate(self._ends):
            there, back = self._relays.directions(pair)
            sent[a], sent[b] = there.out.sent, back.out.sent
        return sent

    def incidents(self) -> dict[Where, Incidents]:
        """Return losses and duplicates of first transmissions."""
        return self._relays.incidents(self._ends, self._topology) if self._ends else {}

    def __enter__(self) -> Self:
        if self._ends:
            self._relays.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._ends:
            self._relays.stop()
