"""Installs and removes the plans of tasks in switches; every step is recorded before it is taken."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from zlib import crc32

import finsy as fy
import numpy as np
from finsy.p4entity import P4Entity

from p4reduce.base.errors import ControllerError, P4ReduceError, PlanError
from p4reduce.base.records import from_json, to_json, to_plain
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.counters import Operation, Traffic, add, predict
from p4reduce.control_plane.entries import PLAN_TABLES, Entity, key, plan_entries, wildcards
from p4reduce.control_plane.orchestrator.executor import (
    ComputingManager,
    Executor,
    Read,
    Role,
    TaskOrder,
    read_roles,
    roles,
)
from p4reduce.control_plane.orchestrator.history import PlanRow, TaskRow
from p4reduce.control_plane.orchestrator.options import OrchestratorOptions, PlanPhase, TaskRefusedError, TaskState
from p4reduce.control_plane.orchestrator.store import Store
from p4reduce.control_plane.placement import Placement
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.plans.make import PlanRequest, window_range
from p4reduce.control_plane.scheduling import copies, plan_requests
from p4reduce.control_plane.scheduling.task import CHOOSERS, Budget, Selection, Task
from p4reduce.control_plane.scheduling.view import DIRECTIONS, NetworkState, Policy, TreeDecision, consumed
from p4reduce.topologies import Topology, format_rate
from p4reduce.topologies.model import Hop
from p4switch.base.values import one_line

# Comparison of the entries in switches, read over P4Runtime, with the plans.


Key = tuple[object, ...]


class InstalledEntries:
    """All entries of the plans' tables and multicast groups in the switches at one time."""

    def __init__(self, by_switch: Mapping[str, Iterable[P4Entity]]) -> None:
        self._entries: dict[str, dict[Key, Entity]] = {
            switch: {key(entry): entry for entry in entries if isinstance(entry, Entity)}
            for switch, entries in by_switch.items()
        }

    @classmethod
    def read(cls, controller: Controller) -> "InstalledEntries":
        """Read all switches; `ControllerError` names a switch that does not answer."""
        return cls(controller.read([*wildcards(PLAN_TABLES), fy.P4MulticastGroupEntry()]))

    def complete(self, plan: Plan) -> bool:
        """Whether every entry of a plan is in its switch, except the traffic class, which the epochs of a job share."""
        return all(
            key(entry) in self._entries.get(switch, {})
            for switch, entries in plan_entries(plan).items()
            for entry in (*entries.prepare, *entries.activate)
        )

    def strangers(self, plans: Iterable[Plan]) -> dict[str, list[Entity]]:
        """Entries that belong to none of these plans, by switch, in an order in which they can be removed."""
        known: dict[str, set[Key]] = {}
        jobs: set[int] = set()
        for plan in plans:
            jobs.add(plan.job)
            for switch, entries in plan_entries(plan).items():
                known.setdefault(switch, set()).update(map(key, (*entries.activate, *entries.prepare)))
        strangers: dict[str, list[Entity]] = {}
        for switch, present in self._entries.items():
            extra = [entry for name, entry in present.items() if name not in known.get(switch, set())]
            extra = [entry for entry in extra if not _classifies(entry, jobs)]
            if extra:
                strangers[switch] = sorted(extra, key=_order)
        return strangers


def _classifies(entry: Entity, jobs: set[int]) -> bool:
    """Whether an entry is the traffic class of one of these jobs."""
    if not isinstance(entry, fy.P4TableEntry) or entry.match is None or key(entry)[0] != "traffic_class":
        return False
    match: Any = key(entry)[2:]
    return dict(match).get("job") in {(job, 0xFFFF) for job in jobs}


def _order(entry: Entity) -> int:
    """Position in the order of removal: table `job` first, because it admits packets."""
    table = key(entry)[0]
    return PLAN_TABLES.index(str(table)) if table in PLAN_TABLES else len(PLAN_TABLES)


# Whether to swap the tree of a running task: the savings of the new tree, against the cost of the interruption.


