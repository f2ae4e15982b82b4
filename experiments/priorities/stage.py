"""What all jobs of a run share: the network, its time, the controller, and the classes that jobs have now."""

from dataclasses import dataclass, field
from typing import Protocol

from p4reduce.experiments.priorities.classes import ClassWriter
from p4reduce.experiments.priorities.description import Description
from p4reduce.experiments.priorities.models import Digits, Model, Score, WholeNumbers
from p4reduce.experiments.priorities.policies import Classes, JobSeen, Policy
from p4reduce.jobs.clockwork import Clockwork
from p4reduce.jobs.job import Job
from p4reduce.jobs.network import JobNetwork
from p4reduce.jobs.switches import EmbeddedSwitches


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
    scores: list[Score] = field(default_factory=list)
    """of the digits, after each round's worth of gradients"""

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

    def model(self, number: int) -> Model:
        """What the workers of a job compute."""
        about = self.description.jobs[number]
        if about.model == "digits":
            return Digits(len(about.workers), self.description.seed)
        return WholeNumbers(about.elements, len(about.workers), self.description.rounds)

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
