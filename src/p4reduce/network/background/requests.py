"""Requests and answers as endpoints beside those of jobs: one frame to the server, several back, in plain UDP.

Clients send requests at given times, whether earlier ones were answered or not. A server computes for a fixed time and
sends the answer's frames in sequence, first come, first served. There are no retransmissions: after a lost frame a
request never ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.network.background.source import HEADERS, TEMPLATE_BYTES, SourceEndpoints, headers
from p4reduce.network.virtual.kernels import entry, kernel
from p4reduce.network.virtual.records import EndpointCalls, FabricError, byte_at, call5, worker_endpoints
from p4reduce.topologies import Topology
from p4reduce.workers.records import ENDPOINT_DTYPE, NEVER, EndpointKind
from p4reduce.workers.specs import HostAddress
from p4switch.base.values import PS_PER_S
from p4switch.native.memory import address_of, carray, copy_bytes, pointer, store_u8

REQUESTS: Final = 65
"""Kind of a client or server; those of `workers/` are small."""
ASK_PORT: Final = 9410
ANSWER_PORT: Final = 9411
MOST: Final = 1 << 20
"""Most requests of a client."""
_LEAST_HZ: Final = 1.0
_UDP: Final = 17
_LABEL: Final = HEADERS
"""Offset of the client's number (2 bytes) and its request's number (4)."""

PARTY: Final = np.dtype(
    [
        (name, np.int64)
        for name in (
            "serves",  # 1: a server
            "port",  # port on which it receives
            "number",  # number of a client
            "templates",  # address: TEMPLATE_BYTES for each peer; servers: by number of the client
            "frames",  # frames of an answer
            "length",  # bytes of a frame
            # Client: times of requests, their servers, and when the last frame was back (0: not yet).
            "count",
            "next",
            "times",
            "targets",
            "came",
            "ended",
            # Server: waiting requests as (time when computed, label), and frames sent of the first one's answer.
            "service_ps",
            "queue",
            "head",
            "tail",
            "sent",
            # Functions of the other endpoints (EndpointCalls); the same in every record.
            "receive",
            "transmit",
            "deadline",
            "expire",
            "resume",
            "status",
        )
    ],
    align=True,
)


@dataclass(frozen=True)
class Requests:
    """Request traffic: the clients, the servers, and the rate of requests.

    Attributes
    ----------
    clients, servers : tuple of str
        Hosts, none of them in both.
    rate_hz : float
        Requests per second of each client, at least 1: Poisson, each to any of the servers.
    count : int
        Requests of each client, at most `MOST`.
    frames : int
        Frames of an answer.
    frame_bytes : int
        Bytes of every frame, without FCS.
    service_s : float
        Seconds that a server computes before it answers.
    dscp : int
        Code point of all frames (0..63).
    priority : int
        Their class at hosts (0..7).
    seed : int
        Seed of times and targets.
    """

    clients: tuple[str, ...]
    servers: tuple[str, ...]
    rate_hz: float
    count: int
    frames: int = 16
    frame_bytes: int = 1086
    service_s: float = 0.0
    dscp: int = 0
    priority: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        hosts = (*self.clients, *self.servers)
        if not self.clients or not self.servers or len(set(hosts)) < len(hosts):
            raise FabricError("requests: clients and servers must be some hosts each, and none of them twice")
        if not _LEAST_HZ <= self.rate_hz < float("inf") or self.count > MOST:
            raise FabricError(
                f"requests: rate_hz must be {_LEAST_HZ:g} at least and finite, count {MOST} at most: virtual time ends"
            )
        if self.count < 1 or self.frames < 1 or self.service_s < 0:
            raise FabricError("requests: rate, count and frames must be above 0, service_s at least 0")
        if not 60 <= self.frame_bytes <= 1514 or not 0 <= self.dscp < 64 or not 0 <= self.priority < 8:
            raise FabricError("requests: frame_bytes must be 60..1514, dscp 0..63, priority 0..7")

    def endpoints(self, topology: Topology) -> "RequestEndpoints":
        """Make the endpoints of clients and servers, for a `JobNetwork` in place of background traffic."""
        return RequestEndpoints(topology, self)


class RequestEndpoints(SourceEndpoints):
    """Endpoints of jobs, preceded by clients and servers at indices 0 .. len(hosts) - 1."""

    def __init__(self, topology: Topology, requests: Requests) -> None:
        super().__init__()
        self.hosts = [*requests.clients, *requests.servers]
        self._parties = np.zeros(len(self.hosts), PARTY)
        random = np.random.Generator(np.random.Philox(requests.seed))
        clients, servers = len(requests.clients), len(requests.servers)
        gaps = random.exponential(1.0 / requests.rate_hz, (clients, requests.count))
        self.asked_ps: NDArray[np.int64] = np.round(np.cumsum(gaps, axis=1) * PS_PER_S).astype(np.int64)
        """Time of each request, ps, (clients, count)."""
        self.ended_ps: NDArray[np.int64] = np.zeros((clients, requests.count), np.int64)
        """Arrival of the answer's last frame, ps, (clients, count); 0: not yet."""
        self._targets = random.integers(servers, size=(clients, requests.count)).astype(np.int64)
        self._came = np.zeros((clients, requests.count), np.int64)
        self._queues = np.zeros((servers, clients * requests.count, 2), np.int64)
        for place, host in enumerate(self.hosts):
            self._add_party(topology, requests, place, host)

    @property
    def finished(self) -> bool:
        """Whether all requests have been answered."""
        return bool((self.ended_ps > 0).all())

    def calls(self, beside: EndpointCalls | None = None) -> EndpointCalls:
        """Return the functions that drive the records; all other endpoints use ``beside``, or those of `workers/`."""
        for name, value in (beside or worker_endpoints())._asdict().items():
            self._parties[name] = value
        return EndpointCalls(
            *(function.address for function in (_receive, _transmit, _deadline, _expire, _status, _resume))
        )

    def _add_party(self, topology: Topology, requests: Requests, place: int, host: str) -> None:
        serves = place >= len(requests.clients)
        node, port = topology.node(host), ASK_PORT if serves else ANSWER_PORT
        own = HostAddress(node.mac, node.ip, port)
        index = self._add(EndpointKind.WORKER, own, [own], job=0, epoch=0, lanes=1)
        record, party = self._records[index], self._parties[place]
        record["kind"], record["priority"] = REQUESTS, requests.priority
        record["entries"] = address_of(self._parties) + place * PARTY.itemsize
        others: Sequence[str] = requests.clients if serves else requests.servers
        made = b"".join(
            headers(
                topology,
                host,
                other,
                requests.frame_bytes,
                port=ANSWER_PORT if serves else ASK_PORT,
                dscp=requests.dscp,
            )
            for other in others
        )
        party["templates"] = self._keep(index, np.frombuffer(made, np.uint8).copy())
        party["serves"], party["port"], party["frames"] = serves, port, requests.frames
        party["length"], party["number"] = requests.frame_bytes, place
        if serves:
            party["service_ps"] = round(requests.service_s * PS_PER_S)
            party["queue"] = address_of(self._queues[place - len(requests.clients)])
            return
        party["count"] = requests.count
        for name, array in (
            ("times", self.asked_ps),
            ("targets", self._targets),
            ("came", self._came),
            ("ended", self.ended_ps),
        ):
            party[name] = address_of(array[place])


