"""What links of a network in real time have carried, as far as somebody counts it anyway."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from p4reduce.fabric.counters import LinkCounters
from p4reduce.fabric.real.net.interfaces import netlink
from p4reduce.fabric.real.switches import RealSwitches
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

Interfaces = Mapping[str, Mapping[int, str]]
"""of the ports of each switch, in this network namespace"""
COUNTS: Final = Path("/proc/self/net/dev")


class LinkSight(NamedTuple):
    """One direction of a link; None: nobody counts it.

    bytes: of frames without FCS; queue: frames that wait now; lost: on the link; dropped: found no room; resent: frames
    of INC that were sent again.
    """

    bytes: int
    frames: int
    queue: int | None = None
    queue_max: int | None = None
    lost: int | None = None
    dropped: int | None = None
    resent: int | None = None


LinkSights = dict[Hop, LinkSight]


def of_ports(switches: RealSwitches, topology: Topology) -> LinkSights:
    """As embedded switches count at their ports: what leaves, and what comes from hosts."""
    found: LinkSights = {}
    hosts = {host.name for host in topology.hosts}
    for (switch, port), seen in switches.port_counters().items():
        sent = seen.sent
        lost = sent.lost + sent.corrupted
        found[switch, port] = LinkSight(
            sent.bytes, sent.frames, seen.queued, sent.max_depth, lost, sent.queue_drops, sent.inc_resend_frames
        )
        host = topology.neighbour(switch, port)
        if host in hosts:
            found[host, 1] = LinkSight(
                seen.received_bytes,
                seen.received_frames,
                dropped=seen.overrun + seen.oversize + seen.unprogrammed,
                resent=seen.received_resend_frames,
            )
    return found


class _Counted(NamedTuple):
    """An interface: what came in, and what left."""

    received_bytes: int
    received_frames: int
    received_drops: int
    sent_bytes: int
    sent_frames: int
    sent_drops: int


class InterfaceLinks:
    """As the kernel counts at the interfaces of switches, whatever runs there. For one thread; ``close`` it."""

    def __init__(self, topology: Topology, interfaces: Interfaces) -> None:
        self._topology = topology
        self._interfaces = interfaces
        self._hosts = {host.name for host in topology.hosts}
        self._longest: dict[str, int] = {}
        self._route: Any = None
        self._names: dict[int, str] = {}
        self._parts = ExitStack()

    def __call__(self) -> LinkSights:
        """Of every direction that some switch's interface sees."""
        counted, queues = _counts(), self._queues()
        found: LinkSights = {}
        for switch, ports in self._interfaces.items():
            for port, name in ports.items():
                own = counted.get(name)
                if own is None:  # the interface is gone
                    continue
                queue, drops = queues.get(name, (None, 0))
                if queue is not None:
                    self._longest[name] = max(queue, self._longest.get(name, 0))
                found[switch, port] = LinkSight(
                    own.sent_bytes, own.sent_frames, queue, self._longest.get(name), dropped=own.sent_drops + drops
                )
                host = self._topology.neighbour(switch, port)
                if host in self._hosts:
                    found[host, 1] = LinkSight(own.received_bytes, own.received_frames, dropped=own.received_drops)
        return found

    def _queues(self) -> dict[str, tuple[int, int]]:
        """Frames that wait in the queueing disciplines of interfaces that have one, and those that found no room."""
        if self._route is None:
            self._route = self._parts.enter_context(netlink())
            self._names = {link["index"]: link.get_attr("IFLA_IFNAME") for link in self._route.get_links()}
        return {
            self._names[one["index"]]: _queue(one)
            for one in self._route.get_qdiscs()
            if one["index"] in self._names and one.get_attr("TCA_KIND") != "noqueue"
        }

    def close(self) -> None:
        """Close what asks the kernel."""
        self._parts.close()


def _queue(message: Any) -> tuple[int, int]:
    stats = message.get_attr("TCA_STATS2")
    queue = None if stats is None else stats.get_attr("TCA_STATS_QUEUE")
    return (0, 0) if queue is None else (int(queue["qlen"]), int(queue["drops"]))


def _counts() -> dict[str, _Counted]:
    """Every interface of this network namespace."""
    found = {}
    for line in COUNTS.read_text().splitlines()[2:]:
        name, _, numbers = line.partition(":")
        n = [int(number) for number in numbers.split()]
        found[name.strip()] = _Counted(n[0], n[1], n[3], n[8], n[9], n[11])
    return found


def with_relays(links: LinkSights, relayed: Mapping[Hop, LinkCounters]) -> LinkSights:
    """Relays know of the links between their two halves what was lost on them."""
    found = dict(links)
    for hop, counted in relayed.items():
        if hop in found:
            before = found[hop].lost or 0
            found[hop] = found[hop]._replace(lost=before + counted.lost + counted.corrupted)
    return found
