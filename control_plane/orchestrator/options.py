"""Settings of the orchestrator, states of tasks and plans, and its errors."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from p4reduce.base.errors import BadInput, P4ReduceError
from p4reduce.topologies.wdm import Wdm
from p4switch.base.values import PS_PER_MS, PS_PER_US

# Errors of the database, of tasks, and of requests to executors.


class StoreError(P4ReduceError, RuntimeError):
    """The database cannot be used; the message names the file and the fix."""


class TaskError(BadInput, ValueError):
    """A task or a trace is not valid; the message names file, task and field."""


class TaskRefusedError(P4ReduceError, RuntimeError):
    """The executor refuses a request for one task; it changed nothing, and continues with all other tasks."""


# The states of a task and of a plan, and the allowed transitions.


class TaskState(StrEnum):
    """State of a task.

    queued: waits for its arrival, or for bandwidth and slots. scheduled: its trees are being installed. running: on the
    trees with which it began. re-scheduled: on other trees. finished, failed, rejected: it has ended; the last two have
    a reason.
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
    # Back to queued: the orchestrator ended, or a switch refused, before all trees were installed.
    TaskState.SCHEDULED: frozenset({TaskState.RUNNING, TaskState.QUEUED, TaskState.FAILED}),
    # Back to queued: the task failed and may be restarted.
    TaskState.RUNNING: frozenset({TaskState.RESCHEDULED, TaskState.FINISHED, TaskState.FAILED, TaskState.QUEUED}),
    TaskState.RESCHEDULED: frozenset({TaskState.RESCHEDULED, TaskState.FINISHED, TaskState.FAILED, TaskState.QUEUED}),
    TaskState.FINISHED: frozenset(),
    TaskState.FAILED: frozenset(),
    TaskState.REJECTED: frozenset(),
}
ENDED: Final = frozenset(state for state, following in FOLLOWING.items() if not following)
AT_WORK: Final = (TaskState.RUNNING, TaskState.RESCHEDULED)
"""states of tasks that run"""


class PlanPhase(StrEnum):
    """Phase of a plan. Each step is recorded before it is taken."""

    INSTALLING = "installing"
    """is about to be written to switches; entries may be there in part"""
    INSTALLED = "installed"
    """is in all switches; hosts may have received it"""
    ACTIVE = "active"
    """is used by hosts"""
    REMOVING = "removing"
    """is about to be removed; hosts no longer use it, or never did"""
    REMOVED = "removed"


LIVE: Final = (PlanPhase.INSTALLING, PlanPhase.INSTALLED, PlanPhase.ACTIVE, PlanPhase.REMOVING)
"""phases in which switches may have entries of the plan"""


MOST_BACK_OFFS: Final = 64
"""ratio of the longest wait before a restart to the shortest"""


@dataclass(frozen=True)
class OrchestratorOptions:
    """Settings of an orchestrator.

    Attributes
    ----------
    control_latency_ps : int
        Virtual time from a decision to its effect on switches and hosts.
    measure_every_ps : int
        Virtual time between two readings of the counters.
    threshold : float or None
        A running task's trees are swapped when the saving exceeds this many times the cost
        (:class:`~p4reduce.control_plane.orchestrator.installer.TradeOff`). None: only when they must be.
    queueing : bool
        Whether a task that does not fit waits until another task ends; otherwise it is rejected.
    retries : int
        Largest number, at one time, of waiting tasks to try, and of running tasks whose trees are reconsidered without
        need. A higher number finds room sooner and costs more.
    placement : str
        Policy that chooses hosts for tasks that name none
        (:data:`~p4reduce.control_plane.placement.policies.PLACEMENTS`).
    order : str
        Order in which waiting tasks are tried (:data:`~p4reduce.control_plane.placement.policies.ORDERS`).
    backfill : bool
        Whether later tasks may pass a task that does not fit.
    schedule : str
        Scheduler that gives tasks turns over an optical cross-connect (one of ``p4reduce.schedulers``); '': none.
    wdm, grooming : Wdm or None, str
        Network of the tasks' lightpaths, and grooming policy (`control_plane/optical`) that aggregates on the way.
    delta_ps : int
        Time during which cross-connect ports carry nothing after a change of their circuits.
    service_ports : int
        Number of each switch's ports to cross-connects that carry permanent circuits of services, and no schedule uses.
    slots : 'first', 'whole' or 'value'
        Distribution of switch slots. first: tasks take free slots in order of arrival; a tree that gets too few slots
        aggregates in some of its switches. whole: in order of arrival, tasks get a whole tree, or their hosts add up.
        value: at each arrival and end, slots go to the tasks whose whole trees save most worker-seconds.
    move : float or None
        A task whose hosts were chosen moves to other hosts when the saving exceeds this many times the cost, and when a
        host dies. None: tasks never move.
    forecast : str
        Forecast of the load that policies use
        (:data:`~p4reduce.control_plane.placement.cluster.FORECASTS`); '': the measured load.
    ahead : int
        Number of measurements that a forecast looks ahead.
    back_off_ps : int
        Least virtual time until the first restart of a failed task (:meth:`wait_ps`).
    """

    control_latency_ps: int = PS_PER_MS
    measure_every_ps: int = 10 * PS_PER_MS
    threshold: float | None = 1.0
    queueing: bool = True
    retries: int = 8
    placement: str = "packed"
    order: str = "fifo"
    backfill: bool = True
    schedule: str = ""
    wdm: Wdm | None = None
    grooming: str = "groom-agg"
    delta_ps: int = 200 * PS_PER_US
    service_ports: int = 0
    slots: Literal["first", "whole", "value"] = "first"
    move: float | None = None
    forecast: str = ""
    ahead: int = 1
    back_off_ps: int = 10 * PS_PER_MS

    def wait_ps(self, attempt: int) -> int:
        """Least virtual time in ps until restart ``attempt`` (from 0): doubles, at most :data:`MOST_BACK_OFFS`-fold."""
        return self.back_off_ps * min(1 << attempt, MOST_BACK_OFFS)
