"""A small switch and a small endpoint with the real calling conventions, for tests and benchmarks of the fabric.

The switch routes by IPv4 destination (a table with a port, or 1000 + multicast group, for each host). The DSCP is the
priority. Egress writes the replication id into the last byte of the destination, drops frames whose ECN bits are 1, and
stamps its queue metadata into the payload of frames that are long enough.

The endpoint sends a number of INC frames of one length to one host, as fast as the link takes them or at an interval,
and counts the frames that it receives.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.network.virtual.kernels import entry
from p4reduce.network.virtual.kernels.events import ip_at
from p4reduce.network.virtual.records import EndpointCalls, HostEndpoints, byte_at, cell_at, io_at
from p4reduce.topologies import Topology
from p4reduce.workers.kernels.frames import RESEND
from p4reduce.workers.wire import (
    ETHER_TYPE,
    FLAGS,
    INC_UDP_PORT,
    IP,
    IP_DST,
    IP_PROTOCOL,
    IP_PROTOCOL_UDP,
    IP_SRC,
    SEQ,
    TOS,
    UDP_DST,
    UDP_SRC,
)
from p4switch import abi
from p4switch.native.memory import carray, copy_bytes, pointer

NEVER: Final = 1 << 62
TO_GROUP: Final = 1000
"""Offset of multicast groups: the route to group g is TO_GROUP + g."""
STAMPS: Final = (
    "enq_time_us",
    "enq_qdepth",
    "deq_timedelta_us",
    "deq_qdepth",
    "time_us",
    "rid",
    "instance",
    "ingress_us",
    "ingress_port",
)
STAMPED_AT: Final = 64
"""Offset in a frame at which egress writes STAMPS, each an int64 in this machine's byte order."""
_STAMPED_LENGTH: Final = STAMPED_AT + 8 * len(STAMPS)
_PHV_HEADER: Final = 64
_ECN_EGRESS_DROP: Final = 1


@entry(int, int, int, int, int)
def _ingress(state: Any, frame: Any, length: int, io_address: Any, phv: Any) -> int:
    if length > abi.MAX_FRAME_BYTES:
        return -1
    io = io_at(io_address, 0)
    host = (byte_at(frame, 32) << 8 | byte_at(frame, 33)) - 1
    route = abi.DROP_PORT
    if 0 <= host < cell_at(state, 0).value:
        route = cell_at(state, 1 + host).value
    io.out_mcast_grp = route - TO_GROUP if route >= TO_GROUP else 0
    io.out_egress_spec = abi.DROP_PORT if route >= TO_GROUP else route  # a multicast group takes precedence
    io.out_priority = byte_at(frame, 15) >> 2
    cell_at(phv, 0).value = length
    cell_at(phv, 1).value = io.in_time_us
    cell_at(phv, 2).value = io.in_port
    copy_bytes(phv + _PHV_HEADER, frame, length)
    return _PHV_HEADER + length


@entry(int, int, int, int)
def _egress(state: Any, phv: Any, io_address: Any, out: Any) -> Any:
    io = io_at(io_address, 0)
    length = cell_at(phv, 0).value
    copy_bytes(out, phv + _PHV_HEADER, length)
    frame = carray(pointer(out), (length,), np.uint8)
    if frame[15] & 3 == _ECN_EGRESS_DROP:
        return -1
    if io.eg_rid != 0:
        frame[33] = io.eg_rid
    if length >= _STAMPED_LENGTH:
        cell_at(out + STAMPED_AT, 0).value = io.eg_enq_time_us
        cell_at(out + STAMPED_AT, 1).value = io.eg_enq_qdepth
        cell_at(out + STAMPED_AT, 2).value = io.eg_deq_timedelta_us
        cell_at(out + STAMPED_AT, 3).value = io.eg_deq_qdepth
        cell_at(out + STAMPED_AT, 4).value = io.eg_time_us
        cell_at(out + STAMPED_AT, 5).value = io.eg_rid
        cell_at(out + STAMPED_AT, 6).value = io.eg_instance
        cell_at(out + STAMPED_AT, 7).value = cell_at(phv, 1).value
        cell_at(out + STAMPED_AT, 8).value = cell_at(phv, 2).value
    return length


class Groups:
    """Multicast groups in the arrays that the fabric reads."""

    def __init__(self, groups: Mapping[int, Sequence[tuple[int, int]]]) -> None:
        self.index = np.zeros((1 << 16, 2), dtype=np.int32)
        self.replicas = np.array([pair for pairs in groups.values() for pair in pairs] or [(0, 0)], dtype=np.int32)
        first = 0
        for group, pairs in groups.items():
            self.index[group] = first, len(pairs)
            first += len(pairs)


class SyntheticSwitch:
    """A synthetic switch; ``routes`` gives a port, or TO_GROUP + group, for host index i; other frames are dropped."""

    phv_bytes: Final = _PHV_HEADER + abi.MAX_FRAME_BYTES
    out_bytes: Final = abi.MAX_FRAME_BYTES
    refused: Final = ()
    detours: Final = None

    def __init__(
        self, routes: Mapping[int, int], groups: Mapping[int, Sequence[tuple[int, int]]] | None = None
    ) -> None:
        self.state = np.full(2 + max(routes, default=0), abi.DROP_PORT, dtype=np.int64)
        self.state[0] = len(self.state) - 1
        for host, route in routes.items():
            self.state[1 + host] = route
        self.multicast = Groups(groups or {})
        self.ingress_address: int = _ingress.address
        self.egress_address: int = _egress.address
        self.state_address = self.peek_state_address = int(self.state.ctypes.data)


