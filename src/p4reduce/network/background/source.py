"""A compiled source of background traffic at a host: bursts of UDP frames to one destination after the other.

On/off: a burst of a random number of frames at a peak rate, then a random silence. Burst lengths and silences are
uniform between (about) 0 and twice their mean, in integers, so that every machine draws the same. The destination of a
burst is drawn from the host's row of the demand matrix.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.base import errors
from p4reduce.network.virtual.kernels import entry, kernel
from p4reduce.network.virtual.kernels.events import draw, link_key
from p4reduce.network.virtual.records import EndpointCalls, FabricError, byte_at, call5, worker_endpoints
from p4reduce.topologies import Node, Topology
from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.records import ENDPOINT_DTYPE, NEVER, EndpointKind
from p4reduce.workers.specs import HostAddress
from p4switch.base.values import PS_PER_S
from p4switch.native.memory import address_of, carray, copy_bytes, pointer

# Demand matrices: bit/s from each host to each other.


@dataclass(frozen=True, eq=False)
class Demands:
    """A demand matrix.

    hosts : names of n hosts.
    bps : float64, shape (n, n): from row to column, bit/s; the diagonal is 0.
    """

    hosts: tuple[str, ...]
    bps: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.bps.shape != (len(self.hosts), len(self.hosts)):
            raise FabricError(f"bps: shape {self.bps.shape} for {len(self.hosts)} hosts")
        if not np.isfinite(self.bps).all() or (self.bps < 0).any() or self.bps.diagonal().any():
            raise FabricError("bps: demands are finite, at least 0, and 0 from a host to itself")

    @cached_property
    def sent_bps(self) -> NDArray[np.float64]:
        """Bits per second that each host sends, float64 of shape (n,)."""
        return np.asarray(self.bps.sum(axis=1))

    @cached_property
    def received_bps(self) -> NDArray[np.float64]:
        """Bits per second that each host receives, float64 of shape (n,)."""
        return np.asarray(self.bps.sum(axis=0))

    def at_load(self, topology: Topology, load: float) -> "Demands":
        """Return the same pattern, scaled so that the busiest host link is used to the share ``load`` (0..1).

        The load of links between switches depends on the routes and may be higher or lower; it is measured
        (:func:`~p4reduce.network.background.spec.link_loads`).
        """
        if not 0 <= load < 1:
            raise FabricError(f"load: {load} is not in 0 <= load < 1")
        rates = np.array([topology.link_at(host, 1).rate_bps for host in self.hosts], dtype=np.float64)
        busiest = max(float((self.sent_bps / rates).max()), float((self.received_bps / rates).max()))
        if busiest == 0:
            raise FabricError("bps: no host sends anything, so nothing can be scaled")
        return Demands(self.hosts, self.bps * (load / busiest))


def gravity(hosts: tuple[str, ...], seed: int, *, sigma: float = 1.0) -> Demands:
    """Return a gravity matrix: T_ij = w_i * w_j / sum w, with log-normal weights exp(sigma * N(0, 1)).

    M. Roughan, "Simplifying the synthesis of Internet traffic matrices", ACM SIGCOMM CCR 35(5), 2005, section 2.

    Parameters
    ----------
    hosts : tuple of str
        Participating hosts, at least two.
    seed : int
        Seed of the weights.
    sigma : float
        Inequality of hosts; 0: all equal.
    """
    if len(hosts) < 2:
        raise FabricError(f"hosts: {len(hosts)} cannot send to each other")
    weights = np.exp(sigma * np.random.Generator(np.random.Philox(seed)).standard_normal(len(hosts)))
    matrix = np.outer(weights, weights) / weights.sum()
    np.fill_diagonal(matrix, 0.0)
    return Demands(hosts, matrix)


def sndlib(topology: Topology, graph: str) -> Demands:
    """Return the demand matrix that SNDlib publishes with a graph, between the first hosts of its cities; any unit.

    Parameters
    ----------
    topology : Topology
        Made by :func:`p4reduce.topologies.datacenter` from the same graph: its switches are the cities in their order.
    graph : str
        The name at topohub, for example 'sndlib/germany50'.
    """
    topohub = errors.load("topohub", "wan")
    try:
        topohub_graph: dict[str, Any] = topohub.get(graph if "/" in graph else f"sndlib/{graph}")
    except (KeyError, ValueError):
        raise FabricError(f"graph: topohub has no {graph!r}") from None
    demands: Mapping[Any, Mapping[Any, float]] = topohub_graph["graph"].get("demands") or {}
    if not demands:
        raise FabricError(f"graph: {graph!r} comes without demands; use a gravity matrix")
    if len(topohub_graph["nodes"]) != len(topology.switches):
        raise FabricError(
            f"graph: {graph!r} has {len(topohub_graph['nodes'])} cities, {topology.name!r} {len(topology.switches)}"
        )
    place = {node["id"]: index for index, node in enumerate(topohub_graph["nodes"])}
    hosts = tuple(
        next(name for name in topology.neighbours(switch.name) if topology.node(name).is_host)
        for switch in topology.switches
    )
    matrix = np.zeros((len(hosts), len(hosts)))
    for source, row in demands.items():
        for target, value in row.items():
            if source != target:
                matrix[place[source], place[target]] += value
    return Demands(hosts, matrix)


TEMPLATE_BYTES: Final = 64
"""Bytes of a destination's headers, padded."""
HEADERS: Final = 42
"""Bytes of the Ethernet, IPv4 and UDP headers."""
UDP_PORT: Final = 9
"""Discard port (RFC 863): no host answers."""

