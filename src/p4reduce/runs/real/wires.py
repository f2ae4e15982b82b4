"""Links between hosts and switches in real time: veth pairs between namespaces, or datagrams on loopback."""

import secrets
import socket
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Protocol, Self

from p4reduce.network.real.io.path import PortSpec, Udp, Veth
from p4reduce.network.real.net import RealNetwork, here_command
from p4reduce.network.real.net.network import Carriers
from p4reduce.network.real.relay import Relays
from p4reduce.network.virtual import Incidents, LinkCounters, Where
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.inputs import link_faults
from p4reduce.runs.real.backend import SocketSpec
from p4reduce.topologies import Link, Topology
from p4reduce.topologies.model import Hop
from p4reduce.topologies.optical import Ends
from p4reduce.workers.wire import INC_UDP_PORT

UNSHAPED_FROM_BPS: Final = 10**10
"""Rates that software switches do not reach: such links are not held to them."""
RELAYED_FROM_PS: Final = 100_000_000
"""Delays below 0.1 ms are less than what processes add; longer ones are made by relays."""
REORDER_DELAY_PS: Final = 2_000_000_000
"""Reordered frames are late by up to 2 ms: about what a round trip takes between processes."""


Events = socket.socket | None
Socket = tuple[str, int]
"""IP address and UDP port."""


@dataclass(frozen=True)
class Relayed:
    """A link that is cut in two, with a relay between."""

    link: Link
    a: PortSpec
    """The relay's end towards node ``link.a``."""
    b: PortSpec


class Wires(Protocol):
    """Use as a context manager."""

    shaping: str
    """text that says what holds links to their rates"""

    def ports(self) -> dict[str, dict[int, PortSpec]]:
        """Ports of the embedded switches."""

    def relayed(self) -> list[Relayed]:
        """The links that relays carry; none where links do nothing to frames."""

    def socket(self, host: str) -> SocketSpec:
        """The socket by which a worker reaches its switch."""

    def cut(self) -> Collection[Ends]:
        """Links that are known to have gone down."""

    @property
    def events(self) -> Events:
        """Readable when :meth:`cut` may have something to say, until it was asked."""

    def start(self, host: str, argv: Sequence[str], options: Mapping[str, Any]) -> "subprocess.Popen[bytes]":
        """Start a program at a host; it dies with us."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def shaped_rates(experiment: Experiment, topology: Topology) -> dict[tuple[str, int], int]:
    """Rate in bit/s of each (node, port) whose link is to be held to it."""
    if experiment.unshaped:
        return {}
    return {
        end: link.rate_bps
        for link in topology.links
        if link.rate_bps < UNSHAPED_FROM_BPS
        for end in ((link.a, link.port_a), (link.b, link.port_b))
    }


def needs_relays(experiment: Experiment, topology: Topology) -> bool:
    """Whether links lose, reorder or delay frames: neither hosts nor BMv2 do that by themselves."""
    late = max(link.delay_ps for link in topology.links) >= RELAYED_FROM_PS
    return late or link_faults(experiment.faults).any


class VethWires:
    """Namespaces and veth pairs; this process must have been entered."""

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
        self.shaping = "none"
        if shape:
            own = experiment.target == "embedded"
            self.shaping = "kernel (tbf) at hosts, switches' own queues" if own else "kernel (tbf)"

    def ports(self) -> dict[str, dict[int, PortSpec]]:
        """Switch ends of the pairs, past the kernel's shaping: embedded switches keep to rates themselves."""
        found = self.network.switch_interfaces
        return {switch: {port: Veth(name) for port, name in own.items()} for switch, own in found.items()}

    def relayed(self) -> list[Relayed]:
        """Pairs of interfaces in this namespace."""
        return [Relayed(one.link, Veth(one.a_interface), Veth(one.b_interface)) for one in self.network.relays]

    def socket(self, host: str) -> SocketSpec:
        """The kernel's own IP stack."""
        return SocketSpec(local=(self.network.topology.node(host).ip_text, INC_UDP_PORT))

    def cut(self) -> Collection[Ends]:
        """Links whose interface at a switch has lost its carrier."""
        down = self._carriers.down() if self._carriers else ()
        return {self._ends[name] for name in down}

    @property
    def events(self) -> Events:
        """The kernel's, of interfaces."""
        return self._carriers.events if self._carriers else None

    def start(self, host: str, argv: Sequence[str], options: Mapping[str, Any]) -> "subprocess.Popen[bytes]":
        """Start it in the host's namespace."""
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


