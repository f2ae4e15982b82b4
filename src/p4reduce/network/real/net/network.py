"""A topology in network namespaces: the switches' ends of all links in ours, each host in a separate one."""

import array
import contextlib
import errno
import fcntl
import functools
import os
import re
import socket
import struct
import subprocess
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from p4reduce.base.errors import RealError
from p4reduce.network.real.net.enter import ENTERED, identity, is_entered, join_command
from p4reduce.network.real.net.namespaces import inside, new_namespace, start
from p4reduce.topologies import Link, Node, Topology
from p4switch.base.closing import Closable

if TYPE_CHECKING:
    from pyroute2.netlink.exceptions import NetlinkError

# Detection of interfaces without carrier: the kernel reports changes, and only then are the interfaces read.


_RTMGRP_LINK: Final = 1
_SIOCGIFFLAGS: Final = 0x8913
_IFF_RUNNING: Final = 0x40
_REQUEST: Final = struct.Struct("16sH22x")
"""struct ifreq of netdevice(7): a name, and flags."""
_EVENT_BYTES: Final = 1 << 16


class Carriers(Closable):
    """Monitor of interfaces' carriers, in the namespace of the thread that makes it. Use as a context manager."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = set(names)
        self._down: set[str] = set()
        self._events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
        self._any = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)  # socket for the ioctl
        try:
            self._events.bind((0, _RTMGRP_LINK))
        except OSError as error:
            self.close()
            raise RealError(f"changes of interfaces cannot be heard of: {error.strerror}") from error

    @property
    def events(self) -> socket.socket:
        """Socket that is readable after a change, until :meth:`down` is called."""
        return self._events

    def down(self) -> frozenset[str]:
        """Return the interfaces that have been without a carrier at any time, or that are gone."""
        if self._changed():
            self._down |= {name for name in self._names - self._down if not self._runs(name)}
        return frozenset(self._down)

    def close(self) -> None:
        """Close the sockets; may be called again."""
        self._events.close()
        self._any.close()

    def _changed(self) -> bool:
        """Read all pending events; return whether anything changed. An overflow counts as a change."""
        changed = False
        while True:
            try:
                self._events.recv(_EVENT_BYTES)
            except BlockingIOError:
                return changed
            except OSError:  # ENOBUFS
                return True
            changed = True

    def _runs(self, name: str) -> bool:
        request = _REQUEST.pack(name.encode(), 0)
        try:
            _, flags = _REQUEST.unpack(fcntl.ioctl(self._any, _SIOCGIFFLAGS, request))
        except OSError:
            return False
        return bool(flags & _IFF_RUNNING)


MTU: Final = 1500
MAX_NAME: Final = 15
"""Bytes of an interface's name (IFNAMSIZ without the closing zero)."""
UP_DEADLINE_S: Final = 30.0
_POLL_S: Final = 0.002
_ANY_PORT: Final = 4789
_NOPREFIXROUTE: Final = 0x200
_SIOCETHTOOL: Final = 0x8946
_OFFLOADS: Final = {
    "rx checksums": 0x15,
    "tx checksums": 0x17,
    "scatter-gather": 0x19,
    "TSO": 0x1F,
    "GSO": 0x24,
    "GRO": 0x2C,
}
"""Commands of ethtool (linux/ethtool.h) that switch an offload on or off."""


# Interfaces of one network namespace through netlink: veth pairs, addresses, disabled offloads, shaping.
#
# Every function works in the namespace of the calling thread.


@contextlib.contextmanager
def netlink() -> Iterator[Any]:
    """Open a netlink socket; raise :class:`RealError` for the kernel's refusals."""
    from pyroute2 import IPRoute  # noqa: PLC0415  (a fifth of a second, which runs over UDP do not need)
    from pyroute2.netlink.exceptions import NetlinkError  # noqa: PLC0415

    try:
        with IPRoute() as route:
            yield route
    except NetlinkError as error:
        raise RealError(_explain(error)) from error


def add_veth(
    route: Any, index: int, name: str, peer: str, *, peer_namespace: int | None = None, alias: str = "", mtu: int = MTU
) -> None:
    """Add a veth pair: ``name`` here, ``peer`` here or in another namespace (a file descriptor). Both are down.

    ``index`` is the kernel's number of ``name``. If it equals that of a peer in another namespace, the kernel does not
    treat the two as a pair and notices up to a second late that the link is up.
    """
    other: dict[str, Any] = {"ifname": peer, "mtu": mtu}
    if peer_namespace is not None:
        other["net_ns_fd"] = peer_namespace
    route.link("add", index=index, ifname=name, kind="veth", peer=other, mtu=mtu, ifalias=alias)


