"""Counters, captures and records of a network."""

import struct
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p4reduce.network.virtual.devices import SwitchDevice
from p4reduce.network.virtual.kernels.events import link_key, threshold
from p4reduce.network.virtual.memory import Memory
from p4reduce.network.virtual.records import (
    CELL,
    CONTROLLER_TAP,
    ENDPOINT,
    INCIDENT_KINDS,
    LINK,
    LINK_COUNTERS,
    MAX_QUEUE_FRAMES,
    NEVER,
    NO_LIMIT,
    NODE,
    NONE,
    PRIORITIES,
    ROTA,
    TAP_HEADER,
    FabricError,
    Faults,
)
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4switch.base.closing import Closable
from p4switch.base.files import naming
from p4switch.base.values import NS_PER_S, PS_PER_NS
from p4switch.traffic import Digest


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """Counters of one direction of a link. Bytes are those of frames without FCS, times are picoseconds.

    frames + duplicated = delivered + lost + corrupted + dark_lost + frames in flight. A cross-connect has separate
    links to and from it; frames are sent once, on the first one, where all faults happen.
    """

    frames: int
    """Frames put on the link by its sender."""
    bytes: int
    inc_first_frames: int
    """INC packets sent for the first time."""
    inc_first_bytes: int
    inc_resend_frames: int
    """INC packets with the resend flag."""
    inc_resend_bytes: int
    delivered: int
    """Frames that arrived undamaged at the other end."""
    lost: int
    duplicated: int
    """Frames of which the link made a second copy."""
    reordered: int
    """Frames delayed so that others may overtake."""
    corrupted: int
    """Frames that arrived with a wrong frame check sequence and were dropped."""
    queue_drops: int
    """Copies that found their queue before the link full."""
    unattributed: int
    """Queue drops for which egress could not be run, so that their kind is unknown."""
    egress_drops: int
    """Frames dropped by the program's egress when it was their turn."""
    busy_ps: int
    """Time in which the link carried frames, with preambles and gaps."""
    max_depth: int
    """Most frames that waited for the link at once."""
    dark_lost: int = 0
    """On a link to a cross-connect: frames lost because a mirror was dark, or turned, during any of their bits."""
    misrouted: int = 0
    """On a link to a cross-connect: frames delivered to another switch than their MAC address names; if that address
    belongs to no node, to another one than the circuit led to when they were queued."""


@dataclass(frozen=True, slots=True)
class DeviceCounters:
    """Counters of one switch, in frames."""

    passes: int
    """Passes through ingress."""
    ingress_drops: int
    """Frames dropped by the program's ingress, or too long for it."""
    copies: int
    """Copies made for output ports: 1 for each unicast frame, n for each multicast."""
    no_link_drops: int
    """Copies for a port without a link that were not recirculated."""
    priority_drops: int
    """Copies of a priority without a queue."""
    replica_drops: int
    """Copies of groups larger than ``max_replicas``."""
    oversize_drops: int
    """Frames that egress made longer than ``max_frame``; the link's ``egress_drops`` count them too."""
    packet_ins: int
    """Frames sent to the controller."""
    clones: int
    """Clones for existing sessions, by ingress and egress."""
    resubmitted: int
    recirculated: int
    digests: int
    round_drops: int
    """Frames that returned to ingress too often (`kernels/wires.MAX_ROUNDS`)."""


@dataclass(frozen=True, slots=True)
class HostCounters:
    """Counters of one host, in frames."""

    claimed: int
    """Frames taken by an endpoint."""
    unclaimed: int
    """Frames for no endpoint."""


class Where(NamedTuple):
    """Place of an incident of INC first transmissions: the link, and the frames' destination and job."""

    port: Hop
    destination: str
    """Name of the node that they are addressed to; '' if it is no node."""
    job: int


@dataclass(frozen=True, slots=True)
class Incidents:
    """Incidents at one link to first transmissions of one job for one destination, in frames and their bytes.

    ``duplicated``, ``lost`` and ``corrupted`` frames are in the link's own counts, and later links see one frame more
    or less; those ``queue_dropped`` are not in the link's count either.
    """

    duplicated: int = 0
    lost: int = 0
    corrupted: int = 0
    queue_dropped: int = 0
    duplicated_bytes: int = 0
    lost_bytes: int = 0
    corrupted_bytes: int = 0
    queue_dropped_bytes: int = 0


