"""A task at its hosts: trains (lets time pass), uploads, aggregates, broadcasts, round after round."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from zlib import crc32

import numpy as np

from p4reduce.comm.backend import FloatArray
from p4reduce.comm.checkpoint import State as Saved
from p4reduce.control_plane.orchestrator.executor import Order, Role
from p4reduce.jobs.job import Job
from p4reduce.jobs.network import JobNetwork
from p4reduce.orchestrated.reading import Key, Reading
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, State

LEARNING_RATE: Final = 0.1
"""of the synthetic task: weights -= rate * sum of gradients / workers"""
GRID: Final = np.float32(4096)
"""gradients are multiples of its inverse: sums of thousands are exact in float32 and on lanes, in any order"""


def gradient(task: str, rank: int, round_: int, elements: int) -> FloatArray:
    """What a worker gives in a round: about normal numbers that depend on the arguments alone; float32 (elements,)."""
    key = np.random.Philox(key=[crc32(task.encode()), rank << 32 | round_])
    drawn = np.random.Generator(key).standard_normal(elements, np.float32)
    return np.asarray(np.round(drawn * GRID) / GRID, np.float32)


@dataclass
class TaskRun:
    """Where a task stands. ``step`` is called whenever something may have ended.

    Both directions on one tree: PUSH_PULL, where the server answers chunk by chunk. On two trees, or with an
    aggregation time: PUSH, then the server adds and updates, then PULL. Round a ring, which the server's host is a
    member of with zeros: ALL_REDUCE, then every host updates. Either way weights become w - step * sum, with
    step = float32(rate / n), as the server's core computes them.

    With ``turns`` it trains when it is told to (`begin_round`), and communicates as soon as it is ``lit``; before that
    it is 'idle'.
    """

    order: Order
    jobs: Mapping[Role, Job]
    network: JobNetwork
    read_keys: Iterator[Key]
    round: int = 0
    phase: str = "training"
    turns: bool = False
    lit: bool = True
    """whether it may communicate now"""
    due: dict[int, int] = field(default_factory=dict)
    """endpoint -> when its collective begins; what is not posted yet"""
    wake_ps: int | None = None
    """when an aggregation ends"""
    times: dict[str, int] = field(default_factory=dict)
    digest: bytes = b""
    """of the rounds until now: SHA-256 of that before and the weights"""
    ended: bool = False
    error: str | None = None
    died: list[str] = field(default_factory=list)
    """hosts where its process has ended; nothing goes on while there are any"""
    coming: Order | None = None
    """what it goes on with after this round"""
    restored: dict[str, int] | None = None
    """since its hosts, or their data, changed, until they train: what that took"""

    def __post_init__(self) -> None:
        task = self.order.task
        self.weights: FloatArray = np.zeros(task.elements, np.float32)
        self.checkpoint: FloatArray = self.weights.copy()
        self.sum: FloatArray = np.zeros(task.elements, np.float32)
        self.arrays: list[FloatArray] = [np.zeros(task.elements, np.float32) for _ in task.workers]
        self._reading: Reading | None = None
        self._unread: set[tuple[str, str, int]] = set()
        self._lacking = False  # workers without a model
        self._began_ps = 0

    @property
    def ring(self) -> bool:
        """Whether its hosts reduce among themselves."""
        return bool(self.upload.plan.ring)

    @property
    def at_once(self) -> bool:
        """Whether one collective does both directions."""
        return "both" in self.jobs and self.order.aggregation_ps == 0

    @property
    def upload(self) -> Job:
        """The job that gradients travel in."""
        return self.jobs["both"] if "both" in self.jobs else self.jobs["upload"]

    @property
    def broadcast(self) -> Job:
        """The job that weights travel in."""
        return self.jobs["both"] if "both" in self.jobs else self.jobs["broadcast"]

    @property
    def job(self) -> Job:
        """The job of the present phase."""
        return self.broadcast if self.phase in ("broadcasting", "restoring") else self.upload

    @property
    def begun(self) -> bool:
        """Whether anything of the present round has been done."""
        return bool(self.times) or self.phase in ("reading", "restoring")

    # --- how it begins, and goes on elsewhere

    def begin(self, now_ps: int) -> None:
        """Its hosts read their data, then train."""
        self._unread = set(self.order.reads)
        self._prepare(now_ps)

    def resume(self, state: Saved | None) -> None:
        """Begin where an earlier attempt was, if anything is left of it: its hosts lack the model."""
        if state is None:
            return
        self.round, self.digest = state.iteration, state.arrays["digest"].tobytes()
        self.weights[:] = state.arrays["weights"]
        self.checkpoint[:] = self.weights
        self._lacking = True

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """What :meth:`resume` needs, beside the round."""
        return {"weights": self.weights, "digest": np.frombuffer(self.digest, np.uint8)}

    def turn(self, order: Order, jobs: Mapping[Role, Job], now_ps: int) -> None:
        """Go on with the plans, and at the hosts, of another order; the present round begins again."""
        before = {*self.order.reads} - self._unread
        self._lacking |= any(worker not in self.order.task.workers for worker in order.task.workers) or bool(order.anew)
        self._unread = {*order.reads} - {read for read in before if read[1] not in order.anew}
        self.arrays = [np.zeros(order.task.elements, np.float32) for _ in order.task.workers]
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
            self._reading = Reading(self.network, sorted(self._unread), keys=self.read_keys, lanes=lanes)
        elif self._lacking:
            self._restore(now_ps)
        else:
            self.begin_round(now_ps)

    def reader_at(self, home: str) -> str | None:
        """Who reads data now that lie at a host; None: nobody."""
        unread = sorted(self._unread) if self._reading is not None else []
        return next((reader for at, reader, _ in unread if at == home), None)

    def _restore(self, now_ps: int) -> None:
        """The server sends the model to all workers: exactly what they have, or lack."""
        self.phase = "restoring"
        for array in self.arrays:
            array[:] = 0
        self.due = dict.fromkeys(self.job.endpoints, now_ps)

    def _ready(self, now_ps: int) -> None:
        """All hosts have data and model."""
        read = sum(size for _, _, size in self._unread)
        model = self.weights.nbytes * len(self.arrays) if self._lacking else 0
        self.restored = {"read_bytes": read, "model_bytes": model, "duration_ps": now_ps - self._began_ps}
        self._lacking, self._unread = False, set()
        self.begin_round(now_ps)

    def close(self) -> None:
        """Nobody reads anything any more."""
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def begin_round(self, now_ps: int) -> None:
        """Every worker trains; its upload begins when it is done."""
        task = self.order.task
        self.phase = "training"
        self.times = {"started_ps": now_ps}
        self.checkpoint[:] = self.weights
        for array, rank, worker in zip(self.arrays, self.order.all_ranks, task.workers, strict=True):
            array[:] = gradient(task.name, rank, self.round, task.elements)
            self.due[self.upload.members[worker]] = now_ps + self.order.training_ps[worker]
        self.times["trained_ps"] = max(self.due.values())
        if self.ring:
            self.sum[:] = 0
        self.due[self._serving(self.upload)] = min(self.due.values())

    def rest(self) -> None:
        """Do nothing until the next round is to begin."""
        self.phase, self.lit, self.times = "idle", False, {}

    def trained(self, now_ps: int) -> bool:
        """Whether all workers have trained for the present round."""
        return self.phase != "idle" and now_ps >= self.times["trained_ps"]

    def next_ps(self) -> int | None:
        """When it wants to be stepped, if no endpoint is done before; one that is dark waits for light."""
        if self.died:
            return None
        times = list(self.due.values()) if self.lit else []
        if self.wake_ps is not None:
            times.append(self.wake_ps)
        return min(times, default=None)

    def active(self) -> list[int]:
        """Endpoints whose collective is under way."""
        indices = np.array([index for job in self.jobs.values() for index in job.endpoints])
        found: list[int] = indices[self.network.endpoints.records["status"][indices] == State.ACTIVE].tolist()
        return found if self._reading is None else found + self._reading.active()

    def step(self, now_ps: int) -> None:
        """Go as far as it can now."""
        while not self.ended and self._once(now_ps):
            pass

    def _once(self, now_ps: int) -> bool:
        """One step; False when it must wait."""
        if self.phase == "idle" or not self.lit or self.died:
            return False
        if self._reading is not None:
            return self._read_on(self._reading, now_ps)
        ready = [index for index, at_ps in self.due.items() if at_ps <= now_ps]
        for index in ready:
            del self.due[index]
            self.network.post(index, self._operation(index))
        if self.due or (self.wake_ps is not None and self.wake_ps > now_ps):
            return False
        if self.phase == "aggregating":
            self._aggregated(now_ps)
            return not self.ring
        indices = self.job.endpoints
        records = self.network.endpoints.records[indices]
        if (records["failed_seq"] >= 0).any():
            return self._give_up(self.network.status(indices[int(records["failed_seq"].argmax())]).error or "failed")
        if (records["status"] == State.ACTIVE).any():
            return False
        done_ps = int(records["done_at"].max())
        if self.phase == "restoring":
            if fault := self._differs():
                return self._give_up(f"round {self.round}: {fault}")
            self._ready(now_ps)
            return True
        if self.phase == "training" and (self.ring or not self.at_once):
            self.times["uploaded_ps"] = done_ps
            self.wake_ps, self.phase = done_ps + self.order.aggregation_ps, "aggregating"
            return True
        self._done(done_ps)
        return False

    def _read_on(self, reading: Reading, now_ps: int) -> bool:
        if not reading.step():
            return False
        self.close()
        if reading.error is not None:
            return self._give_up(reading.error)
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
        """Whether all of a round is."""
        return "done_ps" in self.times

    def end_round(self) -> str | None:
        """Check that all got the same; what is wrong, if anything. The next round is to be begun, or it has ended."""
        if fault := self._differs():
            self._give_up(f"round {self.round}: {fault}")
            return self.error
        self.digest = hashlib.sha256(self.digest + self.weights.tobytes()).digest()
        self.round += 1
        self.times = {}
        self.checkpoint[:] = self.weights
        self.ended = self.round == self.order.task.rounds
        return None

    def _differs(self) -> str:
        """Which worker has other weights than the server; empty where all have the same."""
        for rank, array in zip(self.order.all_ranks, self.arrays, strict=True):
            if not np.array_equal(array.view(np.uint32), self.weights.view(np.uint32)):
                return f"worker {rank} and the server have different weights"
        return ""

    def _aggregated(self, now_ps: int) -> None:
        step = np.float32(LEARNING_RATE / len(self.arrays))
        at_ps = self.wake_ps or now_ps
        self.wake_ps = None
        if self.ring:  # every host has the sum, and updates its own
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
        self.due = dict.fromkeys(self.broadcast.endpoints, now_ps)

    def _serving(self, job: Job) -> int:
        """Endpoint of the global model's host."""
        if job.server is None:
            return job.members[self.order.task.server]
        return job.server

    def _operation(self, index: int) -> Post:
        """What an endpoint gives and gets in the present phase."""
        serves = index == self._serving(self.job)
        own = self.arrays[0 if serves else list(self.job.members.values()).index(index)]
        if self.ring:
            if not serves:
                return Post(Collective.ALL_REDUCE, own, own, self.round)
            given = self.weights.copy() if self.phase == "restoring" else self.sum
            return Post(Collective.ALL_REDUCE, given, given, self.round)
        if self.phase in ("broadcasting", "restoring"):
            source, target = (self.weights, None) if serves else (None, own)
            return Post(Collective.PULL, source, target, self.round)
        if not self.at_once:
            source, target = (None, self.sum) if serves else (own, None)
            return Post(Collective.PUSH, source, target, self.round)
        source, target = (None, self.weights) if serves else (own, own)
        return Post(Collective.PUSH_PULL, source, target, self.round, LEARNING_RATE)