VXLAN_BYTES: Final = 36
"""Bytes before a frame: headers of IPv4, UDP and VXLAN."""
ETHERNET_BYTES: Final = 14


@dataclass(frozen=True)
class Tunnel:
    """One end of a link between two machines: a VXLAN device (RFC 7348) whose only peer is the other end."""

    link: int
    """Index of the link in its topology."""
    local: str
    """IPv4 address of this machine."""
    remote: str
    port: int
    """UDP port, the same at both ends."""
    number: int
    """VXLAN network identifier, 24 bits, unique to the link."""


def add_tunnel(route: Any, name: str, tunnel: Tunnel, namespace: int, *, alias: str = "", mtu: int = MTU) -> None:
    """Add a VXLAN device in a ``namespace`` (a file descriptor); its datagrams use the calling thread's namespace."""
    route.link(
        "add",
        ifname=name,
        kind="vxlan",
        vxlan_id=tunnel.number,
        vxlan_local=tunnel.local,
        vxlan_group=tunnel.remote,
        vxlan_port=tunnel.port,
        vxlan_learning=0,
        net_ns_fd=namespace,
        mtu=mtu,
        ifalias=alias,
    )


def why_no_tunnels() -> str | None:
    """Return why this process cannot make VXLAN devices between its network and a new namespace; None if it can."""
    try:
        with netlink() as route, _held(new_namespace()) as namespace:
            add_tunnel(route, "try", Tunnel(0, "127.0.0.1", "127.0.0.2", _ANY_PORT, 1), namespace)
    except (OSError, RealError) as error:
        cause = error.__cause__ or error
        number = error.errno if isinstance(error, OSError) else getattr(cause, "code", 0)
        if number in (errno.EPERM, errno.EACCES):
            return "links between machines are VXLAN devices, which only root may make (CAP_NET_ADMIN, CAP_SYS_ADMIN)"
        if number == errno.EOPNOTSUPP:
            return "the kernel has no VXLAN devices: 'modprobe vxlan' (as root), or another kernel"
        return f"VXLAN devices: {error}"
    return None


