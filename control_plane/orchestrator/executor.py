"""The interface between the orchestrator and the executor, which runs tasks, swaps their trees, and reports.

The executor owns hosts, links and time, in this process or another one. It outlives the orchestrator, so every request
may come twice: a repeated request gets the same answer and changes nothing. No event is lost: reports are numbered and
kept.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.orchestrator.options import TaskError
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.scheduling.task import MAX_PS, Task
from p4reduce.topologies import Link, Topology, format_delay, parse_delay
from p4reduce.topologies.model import Hop
from p4switch.base.files import read_text
from p4switch.base.safe_yaml import YamlError, read_yaml
from p4switch.base.values import one_line

# The computing manager: which host runs which models, its load, and how long training and adding up take.


MAX_SLOWDOWN: Final = 1e6
MEASURED_SHARE: Final = 0.3
"""weight of the newest round in a host's measured slowdown (exponentially weighted)"""


@dataclass(frozen=True)
class HostProfile:
    """The computing capacity of a host.

    Attributes
    ----------
    slowdown : float
        Training time of a task on this host, divided by the task's training time.
    models : int
        Models that the host trains side by side at full speed; more models share its speed evenly.
    most_models : int or None
        Largest number of models that the host trains at once; None: no limit.
    add_ps : int
        Picoseconds to add one element of one received model to a task's sum, as the host of a global model.
    utility : float or None
        Usefulness of the host's data to a global model, for the selection of local models
        (:class:`~p4reduce.control_plane.scheduling.task.Selection`); any unit, the same at all hosts. None: not
        known.
    slots : int
        Slots (GPUs) for tasks whose hosts are chosen; tasks that name their hosts take slots even if none are free.
    """

    slowdown: float = 1.0
    models: int = 1
    most_models: int | None = None
    add_ps: int = 0
    utility: float | None = None
    slots: int = 1

    def __post_init__(self) -> None:
        low = self.slowdown <= 0 or self.models < 1 or self.add_ps < 0 or self.slots < 0
        if low or (self.most_models is not None and self.most_models < 1) or (self.utility or 0) < 0:
            raise PlanError(
                f"host profile: slowdown {self.slowdown}, models {self.models}, most_models {self.most_models}, "
                f"add_ps {self.add_ps}, utility {self.utility}, slots {self.slots}: too low"
            )
        if not self.slowdown <= MAX_SLOWDOWN or not isfinite(self.utility or 0):
            raise PlanError(f"host profile: slowdown {self.slowdown}, utility {self.utility}: too high")


