"""A run of the study as plain values: the network, its jobs, and how they compute."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol
from zlib import crc32

import numpy as np

from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.priorities import JOB_CLASSES
from p4reduce.network.jobs.asynchronous import Clockwork
from p4reduce.network.jobs.network import Job
from p4reduce.topologies import Topology, load

LANES: Final = 256
MAX_QUEUES: Final = 6
"""1 to 6: what the jobs share"""

ORDERS: Final = ("none", "switch", "controller", "strangers")

MODELS: Final = ("numbers", "digits")


@dataclass(frozen=True)
class JobDescription:
    """A job that trains: every worker computes, then gradients go up and weights come down, round after round.

    Attributes
    ----------
    workers : tuple of str
        Hosts, in rank order.
    server : str
        Host of the global model.
    elements : int
        float32 of the model.
    compute_ps : int
        One worker's computation in a round, without jitter, picoseconds.
    plan : str
        Name of the planner: 'steiner' and the like, or 'ps'; or of several trees at once, as 'packing'.
    staleness : int or None
        Rounds by which a worker may be ahead of the slowest: 0 is synchronous; None: without a bound. With others than
        0 each worker is a job of its own with the server (`network/jobs/asynchronous.py`), ``plan`` must be 'ps'.
    slowdowns : tuple of float
        By how much each worker computes longer, in rank order; workers beyond its end: 1.
    start_ps : int
        When its first computation begins.
    order : str
        Of the batches of a job with ``staleness``: 'none', 'switch' or 'controller' (`network/jobs/asynchronous.py`);
        'strangers': none, and time-outs as of jobs that have nothing to do with each other.
    rebase : int
        Of the order that the controller writes.
    model : str
        'numbers', of ``elements``; or 'digits', which has its own number of elements.
    name : str
        What it draws its computations by, together with the hosts: jobs of one name on the same hosts draw the same.
    """

    workers: tuple[str, ...]
    server: str
    elements: int
    compute_ps: int
    plan: str = "steiner"
    staleness: int | None = 0
    slowdowns: tuple[float, ...] = ()
    start_ps: int = 0
    order: str = "none"
    rebase: int = 4
    model: str = "numbers"
    name: str = ""

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"order: {self.order!r}, must be one of {', '.join(ORDERS)}")
        if self.model not in MODELS:
            raise ValueError(f"model: {self.model!r}, must be one of {', '.join(MODELS)}")
        if (self.asynchronous or self.order != "none") and self.plan != "ps":
            raise ValueError(f"plan: {self.plan!r}: workers that do not wait for each other need 'ps'")

    @property
    def asynchronous(self) -> bool:
        """Whether each worker is a job of its own."""
        return self.staleness != 0 or self.order != "none"

    def slowdown(self, rank: int) -> float:
        """Factor by which a worker computes longer."""
        return self.slowdowns[rank] if rank < len(self.slowdowns) else 1.0


@dataclass(frozen=True)
class Description:
    """A network and the jobs that share it.

    Attributes
    ----------
    topology : str
        As `p4reduce run --topology` takes it.
    jobs : tuple of JobDescription
        In the order of their numbers.
    rounds : int
        Of each job.
    jitter : float
        Standard deviation of a computation, as a share of it (normal, cut at three of them).
    queues : int
        Classes that jobs are put into, 1..6; jobs that are next to each other in the order share one where there are
        more jobs.
    control_latency_ps : int
        From a decision to its effect in switches.
    queue_frames : int
        Of each queue.
    seed : int
        Of computations and of what policies draw.
    """

    topology: str
    jobs: tuple[JobDescription, ...]
    rounds: int = 12
    jitter: float = 0.0
    queues: int = MAX_QUEUES
    control_latency_ps: int = 100_000_000
    queue_frames: int = 4096
    seed: int = 0
    lanes: int = field(default=LANES)

    def __post_init__(self) -> None:
        if not self.jobs:
            raise ValueError("jobs: there is none")
        if self.rounds < 1 or not 0 <= self.jitter < 1 / 3:
            raise ValueError(f"rounds: {self.rounds}, jitter: {self.jitter}; needed: >= 1 and 0 <= jitter < 1/3")
        if not 1 <= self.queues <= MAX_QUEUES:
            raise ValueError(f"queues: {self.queues}, must be 1..{MAX_QUEUES}")

    def build(self) -> Topology:
        """The topology."""
        return load(self.topology)

    def only(self, number: int) -> "Description":
        """The description with only one of the jobs, which draws the same computations as among the others."""
        return replace(self, jobs=(self.jobs[number],))

    def compute_ps(self, job: JobDescription, rank: int, iteration: int) -> int:
        """Picoseconds that a worker computes in a round."""
        drawn = 0.0
        if self.jitter:
            # By what the job is, not by its number: alone it draws the same.
            who = crc32(f"{job.name}/{job.workers[rank]}".encode())
            key = np.array([self.seed, who << 32 | iteration], np.uint64)  # a list of such numbers becomes float64
            drawn = float(np.clip(np.random.Generator(np.random.Philox(key=key)).standard_normal(), -3, 3))
        return max(1, round(job.compute_ps * job.slowdown(rank) * (1 + self.jitter * drawn)))


def with_phi(job: JobDescription, communication_ps: int, phi: float) -> JobDescription:
    """A copy of the job with so much computation that communication is ``phi`` of a round when it is alone."""
    if not 0 < phi < 1:
        raise ValueError(f"phi: {phi}, must be between 0 and 1")
    return replace(job, compute_ps=round(communication_ps * (1 - phi) / phi))


# What steers a run: told when jobs begin and end to communicate, it answers with their classes.
#
# Those that ask a priority policy of the control plane stand elsewhere; here are the ones that need to know nothing.


Classes = Mapping[int, int | tuple[int, int]]
"""Class (0..7, 7 leaves first) of each job, by its number; two: of its gradients, and of the parameters."""


@dataclass
class JobSeen:
    """A job's progress; times in picoseconds, None before there is one."""

    number: int
    iteration: int = 0
    """rounds that its first worker has begun to communicate in"""
    started_ps: int | None = None
    """when the first frame of its present or last communication could leave"""
    ended_ps: int | None = None
    """when the last worker had the result of the last round that all have"""
    bytes_sent: int = 0
    """by its hosts, in all rounds that have ended"""