class LinkView(Mapping[Hop, LinkCounters]):
    """Counters of every link by the (node, port) that it leaves; read at each access."""

    def __init__(self, records: NDArray[Any], places: Mapping[Hop, int]) -> None:
        self._records = records
        self._places = places

    def __getitem__(self, port: Hop) -> LinkCounters:
        record = self._records[self._places[port]]
        return LinkCounters(*(int(record[name]) for name in LINK_COUNTERS))

    def __iter__(self) -> Iterator[Hop]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def records(self) -> NDArray[Any]:
        """Return a copy of the loop's own records (``records.LINK``), queues included; rows as in :meth:`row`."""
        return self._records.copy()

    def row(self, port: Hop) -> int:
        """Return the row in :meth:`records` of the link that leaves by a port."""
        return self._places[port]

    def array(self) -> NDArray[Any]:
        """Return a copy of all counters, one record for each link, in the order of iteration."""
        counted = np.empty(len(self._places), dtype=[(name, np.int64) for name in LINK_COUNTERS])
        order = list(self._places.values())
        for name in LINK_COUNTERS:
            counted[name] = self._records[name][order]
        return counted


# Writer of pcap files with nanosecond time stamps, which Wireshark, tcpdump and Scapy can open.
#
# Format: https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcap/ (magic number 0xA1B23C4D, link type 1: Ethernet).


MAGIC_NANOSECONDS: Final = 0xA1B23C4D
SNAP_LENGTH: Final = 65535
LINKTYPE_ETHERNET: Final = 1

_FILE_HEADER: Final = struct.Struct("<IHHiIII")
_RECORD_HEADER: Final = struct.Struct("<IIII")


