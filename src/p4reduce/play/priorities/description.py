"""Description of a run of the study as plain values: the network, its jobs, and their computation."""

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
"""Classes that the jobs can share: 1 to 6."""

ORDERS: Final = ("none", "switch", "controller", "strangers")

MODELS: Final = ("numbers", "digits")


@dataclass(frozen=True)
class JobDescription:
    """A training job: every worker computes, then gradients go up and weights come down, round after round.

    Attributes
    ----------
    workers : tuple of str
        Hosts, in rank order.
    server : str
        Host of the global model.
    elements : int
        float32 numbers of the model.
    compute_ps : int
        One worker's computation in a round, without jitter, picoseconds.
    plan : str
        Name of the planner: 'steiner' and similar, or 'ps'; or of several trees at once, such as 'packing'.
    staleness : int or None
        Rounds by which a worker may be ahead of the slowest: 0 is synchronous; None: unbounded. Unless it is 0, each
        worker has its own job with the server (`network/jobs/asynchronous.py`), and ``plan`` must be 'ps'.
    slowdowns : tuple of float
        Factor of each worker's computing time, in rank order; 1 for workers beyond its end.
    start_ps : int
        When its first computation begins.
    order : str
        Order of the batches of a job with ``staleness``: 'none', 'switch' or 'controller'
        (`network/jobs/asynchronous.py`); 'strangers': none, with the time-outs of unrelated jobs.
    rebase : int
        Of the order that the controller writes.
    model : str
        'numbers', of ``elements``; or 'digits', which has a fixed number of elements.
    name : str
        With the hosts, the key of its random computations: jobs of one name on the same hosts draw the same.
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
        """Whether each worker has a separate job."""
        return self.staleness != 0 or self.order != "none"

    def slowdown(self, rank: int) -> float:
        """Return the factor of a worker's computing time."""
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
        Rounds of each job.
    jitter : float
        Standard deviation of a computation, as a share of it (normal, cut off at three standard deviations).
    queues : int
        Classes that jobs are put into, 1..6; if there are more jobs, neighbours in the order share a class.
    control_latency_ps : int
        From a decision to its effect in switches.
    queue_frames : int
        Frames of each queue.
    seed : int
        Seed of computations and of policies' random choices.
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
        """Build the topology."""
        return load(self.topology)

    def only(self, number: int) -> "Description":
        """Return the description with only one of the jobs, whose random computations do not change."""
        return replace(self, jobs=(self.jobs[number],))

    def compute_ps(self, job: JobDescription, rank: int, iteration: int) -> int:
        """Return the picoseconds that a worker computes in a round."""
        drawn = 0.0
        if self.jitter:
            # The key does not contain the job's number, so the job draws the same when alone.
            who = crc32(f"{job.name}/{job.workers[rank]}".encode())
            key = np.array([self.seed, who << 32 | iteration], np.uint64)  # a list of such numbers becomes float64
            drawn = float(np.clip(np.random.Generator(np.random.Philox(key=key)).standard_normal(), -3, 3))
        return max(1, round(job.compute_ps * job.slowdown(rank) * (1 + self.jitter * drawn)))


def with_phi(job: JobDescription, communication_ps: int, phi: float) -> JobDescription:
    """Return a copy of the job that computes so long that communication is ``phi`` of a round when it is alone."""
    if not 0 < phi < 1:
        raise ValueError(f"phi: {phi}, must be between 0 and 1")
    return replace(job, compute_ps=round(communication_ps * (1 - phi) / phi))


# Policies of a run: called when jobs begin and end to communicate, they return the jobs' classes.
#
# Policies that query a priority policy of the control plane are in `governed.py`; those here need no information.


Classes = Mapping[int, int | tuple[int, int]]
"""Class (0..7, 7 leaves first) of each job, by its number; a pair: of its gradients, and of the parameters."""


@dataclass
class JobSeen:
    """A job's progress; times in picoseconds, None before there is one."""

    number: int
    iteration: int = 0
    """Rounds in which its first worker has begun to communicate."""
    started_ps: int | None = None
    """Time at which the first frame of its present or last communication could leave."""
    ended_ps: int | None = None
    """Time at which the last worker had the result of the last complete round."""
    bytes_sent: int = 0
    """Bytes sent by its hosts, in all rounds that have ended."""


class RunningPolicy(Protocol):
    """Policy that sets the classes of jobs while they run. Each run has its own instance."""

    def begin(self, description: Description) -> Classes:
        """Return the classes of all jobs when they are installed."""

    def started(self, job: JobSeen, jobs: Sequence[JobSeen], now_ps: int) -> Classes | None:
        """Take in that the first worker of a job has begun to communicate; return new classes, or None."""

    def ended(self, job: JobSeen, jobs: Sequence[JobSeen], now_ps: int) -> Classes | None:
        """Take in that all workers of a job have the result of a round; return new classes, or None."""

    def wait_ps(self, job: JobSeen, now_ps: int) -> int:
        """Return the picoseconds that a job waits before the computation of its next round (time shifts)."""


class Fixed:
    """A policy that keeps all jobs in one class; the base of other policies."""

    def begin(self, description: Description) -> Classes:
        """Put all jobs in one class."""
        return dict.fromkeys(range(len(description.jobs)), JOB_CLASSES[-1])

    def started(self, job: JobSeen, jobs: Sequence[JobSeen], now_ps: int) -> Classes | None:
        """Change nothing."""
        return None

    def ended(self, job: JobSeen, jobs: Sequence[JobSeen], now_ps: int) -> Classes | None:
        """Change nothing."""
        return None

    def wait_ps(self, job: JobSeen, now_ps: int) -> int:
        """Return 0: no job waits."""
        return 0


class Distinct(Fixed):
    """A policy with a separate class for each job, in random order."""

    def begin(self, description: Description) -> Classes:
        """Assign classes in random order, from the highest downwards."""
        count = len(description.jobs)
        drawn = np.random.Generator(np.random.Philox(key=[description.seed, 0xD1])).permutation(count).tolist()
        used = min(description.queues, count)
        return {job: JOB_CLASSES[-1] - place * used // count for place, job in enumerate(drawn)}


POLICIES = {"fifo": Fixed, "distinct": Distinct}


# Changes of classes while jobs run: at hosts at once, in switches by P4Runtime writes that take effect later.


class ClassWriter:
    """Writer that changes the classes of jobs, and counts the writes.

    Attributes
    ----------
    writes : int
        Entries of switches that were written.
    """

    def __init__(self, clockwork: Clockwork, controller: Controller, latency_ps: int) -> None:
        self._clockwork, self._controller, self._latency_ps = clockwork, controller, latency_ps
        self.writes = 0

    def change(self, job: Job, pushes: int, pulls: int) -> None:
        """Change the classes of a job's gradients and parameters, unless it has them already."""
        if (pushes, pulls) == (job.priority, job.result_priority):
            return
        self._clockwork.network.set_class(job, pushes, pulls)
        self._clockwork.at(self._clockwork.network.now + self._latency_ps, lambda: self._write(job, pushes, pulls))

    def _write(self, job: Job, pushes: int, pulls: int) -> None:
        self.writes += self._controller.change_priority(job.plan, pushes, pulls)
