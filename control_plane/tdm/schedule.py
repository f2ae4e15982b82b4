"""What a scheduler decides: who trains and communicates where and when, over which circuits.

All times are seconds and counted from the beginning of a round (a *cycle*, where there are several), which then
repeats. Pods are indices from 0; hosts are names. How long training and communication take is a prediction, for whoever
compares it with packets: where nothing else is said, hosts and ToRs go by what has happened.
"""

from dataclasses import dataclass
from typing import Literal

from p4reduce.control_plane.tdm.jobs import OpticalNetwork

Matrix = tuple[tuple[int, ...], ...]
"""L, pods x pods: how many circuits join two pods. Symmetric, zero diagonal, no row's sum above R"""
Clock = Literal["completion", "slots"]
Mode = Literal["gated", "priority", "free", "exclusive"]


@dataclass(frozen=True)
class Configuration:
    """A state of the OXC within a process."""

    circuits: Matrix
    start_s: float
    """when ports begin to change; those whose circuits stay never go dark. Where nothing changes nobody waits"""
    duration_s: float
    """until the next one begins, darkness included"""


@dataclass(frozen=True)
class Process:
    """A part of the round in which one group of jobs communicates while the others train (the source's process k).

    There is one for policies that do not switch: its only configuration holds for the whole round.
    """

    configurations: tuple[Configuration, ...]
    """in order; the first begins with the process, one after the other without gaps"""
    start_s: float
    duration_s: float
    """T_k: with ``completion`` a prediction, with ``slots`` the slot"""


@dataclass(frozen=True)
class Tree:
    """How a share of a PS or RAR job crosses pods: ToRs add up towards the root, which sends the sum back.

    Both directions of each edge carry ``share`` times the job's bytes, once in an iteration.
    """

    root: int
    edges: tuple[tuple[int, int], ...]
    """(child, parent): one circuit, or a bond of parallel ones, each; none where the job lies in one pod"""
    share: float
    """of the job's bytes; all trees of a job (stripes) add up to 1"""
    configuration: int = 0
    """index within the job's process: the circuits it uses"""
    pipelined: bool = True
    """chunk by chunk, both directions at once (F/B); else all of the push, then all of the pull (2F/B, the source)"""


@dataclass(frozen=True)
class Ring:
    """The source's RAR: two sub-phases (reduce-scatter, all-gather), one after the other.

    ``order`` names the pods of the ring; each of them sends ``bytes_a_phase`` to the next one in both sub-phases, and
    with a full-duplex circuit the other direction stays empty. Two pods share one circuit.
    """

    order: tuple[int, ...]
    bytes_a_phase: int
    configuration: int = 0


@dataclass(frozen=True)
class Route:
    """How a share of what the units in one pod send to those in another one travels (a2a only, both phases)."""

    path: tuple[int, ...]
    """pods from the first to the last; pods between them forward. Two in a row are joined by a circuit"""
    share: float
    """of the bytes of that ordered pair of pods; shares of all routes of a pair add up to 1"""
    configuration: int = 0
    stripe: int = 0
    """routes of one stripe carry the same share of all blocks: each is an all-to-all of its own, in which switches
    forward by destination"""


@dataclass(frozen=True)
class JobPlan:
    """One job in a schedule."""

    job: str
    """`TdmJob.name`"""
    placement: tuple[tuple[str, int], ...]
    """(host, units on it), every host once, in the order of pods; as many units as the job has, unless it is elastic"""
    cycle: int
    """index in `Schedule.cycles`: jobs of a cycle repeat together"""
    process: int
    """index in `Schedule.processes`: the circuits it communicates over. Pairs and uncoordinated jobs have 0"""
    group: int
    """0 or 1: which jobs may communicate at once where they are gated; a traffic class for queues"""
    trees: tuple[Tree, ...] = ()
    """ps and rar; empty where ``ring`` is given"""
    ring: Ring | None = None
    routes: tuple[Route, ...] = ()
    """a2a; empty where it lies in one pod"""
    train_start_s: float = 0.0
    """when it may begin to train, within its cycle"""
    train_s: float = 0.0
    """prediction: seconds of training, alone on its GPUs"""
    start_s: float = 0.0
    """when its window opens, within its cycle: not before, and not before it has trained, may it communicate"""
    duration_s: float = 0.0
    """prediction: seconds that it communicates, with all others of its window"""
    dark_s: float = 0.0
    """how long its circuits are dark when its process begins: 0 where none of its ports change"""
    priority: int | None = None
    """0 first: order among jobs of a cycle in mode 'priority', on GPUs and in queues"""


@dataclass(frozen=True)
class Cycle:
    """Jobs that repeat together; different cycles know nothing of each other."""

    jobs: tuple[str, ...]
    period_s: float
    """prediction, with ``slots`` the period; for jobs that are not gated the mean of an iteration of the first one"""
    mode: Mode
    """gated: windows as the plans of jobs say; priority: no windows, the lower number goes first on GPUs and links;
    free: no windows, rates divide; exclusive: one job has GPUs and links, then the
    next, whole iterations and so many of each that all have the same share of time"""


@dataclass(frozen=True)
class Tried:
    """A policy that `best` has asked."""

    policy: str
    longest_s: float = 0.0
    """prediction: the longest iteration of a job; of two groups the round"""
    relative: float = 0.0
    """prediction: throughput of a job relative to alone, mean"""
    refused: str = ""
    """why there is no schedule"""


@dataclass(frozen=True)
class Schedule:
    """All of it. Jobs share no memory of each other: a host needs the plans of its own jobs and the clock."""

    policy: str
    network: OpticalNetwork
    jobs: tuple[JobPlan, ...]
    processes: tuple[Process, ...]
    cycles: tuple[Cycle, ...]
    round_s: float
    """t_round: after which the OXC's configurations repeat; where nothing switches the longest cycle"""
    clock: Clock = "completion"
    """completion: a process ends when all its jobs are done; slots: at its time, whatever is under way"""
    guard_s: float = 0.0
    """slots: seconds before the end of a process in which nobody begins a chunk"""
    bound_s: float = 0.0
    """no circuits, trees or shares give this placement, with these groups, a shorter round; 0: not known"""
    tried: tuple[Tried, ...] = ()
    """by `best`, in order"""

    def plan(self, job: str) -> JobPlan:
        """The plan of a job. Raises KeyError."""
        for plan in self.jobs:
            if plan.job == job:
                return plan
        raise KeyError(job)

    @property
    def switches(self) -> bool:
        """Whether the OXC changes at all."""
        return len({one.circuits for process in self.processes for one in process.configurations}) > 1


# Whose turn it is in a gated cycle.


def turns_of(schedule: Schedule, cycle: Cycle) -> dict[int, list[str]]:
    """Jobs that communicate at the same time, by process, or by group where there is one process; in their order.

    One entry where all windows open at once: then everybody trains, and everybody communicates.
    """
    found: dict[int, list[str]] = {}
    together = len({schedule.plan(name).start_s for name in cycle.jobs}) == 1
    for name in cycle.jobs:
        plan = schedule.plan(name)
        group = 0 if together else plan.group
        found.setdefault(plan.process if len(schedule.processes) > 1 else group, []).append(name)
    return {key: found[key] for key in sorted(found)}
