"""How the orchestrator works."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from p4reduce.base.errors import BadInput, P4ReduceError
from p4reduce.topologies.wdm import Wdm
from p4switch.base.values import PS_PER_MS, PS_PER_US

# What can go wrong with the database, the tasks in it, and what executors are asked.


class StoreError(P4ReduceError, RuntimeError):
    """The database cannot be used; the text names the file and the fix."""


class TaskError(BadInput, ValueError):
    """A task or a trace that cannot be taken; the text names file, task and field."""


class RefusedError(P4ReduceError, RuntimeError):
    """The executor will not do this for one task; it changed nothing, and goes on with all others."""


# Which states a task can be in, and what may follow what.


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


MOST_BACK_OFFS: Final = 64
"""the longest time to wait before a task begins anew, over the shortest"""


@dataclass(frozen=True)
class Options:
    """Settings of an orchestrator.

    Attributes
    ----------
    control_latency_ps : int
        Virtual time from a decision to its effect on switches and hosts.
    measure_every_ps : int
        Between two readings of the counters.
    threshold : float or None
        A running task's trees are swapped when the saving exceeds this many times the cost
        (:class:`~p4reduce.control_plane.orchestrator.installer.TradeOff`). None: only when they have to be.
    queueing : bool
        A task that does not fit beside the others waits until one of them ends; else it is rejected.
    retries : int
        Tasks that wait, and trees of running tasks that nothing forces to go, that a policy is asked about at one time.
        More find room sooner, and cost more.
    placement : str
        Chooses the hosts of tasks that name none (:data:`~p4reduce.control_plane.placement.policies.PLACEMENTS`).
    order : str
        In which tasks that wait are tried (:data:`~p4reduce.control_plane.placement.policies.ORDERS`).
    backfill : bool
        Whether a task that does not fit lets later ones pass.
    schedule : str
        Gives tasks turns over an optical cross-connect: one of ``p4reduce.schedulers``. '' where there is none.
    wdm, grooming : Wdm or None, str
        Tasks get lightpaths of this network, by a policy of `control_plane/optical` that forms sums on the way.
    delta_ps : int
        For how long ports of the cross-connect whose circuits change carry nothing.
    service_ports : int
        Ports of every switch to cross-connects that are in no schedule: circuits of tasks that infer, which stay.
    slots : 'first', 'whole' or 'value'
        Who gets slots of switches. first: who comes first takes what is there; a tree that finds too few adds up where
        it can. whole: who comes first takes a whole tree, or hosts add up. value: at each arrival and end those whose
        whole trees save most worker-seconds.
    move : float or None
        Workers of a task whose hosts were chosen move to other ones when the saving exceeds this many times the cost,
        and when one of its hosts dies. None: never.
    forecast : str
        Policies use the load that this predicts, not that measured
        (:data:`~p4reduce.control_plane.placement.cluster.FORECASTS`); '': that measured.
    ahead : int
        Measurements from now that a forecast is for.
    back_off_ps : int
        Least virtual time until a task that failed begins anew (:meth:`wait_ps`).
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
        """Least virtual time until a task begins anew that did so ``attempt`` times before: twice that before it."""
        return self.back_off_ps * min(1 << attempt, MOST_BACK_OFFS)
