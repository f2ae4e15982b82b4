"""Tasks that take turns over an optical cross-connect: who joins the schedule, and how the next one comes to hold."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from p4reduce.base.safe_yaml import one_line
from p4reduce.base.units import PS_PER_S
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.orchestrator.computing import ComputingManager
from p4reduce.control_plane.orchestrator.errors import RefusedError, StoreError
from p4reduce.control_plane.orchestrator.executor import Role
from p4reduce.control_plane.orchestrator.holding import Holding, See
from p4reduce.control_plane.orchestrator.installer import Installer, Proposal
from p4reduce.control_plane.orchestrator.inventory import Inventory
from p4reduce.control_plane.orchestrator.joining import (
    Laid,
    first_schedule,
    windows_of,
    with_one_more,
    without,
)
from p4reduce.control_plane.orchestrator.optical_network import hosts_of, job_of, network_of
from p4reduce.control_plane.orchestrator.order import order_of
from p4reduce.control_plane.orchestrator.plan_json import circuits_of
from p4reduce.control_plane.orchestrator.rows import PlanRow, TaskRow
from p4reduce.control_plane.orchestrator.schedules import SchedulePhase
from p4reduce.control_plane.orchestrator.states import AT_WORK, ENDED, Phase, TaskState
from p4reduce.control_plane.orchestrator.timetable import Timetable, TurnWindow
from p4reduce.control_plane.orchestrator.tradeoff import round_bytes
from p4reduce.control_plane.orchestrator.tried import Admitted, Refused
from p4reduce.control_plane.placement import Placement
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.scheduling.policy import Policy
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.guard import least_guard_ps
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.registry import check_jobs, check_turns
from p4reduce.control_plane.tdm.schedule import Schedule

_OPENING: Final = (Phase.INSTALLING, Phase.INSTALLED)


class Turns:
    """Gives tasks their turns. One schedule at a time is on its way; it holds from the end of a round on.

    Every step is written down before it is taken: trees of new tasks, and of running ones whose circuits move, are
    installed beside the old ones; then the executor gets the timetable, and changes over by itself between two rounds.

    Parameters
    ----------
    installer : Installer
        Writes to switches.
    policy, name
        Of trees; it is asked within the view of a configuration.
    scheduler : str
        One of `p4reduce.schedulers`.
    computing : ComputingManager
        Knows the hosts.
    see : callable
        What policies may use of the network, given what tasks reserve.
    fail : callable
        Gives a task up.
    started : callable
        Told of every task that begins.
    """

    def __init__(
        self,
        installer: Installer,
        policy: Policy,
        name: str,
        scheduler: str,
        computing: ComputingManager,
        see: See,
        fail: Callable[[str, str], None],
        started: Callable[[Task], None],
    ) -> None:
        check_turns(scheduler)
        self._installer, self._policy, self._name, self._scheduler = installer, policy, name, scheduler
        self._computing, self._fail, self._started = computing, fail, started
        self.holding = Holding(installer, see)
        self._store, self._executor = installer.store, installer.executor
        self._topology = installer.controller.topology
        self._lanes = installer.controller.program.lanes
        self._network = network_of(self._topology, installer.options.delta_ps)
        computing.in_turns = True

    @property
    def changing(self) -> bool:
        """Whether a schedule is on its way."""
        return self.holding.changing

    def state(self, name: str | None) -> NetworkState:
        """As of :meth:`Holding.state`."""
        return self.holding.state(name)

    # --- who joins

    def fault(self, task: Task) -> str:
        """Why a task can never take turns here; empty where it may."""
        if task.on_failure == "shrink":
            return "on_failure: where tasks take turns none goes on with fewer workers; take 'abort' or 'raise'"
        if task.max_restarts:
            return "max_restarts: where tasks take turns none begins anew; leave it out"
        try:
            check_jobs([job_of(task)], self._network)
        except TdmError as error:
            return str(error)
        return ""

    def admit(self, rows: Sequence[TaskRow]) -> list[Refused]:
        """Have as many of these tasks begin as fit, in their order; those that were tried and did not."""
        refused: list[Refused] = []
        try:
            schedule, jobs, laid = self.holding.present()
        except (TdmError, KeyError, ValueError, TypeError, IndexError) as error:
            return [Refused(row, one_line(error)) for row in rows[:1]]
        accepted: list[TaskRow] = []
        waiting = list(rows)
        try:
            if schedule is None:
                schedule, jobs, accepted, waiting = self._first(waiting, refused)
            for row in waiting:
                if schedule is None or len(refused) >= max(1, self._installer.options.retries):
                    break
                try:
                    job = job_of(row.task)
                    schedule, jobs = with_one_more(schedule, jobs, job), [*jobs, job]
                    accepted.append(row)
                except TdmError as error:
                    refused.append(Refused(row, str(error)))
                    if not self._installer.options.backfill:
                        break
        except (StoreError, sqlite3.Error):
            raise
        except Exception as error:  # a scheduler with a bug
            refused += [Refused(row, _bug("scheduled", error), fault=True) for row in rows[:1]]
            return refused
        while schedule is not None and accepted:
            unfit = self._begin(schedule, accepted, laid)
            if unfit is None:
                break
            refused.append(replace(unfit, alone=len(schedule.jobs) == 1))
            accepted = [row for row in accepted if row is not unfit.row]
            schedule, jobs = without(schedule, jobs, frozenset({unfit.row.name}))
        return refused

    def _first(
        self, rows: list[TaskRow], refused: list[Refused]
    ) -> tuple[Schedule | None, list[TdmJob], list[TaskRow], list[TaskRow]]:
        """Of those that wait as many as can be planned together, halving; nobody runs."""
        count = len(rows)
        while count:
            jobs = [job_of(row.task) for row in rows[:count]]
            try:
                return first_schedule(self._scheduler, jobs, self._network), jobs, rows[:count], rows[count:]
            except TdmError as error:
                reason = str(error)
            count //= 2
        refused += [Refused(row, reason, alone=True) for row in rows[:1]]
        return None, [], [], rows[1:]

    # --- the next schedule

    def _begin(self, schedule: Schedule, accepted: Sequence[TaskRow], laid: Laid) -> Refused | None:
        """Plan, install, set, begin; or who is in the way, and nothing has been done."""
        try:
            windows, _ = windows_of(schedule, self._topology, laid)
        except TdmError as error:
            return Refused(accepted[-1], str(error))
        planned: dict[str, Sequence[Proposal]] = {}
        moved: dict[str, Sequence[Proposal]] = {}
        new: list[Admitted] = []
        row = accepted[-1]
        try:
            for name in [plan.job for plan in schedule.jobs]:
                if found := self._moved(name, windows, planned):
                    moved[name] = planned[name] = found
            for row in accepted:
                one = self._admitted(row, schedule, windows, planned)
                new.append(one)
                planned[row.name] = one.proposals
        except (StoreError, sqlite3.Error):
            raise
        except Exception as error:  # a policy, a planner or a task that nobody thought of
            self._installer.withdraw([proposal for own in planned.values() for proposal in own])
            for other in accepted:
                self._computing.release(other.name)
            known = isinstance(error, PlanError)
            return Refused(row, one_line(error) if known else _bug("planned", error), fault=not known)
        self._carry_out(schedule, windows, new, moved)
        return None

    @staticmethod
    def _placed(row: TaskRow, schedule: Schedule) -> Task:
        """The task at its hosts."""
        if row.task.wanted is None:
            return row.task
        server, workers = hosts_of(schedule.plan(row.name), schedule.network)
        return replace(row.task, server=server, workers=workers, wanted=None)

    def _admitted(
        self,
        row: TaskRow,
        schedule: Schedule,
        windows: Sequence[TurnWindow],
        planned: Mapping[str, Sequence[Proposal]],
    ) -> Admitted:
        task = self._placed(row, schedule)
        placement = None
        if row.task.wanted is not None:
            placement = Placement(task.workers, task.server, {"schedule": schedule.policy})
        state = self.holding.state(row.name, windows, planned)
        decision = self._policy(task, state, lanes=self._lanes)
        self._computing.place(task)
        beside = [one for own in planned.values() for one in own]
        proposals = self._installer.propose(decision, state.topology, beside)
        try:
            order_of(task, {one.role: one.plan for one in proposals}, self._computing)  # can it be run at all?
        except BaseException:
            self._installer.withdraw(proposals)
            raise
        return Admitted(row, task, placement, proposals)

    def _moved(
        self, name: str, windows: Sequence[TurnWindow], planned: Mapping[str, Sequence[Proposal]]
    ) -> list[Proposal]:
        """Other trees for a running task whose circuits would not be where they were."""
        rows = self._store.plans((Phase.ACTIVE,), name)
        lit = {link for window in windows if name in window.tasks for link in window.circuits}
        if not rows or all(set(circuits_of(self._installer.plan_of(row))) <= lit for row in rows):
            return []
        state = self.holding.state(name, windows, planned)
        switches = any(self._installer.plan_of(row).in_network for row in rows)
        task = replace(self._store.task(name).task, aggregation="switches" if switches else "hosts")
        decision = self._policy(task, state, lanes=self._lanes)
        found = self._installer.propose_next(decision, rows, state, must=True)
        for one, row in zip(found, rows, strict=True):
            old = self._installer.plan_of(row)
            if (old.slots, old.in_network) != (one.plan.slots, one.plan.in_network):
                self._installer.withdraw(found)
                raise PlanError(f"task {name}: its hosts cannot change to a {one.plan.name} plan on the way")
        return found

    def _carry_out(
        self,
        schedule: Schedule,
        windows: Sequence[TurnWindow],
        new: Sequence[Admitted],
        moved: Mapping[str, Sequence[Proposal]],
    ) -> None:
        """Step after step, each written down."""
        now = self._executor.now()
        with self._store.transaction():
            number = self._store.schedules.next_number()
            self._store.schedules.add(number, schedule, windows, now)
            for one in new:
                self._store.change(one.row.name, TaskState.SCHEDULED, now)
                self._installer.intend(one.row.name, one.proposals, now)
                if one.placement is not None:
                    self._store.place(one.row.name, one.placement.workers, one.placement.server)
                self._store.history.add_decision(
                    now, one.row.name, "schedule", self._name, self._why(number, schedule, one)
                )
            for name, proposals in moved.items():
                self._installer.intend(name, proposals, now)
                for proposal in proposals:
                    self._store.history.add_swap(
                        name,
                        proposal.role,
                        proposal.plan.job,
                        proposal.plan.epoch,
                        at_ps=now,
                        cause=f"circuits of schedule {number}",
                        saving_bytes=0,
                        cost_bytes=0,
                    )
        self._installer.checkpoint("intended schedule")
        everybody = {**moved, **{one.row.name: one.proposals for one in new}}
        for name, reason in self._installer.install_all(everybody).items():
            if name in moved:  # it cannot come along
                self.drop(f"trees of {name} could not be installed: {reason}")
                return
            self._fail(name, f"its trees could not be installed: {reason}")
        self._set(number, schedule, windows)
        if not self.changing and self.holding.number() != number:
            return  # refused
        for one in new:
            if self._store.task(one.row.name).state is TaskState.SCHEDULED:
                order = order_of(one.task, {each.role: each.plan for each in one.proposals}, self._computing)
                try:
                    self._installer.begin(replace(order, schedule=number))
                except RefusedError as error:
                    self._fail(one.row.name, f"its hosts cannot run it: {one_line(error)}")
                    continue
                self._started(one.task)

    def _why(self, number: int, schedule: Schedule, one: Admitted) -> dict[str, object]:
        plan = schedule.plan(one.row.name)
        return {
            "round_bytes": sum(round_bytes(one.task, each.role, each.plan) for each in one.proposals),
            "schedule": number,
            "scheduler": schedule.policy,
            "group": plan.process + 1,
            "planned_round_ps": round(schedule.round_s * PS_PER_S),
        }

    def _set(self, number: int, schedule: Schedule, windows: Sequence[TurnWindow]) -> None:
        """The executor gets it; where it refuses, all is taken back."""
        moved: dict[str, dict[Role, Plan]] = {}
        for row in self._store.plans((Phase.INSTALLED,)):
            if self._store.task(row.task).state in AT_WORK:
                moved.setdefault(row.task, {})[row.role] = self._installer.plan_of(row)
        live = (*_OPENING, Phase.ACTIVE)
        guard_ps = least_guard_ps(self._installer.plan_of(row) for row in self._store.plans(live))
        delta_ps = round(schedule.network.delta_s * PS_PER_S)
        try:
            self._executor.set_schedule(Timetable(number, tuple(windows), delta_ps, guard_ps, moved))
        except RefusedError as error:
            self.drop(f"the executor refuses its schedule: {one_line(error)}", fails=True)
            return
        self._installer.checkpoint("set schedule")
        with self._store.transaction():
            self._store.schedules.set_phase(number, SchedulePhase.SET)
        self._installer.checkpoint("recorded schedule")

    def began(self, number: int, at_ps: int) -> None:
        """A schedule holds: running tasks are on the trees that came with it. Within the transaction of its report."""
        self._store.schedules.begin(number, at_ps)
        for task in self._store.tasks(AT_WORK):
            rows = self._store.plans((Phase.INSTALLED,), task.name)
            for old in self._store.plans((Phase.ACTIVE,), task.name):
                if old.role in {row.role for row in rows}:
                    self._store.set_phase(old.generation, Phase.REMOVING)
            for row in rows:
                self._store.set_phase(row.generation, Phase.ACTIVE)
            if rows:
                self._store.change(task.name, TaskState.RESCHEDULED, at_ps, f"circuits of schedule {number}")

    # --- what is taken back

    def drop(self, reason: str, *, fails: bool = False) -> None:
        """The schedule that is on its way never comes; its new tasks wait again, or fail."""
        row = self._store.schedules.open()
        scheduled = self._store.tasks([TaskState.SCHEDULED])
        now = self._executor.now()
        with self._store.transaction():
            if row is not None:
                self._store.schedules.set_phase(row.number, SchedulePhase.DROPPED)
            for plan in self._store.plans(_OPENING):
                if self._store.task(plan.task).state not in ENDED:
                    self._store.set_phase(plan.generation, Phase.REMOVING)
                    self._store.history.drop_swap(plan.job, plan.epoch)
            for task in scheduled:
                self._store.change(task.name, TaskState.FAILED if fails else TaskState.QUEUED, now, reason)
        for task in scheduled:
            self._computing.release(task.name)
        self._installer.checkpoint("took back")

    def recover(self, inventory: Inventory) -> None:
        """A schedule that was on its way when the orchestrator ended is set, or taken back."""
        row = self._store.schedules.open()
        if row is None:
            return
        turn = self._executor.turn()
        if row.number in (turn.schedule, turn.waiting):
            if row.phase is SchedulePhase.INSTALLING:
                with self._store.transaction():
                    self._store.schedules.set_phase(row.number, SchedulePhase.SET)
                self._installer.checkpoint("recorded schedule")
            return
        plans = [plan for plan in self._store.plans(_OPENING) if self._store.task(plan.task).state not in ENDED]
        windows = self.holding.windows(row.number)
        if row.schedule is None or not self._everybody(row.schedule, windows, plans):
            self.drop("its schedule in the database is damaged")
            return
        if not all(inventory.complete(self._installer.plan_of(plan)) for plan in plans):
            self.drop("the orchestrator ended before all trees of its schedule were installed")
            return
        with self._store.transaction():
            for plan in plans:
                self._store.set_phase(plan.generation, Phase.INSTALLED)
        self._set(row.number, row.schedule, windows)

    def _everybody(self, schedule: Schedule, windows: Sequence[TurnWindow], plans: Sequence[PlanRow]) -> bool:
        """Whether each task of a schedule has a turn, once, with the circuits of the trees that are to be installed."""
        lit = {name: set(window.circuits) for window in windows for name in window.tasks}
        if sorted(name for window in windows for name in window.tasks) != sorted(plan.job for plan in schedule.jobs):
            return False
        return all(set(circuits_of(self._installer.plan_of(plan))) <= lit.get(plan.task, set()) for plan in plans)


def _bug(what: str, error: Exception) -> str:
    return f"it could not be {what}: {type(error).__name__}: {one_line(error)}"
