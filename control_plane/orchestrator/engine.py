"""The orchestrator: gives tasks their trees, measures, swaps trees, and can be killed and restarted at any moment."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from p4reduce.base.errors import ControllerError, PlanError
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.entries import switches_on_paths
from p4reduce.control_plane.orchestrator.admission import Admission, TaskQueue
from p4reduce.control_plane.orchestrator.executor import ComputingManager, Executor, ExecutorReport, Role, is_read
from p4reduce.control_plane.orchestrator.giving import Giver, KindsOf, Mover, Placer
from p4reduce.control_plane.orchestrator.installer import Installer
from p4reduce.control_plane.orchestrator.lightpaths import Lightpaths
from p4reduce.control_plane.orchestrator.options import AT_WORK, ENDED, OrchestratorOptions, PlanPhase, TaskState
from p4reduce.control_plane.orchestrator.recovery import Foresight, Monitor, Recovery
from p4reduce.control_plane.orchestrator.replanning import Replanner
from p4reduce.control_plane.orchestrator.rescheduling import Losses, Rescheduler
from p4reduce.control_plane.orchestrator.store import Store
from p4reduce.control_plane.orchestrator.turn_taking import Turns
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.scheduling.policies import by_kind
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import WITHOUT_SERVER, NetworkState, Policy, check_served
from p4reduce.topologies import format_delay
from p4switch.base.values import PS_PER_US

LINGER_PS: Final = PS_PER_US
"""virtual time between two checks whether the last window has ended"""


def _pass(step: str) -> None:
    """Do nothing; tests pass another function, which stops the orchestrator at a step."""


class Orchestrator:
    """Runs the tasks of a database.

    All state is in the database, in the switches or at the executor. Every write to switches is recorded beforehand, so
    another orchestrator can open the database and continue.

        with Store(path) as store, Controller(..., keep=True) as controller:
            orchestrator = Orchestrator(store, controller, executor, policy_named("steiner"), name="steiner")
            orchestrator.run()

    Parameters
    ----------
    store : Store
        The database; :meth:`Store.take_charge` must have been called; its term is the controller's election id.
    controller : Controller
        Started with ``keep=True``.
    executor : Executor
        Runs the tasks.
    policy : Policy
        Gives tasks their trees.
    name : str
        Name of the policy, for the database.
    computing : ComputingManager or None
        Records the load of hosts; None: hosts with default profiles.
    checkpoint : callable
        Called with the name of a step after it was taken, for tests.
    """

    def __init__(
        self,
        store: Store,
        controller: Controller,
        executor: Executor,
        policy: Policy,
        *,
        name: str,
        options: OrchestratorOptions = OrchestratorOptions(),  # noqa: B008  (immutable)
        computing: ComputingManager | None = None,
        checkpoint: Callable[[str], None] = _pass,
    ) -> None:
        if options.schedule or options.slots != "first":
            check_served(name, "a schedule" if options.schedule else f"slots {options.slots!r}")
        policy = by_kind(policy)
        foresight = Foresight(options.forecast, options.ahead)
        self.queue = TaskQueue(store, options)
        self.store = store
        self.executor = executor
        self.options = options
        self.computing = computing or ComputingManager(controller.topology)
        self.installer = Installer(store, controller, executor, checkpoint, options)
        self._placer = Placer(controller.topology, self.computing, options.placement)
        self._kinds = KindsOf(self.installer, policy, served=name not in WITHOUT_SERVER)
        self.replanner = Replanner(self.installer, self.computing, name, self._take_reports, self._changed)
        self.giver = Giver(self.installer, self._kinds, self.computing, self.replanner, self.state)
        self.mover = Mover(self.installer, self._placer, self.giver, self.replanner, self.state, name)
        self.losses = Losses(self.installer, self.mover, self.replanner, self.state, self.fail)
        self.rescheduler = Rescheduler(
            self.installer, policy, name, self.state, self.losses, self.replanner, self._placer.paths
        )
        self.computing.measured |= store.history.slowdowns()
        self._name = name
        self._checkpoint = checkpoint
        self._unmeasured = ""  # reason why the last measurement failed
        self._measure_at = options.measure_every_ps
        self.turns = self._make_turns(policy, name)
        self._lightpaths = None if options.wdm is None else Lightpaths(self.installer, options.wdm, options.grooming)
        self.admission = Admission(
            self.installer,
            policy,
            name,
            self.queue,
            self.computing,
            self._placer,
            self.giver,
            state=self.state,
            fail=self.fail,
            failed=lambda task, reason: self._end(task, TaskState.FAILED, executor.now(), reason),
            turns=self.turns,
            lightpaths=self._lightpaths,
        )
        recovery = Recovery(self.installer, self.computing, self.fail, self.turns, self.replanner)
        recovery.run()
        self.rescheduler.lost |= recovery.lost
        if self._lightpaths is not None:
            self._lightpaths.recover([row.name for row in store.tasks(AT_WORK)], self.fail)
        self._take_reports()
        self._find_stopped()
        self.monitor = Monitor(controller.topology, controller, executor, store, foresight)
        for row in store.tasks(AT_WORK) if self.turns is None else ():
            plans = {plan.role: self.installer.plan_of(plan) for plan in store.plans((PlanPhase.ACTIVE,), row.name)}
            self._changed(row.task, plans)
        self._consider = True

    def _make_turns(self, policy: Policy, name: str) -> Turns | None:
        """The turns over a cross-connect; None without one. `PlanError` if options and topology do not match."""
        topology, options = self.installer.controller.topology, self.options
        if options.wdm is not None and (options.schedule or options.slots != "first" or options.move is not None):
            raise PlanError("schedule, slots, move: tasks over lightpaths have none of them; leave them out")
        if options.wdm is not None:
            return None
        if bool(topology.crossconnects) != bool(self.options.schedule):
            raise PlanError(
                f"schedule: topology {topology.name!r} "
                + (
                    "has a cross-connect: say who gives tasks their turns, as in --schedule tdm, or give "
                    "wavelengths, as in -t wdm:graph=nobel-us"
                    if topology.crossconnects
                    else "has no cross-connect; build it with 'oxc:pods=8,hosts=4,ports=4', or leave --schedule out"
                )
            )
        if not topology.crossconnects:
            return None
        return Turns(
            self.installer,
            policy,
            name,
            self.options.schedule,
            self.computing,
            lambda demands: self.monitor.state(demands),  # noqa: PLW0108  (it is made later)
            self.fail,
            self.queue.started,
        )

    # --- running

    def run(self, until_ps: int | None = None) -> None:
        """Work until every task has ended, or until a virtual time in ps.

        Raises
        ------
        StoreError
            Another orchestrator has taken over.
        ControllerError
            A switch does not answer a read. Installed plans stay; a later orchestrator continues.
        """
        while self.step(until_ps):
            pass

    def step(self, until_ps: int | None = None) -> bool:
        """Do all due work, then let time pass to the next event; returns False when there is nothing to wait for."""
        self.store.check_charge()
        self._take_reports()
        self._cancel()
        if self._consider and not (self.turns is not None and self.turns.changing):
            self._consider = False
            self.rescheduler.consider_all()
            if self.turns is None:
                self.mover.consider()
        self._clean()  # frees the slots of ended tasks for waiting tasks
        self.admission.admit()
        if self.turns is None:
            self.giver.share()
        self._clean()
        now = self.executor.now()
        wake = self._next_ps(now)
        if wake is None and self.turns is not None and self.executor.turn().open:
            wake = now + LINGER_PS  # hosts acknowledge the last blocks, then the window ends
        if wake is None:
            self._take_reports()  # reports of the last window
        if wake is None or (until_ps is not None and now >= until_ps):
            return False
        if until_ps is not None:
            wake = min(wake, until_ps)
        self.executor.advance(max(wake, now), after=self._reported())
        if self.executor.now() >= self._measure_at:
            self._measure()
        return True

    def _clean(self) -> None:
        if self.installer.clean():
            self.admission.room = self.giver.due = True

    def _measure(self) -> None:
        """Read the counters; a switch that does not answer is recorded, and read again at the next measurement."""
        now = self.executor.now()
        self._measure_at = now - now % self.options.measure_every_ps + self.options.measure_every_ps
        try:
            if self._look():  # a restarted switch has lost its counters: measure next time
                self._consider = self.admission.room = True
                return
            self.monitor.measure()
        except ControllerError as error:
            if str(error) != self._unmeasured:
                self._unmeasured = str(error)
                self._decided(None, "not measured", {"reason": self._unmeasured})
            return
        self._unmeasured = ""
        self._consider = self.admission.room = True
        self._checkpoint("measured")

    def _look(self) -> bool:
        """Restore switches that were restarted; tasks that had entries in them must leave their trees.

        Returns whether there were any. If the orchestrator is killed after any step, the next orchestrator finds that
        entries of these tasks are missing (`Recovery`).
        """
        controller = self.installer.controller
        restarted = controller.look().restarted
        for switch in restarted:
            self._checkpoint("found restarted")
            plans = self.store.plans((PlanPhase.INSTALLING, PlanPhase.INSTALLED, PlanPhase.ACTIVE))
            tasks = {row.task for row in plans if switch in switches_on_paths(self.installer.plan_of(row))}
            self.rescheduler.lost |= tasks
            controller.restore(switch)
            self._decided(None, "switch began anew", {"switch": switch, "tasks": sorted(tasks)})
            self._checkpoint("restored switch")
        return bool(restarted)

    def _decided(self, task: str | None, what: str, why: dict[str, Any]) -> None:
        with self.store.transaction():
            self.store.history.add_decision(self.executor.now(), task, what, self._name, why)

    def _next_ps(self, now: int) -> int | None:
        """Time in ps of the next event or measurement; None when there is none."""
        times = [self.store.next_event_ps(self.admission.admitted_ps)]
        if self.store.any_at_work() or (self.turns is not None and self.turns.changing):
            times.append(max(self._measure_at, now + 1))
        return min((at_ps for at_ps in times if at_ps is not None), default=None)

    # --- reports

    def _take_reports(self) -> None:
        """Record new reports of the executor, each of them once."""
        reports = self.executor.reports(self._reported())
        if reports:
            with self.store.transaction():
                for report in reports:
                    self._take(report)
                self.store.set_fact("reports", str(reports[-1].number))
        for kind in dict.fromkeys(report.kind for report in reports):
            self._checkpoint(f"report {kind}")

    def _reported(self) -> int:
        """Number of the last report that was recorded."""
        return int(self.store.fact("reports") or 0)

    def _take(self, report: ExecutorReport) -> None:
        if report.kind == "link":
            self._consider = self.admission.room = True
            self._decided(None, "link up" if report.data["up"] else "link down", dict(report.data))
        elif report.kind == "resumed":
            self.store.history.measure_swap(report)
        elif report.kind == "window":
            self.store.schedules.add_window(report)
        elif report.kind == "schedule" and self.turns is not None:
            self._consider = self.admission.room = True
            self.turns.began(int(report.data["number"]), report.at_ps)
        if report.task is None or report.task not in self.store:
            return
        if self.store.task(report.task).state in (*ENDED, TaskState.QUEUED):
            return  # it has ended, or waits for a restart
        if report.kind == "round":
            self.store.history.add_round(report)
            task = self.store.task(report.task).task
            if self.turns is None:
                self._placer.round_done(task, int(report.data["round"]))
            slow = self.computing.measure(task, report.data.get("training_ps", {}))
            self.store.history.note_slowdowns(slow, report.at_ps)
        elif report.kind == "served":
            self.store.history.add_decision(report.at_ps, report.task, "served", "", dict(report.data))
        elif report.kind == "died":
            self.losses.take(report)
            self._consider = True
        elif report.kind == "replanned":
            self.replanner.take(report)
            if "error" not in report.data:
                self.losses.forget(report.task)
            self._consider = self.admission.room = self.giver.due = True
        elif report.kind == "restored":
            self.store.history.note_restored(report)
            for plan in self.store.plans((PlanPhase.INSTALLED, PlanPhase.ACTIVE), report.task):
                if is_read(plan.role):
                    self.store.set_phase(plan.generation, PlanPhase.REMOVING)
        elif report.kind == "finished":
            self._end(report.task, TaskState.FINISHED, report.at_ps, digest=str(report.data["digest"]))
        elif report.kind == "failed":
            self._end(report.task, TaskState.FAILED, report.at_ps, str(report.data["reason"]))

    def _end(self, name: str, state: TaskState, at_ps: int, reason: str = "", digest: str | None = None) -> None:
        """Record that a task has ended or will be restarted, and mark its trees for removal."""
        row = self.store.task(name)
        if row.state in ENDED:
            return
        again_ps = at_ps + self.options.wait_ps(row.attempt) if state is TaskState.FAILED and row.may_restart else None
        if state is TaskState.FINISHED and row.task.deadline_ps is not None and at_ps > row.task.deadline_ps:
            reason = f"{format_delay(at_ps - row.task.deadline_ps)} after its deadline"
        with self.store.transaction():
            if again_ps is None:
                self.store.change(name, state, at_ps, reason, digest)
            else:
                self.store.restart(name, at_ps, again_ps, reason)
                self._decided(
                    name, "restart", {"reason": reason, "attempt": row.attempt + 1, "not_before_ps": again_ps}
                )
            for plan in self.store.plans(task=name):
                self.store.set_phase(plan.generation, PlanPhase.REMOVING)
        self.computing.release(name)
        if self._lightpaths is not None:
            self._lightpaths.end(name)
        self._placer.end(name)
        self._kinds.forget(name)
        self.replanner.end(name)
        self.losses.forget(name)
        self._consider = self.admission.room = self.giver.due = True

    def fail(self, name: str, reason: str) -> None:
        """Stop a task and remove its trees. The task may be restarted."""
        self._take_reports()  # it may have ended by itself
        if self.store.task(name).state in (*ENDED, TaskState.QUEUED):
            return
        self._end(name, TaskState.FAILED, self.executor.now(), reason)
        self._checkpoint("recorded stop")
        self.executor.stop(name)  # if this orchestrator is killed before, the next one stops the task
        self._checkpoint("stopped")

    def _find_stopped(self) -> None:
        """Fail tasks that run in the database but have stopped at the executor without a report."""
        at_work = self.store.tasks(AT_WORK)
        running = self.executor.running([row.name for row in at_work])
        for row in at_work:
            if row.name not in running or running[row.name].ended:
                self.fail(row.name, "its hosts had stopped when the orchestrator came back")
        self.losses.found(running)

    def _cancel(self) -> None:
        for row in self.store.tasks_to_cancel():
            if row.state is TaskState.QUEUED:
                self.store.change(
                    row.name, TaskState.REJECTED, self.executor.now(), "cancelled before it was scheduled"
                )
            else:
                self.fail(row.name, "cancelled")

    def _changed(self, task: Task, plans: Mapping[Role, Plan]) -> None:
        """Record that a task runs with these plans at these hosts from now on."""
        try:
            self._placer.begin(task, plans, task.rounds - self.store.history.rounds_done(task.name))
        except PlanError:  # a damaged plan in the database: its load is not known
            self._placer.end(task.name)

    def state(self, without: str | None = None) -> NetworkState:
        """The network as policies see it; ``without`` names a task whose reservation does not count."""
        if self.turns is not None:
            return self.turns.state(without)
        reserving = (PlanPhase.INSTALLING, PlanPhase.INSTALLED, PlanPhase.ACTIVE)
        return self.monitor.state(row.demand_bps for row in self.store.plans(reserving) if row.task != without)
