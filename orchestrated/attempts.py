"""Checkpoints of tasks that may begin anew: what a later attempt goes on from, whatever ended the one before."""

import hashlib
from pathlib import Path

from p4reduce.comm.checkpoint import Checkpoint
from p4reduce.control_plane.orchestrator.executor import Order
from p4reduce.orchestrated.task_run import TaskRun


class Attempts:
    """A file for each task with ``max_restarts``, as `p4reduce.comm.checkpoint` writes them.

    It stands for a place that all hosts can reach. A task's first attempt never finds anything.

    Parameters
    ----------
    folder : Path or None
        Where they are, made when it is needed; None: nothing is kept, and later attempts begin with the first round.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.database = ""
        """of the tasks: those of another one may have the same names"""

    def begin(self, run: TaskRun) -> None:
        """An attempt is about to begin; `CheckpointError` where what is left of the one before is damaged."""
        kept = self._of(run.order)
        if kept is None:
            return
        if run.order.attempt:
            run.resume(kept.load())
        else:
            self._remove(kept)

    def keep(self, run: TaskRun) -> None:
        """A round is done. `CheckpointError` where it cannot be written."""
        kept = self._of(run.order)
        if kept is not None:
            kept.path.parent.mkdir(parents=True, exist_ok=True)
            kept.save(run.round, run.state())

    def end(self, run: TaskRun, *, finished: bool) -> None:
        """A run has ended; nobody needs its checkpoint where no attempt can follow."""
        kept = self._of(run.order)
        if kept is not None and (finished or run.order.attempt >= run.order.task.max_restarts):
            self._remove(kept)

    def _of(self, order: Order) -> Checkpoint | None:
        if self._folder is None or not order.task.max_restarts:
            return None
        name = hashlib.sha256(f"{self.database}\0{order.task.name}".encode()).hexdigest()
        return Checkpoint(self._folder / name)

    def _remove(self, kept: Checkpoint) -> None:
        for path in (kept.path, kept.previous):
            path.unlink(missing_ok=True)
        if self._folder is not None and self._folder.is_dir() and not any(self._folder.iterdir()):
            self._folder.rmdir()