class ComputingManager:
    """Records which tasks train at which hosts, and how long they take. Not thread-safe.

    Parameters
    ----------
    topology : Topology
        The topology whose hosts compute.
    profiles : mapping of HostProfile
        Profiles by host; other hosts have the default profile.
    """

    def __init__(self, topology: Topology, profiles: Mapping[str, HostProfile] | None = None) -> None:
        profiles = profiles or {}
        hosts = [host.name for host in topology.hosts]
        if unknown := sorted(set(profiles) - set(hosts)):
            raise PlanError(f"host profiles: topology {topology.name!r} has no host {', '.join(unknown)}")
        self._workers = [host.name for host in topology.workers]
        self._profiles = {host: profiles.get(host, HostProfile()) for host in hosts}
        self._placed: dict[str, Task] = {}
        self._coming: dict[str, list[str]] = {}
        self._load: Counter[str] = Counter()
        self._used: Counter[str] = Counter()
        self.serving: Counter[str] = Counter()
        """number of global models by host"""
        self.measured: dict[str, float] = {}
        """by host: measured training time divided by the training time of its tasks; only hosts with a measurement"""
        self.in_turns = False
        """whether the tasks of a host train one at a time, because they take turns"""

    def place(self, task: Task, *, even_if_full: bool = False) -> None:
        """Add the local models of a task to the load of its hosts; no effect if the task has been placed already.

        Raises
        ------
        PlanError
            When a host trains its largest number of models already; with ``even_if_full`` only for an unknown host.
        """
        if task.name in self._placed:
            return
        for host in task.trainers:
            if self.is_full(host) and not even_if_full:
                raise PlanError(f"host {host} trains {self._load[host]} models already, its most")
        self._placed[task.name] = task
        self._load.update(task.trainers)
        self._used.update(dict.fromkeys(self._slots_at(task), task.slots))
        self.serving[task.server] += 1

    def release(self, name: str) -> None:
        """Remove an ended task from its hosts; no effect if the task was not placed."""
        task = self._placed.pop(name, None)
        if task is not None:
            self._load.subtract(task.trainers)
            self._used.subtract(dict.fromkeys(self._slots_at(task), task.slots))
            self.serving[task.server] -= 1
            more = self._coming.pop(name, [])
            self._load.subtract(more)
            self._used.subtract(dict.fromkeys(more, task.slots))

    @staticmethod
    def _slots_at(task: Task) -> tuple[str, ...]:
        """Hosts whose slots a task takes: its trainers, or, for a task that infers, its server."""
        return task.trainers if task.serving is None else (task.server,)

    def extend(self, task: Task) -> None:
        """Add the new hosts of a placed task before it moves; `PlanError` names a host that is full."""
        if task.name not in self._placed:
            return
        self.settle(self._placed[task.name])
        more = [host for host in task.workers if host not in self._placed[task.name].workers]
        for host in more:
            if self.is_full(host):
                raise PlanError(f"host {host} trains {self._load[host]} models already, its most")
        self._coming[task.name] = more
        self._load.update(more)
        self._used.update(dict.fromkeys(more, task.slots))

    def settle(self, task: Task) -> None:
        """Set the hosts of a placed task after its move; its former hosts no longer train it."""
        if task.name in self._placed:
            self.release(task.name)
            self.place(task, even_if_full=True)

    def training_ps(self, task: Task, host: str) -> int:
        """Training time in ps of a local model in one round, given the models that the host trains now.

        `PlanError` when that is longer than a task may take.
        """
        profile = self._profile(host)
        sharing = 1.0 if self.in_turns else max(1.0, self._load[host] / profile.models)
        return _possible(task, f"training at {host}", round(task.training_ps * profile.slowdown * sharing))

    def answering_ps(self, task: Task) -> int:
        """Time in ps that the server of a task that infers computes for a request; `PlanError` as for `training_ps`."""
        slowdown = self._profile(task.server).slowdown
        return _possible(task, f"answering at {task.server}", round(task.training_ps * slowdown))

    def aggregation_ps(self, task: Task, arriving: int) -> int:
        """Time in ps to add up a round's ``arriving`` models at a server: one if the network aggregates, else all.

        `PlanError` when that is longer than a task may take.
        """
        needed = task.elements * arriving * self._profile(task.server).add_ps
        return _possible(task, f"adding up {arriving} models at {task.server}", needed)

    def is_full(self, host: str) -> bool:
        """Whether a host trains its largest number of models already."""
        most = self._profile(host).most_models
        return most is not None and self._load[host] >= most

    def slots(self) -> dict[str, int]:
        """Slots of every worker's host for local models."""
        return {host: self._profiles[host].slots for host in self._workers}

    def free_slots(self) -> dict[str, int]:
        """Free slots by host; 0 for a host that trains its largest number of models."""
        return {
            host: 0 if self.is_full(host) else max(0, self._profiles[host].slots - self._used[host])
            for host in self._workers
        }

    def slowdowns(self) -> dict[str, float]:
        """Slowdown of each host: as measured, otherwise from its profile."""
        return {host: self.measured.get(host, self._profiles[host].slowdown) for host in self._workers}

    def measure(self, task: Task, training_ps: Mapping[str, int]) -> dict[str, float]:
        """Record training times in ps of a task's round, by host; returns the new slowdowns of these hosts."""
        if not task.training_ps:
            return {}
        measured = {}
        for host, took_ps in training_ps.items():
            now = took_ps / task.training_ps
            self.measured[host] = measured[host] = now + (self.measured.get(host, now) - now) * (1 - MEASURED_SHARE)
        return measured

    def utility(self, host: str) -> float | None:
        """Usefulness of the host's data; None: not known."""
        return self._profile(host).utility

    def hosts(self) -> list[dict[str, Any]]:
        """For every host, the tasks whose models it runs, and its load: models divided by models at full speed."""
        return [
            {
                "host": host,
                "local": [name for name, task in self._placed.items() if host in task.trainers],
                "global": [name for name, task in self._placed.items() if host == task.server],
                "load": self._load[host] / profile.models,
            }
            for host, profile in self._profiles.items()
        ]

    def _profile(self, host: str) -> HostProfile:
        try:
            return self._profiles[host]
        except KeyError:
            raise PlanError(f"{host!r} is no host of the topology") from None


