"""SwitchML's workers, and OmniReduce's on the same pool of slots (switchml.p4)."""

from collections.abc import Iterator, Mapping, Sequence

from p4switch import Switch
from studies.compare.protocol import HERE, SYSTEMS, UP, AllReduceJob, Endpoint, ReceivedFrame, System, Tag, add_routes

INFINITY = (1 << 32) - 1
"""next block of a worker that has no further block"""


class PoolWorker(Endpoint):
    """A worker of SwitchML: slot s carries chunks s, s + pool, ...; each follows the result of the one before.

    Seq s + 1 + r * pool is round r of slot s. Round 0 has no lanes; every round announces the exponent of the next one.
    """

    def __init__(self, job: AllReduceJob, host: str, pool: int) -> None:
        super().__init__(job, host, pool)
        self.parent = job.tree.parents[host]
        self.pool = min(pool, self.chunks.count)
        self.waiting = [slot + 1 for slot in range(self.pool)]  # the current seq of each slot
        self.agreed = [0] * self.pool
        self.left = self.pool
        for seq in self.waiting:
            self.offer(seq)

    def pack(self, key: int, *, again: bool) -> bytes | None:
        """Return chunk ``key - 1 - pool`` with the exponent of the slot's next chunk; None if the slot has moved on."""
        turn, slot = divmod(key - 1, self.pool)
        if self.waiting[slot] != key:
            return None
        exponent = self.chunks.exponents[key - 1] if key <= self.chunks.count else 0
        tag = Tag(self.job.number, UP, again, version=turn & 1, exponent=exponent, slot=slot, seq=key)
        lanes = self.chunks.lanes(key - 1 - self.pool, self.agreed[slot]) if turn else None
        return self.frame(self.parent, tag, lanes)

    def acknowledge(self, frame: ReceivedFrame, now_ps: int) -> None:
        """Take a result and continue the slot with its next chunk."""
        seq, slot = frame.tag.seq, frame.tag.slot
        if slot >= self.pool or self.waiting[slot] != seq:
            return
        self.heard(seq, now_ps, counts=frame.lanes.size > 0)
        if seq > self.pool:
            self.chunks.store(seq - 1 - self.pool, frame.lanes, self.agreed[slot])
        self.agreed[slot] = frame.tag.exponent
        self.go_on(slot, seq + self.pool, more=seq <= self.chunks.count)

    def go_on(self, slot: int, seq: int, *, more: bool) -> None:
        """Start the slot's next round, or end the slot."""
        self.waiting[slot] = seq
        if more:
            self.offer(seq)
        else:
            self.left -= 1
            self.done = self.left == 0


class BlockWorker(PoolWorker):
    """A worker of OmniReduce: each slot is at the nearest block of any worker; workers without it send no lanes."""

    def __init__(self, job: AllReduceJob, host: str, pool: int) -> None:
        super().__init__(job, host, pool)
        self.block = [INFINITY] * self.pool  # the current block of each slot
        self.following = list(range(self.pool))
        for slot in range(self.pool):
            self.following[slot] = self._nearest(slot)

    def _nearest(self, block: int) -> int:
        """Return this worker's first nonzero block of a slot, from ``block`` on; INFINITY if there is none."""
        exponents = self.chunks.exponents
        return next((later for later in range(block, len(exponents), self.pool) if exponents[later]), INFINITY)

    def pack(self, key: int, *, again: bool) -> bytes | None:
        """Return the slot's current block, if this worker has it, and the number of its next block."""
        turn, slot = divmod(key - 1, self.pool)
        if self.waiting[slot] != key:
            return None
        following, block = self.following[slot], self.block[slot]
        exponent = self.chunks.exponents[following] if following != INFINITY else 0
        tag = Tag(self.job.number, UP, again, version=turn & 1, exponent=exponent, slot=slot, seq=key, next=following)
        ours = turn and self.chunks.exponents[block]
        return self.frame(self.parent, tag, self.chunks.lanes(block, self.agreed[slot]) if ours else None)

    def acknowledge(self, frame: ReceivedFrame, now_ps: int) -> None:
        """Take a result and continue the slot with the nearest block of all workers."""
        seq, slot = frame.tag.seq, frame.tag.slot
        if slot >= self.pool or self.waiting[slot] != seq:
            return
        self.heard(seq, now_ps, counts=frame.lanes.size > 0)
        if seq > self.pool:
            self.chunks.store(self.block[slot], frame.lanes, self.agreed[slot])
        self.agreed[slot], self.block[slot] = frame.tag.exponent, frame.tag.next
        if self.following[slot] == frame.tag.next != INFINITY:
            self.following[slot] = self._nearest(frame.tag.next + self.pool)
        self.go_on(slot, seq + self.pool, more=frame.tag.next != INFINITY)


class SwitchML(System):
    """SwitchML; its pool is up to twice the window, so that slots waiting for a repair do not stall the others."""

    name = "switchml"
    says = "SwitchML (NSDI 2021)"
    source = HERE / "switchml.p4"
    worker: type[PoolWorker] = PoolWorker

    def _pool(self, job: AllReduceJob) -> int:
        return min(2 * job.window, job.cells(self.cells)[1] // 2)

    def entries(self, switches: Mapping[str, Switch], job: AllReduceJob) -> None:
        """Write the children, parents, groups and routes of the job's tree."""
        add_routes(switches, job, job.tree.paths)
        base = job.cells(self.cells)[0]
        for aggregator in job.tree.aggregators:
            switch, own = switches[aggregator.name], job.ip(aggregator.name)
            parent = aggregator.parent.ip if aggregator.parent else 0
            for child in aggregator.children:
                shared = (child.mask, aggregator.full, base, parent, own, aggregator.group)
                switch.insert("neighbour", [own, child.address.ip, job.number], "contribution", shared)
                switch.insert("replica", child.rid, "address", (child.address.ip,))
            if parent:
                switch.insert(
                    "neighbour",
                    [own, parent, job.number],
                    "result",
                    (aggregator.full, base, parent, own, aggregator.group),
                )
            switch.multicast(aggregator.group, [(child.address.port, child.rid) for child in aggregator.children])

    def endpoints(self, job: AllReduceJob) -> Iterator[Endpoint]:
        """Yield the workers."""
        for host in job.workers:
            yield self.worker(job, host, self._pool(job))

    def slots(self, switches: Mapping[str, Switch], jobs: Sequence[AllReduceJob]) -> int:
        """Return the reserved slots: two for each slot of a pool, used or not."""
        return sum(2 * self._pool(job) for job in jobs)


class OmniReduce(SwitchML):
    """OmniReduce on SwitchML's pool."""

    name = "omnireduce"
    says = "OmniReduce (SIGCOMM 2021), its aggregator in switches"
    source = HERE / "omnireduce.p4"
    worker = BlockWorker


class HopWorker(PoolWorker):
    """A worker of a tree whose hops are reliable: it sends nothing twice."""

    def time_out(self, key: int) -> None:
        """Do nothing: the frame is still in flight."""


class Sharp(SwitchML):
    """A tree on links that repair their losses; a slot has one cell."""

    name = "sharp"
    says = "a tree over reliable hops, as SHARP's (COMHPC 2016)"
    source = HERE / "sharp.p4"
    worker = HopWorker
    repairs_hops = True

    def slots(self, switches: Mapping[str, Switch], jobs: Sequence[AllReduceJob]) -> int:
        """Return the reserved slots: one for each slot of a pool."""
        return super().slots(switches, jobs) // 2


SYSTEMS.add("switchml", SwitchML)
SYSTEMS.add("omnireduce", OmniReduce)
SYSTEMS.add("sharp", Sharp)
