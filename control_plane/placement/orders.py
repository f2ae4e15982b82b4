"""In which order tasks that wait are tried: by columns of the database, so that no order looks at all of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from p4reduce.base.registry import Registry
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.scheduling.task import Task
from p4switch.base.units import PS_PER_S

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


# Who gets slots of switches: whole trees for those whom they save most, rings for the others.


@dataclass(frozen=True)
class Contender:
    """A task that could have a tree.

    Attributes
    ----------
    name : str
        Unique; breaks ties.
    trees : tuple of tuples of str
        Trees that are as good; for each the switches where it needs slots, one range each.
    tree_s, ring_s : float
        Seconds of an iteration through the tree, and without it.
    workers : int
        Hosts that it keeps busy.
    ranges : int
        Of the same unit as those of switches, that it needs of each switch of a tree.
    keeps : bool
        It keeps the first of its trees whatever that is worth: it has, or is about to have it, and cannot change now.
    """

    name: str
    trees: tuple[tuple[str, ...], ...]
    tree_s: float
    ring_s: float
    workers: int = 1
    ranges: int = 1
    keeps: bool = False

    @property
    def value(self) -> float:
        """Worker-seconds that a second of its tree saves.

        Not for each range of slots that the tree keeps: in the flow model that gave longer completion times, as did
        seconds without workers. Hosts that are free sooner are what those who wait need.
        """
        return (self.ring_s / self.tree_s - 1.0) * self.workers


def whole_trees(contenders: Sequence[Contender], ranges: Mapping[str, int]) -> dict[str, int]:
    """Who gets all the slots of one of its trees, and the place of that tree; nobody gets a part.

    A tree in part sends what some switch cannot add up as it came, which is more than a ring sends. In the order of
    their values each takes its slots if all are there; one that no tree saves anything gets none. A greedy answer to a
    knapsack of several dimensions, asked again at every arrival and end.

    Parameters
    ----------
    contenders : sequence of Contender
        All tasks, those that have slots now among them.
    ranges : mapping
        Ranges of slots by switch; a switch that is not named has plenty.
    """
    names = [one.name for one in contenders]
    if len(set(names)) != len(names):
        raise PlanError("slots: contenders have the same name")
    left, chosen = dict(ranges), dict[str, int]()
    for one in sorted(contenders, key=lambda one: (not one.keeps, -one.value, one.name)):
        able = [
            place
            for place, tree in enumerate(one.trees)
            if all(left.get(switch, one.ranges) >= one.ranges for switch in tree)
        ]
        if one.keeps and one.trees:
            able = [0]
        if (one.value > 0 or one.keeps) and able:
            # Of its trees that whose scarcest switch has most left.
            best = max(
                able, key=lambda place: (min((left.get(at, 1 << 30) for at in one.trees[place]), default=0), -place)
            )
            chosen[one.name] = best
            for switch in one.trees[best]:
                if switch in left:
                    left[switch] -= one.ranges
    return chosen
