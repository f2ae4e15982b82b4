"""What the orchestrator asks of the side where hosts are: run tasks, swap their trees, report. A protocol and its data.

Hosts, links and time belong to the executor, in this process or another one. It outlives the orchestrator, so every
request may come twice: who asks for what is done already gets the same answer and changes nothing. Nothing that
happened is lost either: reports are numbered and kept.
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
from p4switch.base.safe_yaml import YamlError, one_line, read_yaml

# The computing manager: which host runs which models, how loaded it is, and how long training and adding up take.


MAX_SLOWDOWN: Final = 1e6
MEASURED_SHARE: Final = 0.3
"""of the newest round in a host's measured slowdown (exponentially weighted)"""


@dataclass(frozen=True)
class HostProfile:
    """What a host can do.

    Attributes
    ----------
    slowdown : float
        Its training time is that of the task times this.
    models : int
        Models that it trains side by side at full speed; with more they share it evenly.
    most_models : int or None
        It takes no more than these; None: no limit.
    add_ps : int
        Picoseconds to add one element of one model that came in to the sum of a task, as a global model's host.
    utility : float or None
        How useful its data are to a global model, for the selection of local models
        (:class:`~p4reduce.control_plane.scheduling.task.Selection`); any unit, the same at all hosts. None: not
        known.
    slots : int
        Slots (GPUs) that tasks whose hosts are chosen find; those that name their hosts take theirs anyway.
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
    """Knows the hosts. Not thread-safe.

    Parameters
    ----------
    topology : Topology
        Whose hosts compute.
    profiles : mapping of HostProfile
        By host; a host that is not named has the default profile.
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
        """global models by host"""
        self.measured: dict[str, float] = {}
        """training time of hosts over that of their tasks, where rounds have shown it"""
        self.in_turns = False
        """tasks of a host train one at a time: they take turns"""

    def place(self, task: Task, *, even_if_full: bool = False) -> None:
        """A task's local models are trained from now on; nothing when they are already.

        Raises
        ------
        PlanError
            Names a host that trains its most already; with ``even_if_full`` only one that there is not.
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
        """A task has ended; nothing when it was not placed."""
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
        """Hosts whose slots a task takes: those that train; of one that infers its server, where it was chosen."""
        return task.trainers if task.serving is None else (task.server,)

    def extend(self, task: Task) -> None:
        """A placed task is about to train at the hosts of ``task`` too; `PlanError` names one that is full."""
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
        """A placed task trains at these hosts, and at no others any more."""
        if task.name in self._placed:
            self.release(task.name)
            self.place(task, even_if_full=True)

    def training_ps(self, task: Task, host: str) -> int:
        """How long a local model trains in one round, with the models that the host trains now.

        `PlanError` when that is longer than a task may take.
        """
        profile = self._profile(host)
        sharing = 1.0 if self.in_turns else max(1.0, self._load[host] / profile.models)
        return _possible(task, f"training at {host}", round(task.training_ps * profile.slowdown * sharing))

    def answering_ps(self, task: Task) -> int:
        """How long the server of a task that infers computes for a request; `PlanError` as of `training_ps`."""
        slowdown = self._profile(task.server).slowdown
        return _possible(task, f"answering at {task.server}", round(task.training_ps * slowdown))

    def aggregation_ps(self, task: Task, arriving: int) -> int:
        """How long the server adds up ``arriving`` models in one round: one if the network aggregates, else all.

        `PlanError` when that is longer than a task may take.
        """
        needed = task.elements * arriving * self._profile(task.server).add_ps
        return _possible(task, f"adding up {arriving} models at {task.server}", needed)

    def is_full(self, host: str) -> bool:
        """Whether a host trains its most already."""
        most = self._profile(host).most_models
        return most is not None and self._load[host] >= most

    def slots(self) -> dict[str, int]:
        """Slots of every host for local models."""
        return {host: self._profiles[host].slots for host in self._workers}

    def free_slots(self) -> dict[str, int]:
        """Those that no task has; none at a host that trains its most models."""
        return {
            host: 0 if self.is_full(host) else max(0, self._profiles[host].slots - self._used[host])
            for host in self._workers
        }

    def slowdowns(self) -> dict[str, float]:
        """Training times of hosts over those of usual ones: as measured, else as their profiles say."""
        return {host: self.measured.get(host, self._profiles[host].slowdown) for host in self._workers}

    def measure(self, task: Task, training_ps: Mapping[str, int]) -> dict[str, float]:
        """How long local models of a task trained in a round; returns the new slowdowns of these hosts."""
        if not task.training_ps:
            return {}
        found = {}
        for host, took_ps in training_ps.items():
            now = took_ps / task.training_ps
            self.measured[host] = found[host] = now + (self.measured.get(host, now) - now) * (1 - MEASURED_SHARE)
        return found

    def utility(self, host: str) -> float | None:
        """How useful its data are; None: not known."""
        return self._profile(host).utility

    def hosts(self) -> list[dict[str, Any]]:
        """Every host with the tasks whose models it runs, and its load: models per model at full speed."""
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
    """A time, if it can be added to others: the fabric has 64 bits for it."""
    if needed_ps > MAX_PS:
        raise PlanError(f"task {task.name}: {what} takes {needed_ps} ps, more than {format_delay(MAX_PS)}")
    return needed_ps


# Files that say what hosts can do: YAML with a profile for each, and one for all others.


_FOLDER: Final = "hosts"
_FIELDS: Final = {"add": "add_ps"}
"""names in the file that are others in the profile"""


class ProfileEntry(BaseModel):
    """A host's profile in a file; what is left out is as in the file's default."""

    model_config = ConfigDict(extra="forbid")

    slowdown: Annotated[float, Field(strict=True, gt=0, le=MAX_SLOWDOWN, allow_inf_nan=False)] = 1.0
    models: Annotated[int, Field(strict=True, ge=1)] = 1
    most_models: Annotated[int | None, Field(strict=True, ge=1)] = None
    add: Annotated[int, BeforeValidator(parse_delay)] = 0
    """for one element of one model, as in '100ps'"""
    utility: Annotated[float | None, Field(strict=True, ge=0, allow_inf_nan=False)] = None
    slots: Annotated[int, Field(strict=True, ge=0)] = 1


class HostsDocument(BaseModel):
    """A file of hosts."""

    model_config = ConfigDict(extra="forbid")

    default: ProfileEntry = Field(default_factory=ProfileEntry)
    hosts: dict[str, ProfileEntry] = Field(default_factory=dict)


@dataclass(frozen=True)
class HostsFile:
    """What a file says: profiles of hosts by name, and that of all others. ``source`` is how it was named."""

    source: str
    default: HostProfile
    hosts: Mapping[str, HostProfile]

    def of(self, topology: Topology) -> dict[str, HostProfile]:
        """The profile of every host; `TaskError` when the file names one that the topology has not."""
        names = [host.name for host in topology.hosts]
        if unknown := sorted(set(self.hosts) - set(names)):
            raise TaskError(
                f"{self.source}: hosts.{one_line(unknown[0], 60)}: topology {topology.name!r} has no such host; "
                f"it has {one_line(', '.join(names), 100)}"
            )
        return {name: self.hosts.get(name, self.default) for name in names}


def bundled_hosts() -> tuple[str, ...]:
    """Names of the files that come with the package; each is for the topology of that name."""
    files = (resources.files(__package__) / _FOLDER).iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")))


def read_hosts(source: str | Path) -> HostsFile:
    """A file of hosts, or a bundled one by its name.

    Raises
    ------
    TaskError
        Names the file, the field and the fix.
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
        found = error.errors()[0]
        field = one_line(".".join(map(str, found["loc"])), 80)
        said = one_line(found["msg"].removeprefix("Value error, "))
        if found["type"] == "extra_forbidden":
            said = f"there is no such field; a profile has {', '.join(ProfileEntry.model_fields)}"
        raise TaskError(f"{source}: {field}: {said}") from None
    default = HostProfile(**_given(document.default))
    return HostsFile(
        source, default, {name: replace(default, **_given(entry)) for name, entry in document.hosts.items()}
    )


