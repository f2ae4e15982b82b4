"""One interface for systems that aggregate in the network: a P4 program, its entries, and the endpoints at hosts.

A system is a :class:`System`. Its endpoints are of class :class:`Endpoint`: they pack frames, process answers and
handle time-outs. Pacing, resends and measured time-outs are the same for all systems; switches, links and virtual time
are those of every other run. ``p4reduce.systems`` is the entry point group of further systems.
"""

import ctypes
import math
import struct
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from heapq import heappop, heappush
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from p4reduce.base.errors import BadInput
from p4reduce.base.registry import Registry
from p4reduce.control_plane.plans import Plan, PlanRequest, make_plan
from p4reduce.control_plane.plans.forest import shares
from p4reduce.control_plane.plans.problem import with_margin
from p4reduce.control_plane.plans.routes import BaseRoutes
from p4reduce.control_plane.resources import Resources
from p4reduce.network.background import RequestEndpoints, Requests
from p4reduce.network.background.source import HEADERS, headers
from p4reduce.network.jobs.network import NO_FAULTS
from p4reduce.network.jobs.specs import chunk_times
from p4reduce.network.virtual import EndpointCalls, Faults, HostEndpoints, LinkCounters, VirtualNetwork
from p4reduce.network.virtual.records import worker_endpoints
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.workers.records import ENDPOINT_DTYPE, NEVER, EndpointKind, EndpointState
from p4switch import Switch
from p4switch.p4.compile import compile_file
from p4switch.program.loader import load_program
from p4switch.program.program import Program

HERE: Final = Path(__file__).parent
UDP_PORT: Final = 9500
UP: Final = 1
DOWN: Final = 2
_TAG: Final = struct.Struct("!HBBHHIII")
HEADER_BYTES: Final = HEADERS + _TAG.size
_DESTINATION: Final = slice(30, 34)
_RESULTS: Final = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5)
Floats = NDArray[np.float32]
Words = NDArray[np.int32]


class Tag(NamedTuple):
    """The header of a system's frames, with the fields of common.p4."""

    job: int
    kind: int = UP
    resend: bool = False
    ecn_echo: bool = False
    collision: bool = False
    version: int = 0
    exponent: int = 0
    slot: int = 0
    seq: int = 0
    next: int = 0
    bitmap: int = 0

    def bytes(self) -> bytes:
        """Return the header in network order."""
        flags = self.kind << 4 | self.resend << 3 | self.ecn_echo << 2 | self.collision << 1 | self.version
        return _TAG.pack(self.job, flags, self.exponent, self.slot, 0, self.seq, self.next, self.bitmap)


class ReceivedFrame(NamedTuple):
    """A received frame: its tag, lanes (an empty array if it has none), source address, and congestion mark."""

    tag: Tag
    lanes: Words
    source: int
    marked: bool


def _read(data: bytes) -> ReceivedFrame:
    job, flags, exponent, slot, _, seq, following, bitmap = _TAG.unpack_from(data, HEADERS)
    tag = Tag(
        job, flags >> 4, flags & 8 > 0, flags & 4 > 0, flags & 2 > 0, flags & 1, exponent, slot, seq, following, bitmap
    )
    lanes = np.frombuffer(data, ">i4", offset=HEADER_BYTES)
    return ReceivedFrame(tag, lanes, int.from_bytes(data[26:30], "big"), data[15] & 3 == 3)


# Numbers: block floating point with an exponent per chunk, as in p4reduce (docs/protocol.md).


