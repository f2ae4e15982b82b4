"""Live views of a network in real time, and the reasons why some are not available."""

import importlib.resources
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from p4reduce.base.records import to_plain
from p4reduce.control_plane.plans import Plan
from p4reduce.group import remote
from p4reduce.group.errors import ClusterError
from p4reduce.network.real.net.network import netlink
from p4reduce.network.real.switches import DeviceHost, RealSwitches
from p4reduce.network.virtual.counters import LinkCounters
from p4reduce.runs.real.carry import RealCluster
from p4reduce.runs.real.targets import EmbeddedTarget
from p4reduce.runs.real.wires import VethWires
from p4reduce.topologies import Topology, to_yaml
from p4reduce.topologies.model import Hop
from p4switch.base.values import one_line
from p4switch.device import Device
from p4switch.trace.steps import what_if
from p4switch.trace.to_text import of_folder

# Counts of links of a network in real time, taken from counters that exist anyway.


Interfaces = Mapping[str, Mapping[int, str]]
"""interface of each port of each switch, in this network namespace"""
COUNTS: Final = Path("/proc/self/net/dev")


class LinkSight(NamedTuple):
    """Counts of one direction of a link; None: not counted.

    bytes: of frames without FCS; queue: frames that wait now; lost: frames lost on the link; dropped: frames for which
    there was no room; resent: INC frames that were sent again.
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
    """Return the counts of embedded switches' ports: of frames that they send, and of frames that come from hosts."""
    sights: LinkSights = {}
    hosts = {host.name for host in topology.hosts}
    for (switch, port), seen in switches.port_counters().items():
        sent = seen.sent
        lost = sent.lost + sent.corrupted
        sights[switch, port] = LinkSight(
            sent.bytes, sent.frames, seen.queued, sent.max_depth, lost, sent.queue_drops, sent.inc_resend_frames
        )
        host = topology.neighbour(switch, port)
        if host in hosts:
            sights[host, 1] = LinkSight(
                seen.received_bytes,
                seen.received_frames,
                dropped=seen.overrun + seen.oversize + seen.unprogrammed,
                resent=seen.received_resend_frames,
            )
    return sights


class _Counted(NamedTuple):
    """Counts of an interface: frames received and sent."""

    received_bytes: int
    received_frames: int
    received_drops: int
    sent_bytes: int
    sent_frames: int
    sent_drops: int


class InterfaceLinks:
    """Counts of links from the kernel's counters of switch interfaces, of any switch. One thread; must be closed."""

    def __init__(self, topology: Topology, interfaces: Interfaces) -> None:
        self._topology = topology
        self._interfaces = interfaces
        self._hosts = {host.name for host in topology.hosts}
        self._longest: dict[str, int] = {}
        self._route: Any = None
        self._names: dict[int, str] = {}
        self._parts = ExitStack()

    def __call__(self) -> LinkSights:
        """Return the counts of every direction that a switch's interface sees."""
        counted, queues = _counts(), self._queues()
        sights: LinkSights = {}
        for switch, ports in self._interfaces.items():
            for port, name in ports.items():
                own = counted.get(name)
                if own is None:  # the interface is gone
                    continue
                queue, drops = queues.get(name, (None, 0))
                if queue is not None:
                    self._longest[name] = max(queue, self._longest.get(name, 0))
                sights[switch, port] = LinkSight(
                    own.sent_bytes, own.sent_frames, queue, self._longest.get(name), dropped=own.sent_drops + drops
                )
                host = self._topology.neighbour(switch, port)
                if host in self._hosts:
                    sights[host, 1] = LinkSight(own.received_bytes, own.received_frames, dropped=own.received_drops)
        return sights

    def _queues(self) -> dict[str, tuple[int, int]]:
        """Return the queued and the dropped frames of each interface that has a queueing discipline."""
        if self._route is None:
            self._route = self._parts.enter_context(netlink())
            self._names = {link["index"]: link.get_attr("IFLA_IFNAME") for link in self._route.get_links()}
        return {
            self._names[qdisc["index"]]: _queue(qdisc)
            for qdisc in self._route.get_qdiscs()
            if qdisc["index"] in self._names and qdisc.get_attr("TCA_KIND") != "noqueue"
        }

    def close(self) -> None:
        """Close the netlink socket."""
        self._parts.close()


