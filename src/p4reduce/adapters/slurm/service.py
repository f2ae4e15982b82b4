"""The planner in operation: reads Slurm's queue, chooses hosts, installs trees, starts jobs, and lets time pass."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from p4reduce.adapters.network import EndedJob, SharedNetwork
from p4reduce.adapters.planner import Chosen, Planner, is_marked, request_of
from p4reduce.base.errors import ControllerError, PlanError
from p4reduce.group.errors import ClusterError
from p4reduce.group.remote import job_folder

# Errors of Slurm.


class SlurmError(ClusterError):
    """A program of Slurm is missing, does not answer, or refuses."""


# Slurm's programs: installed, or in a folder with its unpacked packages.


ROOT: Final = "P4REDUCE_SLURM"
"""environment variable: folder of unpacked Debian packages (``dpkg -x``); if it is not set, they are installed"""
PACKAGES: Final = "slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge"
_BINARIES: Final = ("usr/sbin", "usr/bin")
_SYSTEM: Final = ("/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin")
NEEDED: Final = (
    "munged",
    "slurmctld",
    "slurmd",
    "slurmstepd",
    "sbatch",
    "srun",
    "squeue",
    "sinfo",
    "scontrol",
    "scancel",
    "sdiag",
)


@dataclass(frozen=True)
class SlurmPrograms:
    """Paths of programs by name, and the environment variables that their processes need."""

    paths: Mapping[str, str]
    environment: Mapping[str, str]
    plugins: Path | None
    """Slurm's PluginDir; None: the folder that was set when Slurm was built"""

    def __getitem__(self, name: str) -> str:
        return self.paths[name]


def find_programs(environment: Mapping[str, str] = os.environ) -> SlurmPrograms:
    """Find all programs that a cluster needs; `SlurmError` names a missing program and how to get it."""
    root = environment.get(ROOT)
    if root:
        folders = [Path(root) / part for part in _BINARIES]
        plugins = next(iter(sorted(Path(root).glob("usr/lib/*/slurm-wlm"))), None)
        if plugins is None:
            raise SlurmError(f"{ROOT}: {root}: has no usr/lib/*/slurm-wlm; unpack {PACKAGES} there with 'dpkg -x'")
        libraries = [str(plugins.parent), str(plugins), *filter(None, [environment.get("LD_LIBRARY_PATH")])]
        extra = {"LD_LIBRARY_PATH": ":".join(libraries)}
    else:
        folders = [Path(part) for part in (*environment.get("PATH", "").split(os.pathsep), *_SYSTEM) if part]
        plugins, extra = None, {}
    paths = {name: path for name in NEEDED if (path := _find(name, folders)) is not None}
    missing = [name for name in NEEDED if name not in paths and name != "slurmstepd"]
    if missing:
        where = f"in {root} ({ROOT})" if root else "here"
        raise SlurmError(f"{missing[0]}: Slurm is not {where}; on Debian: apt install {PACKAGES}")
    search = os.pathsep.join(
        [*dict.fromkeys(str(Path(path).parent) for path in paths.values()), environment.get("PATH", "")]
    )
    return SlurmPrograms(paths, {**extra, "PATH": search}, plugins)


def _find(name: str, folders: list[Path]) -> str | None:
    """Return the path of a program; Debian calls some of them NAME-wlm."""
    where = os.pathsep.join(map(str, folders))
    return shutil.which(name, path=where) or shutil.which(f"{name}-wlm", path=where)


# Slurm's queue and nodes as printed by ``squeue --json`` and ``sinfo --json``.