def _possible(task: Task, what: str, needed_ps: int) -> int:
    """Return a time in ps if the fabric's 64 bits allow adding it to others; else raise `PlanError`."""
    if needed_ps > MAX_PS:
        raise PlanError(f"task {task.name}: {what} takes {needed_ps} ps, more than {format_delay(MAX_PS)}")
    return needed_ps


# Files that describe hosts: YAML with a profile for each, and one for all others.


_FOLDER: Final = "hosts"
_FIELDS: Final = {"add": "add_ps"}
"""fields of the file whose names differ from the profile's"""


class ProfileEntry(BaseModel):
    """A host's profile in a file; fields left out have the value of the file's default."""

    model_config = ConfigDict(extra="forbid")

    slowdown: Annotated[float, Field(strict=True, gt=0, le=MAX_SLOWDOWN, allow_inf_nan=False)] = 1.0
    models: Annotated[int, Field(strict=True, ge=1)] = 1
    most_models: Annotated[int | None, Field(strict=True, ge=1)] = None
    add: Annotated[int, BeforeValidator(parse_delay)] = 0
    """time for one element of one model, as in '100ps'"""
    utility: Annotated[float | None, Field(strict=True, ge=0, allow_inf_nan=False)] = None
    slots: Annotated[int, Field(strict=True, ge=0)] = 1


class HostsDocument(BaseModel):
    """The content of a file of hosts."""

    model_config = ConfigDict(extra="forbid")

    default: ProfileEntry = Field(default_factory=ProfileEntry)
    hosts: dict[str, ProfileEntry] = Field(default_factory=dict)


@dataclass(frozen=True)
class HostsFile:
    """Profiles of hosts by name, and the default profile; ``source`` is the file's name in messages."""

    source: str
    default: HostProfile
    hosts: Mapping[str, HostProfile]

    def of(self, topology: Topology) -> dict[str, HostProfile]:
        """The profile of every host; `TaskError` when the file names a host that the topology does not have."""
        names = [host.name for host in topology.hosts]
        if unknown := sorted(set(self.hosts) - set(names)):
            raise TaskError(
                f"{self.source}: hosts.{one_line(unknown[0], 60)}: topology {topology.name!r} has no such host; "
                f"it has {one_line(', '.join(names), 100)}"
            )
        return {name: self.hosts.get(name, self.default) for name in names}


def bundled_hosts() -> tuple[str, ...]:
    """Names of the files that come with the package; each is for the topology of the same name."""
    files = (resources.files(__package__) / _FOLDER).iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")))


def read_hosts(source: str | Path) -> HostsFile:
    """Read a file of hosts, or a bundled one by its name.

    Raises
    ------
    TaskError
        The message names the file, the field and the fix.
    """
    path = Path(source)
    if str(source) in bundled_hosts():
        return _parse(f"{source}.yaml", (resources.files(__package__) / _FOLDER / f"{source}.yaml").read_text("utf-8"))
    try:
        return _parse(str(path), read_text(path))
    except OSError as error:
        fix = f"give a YAML file, or one of {', '.join(bundled_hosts())}"
        raise TaskError(f"{path}: {error.strerror}; {fix}") from None
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: is no UTF-8 text: {error.reason} at byte {error.start}") from None