SOURCE: Final = np.dtype(
    [
        *(
            (name, np.int64)
            for name in (
                "length",  # bytes of a frame
                "gap_ps",  # from the start of a frame to the next, within a burst
                "mean_frames",  # mean length of a burst
                "mean_silence_ps",
                "targets",
                "thresholds",  # address: ascending uint32; a draw below the k-th selects the k-th target
                "templates",  # address: TEMPLATE_BYTES for each target
                "target",  # destination of the present burst
                "left",  # remaining frames of the present burst
                "next_ps",
                "sent",
                "received",
                # Functions of the other endpoints (EndpointCalls); the same in every source.
                "receive",
                "transmit",
                "deadline",
                "expire",
                "resume",
                "status",
            )
        ),
        ("key", np.uint64),
        ("draws", np.uint64),
    ],
    align=True,
)


@dataclass(frozen=True)
class SourceOptions:
    """Options of background traffic.

    Attributes
    ----------
    frame_bytes : int
        Length of a frame without FCS.
    burst_frames : int
        Mean length of a burst.
    peak : float
        Rate inside a burst, as a share of the host's link.
    dscp : int
        Differentiated services code point of the packets.
    """

    frame_bytes: int = 1086
    burst_frames: int = 16
    peak: float = 0.9
    dscp: int = 0

    def __post_init__(self) -> None:
        if not 60 <= self.frame_bytes <= 1514:
            raise FabricError(f"frame_bytes: {self.frame_bytes} is not in 60..1514")
        if not 0 <= self.dscp < 64:
            raise FabricError(f"dscp: {self.dscp} is not in 0..63")
        if self.burst_frames < 1 or not 0 < self.peak <= 1:
            raise FabricError(f"burst_frames: {self.burst_frames}, peak: {self.peak}: need >= 1 and 0 < peak <= 1")


@kernel
def _random(source: Any) -> Any:
    """Return 32 random bits, as int64."""
    bits = draw(source, source.draws, 0)
    source.draws += np.uint64(1)
    return np.int64(bits >> np.uint64(32))


@kernel
def _begin_burst(source: Any) -> None:
    which = _random(source)
    thresholds = carray(pointer(source.thresholds), (source.targets,), np.uint32)
    target: Any = 0
    while target < source.targets - 1 and which >= thresholds[target]:
        target += 1
    source.target = target
    source.left = 1 + (_random(source) * (2 * source.mean_frames - 1) >> 32)


@kernel
def source_transmit(source: Any, now_ps: int, out: Any) -> Any:
    """Write the next frame to memory at ``out``; return its length, or 0 during a silence."""
    if now_ps < source.next_ps:
        return 0
    if source.left == 0:
        _begin_burst(source)
    copy_bytes(out, source.templates + source.target * TEMPLATE_BYTES, HEADERS)
    body = carray(pointer(out + HEADERS), (source.length - HEADERS,), np.uint8)
    body[:] = 0
    source.left -= 1
    source.next_ps = now_ps + source.gap_ps
    if source.left == 0:
        # In units of 2^-16: silences of seconds times 32 random bits would exceed 64 bits.
        source.next_ps += (2 * source.mean_silence_ps >> 16) * (_random(source) >> 16)
    source.sent += 1
    return source.length


# Sources of background traffic as endpoints, beside those of jobs.


BACKGROUND: Final = 64
"""Kind of a source; those of `workers/` are small."""
_GOLDEN: Final = 618
"""Golden ratio, in thousandths."""
_UDP: Final = 17
_WIRE_OVERHEAD: Final = 24
"""Bytes around a frame: preamble, FCS, inter-frame gap."""


