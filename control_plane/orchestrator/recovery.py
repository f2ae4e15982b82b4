"""Coming back: what the database says is compared with what switches hold and what hosts do, and made true."""

from p4reduce.control_plane.orchestrator.computing import ComputingManager
from p4reduce.control_plane.orchestrator.errors import StoreError
from p4reduce.control_plane.orchestrator.executor import Order, Role
from p4reduce.control_plane.orchestrator.installer import Installer
from p4reduce.control_plane.orchestrator.inventory import Inventory
from p4reduce.control_plane.orchestrator.states import AT_WORK, Phase, TaskState
from p4reduce.control_plane.orchestrator.store import PlanRow, TaskRow
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies import to_yaml


class Recovery:
    """Brings a database, switches and hosts together after an orchestrator ended, in whatever moment.

    What an intent of the database began is finished where all of it is in the switches, and taken back where it is not.
    """

    def __init__(self, installer: Installer, computing: ComputingManager) -> None:
        self._installer = installer
        self._store = installer.store
        self._executor = installer.executor
        self._controller = installer.controller
        self._computing = computing
        self.lost: set[str] = set()
        """running tasks of which a switch has lost entries"""

    def run(self) -> None:
        """Do it; `ControllerError` when a switch does not answer: try again later."""
        self._check_topology()
        self._controller.resources.begin_at(self._store.next_generation())
        self._meet_executor()
        installed = {(plan.job, plan.epoch) for plan in self._controller.installed}
        rows = self._store.plans()
        for row in rows:
            if (row.job, row.epoch) not in installed:
                self._controller.adopt(self._installer.plan_of(row))
        inventory = Inventory.read(self._controller)
        for switch, entries in inventory.strangers(self._controller.installed).items():
            self._controller.delete(switch, entries)
        self._installer.checkpoint("read switches")
        for task in self._store.tasks([TaskState.SCHEDULED, *AT_WORK]):
            self._computing.place(task.task, even_if_full=True)
        for task in self._store.tasks([TaskState.SCHEDULED]):
            self._finish_first(task, inventory)
        for task in self._store.tasks(AT_WORK):
            self._finish_swap(task, inventory)

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
            for row in self._store.plans():
                self._store.set_phase(row.generation, Phase.REMOVED)
            at_ps = self._store.history.last_ps()
            for task in self._store.tasks([TaskState.SCHEDULED]):
                self._store.change(task.name, TaskState.QUEUED, at_ps, "the network was started anew")
            for task in self._store.tasks(AT_WORK):
                reason = "the network that it ran in has ended, and the task's state with it; submit it again"
                self._store.change(task.name, TaskState.FAILED, at_ps, reason)
        if before is not None and at_ps > self._executor.now():
            self._executor.advance(at_ps)  # times in the database go on

    def _finish_first(self, task: TaskRow, inventory: Inventory) -> None:
        """A task whose first trees may be in: hosts begin, or it waits again."""
        rows = self._store.plans((Phase.INSTALLING, Phase.INSTALLED), task.name)
        plans = self._plans(rows)
        if task.name in self._executor.running() or all(map(inventory.complete, plans.values())):
            self._installer.begin(order_of(task.task, plans, self._computing))
            return
        with self._store.transaction():
            self._installer.give_up(rows)
            reason = "the orchestrator ended before all of its trees were installed"
            self._store.change(task.name, TaskState.QUEUED, self._executor.now(), reason)
        self._computing.release(task.name)
        self._installer.checkpoint("took back")

    def _finish_swap(self, task: TaskRow, inventory: Inventory) -> None:
        """A running task whose next trees may be in: it changes over, or stays."""
        rows = self._store.plans((Phase.INSTALLING, Phase.INSTALLED), task.name)
        plans = self._plans(rows)
        if plans and all(map(inventory.complete, plans.values())):
            self._installer.change_over(task.name, plans)
        elif plans:
            self._installer.give_up(rows)
            self._installer.checkpoint("took back")
        active = self._plans(self._store.plans((Phase.ACTIVE,), task.name))
        if not all(map(inventory.complete, active.values())):
            self.lost.add(task.name)

    def _plans(self, rows: list[PlanRow]) -> dict[Role, Plan]:
        return {row.role: self._installer.plan_of(row) for row in rows}


def order_of(task: Task, plans: dict[Role, Plan], computing: ComputingManager) -> Order:
    """What the executor is asked to run."""
    upload = plans.get("both") or plans["upload"]
    arriving = 1 if upload.in_network else len(task.workers)
    return Order(
        task,
        plans,
        {worker: computing.training_ps(task, worker) for worker in task.workers},
        computing.aggregation_ps(task, arriving),
    )