class RunningPolicy(Protocol):
    """Classes of jobs while they run. One is made for each run."""

    def begin(self, description: Description) -> Classes:
        """The classes of all jobs when they are installed."""

    def started(self, job: JobSeen, jobs: Sequence[JobSeen], now_ps: int) -> Classes | None:
        """The first worker of a job has begun to communicate; None: nothing changes."""

    def ended(self, job: JobSeen, jobs: Sequence[JobSeen], now_ps: int) -> Classes | None:
        """Take in that all workers of a job have the result of a round; return new classes, or None."""

    def wait_ps(self, job: JobSeen, now_ps: int) -> int:
        """Picoseconds that a job is to wait before the computation of its next round (time shifts)."""


class Fixed:
    """A policy with all jobs in one class, for ever; subclasses do otherwise."""

    def begin(self, description: Description) -> Classes:
        """Put all jobs in one class."""
        return dict.fromkeys(range(len(description.jobs)), JOB_CLASSES[-1])

    def started(self, job: JobSeen, jobs: Sequence[JobSeen], now_ps: int) -> Classes | None:
        """Nothing changes."""
        return None

    def ended(self, job: JobSeen, jobs: Sequence[JobSeen], now_ps: int) -> Classes | None:
        """Nothing changes."""
        return None

    def wait_ps(self, job: JobSeen, now_ps: int) -> int:
        """0: no job waits."""
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


# Classes that change while jobs run: at hosts at once, in switches by P4Runtime writes that take effect later.


class ClassWriter:
    """Changes the classes of jobs, and counts what that costs.

    Attributes
    ----------
    writes : int
        Entries of switches that were written.
    """

    def __init__(self, clockwork: Clockwork, controller: Controller, latency_ps: int) -> None:
        self._clockwork, self._controller, self._latency_ps = clockwork, controller, latency_ps
        self.writes = 0

    def change(self, job: Job, pushes: int, pulls: int) -> None:
        """A job's gradients and parameters get other classes, unless they have them already."""
        if (pushes, pulls) == (job.priority, job.result_priority):
            return
        self._clockwork.network.set_class(job, pushes, pulls)
        self._clockwork.at(self._clockwork.network.now + self._latency_ps, lambda: self._write(job, pushes, pulls))

    def _write(self, job: Job, pushes: int, pulls: int) -> None:
        self.writes += self._controller.change_priority(job.plan, pushes, pulls)