class UdpWires:
    """A pair of UDP sockets for each link, or one on each side of its relay, at an address that this run alone has."""

    def __init__(self, experiment: Experiment, topology: Topology) -> None:
        self._topology = topology
        self._rates = shaped_rates(experiment, topology)
        self.shaping = "hosts' and switches' own queues" if self._rates else "none"
        self._pairs: dict[tuple[str, int], tuple[Socket, Socket]] = {}
        self._relayed: list[Relayed] = []
        address = f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"
        with ExitStack() as reserved:  # all at once, so that none is given out twice

            def free() -> Socket:
                one = reserved.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                one.bind((address, 0))
                found: Socket = one.getsockname()
                return found

            for link in topology.links:
                a, b = free(), free()
                to_a, to_b = (free(), free()) if needs_relays(experiment, topology) else (b, a)
                self._pairs[link.a, link.port_a] = (a, to_a)
                self._pairs[link.b, link.port_b] = (b, to_b)
                if to_a != b:
                    self._relayed.append(Relayed(link, Udp(to_a, a), Udp(to_b, b)))

    def ports(self) -> dict[str, dict[int, PortSpec]]:
        """A datagram port for each link of a switch."""
        found: dict[str, dict[int, PortSpec]] = {switch.name: {} for switch in self._topology.switches}
        for (node, port), (local, remote) in self._pairs.items():
            if node in found:
                found[node][port] = Udp(local, remote)
        return found

    def relayed(self) -> list[Relayed]:
        """Pairs of sockets."""
        return self._relayed

    def socket(self, host: str) -> SocketSpec:
        """A socket that carries whole frames in datagrams."""
        local, remote = self._pairs[host, 1]
        return SocketSpec(local=local, remote=remote, rate_bps=self._rates.get((host, 1), 0))

    def cut(self) -> Collection[Ends]:
        """Datagrams have no carrier."""
        return ()

    @property
    def events(self) -> Events:
        """None."""
        return None

    def start(self, host: str, argv: Sequence[str], options: Mapping[str, Any]) -> "subprocess.Popen[bytes]":
        """Start it beside us."""
        return subprocess.Popen(here_command(argv), **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return


def open_wires(experiment: Experiment, topology: Topology, name: str) -> Wires:
    """The wires that the experiment names."""
    return UdpWires(experiment, topology) if experiment.links == "udp" else VethWires(experiment, topology, name)


# The relays of a run: what links of the topology do to frames, done by processes between the kernel's links.


class LinkRelays:
    """Carries every link that the wires left cut in two. A context manager; does nothing where there is none."""

    def __init__(self, experiment: Experiment, topology: Topology, wires: Wires) -> None:
        self._topology = topology
        cut = wires.relayed()
        self._ends: list[tuple[Hop, Hop]] = [
            ((one.link.a, one.link.port_a), (one.link.b, one.link.port_b)) for one in cut
        ]
        delays = [one.link.delay_ps if one.link.delay_ps >= RELAYED_FROM_PS else 0 for one in cut]
        self._relays = Relays(
            [(one.a, one.b) for one in cut],
            faults=link_faults(experiment.faults, reorder_delay_ps=REORDER_DELAY_PS),
            delay_ps=delays,
            seed=experiment.seed,
        )

    def check(self) -> None:
        """Raise ``FabricError`` when the relays have ended."""
        self._relays.check()

    def links(self) -> dict[Hop, LinkCounters]:
        """Counts of the frames of each directed link."""
        found = {}
        for pair, (a, b) in enumerate(self._ends):
            there, back = self._relays.directions(pair)
            found[a], found[b] = there.out.sent, back.out.sent
        return found

    def incidents(self) -> dict[Where, Incidents]:
        """Losses and duplicates of first transmissions."""
        return self._relays.incidents(self._ends, self._topology) if self._ends else {}

    def __enter__(self) -> Self:
        if self._ends:
            self._relays.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._ends:
            self._relays.stop()
