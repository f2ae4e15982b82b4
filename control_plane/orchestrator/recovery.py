"""Coming back: what the database says is compared with what switches hold and what hosts do, and made true."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.orchestrator.computing import ComputingManager
from p4reduce.control_plane.orchestrator.executor import Role
from p4reduce.control_plane.orchestrator.installer import Installer, InstallError, Inventory
from p4reduce.control_plane.orchestrator.options import AT_WORK, ENDED, Phase, RefusedError, StoreError, TaskState
from p4reduce.control_plane.orchestrator.replanning import Replanner, order_of
from p4reduce.control_plane.orchestrator.rows import PlanRow, TaskRow
from p4reduce.control_plane.orchestrator.turn_taking import Turns
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.scheduling.task import MAX_PS
from p4reduce.topologies import to_yaml
from p4switch.base.safe_yaml import one_line

Fail = Callable[[str, str], None]
"""End a task as failed, with a reason: its trees are to be removed then."""
LAST_PS: Final = 10 * MAX_PS
"""a time that a database may have; a task comes within a tenth of it"""
MOST_NETWORKS: Final = 3
"""networks that may end while a task is being started before it is given up: it may be what ends them"""
WHOLE: Final[tuple[set[Role], ...]] = ({"both"}, {"upload", "broadcast"})
"""roles of all plans of a task"""
_NEW_NETWORK: Final = "the network was started anew"
_FIRST: Final = (Phase.ACTIVE, Phase.INSTALLED, Phase.INSTALLING, Phase.REMOVING)


class Recovery:
    """Brings a database, switches and hosts together after an orchestrator ended, in whatever moment.

    What an intent of the database began is finished where all of it is in the switches, and taken back where it is not.
    A task or a plan that is damaged costs that task, never the others: coming back must not depend on what they hold.
    """

    def __init__(
        self,
        installer: Installer,
        computing: ComputingManager,
        fail: Fail,
        turns: Turns | None,
        replanner: Replanner,
    ) -> None:
        self._installer = installer
        self._store = installer.store
        self._executor = installer.executor
        self._controller = installer.controller
        self._computing = computing
        self._fail = fail
        self._turns = turns
        self._replanner = replanner
        self.lost: set[str] = set()
        """running tasks of which a switch has lost entries"""

    def run(self) -> None:
        """Do it; `ControllerError` when a switch does not answer: try again later."""
        term = self._store.term
        self._executor.take_charge(term, self._store.fact("database") or "")
        self._check_topology()
        self._check_times()
        self._controller.resources.begin_at(self._store.next_generation())
        self._meet_executor()
        self._adopt()
        inventory = Inventory.read(self._controller)
        self._installer.sweep(inventory)
        self._installer.checkpoint("read switches")
        self._stop_what_ended()
        for task in self._usable([TaskState.SCHEDULED, *AT_WORK]):
            self._computing.place(task.task, even_if_full=True)
        if self._turns is not None:
            self._turns.recover(inventory)
        for task in self._store.tasks([TaskState.SCHEDULED]):
            self._finish_first(task, inventory)
        for task in self._store.tasks(AT_WORK):
            self._finish_swap(task, inventory)

    def _adopt(self) -> None:
        """Take charge of all plans; those that hosts use come first where two claim the same."""
        for row in sorted(self._store.plans(), key=lambda row: (_FIRST.index(row.phase), row.generation)):
            try:
                self._installer.adopt(row)
            except Exception as error:  # damaged, or another plan has what it claims
                self._drop(row, f"its plan of job {row.job} epoch {row.epoch} cannot be used: {one_line(error)}")

    def _drop(self, row: PlanRow, reason: str) -> None:
        """Forget a plan that cannot be used. Its entries in switches belong to no plan then, and are swept out."""
        if row.phase is not Phase.REMOVING and self._store.task(row.task).state not in ENDED:
            self._fail(row.task, reason)
        with self._store.transaction():
            self._store.set_phase(row.generation, Phase.REMOVED)
            at_ps = self._store.history.last_ps()
            self._store.history.add_decision(at_ps, row.task, "forget plan", "", {"reason": reason})

    def _stop_what_ended(self) -> None:
        """Hosts give up what the database says has ended, or never began."""
        at_work = {row.name: row.attempt for row in self._store.tasks([TaskState.SCHEDULED, *AT_WORK])}
        for name, run in self._executor.running().items():
            if not run.ended and at_work.get(name) != run.attempt:
                self._executor.stop(name)
                self._installer.checkpoint("stopped")

    def _usable(self, states: list[TaskState]) -> list[TaskRow]:
        """Tasks in these states; those that cannot be read or placed fail."""
        usable = []
        hosts = {host.name for host in self._controller.topology.hosts}
        for row in self._store.tasks(states):
            unknown = sorted({row.task.server, *row.task.workers} - hosts)
            if row.fault or unknown:
                self._fail(row.name, row.fault or f"{unknown[0]!r} is no host of the topology")
            else:
                usable.append(row)
        return usable

    def _check_topology(self) -> None:
        """Tasks and plans name hosts and switches: a database belongs to one topology."""
        here, known = to_yaml(self._controller.topology), self._store.fact("topology")
        if known is None:
            self._store.set_fact("topology", here)
        elif known != here:
            raise StoreError(
                f"{self._store.path}: belongs to another topology than {self._controller.topology.name!r}; "
                "give its own, or a new database"
            )

    def _meet_executor(self) -> None:
        """Notice when hosts and switches are others than before: then everything that ran there is gone."""
        instance = self._executor.instance
        before = self._store.fact("instance")
        if before == instance:
            return
        with self._store.transaction():
            self._store.set_fact("instance", instance)
            self._store.set_fact("reports", "0")
            self._store.schedules.drop_all()
            for row in self._store.plans():
                self._store.set_phase(row.generation, Phase.REMOVED)
            at_ps = self._store.history.last_ps()
            for task in self._store.tasks([TaskState.SCHEDULED]):
                ends = [change["reason"] for change in self._store.history.changes(task.name)].count(_NEW_NETWORK) + 1
                if ends < MOST_NETWORKS:
                    self._store.change(task.name, TaskState.QUEUED, at_ps, _NEW_NETWORK)
                else:
                    reason = f"{ends} networks ended while it was being started; mend it, and submit it again"
                    self._store.change(task.name, TaskState.FAILED, at_ps, reason)
            for task in self._store.tasks(AT_WORK):
                if task.may_restart:
                    again_ps = at_ps + self._installer.options.wait_ps(task.attempt)
                    self._store.restart(task.name, at_ps, again_ps, "the network that it ran in has ended")
                    continue
                reason = "the network that it ran in has ended, and the task's state with it; submit it again"
                self._store.change(task.name, TaskState.FAILED, at_ps, reason)
        if before is not None and at_ps > self._executor.now():
            self._executor.advance(at_ps)  # times in the database go on

    def _check_times(self) -> None:
        """Times are added up in 64 bits, and a network is brought to the last one that was written down."""
        last_ps = self._store.history.last_ps()
        if last_ps > LAST_PS:
            raise StoreError(
                f"{self._store.path}: has a time of {last_ps} ps, which no run reaches; the database is damaged, "
                "begin a new one"
            )

    def _finish_first(self, task: TaskRow, inventory: Inventory) -> None:
        """A task whose first trees may be in: hosts begin, or it waits again."""
        plans = self._plans(self._store.plans((Phase.INSTALLING, Phase.INSTALLED), task.name))
        if set(plans) in WHOLE and all(map(inventory.complete, plans.values())):
            try:
                order = order_of(task.task, plans, self._computing, task.wanted, attempt=task.attempt)
                if self._turns is not None:
                    order = replace(order, schedule=self._turns.holding.number())
                self._installer.begin(order)
            except (RefusedError, PlanError) as error:  # the latter where hosts have other profiles than before
                self._fail(task.name, f"its hosts cannot run it: {one_line(error)}")
        elif self._has_run(task):
            self._fail(task.name, "it ran, and its trees were lost before that was written down")
        else:
            with self._store.transaction():
                self._installer.give_up(plans.values())
                reason = "the orchestrator ended before all of its trees were installed"
                self._store.change(task.name, TaskState.QUEUED, self._executor.now(), reason)
            self._computing.release(task.name)
            self._installer.checkpoint("took back")

    def _has_run(self, task: TaskRow) -> bool:
        """Whether hosts know this attempt of a task."""
        run = self._executor.running([task.name]).get(task.name)
        return run is not None and run.attempt == task.attempt

    def _finish_swap(self, task: TaskRow, inventory: Inventory) -> None:
        """A running task whose next trees may be in: it changes over, or stays."""
        plans = self._plans(self._store.plans((Phase.INSTALLING, Phase.INSTALLED), task.name))
        if self._turns is not None and self._turns.changing:
            pass  # they come with the schedule
        elif plans and self._replanner.is_replan(task.name, plans):
            self._replanner.come_back(task, plans, complete=all(map(inventory.complete, plans.values())))
        elif plans and all(map(inventory.complete, plans.values())):
            with contextlib.suppress(InstallError):
                self._installer.change_over(task.name, plans)
        elif plans:
            self._installer.give_up(plans.values())
            self._installer.checkpoint("took back")
        active = self._plans(self._store.plans((Phase.ACTIVE,), task.name))
        if set(active) not in WHOLE:
            self._fail(task.name, "the database does not know all of its trees")
        elif not all(map(inventory.complete, active.values())):
            self.lost.add(task.name)

    def _plans(self, rows: list[PlanRow]) -> dict[Role, Plan]:
        return {row.role: self._installer.plan_of(row) for row in rows}
