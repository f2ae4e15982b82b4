"""Who gets which class, and when: the interface of policies, and those that need to know nothing of the jobs.

A policy is asked when jobs are installed and after each event of a job. It answers with the class of every job, or None
where nothing changes; what changes is written to switches, and takes effect there after the control latency.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import numpy as np

from p4reduce.base.registry import Registry
from p4reduce.experiments.priorities.description import LOWEST_JOB_CLASS, Description

Classes = Mapping[int, int]
"""Class (0..7, 7 leaves first) of each job, by its number."""


class PolicyError(ValueError):
    """A policy that is not known, or cannot be; the message says which there are."""


@dataclass
class JobSeen:
    """What is known of a job while it runs; times in picoseconds, None before there is one."""

    number: int
    iteration: int = 0
    """of its slowest worker"""
    started_ps: int | None = None
    """when the first frame of its present or last communication could leave"""
    ended_ps: int | None = None
    """when its last communication ended"""
    bytes_sent: int = 0
    """by its workers, in all rounds"""


class Policy(Protocol):
    """Classes of jobs while they run. One is made for each run."""

    def begin(self, description: Description) -> Classes:
        """Of every job, when it is installed."""

    def started(self, job: JobSeen, jobs: Sequence[JobSeen], now_ps: int) -> Classes | None:
        """The first worker of a job has begun to communicate."""

    def ended(self, job: JobSeen, jobs: Sequence[JobSeen], now_ps: int) -> Classes | None:
        """All workers of a job have the result of a round."""

    def wait_ps(self, job: JobSeen, now_ps: int) -> int:
        """How long a job is to wait before the computation of its next round (time shifts)."""


POLICIES: Final[Registry[Callable[[], Policy]]] = Registry("priority-policy", PolicyError)
"""By name; further ones from entry points of ``p4reduce.priority-policies``."""
_Made = TypeVar("_Made", bound=Callable[[], Policy])


def register(name: str) -> Callable[[_Made], _Made]:
    """Add a policy by decorating its class."""

    def add(made: _Made) -> _Made:
        POLICIES.add(name, made)
        return made

    return add


class Fixed:
    """Classes that never change; subclasses say which."""

    def begin(self, description: Description) -> Classes:
        """All in one class."""
        return dict.fromkeys(range(len(description.jobs)), LOWEST_JOB_CLASS)

    def started(self, job: JobSeen, jobs: Sequence[JobSeen], now_ps: int) -> Classes | None:
        """Nothing changes."""

    def ended(self, job: JobSeen, jobs: Sequence[JobSeen], now_ps: int) -> Classes | None:
        """Nothing changes."""

    def wait_ps(self, job: JobSeen, now_ps: int) -> int:
        """Not at all."""
        return 0


def in_order(order: Sequence[int], queues: int) -> dict[int, int]:
    """Classes of jobs that are listed most urgent first, in so many classes of nearly equal numbers of jobs."""
    used = min(queues, max(len(order), 1))
    return {job: LOWEST_JOB_CLASS + used - 1 - place * used // len(order) for place, job in enumerate(order)}


@register("fifo")
class Fifo(Fixed):
    """First come, first served: all jobs in one class."""


@register("distinct")
class Distinct(Fixed):
    """A class of its own for each job, drawn at random."""

    def begin(self, description: Description) -> Classes:
        """A random order."""
        drawn = np.random.Generator(np.random.Philox(key=[description.seed, 0xD1])).permutation(len(description.jobs))
        return in_order(drawn.tolist(), description.queues)