def _parse(source: str, text: str) -> HostsFile:
    try:
        data = read_yaml(text)
    except YamlError as error:
        raise TaskError(f"{source}: {error}") from None
    if not isinstance(data, dict) or not set(data) <= {"default", "hosts"}:
        raise TaskError(f"{source}: expected the keys 'default' (a profile) and 'hosts' (profiles by host)")
    try:
        document = HostsDocument.model_validate(data)
    except ValidationError as error:
        problem = error.errors()[0]
        field = one_line(".".join(map(str, problem["loc"])), 80)
        message = one_line(problem["msg"].removeprefix("Value error, "))
        if problem["type"] == "extra_forbidden":
            message = f"there is no such field; a profile has {', '.join(ProfileEntry.model_fields)}"
        raise TaskError(f"{source}: {field}: {message}") from None
    default = HostProfile(**_given(document.default))
    return HostsFile(
        source, default, {name: replace(default, **_given(entry)) for name, entry in document.hosts.items()}
    )


def _given(entry: ProfileEntry) -> dict[str, Any]:
    """The fields that an entry sets, by the names of a profile's fields."""
    return {_FIELDS.get(name, name): value for name, value in entry.model_dump(exclude_unset=True).items()}


# Members of a running task: their ranks, which of them are lost, and how messages name them.


def ranks_at(before: Sequence[str], ranks: Sequence[int], now: Sequence[str]) -> tuple[int, ...]:
    """The ranks of a task's workers after a change of its hosts.

    With as many hosts as before, each position keeps its rank, whatever its host. With fewer, remaining hosts keep
    their ranks; `PlanError` if one of the fewer hosts is new.

    Parameters
    ----------
    before, ranks
        The hosts until now, and the rank of each.
    now
        The hosts after the change.
    """
    if len(now) == len(before):
        return tuple(ranks)
    known = dict(zip(before, ranks, strict=True))
    if unknown := [host for host in now if host not in known]:
        raise PlanError(f"{unknown[0]} had no rank, and would be one of fewer workers")
    return tuple(known[host] for host in now)


def lost_hosts(task: Task, topology: Topology, down: Collection[Hop], died: Collection[str]) -> tuple[str, ...]:
    """Hosts that a task has lost: their processes have died, or no link leads to them any more.

    When a network is partitioned, the part with the global model continues. If the host of that model is lost, only
    this host is returned, since no worker can continue without it.

    ``down`` has the directed links without a carrier, ``died`` the hosts where the task's process has ended.
    """
    reached = _reached(task.server, topology, down) if down else None
    if task.server in died or reached == {task.server}:
        return (task.server,)
    return tuple(host for host in task.workers if host in died or (reached is not None and host not in reached))


def _reached(start: str, topology: Topology, down: Collection[Hop]) -> set[str]:
    """Nodes that a host reaches over links that are up; hosts do not forward."""
    seen, left = {start}, [start]
    while left:
        node = left.pop()
        for neighbour in topology.neighbours(node):
            if neighbour not in seen and (node, topology.port(node, neighbour)) not in down:
                seen.add(neighbour)
                if not topology.node(neighbour).is_host:
                    left.append(neighbour)
    return seen


def named(task: Task, ranks: Sequence[int], lost: Sequence[str]) -> str:
    """Name the lost hosts, for the reason of a failure; '' if none is lost."""
    if not lost:
        return ""
    if lost[0] == task.server:
        return f"the server's host {task.server} is lost, and the global model with it"
    of = dict(zip(task.workers, ranks, strict=True))
    workers = ", ".join(f"{host} (rank {of[host]})" for host in lost)
    return f"worker{'s' if len(lost) > 1 else ''} {workers} {'are' if len(lost) > 1 else 'is'} lost"


# A schedule in the executor's terms: circuits at ports, the order of turns, and the next trees of running tasks.


Role = str
"""The part of a job in a task: 'both' directions, 'upload', 'broadcast', or 'tree 1 of 3' with several trees."""


def roles(count: int, *, trees: bool) -> tuple[Role, ...]:
    """The roles of ``count`` jobs. trees: each job does both directions, of a part of the model or for one client."""
    if count == 1:
        return ("both",)
    return tuple(f"tree {number + 1} of {count}" for number in range(count)) if trees else ("upload", "broadcast")


