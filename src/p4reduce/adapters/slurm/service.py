"""The planner at work: reads Slurm's queue, chooses hosts, installs trees, lets jobs begin, and lets time pass."""

import fcntl
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from p4reduce.adapters.network import Ended, SharedNetwork
from p4reduce.adapters.planner import Chosen, Planner, is_marked, request_of
from p4reduce.adapters.slurm.client import Client, QueuedJob, SlurmError
from p4reduce.control_plane.errors import ControllerError, PlanError
from p4reduce.group.remote import job_folder

START_S: Final = 20.0
"""for Slurm to begin a job that was released; then it is held again, and placed anew"""
_SAID: Final = 200
"""characters of a reason in Slurm's AdminComment"""


@dataclass
class Placed:
    """A job that was given hosts."""

    number: int
    chosen: Chosen
    since: float
    """wall-clock time of its release"""
    running: bool = False
    left: bool = False
    """its ranks have left the network; Slurm still has it"""
    had: tuple[str, ...] = ()
    """hosts that Slurm gave it"""


@dataclass
class Step:
    """What came of one look at the queue."""

    changed: bool = False
    waiting: dict[str, str] = field(default_factory=dict)
    """jobs without hosts, and why"""
    busy: bool = False
    """some job is between two states; Slurm is to be asked again"""


class OnePlanner:
    """Keeps a second planner from the same network; a context manager. `SlurmError` where there is one."""

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
    """Plans for the marked jobs of a queue. Jobs that are not marked are Slurm's own; their nodes are not free.

    Attributes
    ----------
    ended : list of Ended
        Jobs whose ranks have left the network.
    history : dict
        Hosts that were chosen for each job, and those that Slurm says it had, by number.
    """

    def __init__(
        self,
        client: Client,
        planner: Planner,
        network: SharedNetwork,
        *,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._client, self._planner, self._network, self._tell = client, planner, network, tell
        self._placed: dict[int, Placed] = {}
        self._said: dict[int, str] = {}
        self._rounds: dict[str, int] = {}
        self._open = False
        self.ended: list[Ended] = []
        self.history: dict[int, tuple[Chosen, tuple[str, ...]]] = {}
        network.on_round = self._round_done

    @property
    def open(self) -> bool:
        """Whether a marked job has not ended, as of the last look."""
        return self._open or bool(self._placed)

    def step(self) -> Step:
        """Look at the queue once and do what follows from it."""
        jobs = {job.number: job for job in self._client.jobs() if is_marked(job.comment)}
        self._open = any(not job.over for job in jobs.values())
        step = Step()
        for number in list(self._placed):
            self._follow(self._placed[number], jobs.get(number), step)
        for job in jobs.values():
            if job.state == "PENDING" and not job.held and job.number not in self._placed:
                self._client.hold(
                    job.number
                )  # queued again by a user, or by Slurm, or left by a planner that was killed
                step.changed = step.busy = True
        waiting = {
            job_folder(job.number): job
            for job in jobs.values()
            if job.held and job.number not in self._placed and job.state in {"PENDING", "REQUEUE_HOLD"}
        }
        self._place(waiting, step)
        return step

    def advance(self, until_ps: int | None = None, *, patience_s: float) -> list[Ended]:
        """Let time pass until a job has left the network; those that have."""
        ended = self._network.advance(until_ps, patience_s=patience_s)
        for one in ended:
            self._leave(one.name, one.error or "the job has ended")
            self.ended.append(one)
        return ended

    # --- inside

    def _follow(self, placed: Placed, job: QueuedJob | None, step: Step) -> None:
        """What became of a job that has hosts."""
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

    def _place(self, waiting: dict[str, QueuedJob], step: Step) -> None:
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
        found, reasons = self._planner.choose(requests, able)
        step.waiting |= reasons
        for name, chosen in found.items():
            step.changed = step.busy = True
            self._rounds[name] = requests[name].task.rounds
            self._release(waiting[name].number, name, chosen)

    def _release(self, number: int, name: str, chosen: Chosen) -> None:
        """Trees first, then Slurm."""
        try:
            self._network.begin(name, chosen.hosts, chosen.plan)
        except (PlanError, ControllerError) as error:
            self._planner.end(name)
            self._explain(number, f"no tree: {error}")
            return
        try:
            self._client.place(number, chosen.hosts)
        except SlurmError as error:  # cancelled in this moment, most likely; else it comes again
            self._network.remove(name, str(error))
            self._planner.end(name)
            self._tell(f"job {number}: {error}")
            return
        self._placed[number] = Placed(number, chosen, time.monotonic())
        self._said.pop(number, None)
        self._tell(f"job {number}: {chosen.plan or 'alone'} on {', '.join(chosen.hosts)}")

    def _leave(self, name: str, reason: str) -> None:
        if name in self._network.names:
            self._network.remove(name, reason)
        self._rounds.pop(name, None)
        for placed in self._placed.values():
            placed.left |= job_folder(placed.number) == name

    def _explain(self, number: int, reason: str) -> None:
        """Once for each reason, where ``scontrol show job`` shows it."""
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
