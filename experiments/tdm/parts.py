"""What of a job one plan of the P4 program carries, and the order in which parts of a job are sent."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from p4reduce.control_plane.predict import Operation, Traffic
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.schedule import JobPlan
from p4reduce.jobs.job import Job
from p4reduce.jobs.network import JobNetwork
from p4reduce.topologies.model import Hop
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, State

Words = npt.NDArray[Any]
"""int32 or float32: words that switches add as they are, or (pushed) whole numbers, whose sums are exact in float32"""
LOOK_PS: Final = 500_000
"""in which is looked whether the last blocks of a configuration have come"""
OWED_PS: Final = 200_000
"""in which is looked whether an acknowledgement that was owed has come"""


@dataclass
class Part:
    """A stripe of a vector, a shard of it one way, or all blocks of one phase."""

    job: Job
    phase: int
    """0: at once; 1: when phase 0 is through (a pull after its push, combine after dispatch)"""
    configuration: int
    """within the job's process; -1: whatever is lit, it crosses no circuit or all configurations have its pairs"""
    operation: Operation
    sources: list[Words]
    """of the workers; none: a pull"""
    targets: list[Words]
    """of the workers; none: a push"""
    expected: Words
    """(elements,) of a sum, (workers, elements) of blocks"""
    predicted: dict[Hop, Traffic]
    stored: Words | None = None
    """where a push leaves the sum and a pull finds it: what the pod's server has"""
    blocked: dict[int, npt.NDArray[np.int64]] = field(default_factory=dict)
    """of blocks: which pairs wait for another one, by configuration, (workers, workers - 1), as `Endpoints.streams`"""
    paces: dict[int, list[int]] = field(default_factory=dict)
    """of blocks, by configuration: picoseconds between chunks of each host"""

    @property
    def elements(self) -> int:
        """Of each worker's array."""
        return int((self.sources or self.targets)[0].size)

    @property
    def divided(self) -> bool:
        """Whether its blocks go in several configurations: then endpoints are not done at the end of each."""
        return len(self.blocked) > 1

    def in_configuration(self, number: int) -> bool:
        """Whether something of it is sent there; -1: in all of them together."""
        if number < 0 or not self.blocked:
            return number < 0 or max(0, self.configuration) == number
        return number in self.blocked

    def begins(self, number: int) -> bool:
        """Whether that is the first configuration in which something of it is sent."""
        return number < 0 or not self.blocked or number == min(self.blocked)

    def post(self, network: JobNetwork) -> None:
        """Begin now."""
        collective = Collective[self.operation.name]
        words = self.operation is not Operation.PUSH
        for target in self.targets:
            target[:] = -1
        if self.job.server is not None and self.stored is not None:
            if self.sources:
                self.stored[:] = -1
            kept = self.stored.view(np.float32)
            given, got = (None, kept) if self.sources else (kept, None)
            network.post(self.job.server, Post(collective, given, got, words=words))
        for rank, index in enumerate(self.job.members.values()):
            own = self.sources[rank].view(np.float32) if self.sources else None
            result = self.targets[rank].view(np.float32) if self.targets else None
            network.post(index, Post(collective, own, result, words=words))

    def exact(self) -> bool:
        """Whether everybody has what they must have."""
        if not self.targets:
            return self.stored is not None and np.array_equal(self.stored, self.expected)
        rows = self.expected if self.expected.ndim > 1 else [self.expected] * len(self.targets)
        return all(np.array_equal(target, row) for target, row in zip(self.targets, rows, strict=True))

    def busy(self, network: JobNetwork) -> list[int]:
        """Endpoints that have not all yet."""
        status = network.endpoints.records["status"]
        return [index for index in self.job.endpoints if status[index] == State.ACTIVE]

    def let(self, network: JobNetwork, configuration: int) -> None:
        """Of blocks: only those of one configuration, at its pace, from now on."""
        for rank, index in enumerate(self.job.members.values()):
            network.endpoints.streams(index)["blocked"] = self.blocked[configuration][rank]
            network.endpoints.change_pace(index, self.paces[configuration][rank])
            network.fabric.start(index)

    def through(self, network: JobNetwork) -> bool:
        """Whether nothing is under way any more of what may leave now, acknowledgements included."""
        if not self.divided:
            return not self.busy(network) and not network.lingers(self.job)
        for index in self.job.endpoints:
            streams = network.endpoints.streams(index)
            sending = (streams["blocked"] == 0) & (streams["low"] < streams["end"])
            owing = streams["acks_sent"] < streams["acks_due"]
            if sending.any() or owing.any():
                return False
        return True

    def left_ps(self, network: JobNetwork) -> int:
        """No less than this until all blocks that may leave now have left."""
        longest = 0
        for index in self.job.endpoints:
            streams = network.endpoints.streams(index)
            left = np.where(streams["blocked"] == 0, streams["end"] - streams["next"], 0).sum()
            longest = max(longest, int(left) * int(network.endpoints.records[index]["pace"]))
        return longest


@dataclass
class Installed:
    """A job with its plans."""

    job: TdmJob
    plan: JobPlan
    hosts: tuple[str, ...]
    parts: list[Part]
    together: bool = False
    """its second phase begins when all of its group are through with their first, as sub-phases of (1) do"""

    @property
    def local(self) -> bool:
        """Whether it crosses no circuit."""
        return all(part.configuration == -1 for part in self.parts)


class Sent:
    """Parts of one job, or of a group, phase by phase: what is next is posted when all before it are through."""

    def __init__(self, network: JobNetwork, jobs: Sequence[Installed], configuration: int) -> None:
        self._network, self._configuration = network, configuration
        own = [part for one in jobs for part in one.parts if part.in_configuration(configuration)]
        self.phases: Iterator[list[Part]] = iter(
            [[part for part in own if part.phase == phase] for phase in sorted({part.phase for part in own})]
        )
        self.now: list[Part] = []
        self.done: list[Part] = []

    def go_on(self) -> list[Part]:
        """The next phase; what of it was posted."""
        self.done += self.now
        self.now = next(self.phases, [])
        posted = [part for part in self.now if part.begins(self._configuration)]
        for part in posted:
            part.post(self._network)
        for part in self.now:
            if part.blocked:
                part.let(self._network, max(self._configuration, min(part.blocked)))
        return posted

    def busy(self) -> list[int]:
        """Endpoints of this phase that have not all yet."""
        return [index for part in self.now for index in part.busy(self._network)]

    def look_ps(self) -> int | None:
        """After which time to look whether this phase is through; None: endpoints say so."""
        times = [part.left_ps(self._network) // 2 for part in self.now if part.divided]
        if times:
            return max(LOOK_PS, *times)
        return None if self.busy() else OWED_PS

    def through(self) -> bool:
        """Whether this phase is."""
        return all(part.through(self._network) for part in self.now)
