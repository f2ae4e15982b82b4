"""A topology in network namespaces: the switches' ends of all links in ours, each host in one of its own."""

import functools
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

from p4reduce.network.real.errors import RealError
from p4reduce.network.real.net import interfaces
from p4reduce.network.real.net.enter import ENTERED, identity, is_entered, join_command
from p4reduce.network.real.net.interfaces import Shaping, shape
from p4reduce.network.real.net.namespaces import inside, new_namespace, start
from p4reduce.topologies import Link, Node, Topology

HOST_INTERFACE: Final = "eth0"
NETWORK: Final = "10.0.0.0/8"
"""hosts and switches; docs/architecture.md"""
DEFAULT_QUEUE_FRAMES: Final = 1024
_FIRST_INDEX: Final = 1000
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+\Z")


@dataclass(frozen=True)
class RelayedLink:
    """A link in two halves; who relays forwards frames between the two interfaces, both in the switches' namespace."""

    link: Link
    a_interface: str
    """leads to node ``link.a``"""
    b_interface: str
    """leads to node ``link.b``"""


class RealNetwork:
    """The hosts and links of a topology, for the process that :func:`~p4reduce.network.real.net.enter_command` started.

    Built by ``with``; afterwards nothing is left. What runs in the hosts dies with the thread that started it.

    Parameters
    ----------
    topology : Topology
        Its switches become names of interfaces here; what is behind them is up to the caller.
    name : str
        Name of the run, which interfaces carry as alias.
    shape : bool
        Hold each direction of each link to its rate, at the sender.
    relayed : bool
        Make each link of two halves, see ``relays``.
    queue_frames : int
        Full frames that wait at most at a shaped interface; one more is lost.

    Raises
    ------
    RealError
        When the process was not entered, or the kernel refuses; the text says what to do.
    """

    host_interface: Final = HOST_INTERFACE

    def __init__(
        self,
        topology: Topology,
        *,
        name: str,
        shape: bool = False,
        relayed: bool = False,
        queue_frames: int = DEFAULT_QUEUE_FRAMES,
    ) -> None:
        self.topology = topology
        self.name = name
        self.switch_interfaces: dict[str, dict[int, str]] = {switch.name: {} for switch in topology.switches}
        self.relays: list[RelayedLink] = []
        self.shaping = Shaping(0, 2 * len(topology.links))
        self._shape = shape
        self._relayed = relayed
        self._queue_frames = queue_frames
        self._alias = f"p4reduce {name}"
        self._namespaces: dict[str, int] = {}
        self._made: list[str] = []

    def __enter__(self) -> "RealNetwork":
        if not is_entered():
            raise RealError("a network is built only in namespaces of its own: start the program by enter_command()")
        try:
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove links and namespaces; may be called again."""
        with interfaces.netlink() as route:
            for name in self._made:
                for index in route.link_lookup(ifname=name):
                    route.link("del", index=index)  # its peer goes with it
        self._made.clear()
        for descriptor in self._namespaces.values():
            os.close(descriptor)
        self._namespaces.clear()

    def namespace(self, host: str) -> str:
        """A path that stands for a host's network namespace while this process lives, for setns(2) or nsenter(1)."""
        try:
            return f"/proc/{os.getpid()}/fd/{self._namespaces[host]}"
        except KeyError:
            hosts = ", ".join(self._namespaces)
            raise RealError(f"topology {self.topology.name!r} has no host {host!r}: its hosts are {hosts}") from None

    def popen(self, host: str, argv: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
        """Start a program in a host; ``options`` are those of :class:`subprocess.Popen`.

        Only the main thread may, see :func:`~p4reduce.network.real.net.namespaces.start`. A program that is not there
        ends with exit code 127.
        """
        net = self.namespace(host)
        environment = {**(options.pop("env", None) or os.environ), ENTERED: identity(net)}
        return start(join_command(argv, net), env=environment, **options)

    def _build(self) -> None:
        interfaces.without_ipv6()
        with interfaces.netlink() as route:
            interfaces.bring_up(route, "lo")
            for node in self.topology.hosts:
                self._namespaces[node.name] = new_namespace()
            for number, link in enumerate(self.topology.links):
                self._build_link(route, number, link)
            for node in self.topology.hosts:
                inside(self._namespaces[node.name], functools.partial(self._set_up_host, node))
            interfaces.wait_until_up(route)
        for namespace in self._namespaces.values():
            inside(namespace, _wait_until_up)

    def _build_link(self, route: Any, number: int, link: Link) -> None:
        ends = ((link.a, link.port_a), (link.b, link.port_b))
        if not self._relayed:
            if self.topology.node(link.a).is_host:
                ends = ends[::-1]
            (switch, port), (other, other_port) = ends
            own = self._switch_interface(switch, port)
            self._pair(route, own, other, other_port)
            self._set_up_port(route, own, link)
            return
        halves = []
        for letter, (node, port) in zip("ab", ends, strict=True):
            half = f"relay{number}{letter}"
            self._pair(route, half, node, port)
            interfaces.bring_up(route, half)
            halves.append(half)
        self.relays.append(RelayedLink(link, *halves))

    def _pair(self, route: Any, own: str, other: str, other_port: int) -> None:
        """A veth pair from an interface here to a host, or to a port of a switch."""
        number = _FIRST_INDEX + 2 * len(self._made)
        self._made.append(own)
        if other in self._namespaces:
            space = self._namespaces[other]
            interfaces.add_veth(route, number, own, HOST_INTERFACE, peer_namespace=space, alias=self._alias)
            return
        peer = self._switch_interface(other, other_port)
        interfaces.add_veth(route, number, own, peer, alias=self._alias)
        self._set_up_port(route, peer, self.topology.link_at(other, other_port))

    def _switch_interface(self, switch: str, port: int) -> str:
        """Remember the name of a port's interface: 'leaf1-3' where the kernel takes it, 's2-3' by index otherwise."""
        name = f"{switch}-{port}"
        if any(
            len(f"{node.name}-999") > interfaces.MAX_NAME or not _PLAIN_NAME.match(node.name)
            for node in self.topology.switches
        ):
            name = f"s{self.topology.node(switch).index + 1}-{port}"
        self.switch_interfaces[switch][port] = name
        return name

    def _set_up_port(self, route: Any, name: str, link: Link) -> None:
        self._shape_end(route, interfaces.bring_up(route, name), link)

    def _set_up_host(self, node: Node) -> None:
        link = self.topology.link_at(node.name, 1)
        gateway = self.topology.node(link.other(node.name))
        interfaces.without_ipv6()
        with interfaces.netlink() as route:
            interfaces.bring_up(route, "lo")
            index = interfaces.bring_up(route, HOST_INTERFACE, mac=node.mac_text)
            interfaces.add_host_address(
                route,
                index,
                own=node.ip_text,
                gateway=gateway.ip_text,
                gateway_mac=gateway.mac_text,
                network=NETWORK,
            )
            self._shape_end(route, index, link)

    def _shape_end(self, route: Any, index: int, link: Link) -> None:
        if self._shape and shape(route, index, link.rate_bps, self._queue_frames):
            self.shaping = Shaping(self.shaping.shaped + 1, self.shaping.unshaped - 1)


def _wait_until_up() -> None:
    with interfaces.netlink() as route:
        interfaces.wait_until_up(route)
