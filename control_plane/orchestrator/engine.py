"""The orchestrator: takes tasks, asks the policy, installs trees, watches, swaps trees, and can die at any moment."""

from collections.abc import Callable
from typing import Any

from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.errors import ControllerError, PlanError
from p4reduce.control_plane.orchestrator.computing import ComputingManager
from p4reduce.control_plane.orchestrator.executor import Executor, Report
from p4reduce.control_plane.orchestrator.installer import Installer
from p4reduce.control_plane.orchestrator.monitor import Monitor
from p4reduce.control_plane.orchestrator.options import Options
from p4reduce.control_plane.orchestrator.recovery import Recovery, order_of
from p4reduce.control_plane.orchestrator.rescheduling import Rescheduler
from p4reduce.control_plane.orchestrator.states import AT_WORK, ENDED, Phase, TaskState
from p4reduce.control_plane.orchestrator.store import Store, TaskRow
from p4reduce.control_plane.orchestrator.tradeoff import round_bytes
from p4reduce.control_plane.scheduling.policy import Policy
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.topologies import format_delay


def _pass(step: str) -> None:
    """Where tests stop the orchestrator."""


class Orchestrator:
    """Runs the tasks of a database.

    Everything that it knows is in the database, in the switches or at the executor. Before it writes to switches it
    writes down what it will write, so another orchestrator that opens the database goes on where this one ended.

        with Store(path) as store, Controller(..., keep=True) as controller:
            orchestrator = Orchestrator(store, controller, executor, policy_named("steiner"), name="steiner")
            orchestrator.run()

    Parameters
    ----------
    store : Store
        The database; :meth:`Store.take_charge` must have been called, and its term be the controller's election id.
    controller : Controller
        Started with ``keep=True``.
    executor : Executor
        Where the tasks run.
    policy : Policy
        Gives tasks their trees.
    name : str
        The policy's, for the database.
    computing : ComputingManager or None
        Knows the hosts; None: hosts with default profiles.
    checkpoint : callable
        Told the name of every step that was taken, for tests.
    """

    def __init__(
        self,
        store: Store,
        controller: Controller,
        executor: Executor,
        policy: Policy,
        *,
        name: str,
        options: Options = Options(),  # noqa: B008  (immutable)
        computing: ComputingManager | None = None,
        checkpoint: Callable[[str], None] = _pass,
    ) -> None:
        self.store = store
        self.executor = executor
        self.options = options
        self.computing = computing or ComputingManager(controller.topology)
        self.installer = Installer(store, controller, executor, checkpoint, options)
        self.rescheduler = Rescheduler(self.installer, policy, name, self.state, self.fail)
        self._policy = policy
        self._name = name
        self._checkpoint = checkpoint
        self._waiting: dict[str, str] = {}  # task -> why it still waits, so that each reason is written once
        self._unmeasured = ""  # why the last measurement failed
        self._admitted_ps = -1
        self._measure_at = options.measure_every_ps
        recovery = Recovery(self.installer, self.computing)
        recovery.run()
        self.rescheduler.lost |= recovery.lost
        self.monitor = Monitor(controller.topology, controller, executor, store)
        self._consider = True

    # --- running

    def run(self, until_ps: int | None = None) -> None:
        """Work until every task has ended, or to a virtual time.

        Raises
        ------
        StoreError
            Another orchestrator has taken over.
        ControllerError
            A switch does not answer a read. What is installed stays; a later orchestrator goes on.
        """
        while self.step(until_ps):
            pass

    def step(self, until_ps: int | None = None) -> bool:
        """Do what is due now, then let time pass to the next event; False when there is nothing to wait for."""
        self._take_reports()
        self._cancel()
        if self._consider:
            self._consider = False
            self.rescheduler.consider_all()
        self.installer.clean()  # what ended makes room for what waits
        self._admit()
        self.installer.clean()
        now = self.executor.now()
        wake = self._next_ps(now)
        if wake is None or (until_ps is not None and now >= until_ps):
            return False
        if until_ps is not None:
            wake = min(wake, until_ps)
        self.executor.advance(max(wake, now), after=self._reported())
        if self.executor.now() >= self._measure_at:
            self._measure()
        return True

    def _measure(self) -> None:
        """Read the counters; a switch that does not answer is written down, and asked again at the next time."""
        now = self.executor.now()
        self._measure_at = now - now % self.options.measure_every_ps + self.options.measure_every_ps
        try:
            self.monitor.measure()
        except ControllerError as error:
            if str(error) != self._unmeasured:
                self._unmeasured = str(error)
                self._decided(None, "not measured", {"reason": self._unmeasured})
            return
        self._unmeasured = ""
        self._consider = True
        self._checkpoint("measured")

    def _decided(self, task: str | None, what: str, why: dict[str, Any]) -> None:
        with self.store.transaction():
            self.store.history.add_decision(self.executor.now(), task, what, self._name, why)

    def _next_ps(self, now: int) -> int | None:
        """When something is to be done at the latest; None when nothing ever is."""
        queued = [row.task for row in self.store.tasks([TaskState.QUEUED])]
        times = [task.arrival_ps for task in queued if task.arrival_ps > self._admitted_ps]
        times += [task.deadline_ps for task in queued if task.deadline_ps is not None]
        if self.store.tasks(AT_WORK):
            times.append(max(self._measure_at, now + 1))
        return min(times, default=None)

    # --- what happened

    def _take_reports(self) -> None:
        """Write down what the executor reports, each report once."""
        reports = self.executor.reports(self._reported())
        if reports:
            with self.store.transaction():
                for report in reports:
                    self._take(report)
                self.store.set_fact("reports", str(reports[-1].number))
        for kind in dict.fromkeys(report.kind for report in reports):
            self._checkpoint(f"report {kind}")

    def _reported(self) -> int:
        """The last report that was written down."""
        return int(self.store.fact("reports") or 0)

    def _take(self, report: Report) -> None:
        if report.kind == "link":
            self._consider = True
            self._decided(None, "link up" if report.data["up"] else "link down", dict(report.data))
        elif report.kind == "resumed":
            self.store.history.measure_swap(report)
        if report.task is None or self.store.task(report.task).state in ENDED:
            return
        if report.kind == "round":
            self.store.history.add_round(report)
        elif report.kind == "finished":
            self._end(report.task, TaskState.FINISHED, report.at_ps, digest=str(report.data["digest"]))
        elif report.kind == "failed":
            self._end(report.task, TaskState.FAILED, report.at_ps, str(report.data["reason"]))

    def _end(self, name: str, state: TaskState, at_ps: int, reason: str = "", digest: str | None = None) -> None:
        """A task has ended: its trees may go."""
        row = self.store.task(name)
        if row.state in ENDED:
            return
        if state is TaskState.FINISHED and row.task.deadline_ps is not None and at_ps > row.task.deadline_ps:
            reason = f"{format_delay(at_ps - row.task.deadline_ps)} after its deadline"
        with self.store.transaction():
            self.store.change(name, state, at_ps, reason, digest)
            for plan in self.store.plans(task=name):
                self.store.set_phase(plan.generation, Phase.REMOVING)
        self.computing.release(name)
        self._consider = True

    def fail(self, name: str, reason: str) -> None:
        """Give a task up: it stops at its hosts, and its trees go."""
        self._take_reports()  # it may have ended by itself
        if self.store.task(name).state in ENDED:
            return
        self.executor.stop(name)
        self._checkpoint("stopped")
        self._end(name, TaskState.FAILED, self.executor.now(), reason)
        self._checkpoint("recorded stop")

    def _cancel(self) -> None:
        for row in self.store.tasks([state for state in TaskState if state not in ENDED]):
            if row.cancel and row.state is TaskState.QUEUED:
                self.store.change(
                    row.name, TaskState.REJECTED, self.executor.now(), "cancelled before it was scheduled"
                )
            elif row.cancel:
                self.fail(row.name, "cancelled")

    # --- tasks that wait

    def _admit(self) -> None:
        """Schedule the tasks that have arrived, in order; one that does not fit lets later ones pass."""
        self._admitted_ps = self.executor.now()
        for row in self.store.tasks([TaskState.QUEUED]):
            now = self._admitted_ps
            if row.task.arrival_ps > now:
                continue
            if row.task.deadline_ps is not None and row.task.deadline_ps <= now:
                waited = self._waiting.pop(row.name, "")
                reason = "its deadline passed while it waited" + (f": {waited}" if waited else "")
                self.store.change(row.name, TaskState.REJECTED, now, reason)
                continue
            self._schedule(row)

    def _schedule(self, row: TaskRow) -> None:
        try:
            self.computing.place(row.task)
            decision = self._policy(row.task, self.state(), lanes=self.options.lanes)
            proposals = self.installer.propose(decision)
        except PlanError as error:
            self.computing.release(row.name)
            self._does_not_fit(row, str(error))
            return
        plans = {proposal.role: proposal.plan for proposal in proposals}
        why = {"round_bytes": sum(round_bytes(row.task, role, plan) for role, plan in plans.items())}
        try:
            self.installer.install_first(row.name, proposals, self._name, why)
        except ControllerError as error:
            self._end(row.name, TaskState.FAILED, self.executor.now(), f"its trees could not be installed: {error}")
            return
        self.installer.begin(order_of(row.task, plans, self.computing))
        self._waiting.pop(row.name, None)

    def _does_not_fit(self, row: TaskRow, reason: str) -> None:
        """Wait for others to end if there are any; they may make room."""
        if not (self.options.queueing and self.store.tasks(AT_WORK)):
            with self.store.transaction():
                self.store.change(row.name, TaskState.REJECTED, self.executor.now(), reason)
                self._decided(row.name, "reject", {"reason": reason})
        elif self._waiting.get(row.name) != reason:
            self._waiting[row.name] = reason
            self._decided(row.name, "wait", {"reason": reason})

    def state(self, without: str | None = None) -> NetworkState:
        """The network as policies see it; ``without`` names a task whose reservation does not count."""
        reserving = (Phase.INSTALLING, Phase.INSTALLED, Phase.ACTIVE)
        return self.monitor.state(row.demand_bps for row in self.store.plans(reserving) if row.task != without)