MOST_HOSTS: Final = 65_536
_RANGE: Final = re.compile(r"(\d+)-(\d+)")
_NO_VALUE: Final = 2**32 - 2
_OVER: Final = frozenset(
    {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
)


@dataclass(frozen=True)
class QueuedJob:
    """A job in the output of ``squeue``."""

    number: int
    state: str
    """PENDING, RUNNING, COMPLETING, COMPLETED, …"""
    held: bool
    reason: str
    nodes: tuple[str, ...]
    """nodes that the job has"""
    node_count: int
    tasks: int
    comment: str
    owner: str
    submitted: int
    """time of submission, seconds since 1970"""
    array: bool = False
    """whether the job belongs to a job array, or is the record of its waiting jobs"""

    @property
    def over(self) -> bool:
        """Whether the job will not run any more, unless a user requeues it."""
        return self.state in _OVER


def parse_queue(text: str) -> list[QueuedJob]:
    """Parse ``squeue --json`` into jobs by number; for Slurm 22.05 (v0.0.38) and later, whose numbers are objects.

    `SlurmError` for any other text.
    """
    jobs = []
    for job in _list_of(text, "jobs"):
        try:
            held = _number(job.get("priority"), default=1) == 0
            jobs.append(
                QueuedJob(
                    number=_number(job["job_id"]),
                    state=_state(job["job_state"]),
                    held=held,
                    reason=str(job.get("state_reason") or ""),
                    nodes=expand(str(job.get("nodes") or "")),
                    node_count=_number(job.get("node_count"), default=1),
                    tasks=_number(job.get("tasks"), default=1),
                    comment=str(job.get("comment") or ""),
                    owner=str(job.get("user_name") or ""),
                    submitted=_number(job.get("submit_time"), default=0),
                    array=bool(_number(job.get("array_job_id"), default=0)),
                )
            )
        except (LookupError, TypeError, ValueError) as error:
            raise SlurmError(f"squeue --json: a job that cannot be read: {error!r}") from None
    return sorted(jobs, key=lambda queued: queued.number)


def parse_nodes(text: str) -> dict[str, bool]:
    """Parse ``sinfo --json``: for each node, whether a job may begin there now. `SlurmError` for any other text."""
    idle = {}
    for node in _list_of(text, "nodes"):
        try:
            state = node["state"]
            words = {str(word).upper() for word in ([state] if isinstance(state, str) else state)}
            words |= {str(word).upper() for word in node.get("state_flags") or []}
            idle[str(node["name"])] = words <= {"IDLE", "CLOUD"}
        except (KeyError, TypeError) as error:
            raise SlurmError(f"sinfo --json: a node that cannot be read: {error!r}") from None
    return idle


def expand(hosts: str) -> tuple[str, ...]:
    """Return the names of a host list, such as ``h[1-3,7],x1``. `SlurmError` if it is invalid, or too long."""
    names: list[str] = []
    for part in _parts(hosts):
        prefix, bracket, rest = part.partition("[")
        if not bracket:
            names.append(part)
            continue
        inside, closing, suffix = rest.partition("]")
        if not closing or "[" in suffix:
            raise SlurmError(f"host list: {part[:60]!r}: one pair of brackets is understood")
        for item in inside.split(","):
            bounds = _RANGE.fullmatch(item)
            first, last = bounds.groups() if bounds else (item, item)
            if not first.isdecimal():
                raise SlurmError(f"host list: {part[:60]!r}: {item[:20]!r} is no number")
            if len(names) + int(last) - int(first) > MOST_HOSTS:
                raise SlurmError(f"host list: {part[:60]!r}: more than {MOST_HOSTS} hosts")
            names += [f"{prefix}{number:0{len(first)}d}{suffix}" for number in range(int(first), int(last) + 1)]
    return tuple(names)


def _parts(hosts: str) -> list[str]:
    """Split at the commas outside of brackets."""
    parts, depth, begin = [], 0, 0
    for place, letter in enumerate(hosts):
        depth += (letter == "[") - (letter == "]")
        if depth not in (0, 1):
            raise SlurmError(f"host list: {hosts[:60]!r}: brackets that do not belong together")
        if letter == "," and not depth:
            parts.append(hosts[begin:place])
            begin = place + 1
    return [part for part in (*parts, hosts[begin:]) if part]


def _list_of(text: str, name: str) -> list[dict[str, Any]]:
    try:
        document = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        raise SlurmError(f"Slurm answered with something else than JSON: {error}") from None
    items = document.get(name) if isinstance(document, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise SlurmError(f"Slurm's JSON has no list {name!r}")
    return items


def _number(value: Any, default: int | None = None) -> int:
    """Return a number, given as a number or as ``{"set": true, "infinite": false, "number": 3}``."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) else None
    if value is None or value == _NO_VALUE:
        if default is None:
            raise ValueError("a number is missing")
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{str(value)[:20]!r} is no number")
    return value


def _state(value: Any) -> str:
    """Return a word, or of a list of words the most specific state."""
    words = [value] if isinstance(value, str) else [str(word) for word in value]
    return next((word for word in words if word in {"COMPLETING", "CONFIGURING", "REQUEUE_HOLD"}), words[0])


TIMEOUT_S: Final = 60.0
PATIENCE_S: Final = 60.0
"""seconds to wait for a slurmctld that restarts"""
_LOOK_S: Final = 0.25
_AWAY: Final = (
    "Unable to contact slurm controller",
    "Connection refused",
    "Zero Bytes were transmitted",
    "Transport endpoint is not connected",
    "Socket timed out",
)
_CYCLES: Final = re.compile(r"Main schedule statistics.*?Total cycles:\s*(\d+)", re.DOTALL)


# Slurm's commands. They run without a shell, so the names of jobs are never executed.


@dataclass(frozen=True)
class SlurmClient:
    """Client of the slurmctld that ``environment`` (SLURM_CONF) names. Errors are `SlurmError`."""

    programs: SlurmPrograms
    environment: Mapping[str, str]

    def jobs(self) -> list[QueuedJob]:
        """Return all jobs that Slurm knows; it forgets jobs some time after their end."""
        return parse_queue(self._run("squeue", "--json", "--states=all", again=True))

    def nodes(self) -> dict[str, bool]:
        """Return by name whether a job may begin at a node now."""
        return parse_nodes(self._run("sinfo", "--json", again=True))

    def submit(self, arguments: Sequence[str], *, folder: str) -> int:
        """Run ``sbatch`` with these arguments, in a folder; return the job's number."""
        text = self._run("sbatch", "--parsable", f"--chdir={folder}", *arguments)
        number = text.strip().split(";")[0]
        if not number.isdecimal():
            raise SlurmError(f"sbatch answered {text.strip()[:60]!r}")
        return int(number)

    def place(self, number: int, hosts: Sequence[str]) -> None:
        """Give a held job these nodes and let it begin."""
        fields = (f"JobId={number}", f"NodeList={','.join(hosts)}", "StartTime=now")
        self._run("scontrol", "update", *fields, again=True)
        self._run("scontrol", "release", str(number), again=True)

    def hold(self, number: int) -> None:
        """Hold a waiting job, so that it does not begin."""
        self._run("scontrol", "hold", str(number), again=True)

    def say(self, number: int, text: str) -> None:
        """Set the text that ``scontrol show job`` shows as AdminComment."""
        self._run("scontrol", "update", f"JobId={number}", f"AdminComment={text}", again=True)

    def comment(self, number: int, text: str) -> None:
        """Set the job's comment."""
        self._run("scontrol", "update", f"JobId={number}", f"Comment={text}", again=True)

    def requeue_hold(self, number: int) -> None:
        """Requeue a job: it ends, and waits again, held."""
        self._run("scontrol", "requeuehold", str(number))

    def cancel(self, number: int) -> None:
        """Cancel a job."""
        self._run("scancel", str(number), again=True)

    def weigh(self, host: str, weight: int) -> None:
        """Set a node's weight: of otherwise equal nodes Slurm takes those with the lowest weight."""
        self._run("scontrol", "update", f"NodeName={host}", f"Weight={weight}")

    def cycles(self) -> int:
        """Return the number of times that Slurm has gone through its queue."""
        match = _CYCLES.search(self._run("sdiag", again=True))
        if match is None:
            raise SlurmError("sdiag: says nothing of its main schedule's cycles")
        return int(match[1])

    def _run(self, program: str, *arguments: str, again: bool = False) -> str:
        """Run a program; return its output. again: retry for PATIENCE_S if slurmctld does not answer."""
        deadline = time.monotonic() + (PATIENCE_S if again else 0.0)
        while True:
            try:
                done = subprocess.run(
                    [self.programs[program], *arguments],
                    env=dict(self.environment),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=TIMEOUT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise SlurmError(f"{program}: no answer within {TIMEOUT_S:g} s") from None
            except OSError as error:
                raise SlurmError(f"{program}: {error.strerror}") from None
            except ValueError as error:  # an argument that no program can be given, such as a user's text with a NUL
                raise SlurmError(f"{program}: {error}") from None
            if done.returncode == 0:
                return done.stdout
            complaint = " ".join(done.stderr.split())[:300]
            if any(word in complaint for word in _AWAY) and time.monotonic() < deadline:
                time.sleep(_LOOK_S)
                continue
            raise SlurmError(
                f"{program} {arguments[0] if arguments else ''}: {complaint or f'exit code {done.returncode}'}"
            )


START_S: Final = 20.0
"""seconds for Slurm to begin a released job; then it is held again, and placed anew"""
_SAID: Final = 200
"""highest number of characters of a reason in Slurm's AdminComment"""


@dataclass
class PlacedJob:
    """A job that was given hosts."""

    number: int
    chosen: Chosen
    since: float
    """wall-clock time of its release"""
    running: bool = False
    left: bool = False
    """whether its ranks have left the network while Slurm still has it"""
    had: tuple[str, ...] = ()
    """hosts that Slurm gave it"""


@dataclass
class QueueLook:
    """The outcome of one look at the queue."""

    changed: bool = False
    waiting: dict[str, str] = field(default_factory=dict)
    """reasons of jobs without hosts, by name"""
    busy: bool = False
    """whether a job is between two states, so that Slurm must be asked again"""


class OnePlanner:
    """Lock that excludes a second planner of the same network; a context manager. `SlurmError` if it is taken."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "planner.lock"

    def __enter__(self) -> Self:
        self._file = self._path.open("a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            who = self._file.read(20).strip()
            self._file.close()
            raise SlurmError(f"{self._path}: process {who} plans for this network already; end it first") from None
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()
        return self

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)
        self._file.close()


class SlurmService:
    """Plans for the marked jobs of a queue. Slurm handles all other jobs; their nodes are not free.

    Attributes
    ----------
    ended : list of EndedJob
        Jobs whose ranks have left the network.
    history : dict
        Hosts chosen for each job, and hosts that Slurm gave it, by number.
    """

    def __init__(
        self,
        client: SlurmClient,
        planner: Planner,
        network: SharedNetwork,
        *,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._client, self._planner, self._network, self._tell = client, planner, network, tell
        self._placed: dict[int, PlacedJob] = {}
        self._said: dict[int, str] = {}
        self._rounds: dict[str, int] = {}
        self._open = False
        self.ended: list[EndedJob] = []
        self.history: dict[int, tuple[Chosen, tuple[str, ...]]] = {}
        network.on_round = self._round_done

    @property
    def open(self) -> bool:
        """Whether a marked job had not ended at the last look."""
        return self._open or bool(self._placed)

    def step(self) -> QueueLook:
        """Look at the queue once and act on it; return what happened."""
        jobs = {job.number: job for job in self._client.jobs() if is_marked(job.comment)}
        self._open = any(not job.over for job in jobs.values())
        step = QueueLook()
        for number in list(self._placed):
            self._follow(self._placed[number], jobs.get(number), step)
        for job in jobs.values():
            if job.state == "PENDING" and not job.held and job.number not in self._placed:
                self._client.hold(job.number)  # requeued by a user or by Slurm, or left by a killed planner
                step.changed = step.busy = True
        waiting = {
            job_folder(job.number): job
            for job in jobs.values()
            if job.held and job.number not in self._placed and job.state in {"PENDING", "REQUEUE_HOLD"}
        }
        self._place(waiting, step)
        return step

    def advance(self, until_ps: int | None = None, *, patience_s: float) -> list[EndedJob]:
        """Let time pass until a job has left the network; return the jobs that have."""
        ended = self._network.advance(until_ps, patience_s=patience_s)
        for job in ended:
            self._leave(job.name, job.error or "the job has ended")
            self.ended.append(job)
        return ended

    # --- inside

    def _follow(self, placed: PlacedJob, job: QueuedJob | None, step: QueueLook) -> None:
        """Track the state of a job that has hosts."""
        name = job_folder(placed.number)
        if job is None or job.over or (placed.running and job.state in {"PENDING", "REQUEUE_HOLD"}):
            if not placed.left:
                self._leave(name, "Slurm has ended the job")
            self._planner.end(name)
            del self._placed[placed.number]
            step.changed = True
            return
        if job.state in {"RUNNING", "COMPLETING"} and not placed.running:
            placed.running, placed.had = True, job.nodes
            self.history[placed.number] = (placed.chosen, job.nodes)
            if set(job.nodes) != set(placed.chosen.hosts):
                self._tell(f"job {placed.number}: Slurm gave it {','.join(job.nodes)}, not the hosts that were chosen")
                self._client.requeue_hold(placed.number)
            step.changed = True
        if not placed.running and time.monotonic() > placed.since + START_S:
            self._tell(f"job {placed.number}: Slurm does not begin it ({job.reason}); it is held again")
            self._client.hold(placed.number)
            self._leave(name, "Slurm did not begin the job")
            self._planner.end(name)
            del self._placed[placed.number]
            step.changed = True
            return
        step.busy |= not placed.running or placed.left or not self._network.joined(name)

    def _place(self, waiting: dict[str, QueuedJob], step: QueueLook) -> None:
        requests = {}
        for name, job in waiting.items():
            try:
                if job.tasks != job.node_count or job.array:
                    what = "job arrays are not placed" if job.array else f"{job.tasks} tasks on {job.node_count} nodes"
                    raise PlanError(f"{what}: one task a node is needed (sbatch -N8 -n8)")
                request = request_of(name, job.comment, job.node_count, job.owner)
                fault = self._planner.fault(request)
            except PlanError as error:
                fault = str(error)
            if fault:
                self._explain(job.number, fault)
                step.waiting[name] = fault
            else:
                requests[name] = request
        if not requests:
            return
        able = {name for name, idle in self._client.nodes().items() if idle}
        choices, reasons = self._planner.choose(requests, able)
        step.waiting |= reasons
        for name, chosen in choices.items():
            step.changed = step.busy = True
            self._rounds[name] = requests[name].task.rounds
            self._release(waiting[name].number, name, chosen)

    def _release(self, number: int, name: str, chosen: Chosen) -> None:
        """Install a job's trees, then release the job in Slurm."""
        try:
            self._network.begin(name, chosen.hosts, chosen.plan, chosen.elements)
        except (PlanError, ControllerError) as error:
            self._planner.end(name)
            self._explain(number, f"no tree: {error}")
            return
        try:
            self._client.place(number, chosen.hosts)
        except SlurmError as error:  # most likely cancelled in this moment; otherwise it will be placed again
            self._network.remove(name, str(error))
            self._planner.end(name)
            self._tell(f"job {number}: {error}")
            return
        self._placed[number] = PlacedJob(number, chosen, time.monotonic())
        self._said.pop(number, None)
        self._tell(f"job {number}: {chosen.plan or 'alone'} on {', '.join(chosen.hosts)}")

    def _leave(self, name: str, reason: str) -> None:
        if name in self._network.names:
            self._network.remove(name, reason)
        self._rounds.pop(name, None)
        for placed in self._placed.values():
            placed.left |= job_folder(placed.number) == name

    def _explain(self, number: int, reason: str) -> None:
        """Set a job's AdminComment, shown by ``scontrol show job``, to a new reason."""
        reason = " ".join("".join(letter if letter.isprintable() else " " for letter in reason).split())
        if self._said.get(number) != reason:
            self._said[number] = reason
            self._tell(f"job {number} stays held: {reason}")
            try:
                self._client.say(number, f"p4reduce: {reason}"[:_SAID])
            except SlurmError as error:
                self._tell(f"job {number}: {error}")

    def _round_done(self, name: str, rounds: int) -> None:
        wanted = self._rounds.get(name)
        if wanted is not None:
            self._planner.round_done(name, wanted - rounds)