@dataclass(frozen=True)
class TradeOff:
    """The savings and the cost of a swap in the same unit: bytes, summed over all links.

    Attributes
    ----------
    saving_bytes : int
        (bytes of a round on the old trees - bytes of a round on the new trees) * remaining rounds.
    cost_bytes : int
        A window of full frames on every hop of each changed tree, up and down: upper bound on the bytes sent again.
    threshold : float
        The saving must exceed this many times the cost.
    """

    saving_bytes: int
    cost_bytes: int
    remaining_rounds: int
    threshold: float

    @property
    def worthwhile(self) -> bool:
        """Whether the saving exceeds the threshold times the cost."""
        return self.saving_bytes > self.threshold * self.cost_bytes

    def as_data(self) -> dict[str, Any]:
        """The fields and the verdict as plain data, for the database."""
        return {**to_plain(self), "worthwhile": self.worthwhile}


def weigh(task: Task, pairs: Sequence[tuple[Role, Plan, Plan]], remaining_rounds: int, threshold: float) -> TradeOff:
    """Compare old and new trees of a task, given as (role, old plan, new plan)."""
    saving = sum(round_bytes(task, role, old) - round_bytes(task, role, new) for role, old, new in pairs)
    cost = sum(interruption_bytes(new) for _, old, new in pairs if not same_tree(old, new))
    return TradeOff(saving * remaining_rounds, cost, remaining_rounds, threshold)


def round_bytes(task: Task, role: Role, plan: Plan) -> int:
    """Bytes that one round of a job sends over all links together, without repetitions."""
    return sum(traffic.bytes for traffic in round_traffic(task, role, plan).values())


def round_traffic(task: Task, role: Role, plan: Plan) -> Mapping[Hop, Traffic]:
    """Traffic of one round of a job on every directed link."""
    operations = {"both": Operation.PUSH_PULL, "upload": Operation.PUSH, "broadcast": Operation.PULL}
    if task.serving is not None:
        return predict(plan, Operation.PULL, task.elements)
    if plan.mesh:
        once = predict(plan, Operation.ALL_TO_ALL, task.elements * len(plan.workers), lead=0)
        return add(once, once)
    operation = Operation.ALL_REDUCE if plan.exchanged else operations[role]
    part = plan.part_of(task.elements)
    return predict(plan, operation, part.stop - part.start) if part.stop > part.start else {}


def interruption_bytes(plan: Plan) -> int:
    """Upper bound on the bytes that a change of epoch sends again: a window of full frames on each hop of all paths."""
    hops = sum(len(path) - 1 for path in plan.paths.values())
    return hops * plan.window * plan.frame_bytes


def same_tree(old: Plan, new: Plan) -> bool:
    """Whether two plans send everything over the same edges and paths."""
    return old.edges == new.edges and dict(old.paths) == dict(new.paths)


# Selection of local models: the workers of a task that take part, chosen when the task is admitted.


_NO_TREE: Final = 1 << 62
"""copies that exceed any budget"""


@dataclass(frozen=True)
class TreeChoice:
    """The result of a selection: the task with the chosen workers, their trees, and the reasons."""

    task: Task
    decision: TreeDecision
    why: dict[str, Any]


@dataclass(frozen=True)
class _Model:
    host: str
    usefulness: float


