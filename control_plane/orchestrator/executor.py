"""What the orchestrator asks of the side where hosts are: run tasks, swap their trees, report. A protocol and its data.

Hosts, links and time belong to the executor, in this process or another one. It outlives the orchestrator, so every
request may come twice: who asks for what is done already gets the same answer and changes nothing. Nothing that
happened is lost either: reports are numbered and kept.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, field
from itertools import pairwise
from typing import Any, Final, Literal, Protocol

from p4reduce.base.records import plain, restore
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies import Link, Topology
from p4reduce.topologies.model import Hop

# A schedule as the executor plays it: circuits at ports, whose turn it is when, and trees that tasks change to.


Role = Literal["both", "upload", "broadcast"]
"""What a job of a task does: push_pull, or one direction."""


@dataclass(frozen=True)
class TurnWindow:
    """A part of the round in which some tasks communicate over some circuits.

    Attributes
    ----------
    process : int
        Tasks of other processes train meanwhile; a process has several windows where one configuration does not do.
    circuits : tuple of Link
        At ports that lead to cross-connects, with the rate of both directions.
    tasks : tuple of str
        Who communicates, by name. Those that the executor does not run are passed over.
    planned_start_ps, planned_ps : int
        Predictions, for books: when it is lit after the first mirrors of the round begin to turn, and how long.
    """

    process: int
    circuits: tuple[Link, ...]
    tasks: tuple[str, ...]
    planned_start_ps: int
    planned_ps: int


@dataclass(frozen=True)
class Timetable:
    """What the executor is given beforehand, so that nobody is asked while tasks take turns.

    It holds from the end of a round on. A window ends when all its tasks have communicated; the next one opens when
    its tasks have trained, too.

    Attributes
    ----------
    number : int
        Of the schedule, from 1; a later one is higher.
    windows : tuple of TurnWindow
        Of a round, in order.
    delta_ps : int
        Ports whose circuits change carry nothing for so long.
    guard_ps : int
        After a task is given up within its window circuits stay for so long, until its frames have arrived.
    plans : mapping
        Task -> role -> plan: other trees that running tasks go on with from this schedule on, installed before.
    """

    number: int
    windows: tuple[TurnWindow, ...]
    delta_ps: int
    guard_ps: int
    plans: Mapping[str, Mapping[Role, Plan]] = field(default_factory=dict)


@dataclass(frozen=True)
class Turn:
    """Where an executor is in its schedule.

    Attributes
    ----------
    schedule : int
        The number of the one that holds; 0: none.
    waiting : int
        Of the one that holds from the end of this round on; 0: none.
    round, window : int
        The round of this schedule, and the place of its window that was open last; -1 before the first.
    configuration : tuple of Link
        Circuits that are lit, or will be after darkness.
    """

    schedule: int = 0
    waiting: int = 0
    round: int = 0
    window: int = -1
    configuration: tuple[Link, ...] = ()


def circuits_to_data(circuits: Iterable[Link]) -> list[list[Any]]:
    """Circuits as plain data."""
    return [list(astuple(link)) for link in circuits]


def circuits_from_data(data: Any) -> tuple[Link, ...]:
    """The inverse of :func:`circuits_to_data`."""
    return tuple(Link(*row) for row in data)


ReportKind = Literal[
    "round", "finished", "failed", "resumed", "replanned", "restored", "died", "link", "schedule", "window"
]
LAST_JOB: Final = 57_343
"""of those that tasks get; an executor numbers what hosts read by the others"""
Read = tuple[str, str, int]
"""home of data, the host that reads them, bytes"""


@dataclass(frozen=True)
class Order:
    """A task to run.

    ``plans`` has one installed plan for 'both', or one for 'upload' and one for 'broadcast'. ``training_ps`` is how
    long each worker trains in a round, ``aggregation_ps`` how long the server adds models up between upload and
    broadcast; ``reads`` what hosts read over the network before they begin. ``schedule``: the number of the schedule
    from which on it takes turns; None: it waits for nobody. ``ranks``: of the workers, where some of the first ones
    have died; (): 0, 1, ... ``anew``: hosts where a new process takes the place of one that died. ``attempt``: how
    often it has begun anew; from 1 on it goes on from its last checkpoint.
    """

    task: Task
    plans: Mapping[Role, Plan]
    training_ps: Mapping[str, int]
    aggregation_ps: int = 0
    reads: tuple[Read, ...] = ()
    schedule: int | None = None
    ranks: tuple[int, ...] = ()
    anew: tuple[str, ...] = ()
    attempt: int = 0

    @property
    def all_ranks(self) -> tuple[int, ...]:
        """The rank of each worker."""
        return self.ranks or tuple(range(len(self.task.workers)))

    @property
    def keys(self) -> "dict[Role, tuple[int, int]]":
        """The (job, epoch) of each role."""
        return {role: (plan.job, plan.epoch) for role, plan in self.plans.items()}


@dataclass(frozen=True)
class Report:
    """Something that happened. ``number`` counts from 1.

    Attributes
    ----------
    kind : str
        'round': a round of a task is done; ``data`` has 'round' (from 0) and the times 'started_ps', 'trained_ps',
        'uploaded_ps', 'aggregated_ps', 'done_ps' (of the slowest host). A job that does both directions at once has no
        times between 'trained_ps' and 'done_ps': they are equal to the latter. 'ranks': whose models are in it.
        'training_ps': how long each worker trained, by host, where that is known.
        'finished': all rounds are done; 'digest' of all weights: a round's is SHA-256 of the one before and of these.
        'failed': a host gave up; 'reason'.
        'resumed': a job goes on after its tree was swapped; see :class:`Interruption`.
        'replanned': a task goes on with the plans of another order (:meth:`Executor.replan`); 'keys' (role ->
        [job, epoch]), 'round' that it begins, 'again': whether that had been begun before. Or it stays as it was:
        'error' says why.
        'restored': all of its workers have their data, and the model where they lacked it, and train; 'round',
        'read_bytes', 'model_bytes', 'duration_ps' since it began, or was replanned.
        'died': a process of a task has ended before the task; 'host', 'round'. Nothing of the task goes on until it is
        stopped, or replanned without that host.
        'link': a link went down or came back; 'node', 'port', 'up'.
        'schedule': a schedule holds from now on; 'number'.
        'window': a window of a schedule has ended; 'schedule', 'round', 'window' (its place), 'started_ps', 'lit_ps',
        'ended_ps', and the frames that were 'dark_lost' and 'misrouted' since the one before.
    """

    number: int
    at_ps: int
    kind: ReportKind
    task: str | None
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Interruption:
    """What a swap cost, as the hosts saw it.

    Attributes
    ----------
    role, job, epoch : str, int, int
        The job, and the epoch that it changed to.
    in_flight : int
        Chunks that workers had sent and some worker lacked: they are sent anew.
    resent_frames, resent_bytes : int
        What all workers sent again until the job was where it had been.
    late_frames : int
        Frames of the old epoch that reached a host after the change; they were dropped.
    duration_ps : int
        From the change until every worker has every chunk that was in flight.
    """

    role: Role
    job: int
    epoch: int
    in_flight: int
    resent_frames: int
    resent_bytes: int
    late_frames: int
    duration_ps: int

    def as_data(self) -> dict[str, Any]:
        """For a report."""
        return asdict(self)


@dataclass(frozen=True)
class Running:
    """A task at the executor: the (job, epoch) of each role, the round that it is in, and whether it has ended.

    ``died``: hosts where a process of it has ended, and nobody has taken its place. ``attempt``: that of its order.
    """

    keys: Mapping[Role, tuple[int, int]] = field(default_factory=dict)
    round: int = 0
    ended: bool = False
    died: tuple[str, ...] = ()
    attempt: int = 0


class Executor(Protocol):
    """Where tasks run. Methods block.

    What it cannot do for one task it answers with :class:`~p4reduce.control_plane.orchestrator.options.RefusedError`;
    any other ``RuntimeError`` means that it cannot be reached.
    """

    @property
    def instance(self) -> str:
        """Another one after every start of the executor: what runs there is gone then."""

    def take_charge(self, term: int, database: str) -> None:
        """From now on the orchestrator of this term gives orders; those of an earlier one are refused.

        The first one decides to which database what runs here belongs.
        """

    def now(self) -> int:
        """Its time, picoseconds."""

    def start(self, order: Order) -> None:
        """Run a task. Nothing when it has been started with these plans; `RefusedError` when it cannot be run here.

        A later attempt of a task takes the place of the one before, and begins with the round of its last checkpoint,
        or the first one (:attr:`Running.round`).
        """

    def swap(self, task: str, plans: Mapping[Role, Plan]) -> None:
        """All hosts of these jobs go on in the epochs of other, installed plans, at one time; nothing if they have.

        `RefusedError` where a process of the task has died.
        """

    def replan(self, order: Order, *, at_once: bool = False) -> None:
        """Between two rounds a running task takes other plans, perhaps at other hosts, with endpoints of their own.

        It is told when that has happened ('replanned'). ``at_once``: the present round is given up and begun again,
        from the model as it was before. Workers that are new get the model, and read what ``order.reads`` says. Nothing
        when it has these plans, or has ended; a later order takes the place of one that still waits. With
        ``order.ranks`` it may have fewer workers than before. `RefusedError` for a host where a process has died,
        unless it is one of ``order.anew``.
        """

    def keep_plans(self, task: str) -> None:
        """An order to replan that still waits is void; nothing when there is none."""

    def set_schedule(self, timetable: Timetable) -> None:
        """Have tasks take turns from the end of this round on, or at once where nobody does.

        Nothing when it has this number already. `RefusedError` for a number below, while another one waits, and for
        circuits that there cannot be.
        """

    def turn(self) -> Turn:
        """Which schedule holds, which one waits, and the present configuration."""

    def stop(self, task: str) -> None:
        """Give a task up, wherever it is. Nothing when it has ended or is not known."""

    def advance(self, until_ps: int, *, after: int | None = None) -> int:
        """Let time pass to ``until_ps``; the time then.

        With ``after`` only until there is a report other than of a round or window behind report ``after``.
        """

    def reports(self, after: int) -> list[Report]:
        """What happened, from report ``after`` + 1 on. Who asks has kept the others; they may be forgotten."""

    def running(self, names: Collection[str] | None = None) -> Mapping[str, Running]:
        """Tasks that were ever started here, by name: all, or those of these names."""

    def interface_bytes(self) -> Mapping[Hop, int]:
        """Bytes that every interface has sent, whatever they were (as ifOutOctets of RFC 2863)."""

    def host_bytes(self) -> Mapping[Hop, int]:
        """Of these, what hosts sent for tasks, by their uplinks: a host knows what its own workers and servers send."""

    def links_down(self) -> set[Hop]:
        """Links without a carrier, both directions."""


# A plan as JSON, and back: what the database keeps, and what goes to another process.


def plan_to_json(plan: Plan) -> str:
    """A plan without its topology, but with its tokens, as JSON text; the same plan gives the same text."""
    return json.dumps(plain(plan), separators=(",", ":"))


def plan_from_json(topology: Topology, text: str) -> Plan:
    """The plan that :func:`plan_to_json` wrote, in the topology that it was made for, or of which that was a view."""
    return restore(Plan, json.loads(text), topology=topology)


def circuits_of(plan: Plan) -> tuple[Link, ...]:
    """Links between switches that a plan uses; in a view these are its circuits."""
    hosts = {host.name for host in plan.topology.hosts}
    pairs = {(min(ends), max(ends)) for path in plan.paths.values() for ends in pairwise(path) if not hosts & set(ends)}
    return tuple(plan.topology.link_between(a, b) for a, b in sorted(pairs))
