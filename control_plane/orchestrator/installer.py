"""Plans of tasks, into switches and out again: every step is written down before it is taken."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from p4reduce.base.safe_yaml import one_line
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.entries import plan_entries
from p4reduce.control_plane.errors import ControllerError, PlanError
from p4reduce.control_plane.orchestrator.errors import RefusedError
from p4reduce.control_plane.orchestrator.executor import Executor, Order, Role
from p4reduce.control_plane.orchestrator.inventory import Inventory
from p4reduce.control_plane.orchestrator.options import Options
from p4reduce.control_plane.orchestrator.plan_json import plan_from_json, plan_to_json
from p4reduce.control_plane.orchestrator.rows import PlanRow
from p4reduce.control_plane.orchestrator.selecting import Choice
from p4reduce.control_plane.orchestrator.states import Phase, TaskState
from p4reduce.control_plane.orchestrator.store import Store
from p4reduce.control_plane.orchestrator.tradeoff import TradeOff
from p4reduce.control_plane.placement import Placement
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.plans.make import PlanRequest, window_range
from p4reduce.control_plane.scheduling import Decision, copies, plan_requests
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.topologies import Topology, format_rate
from p4reduce.topologies.model import Hop


@dataclass(frozen=True)
class Proposal:
    """A plan that has its resources and is not installed; ``demand_bps`` is what its links are to keep for it."""

    role: Role
    plan: Plan
    demand_bps: Mapping[Hop, int]


class InstallError(RuntimeError):
    """The trees of a task could not all be installed; the text says why. They are to be removed."""


class Installer:
    """The only one that writes to switches for tasks.

    From the intent to its removal a plan keeps what it was granted, and is among the controller's installed ones,
    however much of it is in switches: nobody else gets a slot, a group or a counter cell that a switch may still use.
    """

    def __init__(
        self,
        store: Store,
        controller: Controller,
        executor: Executor,
        checkpoint: Callable[[str], None],
        options: Options,
    ) -> None:
        self.store = store
        self.controller = controller
        self.executor = executor
        self.checkpoint = checkpoint
        self.options = options
        self._stuck: dict[int, tuple[str, int]] = {}  # generation -> why it could not be removed, and when to try again
        self._plans: dict[int, Plan] = {}  # by generation, those that are not removed
        self._sweep_at: int | None = None

    # --- planning

    def propose(
        self,
        decision: Decision,
        view: Topology | None = None,
        beside: Sequence[Proposal] = (),
        *,
        whole: bool = False,
    ) -> list[Proposal]:
        """Plans for a new task; :meth:`withdraw` or install them. `PlanError`: nothing is taken.

        view: what of the topology is lit for it (:func:`~p4reduce.topologies.optical.view`). beside: other plans that
        are not written down yet. whole: with slots that keep its trees' links busy, or not at all; else the fullest
        switch may give fewer.
        """
        requests = plan_requests(decision, job=0)
        roles: tuple[Role, ...] = ("both",) if len(requests) == 1 else ("upload", "broadcast")
        taken = {proposal.plan.job for proposal in beside}
        keys = [key for key in self.store.free_keys(len(requests) + len(taken)) if key[0] not in taken][: len(requests)]
        named = [
            (role, replace(request, job=job, epoch=epoch))
            for role, request, (job, epoch) in zip(roles, requests, keys, strict=True)
        ]
        return self._whole(decision, named, view) if whole else self._plan(decision, named, view)

    def _whole(
        self, decision: Decision, requests: Sequence[tuple[Role, PlanRequest]], view: Topology | None
    ) -> list[Proposal]:
        """Plans with as many slots as are free, but enough to keep their links busy."""
        topology, lanes = view or self.controller.topology, self.controller.program.lanes
        plain = [(role, replace(one, max_slots=None, lanes=lanes)) for role, one in requests]
        ranges = [window_range(topology, one) for _, one in plain]
        shrunk = 0
        while True:
            windows = [max(least, most >> shrunk) for least, most in ranges]
            try:
                sized = [(role, replace(one, window=size)) for (role, one), size in zip(plain, windows, strict=True)]
                return self._plan(decision, sized, view)
            except PlanError:
                if windows == [least for least, _ in ranges]:
                    raise
            shrunk += 1

    def propose_next(
        self, decision: Decision, rows: Sequence[PlanRow], state: NetworkState, *, must: bool
    ) -> list[Proposal]:
        """Plans for the next epochs of a task's jobs, with as many slots as they have: windows cannot change.

        A job that does both directions keeps doing both, on that tree of the two in which less bandwidth is missing.
        ``state`` is the network without the task. `PlanError` where bandwidth is missing, unless it ``must`` go on
        another tree.
        """
        requests = plan_requests(decision, job=0)

        def missing(request: PlanRequest) -> dict[Hop, int]:
            demand = self._demand(decision, "both", request, state.topology)
            return {hop: bps - left for hop, bps in demand.items() if bps > (left := state.residual_bps(hop))}

        wanted: list[tuple[Role, PlanRequest]] = []
        for row in rows:
            old = self.plan_of(row)
            choices = {"upload": requests[:1], "broadcast": requests[-1:], "both": requests}[row.role]
            request = min(choices, key=lambda choice: sum(missing(choice).values()))
            if row.role == "both" and not must and (short := missing(request)):
                (node, port), bps = next(iter(short.items()))
                left = state.residual_bps((node, port))
                raise PlanError(
                    f"task {decision.task.name}: one tree for both directions: link {node} -> "
                    f"{state.topology.neighbour(node, port)} has {format_rate(left)}b/s left, "
                    f"{format_rate(left + bps)}b/s are needed"
                )
            window = old.slots // 2 if old.in_network else old.window
            epoch = self.store.next_epoch(row.job)
            wanted.append((row.role, replace(request, job=row.job, epoch=epoch, window=window)))
        return self._plan(decision, wanted, state.topology)

    def _plan(
        self, decision: Decision, requests: Sequence[tuple[Role, PlanRequest]], view: Topology | None
    ) -> list[Proposal]:
        topology = self.controller.topology if view is None else view
        proposals: list[Proposal] = []
        try:
            for role, request in requests:
                plan = self.controller.plan(request, topology)
                proposals.append(Proposal(role, plan, self._demand(decision, role, request, topology)))
        except BaseException:
            self.withdraw(proposals)
            raise
        return proposals

    @staticmethod
    def _demand(decision: Decision, role: Role, request: PlanRequest, topology: Topology) -> dict[Hop, int]:
        task, found = decision.task, dict[Hop, int]()
        if task.reserved_bps and request.layout is not None:
            for direction in ("upload", "broadcast") if role == "both" else (role,):
                for hop, times in copies(task, topology, request.layout, direction).items():
                    found[hop] = found.get(hop, 0) + times * task.reserved_bps
        return found

    def withdraw(self, proposals: Sequence[Proposal]) -> None:
        """Give back what plans took that are not to be installed."""
        for proposal in proposals:
            self.controller.release(proposal.plan)

    def plan_of(self, row: PlanRow) -> Plan:
        """The plan of a row, the same object as long as it is not removed; any kind of error where it is damaged."""
        plan = self._plans.get(row.generation)
        if plan is None:
            plan = plan_from_json(self.controller.topology, row.plan)
            if (plan.generation, plan.job, plan.epoch) != (row.generation, row.job, row.epoch):
                raise ValueError("it is that of another job, epoch or generation")
            self._plans[row.generation] = plan
        return plan

    def adopt(self, row: PlanRow) -> Plan:
        """Take charge of a plan of an earlier orchestrator; any kind of error where that is not possible."""
        try:
            plan = self.plan_of(row)
            plan_entries(plan)  # what is damaged fails here, before anything is taken
            self.controller.adopt(plan)
        except BaseException:
            self._plans.pop(row.generation, None)
            raise
        return plan

    # --- a task's first trees

    def install_first(
        self,
        task: str,
        proposals: Sequence[Proposal],
        policy: str,
        why: Mapping[str, Any],
        choice: Choice | None = None,
        placement: Placement | None = None,
    ) -> None:
        """Install the trees of a queued task, which is scheduled then; ``choice``: for those of its workers.

        ``placement``: at these hosts.

        `InstallError`: they are to be removed again, and the task is still scheduled.
        """
        now = self.executor.now()
        with self.store.transaction():
            self.store.change(task, TaskState.SCHEDULED, now)
            self.intend(task, proposals, now)
            if placement is not None:
                self.store.place(task, placement.workers, placement.server)
                self.store.history.add_decision(now, task, "place", policy, placement.why)
            if choice is not None:
                self.store.choose(task, choice.task.workers)
                self.store.history.add_decision(now, task, "select", policy, choice.why)
            self.store.history.add_decision(now, task, "schedule", policy, why)
        self.checkpoint("intended")
        self.install(proposals)

    def begin(self, order: Order) -> None:
        """Have hosts begin with a scheduled task whose trees are all in; `RefusedError` when they cannot."""
        name = order.task.name
        self.executor.start(order)
        self.checkpoint("started")
        with self.store.transaction():
            if order.attempt:
                self.store.history.drop_rounds(name, self.executor.running([name])[name].round)
            for plan in order.plans.values():
                self.store.set_phase(plan.generation, Phase.ACTIVE)
            self.store.change(name, TaskState.RUNNING, self.executor.now())
        self.checkpoint("recorded start")

    # --- other trees for a running task

    def swap(self, task: str, proposals: Sequence[Proposal], policy: str, *, cause: str, trade_off: TradeOff) -> None:
        """Install the next epochs, change over, and leave the old ones to :meth:`clean`.

        `InstallError`: the old trees go on, the new ones are to be removed.
        """
        now = self.executor.now()
        with self.store.transaction():
            self.intend(task, proposals, now)
            self.store.history.add_decision(now, task, "swap", policy, {"cause": cause, **trade_off.as_data()})
            for proposal in proposals:
                share = trade_off.saving_bytes if proposal is proposals[0] else 0
                cost = trade_off.cost_bytes if proposal is proposals[0] else 0
                self.store.history.add_swap(
                    task,
                    proposal.role,
                    proposal.plan.job,
                    proposal.plan.epoch,
                    at_ps=now,
                    cause=cause,
                    saving_bytes=share,
                    cost_bytes=cost,
                )
        self.checkpoint("intended swap")
        try:
            self.install(proposals)
        except InstallError:
            self.give_up(proposal.plan for proposal in proposals)
            raise
        self.change_over(task, {proposal.role: proposal.plan for proposal in proposals})

    def change_over(self, task: str, plans: Mapping[Role, Plan]) -> None:
        """Hosts of a running task go on in epochs that are installed; the epochs from before are to be removed."""
        run = self.executor.running([task]).get(task)
        if run is None or run.ended:
            self.give_up(plans.values())  # its end will be reported
            return
        try:
            self.executor.swap(task, plans)
        except RefusedError as error:
            self.give_up(plans.values())
            raise InstallError(str(error)) from None
        self.checkpoint("swapped")
        with self.store.transaction():
            for row in self.store.plans((Phase.ACTIVE,), task):
                if row.role in plans:
                    self.store.set_phase(row.generation, Phase.REMOVING)
            for plan in plans.values():
                self.store.set_phase(plan.generation, Phase.ACTIVE)
            self.store.change(task, TaskState.RESCHEDULED, self.executor.now())
        self.checkpoint("recorded swap")

    # --- steps of both

    def intend(self, task: str, proposals: Sequence[Proposal], at_ps: int) -> None:
        """Write down what is about to be installed. Within a transaction."""
        for proposal in proposals:
            plan = proposal.plan
            row = PlanRow(
                generation=plan.generation,
                task=task,
                role=proposal.role,
                job=plan.job,
                epoch=plan.epoch,
                phase=Phase.INSTALLING,
                demand_bps=proposal.demand_bps,
                plan=plan_to_json(plan),
            )
            self.store.add_plan(row, at_ps)
            self._plans[plan.generation] = plan

    def install_all(self, proposals: Mapping[str, Sequence[Proposal]]) -> dict[str, str]:
        """Install the trees of several tasks, which are intended; why not, of those that a switch refuses."""
        failed = {}
        self._wait()
        for task, own in proposals.items():
            try:
                self._write(own)
            except InstallError as error:
                failed[task] = str(error)
        return failed

    def install(self, proposals: Sequence[Proposal]) -> None:
        """Install what was intended; `InstallError`: it is to be removed again."""
        self._wait()
        self._write(proposals)

    def _write(self, proposals: Sequence[Proposal]) -> None:
        for proposal in proposals:
            try:
                self.controller.install(proposal.plan)
            except Exception as error:  # entries that cannot even be written down are this task's fault, too
                known = {plan.generation for plan in self.controller.installed}
                for plan in (one.plan for one in proposals):
                    if plan.generation not in known:
                        self.controller.release(plan)  # and take it again, as one that may be in switches
                        self.controller.adopt(plan)
                raise InstallError(one_line(error)) from None
            self.checkpoint(f"installed {proposal.role}")
        with self.store.transaction():
            for proposal in proposals:
                self.store.set_phase(proposal.plan.generation, Phase.INSTALLED)
        self.checkpoint("recorded installation")

    def give_up(self, plans: Iterable[Plan]) -> None:
        """Plans that no host uses, nor will: whatever is in switches of them is to be removed."""
        with self.store.transaction():
            for plan in plans:
                self.store.set_phase(plan.generation, Phase.REMOVING)
                self.store.history.drop_swap(plan.job, plan.epoch)

    def clean(self) -> int:
        """Remove what is to be removed; what a switch does not let go of is tried again later. How many were removed"""
        removed = 0
        rows = [row for row in self.store.plans((Phase.REMOVING,)) if self._is_due(row)]
        if rows:
            self._wait()
        for row in rows:
            plan = self.plan_of(row)
            try:
                self.controller.uninstall(plan)
            except Exception as error:  # whatever is in the way of one plan, the others go
                self._note_stuck(row, one_line(error))
                continue
            self.checkpoint("uninstalled")
            self._stuck.pop(row.generation, None)
            self._plans.pop(row.generation, None)
            self.store.set_phase(row.generation, Phase.REMOVED)
            self.checkpoint("recorded removal")
            removed += 1
        if self._sweep_at is not None and self.executor.now() >= self._sweep_at:
            self.sweep()
        return removed

    def _is_due(self, row: PlanRow) -> bool:
        return row.generation not in self._stuck or self.executor.now() >= self._stuck[row.generation][1]

    def sweep(self, found: Inventory | None = None) -> None:
        """Remove the entries of switches that belong to no plan; where a switch refuses, again after a while."""
        found = found or Inventory.read(self.controller)
        self._sweep_at = None
        for switch, entries in found.strangers(self.controller.installed).items():
            try:
                self.controller.delete(switch, entries)
            except ControllerError as error:
                now = self.executor.now()
                self._sweep_at = now + self.options.measure_every_ps
                why = {"switch": switch, "entries": len(entries), "reason": one_line(error)}
                with self.store.transaction():
                    self.store.history.add_decision(now, None, "cannot sweep", "", why)

    def _note_stuck(self, row: PlanRow, reason: str) -> None:
        now = self.executor.now()
        if self._stuck.get(row.generation, ("", 0))[0] != reason:
            with self.store.transaction():
                self.store.history.add_decision(
                    now, row.task, "cannot remove", "", {"job": row.job, "epoch": row.epoch, "reason": reason}
                )
        self._stuck[row.generation] = (reason, now + self.options.measure_every_ps)

    def _wait(self) -> None:
        """What is decided now takes effect after the control latency."""
        self.executor.advance(self.executor.now() + self.options.control_latency_ps)
