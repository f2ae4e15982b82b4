"""What steers a run: told when jobs begin and end to communicate, it answers with their classes.

Those that ask a priority policy of the control plane stand elsewhere; here are the ones that need to know nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from p4reduce.control_plane.priorities import JOB_CLASSES
from p4reduce.experiments.priorities.description import Description

Classes = Mapping[int, int | tuple[int, int]]
"""Class (0..7, 7 leaves first) of each job, by its number; two: of its gradients, and of the parameters."""


@dataclass
class JobSeen:
    """What a job has done so far; times in picoseconds, None before there is one."""

    number: int
    iteration: int = 0
    """rounds that its first worker has begun to communicate in"""
    started_ps: int | None = None
    """when the first frame of its present or last communication could leave"""
    ended_ps: int | None = None
    """when the last worker had the result of the last round that all have"""
    bytes_sent: int = 0
    """by its hosts, in all rounds that have ended"""


class Policy(Protocol):
    """Classes of jobs while they run. One is made for each run."""

    def begin(self, description: Description) -> Classes:
        """Of every job, when it is installed."""

    def started(self, job: JobSeen, jobs: Sequence[JobSeen], now_ps: int) -> Classes | None:
        """The first worker of a job has begun to communicate; None: nothing changes."""

    def ended(self, job: JobSeen, jobs: Sequence[JobSeen], now_ps: int) -> Classes | None:
        """All workers of a job have the result of a round."""

    def wait_ps(self, job: JobSeen, now_ps: int) -> int:
        """How long a job is to wait before the computation of its next round (time shifts)."""


class Fixed:
    """All in one class, for ever; subclasses do otherwise."""

    def begin(self, description: Description) -> Classes:
        """All in one class."""
        return dict.fromkeys(range(len(description.jobs)), JOB_CLASSES[-1])

    def started(self, job: JobSeen, jobs: Sequence[JobSeen], now_ps: int) -> Classes | None:
        """Nothing changes."""
        return None

    def ended(self, job: JobSeen, jobs: Sequence[JobSeen], now_ps: int) -> Classes | None:
        """Nothing changes."""
        return None

    def wait_ps(self, job: JobSeen, now_ps: int) -> int:
        """Not at all."""
        return 0


class Distinct(Fixed):
    """A class of its own for each job, drawn at random."""

    def begin(self, description: Description) -> Classes:
        """A random order, from the highest class downwards."""
        count = len(description.jobs)
        drawn = np.random.Generator(np.random.Philox(key=[description.seed, 0xD1])).permutation(count).tolist()
        used = min(description.queues, count)
        return {job: JOB_CLASSES[-1] - place * used // count for place, job in enumerate(drawn)}


POLICIES = {"fifo": Fixed, "distinct": Distinct}
