"""From a decision to what the controller installs."""

from p4reduce.control_plane.plans.make import PlanRequest
from p4reduce.control_plane.plans.problem import RingLayout
from p4reduce.control_plane.scheduling.policy import Decision
from p4reduce.control_plane.scheduling.task import Task


def ring_members(task: Task) -> tuple[str, ...]:
    """The hosts of a task's ring in rank order: the local models', then G's."""
    return (*task.workers, task.server)


def plan_requests(
    decision: Decision, *, job: int, lanes: int | None = None, priority: int | None = None, epoch: int = 0
) -> list[PlanRequest]:
    """One job that does push_pull when both trees are the same; else a job that pushes, then one that pulls.

    A ring is one job that does all_reduce, of which G's host is the last worker (:func:`ring_members`).

    Parameters
    ----------
    decision : Decision
        The trees of a task.
    job : int
        Number of the job; a second one takes ``job + 1``.
    lanes : int or None
        Numbers in a frame; None: those of the switches' program.
    priority : int or None
        Queue; None: the task's own.
    epoch : int
        Of both jobs.

    Returns
    -------
    list of PlanRequest
        One, or two: upload (push), broadcast (pull).
    """
    layouts = [decision.upload] if decision.together else [decision.upload, decision.broadcast]
    return [
        PlanRequest(
            plan=decision.policy,
            job=job + offset,
            epoch=epoch,
            workers=ring_members(decision.task) if isinstance(layout, RingLayout) else decision.task.workers,
            server=None if isinstance(layout, RingLayout) else decision.task.server,
            lanes=lanes,
            priority=decision.task.priority if priority is None else priority,
            layout=layout,
            max_slots=decision.max_slots if offset == 0 else None,
        )
        for offset, layout in enumerate(layouts)
    ]