@kernel
def _party(records: Any, i: int) -> Any:
    return carray(pointer(records[i].entries), (1,), PARTY)[0]


@kernel
def _number_at(frame: Any, first: int, count: int) -> Any:
    """Read a number from ``count`` bytes at ``first``, in network order."""
    value = 0
    for place in range(count):
        value = value << 8 | byte_at(frame, first + place)
    return value


@kernel
def _due_ps(party: Any) -> Any:
    """Return when a party has something to send, picoseconds; NEVER if nothing."""
    if party.serves == 0:
        return carray(pointer(party.times), (party.count,), np.int64)[party.next] if party.next < party.count else NEVER
    return carray(pointer(party.queue), (party.tail, 2), np.int64)[party.head, 0] if party.head < party.tail else NEVER


@entry(int, int, int, int, int)
def _receive(eps: Any, i: int, frame: Any, length: int, now_ps: int) -> Any:
    records = carray(pointer(eps), (i + 1,), ENDPOINT_DTYPE)
    e = records[i]
    if e.kind != REQUESTS:
        return call5(_party(records, 0).receive, eps, i, frame, length, now_ps)
    party = _party(records, i)
    if length < _LABEL + 6 or byte_at(frame, 23) != _UDP or _number_at(frame, 36, 2) != party.port:
        return 0
    if _number_at(frame, 30, 4) != e.ip:
        return 0
    number = _number_at(frame, _LABEL + 2, 4)
    if party.serves != 0:
        queue = carray(pointer(party.queue), (party.tail + 1, 2), np.int64)
        queue[party.tail, 0] = now_ps + party.service_ps
        queue[party.tail, 1] = _number_at(frame, _LABEL, 2) << 32 | number
        party.tail += 1
        return 1
    came = carray(pointer(party.came), (party.count,), np.int64)
    came[number] += 1
    if came[number] == party.frames:
        carray(pointer(party.ended), (party.count,), np.int64)[number] = now_ps
    return 1


