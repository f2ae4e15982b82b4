"""A task at its hosts: it trains (lets time pass), uploads, aggregates and broadcasts, round after round."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np

from p4reduce.control_plane.orchestrator.executor import (
    Interruption,
    Read,
    ReportKind,
    Role,
    ScheduleTurn,
    TaskOrder,
    Timetable,
    TurnWindow,
    circuits_of,
    lit_of,
)
from p4reduce.control_plane.orchestrator.options import TaskRefusedError
from p4reduce.control_plane.plans import Plan
from p4reduce.group.backend import FloatArray
from p4reduce.group.checkpoint import Checkpoint
from p4reduce.group.checkpoint import CheckpointState as Saved
from p4reduce.network.flow_jobs import Carrier
from p4reduce.network.jobs.network import Job, JobNetwork, parts_of
from p4reduce.network.virtual.records import FabricError
from p4reduce.play.tasks.reading import Key, TaskReading
from p4reduce.topologies import Link
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState

LEARNING_RATE: Final = 0.1
"""Learning rate of the synthetic task: weights -= rate * sum of gradients / workers."""
GRID: Final = np.float32(4096)
"""Gradients are multiples of its inverse: sums of thousands are exact in float32 and on lanes, in any order."""


def gradient(task: str, rank: int, round_: int, elements: int) -> FloatArray:
    """Return a worker's gradient in a round: roughly normal numbers from these arguments only; float32 (elements,)."""
    key = np.random.Philox(key=[crc32(task.encode()), rank << 32 | round_])
    drawn = np.random.Generator(key).standard_normal(elements, np.float32)
    return np.asarray(np.round(drawn * GRID) / GRID, np.float32)


