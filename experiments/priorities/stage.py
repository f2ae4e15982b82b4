"""What all jobs of a run share: the network, its time, the controller, and the classes that jobs have now."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from p4reduce.comm.errors import ClusterError
from p4reduce.experiments.priorities.classes import ClassWriter
from p4reduce.experiments.priorities.description import Description
from p4reduce.experiments.priorities.policies import Classes, JobSeen, Policy
from p4reduce.jobs.clockwork import Clockwork
from p4reduce.jobs.job import Job
from p4reduce.jobs.network import JobNetwork
from p4reduce.jobs.switches import EmbeddedSwitches
from p4reduce.workers.numbers import FixedScale

NUMBERS: Final = FixedScale(1.0)
"""Gradients are whole numbers already."""
_LARGEST: Final = 8
FloatArray = NDArray[np.float32]


@dataclass
class JobResult:
    """What came of a job; times in virtual picoseconds."""

    ends_ps: list[int] = field(default_factory=list)
    """of its rounds: when the last worker had the result"""
    started_ps: int = 0
    frames: int = 0
    """that its hosts sent, resends among them"""
    resends: int = 0
    by_worker_ps: list[list[int]] = field(default_factory=list)
    """ends of the rounds of each worker"""
    most_ahead: int = 0
    """rounds by which a worker began to communicate before the slowest had ended them"""

    @property
    def completion_ps(self) -> int:
        """From its start to the end of its last round."""
        return self.ends_ps[-1] - self.started_ps

    @property
    def iteration_ps(self) -> float:
        """Mean of a round."""
        return self.completion_ps / len(self.ends_ps)


class Training(Protocol):
    """A job of a run."""

    jobs: list[Job]
    """what it is in the network: one, or one for each worker"""

    @property
    def writes(self) -> int:
        """Entries that were written for the order of its batches."""

    def begin(self) -> None:
        """Its workers begin to compute."""

    def check(self) -> None:
        """The weights are what they must be, everywhere. Raises ``ClusterError``."""

    def result(self) -> JobResult:
        """What came of it."""


class Stage:
    """What jobs of a run are given to work with."""

    def __init__(self, description: Description, policy: Policy, switches: EmbeddedSwitches) -> None:
        self.description, self.policy, self.controller = description, policy, switches.controller
        self.network = JobNetwork(switches, queue_frames=description.queue_frames, seed=description.seed)
        self.clockwork = Clockwork(self.network)
        self.classes = ClassWriter(self.clockwork, switches.controller, description.control_latency_ps)
        self.seen = [JobSeen(number) for number in range(len(description.jobs))]
        self.parts: list[list[Job]] = []
        """of each job of the description"""

    def apply(self, classes: Classes | None) -> None:
        """Jobs get other classes than they have: at hosts now, in switches one control latency later."""
        for number, wanted in (classes or {}).items():
            for job in self.parts[number]:
                self.classes.change(job, *both(wanted))

    def sent(self, jobs: list[Job], name: str) -> int:
        """A counter of endpoints, summed over all hosts of some jobs."""
        records = self.network.endpoints.records
        return sum(int(records[index][name]) for job in jobs for index in job.endpoints)


def both(wanted: int | tuple[int, int]) -> tuple[int, int]:
    """Classes of a job's gradients and of its parameters."""
    return (wanted, wanted) if isinstance(wanted, int) else wanted


@lru_cache(maxsize=128)
def gradient_of(rank: int, elements: int) -> FloatArray:
    """Whole numbers of -8..8, float32 of shape (elements,)."""
    drawn = np.random.Generator(np.random.Philox(key=[rank, elements])).integers(-_LARGEST, _LARGEST + 1, elements)
    return drawn.astype(np.float32)


def check_weights(name: str, own: FloatArray, expected: FloatArray) -> None:
    """They are the same. Raises ``ClusterError``, which names the first element that is not."""
    if not np.array_equal(own, expected):
        wrong = int(np.flatnonzero(own != expected)[0])
        raise ClusterError(f"{name}: element {wrong} is {own[wrong]}, must be {expected[wrong]}")
