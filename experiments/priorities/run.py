"""From a description to packets to times: the jobs of a run on one network, under one policy.

Gradients are small whole numbers, the same in every round, and weights fall by their sum: what the global model has at
the end is known to the last bit, whatever order frames came in.
"""

from dataclasses import dataclass

from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.predict import Traffic, add
from p4reduce.experiments.priorities.description import Description
from p4reduce.experiments.priorities.policies import POLICIES, Policy
from p4reduce.experiments.priorities.stage import JobResult, Stage, Training, both
from p4reduce.experiments.priorities.stale import Stale
from p4reduce.experiments.priorities.synchronous import Synchronous
from p4reduce.jobs.programs import bundled
from p4reduce.jobs.switches import EmbeddedSwitches


@dataclass
class RunResult:
    """What came of a run."""

    jobs: list[JobResult]
    writes: int
    """entries of switches that were written while the jobs ran"""
    first_bytes: int
    """of first transmissions, summed over all directed links; they are those that were predicted"""
    resend_bytes: int

    @property
    def resend_share(self) -> float:
        """Of all frames that hosts sent."""
        return sum(job.resends for job in self.jobs) / max(1, sum(job.frames for job in self.jobs))


def run(description: Description, policy: str = "fifo") -> RunResult:
    """Carry all jobs of a description out. ``ClusterError`` when a sum or a count is wrong."""
    with EmbeddedSwitches(description.build(), bundled(description.lanes)) as switches:
        return Run(description, POLICIES[policy](), switches).result()


class Run(Stage):
    """One run: the jobs, installed with their first classes, on a network of their own."""

    def __init__(self, description: Description, policy: Policy, switches: EmbeddedSwitches) -> None:
        super().__init__(description, policy, switches)
        first = policy.begin(description)
        self._training: list[Training] = []
        for number, one in enumerate(description.jobs):
            kind = Stale if one.asynchronous else Synchronous
            training: Training = kind(self, number, *both(first[number]))
            self._training.append(training)
            self.parts.append(training.jobs)
        self.jobs = [parts[0] for parts in self.parts]
        """the first part of each job of the description: its only one where workers wait for each other"""

    def result(self) -> RunResult:
        """Let everything happen, and check it."""
        with self.network:
            for one in self._training:
                one.begin()
            self.clockwork.run()
            self.network.advance()  # what is still on its way
            for one in self._training:
                one.check()
            first, resent = self._count()
            writes = self.classes.writes + sum(one.writes for one in self._training)
            return RunResult([one.result() for one in self._training], writes, first, resent)

    def _count(self) -> tuple[int, int]:
        """First transmissions and resends on all links. ``ClusterError`` where the former are not those predicted."""
        predicted = add(*(job.predicted() for parts in self.parts for job in parts))
        first = resent = 0
        for hop, link in self.network.fabric.links.items():
            expected = predicted.get(hop, Traffic(0, 0))
            if (link.inc_first_frames, link.inc_first_bytes) != (expected.frames, expected.bytes):
                raise ClusterError(
                    f"link {hop[0]}:{hop[1]}: {link.inc_first_frames} first transmissions of {link.inc_first_bytes} "
                    f"bytes, predicted {expected.frames} of {expected.bytes}"
                )
            first, resent = first + link.inc_first_bytes, resent + link.inc_resend_bytes
        return first, resent