def _queue(message: Any) -> tuple[int, int]:
    stats = message.get_attr("TCA_STATS2")
    queue = None if stats is None else stats.get_attr("TCA_STATS_QUEUE")
    return (0, 0) if queue is None else (int(queue["qlen"]), int(queue["drops"]))


def _counts() -> dict[str, _Counted]:
    """Return the counts of every interface of this network namespace."""
    by_interface = {}
    for line in COUNTS.read_text().splitlines()[2:]:
        name, _, numbers = line.partition(":")
        n = [int(number) for number in numbers.split()]
        by_interface[name.strip()] = _Counted(n[0], n[1], n[3], n[8], n[9], n[11])
    return by_interface


def with_relays(links: LinkSights, relayed: Mapping[Hop, LinkCounters]) -> LinkSights:
    """Return the counts with the frames that relays lost added to ``lost``."""
    sights = dict(links)
    for hop, counted in relayed.items():
        if hop in sights:
            before = sights[hop].lost or 0
            sights[hop] = sights[hop]._replace(lost=before + counted.lost + counted.corrupted)
    return sights


MOST_CELLS: Final = 65_536
"""slots of all switches together that are read at once"""
MOST_FRAMES: Final = 32
CATCH_S: Final = 0.3
"""seconds for which frames of a link are captured"""
_ETH_P_ALL: Final = 3
_LONGEST: Final = 65_536
NO_SLOTS: Final = (
    "BMv2 does not let P4Runtime read registers, so slots are not shown; what switches told workers that asked is."
)
NO_TRACE: Final = (
    "BMv2 does not tell what it did with a packet: 'p4reduce net up --target bmv2 --trace' has it logged, "
    "'p4reduce trace' shows what the program does."
)
NO_FRAMES: Final = (
    "Links are datagrams between processes here, which no other process sees; with --links veth frames are caught."
)


class NotSeenError(ValueError):
    """Something cannot be seen in this network; the text says why."""


