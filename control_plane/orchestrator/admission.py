"""Admission: the queue of waiting tasks, when they are tried, and how they are started."""

import sqlite3
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.orchestrator.executor import ComputingManager
from p4reduce.control_plane.orchestrator.giving import Giver, Placer
from p4reduce.control_plane.orchestrator.history import TaskRow
from p4reduce.control_plane.orchestrator.installer import (
    Installer,
    InstallError,
    Proposal,
    Selector,
    TreeChoice,
    round_bytes,
)
from p4reduce.control_plane.orchestrator.lightpaths import Lightpaths
from p4reduce.control_plane.orchestrator.options import OrchestratorOptions, StoreError, TaskRefusedError, TaskState
from p4reduce.control_plane.orchestrator.replanning import order_of
from p4reduce.control_plane.orchestrator.rescheduling import Fail, StateWithout
from p4reduce.control_plane.orchestrator.store import Place, Store
from p4reduce.control_plane.orchestrator.turn_taking import Turns
from p4reduce.control_plane.placement import Placement
from p4reduce.control_plane.placement.policies import order_named, work
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import NetworkState, Policy
from p4switch.base.values import one_line

# The queue, which gives the next waiting task to try.


_BATCH: Final = 4096
"""largest number of new tasks that are sorted together"""
_BEFORE_ALL: Final[Place] = (float("-inf"), -1, -1)


class TaskQueue:
    """Waiting tasks in the order that the options name; the database stores this order to rank submitted tasks."""

    def __init__(self, store: Store, options: OrchestratorOptions) -> None:
        """Raise `PlanError` for an unknown order."""
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
        """Waiting tasks: the first of the order, then the others in a cycle that begins after the last task tried.

        If owners take turns, the first task of each owner comes first.
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
        """Record that a waiting task was tried."""
        self._tried = self._place(row)

    def started(self, task: Task) -> None:
        """Record that a task was started, so that its owner's other tasks come later."""
        if self._order.by_owner:
            self._store.serve(task.owner, work(task))

    def _place(self, row: TaskRow) -> Place:
        return (0.0 if row.fault else self._order.key(row.task), row.arrival_ps, row.number)


_TOGETHER: Final = 64
"""largest number of waiting tasks whose turns are planned together"""