@contextlib.contextmanager
def _held(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def bring_up(route: Any, name: str, *, mac: str | None = None) -> int:
    """Switch an interface on, its offloads off, and return its index.

    Offloads would show a switch segments of 64 kB and packets without checksums, which no link carries.
    """
    index = index_of(route, name)
    _no_offloads(name)
    route.link("set", index=index, state="up", **({"address": mac} if mac else {}))
    return index


def wait_until_up(route: Any) -> None:
    """Wait until every interface of this namespace carries frames; before, the kernel drops frames that are sent.

    The carrier is there at once, but the kernel acts on it a little later, as the operational state shows.
    """
    deadline = time.monotonic() + UP_DEADLINE_S
    while waiting := [name for link in route.get_links() if (name := _not_ready(link))]:
        if time.monotonic() > deadline:
            raise RealError(f"the kernel took more than {UP_DEADLINE_S:g} s to bring up {', '.join(waiting)}")
        time.sleep(_POLL_S)


def _not_ready(link: Any) -> str | None:
    """Return the name of an interface that was brought up and does not work yet; None if it works."""
    name = str(link.get_attr("IFLA_IFNAME"))
    ready = link["state"] != "up" or name == "lo" or link.get_attr("IFLA_OPERSTATE") == "UP"
    about = link.get_attr("IFLA_LINKINFO")
    tunnel = about is not None and about.get_attr("IFLA_INFO_KIND") == "vxlan"  # the kernel reports no state of tunnels
    return None if ready or tunnel else name


def index_of(route: Any, name: str) -> int:
    """Return the kernel's number of an interface."""
    numbers = route.link_lookup(ifname=name)
    if not numbers:
        raise RealError(f"there is no interface {name!r}")
    return int(numbers[0])


def without_ipv6() -> None:
    """Disable IPv6 in this namespace, so that only intended frames cross a link."""
    for which in ("all", "default"):
        path = Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6")
        if path.exists():  # the kernel may have none
            path.write_text("1")


def add_host_address(route: Any, index: int, *, own: str, gateway: str, gateway_mac: str, network: str) -> None:
    """Add a host's address and routes without ARP: all of ``network`` goes to ``gateway``, whose MAC is known."""
    prefix = int(network.split("/")[1])
    route.addr("add", index=index, address=own, prefixlen=prefix, flags=_NOPREFIXROUTE)
    route.neigh("add", dst=gateway, lladdr=gateway_mac, ifindex=index, state="permanent")
    route.route("add", dst=network, gateway=gateway, oif=index, prefsrc=own, flags="onlink")


def _no_offloads(name: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in _OFFLOADS.values():
            value = array.array("I", [command, 0])
            request = struct.pack("16sP", name.encode(), value.buffer_info()[0])
            try:
                fcntl.ioctl(control, _SIOCETHTOOL, request)
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:  # an offload that cannot be switched on needs no switching off
                    raise


def _explain(error: "NetlinkError") -> str:
    code = int(error.code)
    text = f"the kernel refused to build the network: {os.strerror(code)}"
    if code == errno.EOPNOTSUPP:
        return f"{text}; it has no veth interfaces: 'modprobe veth' (as root), or another kernel"
    if code in (errno.EPERM, errno.EACCES):
        return f"{text}; 'p4reduce doctor' says what is allowed here"
    return text


# Links shaped to their rate by the kernel's token bucket (tbf, tc-tbf(8)) at the sending interface.
#
# A frame is charged as in virtual time: 24 bytes of preamble, frame check sequence and gap on top, and at least 84. The
# bucket holds 5 ms, so that a late timer of a busy machine costs no rate (with 1 ms, a tenth of it was lost). The
# kernel does not delay frames: netem is not part of every kernel, so our ports and relays delay them, in the same way
# on all kernels.


KIND: Final = "tbf"
OVERHEAD_BYTES: Final = 24
LEAST_BYTES: Final = 84
MAX_RATE_BPS: Final = 8 * (2**32 - 1)
"""Highest shaped rate; a faster link needs no bucket: software does not reach 34 Gb/s on a veth pair."""
_FRAME_BYTES: Final = MTU + 14
_BUCKET_NS: Final = 5_000_000
_LINKLAYER_ETHERNET: Final = 1
_TICK_SHIFT: Final = 6
"""Shift of the kernel's unit of bucket sizes, 64 ns."""


@dataclass(frozen=True)
class Shaping:
    """Shaping of a network's links by the kernel."""

    shaped: int
    """Directions of links that are held to their rate."""
    unshaped: int
    """Directions that are not: not requested, or faster than :data:`MAX_RATE_BPS`."""
    delays: bool = False
    """Whether the kernel delays frames; always False, see above."""


def shape(route: Any, index: int, rate_bps: int, queue_frames: int) -> bool:
    """Limit what an interface sends to ``rate_bps``, with a queue for ``queue_frames`` full frames.

    Return whether a bucket was needed. Raise :class:`RealError` when the kernel has none.
    """
    from pyroute2.netlink import NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST  # noqa: PLC0415  (as above)
    from pyroute2.netlink.exceptions import NetlinkError  # noqa: PLC0415
    from pyroute2.netlink.rtnl import RTM_NEWQDISC, TC_H_ROOT  # noqa: PLC0415
    from pyroute2.netlink.rtnl.tcmsg import tcmsg  # noqa: PLC0415

    if rate_bps > MAX_RATE_BPS:
        return False
    bucket_ns = max(_BUCKET_NS, 2 * (_FRAME_BYTES + OVERHEAD_BYTES) * 8 * 10**9 // rate_bps)
    parameters = {
        "rate_cell_log": 0,
        "rate___reserved": _LINKLAYER_ETHERNET,  # tells the kernel to compute times itself, without a table
        "rate_overhead": OVERHEAD_BYTES,
        "rate_mpu": LEAST_BYTES,
        "rate": max(1, rate_bps // 8),
        "limit": min(queue_frames * _FRAME_BYTES, 2**32 - 1),
        "buffer": bucket_ns >> _TICK_SHIFT,
    }
    message = tcmsg()
    message["index"] = index
    message["parent"] = TC_H_ROOT
    message["handle"] = 0x10000
    message["attrs"] = [
        ("TCA_KIND", KIND),
        ("TCA_OPTIONS", {"attrs": [("TCA_TBF_PARMS", parameters)]}),
    ]
    try:
        # route.tc() leaves out overhead and mpu, so the message is built here.
        route.status["nlm_generator"] = False  # pyroute2 0.9 reads this and does not set it
        route.nlm_request(message, RTM_NEWQDISC, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL)
    except NetlinkError as error:
        if error.code == errno.ENOENT:
            raise RealError("the kernel cannot shape links: 'modprobe sch_tbf' (as root), or run unshaped") from error
        raise
    return True


HOST_INTERFACE: Final = "eth0"
NETWORK: Final = "10.0.0.0/8"
"""Network of hosts and switches; docs/architecture.md."""
DEFAULT_QUEUE_FRAMES: Final = 1024
_FIRST_INDEX: Final = 1000
_OWN_NET: Final = "/proc/thread-self/ns/net"
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+\Z")


@dataclass(frozen=True)
class Section:
    """Part of a topology that is on this machine."""

    nodes: Collection[str]
    tunnels: Collection[Tunnel]
    """Tunnels of the links with one end here. Their relays, if any, are where their first ends are."""
    outside: int
    """Network namespace of the machine, a file descriptor."""
    mtu: int = MTU
    """Bytes, of all interfaces: what tunnels hold."""


@dataclass(frozen=True)
class RelayedLink:
    """A link in two halves; a relay forwards frames between the two interfaces, both in the switches' namespace."""

    link: Link
    a_interface: str
    """Interface that leads to node ``link.a``."""
    b_interface: str
    """Interface that leads to node ``link.b``."""


class RealNetwork(Closable):
    """The hosts and links of a topology, for a process started by :func:`~p4reduce.network.real.net.enter_command`.

    Built by ``with``; afterwards nothing is left. Programs in the hosts die with the thread that started them.

    Parameters
    ----------
    topology : Topology
        Its switches become names of interfaces here; the caller runs the switches behind them.
    name : str
        Name of the run, which interfaces carry as alias.
    shape : bool
        Hold each direction of each link to its rate, at the sender.
    relayed : bool
        Make each link of two halves, see ``relays``.
    queue_frames : int
        Most full frames that wait at a shaped interface; further ones are lost.
    section : Section or None
        Part to build; None: all of it.

    Raises
    ------
    RealError
        When the process was not started by ``enter_command``, or the kernel refuses; the text gives the fix.
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
        section: Section | None = None,
    ) -> None:
        self.topology = topology
        self.name = name
        self._section = section or Section([node.name for node in topology.nodes], (), -1)
        self._tunnels = {tunnel.link: tunnel for tunnel in self._section.tunnels}
        here = self._section.nodes
        self.switch_interfaces: dict[str, dict[int, str]] = {
            switch.name: {} for switch in topology.switches if switch.name in here
        }
        self.relays: list[RelayedLink] = []
        ends = [end for link in topology.links for end in (link.a, link.b) if end in here]
        self.shaping = Shaping(0, len(ends))
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

    def close(self) -> None:
        """Remove links and namespaces; may be called again."""
        with netlink() as route:
            for name in self._made:
                for index in route.link_lookup(ifname=name):
                    route.link("del", index=index)  # its peer goes with it
        self._made.clear()
        for descriptor in self._namespaces.values():
            os.close(descriptor)
        self._namespaces.clear()

    @property
    def hosts(self) -> list[Node]:
        """Hosts in this section."""
        return [node for node in self.topology.hosts if node.name in self._section.nodes]

    def namespace(self, host: str) -> str:
        """Return a path of a host's network namespace, valid while this process lives, for setns(2) or nsenter(1)."""
        try:
            return f"/proc/{os.getpid()}/fd/{self._namespaces[host]}"
        except KeyError:
            hosts = ", ".join(self._namespaces)
            raise RealError(f"topology {self.topology.name!r} has no host {host!r}: its hosts are {hosts}") from None

    def popen(self, host: str, argv: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
        """Start a program in a host; ``options`` are those of :class:`subprocess.Popen`.

        Only the main thread may, see :func:`~p4reduce.network.real.net.namespaces.start`. A missing program gives exit
        code 127.
        """
        net = self.namespace(host)
        environment = {**(options.pop("env", None) or os.environ), ENTERED: identity(net)}
        return start(join_command(argv, net), env=environment, **options)

    def _build(self) -> None:
        without_ipv6()
        with netlink() as route:
            bring_up(route, "lo")
            for node in self.hosts:
                self._namespaces[node.name] = new_namespace()
            for number, link in enumerate(self.topology.links):
                self._build_link(route, number, link)
            for node in self.hosts:
                inside(self._namespaces[node.name], functools.partial(self._set_up_host, node))
            wait_until_up(route)
        for namespace in self._namespaces.values():
            inside(namespace, _wait_until_up)

    def _build_link(self, route: Any, number: int, link: Link) -> None:
        ends = ((link.a, link.port_a), (link.b, link.port_b))
        there = [node in self._section.nodes for node, _ in ends]
        if not any(there):
            return
        if not self._relayed:
            if not all(there):
                self._tunnel_to(route, number, *ends[there.index(True)])
                return
            if self.topology.node(link.a).is_host:
                ends = ends[::-1]
            (switch, port), (other, other_port) = ends
            own = self._switch_interface(switch, port)
            self._pair(route, own, other, other_port)
            self._set_up_port(route, own, link)
            return
        if not there[0]:
            self._tunnel_to(route, number, *ends[1])
            return
        halves = []
        for letter, (node, port), here in zip("ab", ends, there, strict=True):
            half = f"relay{number}{letter}"
            if here:
                self._pair(route, half, node, port)
            else:
                self._tunnel(number, half)
            bring_up(route, half)
            halves.append(half)
        self.relays.append(RelayedLink(link, *halves))

    def _tunnel_to(self, route: Any, number: int, node: str, port: int) -> None:
        """Build the local end of a link whose other end is on another machine."""
        if node in self._namespaces:
            self._tunnel(number, HOST_INTERFACE, self._namespaces[node])
            return
        name = self._switch_interface(node, port)
        self._tunnel(number, name)
        self._set_up_port(route, name, self.topology.links[number])

    def _tunnel(self, number: int, name: str, namespace: int | None = None) -> None:
        """Build a link's tunnel, in a host's namespace or here, from the outer namespace that carries its datagrams."""
        section, tunnel = self._section, self._tunnels[number]

        def add(into: int) -> None:
            with netlink() as route:
                add_tunnel(route, name, tunnel, into, alias=self._alias, mtu=section.mtu)

        if namespace is not None:
            inside(section.outside, functools.partial(add, namespace))
            return
        with _held(os.open(_OWN_NET, os.O_RDONLY | os.O_CLOEXEC)) as own:
            inside(section.outside, functools.partial(add, own))
        self._made.append(name)

    def _pair(self, route: Any, own: str, other: str, other_port: int) -> None:
        """Build a veth pair from an interface here to a host, or to a port of a switch."""
        number = _FIRST_INDEX + 2 * len(self._made)
        self._made.append(own)
        if other in self._namespaces:
            space = self._namespaces[other]
            add_veth(route, number, own, HOST_INTERFACE, peer_namespace=space, alias=self._alias, mtu=self._section.mtu)
            return
        peer = self._switch_interface(other, other_port)
        add_veth(route, number, own, peer, alias=self._alias, mtu=self._section.mtu)
        self._set_up_port(route, peer, self.topology.link_at(other, other_port))

    def _switch_interface(self, switch: str, port: int) -> str:
        """Record and return the name of a port's interface: 'leaf1-3' if the kernel takes it, otherwise 's2-3'."""
        name = f"{switch}-{port}"
        if any(
            len(f"{node.name}-999") > MAX_NAME or not _PLAIN_NAME.match(node.name) for node in self.topology.switches
        ):
            name = f"s{self.topology.node(switch).index + 1}-{port}"
        self.switch_interfaces[switch][port] = name
        return name

    def _set_up_port(self, route: Any, name: str, link: Link) -> None:
        self._shape_end(route, bring_up(route, name), link)

    def _set_up_host(self, node: Node) -> None:
        link = self.topology.link_at(node.name, 1)
        gateway = self.topology.node(link.other(node.name))
        without_ipv6()
        with netlink() as route:
            bring_up(route, "lo")
            index = bring_up(route, HOST_INTERFACE, mac=node.mac_text)
            add_host_address(
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
    with netlink() as route:
        wait_until_up(route)
