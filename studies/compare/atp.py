"""ATP's workers and parameter server (atp.p4)."""

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans import Plan
from p4switch import Switch
from studies.compare.protocol import (
    DOWN,
    HERE,
    SYSTEMS,
    UP,
    AllReduceJob,
    Endpoint,
    ReceivedFrame,
    System,
    Tag,
    add_routes,
    tree,
)

LATER = 3
"""number of results for later chunks after which a chunk counts as lost"""
MOST_WORKERS = 32
REACH = 8
"""number of windows by which a chunk may be ahead of the oldest chunk without a result"""


@lru_cache(1 << 16)
def _hashed(job: int, seq: int) -> int:
    return zlib.crc32(struct.pack("!HI", job, seq))


class AtpWorker(Endpoint):
    """A worker whose window limits the chunks without a result; ECN halves it, a round trip extends it by one."""

    def __init__(self, job: AllReduceJob, host: str, system: "Atp") -> None:
        super().__init__(job, host, len(job.workers) * job.window // 4)  # fallback waits behind others' frames
        self.system = system
        self.exponent = job.exponent
        self.least, self.most = min(4, job.window), 4 * job.window
        self.congestion = float(job.window)
        self.missing = set(range(1, self.chunks.count + 1))
        self.oldest = self.next = 1
        self.open = 0  # number of chunks that have left and have no result
        self.later: dict[int, int] = {}
        self.held_until = 0
        self._fill()

    def _fill(self) -> None:
        reach = min(self.oldest + REACH * self.job.window, self.chunks.count + 1)
        while self.next < reach and self.open < int(self.congestion):
            self.offer(self.next)
            self.next += 1
            self.open += 1

    def pack(self, key: int, *, again: bool) -> bytes | None:
        """Return the frame of chunk ``key - 1``; None if its result has come."""
        if key not in self.missing:
            return None
        slot = self.system.slot(self.job, key)
        tag = Tag(self.job.number, UP, again, slot=slot, seq=key, bitmap=1 << self.rank, exponent=self.exponent)
        return self.frame(self.job.tree.server or "", tag, self.chunks.lanes(key - 1, self.exponent))

    def acknowledge(self, frame: ReceivedFrame, now_ps: int) -> None:
        """Take a result: adapt the window, store the sum, detect lost chunks and send the next ones."""
        seq = frame.tag.seq
        if frame.tag.ecn_echo or frame.marked:
            if now_ps >= self.held_until:
                self.congestion = max(self.least, self.congestion / 2)
                self.held_until = now_ps + self.job.tree.rtt_ps
        else:
            self.congestion = min(self.most, self.congestion + 1 / self.congestion)
        if seq in self.missing:
            self.heard(seq, now_ps)
            self.chunks.store(seq - 1, frame.lanes, self.exponent)
            self.missing.remove(seq)
            self.open -= 1
            while self.oldest < self.next and self.oldest not in self.missing:
                self.oldest += 1
            for key in range(self.oldest, seq):
                if key in self.missing:
                    self.later[key] = self.later.get(key, 0) + 1
                    if self.later[key] == LATER and self.on_way(key):
                        self.lost(key)
            self.done = not self.missing
        self._fill()


class Server(Endpoint):
    """The parameter server: adds contributions, records their workers in a bitmap, and answers when all have come."""

    works = False

    def __init__(self, job: AllReduceJob, system: "Atp") -> None:
        super().__init__(job, job.tree.server or "")
        self.system = system
        count = -(-job.arrays[0].size // job.lanes)
        self.sums = np.zeros((count + 1, job.lanes), np.int32)
        self.have = [0] * (count + 1)
        self.marked = [False] * (count + 1)
        self.all = (1 << len(job.workers)) - 1
        self.below = system.below(job)[self.host]
        self.contributions = self.collided = 0

    def pack(self, key: int, *, again: bool) -> bytes | None:
        """Return None: answers leave only by :meth:`reply`."""
        return None

    def acknowledge(self, frame: ReceivedFrame, now_ps: int) -> None:
        """Add a contribution of one or several workers; answer if the sum is complete."""
        tag = frame.tag
        seq, bitmap = tag.seq, tag.bitmap
        if self.have[seq] == self.all:
            if tag.resend:
                of_one_worker = bitmap & (bitmap - 1) == 0
                self._answer(seq, [self.job.workers[bitmap.bit_length() - 1]] if of_one_worker else self.below, frame)
            return
        if self.have[seq] & bitmap:
            return
        self.sums[seq] += frame.lanes
        self.have[seq] |= bitmap
        self.marked[seq] |= tag.ecn_echo or frame.marked
        self.contributions += bitmap.bit_count()
        self.collided += bitmap.bit_count() * tag.collision
        if self.have[seq] == self.all:
            self._answer(seq, self.below, frame)

    def _answer(self, seq: int, to: Sequence[str], frame: ReceivedFrame) -> None:
        tag = Tag(
            self.job.number,
            DOWN,
            ecn_echo=self.marked[seq],
            slot=self.system.slot(self.job, seq),
            seq=seq,
            exponent=frame.tag.exponent,
        )
        lanes = self.sums[seq].astype(">i4")
        for receiver in to:
            self.reply(self.frame(receiver, tag, lanes))


class Atp(System):
    """ATP on shared aggregators; with ``split``, each job has a separate part of them, for comparison."""

    name = "atp"
    says = "ATP (NSDI 2021)"
    source = HERE / "atp.p4"
    needs_server = True

    def __init__(self, cells: int = 4096, *, split: bool = False) -> None:
        self.cells, self.split = cells, split

    def slot(self, job: AllReduceJob, seq: int) -> int:
        """Return the slot of a chunk."""
        first, count = job.cells(self.cells) if self.split else (0, self.cells)
        return first + _hashed(job.number, seq) % count

    @staticmethod
    def _ways(job: AllReduceJob) -> Plan:
        return tree(job.topology, job.number, job.workers, lanes=job.lanes, plan="ps", server=job.tree.server)

    def below(self, job: AllReduceJob) -> dict[str, list[str]]:
        """Return the receivers of results for each aggregating switch and the server: switches of racks, and workers.

        The first and the last capable switch on a worker's path aggregate.
        """
        children: dict[str, list[str]] = {job.tree.server or "": []}
        for worker in job.workers:
            way = self._ways(job).paths[worker, job.tree.server or ""]
            capable = [name for name in way[1:-1] if job.topology.node(name).capable]
            chain = [worker, *dict.fromkeys(capable[:1] + capable[-1:]), way[-1]]
            for low, high in pairwise(chain):
                if low not in children.setdefault(high, []):
                    children[high].append(low)
        return children

    def entries(self, switches: Mapping[str, Switch], job: AllReduceJob) -> None:
        """Write the table entries that gather from workers and switches, and spread results."""
        if len(job.workers) > MOST_WORKERS:
            raise PlanError(f"atp: a packet says who is in it for {MOST_WORKERS} workers, not for {len(job.workers)}")
        paths = dict(self._ways(job).paths)
        below = self.below(job)
        for high, lows in below.items():
            for low in lows:
                way = self._way(paths, job, low, high)
                paths[low, high], paths[high, low] = way, way[::-1]
        add_routes(switches, job, paths)
        server = job.tree.server or ""
        rid = 1 + 64 * (job.number - 1)
        for high, lows in below.items():
            if high == server:
                continue
            switch, members = switches[high], self._members(below, job, high)
            replicas = []
            for low in lows:
                about = (members, REACH * job.window, job.ip(high))
                switch.insert("source", [job.ip(low), job.number, UP], "gather", about)
                switch.insert("replica", rid, "address", (job.ip(low),))
                replicas.append((job.topology.port(high, paths[high, low][1]), rid))
                rid += 1
            switch.multicast(job.number, replicas)
            switch.insert("source", [job.ip(server), job.number, DOWN], "spread", (job.number, job.ip(high)))

    def _members(self, below: Mapping[str, Sequence[str]], job: AllReduceJob, node: str) -> int:
        if node in job.workers:
            return 1 << job.workers.index(node)
        return sum(self._members(below, job, low) for low in below[node])

    @staticmethod
    def _way(paths: Mapping[tuple[str, str], Sequence[str]], job: AllReduceJob, low: str, high: str) -> tuple[str, ...]:
        for worker in job.workers:
            way = paths[worker, job.tree.server or ""]
            if low in way and high in way:
                return tuple(way[way.index(low) : way.index(high) + 1])
        raise AssertionError(f"no way from {low} to {high}")

    def endpoints(self, job: AllReduceJob) -> Iterator[Endpoint]:
        """Yield the workers, then the server."""
        for host in job.workers:
            yield AtpWorker(job, host, self)
        yield Server(job, self)

    def slots(self, switches: Mapping[str, Switch], jobs: Sequence[AllReduceJob]) -> int:
        """Return the highest number of aggregators that a switch had in use at once."""
        return max(switch.register("used").read(1) for switch in switches.values())


SYSTEMS.add("atp", Atp)