_READ: Final = "read"


def read_roles(count: int) -> tuple[Role, ...]:
    """The roles of the ``count`` plans over which a task's hosts read data, one for each pair of home and reader."""
    return tuple(f"{_READ} {number + 1} of {count}" for number in range(count))


def is_read(role: Role) -> bool:
    """Whether a role is one of :func:`read_roles`."""
    return role.startswith(_READ)


def are_all(task_roles: Collection[Role]) -> bool:
    """Whether these are the roles of all jobs of a task, and of all its reads or none."""
    reads = {role for role in task_roles if is_read(role)}
    jobs = {*task_roles} - reads
    return (
        bool(jobs)
        and reads == {*read_roles(len(reads))}
        and any(jobs == {*roles(len(jobs), trees=trees)} for trees in (False, True))
    )


@dataclass(frozen=True)
class TurnWindow:
    """A part of the round in which some tasks communicate over some circuits.

    Attributes
    ----------
    process : int
        Tasks of other processes train meanwhile; a process that needs several configurations has several windows.
    circuits : tuple of Link
        Circuits at ports that lead to cross-connects, with the rate of each direction.
    tasks : tuple of str
        Names of the tasks that communicate. Tasks that the executor does not run are skipped.
    planned_start_ps, planned_ps : int
        Predictions, for records: time from the round's first change of circuits until the window is lit; its length.
    """

    process: int
    circuits: tuple[Link, ...]
    tasks: tuple[str, ...]
    planned_start_ps: int
    planned_ps: int


@dataclass(frozen=True)
class Timetable:
    """Everything that the executor needs to let tasks take turns without further requests.

    A timetable takes effect at the end of a round. A window ends when all its tasks have communicated; the next window
    opens when its tasks have trained as well.

    Attributes
    ----------
    number : int
        Number of the schedule, from 1; later schedules have higher numbers.
    windows : tuple of TurnWindow
        Windows of a round, in order.
    delta_ps : int
        Time during which ports carry nothing after a change of their circuits.
    guard_ps : int
        Time for which circuits stay after a task is abandoned within its window, so that its frames arrive.
    plans : mapping
        Task -> role -> plan: installed trees to which running tasks change with this schedule.
    """

    number: int
    windows: tuple[TurnWindow, ...]
    delta_ps: int
    guard_ps: int
    plans: Mapping[str, Mapping[Role, Plan]] = field(default_factory=dict)


@dataclass(frozen=True)
class ScheduleTurn:
    """The position of an executor in its schedule.

    Attributes
    ----------
    schedule : int
        Number of the schedule in force; 0: none.
    waiting : int
        Number of the schedule that takes effect at the end of this round; 0: none.
    round, window : int
        The round of this schedule, and the index of its window that was open last; -1 before the first.
    configuration : tuple of Link
        Circuits that are lit, or will be after the dark time.
    open : bool
        Whether the window ``window`` is still open.
    """

    schedule: int = 0
    waiting: int = 0
    round: int = 0
    window: int = -1
    configuration: tuple[Link, ...] = ()
    open: bool = False


ReportKind = Literal[
    "round", "served", "finished", "failed", "resumed", "replanned", "restored", "died", "link", "schedule", "window"
]
LAST_JOB: Final = 57_343
"""largest number of a task's job; an executor uses higher numbers for the data that hosts read"""
Read = tuple[str, str, int]
"""a read: home of the data, host that reads them, bytes"""


