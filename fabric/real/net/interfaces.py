"""Interfaces of one network namespace through netlink: veth pairs, addresses, no offloads, shaping.

Every function works in the namespace of the thread that calls it.
"""

import array
import contextlib
import errno
import fcntl
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from p4reduce.fabric.real.errors import RealError

MTU: Final = 1500
MAX_NAME: Final = 15
"""bytes of an interface's name (IFNAMSIZ without the closing zero)"""
UP_DEADLINE_S: Final = 30.0
_POLL_S: Final = 0.002
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
"""Commands of ethtool (linux/ethtool.h) that switch something on or off."""


@contextlib.contextmanager
def netlink() -> Iterator[Any]:
    """A netlink socket; what the kernel refuses becomes a :class:`RealError`."""
    try:
        with IPRoute() as route:
            yield route
    except NetlinkError as error:
        raise RealError(_explain(error)) from error


def add_veth(
    route: Any, index: int, name: str, peer: str, *, peer_namespace: int | None = None, alias: str = ""
) -> None:
    """A veth pair: ``name`` here, ``peer`` here or in another namespace (a file descriptor). Both are down.

    ``index`` is the kernel's number of ``name``. Where it equals that of a peer in another namespace, the kernel takes
    the two for no pair and notices up to a second late that the link is up.
    """
    other: dict[str, Any] = {"ifname": peer, "mtu": MTU}
    if peer_namespace is not None:
        other["net_ns_fd"] = peer_namespace
    route.link("add", index=index, ifname=name, kind="veth", peer=other, mtu=MTU, ifalias=alias)


def bring_up(route: Any, name: str, *, mac: str | None = None) -> int:
    """Switch an interface on, its offloads off, and return its index.

    Offloads would show a switch segments of 64 kB and packets without checksums: nothing that a link carries.
    """
    index = index_of(route, name)
    _no_offloads(name)
    route.link("set", index=index, state="up", **({"address": mac} if mac else {}))
    return index


def wait_until_up(route: Any) -> None:
    """Wait until every interface of this namespace carries frames; before, the kernel drops what is sent.

    A carrier is there at once, but the kernel acts on it a little later: that is what the operational state shows.
    """
    deadline = time.monotonic() + UP_DEADLINE_S
    while waiting := [name for link in route.get_links() if (name := _not_ready(link))]:
        if time.monotonic() > deadline:
            raise RealError(f"the kernel took more than {UP_DEADLINE_S:g} s to bring up {', '.join(waiting)}")
        time.sleep(_POLL_S)


def _not_ready(link: Any) -> str | None:
    """The name of an interface that was brought up and does not work yet."""
    name = str(link.get_attr("IFLA_IFNAME"))
    ready = link["state"] != "up" or name == "lo" or link.get_attr("IFLA_OPERSTATE") == "UP"
    return None if ready else name


def index_of(route: Any, name: str) -> int:
    """The kernel's number of an interface."""
    found = route.link_lookup(ifname=name)
    if not found:
        raise RealError(f"there is no interface {name!r}")
    return int(found[0])


def without_ipv6() -> None:
    """No IPv6 in this namespace: nothing but what is sent on purpose crosses a link."""
    for which in ("all", "default"):
        path = Path(f"/proc/sys/net/ipv6/conf/{which}/disable_ipv6")
        if path.exists():  # the kernel may have none
            path.write_text("1")


def add_host_address(route: Any, index: int, *, own: str, gateway: str, gateway_mac: str, network: str) -> None:
    """Address and routes of a host without ARP: whatever is in ``network`` goes to ``gateway``, whose MAC is known."""
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
                if error.errno != errno.EOPNOTSUPP:  # what cannot be switched on needs not be switched off
                    raise


def _explain(error: NetlinkError) -> str:
    code = int(error.code)
    text = f"the kernel refused to build the network: {os.strerror(code)}"
    if code == errno.EOPNOTSUPP:
        return f"{text}; it has no veth interfaces: 'modprobe veth' (as root), or another kernel"
    if code in (errno.EPERM, errno.EACCES):
        return f"{text}; 'p4reduce doctor' says what is allowed here"
    return text