class SourceEndpoints(Endpoints):
    """Endpoints of jobs, preceded by endpoints that belong to no job.

    Attributes
    ----------
    hosts : list of str
        Hosts of the preceding endpoints.
    """

    hosts: list[str]

    def calls(self) -> EndpointCalls:
        """Return the functions that drive the records."""
        raise NotImplementedError


class BackgroundEndpoints(SourceEndpoints):
    """Endpoints of jobs, preceded by sources of background traffic at indices 0 .. ``sources`` - 1.

    Drive them with :func:`background_calls`. A source sends for ever from its start (`VirtualNetwork.start`) on.

    Parameters
    ----------
    topology : Topology
        Topology of the hosts.
    demands : Demands
        Demands between hosts; hosts that send nothing only receive.
    options : SourceOptions
        Options of bursts.
    seed : int
        Seed of bursts and silences.
    """

    def __init__(self, topology: Topology, demands: Demands, options: SourceOptions, seed: int) -> None:
        super().__init__()
        if not demands.hosts:
            raise FabricError("demands: no host sends anything; use Endpoints where there is no background traffic")
        self.hosts = list(demands.hosts)
        self._sources = np.zeros(len(demands.hosts), SOURCE)
        for name, value in worker_endpoints()._asdict().items():
            self._sources[name] = value
        for index, host in enumerate(demands.hosts):
            self._add_source(topology, topology.node(host), demands, options, link_key(seed, index))

    def calls(self) -> EndpointCalls:
        """Return the functions that drive sources, and all other endpoints as `workers/` does."""
        return background_calls()

    @property
    def sources(self) -> int:
        """Number of sources."""
        return len(self._sources)

    @property
    def sent(self) -> int:
        """Frames sent so far by all sources."""
        return int(self._sources["sent"].sum())

    @property
    def received(self) -> int:
        """Frames of background traffic that arrived so far."""
        return int(self._sources["received"].sum())

    def busy_shares(self, now_ps: int, ahead_ps: int) -> list[float]:
        """Return, for each source, the share of the next ``ahead_ps`` in which its present or next burst sends.

        Silences and bursts after that are not drawn yet.
        """
        shares = []
        for source in self._sources:
            left, next_ps, gap_ps = (int(source[name]) for name in ("left", "next_ps", "gap_ps"))
            begins = 0 if left else max(0, next_ps - now_ps)
            ends = left * gap_ps if left else ahead_ps
            shares.append(max(0, min(ends, ahead_ps) - begins) / ahead_ps)
        return shares

    @property
    def in_burst(self) -> list[bool]:
        """For each source, whether it is in a burst now."""
        return [bool(left > 0) for left in self._sources["left"]]

    def _add_source(self, topology: Topology, node: Node, demands: Demands, options: SourceOptions, key: int) -> None:
        place = demands.hosts.index(node.name)
        own = HostAddress(node.mac, node.ip, UDP_PORT)
        index = self._add(EndpointKind.WORKER, own, [own], job=0, epoch=0, lanes=1)
        record, source = self._records[index], self._sources[place]
        record["kind"] = BACKGROUND
        record["entries"] = address_of(self._sources) + place * SOURCE.itemsize
        source["key"], source["length"] = key, options.frame_bytes
        row = demands.bps[place]
        rate = topology.link_at(node.name, 1).rate_bps
        bits = 8 * (options.frame_bytes + _WIRE_OVERHEAD)
        source["gap_ps"] = round(bits * PS_PER_S / (options.peak * rate))
        source["mean_frames"] = options.burst_frames
        total = float(row.sum())
        source["next_ps"] = NEVER
        if total == 0:
            return
        burst_ps = options.burst_frames * int(source["gap_ps"])
        silence = options.burst_frames * 8 * options.frame_bytes * PS_PER_S / total - burst_ps
        if silence < 0:
            raise FabricError(
                f"demands: {node.name} shall send {total / 1e9:.3g} Gb/s, more than its bursts of {options.peak} of "
                f"{rate / 1e9:.3g} Gb/s allow"
            )
        source["mean_silence_ps"] = round(silence)
        # Hosts do not begin together: their first bursts are offset by the golden ratio of a mean cycle.
        source["next_ps"] = (place * _GOLDEN % 1000) * (burst_ps + round(silence)) // 1000
        targets = np.flatnonzero(row)
        source["targets"] = len(targets)
        shares = np.cumsum(row[targets]) / total
        thresholds = np.minimum(np.round(shares * 2.0**32), 2.0**32 - 1).astype(np.uint32)
        source["thresholds"] = self._keep(index, thresholds)
        made = b"".join(
            headers(topology, node.name, demands.hosts[target], options.frame_bytes, port=UDP_PORT, dscp=options.dscp)
            for target in targets
        )
        source["templates"] = self._keep(index, np.frombuffer(made, np.uint8).copy())