@dataclass
class TaskRun:
    """State of a task; call ``step`` whenever an endpoint may be done.

    Both directions on one tree: PUSH_PULL, where the server answers chunk by chunk. On two trees, or with an
    aggregation time: PUSH, then the server adds and updates, then PULL. On a ring, or in several trees at once, of
    which the server's host is a member with zeros: ALL_REDUCE, then every host updates. In all cases weights become w -
    step * sum, with step = float32(rate / n), as the server's core computes them.

    With ``turns`` it trains when it is told to (`begin_round`), and communicates as soon as it is ``lit``; before that
    its phase is 'idle'.
    """

    order: TaskOrder
    jobs: Mapping[Role, Job]
    network: Carrier
    read_keys: Iterator[Key]
    round: int = 0
    phase: str = "training"
    turns: bool = False
    lit: bool = True
    """Whether it may communicate now."""
    due: dict[int, int] = field(default_factory=dict)
    """By endpoint: when its collective begins, ps; only those not yet posted."""
    wake_ps: int | None = None
    """End of an aggregation, ps; None without one."""
    times: dict[str, int] = field(default_factory=dict)
    digest: bytes = b""
    """SHA-256 over the previous digest and the weights, round by round; empty in the flow model, without weights."""
    ended: bool = False
    error: str | None = None
    died: list[str] = field(default_factory=list)
    """Hosts where its process has ended; the task stands still while there are any."""
    coming: TaskOrder | None = None
    """Order with which it continues after this round; None without one."""
    restored: dict[str, int] | None = None
    """Cost of restoring data and model, set when its hosts are ready to train again; None after it was reported."""

    def __post_init__(self) -> None:
        task = self.order.task
        # The flow model needs only the number of elements, not their values.
        self._held = task.elements if self.network.holds_arrays else 0
        self.weights: FloatArray = np.zeros(self._held, np.float32)
        self.checkpoint: FloatArray = self.weights.copy()
        self.sum: FloatArray = np.zeros(self._held, np.float32)
        self.arrays: list[FloatArray] = [np.zeros(self._held, np.float32) for _ in task.workers]
        self._reading: TaskReading | None = None
        self._unread: set[Read] = set()
        self._present: set[Read] = set()  # in turns, the subset that is being read now
        self._lacking = False  # whether workers are without a model
        self._began_ps = 0

    @property
    def exchanged(self) -> bool:
        """Whether its hosts reduce among themselves."""
        return self.upload.plan.exchanged

    @property
    def at_once(self) -> bool:
        """Whether one collective does both directions."""
        return "both" in self.jobs and self.order.aggregation_ps == 0

    @property
    def upload(self) -> Job:
        """Job that carries gradients; with several trees the first."""
        return self.jobs.get("upload") or next(iter(self.jobs.values()))

    @property
    def present(self) -> list[Job]:
        """Jobs of the present phase: one, or with several trees all that carry a part."""
        if self.exchanged:
            return [job for job, _ in parts_of(self.jobs.values(), self.order.task.elements)]
        sends = self.phase in ("broadcasting", "restoring")
        return [self.jobs.get("broadcast", self.upload) if sends else self.upload]

    @property
    def endpoints(self) -> list[int]:
        """Endpoints of the present phase."""
        return [index for job in self.present for index in job.endpoints]

    @property
    def begun(self) -> bool:
        """Whether any part of the present round has been done."""
        return bool(self.times) or self.phase in ("reading", "restoring")

    # --- begin and restore

    def begin(self, now_ps: int) -> None:
        """Begin: the hosts read their data, then train."""
        self._unread = set(self.order.reads)
        self._prepare(now_ps)

    def resume(self, state: Saved | None) -> None:
        """Continue from the state of an earlier attempt, if there is any; its hosts lack the model."""
        if state is None:
            return
        self.round, self.digest = state.iteration, state.arrays["digest"].tobytes()
        self.weights[:] = state.arrays["weights"]
        self.checkpoint[:] = self.weights
        self._lacking = True

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays that :meth:`resume` needs, beside the round."""
        return {"weights": self.weights, "digest": np.frombuffer(self.digest, np.uint8)}

    def turn(self, order: TaskOrder, jobs: Mapping[Role, Job], now_ps: int) -> None:
        """Continue with the plans and hosts of another order; the present round begins again."""
        before = {*self.order.reads} - self._unread
        self._lacking |= any(worker not in self.order.task.workers for worker in order.task.workers) or bool(order.anew)
        self._unread = {*order.reads} - {read for read in before if read[1] not in order.anew}
        self.arrays = [np.zeros(self._held, np.float32) for _ in order.task.workers]
        self.died = []
        self.order, self.jobs, self.coming = order, jobs, None
        self.weights[:] = self.checkpoint
        self.due, self.wake_ps = {}, None
        self._prepare(now_ps)

    def _prepare(self, now_ps: int) -> None:
        self.close()
        self.times = {}
        self._began_ps = now_ps
        if self._unread:
            self.phase = "reading"
            lanes = self.upload.plan.lanes
            self._reading = TaskReading(self.network, sorted(self._unread), keys=self.read_keys, lanes=lanes)
        elif self._lacking:
            self._restore(now_ps)
        else:
            self.begin_round(now_ps)

    def await_turn(self, now_ps: int) -> None:
        """Rest until it is this task's turn to read its data, and then to train."""
        self._unread, self._began_ps = set(self.order.reads), now_ps
        self.rest()

    @property
    def to_read(self) -> tuple[Link, ...] | None:
        """In turns: circuits for reading missing data first; () if none are needed; None without missing data."""
        if not self._unread or not self.turns:
            return None
        plans = self._read_plans()
        return next((lit for read in sorted(self._unread) if (lit := lit_of(plans[read[:2]]))), ())

    def read(self, circuits: tuple[Link, ...]) -> None:
        """Have its hosts read their data over these circuits as soon as it is lit."""
        plans = self._read_plans()
        self._present = {read for read in self._unread if lit_of(plans[read[:2]]) in ((), circuits)}
        self.phase = "reading"

    def _read_plans(self) -> dict[tuple[str, str], Plan]:
        """Return the orchestrator's read plans by home and reader, used where circuits change."""
        return {(plan.server or "", plan.workers[0]): plan for plan in self.order.read_plans.values()}

    def reader_at(self, home: str) -> str | None:
        """Return the host that reads data at ``home`` now, or is about to; None if there is none."""
        unread = sorted(self._unread) if self.turns or self._reading is not None else []
        return next((reader for at, reader, _ in unread if at == home), None)

    def _restore(self, now_ps: int) -> None:
        """Have the server send the model to all workers."""
        self.phase = "restoring"
        for array in self.arrays:
            array[:] = 0
        self.due = dict.fromkeys(self.endpoints, now_ps)

    def _ready(self, now_ps: int) -> None:
        """Begin the first round: all hosts have data and model."""
        self._tell_restored(self._unread, now_ps)
        self._lacking, self._unread = False, set()
        self.begin_round(now_ps)

    def _tell_restored(self, reads: Iterable[Read], now_ps: int) -> None:
        read = sum(size for _, _, size in reads)
        model = 4 * self.order.task.elements * len(self.arrays) if self._lacking else 0
        self.restored = {"read_bytes": read, "model_bytes": model, "duration_ps": now_ps - self._began_ps}

    def close(self) -> None:
        """Stop reading data."""
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def begin_round(self, now_ps: int) -> None:
        """Start training at every worker; its upload begins when it is done."""
        task = self.order.task
        self.phase = "training"
        self.times = {"started_ps": now_ps}
        self.checkpoint[:] = self.weights
        for array, rank, worker in zip(self.arrays, self.order.all_ranks, task.workers, strict=True):
            array[:] = gradient(task.name, rank, self.round, self._held)
            for job in self.present:
                self.due[job.members[worker]] = now_ps + self.order.training_ps[worker]
        self.times["trained_ps"] = max(self.due.values())
        if self.exchanged:
            self.sum[:] = 0
        self.due |= dict.fromkeys(map(self._serving, self.present), min(self.due.values()))

    def rest(self) -> None:
        """Do nothing until the next round begins."""
        self.phase, self.lit, self.times = "idle", False, {}

    def trained(self, now_ps: int) -> bool:
        """Return whether all workers have trained for the present round."""
        return self.phase != "idle" and now_ps >= self.times["trained_ps"]

    def next_ps(self) -> int | None:
        """Return when to call ``step`` if no endpoint is done before, ps; a task without light waits for it."""
        if self.died:
            return None
        times = list(self.due.values()) if self.lit else []
        if self.wake_ps is not None:
            times.append(self.wake_ps)
        return min(times, default=None)

    def active(self) -> list[int]:
        """Return the endpoints whose collective is in progress."""
        indices = np.array([index for job in self.jobs.values() for index in job.endpoints])
        busy: list[int] = indices[self.network.endpoints.records["status"][indices] == EndpointState.ACTIVE].tolist()
        return busy if self._reading is None else busy + self._reading.active()

    def step(self, now_ps: int) -> None:
        """Take all steps that are possible now."""
        while not self.ended and self._once(now_ps):
            pass

    def _once(self, now_ps: int) -> bool:
        """Take one step; return False if the task must wait."""
        if self.phase == "idle" or not self.lit or self.died:
            return False
        if self.phase == "reading" and self._reading is None:
            lanes = self.upload.plan.lanes
            reads = sorted(self._present)
            self._reading = TaskReading(self.network, reads, keys=self.read_keys, lanes=lanes, plans=self._read_plans())
        if self._reading is not None:
            return self._read_on(self._reading, now_ps)
        ready = [index for index, at_ps in self.due.items() if at_ps <= now_ps]
        for index in ready:
            del self.due[index]
            self.network.post(index, self._operation(index), self._carries(index))
        if self.due or (self.wake_ps is not None and self.wake_ps > now_ps):
            return False
        if self.phase == "aggregating":
            self._aggregated(now_ps)
            return not self.exchanged
        indices = self.endpoints
        records = self.network.endpoints.records[indices]
        if reason := self.network.failure(indices):
            return self._give_up(reason)
        if (records["status"] == EndpointState.ACTIVE).any():
            return False
        done_ps = int(records["done_at"].max())
        if self.phase == "restoring":
            if fault := self._differs():
                return self._give_up(f"round {self.round}: {fault}")
            self._ready(now_ps)
            return True
        if self.phase == "training" and (self.exchanged or not self.at_once):
            self.times["uploaded_ps"] = done_ps
            self.wake_ps, self.phase = done_ps + self.order.aggregation_ps, "aggregating"
            return True
        self._done(done_ps)
        return False

    def _read_on(self, reading: TaskReading, now_ps: int) -> bool:
        if not reading.step():
            return False
        self.close()
        if reading.error is not None:
            return self._give_up(reading.error)
        if self.turns:
            self._unread -= self._present
            if not self._unread:
                self._tell_restored(self.order.reads, now_ps)
            self.rest()
            return False
        if self._lacking:
            self._restore(now_ps)
        else:
            self._ready(now_ps)
        return True

    def _give_up(self, reason: str) -> bool:
        self.error, self.ended = reason, True
        return False

    def _done(self, done_ps: int) -> None:
        self.times["done_ps"] = done_ps
        self.times.setdefault("uploaded_ps", done_ps)
        self.times.setdefault("aggregated_ps", done_ps)

    @property
    def round_is_done(self) -> bool:
        """Whether the whole round is done."""
        return "done_ps" in self.times

    def end_round(self) -> str | None:
        """End a round, and check that all hosts have the same weights; return an error text, or None.

        Afterwards the next round can begin, unless the task has ended.
        """
        if fault := self._differs():
            self._give_up(f"round {self.round}: {fault}")
            return self.error
        if self._held:
            self.digest = hashlib.sha256(self.digest + self.weights.tobytes()).digest()
        self.round += 1
        self.times = {}
        self.checkpoint[:] = self.weights
        self.ended = self.round == self.order.task.rounds
        return None

    def _differs(self) -> str:
        """Return a text that names a worker whose weights differ from the server's; '' if all are equal."""
        for rank, array in zip(self.order.all_ranks, self.arrays, strict=True):
            if not np.array_equal(array.view(np.uint32), self.weights.view(np.uint32)):
                return f"worker {rank} and the server have different weights"
        return ""

    def _aggregated(self, now_ps: int) -> None:
        step = np.float32(LEARNING_RATE / len(self.arrays))
        at_ps = self.wake_ps or now_ps
        self.wake_ps = None
        if self.exchanged:  # every host has the sum, and updates its weights
            before = self.weights.copy()
            self.weights -= step * self.sum
            for array in self.arrays:
                array[:] = before - step * array
            self.times["aggregated_ps"] = at_ps
            self._done(at_ps)
            return
        self.weights -= step * self.sum
        self.times["aggregated_ps"] = at_ps
        self.phase = "broadcasting"
        self.due = dict.fromkeys(self.endpoints, now_ps)

    def _carries(self, index: int) -> int:
        """Return the numbers that an endpoint sends or receives, for arrays that exist only in the model."""
        part = self._job_of(index).plan.part_of(self.order.task.elements)
        return int(part.stop - part.start)

    def _serving(self, job: Job) -> int:
        """Return the endpoint of the global model's host."""
        if job.server is None:
            return job.members[self.order.task.server]
        return job.server

    def _job_of(self, index: int) -> Job:
        """Return the job of an endpoint."""
        return next(job for job in self.present if index in job.endpoints)

    def _operation(self, index: int) -> Post:
        """Return the operation of an endpoint in the present phase."""
        job = self._job_of(index)
        serves = index == self._serving(job)
        own = self.arrays[0 if serves else list(job.members.values()).index(index)]
        if self.exchanged:
            restores = self.phase == "restoring"
            if serves:
                own = self.weights.copy() if restores else self.sum
            own = own[job.plan.part_of(self.order.task.elements)]
            # The bits of a model and zeros: switches add them as integers, a ring as floats.
            words = restores and job.plan.in_network
            return Post(Collective.ALL_REDUCE, own, own, self.round, words=words)
        if self.phase in ("broadcasting", "restoring"):
            source, target = (self.weights, None) if serves else (None, own)
            return Post(Collective.PULL, source, target, self.round)
        if not self.at_once:
            source, target = (None, self.sum) if serves else (own, None)
            return Post(Collective.PUSH, source, target, self.round)
        source, target = (None, self.weights) if serves else (own, own)
        return Post(Collective.PUSH_PULL, source, target, self.round, LEARNING_RATE)