class Chunks:
    """A worker's array by chunks, and its sum.

    Attributes
    ----------
    exponents : list of int
        Exponent of each chunk, biased by 127; 0 for a chunk of zeros.
    """

    def __init__(self, array: Floats, lanes: int, members: int) -> None:
        self.count = -(-array.size // lanes)
        self._size = array.size
        self._values = np.zeros((self.count, lanes), np.float32)
        self._values.reshape(-1)[: array.size] = array
        self._sum = np.zeros((self.count, lanes), np.float32)
        largest = np.abs(self._values).max(axis=1).view(np.int32)
        self.exponents: list[int] = np.where(largest == 0, 0, (largest >> 23) + 1).tolist()
        self._bits = 30 - (members - 1).bit_length()

    def lanes(self, chunk: int, exponent: int) -> Words:
        """Return the integers of a chunk in network order, scaled by the exponent that all workers agreed on."""
        scale = 2.0 ** (self._bits - exponent + 127) if exponent else 0.0
        made: Words = np.rint(self._values[chunk] * scale).astype(">i4")
        return made

    def store(self, chunk: int, lanes: Words, exponent: int) -> None:
        """Store a chunk's sum; without lanes, the sum stays zero."""
        if lanes.size:
            np.multiply(lanes, 2.0 ** (exponent - 127 - self._bits), out=self._sum[chunk], casting="unsafe")

    @property
    def sum(self) -> Floats:
        """The sum of the chunks that have been stored; zeros elsewhere."""
        return self._sum.reshape(-1)[: self._size]


# A job: its members, and the tree of aggregating switches.


@dataclass(frozen=True, eq=False)
class AllReduceJob:
    """An all-reduce.

    Attributes
    ----------
    tree : Plan
        Aggregating switches and the paths between them: p4reduce's tree; a plan ``ps`` has no aggregating switch.
    arrays : sequence of float32
        Array of each worker.
    share : tuple of int
        Index of the job, and number of jobs that share the switches: (2, 8) is the third of eight.
    trees : int
        Number of trees, including this one, that carry equal parts of one tensor; they share a window.
    """

    number: int
    tree: Plan
    arrays: Sequence[Floats]
    share: tuple[int, int] = (0, 1)
    trees: int = 1

    @property
    def topology(self) -> Topology:
        """The topology of the job."""
        return self.tree.topology

    @property
    def lanes(self) -> int:
        """Lanes of a full frame."""
        return self.tree.lanes

    @cached_property
    def window(self) -> int:
        """Number of chunks in flight that keeps the busiest link busy, with a margin for chunks that have to wait."""
        return with_margin(-(-self.tree.window_needed // self.trees))

    @cached_property
    def exponent(self) -> int:
        """Exponent for all chunks, for systems that agree on none: that of the largest number of any worker."""
        largest = max(float(np.abs(array).max()) for array in self.arrays)
        return math.frexp(largest)[1] + 127 if largest else 0

    def patience_ps(self, window: float) -> int:
        """Return the least time-out: twice a round trip behind the windows of all jobs, as in p4reduce."""
        return 2 * (self.tree.rtt_ps + int(self.share[1] * window * self.tree.chunk_ps))

    @property
    def task(self) -> int:
        """Number of the task whose tensor the job carries; all trees of a task have the same number."""
        return self.share[0] // self.trees

    @property
    def workers(self) -> tuple[str, ...]:
        """Hosts in rank order."""
        return self.tree.workers

    def cells(self, all_cells: int) -> tuple[int, int]:
        """Return the first of the job's cells in each switch, and their number; all jobs have equal parts."""
        part = all_cells // self.share[1]
        return part * self.share[0], part

    def ip(self, node: str) -> int:
        """Return the IP address of a node."""
        return self.topology.node(node).ip


def tree(
    topology: Topology,
    number: int,
    workers: Sequence[str],
    *,
    lanes: int,
    plan: str = "steiner",
    server: str | None = None,
    resources: Resources | None = None,
    load: Mapping[Hop, int] | None = None,
) -> Plan:
    """Return the tree of p4reduce's plan, with ``server`` above it if given. `PlanError`: no switch can aggregate.

    resources: those of the switches, shared by all jobs of a network; None: there is one job. load: load of links in
    bit/s, which the tree avoids where it can.
    """
    request = PlanRequest(plan, job=number, workers=tuple(workers), lanes=lanes, server=server, load=load or {})
    return make_plan(topology, request, resources or Resources())


def jobs_of(system: "System", topology: Topology, arrays: Sequence[Sequence[Floats]], lanes: int) -> list[AllReduceJob]:
    """Return jobs of a system whose workers alternate on the topology's hosts; ``arrays``: of each job, by rank.

    A system with several trees has a job for each of them, with whole chunks; each tree avoids the links of all earlier
    trees. Servers are assigned in turn; if no switch can aggregate, a system that needs servers uses them alone.

    Raises
    ------
    PlanError
        No switch can aggregate, or there are no servers.
    """
    resources, load, jobs = Resources(), Counter[Hop](), list[AllReduceJob]()
    hosts = [host.name for host in topology.workers]
    for place, own in enumerate(arrays):
        workers = hosts[place :: len(arrays)][: len(own)]
        servers = topology.servers
        server = servers[place % len(servers)].name if system.needs_server and servers else None
        plan = "steiner" if any(switch.capable for switch in topology.switches) or server is None else "ps"
        for tree_, (a, b) in enumerate(shares(own[0].size, [1] * system.trees, lanes)):
            if a == b:
                continue
            index = place * system.trees + tree_
            made = tree(
                topology, index + 1, workers, lanes=lanes, plan=plan, server=server, resources=resources, load=load
            )
            parts = [array[a:b] for array in own]
            jobs.append(AllReduceJob(index + 1, made, parts, (index, len(arrays) * system.trees), system.trees))
            load.update(load_of(made, len(arrays) * system.trees))
    return jobs


def load_of(plan: Plan, among: int) -> dict[Hop, int]:
    """Return a tree's rates on links between switches, bit/s, if ``among`` trees share each link equally."""
    links = {hop: plan.topology.link_at(*hop) for hop in chunk_times(plan)}
    hosts = {host.name for host in plan.topology.hosts}
    return {hop: link.rate_bps // among for hop, link in links.items() if not {link.a, link.b} & hosts}


def add_routes(
    switches: Mapping[str, Switch], job: AllReduceJob, paths: Mapping[tuple[str, str], Sequence[str]]
) -> None:
    """Write route entries along paths; the first path to a destination counts."""
    known: set[tuple[str, int]] = set()
    for path in paths.values():
        target = job.ip(path[-1])
        for node, following in pairwise(path):
            if node in switches and (node, target) not in known:
                known.add((node, target))
                switches[node].insert("route", [target, job.number], "leave", (job.topology.port(node, following),))


# Endpoints at hosts.


class RoundTrips:
    """A measured time-out: smoothed round trip time plus four deviations (RFC 6298).

    The sample of a round is its shortest round trip, because the others include the wait for chunks that another worker
    lost. p4reduce measures in the same way.
    """

    def __init__(self, least_ps: int) -> None:
        self._least, self._mean, self._deviation = least_ps, 0.0, 0.0
        self._shortest, self._count, self._unclear = NEVER, 0, 0
        self._doubled = 0

    def took(self, ps: int, on_way: int) -> None:
        """Take a round trip of a frame that was sent once; ``on_way``: number of other frames without an answer."""
        self._doubled = self._unclear = 0
        self._shortest = min(self._shortest, ps)
        self._count += 1
        if self._count < on_way:
            return
        if not self._mean:
            self._mean, self._deviation = float(self._shortest), self._shortest / 4
        self._deviation += (abs(self._shortest - self._mean) - self._deviation) / 4
        self._mean += (self._shortest - self._mean) / 8
        self._shortest, self._count = NEVER, 0

    def unclear(self, on_way: int) -> None:
        """Count an answer to a frame that was sent twice; two rounds with only such answers double the time-out."""
        self._unclear += 1
        if self._unclear > 2 * on_way + 8:
            self._doubled, self._unclear = min(self._doubled + 1, 4), 0

    @property
    def timeout_ps(self) -> int:
        """Time from sending a frame to sending it again."""
        measured = self._mean + 4 * self._deviation if self._mean else self._least
        return int(max(measured, self._least)) << self._doubled


class Endpoint(ABC):
    """An endpoint of a job. Implement :meth:`pack` and :meth:`acknowledge`; call :meth:`offer` first in ``__init__``.

    A *key* identifies one of the endpoint's frames, for example the number of a chunk.

    Attributes
    ----------
    done : bool
        Whether the endpoint has its sum; set by the subclass. Always False for a server.
    resends : int
        Number of frames that were sent again.
    window : float
        Highest number of frames in flight.
    rank, chunks : int and Chunks
        A worker's rank, its array and its sum.
    """

    works: ClassVar[bool] = True
    """False for a server, for which the run does not wait"""

    def __init__(self, job: AllReduceJob, host: str, window: int | None = None) -> None:
        self.job, self.host = job, host
        self.done = False
        self.resends = 0
        if self.works:
            self.rank = job.workers.index(host)
            self.chunks = Chunks(job.arrays[self.rank], job.lanes, len(job.workers))
        self.window = float("inf")
        self.ip = job.ip(host)
        self.clock = RoundTrips(job.patience_ps(window or job.window))
        self._ready: deque[int] = deque()
        self._sent: dict[int, tuple[int, int, bool]] = {}  # times of sending and time-out; sent again?
        self._due: list[tuple[int, int]] = []  # a heap of time-outs and keys; may have outdated entries
        self._again: set[int] = set()  # keys that are or will be sent again
        self._replies: deque[bytes] = deque()
        self._headers: dict[tuple[str, int], bytes] = {}
        link = job.topology.link_at(host, 1)
        own_ps = 8 * (HEADER_BYTES + 4 * job.lanes + 24) * 10**12 // link.rate_bps
        self._pace_ps = job.tree.chunk_ps if job.tree.chunk_ps > own_ps else 0
        self._next_ps = 0

    @abstractmethod
    def pack(self, key: int, *, again: bool) -> bytes | None:
        """Return the frame of a key, made by :meth:`frame`; None if it is no longer needed."""

    @abstractmethod
    def acknowledge(self, frame: ReceivedFrame, now_ps: int) -> None:
        """Process a frame of this job: call :meth:`heard`, store its data, and :meth:`offer` the keys that follow."""

    def time_out(self, key: int) -> None:
        """Send a key again, before all others: its answer did not come in time."""
        self.offer(key, again=True)

    def lost(self, key: int) -> None:
        """Send a key again, before its time-out, because it is known to be lost."""
        self._sent.pop(key, None)
        self.offer(key, again=True)

    def reply(self, frame: bytes) -> None:
        """Queue a frame that leaves before all others and needs no answer."""
        self._replies.append(frame)

    def offer(self, key: int, *, again: bool = False) -> None:
        """Queue a key to leave when there is room."""
        if again:
            self._again.add(key)
            self._ready.appendleft(key)
        else:
            self._ready.append(key)

    def heard(self, key: int, now_ps: int, *, counts: bool = True) -> None:
        """Record the answer to a key; it is a round-trip sample if the key was sent once, in a full frame."""
        at, _, again = self._sent.pop(key, (0, 0, True))
        self._again.discard(key)
        if not counts:
            return
        if again:
            self.clock.unclear(len(self._sent))
        else:
            self.clock.took(now_ps - at, len(self._sent))

    def on_way(self, key: int) -> bool:
        """Return whether a key was sent and has no answer yet."""
        return key in self._sent

    def frame(self, to: str, tag: Tag, lanes: Words | None = None) -> bytes:
        """Return a frame to a node."""
        length = HEADER_BYTES if lanes is None else HEADER_BYTES + 4 * self.job.lanes
        key = to, length
        if key not in self._headers:
            made = headers(self.job.topology, self.host, to, length, port=UDP_PORT, dscp=0)
            self._headers[key] = made[:HEADERS]
        return self._headers[key] + tag.bytes() + (b"" if lanes is None else lanes.tobytes())

    # Called by the network.

    def transmit(self, now_ps: int) -> bytes | None:
        """Return the next frame, or None if none may leave now."""
        if self._replies:
            return self._replies.popleft()
        while self._ready and len(self._sent) < self.window and now_ps >= self._next_ps:
            key = self._ready.popleft()
            again = key in self._again
            made = self.pack(key, again=again)
            if made is None:
                self._again.discard(key)
                continue
            due = now_ps + self.clock.timeout_ps
            self._sent[key] = now_ps, due, again
            heappush(self._due, (due, key))
            self.resends += again
            if self._pace_ps and not again and len(made) > HEADER_BYTES:
                late = now_ps - self._next_ps
                self._next_ps = (self._next_ps if late < self._pace_ps else now_ps) + self._pace_ps
            return made
        return None

    def _first_due(self) -> int:
        while self._due:
            due, key = self._due[0]
            if self._sent.get(key, (0, 0, False))[1] == due:
                return due
            heappop(self._due)
        return NEVER

    def expire(self, now_ps: int) -> None:
        """Handle all keys that timed out."""
        late = []
        while self._first_due() <= now_ps:
            late.append(heappop(self._due)[1])
        for key in reversed(late):
            if self._sent.pop(key, None) is not None:
                self.time_out(key)

    def due_ps(self, now_ps: int) -> int:
        """Return the time at which :meth:`expire` or :meth:`transmit` must be called next."""
        due = self._first_due()
        if self._ready and self._next_ps > now_ps and len(self._sent) < self.window:
            due = min(due, self._next_ps)
        return due


class System(ABC):
    """A published system.

    Attributes
    ----------
    name, says : str
        Name in tables; publication.
    source : Path
        P4 program for v1model; the include path has common.p4.
    cells : int
        Number of cells of each register (-DCELLS).
    needs_server : bool
        Whether its jobs have a parameter server.
    trees : int
        Number of trees of each job, which share the tensor.
    repairs_hops : bool
        Whether its links lose nothing: a loss on other systems' links is a delay on its links (:func:`run`).
    """

    name: ClassVar[str]
    says: ClassVar[str]
    source: Path
    cells: int = 8192
    trees: int = 1
    needs_server: ClassVar[bool] = False
    repairs_hops: ClassVar[bool] = False

    @abstractmethod
    def entries(self, switches: Mapping[str, Switch], job: AllReduceJob) -> None:
        """Install a job in the switches, which are given by name."""

    @abstractmethod
    def endpoints(self, job: AllReduceJob) -> Iterator[Endpoint]:
        """Yield the endpoints of a job, workers first, in rank order."""

    def carried(self, link: LinkCounters) -> int:
        """Return the bytes that a direction of a link carried, without FCS, including bytes that a hop sent again."""
        again = link.reordered if self.repairs_hops else 0
        return link.bytes + link.bytes * again // max(1, link.frames)

    def slots(self, switches: Mapping[str, Switch], jobs: Sequence[AllReduceJob]) -> int:
        """Return the number of chunks for which the busiest switch had or reserved memory; 0: unknown."""
        return 0


SYSTEMS: Registry[Callable[[], System]] = Registry("system", BadInput)
"""Systems by name; other distributions add systems by entry points of ``p4reduce.systems``."""


@cache
def compiled(source: Path, lanes: int, cells: int) -> Program:
    """Return a system's program, compiled once. Raises ``P4Error``."""
    compiling = compile_file(source, {"LANES": str(lanes), "CELLS": str(cells)}, [HERE]).require()
    return load_program(compiling.json or {})


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of a run.

    Attributes
    ----------
    done_ps : list of int
        Time at which the last worker of each job had its sum.
    busiest_bytes : int
        Bytes on the busiest link, without FCS.
    resends : int
        Number of frames that endpoints sent again.
    slots : int
        Number of chunks for which the busiest switch had memory.
    ends : list
        The endpoints, for further results.
    parties : RequestEndpoints or None
        Clients and servers of requests, with their times; None if there were no requests.
    """

    done_ps: list[int]
    busiest_bytes: int
    resends: int
    slots: int
    ends: list[Endpoint] = field(default_factory=list, repr=False)
    parties: RequestEndpoints | None = None


class WrongSum(AssertionError):
    """A system returned an inexact sum, or none."""


class _Driver:
    """Endpoints in Python, called by the compiled loop, which reads deadlines and states from the records.

    ``first``: number of records before those of these endpoints.
    """

    def __init__(self, ends: Sequence[Endpoint], first: int = 0) -> None:
        self.ends, self._first = ends, first
        self.error: BaseException | None = None
        self.done_ps = [0] * len(ends)
        self.records = np.zeros(len(ends), ENDPOINT_DTYPE)
        self.records["kind"], self.records["status"] = EndpointKind.WORKER, EndpointState.ACTIVE
        self.records["timer"] = self.records["wake"] = NEVER
        self._who = [(end.ip.to_bytes(4, "big"), end.job.number.to_bytes(2, "big")) for end in ends]
        self._kept = [_RESULTS(self._guarded(callback)) for callback in (self._receive, self._transmit, self._expire)]
        receive, transmit, expire = (int(ctypes.cast(callback, ctypes.c_void_p).value or 0) for callback in self._kept)
        calls = worker_endpoints()
        self.calls = EndpointCalls(receive, transmit, calls.deadline, expire, calls.status)

    def drives(self, records: NDArray[np.void]) -> None:
        """Set the records of the network, which include those of these endpoints, before the network runs."""
        self._timers, self._states = records["timer"][self._first :], records["status"][self._first :]

    def _guarded(self, function: Callable[..., int]) -> Callable[..., int]:
        def call(_records: int, *arguments: int) -> int:
            if self.error is not None:
                return 0
            try:
                return function(arguments[0] - self._first, *arguments[1:])
            except BaseException as error:  # the caller is compiled code: run() raises it
                self.error = error
                self._states[:] = EndpointState.FAILED
                return 0

        return call

    def _settle(self, index: int, now_ps: int) -> None:
        end = self.ends[index]
        self._timers[index] = end.due_ps(now_ps)
        if end.done and self._states[index] == EndpointState.ACTIVE:
            self._states[index], self.done_ps[index] = EndpointState.DONE, now_ps

    def _receive(self, index: int, address: int, length: int, now_ps: int) -> int:
        data = ctypes.string_at(address, length)
        ip, job = self._who[index]
        if length < HEADER_BYTES or data[_DESTINATION] != ip or data[HEADERS : HEADERS + 2] != job:
            return 0
        self.ends[index].acknowledge(_read(data), now_ps)
        self._settle(index, now_ps)
        return 1

    def _transmit(self, index: int, now_ps: int, out: int, _capacity: int) -> int:
        made = self.ends[index].transmit(now_ps)
        self._settle(index, now_ps)
        if made is None:
            return 0
        ctypes.memmove(out, made, len(made))
        return len(made)

    def _expire(self, index: int, now_ps: int, _a: int, _b: int) -> int:
        self.ends[index].expire(now_ps)
        self._settle(index, now_ps)
        return 0


def add_plain_routes(switches: Mapping[str, Switch], topology: Topology) -> None:
    """Write routes for packets that belong to no job, as in p4reduce's switches."""
    routes = BaseRoutes(topology)
    for name, switch in switches.items():
        for route in routes.of(name):
            if route.neighbour is not None:
                switch.insert("route", [route.value, 0], "leave", (topology.port(name, route.neighbour),))


def settle(network: VirtualNetwork, parties: RequestEndpoints) -> None:
    """Run until all requests asked so far are answered. Raises ``WrongSum`` if one is lost."""
    asked = parties.asked_ps <= network.now
    network.run(network.now + 10**9)
    if not (parties.ended_ps[asked] > 0).all():
        raise WrongSum(f"{int((parties.ended_ps[asked] == 0).sum())} requests have no answer")


def run(
    system: System,
    topology: Topology,
    jobs: Sequence[AllReduceJob],
    *,
    faults: Faults = NO_FAULTS,
    seed: int = 0,
    requests: Requests | None = None,
) -> RunOutcome:
    """Run jobs that begin together, in virtual time, and check every sum.

    requests: other hosts' requests in plain UDP on shortest paths; the run continues until those asked before the jobs
    were done are answered.

    Raises
    ------
    WrongSum
        A worker's sum is not exact, or is missing after ten minutes of virtual time.
    """
    lanes = jobs[0].lanes
    switches = {node.name: Switch(compiled(system.source, lanes, system.cells)) for node in topology.switches}
    ends: list[Endpoint] = []
    for job in jobs:
        system.entries(switches, job)
        ends += system.endpoints(job)
    parties = None if requests is None else requests.endpoints(topology)
    first = 0 if parties is None else len(parties)
    driver = _Driver(ends, first)
    carries = topology
    if system.repairs_hops and faults.any:
        # A hop that repairs its losses sends each lost frame once more, so the link loses that share of its rate. The
        # frame is late by a round trip of the link and one frame time on average, uniform from zero to twice that.
        repaired = min(0.99, faults.loss + faults.corrupt)
        late = max(2 * link.delay_ps + 16 * 1600 * 10**12 // link.rate_bps for link in topology.links)
        faults = Faults(reorder=min(1.0, repaired + faults.reorder), reorder_delay_ps=2 * late)
        links = (replace(link, rate_bps=int(link.rate_bps * (1 - repaired))) for link in topology.links)
        carries = replace(topology, links=tuple(links))
    devices = {name: switch.device for name, switch in switches.items()}
    hosts, records, calls = [endpoint.host for endpoint in ends], driver.records, driver.calls
    if parties is not None:
        add_plain_routes(switches, topology)
        hosts, records = [*parties.hosts, *hosts], np.concatenate([parties.records, records])
        calls = parties.calls(beside=calls)
    driver.drives(records)
    with VirtualNetwork(
        carries, devices, endpoints=HostEndpoints(records, hosts, calls), faults=faults, seed=seed
    ) as network:
        network.start_all(range(len(hosts)))
        watched = [index for index, endpoint in enumerate(ends) if endpoint.works]
        network.run(600 * 10**12, watch=[first + index for index in watched])
        if driver.error is not None:
            raise driver.error
        busiest = max(map(system.carried, network.links.values()))
        if parties is not None:
            settle(network, parties)
    tasks = dict.fromkeys(job.task for job in jobs)
    done = [max(driver.done_ps[i] for i in watched if ends[i].job.task == task) for task in tasks]
    for index in watched:
        end = ends[index]
        exact = np.sum(end.job.arrays, axis=0, dtype=np.float64)
        if not end.done or not np.array_equal(end.chunks.sum, exact):
            what = "a wrong sum" if end.done else "no sum"
            raise WrongSum(f"{system.name}, seed {seed}: {end.host} of job {end.job.number} has {what}")
    resends = sum(endpoint.resends for endpoint in ends)
    return RunOutcome(done, busiest, resends, system.slots(switches, jobs), ends, parties)


def integers(
    seed: int, rank: int, elements: int, density: float = 1.0, block: int = 256, *, alike: bool = False
) -> Floats:
    """Return float32 (elements,): small integers with exact sums, in a share of blocks that is drawn for each rank.

    alike: in the same blocks at all ranks.
    """
    random = np.random.default_rng([seed, rank])
    values = random.integers(-8, 9, elements).astype(np.float32)
    if density < 1:
        random = np.random.default_rng([seed, 1 << 20]) if alike else random
        dense = random.random(-(-elements // block)) < density
        values *= np.repeat(dense, block)[:elements]
    return values
