"""Trees of workers on the in-memory network, without a switch."""

from collections.abc import Sequence

import numpy as np

from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.numbers import Numbers
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState
from p4reduce.workers.specs import Timing, WorkerSpec
from tests.support.loopback.golden import Floats
from tests.support.loopback.jobs import BLOCK_FLOAT, NO_FAULTS, TIMING
from tests.support.loopback.network import Faults, Network, host


class RelayJob:
    """A tree of workers. ``parents``: the parent of every rank but the root (rank 0), less than the rank itself."""

    def __init__(
        self,
        parents: Sequence[int],
        *,
        lanes: int = 4,
        slots: int = 8,
        numbers: Numbers = BLOCK_FLOAT,
        lead: int | None = None,
        first_seq: int = 0,
        timing: Timing = TIMING,
        faults: Faults = NO_FAULTS,
    ) -> None:
        size = len(parents) + 1
        self.lanes, self.numbers = lanes, numbers
        self.endpoints = Endpoints()
        above = [0, *parents]
        below = [[child for child in range(1, size) if above[child] == rank] for rank in range(size)]
        self.workers = [
            self.endpoints.add(
                WorkerSpec(
                    host(rank),
                    host(above[rank]),
                    job=1,
                    epoch=1,
                    lanes=lanes,
                    slots=slots,
                    members=size,
                    numbers=numbers,
                    lead=lead,
                    first_seq=first_seq,
                    timing=timing,
                    children=tuple(host(child) for child in below[rank]),
                )
            )
            for rank in range(size)
        ]
        self.network = Network(self.endpoints, faults)

    def all_reduce(self, sources: list[Floats], *, words: bool = False, poison: bool = False) -> list[Floats]:
        """Run an all-reduce; return each worker's result."""
        targets = [np.zeros_like(source) for source in sources]
        for index, source, target in zip(self.workers, sources, targets, strict=True):
            self.endpoints.post(index, Post(Collective.ALL_REDUCE, source, target, words=words, poison=poison))
        self.run()
        return targets

    def barrier(self) -> None:
        """Run a barrier."""
        for index in self.workers:
            self.endpoints.post(index, Post(Collective.BARRIER))
        self.run()

    def run(self) -> None:
        """Run until all workers are done; raise AssertionError if one is not."""
        self.network.run()
        for index in self.workers:
            status = self.endpoints.status(index)
            assert status.state is EndpointState.DONE, status
