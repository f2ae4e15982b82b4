"""What a network looked like at a moment, copied raw while it stands still, and read only when somebody asks."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from p4reduce.control_plane.plans import Plan
from p4reduce.dataplane.device import Device
from p4reduce.dataplane.state.registers import Register
from p4reduce.jobs.job import Job
from p4reduce.jobs.network import JobNetwork

KEPT_BYTES: Final = 64 << 20
"""of all moments together"""
MOST: Final = 2048
"""moments that are kept; before there are more, every second one goes"""
LEAST: Final = 64


class Cells(Protocol):
    """Cells of a register as they were."""

    @property
    def size(self) -> int:
        """How many."""

    def read(self, index: int) -> int:
        """The value of one."""


@dataclass(frozen=True)
class JobMoment:
    """One job: its plan then, its workers' endpoints in rank order and the server's, its slots by switch."""

    plan: Plan
    members: tuple[tuple[str, int], ...]
    """(host, row of the endpoints' records), in rank order, then the server"""
    slots: Mapping[str, Cells]
    """of its switches, counted from the plan's base"""


@dataclass(frozen=True)
class Moment:
    """Copies: links as ``fabric.records.LINK``, endpoints as ``workers.records.ENDPOINT_DTYPE``."""

    time_ps: int
    events: int
    links: NDArray[Any]
    endpoints: NDArray[Any]
    jobs: tuple[JobMoment, ...]

    @property
    def nbytes(self) -> int:
        """Bytes that it keeps."""
        slots = sum(16 * register.size for job in self.jobs for register in job.slots.values())
        return int(self.links.nbytes + self.endpoints.nbytes + slots)


def take(network: JobNetwork) -> Moment:
    """The moment at which a network stands."""
    fabric = network.fabric
    return Moment(
        fabric.now,
        fabric.events,
        fabric.links.records(),
        network.endpoints.records.copy(),
        tuple(_of_job(network, job) for job in network.jobs),
    )


def _of_job(network: JobNetwork, job: Job) -> JobMoment:
    plan = job.plan
    members = list(job.members.items())
    if job.server is not None:
        members.append((network.hosts[job.server], job.server))
    slots: dict[str, Cells] = {}
    for aggregator in plan.aggregators:
        register = _slots_of(network, aggregator.name)
        if register is not None:
            slots[aggregator.name] = register.copy(aggregator.base, aggregator.base + aggregator.slots)
    return JobMoment(plan, tuple(members), slots)


def _slots_of(network: JobNetwork, switch: str) -> Register | None:
    """The register of a switch's slots; None where its program has none."""
    device = network.fabric.device(switch)
    registers = device.registers if isinstance(device, Device) else {}
    return next((found for name, found in registers.items() if name.rsplit(".", 1)[-1] == "slots"), None)


class History:
    """Moments in the order of time, as many as memory allows: where there are too many, every second one goes.

    One thread adds, any may ask.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._moments: list[Moment] = []
        self._bytes = 0
        self.gap_ps = 0
        """How much virtual time lies between two moments that are kept, at least; grows as moments go."""

    def add(self, moment: Moment) -> None:
        """Keep a moment; it takes the place of the latest one where both are of one time or too close together."""
        with self._lock:
            latest = self._moments
            while len(latest) >= 2 and moment.time_ps - latest[-2].time_ps <= self.gap_ps:
                self._bytes -= latest.pop().nbytes
            if latest and latest[-1].time_ps == moment.time_ps:
                self._bytes -= latest.pop().nbytes
            latest.append(moment)
            self._bytes += moment.nbytes
            if len(latest) > LEAST and (len(latest) > MOST or self._bytes > KEPT_BYTES):
                self._thin()

    def _thin(self) -> None:
        self._moments = [*self._moments[:-1:2], self._moments[-1]]
        self._bytes = sum(moment.nbytes for moment in self._moments)
        times = np.diff([moment.time_ps for moment in self._moments])
        self.gap_ps = int(np.median(times))

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._moments, self._bytes, self.gap_ps = [], 0, 0

    def __len__(self) -> int:
        return len(self._moments)

    def times(self) -> tuple[int, int]:
        """Of the first moment and of the latest; zeros where there is none."""
        with self._lock:
            return (self._moments[0].time_ps, self._moments[-1].time_ps) if self._moments else (0, 0)

    def all(self) -> list[Moment]:
        """All of them."""
        with self._lock:
            return list(self._moments)

    def at(self, time_ps: int | None, offset: int = 0, window_ps: int = 1) -> tuple[Moment, Moment] | None:
        """A moment, and one that is ``window_ps`` before it, or the first; None where there is none.

        time_ps: the latest moment up to then, None: of all; offset: so many moments further.
        """
        with self._lock:
            moments = self._moments
            if not moments:
                return None
            place = len(moments) - 1 if time_ps is None else _latest(moments, time_ps)
            place = min(max(place + offset, 0), len(moments) - 1)
            return moments[place], moments[_latest(moments, moments[place].time_ps - window_ps)]


def _latest(moments: list[Moment], time_ps: int) -> int:
    low, high = 0, len(moments)
    while low < high:
        middle = (low + high) // 2
        if moments[middle].time_ps <= time_ps:
            low = middle + 1
        else:
            high = middle
    return max(low - 1, 0)