@dataclass(frozen=True)
class Sights:
    """The observable state of a network in real time.

    Attributes
    ----------
    topology : Topology
        The network.
    target : str
        'embedded' or 'bmv2'.
    links : callable
        Returns the counts of links.
    plans : callable
        Returns the plans of the jobs that are installed now.
    host : DeviceHost or None
        Host of the embedded switches, which stand still while its lock is held.
    interfaces : mapping or None
        Interfaces of the switches' ports, if links are those of the kernel.
    records : mapping
        Files with the endpoints of hosts (``Endpoints.kept_in``), by host.
    notes : sequence of str
        Text for people about the source of each count.
    """

    topology: Topology
    target: str
    links: Callable[[], LinkSights]
    plans: Callable[[], Sequence[Plan]]
    host: DeviceHost | None = None
    interfaces: Interfaces | None = None
    records: Mapping[str, Path] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def why_no_slots(self) -> str:
        """Return why slots cannot be read; empty if they can."""
        return NO_SLOTS if self.host is None else ""

    @property
    def why_no_frames(self) -> str:
        """Return why frames cannot be captured; empty if they can."""
        return NO_FRAMES if self.interfaces is None else ""

    def moment(self) -> tuple[int, LinkSights, dict[tuple[int, int], dict[str, list[int]]]]:
        """Return nanoseconds of the monotonic clock, links, and by (job, epoch) the slots of each switch."""
        at_ns, links = time.monotonic_ns(), self.links()
        if self.host is None or not any(plan.aggregators for plan in self.plans()):
            return at_ns, links, {}
        with self.host.lock:
            return at_ns, links, self._slots()

    def _slots(self) -> dict[tuple[int, int], dict[str, list[int]]]:
        left = MOST_CELLS
        slots: dict[tuple[int, int], dict[str, list[int]]] = {}
        for plan in self.plans():
            own = slots.setdefault((plan.job, plan.epoch), {})
            for aggregator in plan.aggregators:
                left -= aggregator.slots
                device = self._device(aggregator.name)
                if device is None or left < 0:
                    continue
                names = [name for name in device.registers if name.rsplit(".", 1)[-1] == "slots"]
                for register in (device.registers[name] for name in names[:1]):
                    cells = register.copy(aggregator.base, aggregator.base + aggregator.slots)
                    own[aggregator.name] = [cells.read(place) for place in range(aggregator.slots)]
        return slots

    def frames(self, link: Hop) -> list[bytes]:
        """Return frames that arrive by a link within `CATCH_S`, at most `MOST_FRAMES`. Raises `NotSeenError`."""
        if self.interfaces is None:
            raise NotSeenError(NO_FRAMES)
        node, port = self._end(link)
        name = self.interfaces.get(node, {}).get(port)
        if name is None:
            raise NotSeenError(f"{node} is a host: frames are caught where they come to a switch.")
        caught: list[bytes] = []
        deadline = time.monotonic() + CATCH_S
        try:
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as tap:
                tap.bind((name, _ETH_P_ALL))
                while len(caught) < MOST_FRAMES and (left := deadline - time.monotonic()) > 0:
                    tap.settimeout(left)
                    frame, _, _, address = tap.recvmsg(_LONGEST, 0)
                    if address[2] != socket.PACKET_OUTGOING:
                        caught.append(frame)
        except TimeoutError:
            pass
        except OSError as error:
            raise NotSeenError(f"frames at {name} cannot be caught: {error.strerror or error}") from None
        return caught

    def trace(self, link: Hop, frame: bytes) -> dict[str, Any]:
        """Return what the switch at a link's end would do with a copy of a frame now. Raises `NotSeenError`."""
        node, port = self._end(link)
        if self.topology.node(node).is_host:
            raise NotSeenError(f"{node} is a host: it takes the frame itself, no P4 program sees it")
        if self.host is None:
            raise NotSeenError(NO_TRACE)
        root = Path(str(importlib.resources.files("p4reduce")))
        with self.host.lock:
            device = self._device(node)
            if device is None:
                raise NotSeenError(f"{node} has no program")
            try:
                return {"node": node, **what_if(device, port, frame, [root], of_folder(root / "p4src"))}
            except ValueError as error:
                raise NotSeenError(str(error)) from None

    def _end(self, link: Hop) -> Hop:
        """Return the node and port that a link leads to."""
        try:
            node = self.topology.neighbour(*link)
            return node, self.topology.link_at(*link).port_of(node)
        except (KeyError, IndexError, ValueError):
            raise NotSeenError(f"no link leaves {link[0]} by port {link[1]}") from None

    def _device(self, switch: str) -> Device | None:
        return None if self.host is None else self.host.device(switch)


# A network in real time answers viewers over a Unix socket that only this user can reach.
#
# Messages are those of ``group/remote.py``: a request, an answer. Values of ``do``: ``what`` (the network and the
# source of its counts); ``plan`` with ``job`` and ``epoch``; ``moment``; ``frames`` and ``trace`` of a link (``node``,
# ``port``, ``frame``). What cannot be seen is answered by ``refused``.


LIMIT: Final = 64 << 20
"""bytes of a message"""
SOCKET: Final = "view"
MOST: Final = 16
"""viewers at the same time"""
PATIENCE_S: Final = 2.0
"""seconds for a viewer to send or take a message that has begun; then its connection is closed"""
JOIN_S: Final = 10.0