class Selector:
    """Chooses among the workers of tasks; the same task in the same network gives the same choice."""

    def __init__(self, policy: Policy, computing: ComputingManager, lanes: int) -> None:
        self._policy = policy
        self._computing = computing
        self._lanes = lanes

    def fault(self, task: Task) -> str:
        """Reason why no choice of workers will ever be possible; '' if one may be. The task's hosts must exist."""
        if task.select is not None and task.select.how == "useful":
            known = dict(task.select.utilities)
            for worker in task.workers:
                if worker not in known and self._computing.utility(worker) is None:
                    return (
                        f"select: how useful the data of {worker} are is not known; say so in the task's "
                        "select.utilities, or as utility in the file for --hosts"
                    )
        return ""

    def choose(self, task: Task, select: Selection, state: NetworkState) -> TreeChoice:
        """Choose workers in the present network.

        The budget is a share of the cost of all workers in an empty network; candidates cost what the policy's trees
        cost in the present network. Hosts that train their largest number of models are not candidates.

        Raises
        ------
        PlanError
            No worker fits now.
        """
        trees = _Trees(self._policy, task, state, self._lanes)
        everyone = trees.of_all_when_empty()
        allowed = everyone if select.budget is None else round(select.budget * everyone)
        full = [] if select.how == "all" else [host for host in task.workers if self._computing.is_full(host)]
        models = [self._model(select, host) for host in task.workers if host not in full]
        # The generator depends on the task alone, so the choice does not depend on earlier choices.
        random = np.random.Generator(np.random.Philox(key=[select.seed, crc32(task.name.encode())]))
        members = CHOOSERS[select.how](models, Budget(allowed, trees.cost), random)
        chosen = trees.in_order([model.host for model in members])
        left = [host for host in task.workers if host not in chosen]
        if not chosen:
            reasons = "; ".join(self._why_not(trees, [], host, allowed) for host in left[:1])
            raise PlanError(f"select: no local model fits: {left[0]}: {reasons}")
        why: dict[str, Any] = {"how": select.how, "chosen": list(chosen)}
        if select.budget is not None:
            why |= {"budget": select.budget, "copies": trees.cost(chosen), "allowed": allowed}
        why["copies_of_all"] = everyone
        if select.how == "random":
            why["seed"] = select.seed
        if select.how == "useful":
            why["utilities"] = {model.host: model.usefulness for model in models}
        if left:
            why["left_out"] = {host: self._why_not(trees, chosen, host, allowed) for host in left}
        return TreeChoice(replace(task, workers=chosen, select=None), trees.decision(chosen), why)

    def _model(self, select: Selection, host: str) -> _Model:
        utility = dict(select.utilities).get(host)
        return _Model(host, (self._computing.utility(host) or 0.0) if utility is None else utility)

    def _why_not(self, trees: "_Trees", chosen: Sequence[str], host: str, allowed: int) -> str:
        if self._computing.is_full(host):
            return "trains its most already"
        cost = trees.cost([*chosen, host])
        if cost >= _NO_TREE:
            return trees.refusal([*chosen, host])
        return f"{cost} copies, {allowed} are allowed"


class _Trees:
    """The policy's answers for subsets of a task's workers; each subset is computed once."""

    def __init__(self, policy: Policy, task: Task, state: NetworkState, lanes: int) -> None:
        self._policy, self._task, self._state, self._lanes = policy, task, state, lanes
        self._found: dict[tuple[str, ...], tuple[int, TreeDecision | str]] = {}

    def in_order(self, hosts: Sequence[str]) -> tuple[str, ...]:
        """These hosts in the task's order, which is the order of ranks."""
        return tuple(worker for worker in self._task.workers if worker in hosts)

    def of_all_when_empty(self) -> int:
        """Copies of a frame on links, up and down, with all workers in a network without other tasks."""
        task = replace(self._task, select=None, demand_bps=0)
        empty = NetworkState(self._state.topology)
        return consumed(self._policy(task, empty, lanes=self._lanes), self._state.topology)

    def cost(self, hosts: Sequence[str]) -> int:
        """Copies of a frame on links, up and down, in the present network; more than any budget without a tree."""
        return self._ask(hosts)[0]

    def decision(self, hosts: Sequence[str]) -> TreeDecision:
        """The trees for these hosts; `PlanError` if there are none."""
        answer = self._ask(hosts)[1]
        if isinstance(answer, str):
            raise PlanError(answer)
        return answer

    def refusal(self, hosts: Sequence[str]) -> str:
        """Reason why there are no trees for these hosts."""
        return str(self._ask(hosts)[1])

    def _ask(self, hosts: Sequence[str]) -> tuple[int, TreeDecision | str]:
        workers = self.in_order(hosts)
        if workers not in self._found:
            task = replace(self._task, workers=workers, select=None)
            try:
                decision = self._policy(task, self._state, lanes=self._lanes)
                self._found[workers] = consumed(decision, self._state.topology), decision
            except PlanError as error:
                self._found[workers] = _NO_TREE, one_line(error)
        return self._found[workers]


@dataclass(frozen=True)
class Proposal:
    """A plan that has its resources and is not installed; ``demand_bps`` is the rate to reserve for it on each link."""

    role: Role
    plan: Plan
    demand_bps: Mapping[Hop, int]


class InstallError(P4ReduceError, RuntimeError):
    """The trees of a task could not all be installed, for the reason in the message. They must be removed."""