class PcapWriter(Closable):
    """A pcap file open for writing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb")
        self._file.write(_FILE_HEADER.pack(MAGIC_NANOSECONDS, 2, 4, 0, 0, SNAP_LENGTH, LINKTYPE_ETHERNET))

    def write(self, time_ps: int, frame: bytes) -> None:
        """Append a frame; its time is truncated to whole nanoseconds."""
        seconds, nanoseconds = divmod(time_ps // PS_PER_NS, NS_PER_S)
        with naming(self.path):
            self._file.write(_RECORD_HEADER.pack(seconds, nanoseconds, len(frame), len(frame)) + frame)

    def flush(self) -> None:
        """Write all buffered data to the file."""
        with naming(self.path):
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        with naming(self.path):
            self._file.close()


# Records of the loop, read by Python: captures, packets for the controller, incidents.


@dataclass(frozen=True, slots=True)
class ControllerFrame:
    """A frame that a switch sent to the controller, and its time (virtual picoseconds)."""

    time_ps: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class RawDigest:
    """A digest of a switch: its learn list, its time (virtual picoseconds), and the bytes that ingress kept."""

    learn_list: int
    time_ps: int
    kept: NDArray[np.uint8]


FILMED: Final = 1 << 32
"""First number of the taps that are rows of links whose frames go to a film."""
Film = Callable[[int, int, bytes], object]
"""Called with a frame that arrived: the row of its link, the time (virtual picoseconds), and the frame."""


class Recordings:
    """Reader that empties the loop's buffers after each of its runs."""

    def __init__(self, memory: Memory, nodes: int, packet_in_limit: int, *, epoch_ps: int = 0) -> None:
        """Set up empty recordings; ``epoch_ps`` is added to the loop's time in capture files."""
        self._memory = memory
        self._epoch_ps = epoch_ps
        self._writers: list[PcapWriter] = []
        self.film: Film | None = None
        self.captured: NDArray[np.int64] = np.zeros(0, np.int64)
        """For each row of a filmed link, the tap of a capture where its frames arrive, or NONE."""
        self._limit = packet_in_limit
        self._packet_ins: list[deque[ControllerFrame]] = [deque() for _ in range(nodes)]
        self.packet_in_drops = [0] * nodes
        self._digests: list[deque[RawDigest]] = [deque() for _ in range(nodes)]
        self.digest_drops = [0] * nodes
        self._incidents: dict[tuple[int, int, int], NDArray[np.int64]] = {}

    def follow(self, memory: Memory) -> None:
        """Read from other buffers from now on; the previous ones must be drained."""
        self._memory = memory

    def open(self, path: Path) -> int:
        """Begin a pcap file; return the number of its tap."""
        self._writers.append(PcapWriter(path))
        return len(self._writers) - 1

    def close(self) -> None:
        """Finish all pcap files."""
        for writer in self._writers:
            writer.close()

    def packet_ins(self, node: int) -> list[ControllerFrame]:
        """Return and clear the frames that a switch sent to the controller."""
        waiting = self._packet_ins[node]
        taken = list(waiting)
        waiting.clear()
        return taken

    def digests(self, node: int) -> list[RawDigest]:
        """Return and clear the digests that a switch sent."""
        waiting = self._digests[node]
        taken = list(waiting)
        waiting.clear()
        return taken

    def incidents(self) -> dict[tuple[int, int, int], Incidents]:
        """Return incidents by link, destination (node, or -1 if no node has the address) and job."""
        return {place: Incidents(*counts.tolist()) for place, counts in sorted(self._incidents.items())}

    def drain(self) -> None:
        """Process and clear the contents of the buffers."""
        recorded: list[tuple[int, int, int, NDArray[np.uint8]]] = []
        for taps, incidents in self._memory.written():
            at = 0
            while at < len(taps):
                begin = at + TAP_HEADER.itemsize
                tap, time_ps, length, opened = taps[at:begin].view(np.int64).tolist()
                recorded.append((opened, tap, time_ps, taps[begin : begin + length]))
                at = begin + (length + 7) // 8 * 8
            if len(incidents):
                self._drain_incidents(incidents)
        for _, tap, time_ps, data in sorted(recorded, key=itemgetter(0)):
            learn_list, node = divmod(CONTROLLER_TAP - tap, len(self._digests)) if tap < 0 else (0, 0)
            if learn_list:
                self._learn(node, RawDigest(learn_list, time_ps, data.copy()))
            else:
                self._take(tap, time_ps, data.tobytes())
        if recorded:
            for writer in self._writers:
                writer.flush()

    def _take(self, tap: int, time_ps: int, frame: bytes) -> None:
        if tap >= FILMED:
            if self.film is not None:
                self.film(tap - FILMED, time_ps, frame)
            tap = int(self.captured[tap - FILMED])
            if tap == NONE:
                return
        if tap >= 0:
            self._writers[tap].write(self._epoch_ps + time_ps, frame)
            return
        node = CONTROLLER_TAP - tap
        if len(self._packet_ins[node]) < self._limit:
            self._packet_ins[node].append(ControllerFrame(time_ps, frame))
        else:
            self.packet_in_drops[node] += 1

    def _learn(self, node: int, digest: RawDigest) -> None:
        if len(self._digests[node]) < self._limit:
            self._digests[node].append(digest)
        else:
            self.digest_drops[node] += 1

    def _drain_incidents(self, noted: NDArray[Any]) -> None:
        places, rows = np.unique(noted[["link", "node", "job"]], return_inverse=True)
        counts = np.zeros((len(places), 2 * INCIDENT_KINDS), dtype=np.int64)
        np.add.at(counts, (rows, noted["kind"]), 1)
        np.add.at(counts, (rows, INCIDENT_KINDS + noted["kind"]), noted["length"])
        for place, row in zip(places.tolist(), counts, strict=True):
            self._incidents[place] = self._incidents.get(place, 0) + row


# Build the event loop's records from a topology, its devices and its faults.


DelayPs = int | Mapping[str, int]


@dataclass(frozen=True)
class Wiring:
    """Nodes, links and ports as arrays of records, with their indices by name.

    Link 2k is the topology's k-th link from a to b, link 2k + 1 from b to a.
    """

    nodes: NDArray[Any]
    links: NDArray[Any]
    ports: NDArray[Any]
    node_places: dict[str, int]
    link_places: dict[Hop, int]

    def link_from(self, port: Hop) -> int:
        """Return the index of the link that leaves a node by a port."""
        try:
            return self.link_places[port]
        except KeyError:
            raise FabricError(f"node {port[0]!r} has no link at port {port[1]}") from None

    def node(self, name: str) -> int:
        """Return a node's index."""
        try:
            return self.node_places[name]
        except KeyError:
            raise FabricError(f"there is no node {name!r}") from None