@dataclass(frozen=True)
class TaskOrder:
    """A task to run.

    ``plans`` has one installed plan for each of the task's :func:`roles`, in this order. ``training_ps`` is how long
    each worker trains in a round, ``aggregation_ps`` how long the server adds models up between upload and broadcast. A
    task that infers has a plan for each client, and ``training_ps`` is its server's computing time for a request.
    ``reads``: data that hosts read over the network before they begin. ``read_plans``: of a task that takes turns, an
    installed plan for each home and reader, in the network that is lit for the read. ``schedule``: number of the first
    schedule in which the task takes turns; None: it takes none. ``ranks``: ranks of the workers, if some of the
    first workers have died; (): 0, 1, ... ``anew``: hosts where a new process replaces a dead one. ``attempt``: number
    of restarts of the task so far; from 1 on it continues from its last checkpoint.
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
    read_plans: Mapping[Role, Plan] = field(default_factory=dict)

    @property
    def all_ranks(self) -> tuple[int, ...]:
        """The rank of each worker."""
        return self.ranks or tuple(range(len(self.task.workers)))

    @property
    def keys(self) -> "dict[Role, tuple[int, int]]":
        """The (job, epoch) of each role."""
        return {role: (plan.job, plan.epoch) for role, plan in self.plans.items()}


@dataclass(frozen=True)
class ExecutorReport:
    """An event at the executor. ``number`` counts reports from 1.

    Attributes
    ----------
    kind : str
        'round': a round of a task is done; ``data`` has 'round' (from 0) and the times 'started_ps', 'trained_ps',
        'uploaded_ps', 'aggregated_ps', 'done_ps' (of the slowest host). A job that does both directions at once has no
        times between 'trained_ps' and 'done_ps': they are equal to the latter. 'ranks': ranks of the models in it.
        'training_ps': training time of each worker, by host, if known.
        'served': a task has answered all its requests; 'requests', the latencies 'p50_ps', 'p99_ps' and 'worst_ps',
        and 'met': whether 'p99_ps' is within the task's objective (None: it has none).
        'finished': all rounds are done; 'digest' of all weights: SHA-256 of the previous round's and these weights.
        Of a task that infers: SHA-256 of its clients' digests, each of all its answers.
        'failed': a host gave up; 'reason'.
        'resumed': a job continues after its tree was swapped; see :class:`Interruption`.
        'replanned': a task continues with the plans of another order (:meth:`Executor.replan`); 'keys' (role ->
        [job, epoch]), 'round' that it begins, 'again': whether that round had begun before. If the task did not change,
        'error' is the reason.
        'restored': all workers of a task have their data, and the model if they lacked it, and train; 'round',
        'read_bytes', 'model_bytes', 'duration_ps' since the task began, or was replanned.
        'died': a process of a task has ended before the task; 'host', 'round'. The whole task stands still until it is
        stopped, or replanned without that host.
        'link': a link went down or came back; 'node', 'port', 'up'.
        'schedule': a schedule has taken effect; 'number'.
        'window': a window of a schedule has ended; 'schedule', 'round', 'window' (its index), 'started_ps', 'lit_ps',
        'ended_ps', and the frames that were 'dark_lost' and 'misrouted' since the end of the window before.
    """

    number: int
    at_ps: int
    kind: ReportKind
    task: str | None
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Interruption:
    """The cost of a swap, as the hosts saw it.

    Attributes
    ----------
    role, job, epoch : str, int, int
        The job, and its new epoch.
    in_flight : int
        Chunks that workers had sent and some worker had not received: they are sent again.
    resent_frames, resent_bytes : int
        Frames and bytes that all workers sent again until the job had regained its progress.
    late_frames : int
        Frames of the old epoch that reached a host after the change and were dropped.
    duration_ps : int
        Time from the change until every worker has every chunk that was in flight.
    """

    role: Role
    job: int
    epoch: int
    in_flight: int
    resent_frames: int
    resent_bytes: int
    late_frames: int
    duration_ps: int


@dataclass(frozen=True)
class Running:
    """A task at the executor: the (job, epoch) of each role, its present round, and whether it has ended.

    ``died``: hosts where its process has ended and has not been replaced. ``attempt``: the attempt of its order.
    """

    keys: Mapping[Role, tuple[int, int]] = field(default_factory=dict)
    round: int = 0
    ended: bool = False
    died: tuple[str, ...] = ()
    attempt: int = 0


class Executor(Protocol):
    """The component that runs tasks. Methods block.

    :class:`~p4reduce.control_plane.orchestrator.options.TaskRefusedError` means that a request for one task cannot be
    carried out; any other ``RuntimeError`` means that the executor cannot be reached.
    """

    @property
    def instance(self) -> str:
        """Identifier that changes at every start of the executor; a start loses all running tasks."""

    @property
    def switches_count(self) -> bool:
        """Whether frames cross switches, which then count them; False for an executor without frames."""

    def take_charge(self, term: int, database: str) -> None:
        """Accept orders of the orchestrator with this term, and refuse orders of earlier terms.

        The first call decides to which database the running tasks belong.
        """

    def now(self) -> int:
        """The executor's time in ps."""

    def start(self, order: TaskOrder) -> None:
        """Run a task. No effect if it has been started with these plans; `TaskRefusedError` when it cannot run here.

        A later attempt of a task replaces the attempt before, and begins with the round of its last checkpoint, or with
        the first round (:attr:`Running.round`).
        """

    def swap(self, task: str, plans: Mapping[Role, Plan]) -> None:
        """Change all hosts of these jobs at the same time to the epochs of installed plans; no effect when repeated.

        `TaskRefusedError` if a process of the task has died.
        """

    def replan(self, order: TaskOrder, *, at_once: bool = False) -> None:
        """Change a running task to other plans between two rounds, perhaps at other hosts, with new endpoints.

        A report follows ('replanned'). ``at_once``: the present round is abandoned and repeated from the model at its
        beginning. New workers get the model, and read the data in ``order.reads``. No effect if the task has these
        plans or has ended; a later order replaces an order that waits. With ``order.ranks`` it may have fewer workers
        than before. `TaskRefusedError` for a host where a process has died, unless the host is in ``order.anew``.
        """

    def keep_plans(self, task: str) -> None:
        """Cancel a waiting order to replan; no effect if there is none."""

    def set_schedule(self, timetable: Timetable) -> None:
        """Let tasks take turns by this timetable from the end of the round on, or at once if no task takes turns.

        No effect if the executor has a timetable with this number already. `TaskRefusedError` for a lower number, while
        another timetable waits, and for impossible circuits.
        """

    def turn(self) -> ScheduleTurn:
        """The schedule in force, the waiting schedule, and the present configuration."""

    def stop(self, task: str) -> None:
        """Stop a task at all its hosts. No effect if it has ended or is not known."""

    def advance(self, until_ps: int, *, after: int | None = None) -> int:
        """Let time pass to ``until_ps``, and return the time in ps then.

        With ``after``, stop as soon as there is a report with a number above ``after`` whose kind is neither 'round'
        nor 'window'.
        """

    def reports(self, after: int) -> list[ExecutorReport]:
        """Reports from number ``after`` + 1 on. The caller has kept earlier reports, which may be forgotten."""

    def running(self, names: Collection[str] | None = None) -> Mapping[str, Running]:
        """Tasks that were ever started here, by name: all, or those with these names."""

    def interface_bytes(self) -> Mapping[Hop, int]:
        """Bytes that every interface has sent, of all traffic (as ifOutOctets of RFC 2863)."""

    def host_bytes(self) -> Mapping[Hop, int]:
        """Bytes that hosts sent for tasks, by their uplinks; part of :meth:`interface_bytes`."""

    def links_down(self) -> set[Hop]:
        """Directed links without a carrier; both directions of a link are listed."""


def lit_of(plan: Plan) -> tuple[Link, ...]:
    """All links between switches of a plan's network; in a view these are the circuits that are lit."""
    hosts = {host.name for host in plan.topology.hosts}
    return tuple(link for link in plan.topology.links if not hosts & {link.a, link.b})


def circuits_of(plan: Plan) -> tuple[Link, ...]:
    """Links between switches that a plan uses; in a view these are its circuits."""
    hosts = {host.name for host in plan.topology.hosts}
    pairs = {(min(ends), max(ends)) for path in plan.paths.values() for ends in pairwise(path) if not hosts & set(ends)}
    return tuple(plan.topology.link_between(a, b) for a, b in sorted(pairs))
