"""A task at its hosts: trains (lets time pass), uploads, aggregates, broadcasts, round after round."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from zlib import crc32

import numpy as np

from p4reduce.comm.communicator import FloatArray
from p4reduce.control_plane.orchestrator.executor import Order, Role
from p4reduce.jobs.job import Job
from p4reduce.jobs.network import JobNetwork
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, State

LEARNING_RATE: Final = 0.1
"""of the synthetic task: weights -= rate * sum of gradients / workers"""


def gradient(task: str, rank: int, round_: int, elements: int) -> FloatArray:
    """What a worker gives in a round: normal numbers that depend on the arguments alone; float32 (elements,)."""
    key = np.random.Philox(key=[crc32(task.encode()), rank << 32 | round_])
    return np.random.Generator(key).standard_normal(elements, np.float32)


@dataclass
class TaskRun:
    """Where a task stands. ``step`` is called whenever something may have ended.

    Both directions on one tree: PUSH_PULL, where the server answers chunk by chunk. On two trees, or with an
    aggregation time: PUSH, then the server adds and updates, then PULL. Either way weights become w - step * sum, with
    step = float32(rate / n), as the server's core computes them.
    """

    order: Order
    jobs: Mapping[Role, Job]
    network: JobNetwork
    round: int = 0
    phase: str = "training"
    due: dict[int, int] = field(default_factory=dict)
    """endpoint -> when its collective begins; what is not posted yet"""
    wake_ps: int | None = None
    """when an aggregation ends"""
    times: dict[str, int] = field(default_factory=dict)
    digest: Any = field(default_factory=hashlib.sha256)
    ended: bool = False
    error: str | None = None

    def __post_init__(self) -> None:
        task = self.order.task
        self.weights: FloatArray = np.zeros(task.elements, np.float32)
        self.sum: FloatArray = np.zeros(task.elements, np.float32)
        self.arrays: list[FloatArray] = [np.zeros(task.elements, np.float32) for _ in task.workers]

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
        return self.broadcast if self.phase == "broadcasting" else self.upload

    def begin_round(self, now_ps: int) -> None:
        """Every worker trains; its upload begins when it is done."""
        task = self.order.task
        self.phase = "training"
        self.times = {"started_ps": now_ps}
        for rank, worker in enumerate(task.workers):
            self.arrays[rank][:] = gradient(task.name, rank, self.round, task.elements)
            self.due[self.upload.members[worker]] = now_ps + self.order.training_ps[worker]
        self.times["trained_ps"] = max(self.due.values())
        self.due[_server(self.upload)] = min(self.due.values())

    def next_ps(self) -> int | None:
        """When it wants to be stepped, if no endpoint is done before."""
        times = list(self.due.values())
        if self.wake_ps is not None:
            times.append(self.wake_ps)
        return min(times, default=None)

    def active(self) -> list[int]:
        """Endpoints whose collective is under way."""
        indices = np.array([index for job in self.jobs.values() for index in job.endpoints])
        found: list[int] = indices[self.network.endpoints.records["status"][indices] == State.ACTIVE].tolist()
        return found

    def step(self, now_ps: int) -> None:
        """Go as far as it can now."""
        while not self.ended and self._once(now_ps):
            pass

    def _once(self, now_ps: int) -> bool:
        """One step; False when it must wait."""
        ready = [index for index, at_ps in self.due.items() if at_ps <= now_ps]
        for index in ready:
            del self.due[index]
            self.network.post(index, self._operation(index))
        if self.due or (self.wake_ps is not None and self.wake_ps > now_ps):
            return False
        if self.phase == "aggregating":
            self._begin_broadcast(now_ps)
            return True
        indices = self.job.endpoints
        records = self.network.endpoints.records[indices]
        if (records["failed_seq"] >= 0).any():
            self.error = self.network.status(indices[int(records["failed_seq"].argmax())]).error
            self.ended = True
            return False
        if (records["status"] == State.ACTIVE).any():
            return False
        done_ps = int(records["done_at"].max())
        if self.phase == "training" and not self.at_once:
            self.times["uploaded_ps"] = done_ps
            self.wake_ps, self.phase = done_ps + self.order.aggregation_ps, "aggregating"
            return True
        self.times["done_ps"] = done_ps
        self.times.setdefault("uploaded_ps", done_ps)
        self.times.setdefault("aggregated_ps", done_ps)
        return False

    @property
    def round_is_done(self) -> bool:
        """Whether all of a round is."""
        return "done_ps" in self.times

    def end_round(self, now_ps: int) -> str | None:
        """Check that all got the same, and begin the next round if there is one; what is wrong, if anything."""
        for rank, array in enumerate(self.arrays):
            if not np.array_equal(array.view(np.uint32), self.weights.view(np.uint32)):
                self.error = f"round {self.round}: worker {rank} and the server have different weights"
                self.ended = True
                return self.error
        self.digest.update(self.weights.data)
        self.round += 1
        if self.round == self.order.task.rounds:
            self.ended = True
        else:
            self.begin_round(now_ps)
        return None

    def _begin_broadcast(self, now_ps: int) -> None:
        step = np.float32(LEARNING_RATE / len(self.arrays))
        self.weights -= step * self.sum
        self.times["aggregated_ps"] = self.wake_ps or now_ps
        self.wake_ps, self.phase = None, "broadcasting"
        self.due = dict.fromkeys(self.broadcast.endpoints, now_ps)

    def _operation(self, index: int) -> Post:
        """What an endpoint gives and gets in the present phase."""
        serves = index == self.job.server
        rank = 0 if serves else list(self.job.members.values()).index(index)
        own = self.arrays[rank]
        if self.phase == "broadcasting":
            source, target = (self.weights, None) if serves else (None, own)
            return Post(Collective.PULL, source, target, self.round)
        if not self.at_once:
            source, target = (None, self.sum) if serves else (own, None)
            return Post(Collective.PUSH, source, target, self.round)
        source, target = (None, self.weights) if serves else (own, own)
        return Post(Collective.PUSH_PULL, source, target, self.round, LEARNING_RATE)


def _server(job: Job) -> int:
    if job.server is None:
        raise ValueError(f"job {job.plan.job} of a task has no server")
    return job.server