def wire(
    topology: Topology,
    devices: Mapping[str, SwitchDevice],
    *,
    queue_frames: int,
    faults: Faults | Mapping[Hop, Faults],
    seed: int,
    pipeline_delay_ps: DelayPs,
) -> Wiring:
    """Lay out a network; raise `FabricError` when the parts do not fit each other."""
    places = {node.name: index for index, node in enumerate(topology.nodes)}
    nodes = np.zeros(len(places), dtype=NODE)
    links = np.zeros(2 * len(topology.links), dtype=LINK)
    link_places = _lay_links(topology, places, links, queue_frames)
    set_faults(links, link_places, faults, seed)
    ports = _lay_ports(nodes, links)
    for name in ("link", "send_head", "send_tail"):
        nodes[name] = NONE
    _check_devices(topology, devices, pipeline_delay_ps)
    for node in topology.nodes:
        record = nodes[places[node.name]]
        if node.is_switch:
            delay = pipeline_delay_ps if isinstance(pipeline_delay_ps, int) else pipeline_delay_ps.get(node.name, 0)
            _set_device(record, devices[node.name], delay)
        elif node.is_crossconnect:
            record["crossconnect"] = 1
        else:
            record["link"] = link_places[(node.name, 1)]
    passive = nodes["crossconnect"] != 0
    links["optical"], links["towards"] = passive[links["target"]], NONE
    links["faulty"][passive[links["source"]]] = 0
    return Wiring(nodes, links, ports, places, link_places)


def _lay_links(topology: Topology, places: Mapping[str, int], links: NDArray[Any], queue_frames: int) -> dict[Hop, int]:
    if not 1 <= queue_frames <= MAX_QUEUE_FRAMES:
        raise FabricError(f"queue_frames={queue_frames}: a queue holds 1 to {MAX_QUEUE_FRAMES} frames")
    link_places: dict[Hop, int] = {}
    for number, link in enumerate(topology.links):
        if link.delay_ps > NO_LIMIT:
            raise FabricError(f"link {link.a}-{link.b}: a delay of {link.delay_ps} ps; virtual time ends at {NO_LIMIT}")
        ends = ((link.a, link.port_a), (link.b, link.port_b))
        for direction, (source, target) in enumerate((ends, ends[::-1])):
            index = 2 * number + direction
            record = links[index]
            record["rate_bps"], record["delay_ps"] = link.rate_bps, link.delay_ps
            record["source"], record["source_port"] = places[source[0]], source[1]
            record["target"], record["target_port"] = places[target[0]], target[1]
            link_places[source] = index
    links["last_length"] = NONE
    links["wire_head"] = links["wire_tail"] = links["sent_head"] = NONE
    links["tap_source"] = links["tap_target"] = NONE
    links["capacity"] = queue_frames
    return link_places


def set_faults(
    links: NDArray[Any], places: Mapping[Hop, int], faults: Faults | Mapping[Hop, Faults], seed: int
) -> None:
    """Write faults into the links' records; raise `FabricError` for a port without a link."""
    if isinstance(faults, Faults):
        faults = dict.fromkeys(places, faults)
    for port, fault in faults.items():
        if port not in places:
            raise FabricError(f"faults: node {port[0]!r} has no link at port {port[1]}")
        record = links[places[port]]
        record["faulty"] = int(fault.any)
        record["key"] = link_key(seed, places[port])
        record["extra_delay_ps"] = fault.reorder_delay_ps
        record["p_loss"] = threshold(fault.loss)
        record["p_duplicate"] = threshold(fault.duplicate)
        record["p_reorder"] = threshold(fault.reorder)
        record["p_corrupt"] = threshold(fault.corrupt)


def _lay_ports(nodes: NDArray[Any], links: NDArray[Any]) -> NDArray[Any]:
    """Return the links at ports 0, 1, ... of each node, one node after the other; -1: none."""
    np.maximum.at(nodes["ports"], links["source"], links["source_port"] + 1)
    nodes["first_port"] = np.cumsum(nodes["ports"]) - nodes["ports"]
    ports = np.zeros(max(int(nodes["ports"].sum()), 1), dtype=CELL)
    ports["value"] = NONE
    ports["value"][nodes["first_port"][links["source"]] + links["source_port"]] = np.arange(len(links))
    return ports


def _check_devices(topology: Topology, devices: Mapping[str, SwitchDevice], delay_ps: DelayPs) -> None:
    switches = {node.name for node in topology.switches}
    if missing := sorted(switches - set(devices)):
        raise FabricError(f"devices: switches {missing} have none")
    if extra := sorted(set(devices) - switches):
        raise FabricError(f"devices: topology {topology.name!r} has no switches {extra}")
    if isinstance(delay_ps, Mapping) and (unknown := sorted(set(delay_ps) - switches)):
        raise FabricError(f"pipeline_delay_ps: topology {topology.name!r} has no switches {unknown}")
    if any(delay < 0 for delay in ([delay_ps] if isinstance(delay_ps, int) else delay_ps.values())):
        raise FabricError("pipeline_delay_ps: a delay is at least 0")