def _given(entry: ProfileEntry) -> dict[str, Any]:
    """What an entry says, by the names of a profile's fields."""
    return {_FIELDS.get(name, name): value for name, value in entry.model_dump(exclude_unset=True).items()}


# Members of a running task: their ranks, who is lost, and what is called so in the database.


def ranks_at(before: Sequence[str], ranks: Sequence[int], now: Sequence[str]) -> tuple[int, ...]:
    """The ranks of a task's workers at hosts that it is about to have.

    As many as before: each place keeps its rank, whatever host has it now. Fewer: who is left keeps its own.
    `PlanError` for a host that is new among fewer.

    Parameters
    ----------
    before, ranks
        Its hosts until now, and the rank of each.
    now
        Its hosts from then on.
    """
    if len(now) == len(before):
        return tuple(ranks)
    known = dict(zip(before, ranks, strict=True))
    if unknown := [host for host in now if host not in known]:
        raise PlanError(f"{unknown[0]} had no rank, and would be one of fewer workers")
    return tuple(known[host] for host in now)


def lost_hosts(task: Task, topology: Topology, down: Collection[Hop], died: Collection[str]) -> tuple[str, ...]:
    """Hosts of a task that are lost to it: where its process has died, or that no link leads to any more.

    Of a network that fell apart the part with the global model goes on. Where that model's host is lost itself it is
    the only one that is named: without it nobody goes on.

    ``down`` has the directed links without a carrier, ``died`` the hosts where the task's process has ended.
    """
    reached = _reached(task.server, topology, down) if down else None
    if task.server in died or reached == {task.server}:
        return (task.server,)
    return tuple(host for host in task.workers if host in died or (reached is not None and host not in reached))