@contextmanager
def nearby(path: Path) -> Iterator[str]:
    """Yield a path of a socket that fits the kernel's 107 bytes, wherever its folder lies. May raise ``OSError``."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class Showing:
    """Answers viewers in its own thread while it is entered; costs nothing while no request comes."""

    def __init__(self, path: Path, sights: Sights) -> None:
        """Listen at ``path``, in a folder that only this user can enter. Raises ``ClusterError`` if it cannot."""
        self._path = path
        self._sights = sights
        self._answers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "what": self._what,
            "plan": self._plan,
            "moment": self._moment,
            "frames": lambda asked: [frame.hex() for frame in sights.frames(_link(asked))],
            "trace": lambda asked: sights.trace(_link(asked), bytes.fromhex(asked["frame"])),
        }
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with nearby(path) as name:
                self._listener.bind(name)
            self._listener.listen()
        except OSError as error:
            self._listener.close()
            raise ClusterError(f"{path}: cannot listen there: {error.strerror or error}") from None
        self._wake = os.eventfd(0)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="showing", daemon=True)

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == self._wake:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket) and not self._talk(key.fileobj):
                    self._selector.unregister(key.fileobj)
                    key.fileobj.close()

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            if len(self._selector.get_map()) >= MOST + 2:
                connection.close()
                return
            connection.settimeout(PATIENCE_S)
            self._selector.register(connection, selectors.EVENT_READ)

    def _talk(self, connection: socket.socket) -> bool:
        """Answer one request; return False if the connection has to be closed."""
        try:
            message = remote.receive(connection, limit=LIMIT)
            if message is None:
                return False
            remote.send(connection, self._answer(message[0]), limit=LIMIT)
        except (OSError, ValueError):
            return False
        return True

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        what = one_line(request.get("do"), 60)
        try:
            handler = self._answers.get(what)
            return {"error": f"unknown request {what!r}"} if handler is None else {"answer": handler(request)}
        except NotSeenError as error:
            return {"refused": str(error)}
        except Exception as error:  # a viewer's request must not end the run
            return {"error": f"{what}: {type(error).__name__}: {one_line(error)}"}

    def _what(self, _: dict[str, Any]) -> dict[str, Any]:
        sights = self._sights
        return {
            "topology": to_yaml(sights.topology),
            "target": sights.target,
            "records": {host: str(path) for host, path in sights.records.items()},
            "notes": list(sights.notes),
            "why_no_slots": sights.why_no_slots,
            "why_no_frames": sights.why_no_frames,
        }

    def _plan(self, asked: dict[str, Any]) -> Any:
        for plan in self._sights.plans():
            if (plan.job, plan.epoch) == (asked.get("job"), asked.get("epoch")):
                return to_plain(plan)
        raise NotSeenError("this plan is gone")

    def _moment(self, _: dict[str, Any]) -> dict[str, Any]:
        at_ns, links, slots = self._sights.moment()
        return {
            "at_ns": at_ns,
            "links": [[*hop, *seen] for hop, seen in links.items()],
            "plans": [[plan.job, plan.epoch] for plan in self._sights.plans()],
            "slots": [[*key, own] for key, own in slots.items()],
        }

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.eventfd_write(self._wake, 1)
        self._thread.join(JOIN_S)
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
        os.close(self._wake)
        self._path.unlink(missing_ok=True)


def _link(asked: dict[str, Any]) -> tuple[str, int]:
    return str(asked["node"]), int(asked["port"])


# The view of a run in real time: which part of the cluster answers which request.


BY_PORTS: Final = "Links by the counters of the embedded switches' ports; queues of hosts are not counted."
BY_KERNEL: Final = (
    "Links by the kernel's counters of the switches' interfaces; queues are those that shape links, frames sent again "
    "are counted by workers alone, queues of hosts not at all."
)


@contextmanager
def shown(cluster: RealCluster, folder: Path) -> Iterator[None]:
    """Answer viewers of the run while this is entered, at a socket in ``folder``."""
    interfaces = cluster.wires.network.switch_interfaces if isinstance(cluster.wires, VethWires) else None
    target = cluster.target
    host = target.host if isinstance(target, EmbeddedTarget) else None
    kernel = InterfaceLinks(cluster.topology, interfaces or {})

    def links() -> LinkSights:
        counted = kernel() if host is None else of_ports(host.switches, cluster.topology)
        return with_relays(counted, cluster.relays.links())

    def plans() -> Sequence[Plan]:
        return cluster.plans_in_use()

    sights = Sights(
        topology=cluster.topology,
        target=cluster.experiment.target,
        links=links,
        plans=plans,
        host=host,
        interfaces=interfaces,
        records={name: cluster.records_of(name) for name in cluster.hosts},
        notes=(BY_KERNEL if host is None else BY_PORTS, f"Rates: {cluster.wires.shaping}."),
    )
    try:
        with Showing(folder / SOCKET, sights):
            yield
    finally:
        kernel.close()