# A swap of trees in progress: from the change of epoch until every worker has received everything that was in flight.


class OpenSwap:
    """Counts at the start of a swap; to be made before any endpoint changes."""

    def __init__(self, network: JobNetwork, run: TaskRun, role: Role) -> None:
        self._endpoints = network.endpoints
        self._job = run.jobs[role]
        self._workers = list(self._job.members.values())
        self.run = run
        self.role = role
        self._at_ps = network.now
        restart = network.restart_seq(self._job)
        sent = [int(self._endpoints.records[index]["next"]) for index in self._workers]
        self._in_flight = sum(number - restart for number in sent)
        self._frontier = max(sent)
        self._resent = self._count_resent()
        self._late = self._count_late()

    def caught_up(self) -> bool:
        """Return whether every worker has received all chunks that any of them had sent."""
        return all(self._endpoints.oldest_missing(index) >= self._frontier for index in self._workers)

    def interruption(self, now_ps: int) -> Interruption:
        """Return the cost of the swap until now."""
        frames, octets = self._count_resent()
        return Interruption(
            role=self.role,
            job=self._job.plan.job,
            epoch=self._job.plan.epoch,
            in_flight=self._in_flight,
            resent_frames=frames - self._resent[0],
            resent_bytes=octets - self._resent[1],
            late_frames=self._count_late() - self._late,
            duration_ps=now_ps - self._at_ps,
        )

    def _count_resent(self) -> tuple[int, int]:
        statuses = [self._endpoints.status(index) for index in self._workers]
        return sum(status.resends for status in statuses), sum(status.resend_bytes for status in statuses)

    def _count_late(self) -> int:
        return sum(self._endpoints.status(index).refused["epoch"] for index in self._job.endpoints)


