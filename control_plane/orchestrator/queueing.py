"""The queue: which of the tasks that wait is tried next."""

from collections.abc import Iterator
from typing import Final

from p4reduce.control_plane.orchestrator.options import Options
from p4reduce.control_plane.orchestrator.rows import TaskRow
from p4reduce.control_plane.orchestrator.store import Place, Store
from p4reduce.control_plane.placement.orders import order_named, work
from p4reduce.control_plane.scheduling.task import Task

_BATCH: Final = 4096
"""new tasks that are put in order at once"""
_BEFORE_ALL: Final[Place] = (float("-inf"), -1, -1)


class Queue:
    """In the order of the options, which it writes into the database: who submits there ranks by it."""

    def __init__(self, store: Store, options: Options) -> None:
        """`PlanError` for an order that is not known."""
        self._store = store
        self._order = order_named(options.order)
        self._tried: Place = _BEFORE_ALL
        store.set_order(options.order, self._order)

    def new(self, now_ps: int) -> list[TaskRow]:
        """Tasks that have arrived and were never tried, in order."""
        rows = self._store.new_tasks(now_ps, _BATCH)
        served = self._store.served({row.task.owner for row in rows}) if self._order.by_owner else {}
        return sorted(rows, key=lambda row: (served.get(row.task.owner, 0.0), self._place(row)))

    def candidates(self) -> Iterator[TaskRow]:
        """Tasks that wait: the first of the order, then once round, from behind the one that was tried last.

        Where owners take turns, first the first task of each.
        """
        first = self._store.first_of_owners() if self._order.by_owner else self._store.waiting_tasks(_BEFORE_ALL, 1)
        yield from first
        seen = {row.number for row in first}
        last = self._tried if first else _BEFORE_ALL
        for after, until in ((last, None), (_BEFORE_ALL, last)):
            while rows := self._store.waiting_tasks(after, 1):
                (row,) = rows
                after = self._place(row)  # noqa: PLW2901  (on from here)
                if until is not None and after > until:
                    return
                if row.number not in seen:
                    yield row

    def tried(self, row: TaskRow) -> None:
        """A task that waited was tried."""
        self._tried = self._place(row)

    def started(self, task: Task) -> None:
        """A task has got what it waited for: its owner's others come later."""
        if self._order.by_owner:
            self._store.serve(task.owner, work(task))

    def _place(self, row: TaskRow) -> Place:
        return (0.0 if row.fault else self._order.key(row.task), row.arrival_ps, row.number)