def _set_device(record: Any, device: SwitchDevice, delay_ps: int) -> None:
    record["is_switch"] = 1
    record["delay_ps"] = delay_ps
    record["ingress"] = device.ingress_address
    record["egress"] = device.egress_address
    record["state"] = device.state_address
    record["groups"] = device.multicast.index.ctypes.data
    record["replicas"] = device.multicast.replicas.ctypes.data
    if device.detours is not None:
        sessions = device.detours.sessions
        record["detours"] = 1
        record["sessions"] = sessions.rows.ctypes.data
        record["session_groups"] = sessions.copies.index.ctypes.data
        record["session_replicas"] = sessions.copies.replicas.ctypes.data


@dataclass(frozen=True)
class EndpointTable:
    """The loop's records of endpoints, their indices by host and class, and which endpoint of each class is next."""

    endpoints: NDArray[Any]
    lists: NDArray[Any]
    rotas: NDArray[Any]


def place_endpoints(
    wiring: Wiring,
    topology: Topology,
    hosts: Sequence[str],
    priorities: Sequence[int],
    before: EndpointTable | None = None,
) -> EndpointTable:
    """Lay out endpoints of these hosts and classes, the highest class of a host first.

    ``before`` is the previous layout; if given, turns continue where they were.
    """
    endpoints = np.zeros(max(len(hosts), 1), dtype=ENDPOINT)
    endpoints["timer_at"] = NEVER
    known = {node.name for node in topology.hosts}
    at_host: dict[int, dict[int, list[int]]] = {}
    for index, (name, priority) in enumerate(zip(hosts, priorities, strict=True)):
        if name not in known:
            raise FabricError(f"endpoint {index}: topology {topology.name!r} has no host {name!r}")
        if not 0 <= priority < PRIORITIES:
            raise FabricError(f"endpoint {index}: class {priority} is not in 0..{PRIORITIES - 1}")
        endpoints[index]["host"] = wiring.node_places[name]
        endpoints[index]["part"] = wiring.nodes[wiring.node_places[name]]["part"]
        at_host.setdefault(wiring.node_places[name], {}).setdefault(int(priority), []).append(index)
    nexts = {} if before is None else _nexts(wiring, before)
    order: list[int] = []
    rotas: list[tuple[int, int, int, int]] = []
    for node, classes in at_host.items():
        record = wiring.nodes[node]
        record["first_endpoint"], record["first_rota"] = len(order), len(rotas)
        record["endpoints"], record["classes"] = sum(map(len, classes.values())), len(classes)
        for priority, indices in sorted(classes.items(), reverse=True):
            rotas.append((len(order), len(indices), nexts.get((node, priority), 0) % len(indices), priority))
            order += indices
    lists = np.zeros(max(len(hosts), 1), dtype=CELL)
    lists["value"][: len(order)] = order
    return EndpointTable(endpoints, lists, np.array(rotas or [(0, 0, 0, 0)], dtype=ROTA))


def _nexts(wiring: Wiring, placed: EndpointTable) -> dict[tuple[int, int], int]:
    """Return the position of the next endpoint, by node and class."""
    turns: dict[tuple[int, int], int] = {}
    for node in np.flatnonzero(wiring.nodes["classes"]):
        record = wiring.nodes[node]
        for rota in placed.rotas[record["first_rota"] :][: record["classes"]]:
            turns[int(node), int(rota["priority"])] = int(rota["next"])
    return turns


@dataclass(frozen=True, slots=True)
class OnWire:
    """A frame in flight: when its last bit arrives (virtual picoseconds), and whether it is damaged."""

    arrives_ps: int
    frame: bytes
    damaged: bool