@entry(int, int, int, int, int)
def _transmit(eps: Any, i: int, now_ps: int, out: Any, capacity: int) -> Any:
    records = carray(pointer(eps), (i + 1,), ENDPOINT_DTYPE)
    if records[i].kind != REQUESTS:
        return call5(_party(records, 0).transmit, eps, i, now_ps, out, capacity)
    party = _party(records, i)
    if now_ps < _due_ps(party):
        return 0
    if party.serves != 0:
        label = carray(pointer(party.queue), (party.tail, 2), np.int64)[party.head, 1]
        whom = label >> 32
        party.sent += 1
        if party.sent == party.frames:
            party.head, party.sent = party.head + 1, 0
    else:
        label = party.number << 32 | party.next
        whom = carray(pointer(party.targets), (party.count,), np.int64)[party.next]
        party.next += 1
    copy_bytes(out, party.templates + whom * TEMPLATE_BYTES, HEADERS)
    body = carray(pointer(out + HEADERS), (party.length - HEADERS,), np.uint8)
    body[:] = 0
    for place in range(6):
        store_u8(out, _LABEL + place, label >> 8 * (5 - place) & 255)
    return party.length


@entry(int, int, int, int, int)
def _deadline(eps: Any, i: int, a: int, b: int, c: int) -> Any:
    records = carray(pointer(eps), (i + 1,), ENDPOINT_DTYPE)
    if records[i].kind != REQUESTS:
        return call5(_party(records, 0).deadline, eps, i, a, b, c)
    return _due_ps(_party(records, i))


@entry(int, int, int, int, int)
def _expire(eps: Any, i: int, now_ps: int, a: int, b: int) -> Any:
    records = carray(pointer(eps), (i + 1,), ENDPOINT_DTYPE)
    if records[i].kind != REQUESTS:
        return call5(_party(records, 0).expire, eps, i, now_ps, a, b)
    return 0


@entry(int, int)
def _status(eps: Any, i: int) -> Any:
    return carray(pointer(eps), (i + 1,), ENDPOINT_DTYPE)[i].status


@entry(int, int, int, int, int)
def _resume(eps: Any, i: int, paused_ps: int, a: int, b: int) -> Any:
    records = carray(pointer(eps), (i + 1,), ENDPOINT_DTYPE)
    if records[i].kind != REQUESTS:
        return call5(_party(records, 0).resume, eps, i, paused_ps, a, b)
    return 0
