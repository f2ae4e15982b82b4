"""From a decision to what the controller installs."""

from p4reduce.control_plane.plans.make import PlanRequest
from p4reduce.control_plane.scheduling.policy import Decision


def plan_requests(
    decision: Decision, *, job: int, lanes: int = 256, priority: int | None = None, epoch: int = 0
) -> list[PlanRequest]:
    """One job that does push_pull when both trees are the same; else a job that pushes, then one that pulls.

    Parameters
    ----------
    decision : Decision
        The trees of a task.
    job : int
        Number of the job; a second one takes ``job + 1``.
    lanes : int
        Numbers in a frame.
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
            workers=decision.task.workers,
            server=decision.task.server,
            lanes=lanes,
            priority=decision.task.priority if priority is None else priority,
            layout=layout,
            max_slots=decision.max_slots if offset == 0 else None,
        )
        for offset, layout in enumerate(layouts)
    ]