class NetworkCounters:
    """Read-only methods of a network."""

    topology: Topology
    _wiring: Wiring
    _recordings: Recordings
    _memory: Memory
    _devices: Mapping[str, SwitchDevice]

    @property
    def now(self) -> int:
        """Virtual time, picoseconds."""
        return int(self._memory.world[0]["now"])

    @property
    def events(self) -> int:
        """Events that have happened so far."""
        return int(self._memory.world[0]["events"])

    def capture(self, node: str, port: int, path: str | Path) -> None:
        """Write the frames that pass a port from now on, in both directions, to a pcap file; complete after each `run`.

        Time stamps are virtual, truncated to nanoseconds: of the first bit for frames that leave, of the last for those
        that arrive. Lost and corrupted frames are captured where they leave, but not where they would have arrived.
        """
        link = self._wiring.link_from((node, port))
        links = self._wiring.links
        if links[link]["tap_source"] >= 0:
            raise FabricError(f"port {port} of {node!r} is captured already")
        tap = self._recordings.open(Path(path))
        links[link]["tap_source"] = tap
        if self._recordings.film is None:
            links[link ^ 1]["tap_target"] = tap
        else:
            self._recordings.captured[link ^ 1] = tap

    def film(self, film: Film | None) -> None:
        """Call ``film`` for every frame that arrives from now on, after each slice of `run`; None stops this.

        Captures continue. Only between two calls of `run`, or from its pacer.
        """
        taps, recordings = self._wiring.links["tap_target"], self._recordings
        if film is not None and recordings.film is None:
            recordings.captured = taps.copy()
            taps[:] = FILMED + np.arange(len(taps))
        elif film is None and recordings.film is not None:
            taps[:] = recordings.captured
        recordings.film = film

    def delay_ps(self, name: str) -> int:
        """Return the time from a frame's arrival at a switch to its ingress."""
        return int(self._node(name)["delay_ps"])

    def device(self, name: str) -> SwitchDevice | None:
        """Return the device of a switch; None if no switch has that name."""
        return self._devices.get(name)

    def on_wire(self, port: Hop, most: int = 64) -> list[OnWire]:
        """Return frames on the link that leaves a node by a port, the next to arrive first, without reordered ones.

        Only between two calls of `run`, or from its pacer.
        """
        frames: list[OnWire] = []
        pool, place = self._memory.frames, int(self._wiring.links[self._wiring.link_from(port)]["wire_head"])
        while place >= 0 and len(frames) < most:
            record, begin = pool.records[place], place * pool.cell_bytes
            frame = pool.cells[begin : begin + int(record["length"])].tobytes()
            frames.append(OnWire(int(record["time"]), frame, bool(record["damaged"])))
            place = int(record["next"])
        return frames

    def switch_counters(self, name: str) -> DeviceCounters:
        """Return the counters of a switch."""
        record = self._node(name)
        return DeviceCounters(**{field.name: int(record[field.name]) for field in fields(DeviceCounters)})

    def host_counters(self, name: str) -> HostCounters:
        """Return the counters of a host."""
        record = self._node(name)
        return HostCounters(**{field.name: int(record[field.name]) for field in fields(HostCounters)})

    def packet_ins(self, name: str) -> list[ControllerFrame]:
        """Return and clear the frames that a switch sent to the controller (port 510) since the last call."""
        return self._recordings.packet_ins(self._wiring.node(name))

    def digests(self, name: str) -> list[tuple[int, Digest]]:
        """Return and clear the digests that a switch sent since the last call, each with its time (virtual ps).

        At most ``packet_in_limit`` digests wait; `digest_drops` counts the others.
        """
        tables = self._devices[name].detours
        if tables is None:
            return []
        waiting = self._recordings.digests(self._wiring.node(name))
        return [(digest.time_ps, tables.digest(digest.learn_list, digest.kept)) for digest in waiting]

    def digest_drops(self, name: str) -> int:
        """Return the number of digests that found ``packet_in_limit`` others waiting."""
        return self._recordings.digest_drops[self._wiring.node(name)]

    def packet_in_drops(self, name: str) -> int:
        """Return the number of frames for the controller that found ``packet_in_limit`` others waiting."""
        return self._recordings.packet_in_drops[self._wiring.node(name)]

    def incidents(self) -> dict[Where, Incidents]:
        """Return the incidents of INC first transmissions, by link, destination and job.

        They allow an exact comparison of counts under faults with predictions: a frame lost on a link is missing on all
        later links of its path, and so on.
        """
        ports = {place: port for port, place in self._wiring.link_places.items()}
        names = [*(node.name for node in self.topology.nodes), ""]
        return {
            Where(ports[link], names[node], job): seen
            for (link, node, job), seen in self._recordings.incidents().items()
        }

    def _node(self, name: str) -> Any:
        return self._wiring.nodes[self._wiring.node(name)]
