"""Whole jobs on the in-memory network: construction, runs and comparison."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import settings

from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.numbers import BlockFloat, Numbers
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState
from p4reduce.workers.specs import PsServerSpec, PsWorkerSpec, RingSpec, ServerSpec, Timing, WorkerSpec
from tests.support.effort import examples
from tests.support.loopback.golden import Floats
from tests.support.loopback.network import SWITCH_IP, Faults, Network, host, switch
from tests.support.loopback.perfect_switch import PerfectSwitch

several = settings(max_examples=examples(7, 100), deadline=None)
"""settings of property tests, with the number of jobs that they run"""
NO_FAULTS = Faults()
BLOCK_FLOAT = BlockFloat()
TIMING = Timing()


def random_arrays(workers: int, length: int, seed: int) -> list[Floats]:
    """Return one float32 array for each worker; magnitudes differ between elements and workers."""
    rng = np.random.default_rng(seed)
    scale = 2.0 ** rng.integers(-12, 12, (workers, length))
    return [row.astype(np.float32) for row in rng.standard_normal((workers, length)) * scale]


@dataclass
class Job:
    """An in-network job of ``size`` workers under one switch, with or without a parameter server."""

    size: int
    lanes: int = 4
    slots: int = 8
    numbers: Numbers = BLOCK_FLOAT
    server: bool = False
    lead: int | None = None
    guesses: int = 0
    first_seq: int = 0
    timing: Timing = TIMING
    faults: Faults = NO_FAULTS

    def __post_init__(self) -> None:
        self.endpoints = Endpoints()
        self.hosts = [host(rank) for rank in range(self.size)]
        common: dict[str, Any] = {
            "job": 1,
            "epoch": 1,
            "lanes": self.lanes,
            "slots": self.slots,
            "members": self.size,
            "numbers": self.numbers,
            "lead": self.lead,
            "first_seq": self.first_seq,
        }
        self.workers = [
            self.endpoints.add(WorkerSpec(link, switch(), **common, timing=self.timing, guesses=self.guesses))
            for link in self.hosts
        ]
        parent = host(self.size) if self.server else None
        self.ps = self.endpoints.add(ServerSpec(parent, switch(), **common)) if parent else -1
        self.switch = PerfectSwitch(self.hosts, 1, 1, self.slots, parent)
        self.network = Network(self.endpoints, self.faults, {SWITCH_IP: self.switch.frame})

    def post(self, worker: list[Post], server: Post | None = None) -> None:
        """Post the server's operation first, then each worker's."""
        if server is not None:
            self.endpoints.post(self.ps, server)
        for index, operation in zip(self.workers, worker, strict=True):
            self.endpoints.post(index, operation)

    def run(self, worker: list[Post], server: Post | None = None) -> None:
        """Post operations, and run until all are done."""
        self.post(worker, server)
        self.network.run()
        self.assert_done()

    def assert_done(self) -> None:
        """Assert that every endpoint is done."""
        for index in range(len(self.endpoints)):
            status = self.endpoints.status(index)
            assert status.state is EndpointState.DONE, status

    def all_reduce(self, sources: list[Floats], *, in_place: bool = False) -> list[Floats]:
        """Run an all-reduce; return each worker's result."""
        targets = [source.copy() for source in sources] if in_place else [np.zeros_like(source) for source in sources]
        given = targets if in_place else sources
        self.run([Post(Collective.ALL_REDUCE, a, b) for a, b in zip(given, targets, strict=True)])
        return targets


def same_bytes(arrays: list[Floats], expected: Floats) -> None:
    """Assert that all arrays have the bytes of the expected one."""
    for rank, array in enumerate(arrays):
        assert array.tobytes() == expected.tobytes(), f"rank {rank}: differs at {np.flatnonzero(array != expected)[:5]}"


def make_ring(
    size: int, *, lanes: int = 4, window: int = 8, ack_every: int = 3, first_seq: int = 0, faults: Faults = NO_FAULTS
) -> Network:
    """Return a network of hosts in a ring; the endpoint's index is its rank."""
    endpoints = Endpoints()
    for rank in range(size):
        endpoints.add(
            RingSpec(
                host(rank),
                host((rank + 1) % size),
                host((rank - 1) % size),
                job=1,
                epoch=1,
                lanes=lanes,
                rank=rank,
                size=size,
                window=window,
                ack_every=ack_every,
                first_seq=first_seq,
            )
        )
    return Network(endpoints, faults)


def make_ps(size: int, *, lanes: int = 4, window: int = 4, first_seq: int = 0, faults: Faults = NO_FAULTS) -> Network:
    """Return a network with the baseline parameter server at host and endpoint ``size``; workers have lower indices."""
    endpoints = Endpoints()
    workers = [host(rank) for rank in range(size)]
    for link in workers:
        endpoints.add(
            PsWorkerSpec(
                link, host(size), job=1, epoch=1, lanes=lanes, window=window, members=size, first_seq=first_seq
            )
        )
    endpoints.add(
        PsServerSpec(host(size), tuple(workers), job=1, epoch=1, lanes=lanes, window=window, first_seq=first_seq)
    )
    return Network(endpoints, faults)