def route_all(topology: Topology) -> dict[str, SyntheticSwitch]:
    """Make a switch for each of a topology's, with shortest-path routes; equal paths alternate by host index."""
    routes: dict[str, dict[int, int]] = {node.name: {} for node in topology.switches}
    for host in topology.hosts:
        distance = {host.name: 0}
        ring = [host.name]
        while ring:
            outer = []
            for name in ring:
                for neighbour in topology.neighbours(name):
                    if neighbour not in distance and neighbour in routes:
                        distance[neighbour] = distance[name] + 1
                        outer.append(neighbour)
            for name in outer:
                nearer = [
                    port
                    for port, other in enumerate(topology.neighbours(name), 1)
                    if distance.get(other, len(distance)) < distance[name]
                ]
                routes[name][host.index] = nearer[host.index % len(nearer)]
            ring = outer
    return {name: SyntheticSwitch(table) for name, table in routes.items()}


def frame(target_ip: int, length: int = 62, *, tos: int = 0, resend: bool = False, number: int = 0) -> bytes:
    """Make an INC frame without meaningful lanes: IPv4, UDP to its port, zeros; ``number`` is in the place of seq."""
    made = bytearray(length)
    made[ETHER_TYPE : IP + 2] = 0x08, 0x00, 0x45, tos
    made[IP_PROTOCOL] = IP_PROTOCOL_UDP
    made[IP_DST:UDP_SRC] = target_ip.to_bytes(4, "big")
    made[UDP_DST : UDP_DST + 2] = INC_UDP_PORT.to_bytes(2, "big")
    made[FLAGS] = RESEND if resend else 0
    made[SEQ : SEQ + 4] = number.to_bytes(4, "big")
    return bytes(made)


def stamps(data: bytes) -> dict[str, int]:
    """Return egress's metadata of a frame, by the names in STAMPS."""
    told = np.frombuffer(data, dtype=np.int64, count=len(STAMPS), offset=STAMPED_AT)
    return dict(zip(STAMPS, told.tolist(), strict=True))


ENDPOINT: Final = np.dtype(
    [
        (name, np.int64)
        for name in (
            "status",
            "ip",
            "peer",
            "length",
            "to_send",
            "sent",
            "expected",
            "received",
            "received_bytes",
            "last_ps",
            "gap_ps",
            "next_ps",
            "expired",
            "resend_every",
            "tos",
            "priority",
        )
    ],
    align=True,
)


@entry(int, int, int, int, int)
def _receive(eps: Any, i: int, frame: Any, length: int, now_ps: int) -> int:
    e = carray(pointer(eps), (i + 1,), ENDPOINT)[i]
    if ip_at(frame, IP_DST) != e.ip:
        return 0
    e.received += 1
    e.received_bytes += length
    e.last_ps = now_ps
    if e.sent >= e.to_send and e.received >= e.expected:
        e.status = 2
    return 1


@entry(int, int, int, int, int)
def _transmit(eps: Any, i: int, now_ps: int, out: Any, capacity: int) -> Any:
    e = carray(pointer(eps), (i + 1,), ENDPOINT)[i]
    if e.sent >= e.to_send or now_ps < e.next_ps:
        return 0
    frame = carray(pointer(out), (capacity,), np.uint8)
    frame[: e.length] = 0
    for place in range(4):
        shift = 24 - 8 * place
        frame[IP_SRC + place] = (e.ip >> shift) & 255
        frame[IP_DST + place] = (e.peer >> shift) & 255
        frame[SEQ + place] = (e.sent >> shift) & 255
    frame[ETHER_TYPE] = 0x08
    frame[IP] = 0x45
    frame[TOS] = e.tos
    frame[IP_PROTOCOL] = IP_PROTOCOL_UDP
    frame[UDP_DST] = INC_UDP_PORT >> 8
    frame[UDP_DST + 1] = INC_UDP_PORT & 255
    e.sent += 1
    e.next_ps = now_ps + e.gap_ps
    if e.resend_every > 0 and e.sent % e.resend_every == 0:
        frame[FLAGS] = RESEND
    if e.sent >= e.to_send and e.received >= e.expected:
        e.status = 2
    return e.length


@entry(int, int)
def _deadline(eps: Any, i: int) -> Any:
    e = carray(pointer(eps), (i + 1,), ENDPOINT)[i]
    if e.gap_ps == 0 or e.sent >= e.to_send or e.sent == 0:
        return NEVER
    return e.next_ps


@entry(int, int)
def _expire(eps: Any, i: int) -> int:
    carray(pointer(eps), (i + 1,), ENDPOINT)[i].expired += 1
    return 0


@entry(int, int)
def _status(eps: Any, i: int) -> Any:
    return carray(pointer(eps), (i + 1,), ENDPOINT)[i].status


_CALLS: Final = (_receive, _transmit, _deadline, _expire, _status)


def senders(topology: Topology, hosts: Sequence[str]) -> HostEndpoints:
    """Make an endpoint for each host named, with its address; the caller sets ``peer``, ``to_send``, ``length``, ..."""
    records: NDArray[Any] = np.zeros(len(hosts), dtype=ENDPOINT)
    records["ip"] = [topology.node(name).ip for name in hosts]
    records["status"] = 1
    return HostEndpoints(records, list(hosts), EndpointCalls(*(function.address for function in _CALLS)))