def headers(topology: Topology, host: str, target: str, length: int, *, port: int, dscp: int) -> bytes:
    """Return the Ethernet, IPv4 and UDP headers (checksum 0) of a frame of ``length`` bytes, in TEMPLATE_BYTES."""
    source, other = topology.node(host), topology.node(target)
    gateway = topology.node(topology.neighbours(host)[0])
    ethernet = gateway.mac.to_bytes(6, "big") + source.mac.to_bytes(6, "big") + b"\x08\x00"
    words = struct.pack("!BBHHHBBHII", 0x45, dscp << 2, length - 14, 0, 0x4000, 64, 17, 0, source.ip, other.ip)
    total = sum(struct.unpack("!10H", words))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    ipv4 = words[:10] + checksum.to_bytes(2, "big") + words[12:]
    udp = struct.pack("!HHHH", port, port, length - 34, 0)
    made: bytes = ethernet + ipv4 + udp
    assert len(made) == HEADERS  # noqa: S101
    return made.ljust(TEMPLATE_BYTES, b"\0")


@entry(int, int, int, int, int)
def _receive(eps: Any, i: int, frame: Any, length: int, now_ps: int) -> Any:
    records = carray(pointer(eps), (i + 1,), ENDPOINT_DTYPE)
    e = records[i]
    if e.kind != BACKGROUND:
        first = carray(pointer(records[0].entries), (1,), SOURCE)[0]
        return call5(first.receive, eps, i, frame, length, now_ps)
    if length < HEADERS or byte_at(frame, 23) != _UDP or byte_at(frame, 37) != UDP_PORT or byte_at(frame, 36) != 0:
        return 0
    for place in range(4):
        if byte_at(frame, 30 + place) != e.ip >> (24 - 8 * place) & 255:
            return 0
    carray(pointer(e.entries), (1,), SOURCE)[0].received += 1
    return 1


@entry(int, int, int, int, int)
def _transmit(eps: Any, i: int, now_ps: int, out: Any, capacity: int) -> Any:
    records = carray(pointer(eps), (i + 1,), ENDPOINT_DTYPE)
    e = records[i]
    if e.kind != BACKGROUND:
        first = carray(pointer(records[0].entries), (1,), SOURCE)[0]
        return call5(first.transmit, eps, i, now_ps, out, capacity)
    return source_transmit(carray(pointer(e.entries), (1,), SOURCE)[0], now_ps, out)


@entry(int, int, int, int, int)
def _deadline(eps: Any, i: int, a: int, b: int, c: int) -> Any:
    records = carray(pointer(eps), (i + 1,), ENDPOINT_DTYPE)
    e = records[i]
    if e.kind != BACKGROUND:
        first = carray(pointer(records[0].entries), (1,), SOURCE)[0]
        return call5(first.deadline, eps, i, a, b, c)
    return carray(pointer(e.entries), (1,), SOURCE)[0].next_ps


@entry(int, int, int, int, int)
def _expire(eps: Any, i: int, now_ps: int, a: int, b: int) -> Any:
    records = carray(pointer(eps), (i + 1,), ENDPOINT_DTYPE)
    if records[i].kind != BACKGROUND:
        first = carray(pointer(records[0].entries), (1,), SOURCE)[0]
        return call5(first.expire, eps, i, now_ps, a, b)
    return 0


@entry(int, int)
def _status(eps: Any, i: int) -> Any:
    return carray(pointer(eps), (i + 1,), ENDPOINT_DTYPE)[i].status


@entry(int, int, int, int, int)
def _resume(eps: Any, i: int, paused_ps: int, a: int, b: int) -> Any:
    records = carray(pointer(eps), (i + 1,), ENDPOINT_DTYPE)
    if records[i].kind != BACKGROUND:
        first = carray(pointer(records[0].entries), (1,), SOURCE)[0]
        return call5(first.resume, eps, i, paused_ps, a, b)
    return 0


def background_calls() -> EndpointCalls:
    """Return the functions that drive :class:`BackgroundEndpoints`: sources, and all others as `workers/` does."""
    return EndpointCalls(
        *(function.address for function in (_receive, _transmit, _deadline, _expire, _status, _resume))
    )