# Checkpoints of tasks that may begin again: the state for a later attempt, however the previous one ended.


class AttemptFiles:
    """A checkpoint file for each task with ``max_restarts``, written by `p4reduce.group.checkpoint`.

    It models storage that all hosts can reach. A task's first attempt never finds a file.

    Parameters
    ----------
    folder : Path or None
        Folder of the files, made when needed; None: nothing is kept, and later attempts begin with the first round.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.database = ""
        """Database of the tasks; those of another database may have the same names."""

    def begin(self, run: TaskRun) -> None:
        """Prepare an attempt; raise `CheckpointError` if the checkpoint of the previous attempt is damaged."""
        kept = self._of(run.order)
        if kept is None:
            return
        if run.order.attempt:
            run.resume(kept.load())
        else:
            self._remove(kept)

    def keep(self, run: TaskRun) -> None:
        """Write a checkpoint after a round. Raises `CheckpointError` if it cannot be written."""
        kept = self._of(run.order)
        if kept is not None:
            kept.path.parent.mkdir(parents=True, exist_ok=True)
            kept.save(run.round, run.state())

    def end(self, run: TaskRun, *, finished: bool) -> None:
        """Note that a run has ended, and remove its checkpoint if no attempt can follow."""
        kept = self._of(run.order)
        if kept is not None and (finished or run.order.attempt >= run.order.task.max_restarts):
            self._remove(kept)

    def _of(self, order: TaskOrder) -> Checkpoint | None:
        if self._folder is None or not order.task.max_restarts:
            return None
        name = hashlib.sha256(f"{self.database}\0{order.task.name}".encode()).hexdigest()
        return Checkpoint(self._folder / name)

    def _remove(self, kept: Checkpoint) -> None:
        for path in (kept.path, kept.previous):
            path.unlink(missing_ok=True)
        if self._folder is not None and self._folder.is_dir() and not any(self._folder.iterdir()):
            self._folder.rmdir()


# Tasks that take turns: play a timetable, window after window and round after round, without the orchestrator.


_STEP_PS: Final = 200_000
"""Interval of checks whether an owed answer has left, ps."""

Change = Callable[[TaskRun, Role, Plan], None]
"""Function that moves a task to another plan of one of its jobs."""
Tell = Callable[[ReportKind, Mapping[str, Any]], None]
"""Function that reports an event: its kind and data."""


class TaskRounds:
    """Player of one timetable at a time.

    Hosts of a task read their data first, in separate windows. A task trains while others communicate: from the opening
    of another process's window on. It communicates once per round, when its window is lit. Circuits turn only when all
    frames of the previous window have arrived.
    """

    def __init__(self, network: Carrier, change: Change, tell: Tell) -> None:
        self._network, self._change, self._tell = network, change, tell
        self._table: Timetable | None = None
        self._next: Timetable | None = None
        self._lit: tuple[Link, ...] = ()  # circuits of the window
        self._standing: tuple[Link, ...] = ()
        self._round, self._place = 0, -1
        self._open = False
        self._reads = False  # whether hosts read their data in the open window
        self._own: list[TaskRun] = []  # tasks of the open window that still communicate
        self._started_ps = self._lit_ps = 0
        self._clear_ps = 0  # until then frames of a stopped task may be in flight
        self._lost = (0, 0)

    @property
    def number(self) -> int:
        """Number of the present schedule; 0: none."""
        return 0 if self._table is None else self._table.number

    def turn(self) -> ScheduleTurn:
        """Return the present place in the schedule."""
        waiting = 0 if self._next is None else self._next.number
        return ScheduleTurn(self.number, waiting, self._round, self._place, self._lit, self._open)

    def set(self, timetable: Timetable) -> None:
        """Set the timetable that applies from the end of this round on; see the protocol."""
        known = [table.number for table in (self._table, self._next) if table is not None]
        if timetable.number in known:
            return
        if timetable.number < max(known, default=1):
            raise TaskRefusedError(f"schedule {timetable.number}: {max(known, default=1)} came after it")
        if self._next is not None:
            raise TaskRefusedError(f"schedule {timetable.number}: {self._next.number} waits for the end of the round")
        for window in timetable.windows:
            try:
                self._network.check_circuits(window.circuits)
            except FabricError as error:
                raise TaskRefusedError(f"schedule {timetable.number}: {error}") from None
        self._next = timetable

    def stand(self, circuits: tuple[Link, ...]) -> int:
        """Set the circuits that stay in all windows from now on; return how long the new ones are dark, ps."""
        new, before = {*circuits}, {*self._standing}
        if new == before:
            return 0
        self._standing = circuits
        dark_ps = 0 if self._table is None or new <= before else self._table.delta_ps
        self._network.light((*self._lit, *circuits), dark_ps)
        return dark_ps

    def step(self, runs: Mapping[str, TaskRun], now_ps: int) -> bool:
        """Take all steps that are possible now; return whether tasks may have something to do."""
        went = False
        while self._once(self._here(runs), now_ps):
            went = True
        return went

    def _here(self, runs: Mapping[str, TaskRun]) -> dict[str, TaskRun]:
        """Return the tasks of the present schedule; others wait for theirs."""
        return {name: run for name, run in runs.items() if run.turns and (run.order.schedule or 0) <= self.number}

    def next_ps(self, runs: Mapping[str, TaskRun], now_ps: int) -> int | None:
        """Return when to call ``step`` if no part of a task ends before, picoseconds."""
        times = []
        if self._open:
            if self._lit_ps > now_ps:
                times.append(self._lit_ps)
            if self._clear_ps > now_ps:
                times.append(self._clear_ps)
            if self._own and not any(_busy(run) for run in self._own):
                times.append(now_ps + _STEP_PS)
        elif self._table is not None:
            times += [run.times["trained_ps"] for run in self._here(runs).values() if run.phase == "training"]
        return min((at_ps for at_ps in times if at_ps > now_ps), default=None)

    def _once(self, runs: Mapping[str, TaskRun], now_ps: int) -> bool:
        if self._open:
            return self._go_on(now_ps)
        if self._begin_reading(runs, now_ps):
            return True
        live = [] if self._table is None else self._live(self._table.windows, runs)
        following = [place for place in live if place > self._place]
        if not following and (self._place >= 0 or self._next is not None):  # a round has ended, or none is in progress
            self._end_round(runs)
            return True
        if not following or self._table is None:
            return False
        window = self._table.windows[following[0]]
        if all(self._table.windows[place].process != window.process for place in live if place < following[0]):
            self._train(runs, now_ps, lambda process: process == window.process)
        return self._begin_window(self._table, following[0], runs, now_ps)

    def _train(self, runs: Mapping[str, TaskRun], now_ps: int, whose: Callable[[int], bool]) -> None:
        """Start the training of idle tasks of the processes that ``whose`` accepts."""
        assert self._table is not None  # noqa: S101
        for window in self._table.windows:
            for name in window.tasks:
                if whose(window.process) and name in runs and runs[name].phase == "idle":
                    runs[name].begin_round(now_ps)

    @staticmethod
    def _live(windows: Sequence[TurnWindow], runs: Mapping[str, TaskRun]) -> list[int]:
        return [place for place, window in enumerate(windows) if any(name in runs for name in window.tasks)]

    def _end_round(self, runs: Mapping[str, TaskRun]) -> None:
        self._round, self._place = self._round + (self._place >= 0), -1
        if self._next is None:
            return
        self._table, self._next, self._round = self._next, None, 0
        for name, plans in self._table.plans.items():
            run = runs.get(name)
            for role, plan in plans.items():
                if run is not None and not run.ended and role in run.jobs and run.jobs[role].plan.epoch < plan.epoch:
                    self._change(run, role, plan)
        self._tell("schedule", {"number": self._table.number})

    def _begin_window(self, table: Timetable, place: int, runs: Mapping[str, TaskRun], now_ps: int) -> bool:
        """Have the others train, and turn the mirrors; return False while a task of the window trains."""
        window = table.windows[place]
        own = [runs[name] for name in window.tasks if name in runs]
        if not all(run.trained(now_ps) for run in own):
            return False
        self._train(runs, now_ps, lambda process: process != window.process)
        self._place = place
        self._open_window(table, own, window.circuits, now_ps)
        for run in own:
            run.lit = now_ps >= self._lit_ps or not any(circuits_of(job.plan) for job in run.jobs.values())
        return True

    def _begin_reading(self, runs: Mapping[str, TaskRun], now_ps: int) -> bool:
        """Open a window, before all others, in which new tasks read their data; return whether it opened.

        All tasks that read over the same circuits, or over none, share the window.
        """
        waiting = [(run, circuits) for run in runs.values() if (circuits := run.to_read) is not None]
        if not waiting or self._table is None:
            return False
        circuits = next((lit for _, lit in waiting if lit), ())
        own = [run for run, lit in waiting if lit in ((), circuits)]
        self._reads = True
        self._open_window(self._table, own, circuits or self._lit, now_ps)
        for run in own:
            run.read(circuits)
            run.lit = now_ps >= self._lit_ps
        return True

    def _open_window(self, table: Timetable, own: list[TaskRun], circuits: tuple[Link, ...], now_ps: int) -> None:
        """Turn the mirrors for some tasks."""
        self._open, self._own = True, own
        self._started_ps = self._lit_ps = now_ps
        if circuits != self._lit:
            self._network.light((*circuits, *self._standing), table.delta_ps)
            self._lit, self._lit_ps = circuits, now_ps + table.delta_ps

    def _go_on(self, now_ps: int) -> bool:
        """Process the light and the end of a window; return whether anything changed."""
        assert self._table is not None  # noqa: S101
        if now_ps >= self._lit_ps and not all(run.lit or run.phase == "idle" for run in self._own):
            for run in self._own:
                run.lit |= run.phase != "idle"
            return True
        for run in list(self._own):
            if not _busy(run) and not any(self._network.lingers(job) for job in run.jobs.values()):
                self._own.remove(run)
                if run.ended and run.round < run.order.task.rounds:  # it was stopped
                    self._clear_ps = now_ps + self._table.guard_ps
        if self._own or now_ps < max(self._lit_ps, self._clear_ps):
            return False
        if self._reads:
            self._open = self._reads = False
            return True
        lost = self._network.lost_by_circuits()
        self._open = False
        self._tell(
            "window",
            {
                "schedule": self.number,
                "round": self._round,
                "window": self._place,
                "started_ps": self._started_ps,
                "lit_ps": self._lit_ps,
                "ended_ps": now_ps,
                "dark_lost": lost[0] - self._lost[0],
                "misrouted": lost[1] - self._lost[1],
            },
        )
        self._lost = lost
        return True


def _busy(run: TaskRun) -> bool:
    """Return whether a task sends, or waits for frames, in the open window."""
    return not run.ended and run.phase != "idle"
