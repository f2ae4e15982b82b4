"""What became of tasks that were tried for a turn."""

from collections.abc import Sequence
from dataclasses import dataclass

from p4reduce.control_plane.orchestrator.installer import Proposal
from p4reduce.control_plane.orchestrator.rows import TaskRow
from p4reduce.control_plane.placement import Placement
from p4reduce.control_plane.scheduling.task import Task


@dataclass(frozen=True)
class Refused:
    """A task that was tried and did not fit.

    ``fault``: it has itself to blame, and never will. ``alone``: not even where nobody else runs.
    """

    row: TaskRow
    reason: str
    fault: bool = False
    alone: bool = False


@dataclass(frozen=True)
class Admitted:
    """A task with its hosts and the trees that are about to be installed."""

    row: TaskRow
    task: Task
    placement: Placement | None
    proposals: Sequence[Proposal]
