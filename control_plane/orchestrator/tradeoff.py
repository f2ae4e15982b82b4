"""Whether to swap the tree of a running task: what the new one saves, against what the interruption costs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from p4reduce.control_plane.orchestrator.executor import Role
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.predict import Operation, Traffic, predict
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies.model import Hop


@dataclass(frozen=True)
class TradeOff:
    """Both sides in the same unit: bytes on links, summed over all links.

    Attributes
    ----------
    saving_bytes : int
        (bytes a round of the old trees - of the new ones) * remaining rounds: saved bandwidth times remaining time.
    cost_bytes : int
        A window of full frames on every hop of the new trees that are not the old ones, up and down: the most that is
        sent again.
    threshold : float
        The saving must exceed this many times the cost.
    """

    saving_bytes: int
    cost_bytes: int
    remaining_rounds: int
    threshold: float

    @property
    def worthwhile(self) -> bool:
        """Whether to swap."""
        return self.saving_bytes > self.threshold * self.cost_bytes

    def as_data(self) -> dict[str, Any]:
        """For the database."""
        return {**asdict(self), "worthwhile": self.worthwhile}


def weigh(task: Task, pairs: Sequence[tuple[Role, Plan, Plan]], remaining_rounds: int, threshold: float) -> TradeOff:
    """Old against new trees of a task, as (role, old plan, new plan)."""
    saving = sum(round_bytes(task, role, old) - round_bytes(task, role, new) for role, old, new in pairs)
    cost = sum(interruption_bytes(new) for _, old, new in pairs if not same_tree(old, new))
    return TradeOff(saving * remaining_rounds, cost, remaining_rounds, threshold)


def round_bytes(task: Task, role: Role, plan: Plan) -> int:
    """Bytes that one round of a job puts on all links together, sent for the first time."""
    return sum(traffic.bytes for traffic in round_traffic(task, role, plan).values())


def round_traffic(task: Task, role: Role, plan: Plan) -> Mapping[Hop, Traffic]:
    """What one round of a job puts on every directed link."""
    operations = {"both": Operation.PUSH_PULL, "upload": Operation.PUSH, "broadcast": Operation.PULL}
    operation = Operation.ALL_REDUCE if plan.ring else operations[role]
    return predict(plan, operation, task.elements)


def interruption_bytes(plan: Plan) -> int:
    """A window of full frames on every hop of a plan's paths: what a change of epoch makes travel twice, at most."""
    hops = sum(len(path) - 1 for path in plan.paths.values())
    return hops * plan.window * plan.frame_bytes


def same_tree(old: Plan, new: Plan) -> bool:
    """Whether two plans send everything the same way."""
    return old.edges == new.edges and dict(old.paths) == dict(new.paths)