class Admission:
    """Starts tasks that have arrived, rejects them, or lets them wait.

    Parameters
    ----------
    policy, name
        The policy that gives tasks their trees, and its name.
    state : callable
        The network as policies see it.
    fail : callable
        Fails a task that was sent to its hosts.
    failed : callable
        Fails a task that was not sent to its hosts.
    turns, lightpaths : Turns or None, Lightpaths or None
        None unless tasks take turns, or get slots of lightpaths.
    """

    def __init__(
        self,
        installer: Installer,
        policy: Policy,
        name: str,
        queue: TaskQueue,
        computing: ComputingManager,
        placer: Placer,
        giver: Giver,
        *,
        state: StateWithout,
        fail: Fail,
        failed: Fail,
        turns: Turns | None,
        lightpaths: Lightpaths | None = None,
    ) -> None:
        controller = installer.controller
        self._installer = installer
        self._store, self._executor, self._options = installer.store, installer.executor, installer.options
        self._policy, self._name = policy, name
        self._lanes = controller.program.lanes
        self._hosts = {host.name for host in controller.topology.hosts}
        self._queue, self._computing, self._placer, self._giver = queue, computing, placer, giver
        self._selector = Selector(policy, computing, self._lanes)
        self._state, self._fail, self._failed = state, fail, failed
        self._turns, self._lightpaths = turns, lightpaths
        self.room = True
        """whether room may have been freed since the waiting tasks were tried"""
        self.admitted_ps = -1
        """time in ps of the last look at tasks that had arrived"""

    def admit(self) -> None:
        """Schedule tasks that have arrived, in order; with backfill, later tasks may pass a task that does not fit.

        A new task is tried at once. Waiting tasks are tried again when there may be more room: the first task, then the
        tasks after the last one tried, until ``OrchestratorOptions.retries`` of them did not fit. The work for each
        task therefore does not grow with the number of waiting tasks.
        """
        now = self.admitted_ps = self._executor.now()
        for row in self._store.late_tasks(now):
            waited = f": {row.waits}" if row.waits else ""
            self._store.change(row.name, _refused(row), now, f"its deadline passed while it waited{waited}")
        if self._turns is not None:
            self._admit_turns(self._turns, now)
            return
        while rows := self._queue.new(now):
            for row in rows:
                if self._options.backfill:
                    self._schedule(row)
                else:
                    self._store.note_waiting(row.name, "it has just arrived")
            self.room = self.room or not self._options.backfill
        if self.room or not self._store.any_at_work():
            self.room = False
            self._retry()

    def _admit_turns(self, turns: Turns, now: int) -> None:
        """Admit tasks that take turns: waiting tasks are planned together, while no schedule is pending."""
        while rows := self._queue.new(now):
            for row in rows:
                if fault := self._fault(row):
                    self._reject(row, fault)
                elif row.task.serving is not None:
                    self._schedule(row)  # it takes no turn
                else:
                    self._store.note_waiting(row.name, "it has just arrived")
                    self.room = True
        while not turns.changing and (self.room or not self._store.any_at_work()):
            self.room = False
            rows = list(islice(self._queue.candidates(), _TOGETHER))
            for row in [row for row in rows if row.task.serving is not None]:
                self._schedule(row)
                self._queue.tried(row)
                rows.remove(row)
            for refused in turns.admit(rows) if rows else ():
                if refused.fault:
                    self._reject(refused.row, refused.reason)
                elif refused.alone or not self._options.queueing:
                    self._does_not_fit(refused.row, refused.reason)
                else:
                    self._store.note_waiting(refused.row.name, refused.reason)
                self._queue.tried(refused.row)
            if not rows:
                break

    def _fault(self, row: TaskRow) -> str:
        """Reason why a task can never run here; '' if it may."""
        unknown = sorted({row.task.server, *row.task.workers} - self._hosts - {""})
        fault = row.fault or (f"{unknown[0]!r} is no host of the topology" if unknown else "")
        if self._turns is not None:
            return fault or self._turns.fault(row.task)
        if self._lightpaths is not None:
            return fault or self._lightpaths.fault(row.task)
        return fault or self._placer.fault(row.task, self._lanes) or self._selector.fault(row.task)

    def _retry(self) -> None:
        """Try waiting tasks; all of them if no task runs whose end could make room."""
        left = self._options.retries
        for row in self._queue.candidates():
            if left <= 0 and self._store.any_at_work():
                return
            fits = self._schedule(row)
            if not fits and not self._options.backfill:
                return
            left -= not fits
            self._queue.tried(row)

    def _schedule(self, row: TaskRow) -> bool:
        """Try to start a queued task; returns whether it no longer waits. A fault of the task ends only this task."""
        if fault := self._fault(row):
            self._reject(row, fault)
            return True
        state = self._state(None)
        try:
            placement = self._place(row.task, state)
            task = row.task if placement is None else placement.of(row.task)
            choice = self._select(task, state)
            task = choice.task if choice else task
            self._computing.place(task)
            proposals = self._propose(task, state, choice)
        except PlanError as error:
            self._computing.release(row.name)
            return self._does_not_fit(row, one_line(error))
        except (StoreError, sqlite3.Error):
            raise
        except Exception as error:  # any error of a policy, a planner or a task
            self._computing.release(row.name)
            self._reject(row, f"its trees could not be planned: {type(error).__name__}: {one_line(error)}")
            return True
        plans = {proposal.role: proposal.plan for proposal in proposals}
        try:
            order = order_of(task, plans, self._computing, row.wanted, attempt=row.attempt)
            why: dict[str, Any] = {
                "round_bytes": sum(round_bytes(task, role, plan) for role, plan in plans.items()),
                "training_ps": max(order.training_ps.values()),
                "aggregation_ps": order.aggregation_ps,
            }
            if self._lightpaths is not None:
                why["lightpaths"] = self._lightpaths.of(task.name)
        except Exception as error:  # times or sizes of the task or a profile out of range
            self._installer.withdraw(proposals)
            self._computing.release(row.name)
            if self._lightpaths is not None:
                self._lightpaths.end(row.name)
            self._reject(row, f"it cannot be run: {type(error).__name__}: {one_line(error)}")
            return True
        try:
            self._installer.install_first(row.name, proposals, self._name, why, choice, placement)
        except InstallError as error:
            self._failed(row.name, f"its trees could not be installed: {error}")
            return True
        try:
            self._installer.begin(order)
        except TaskRefusedError as error:
            self._fail(row.name, f"its hosts cannot run it: {one_line(error)}")
            return True
        self._placer.begin(task, plans, task.rounds)
        self._giver.due = True
        self._queue.started(task)
        return True

    def _place(self, task: Task, state: NetworkState) -> Placement | None:
        """Choose the hosts that a task does not name; None if it names all of them. `PlanError`: none fit now."""
        if task.serving is not None and self._lightpaths is not None:
            return self._lightpaths.serve(task, self._computing)
        if task.serving is not None and self._turns is not None:
            return self._turns.standing.serve(task, self._computing)
        if task.serving is not None:
            return self._placer.serve(task, state, self._lanes)
        return None if task.wanted is None else self._placer.choose(task, state)

    def _propose(self, task: Task, state: NetworkState, choice: TreeChoice | None) -> list[Proposal]:
        """Plans for a new task; `PlanError` when there are none."""
        if self._lightpaths is not None:
            return self._lightpaths.propose(task)
        if task.serving is not None and self._turns is not None:
            return self._turns.standing.propose(task)
        if task.serving is not None:
            return self._installer.propose_for(self._placer.paths(task, state, self._lanes))
        if choice is not None:
            return self._installer.propose(choice.decision)
        if self._options.slots != "first":
            return self._giver.propose(task, state)[1]
        return self._installer.propose(self._policy(task, state, lanes=self._lanes))

    def _select(self, task: Task, state: NetworkState) -> TreeChoice | None:
        """The chosen workers of a task with a selection, and their trees; None for a task without one."""
        return None if task.select is None else self._selector.choose(task, task.select, state)

    def _reject(self, row: TaskRow, reason: str) -> None:
        with self._store.transaction():
            self._store.change(row.name, _refused(row), self._executor.now(), reason)
            self._decide(row, "reject", reason)

    def _does_not_fit(self, row: TaskRow, reason: str) -> bool:
        """Let a task wait while others run, as their end may make room; else end it. Returns whether it was ended."""
        if not (self._options.queueing and self._store.any_at_work()):
            if row.may_restart:
                self._failed(row.name, reason)
            else:
                self._reject(row, reason)
            return True
        with self._store.transaction():
            if self._store.note_waiting(row.name, reason):
                self._decide(row, "wait", reason)
        return False

    def _decide(self, row: TaskRow, what: str, reason: str) -> None:
        self._store.history.add_decision(self._executor.now(), row.name, what, self._name, {"reason": reason})


def _refused(row: TaskRow) -> TaskState:
    """The state of a task that is not admitted: failed if it has run before, else rejected."""
    return TaskState.FAILED if row.attempt else TaskState.REJECTED
