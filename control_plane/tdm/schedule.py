"""A scheduler's decision: the place and time of each job's training and communication, and the circuits.

All times are seconds from the beginning of a round (a *cycle*, if there are several), which then repeats. Pods are
indices from 0; hosts are names. Durations of training and communication are predictions, to compare with runs of
packets: unless stated otherwise, hosts and ToRs react to events, not to these times.
"""

from dataclasses import dataclass
from typing import Literal

from p4reduce.control_plane.tdm.jobs import OpticalNetwork

Matrix = tuple[tuple[int, ...], ...]
"""L, shape (pods, pods): the number of circuits between two pods; symmetric, zero diagonal, row sums at most R"""
Clock = Literal["completion", "slots"]
Mode = Literal["gated", "priority", "free", "exclusive"]


@dataclass(frozen=True)
class Configuration:
    """A state of the OXC within a process."""

    circuits: Matrix
    start_s: float
    """time when ports begin to change; unchanged circuits never go dark, and without a change nothing waits"""
    duration_s: float
    """seconds until the next configuration begins, including dark time"""


@dataclass(frozen=True)
class RoundProcess:
    """A part of the round in which one group of jobs communicates while the others train (the source's process k).

    Policies that do not switch have one process, whose only configuration holds for the whole round.
    """

    configurations: tuple[Configuration, ...]
    """in order, without gaps; the first begins with the process"""
    start_s: float
    duration_s: float
    """T_k: a prediction with ``completion``, the slot with ``slots``"""


@dataclass(frozen=True)
class PodTree:
    """The path of a share of a PS or RAR job across pods: ToRs aggregate towards the root, which sends the sum back.

    Both directions of each edge carry ``share`` times the job's bytes, once in an iteration.
    """

    root: int
    edges: tuple[tuple[int, int], ...]
    """(child, parent); an edge is one circuit or a bond of parallel circuits; empty if the job is in one pod"""
    share: float
    """share of the job's bytes; all trees of a job (stripes) add up to 1"""
    configuration: int = 0
    """index within the job's process of the configuration whose circuits it uses"""
    pipelined: bool = True
    """whether both directions run at once, by chunks (F/B); else first all push, then all pull (2F/B, the source)"""


@dataclass(frozen=True)
class Ring:
    """The source's RAR: two sub-phases (reduce-scatter, all-gather), one after the other.

    ``order`` has the pods of the ring; each of them sends ``bytes_a_phase`` to the next one in both sub-phases; the
    other direction of a full-duplex circuit stays empty. Two pods share one circuit.
    """

    order: tuple[int, ...]
    bytes_a_phase: int
    configuration: int = 0


@dataclass(frozen=True)
class PodRoute:
    """The path of a share of the data from the units in one pod to those in another (a2a only, both phases)."""

    path: tuple[int, ...]
    """pods from the first to the last; pods between them forward; neighbours in the path are joined by a circuit"""
    share: float
    """share of the bytes of that ordered pair of pods; the shares of all routes of a pair add up to 1"""
    configuration: int = 0
    stripe: int = 0
    """number of the stripe; its routes carry the same share of all blocks and form a separate all-to-all, in which
    switches forward by destination"""


@dataclass(frozen=True)
class JobPlan:
    """One job in a schedule."""

    job: str
    """`TdmJob.name`"""
    placement: tuple[tuple[str, int], ...]
    """(host, units), every host once, in the order of pods; the units are the job's number, unless it is elastic"""
    cycle: int
    """index in `Schedule.cycles`: jobs of a cycle repeat together"""
    process: int
    """index in `Schedule.processes` of the process whose circuits it uses; 0 for pairs and uncoordinated jobs"""
    group: int
    """0 or 1; gated jobs of a group may communicate at the same time; also the traffic class in queues"""
    trees: tuple[PodTree, ...] = ()
    """for ps and rar; empty if ``ring`` is given"""
    ring: Ring | None = None
    routes: tuple[PodRoute, ...] = ()
    """for a2a; empty if the job is in one pod"""
    train_start_s: float = 0.0
    """earliest time of its training, within its cycle"""
    train_s: float = 0.0
    """prediction: seconds of training, alone on its GPUs"""
    start_s: float = 0.0
    """time when its window opens, within its cycle; it communicates after that time and after its training"""
    duration_s: float = 0.0
    """prediction: seconds of its communication, together with all others of its window"""
    dark_s: float = 0.0
    """time that its circuits are dark when its process begins: 0 if none of its ports change"""
    priority: int | None = None
    """order among jobs of a cycle in mode 'priority', on GPUs and in queues; 0 is first"""


@dataclass(frozen=True)
class Cycle:
    """Jobs that repeat together; cycles are independent of each other."""

    jobs: tuple[str, ...]
    period_s: float
    """prediction, with ``slots`` the period; for jobs that are not gated the mean iteration of the first job"""
    mode: Mode
    """gated: windows from the plans of jobs; priority: no windows, the lower number goes first on GPUs and links; free:
    no windows, jobs share rates; exclusive: jobs have GPUs and links in turn, for whole iterations and for equal shares
    of time"""


@dataclass(frozen=True)
class Tried:
    """A policy that `best` has tried."""

    policy: str
    longest_s: float = 0.0
    """prediction: the longest iteration of a job; with two groups the round"""
    relative: float = 0.0
    """prediction: mean throughput of the jobs, relative to running alone"""
    refused: str = ""
    """reason why there is no schedule"""


@dataclass(frozen=True)
class Schedule:
    """A complete schedule. Jobs share no state: a host needs the plans of its own jobs and the clock."""

    policy: str
    network: OpticalNetwork
    jobs: tuple[JobPlan, ...]
    processes: tuple[RoundProcess, ...]
    cycles: tuple[Cycle, ...]
    round_s: float
    """t_round: time after which the OXC's configurations repeat; without switching the longest cycle"""
    clock: Clock = "completion"
    """completion: a process ends when all its jobs are done; slots: it ends at its time"""
    guard_s: float = 0.0
    """slots: seconds before the end of a process in which no chunk is started"""
    bound_s: float = 0.0
    """lower bound on the round with this placement and these groups, for all circuits, trees and shares; 0: unknown"""
    tried: tuple[Tried, ...] = ()
    """policies that `best` tried, in order"""

    def plan(self, job: str) -> JobPlan:
        """Return the plan of a job. Raises KeyError."""
        for plan in self.jobs:
            if plan.job == job:
                return plan
        raise KeyError(job)

    @property
    def switches(self) -> bool:
        """Whether the OXC changes at all."""
        return (
            len({configuration.circuits for process in self.processes for configuration in process.configurations}) > 1
        )


# The order of turns in a gated cycle.


def turns_of(schedule: Schedule, cycle: Cycle) -> dict[int, list[str]]:
    """Return the jobs that communicate at the same time, by process, or by group if there is one process.

    The jobs are in the order of the cycle. The result has one entry if all windows open at once: then all jobs train
    together, and communicate together.
    """
    turns: dict[int, list[str]] = {}
    together = len({schedule.plan(name).start_s for name in cycle.jobs}) == 1
    for name in cycle.jobs:
        plan = schedule.plan(name)
        group = 0 if together else plan.group
        turns.setdefault(plan.process if len(schedule.processes) > 1 else group, []).append(name)
    return {key: turns[key] for key in sorted(turns)}
