"""Which states a task can be in, and what may follow what."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class TaskState(StrEnum):
    """Where a task stands.

    queued: waits for its arrival, or for bandwidth and slots. scheduled: its trees are being installed. running: on the
    trees that it began with. re-scheduled: on others. finished, failed, rejected: it has ended; the last two have a
    reason.
    """

    QUEUED = "queued"
    SCHEDULED = "scheduled"
    RUNNING = "running"
    RESCHEDULED = "re-scheduled"
    FINISHED = "finished"
    FAILED = "failed"
    REJECTED = "rejected"


FOLLOWING: Final[Mapping[TaskState, frozenset[TaskState]]] = {
    TaskState.QUEUED: frozenset({TaskState.SCHEDULED, TaskState.REJECTED, TaskState.FAILED}),
    # Back to queued: the orchestrator died, or a switch refused, before all of the trees were in.
    TaskState.SCHEDULED: frozenset({TaskState.RUNNING, TaskState.QUEUED, TaskState.FAILED}),
    # Back to queued: it failed, and may begin anew.
    TaskState.RUNNING: frozenset({TaskState.RESCHEDULED, TaskState.FINISHED, TaskState.FAILED, TaskState.QUEUED}),
    TaskState.RESCHEDULED: frozenset({TaskState.RESCHEDULED, TaskState.FINISHED, TaskState.FAILED, TaskState.QUEUED}),
    TaskState.FINISHED: frozenset(),
    TaskState.FAILED: frozenset(),
    TaskState.REJECTED: frozenset(),
}
ENDED: Final = frozenset(state for state, following in FOLLOWING.items() if not following)
AT_WORK: Final = (TaskState.RUNNING, TaskState.RESCHEDULED)
"""a tree of it carries packets"""


class Phase(StrEnum):
    """Where a plan stands. Each step is written down before it is taken."""

    INSTALLING = "installing"
    """is about to be written to switches, perhaps in part"""
    INSTALLED = "installed"
    """is in all switches; hosts may have been told"""
    ACTIVE = "active"
    """hosts use it"""
    REMOVING = "removing"
    """is about to be removed; hosts do not use it any more, or never did"""
    REMOVED = "removed"


LIVE: Final = (Phase.INSTALLING, Phase.INSTALLED, Phase.ACTIVE, Phase.REMOVING)
"""something of it may be in a switch"""
