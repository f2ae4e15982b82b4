"""A task whose hosts exchange blocks: after training each sends a block to every other host, and gets it back."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from p4reduce.group.backend import FloatArray
from p4reduce.network.jobs.network import Job
from p4reduce.network.jobs.specs import exchanged
from p4reduce.play.tasks.task_run import LEARNING_RATE, TaskRun, gradient
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective

EXPERT: Final = np.negative
"""A host's computation on the blocks that it received (expert parallelism); exact."""


@dataclass
class BlocksRun(TaskRun):
    """State of an all-to-all task. A round: training, all-to-all (dispatch), the host's expert, all-to-all (combine).

    The update of the weights comes from the returned blocks, summed over all hosts and blocks: w - step * sum. Every
    block is checked. If workers lack the model, they take it from the block that the host of the global model sends;
    the other hosts then send zeros.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._last = len(self.order.all_ranks)  # rank of the global model's host, even if other hosts are lost
        self._given: list[FloatArray] = []
        self._got: list[FloatArray] = []
        self._back: list[FloatArray] = []

    @property
    def _job(self) -> Job:
        return next(iter(self.jobs.values()))

    def begin_round(self, now_ps: int) -> None:
        """Start training at every host; a host's blocks leave when it is done.

        The host of the global model does not train; its blocks leave with the first of the others.
        """
        task, members = self.order.task, self._job.members
        self.phase = "training"
        self.times = {"started_ps": now_ps}
        self.checkpoint[:] = self.weights
        ranks = (*self.order.all_ranks, self._last)
        self._given = [gradient(task.name, rank, self.round, len(members) * self._held) for rank in ranks]
        self._got = [np.zeros_like(own) for own in self._given]
        self._back = [np.zeros_like(own) for own in self._given]
        self.due = {members[worker]: now_ps + self.order.training_ps[worker] for worker in task.workers}
        self.times["trained_ps"] = max(self.due.values())
        self.due[members[task.server]] = min(self.due.values())

    def _restore(self, now_ps: int) -> None:
        """Restore the model of all workers, also by an all-to-all."""
        super()._restore(now_ps)
        size = len(self._job.members)
        self._given = [*np.zeros((size - 1, size * self._held), np.float32), np.tile(self.weights, size)]
        self._got = [np.zeros_like(own) for own in self._given]

    def _operation(self, index: int) -> Post:
        """Return the operation of an endpoint in this phase: dispatch, combine, or distribution of the model."""
        rank = list(self._job.members.values()).index(index)
        source, target = (self._got, self._back) if self.phase == "combining" else (self._given, self._got)
        return Post(Collective.ALL_TO_ALL, source[rank], target[rank], self.round, words=True)

    def _carries(self, index: int) -> int:
        """Return the elements of an endpoint's array: a block for every host."""
        return self.order.task.elements * len(self._job.members)

    def _aggregated(self, now_ps: int) -> None:
        """Check the dispatched blocks, apply the hosts' experts to them, and begin to send the results back."""
        at_ps, self.wake_ps = self.wake_ps or now_ps, None
        self.times["aggregated_ps"] = at_ps
        for came, wanted in zip(self._got, exchanged(self._given), strict=True):
            if not np.array_equal(came.view(np.uint32), wanted.view(np.uint32)):
                self._give_up(f"round {self.round}: a host has another block than was sent to it")
                return
            EXPERT(came, out=came)
        self.phase = "combining"
        self.due = dict.fromkeys(self._job.members.values(), now_ps)

    def end_round(self) -> str | None:
        """End the round as for all tasks, with weights from the blocks that came back."""
        if not (fault := self._differs()):
            step = np.float32(LEARNING_RATE / len(self._back))
            total = np.sum([own.reshape(len(self._back), self._held).sum(axis=0) for own in self._back], axis=0)
            self.weights -= step * np.asarray(total, np.float32)
            return super().end_round()
        self._give_up(f"round {self.round}: {fault}")
        return self.error

    def _differs(self) -> str:
        """Return a text that names a host with wrong blocks or a wrong model; '' if there is none."""
        if self.phase == "restoring":
            wanted = exchanged(self._given)
            wrong = [rank for rank, got in enumerate(self._got) if got.tobytes() != wanted[rank].tobytes()]
            return f"host {wrong[0]} has another model than the server" if wrong else ""
        for rank, (given, back) in enumerate(zip(self._given, self._back, strict=True)):
            if not np.array_equal(EXPERT(given).view(np.uint32), back.view(np.uint32)):
                return f"host {rank} got back other blocks than it sent"
        return ""
