"""Data that hosts read from other hosts before they train, as ordinary flows on the links.

Each read is a job of one worker, the reader, and one server, the home of the data, in the baseline without aggregation:
PULL after PULL of a piece, with windows, time-outs and resends. Switches forward its frames along their base routes,
over circuits along those of a plan, and count them as frames of INC.
"""

from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from itertools import cycle
from types import MappingProxyType
from typing import Final
from zlib import crc32

import numpy as np

from p4reduce.control_plane.orchestrator.executor import LAST_JOB, Read
from p4reduce.control_plane.plans import Plan, PlanRequest, make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.group.backend import FloatArray
from p4reduce.group.errors import ClusterError
from p4reduce.network.flow_jobs import Carrier
from p4reduce.network.jobs.network import Job
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState

Key = tuple[int, int]
PIECE: Final = 1 << 18
"""Elements of one PULL: the part of its shard that a reader keeps in memory."""
MOST_READS: Final = 4096
"""Most simultaneous reads of a task."""


def check_reads(reads: Sized) -> None:
    """Raise `ClusterError` for more than `MOST_READS`."""
    if len(reads) > MOST_READS:
        raise ClusterError(f"{len(reads)} reads of data are more than {MOST_READS}; make shards larger")


def read_keys() -> Iterator[Key]:
    """Yield (job, epoch) of reads: job numbers that no orchestrator gives to tasks, each again in its next epoch."""
    numbers = range(LAST_JOB + 1, 1 << 16)
    return ((job, epoch) for epoch in cycle(range(1 << 16)) for job in numbers)


def piece_of(home: str, number: int, elements: int) -> FloatArray:
    """Return the ``number``-th piece that the home of a shard sends: normal float32 drawn from these arguments."""
    key = np.random.Philox(key=[crc32(home.encode()), number])
    return np.random.Generator(key).standard_normal(elements, np.float32)


@dataclass
class _Reading:
    read: Read
    job: Job
    left: int
    """Elements that have not been requested yet."""
    pieces: int = 0
    given: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))
    got: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))


class TaskReading:
    """Simultaneous reads of a task's hosts; call :meth:`step` whenever an endpoint may be done.

    Parameters
    ----------
    network : Carrier
        Carries the reads.
    reads : iterable of (str, str, int)
        Home, reader, bytes.
    keys : iterator
        Source of job numbers and epochs (:func:`read_keys`).
    lanes : int
        Number of lanes of a frame.
    plans : mapping of Plan
        Installed plans, by home and reader, for hosts that base routes do not join.
    """

    def __init__(
        self,
        network: Carrier,
        reads: Iterable[Read],
        *,
        keys: Iterator[Key],
        lanes: int,
        plans: Mapping[tuple[str, str], Plan] = MappingProxyType({}),
    ) -> None:
        self._network = network
        self.error: str | None = None
        self._left: list[_Reading] = []
        topology = network.topology
        try:
            for read in reads:
                home, reader, size = read
                plan = plans.get((home, reader))
                if plan is None:
                    job, epoch = next(keys)
                    request = PlanRequest("ps", job=job, epoch=epoch, workers=(reader,), server=home, lanes=lanes)
                    plan = make_plan(topology, request, Resources())
                made = network.add(plan)
                self._left.append(_Reading(read, made, -(-size // 4)))
        except BaseException:
            self.close()
            raise
        for reading in self._left:
            self._post(reading)

    def active(self) -> list[int]:
        """Return the indices of active endpoints."""
        records = self._network.endpoints.records
        indices = [index for reading in self._left for index in reading.job.endpoints]
        return [index for index in indices if records["status"][index] == EndpointState.ACTIVE]

    def step(self) -> bool:
        """Request the next pieces; return True when all data are there, or when a read has failed (``error``)."""
        for reading in list(self._left):
            records = self._network.endpoints.records[reading.job.endpoints]
            home, reader, _ = reading.read
            if (records["failed_seq"] >= 0).any():
                self.error = f"{reader} cannot read its data at {home}: no answer comes"
                return True
            if (records["status"] == EndpointState.ACTIVE).any():
                continue
            if not np.array_equal(reading.given.view(np.uint32), reading.got.view(np.uint32)):
                self.error = f"{reader} has read other data than {home} has sent"
                return True
            if reading.left:
                self._post(reading)
            else:
                self._network.retire(reading.job)
                self._left.remove(reading)
        return not self._left

    def close(self) -> None:
        """Abort the remaining reads."""
        for reading in self._left:
            self._network.give_up(reading.job)
            self._network.retire(reading.job)
        self._left = []

    def _post(self, reading: _Reading) -> None:
        elements = min(PIECE, reading.left)
        reading.given, reading.got = piece_of(reading.read[0], reading.pieces, elements), np.zeros(elements, np.float32)
        reading.left -= elements
        (worker,) = reading.job.members.values()
        if reading.job.server is not None:
            self._network.post(reading.job.server, Post(Collective.PULL, reading.given, None, reading.pieces))
        self._network.post(worker, Post(Collective.PULL, None, reading.got, reading.pieces))
        reading.pieces += 1