class Installer:
    """The only writer to switches for tasks.

    A plan keeps its resources from its intent to its removal, even while only a part of its entries is in switches: no
    other plan gets a slot, a group or a counter cell that a switch may still use.
    """

    def __init__(
        self,
        store: Store,
        controller: Controller,
        executor: Executor,
        checkpoint: Callable[[str], None],
        options: OrchestratorOptions,
    ) -> None:
        self.store = store
        self.controller = controller
        self.executor = executor
        self.checkpoint = checkpoint
        self.options = options
        self._stuck: dict[int, tuple[str, int]] = {}  # generation -> reason why removal failed, time in ps to retry
        self._plans: dict[int, Plan] = {}  # by generation, plans that are not removed
        self._sweep_at: int | None = None

    # --- planning

    def propose(
        self,
        decision: TreeDecision,
        view: Topology | None = None,
        beside: Sequence[Proposal] = (),
        *,
        whole: bool = False,
        pace_ps: int | None = None,
    ) -> list[Proposal]:
        """Plan a new task; the plans are to be installed or withdrawn. `PlanError`: nothing is taken.

        view: the lit part of the topology (:func:`~p4reduce.topologies.optical.view`). beside: other plans that are not
        recorded yet. whole: require slots that keep the trees' links busy; otherwise the fullest switch may give fewer.
        pace_ps: least time between chunks of a worker.
        """
        requests = plan_requests(decision, job=0)
        keys = self._keys(len(requests), beside)
        named = [
            (role, replace(request, job=job, epoch=epoch, pace_ps=pace_ps or request.pace_ps))
            for role, request, (job, epoch) in zip(
                roles(len(requests), trees=bool(decision.parts)), requests, keys, strict=True
            )
        ]
        return self._whole(decision, named, view) if whole else self._plan(decision, named, view)

    def propose_reads(
        self, ways: Sequence[Read], views: Sequence[Topology], beside: Sequence[Proposal]
    ) -> list[Proposal]:
        """Plan the reads of a task, one plan for each home and reader in its view. `PlanError`: nothing is taken."""
        lanes, proposals = self.controller.program.lanes, list[Proposal]()
        keys = self._keys(len(ways), beside)
        try:
            for role, (home, reader, _), view, (job, epoch) in zip(
                read_roles(len(ways)), ways, views, keys, strict=True
            ):
                request = PlanRequest("ps", job=job, epoch=epoch, workers=(reader,), server=home, lanes=lanes)
                proposals.append(Proposal(role, self.controller.plan(request, view), {}))
        except BaseException:
            self.withdraw(proposals)
            raise
        return proposals

    def _keys(self, count: int, beside: Sequence[Proposal]) -> list[tuple[int, int]]:
        """Return ``count`` free (job, epoch) keys, of other jobs than the unrecorded plans ``beside``."""
        taken = {proposal.plan.job for proposal in beside}
        return [key for key in self.store.free_keys(count + len(taken)) if key[0] not in taken][:count]

    def propose_for(
        self,
        decisions: Sequence[TreeDecision],
        rows: Sequence[PlanRow] = (),
        *,
        view: Topology | None = None,
        beside: Sequence[Proposal] = (),
        pace_ps: int | None = None,
    ) -> list[Proposal]:
        """Plan a task from one decision for each client: as new jobs, or as the next epochs of the jobs of ``rows``.

        Other parameters as in :meth:`propose`. `PlanError`: nothing is taken.
        """
        if rows:
            keys = [(row.job, self.store.next_epoch(row.job)) for row in rows]
        else:
            keys = self._keys(len(decisions), beside)
        proposals: list[Proposal] = []
        try:
            for role, decision, (job, epoch) in zip(
                [row.role for row in rows] or roles(len(decisions), trees=True), decisions, keys, strict=True
            ):
                request = replace(plan_requests(decision, job=job)[-1], epoch=epoch, pace_ps=pace_ps)
                proposals += self._plan(decision, [(role, request)], view)
        except BaseException:
            self.withdraw(proposals)
            raise
        return proposals

    def _whole(
        self, decision: TreeDecision, requests: Sequence[tuple[Role, PlanRequest]], view: Topology | None
    ) -> list[Proposal]:
        """Plan with as many slots as are free; `PlanError` if these do not keep the links busy."""
        topology, lanes = view or self.controller.topology, self.controller.program.lanes
        plain = [(role, replace(request, max_slots=None, lanes=lanes)) for role, request in requests]
        ranges = [window_range(topology, request) for _, request in plain]
        shrunk = 0
        while True:
            windows = [max(least, most >> shrunk) for least, most in ranges]
            try:
                sized = [
                    (role, replace(request, window=size)) for (role, request), size in zip(plain, windows, strict=True)
                ]
                return self._plan(decision, sized, view)
            except PlanError:
                if windows == [least for least, _ in ranges]:
                    raise
            shrunk += 1

    def propose_next(
        self, decision: TreeDecision, rows: Sequence[PlanRow], state: NetworkState, *, must: bool
    ) -> list[Proposal]:
        """Plan the next epochs of a task's jobs, with as many slots as they have: windows cannot change.

        A job with the role 'both' keeps one tree for both directions: of the decision's two trees the one that lacks
        less bandwidth. ``state`` is the network without the task. `PlanError` if bandwidth is missing, unless the task
        ``must`` change to another tree.
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
        self, decision: TreeDecision, requests: Sequence[tuple[Role, PlanRequest]], view: Topology | None
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
    def _demand(decision: TreeDecision, role: Role, request: PlanRequest, topology: Topology) -> dict[Hop, int]:
        task, demand = decision.task, dict[Hop, int]()
        if task.reserved_bps and request.layout is not None:
            _, weight, total = request.part
            for direction in DIRECTIONS:
                if role not in DIRECTIONS or role == direction:
                    for hop, times in copies(task, topology, request.layout, direction).items():
                        demand[hop] = demand.get(hop, 0) + times * task.reserved_bps * weight // total
        return demand

    def withdraw(self, proposals: Sequence[Proposal]) -> None:
        """Release the resources of plans that will not be installed."""
        for proposal in proposals:
            self.controller.release(proposal.plan)

    def plan_of(self, row: PlanRow) -> Plan:
        """The plan of a row, the same object until it is removed; a damaged row may raise any exception."""
        plan = self._plans.get(row.generation)
        if plan is None:
            plan = from_json(Plan, row.plan, f"generation {row.generation}", topology=self.controller.topology)
            if (plan.generation, plan.job, plan.epoch) != (row.generation, row.job, row.epoch):
                raise ValueError("it is that of another job, epoch or generation")
            self._plans[row.generation] = plan
        return plan

    def adopt(self, row: PlanRow) -> Plan:
        """Take over a plan of an earlier orchestrator; may raise any exception if that is not possible."""
        try:
            plan = self.plan_of(row)
            plan_entries(plan)  # a damaged plan fails here, before anything is taken
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
        choice: TreeChoice | None = None,
        placement: Placement | None = None,
    ) -> None:
        """Install the trees of a queued task, whose state becomes 'scheduled'.

        ``choice``: its selected workers. ``placement``: its hosts.

        `InstallError`: the trees must be removed, and the task is still scheduled.
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

    def begin(self, order: TaskOrder) -> None:
        """Start a scheduled task whose trees are all installed; `TaskRefusedError` when its hosts cannot run it."""
        name = order.task.name
        self.executor.start(order)
        self.checkpoint("started")
        with self.store.transaction():
            if order.attempt:
                self.store.history.drop_rounds(name, self.executor.running([name])[name].round)
            for plan in (*order.plans.values(), *order.read_plans.values()):
                self.store.set_phase(plan.generation, PlanPhase.ACTIVE)
            self.store.change(name, TaskState.RUNNING, self.executor.now())
        self.checkpoint("recorded start")

    # --- other trees for a running task

    def swap(self, task: str, proposals: Sequence[Proposal], policy: str, *, cause: str, trade_off: TradeOff) -> None:
        """Install the next epochs, change to them, and leave the old ones to :meth:`clean`.

        `InstallError`: the old trees stay in use, and the new trees must be removed.
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
        """Change the hosts of a running task to installed epochs; the earlier epochs are to be removed."""
        run = self.executor.running([task]).get(task)
        if run is None or run.ended:
            self.give_up(plans.values())  # its end will be reported
            return
        try:
            self.executor.swap(task, plans)
        except TaskRefusedError as error:
            self.give_up(plans.values())
            raise InstallError(str(error)) from None
        self.checkpoint("swapped")
        with self.store.transaction():
            for row in self.store.plans((PlanPhase.ACTIVE,), task):
                if row.role in plans:
                    self.store.set_phase(row.generation, PlanPhase.REMOVING)
            for plan in plans.values():
                self.store.set_phase(plan.generation, PlanPhase.ACTIVE)
            self.store.change(task, TaskState.RESCHEDULED, self.executor.now())
        self.checkpoint("recorded swap")

    # --- steps of both installations and swaps

    def intend(self, task: str, proposals: Sequence[Proposal], at_ps: int) -> None:
        """Record what is about to be installed. Runs within a transaction."""
        for proposal in proposals:
            plan = proposal.plan
            row = PlanRow(
                generation=plan.generation,
                task=task,
                role=proposal.role,
                job=plan.job,
                epoch=plan.epoch,
                phase=PlanPhase.INSTALLING,
                demand_bps=proposal.demand_bps,
                plan=to_json(plan),
            )
            self.store.add_plan(row, at_ps)
            self._plans[plan.generation] = plan

    def install_all(self, proposals: Mapping[str, Sequence[Proposal]]) -> dict[str, str]:
        """Install the recorded trees of several tasks; returns the reasons of tasks that a switch refuses."""
        failed = {}
        self._wait()
        for task, own in proposals.items():
            try:
                self._write(own)
            except InstallError as error:
                failed[task] = str(error)
        return failed

    def install(self, proposals: Sequence[Proposal]) -> None:
        """Install recorded plans; `InstallError`: they must be removed."""
        self._wait()
        self._write(proposals)

    def _write(self, proposals: Sequence[Proposal]) -> None:
        for proposal in proposals:
            try:
                self.controller.install(proposal.plan)
            except Exception as error:  # includes entries of this task that cannot be encoded
                known = {plan.generation for plan in self.controller.installed}
                for plan in (other.plan for other in proposals):
                    if plan.generation not in known:
                        self.controller.release(plan)  # adopted next, since its entries may be in switches
                        self.controller.adopt(plan)
                raise InstallError(one_line(error)) from None
            self.checkpoint(f"installed {proposal.role}")
        with self.store.transaction():
            for proposal in proposals:
                self.store.set_phase(proposal.plan.generation, PlanPhase.INSTALLED)
        self.checkpoint("recorded installation")

    def give_up(self, plans: Iterable[Plan]) -> None:
        """Mark plans that no host uses or will use: their entries in switches are to be removed."""
        with self.store.transaction():
            for plan in plans:
                self.store.set_phase(plan.generation, PlanPhase.REMOVING)
                self.store.history.drop_swap(plan.job, plan.epoch)

    def clean(self) -> int:
        """Remove the plans marked for removal; returns how many. Plans that a switch refuses are tried again later."""
        removed = 0
        rows = [row for row in self.store.plans((PlanPhase.REMOVING,)) if self._is_due(row)]
        if rows:
            self._wait()
        for row in rows:
            plan = self.plan_of(row)
            try:
                self.controller.uninstall(plan)
            except Exception as error:  # one plan's error must not prevent the removal of other plans
                self._note_stuck(row, one_line(error))
                continue
            self.checkpoint("uninstalled")
            self._stuck.pop(row.generation, None)
            self._plans.pop(row.generation, None)
            self.store.set_phase(row.generation, PlanPhase.REMOVED)
            self.checkpoint("recorded removal")
            removed += 1
        if self._sweep_at is not None and self.executor.now() >= self._sweep_at:
            self.sweep()
        return removed

    def _is_due(self, row: PlanRow) -> bool:
        return row.generation not in self._stuck or self.executor.now() >= self._stuck[row.generation][1]

    def sweep(self, inventory: InstalledEntries | None = None) -> None:
        """Remove the entries of switches that belong to no plan; if a switch refuses, try again later."""
        inventory = inventory or InstalledEntries.read(self.controller)
        self._sweep_at = None
        for switch, entries in inventory.strangers(self.controller.installed).items():
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
        """Let the control latency pass, after which a decision takes effect."""
        self.executor.advance(self.executor.now() + self.options.control_latency_ps)


# The outcome of tasks that were tried for a turn.


@dataclass(frozen=True)
class Refused:
    """A task that was tried and did not fit.

    ``fault``: the task itself is invalid and will never fit. ``alone``: it did not fit even without other tasks.
    """

    row: TaskRow
    reason: str
    fault: bool = False
    alone: bool = False


@dataclass(frozen=True)
class Admitted:
    """A task with its hosts and the trees that are about to be installed."""

    row: TaskRow
    task: Task
    placement: Placement | None
    proposals: Sequence[Proposal]
