"""In which order tasks that wait are tried: by columns of the database, so that no order looks at all of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from p4reduce.base.registry import Registry
from p4reduce.base.units import PS_PER_S
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.scheduling.task import Task

LINE_BPS: Final = 10**10
"""rate that a task's communication is estimated with, where only the order of estimates matters"""


@dataclass(frozen=True)
class QueueOrder:
    """``key``: a number of a task, the smallest first; equal ones by arrival. ``by_owner``: owners take turns.

    The owner who got the least so far comes first, then the key; what a task gets is its estimated work.
    """

    key: Callable[[Task], float]
    by_owner: bool = False


def work(task: Task) -> float:
    """Worker-seconds that a task is estimated to need: the oracle of 'sjf', and what 'fair' counts."""
    communication = 2 * 32 * task.elements / LINE_BPS
    return task.size * task.rounds * (task.training_ps / PS_PER_S + communication)


def seconds(task: Task) -> float:
    """Seconds that a task is estimated to take."""
    return work(task) / task.size


ORDERS: Registry[QueueOrder] = Registry("queue order", PlanError)
"""Every known order by name; entry points of ``p4reduce.queue_orders`` add to it."""
for _name, _order in (
    ("fifo", QueueOrder(lambda task: 0.0)),
    ("fair", QueueOrder(lambda task: 0.0, by_owner=True)),
    ("priority", QueueOrder(lambda task: -float(task.priority or 0))),
    ("edf", QueueOrder(lambda task: float("inf") if task.deadline_ps is None else float(task.deadline_ps))),
    ("sjf", QueueOrder(seconds)),
):
    ORDERS.add(_name, _order)


def order_named(name: str) -> QueueOrder:
    """The order of that name; `PlanError` lists the known ones."""
    return ORDERS.named(name)


def sorted_queue(tasks: Mapping[str, Task], order: QueueOrder, served: Mapping[str, float]) -> list[str]:
    """Names of tasks that wait, in an order; ``served``: what owners got so far. For models that keep no database."""
    return sorted(
        tasks,
        key=lambda name: (
            served.get(tasks[name].owner, 0.0) if order.by_owner else 0.0,
            order.key(tasks[name]),
            tasks[name].arrival_ps,
        ),
    )