def _reached(start: str, topology: Topology, down: Collection[Hop]) -> set[str]:
    """Nodes that a host reaches; other hosts pass nothing on."""
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
    """Who was lost, for a reason; empty where nobody was."""
    if not lost:
        return ""
    if lost[0] == task.server:
        return f"the server's host {task.server} is lost, and the global model with it"
    of = dict(zip(task.workers, ranks, strict=True))
    workers = ", ".join(f"{host} (rank {of[host]})" for host in lost)
    return f"worker{'s' if len(lost) > 1 else ''} {workers} {'are' if len(lost) > 1 else 'is'} lost"


# A schedule as the executor plays it: circuits at ports, whose turn it is when, and trees that tasks change to.


Role = str
"""What a job of a task does: 'both' directions, 'upload' or 'broadcast'; of several trees at once 'tree 1 of 3' etc."""


def roles(count: int, *, trees: bool) -> tuple[Role, ...]:
    """Of so many jobs of a task. trees: each does both directions, of a part of the model or for one client."""
    if count == 1:
        return ("both",)
    return tuple(f"tree {number + 1} of {count}" for number in range(count)) if trees else ("upload", "broadcast")


_READ: Final = "read"


def read_roles(count: int) -> tuple[Role, ...]:
    """Of the plans over which hosts of a task read their data, each of one home and one reader."""
    return tuple(f"{_READ} {number + 1} of {count}" for number in range(count))


def is_read(role: Role) -> bool:
    """Whether it is one of :func:`read_roles`."""
    return role.startswith(_READ)


def are_all(found: Collection[Role]) -> bool:
    """Whether these are the roles of all jobs of a task, and of all its reads or none."""
    reads = {role for role in found if is_read(role)}
    jobs = {*found} - reads
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
    open : bool
        Whether that window is still open.
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
"""of those that tasks get; an executor numbers what hosts read by the others"""
Read = tuple[str, str, int]
"""home of data, the host that reads them, bytes"""


@dataclass(frozen=True)
class Order:
    """A task to run.

    ``plans`` has one installed plan for each of the task's :func:`roles`, in this order. ``training_ps`` is how long
    each worker trains in a round, ``aggregation_ps`` how long the server adds models up between upload and broadcast;
    of a task that infers there is a plan for each client, and ``training_ps`` says how long its server computes for a
    request. ``reads``: what hosts read over the network before they begin. ``read_plans``: where it takes turns, an
    installed plan for each home and reader, in the network that is lit then. ``schedule``: the number of the schedule
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
class Report:
    """Something that happened. ``number`` counts from 1.

    Attributes
    ----------
    kind : str
        'round': a round of a task is done; ``data`` has 'round' (from 0) and the times 'started_ps', 'trained_ps',
        'uploaded_ps', 'aggregated_ps', 'done_ps' (of the slowest host). A job that does both directions at once has no
        times between 'trained_ps' and 'done_ps': they are equal to the latter. 'ranks': whose models are in it.
        'training_ps': how long each worker trained, by host, where that is known.
        'served': a task has answered all its requests; 'requests', and of their latencies 'p50_ps', 'p99_ps',
        'worst_ps', and whether 'p99_ps' keeps to its objective ('met'; None: it has none).
        'finished': all rounds are done; 'digest' of all weights: a round's is SHA-256 of the one before and of these.
        Of a task that infers: SHA-256 of those of its clients, each of all its answers.
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


def lit_of(plan: Plan) -> tuple[Link, ...]:
    """All links between switches of a plan's network; in a view these are the circuits that are lit."""
    hosts = {host.name for host in plan.topology.hosts}
    return tuple(link for link in plan.topology.links if not hosts & {link.a, link.b})


def circuits_of(plan: Plan) -> tuple[Link, ...]:
    """Links between switches that a plan uses; in a view these are its circuits."""
    hosts = {host.name for host in plan.topology.hosts}
    pairs = {(min(ends), max(ends)) for path in plan.paths.values() for ends in pairwise(path) if not hosts & set(ends)}
    return tuple(plan.topology.link_between(a, b) for a, b in sorted(pairs))
