"""Changes of running tasks to other kinds of plans, or to other hosts, between two rounds.

The new plans have their own keys and are installed beside the old ones, and the executor gets the order. The hosts
change at the end of the present round, or at once, and report it; only then the database is updated and the old plans
are removed. Until then the new plans have the phase *installed*: a restarted orchestrator sends the order again, and
the executor ignores the repetition.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.orchestrator.executor import (
    ComputingManager,
    ExecutorReport,
    Role,
    TaskOrder,
    is_read,
    ranks_at,
)
from p4reduce.control_plane.orchestrator.history import TaskRow
from p4reduce.control_plane.orchestrator.installer import Installer, InstallError, Proposal
from p4reduce.control_plane.orchestrator.options import ENDED, PlanPhase, TaskRefusedError, TaskState
from p4reduce.control_plane.placement import reads
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.scheduling.task import Task, WantedHosts
from p4switch.base.values import one_line

# Orders to the executor.


def order_of(
    task: Task,
    plans: dict[Role, Plan],
    computing: ComputingManager,
    wanted: WantedHosts | None = None,
    *,
    ranks: tuple[int, ...] = (),
    anew: tuple[str, ...] = (),
    attempt: int = 0,
) -> TaskOrder:
    """The order to run a task. ``wanted``: the task's request for hosts, which names the data that they read.

    ``plans``: the plans of its jobs, and of its reads if it takes turns.

    ``ranks``, ``anew`` and ``attempt`` as in :class:`TaskOrder`. In a ring every host adds up about one model, like the
    server of a tree.
    """
    reading = {role: plan for role, plan in plans.items() if is_read(role)}
    plans = {role: plan for role, plan in plans.items() if role not in reading}
    upload = next(iter(plans.values()))
    if task.serving is not None:
        return TaskOrder(task, plans, {task.server: computing.answering_ps(task)}, attempt=attempt)
    arriving = 1 if upload.in_network or upload.exchanged else len(task.workers)
    shards = Counter([] if wanted is None else reads(wanted, task.workers))
    return TaskOrder(
        task,
        plans,
        {worker: computing.training_ps(task, worker) for worker in task.workers},
        computing.aggregation_ps(task, arriving),
        tuple((home, reader, count * wanted.shard_bytes) for (home, reader), count in shards.items())
        if wanted is not None
        else (),
        ranks=ranks,
        anew=anew,
        attempt=attempt,
        read_plans=reading,
    )


def hosts_of(plan: Plan, server: str) -> tuple[str, ...]:
    """The workers of a task, from one of its plans: without the server, which may be among the plan's workers."""
    return tuple(host for host in plan.workers if host != server)


@dataclass(frozen=True)
class PlanChange:
    """The next plans and hosts of a running task, and the reasons.

    Attributes
    ----------
    task : Task
        The task with its next hosts: as many workers as before, or a part of the present workers.
    proposals : sequence of Proposal
        The next plans, which have their resources.
    what : str
        'tree', 'hosts add', 'move', 'rescue' or 'shrink'.
    cause : str
        Reason for the change.
    at_once : bool
        Whether the present round is abandoned and begun again.
    saving_s, cost_s : float or None
        Predictions, in worker-seconds.
    why : mapping
        Further reasons, for the database.
    anew : tuple of str
        Hosts where a new process replaces a dead one.
    """

    task: Task
    proposals: Sequence[Proposal]
    what: str
    cause: str
    at_once: bool = False
    saving_s: float | None = None
    cost_s: float | None = None
    why: Mapping[str, Any] | None = None
    anew: tuple[str, ...] = ()


class Replanner:
    """Changes running tasks; a task has one pending change at most.

    Parameters
    ----------
    installer : Installer
        Writes to switches.
    computing : ComputingManager
        Records the load of hosts, to which a task's next hosts are added at once.
    policy : str
        Name of the policy, for the database.
    take_reports : callable
        Records new reports of the executor.
    changed : callable
        Called with a task after its change, which has the new hosts, and with its plans.
    """

    def __init__(
        self,
        installer: Installer,
        computing: ComputingManager,
        policy: str,
        take_reports: Callable[[], None],
        changed: Callable[[Task, Mapping[Role, Plan]], None],
    ) -> None:
        self._installer = installer
        self._store = installer.store
        self._executor = installer.executor
        self._computing = computing
        self._policy = policy
        self.take_reports = take_reports
        self._changed = changed
        self.pending: dict[str, dict[Role, Plan]] = {}
        """plans of pending changes, by task"""

    def begin(self, row: TaskRow, change: PlanChange) -> bool:
        """Install the plans of a change and order it; returns whether that worked. No other change may be pending."""
        name, now = row.name, self._executor.now()
        plans = {proposal.role: proposal.plan for proposal in change.proposals}
        try:
            self._computing.extend(change.task)
            ranks = ranks_at(row.task.workers, row.ranks, change.task.workers)
            order = order_of(
                change.task,
                plans,
                self._computing,
                row.wanted,
                ranks=ranks,
                anew=change.anew,
                attempt=row.attempt,
            )
        except PlanError:  # a host is full or too slow
            self._installer.withdraw(change.proposals)
            self._computing.settle(row.task)
            return False
        why = {"cause": change.cause, "at_once": change.at_once, **(change.why or {})}
        if change.saving_s is not None:
            why |= {"saving_s": change.saving_s, "cost_s": change.cost_s}
        first = change.proposals[0].plan.generation
        with self._store.transaction():
            self._installer.intend(name, change.proposals, now)
            self._store.history.add_decision(now, name, change.what, self._policy, why)
            self._store.history.add_replan(
                name,
                first,
                at_ps=now,
                what=change.what,
                cause=change.cause,
                at_once=change.at_once,
                saving_s=change.saving_s,
                cost_s=change.cost_s,
            )
        self.pending[name] = plans
        self._installer.checkpoint("intended change")
        reason = ""
        try:
            self._installer.install(change.proposals)
            self._executor.replan(order, at_once=change.at_once)
        except (InstallError, TaskRefusedError) as error:
            reason = one_line(error)
        self._installer.checkpoint("told of change")
        self.take_reports()  # the task may have ended meanwhile
        if reason:
            self.give_up(name, reason)
        return not reason

    def cancel(self, name: str) -> None:
        """Cancel a pending change; if it has happened meanwhile, it is recorded."""
        if name in self.pending:
            self._executor.keep_plans(name)
            self._installer.checkpoint("kept plans")
            self.take_reports()
            self.give_up(name, "something else is more urgent")

    def give_up(self, name: str, reason: str) -> None:
        """Drop a pending change; no effect if it has happened, or the task has ended."""
        plans = self.pending.pop(name, {})
        row = self._store.task(name)
        if not plans or row.state in ENDED:
            return
        with self._store.transaction():
            self._installer.give_up(plans.values())
            for plan in plans.values():
                self._store.history.drop_replan(plan.generation)
            why = {"reason": reason}
            self._store.history.add_decision(self._executor.now(), name, "not changed", self._policy, why)
        self._computing.settle(row.task)
        self._installer.checkpoint("gave up change")

    def take(self, report: ExecutorReport) -> None:
        """Record that a task has changed, or could not change. Runs in a transaction; the task has not ended."""
        name = str(report.task)
        if "error" in report.data:
            self.give_up(name, str(report.data["error"]))
            return
        keys = {tuple(key) for key in report.data["keys"].values()}
        row, plans = self._store.task(name), dict[Role, Plan]()
        for plan_row in self._store.plans((PlanPhase.INSTALLED, PlanPhase.ACTIVE), name):
            if (plan_row.job, plan_row.epoch) in keys:
                plans[plan_row.role] = self._installer.plan_of(plan_row)
                self._store.set_phase(plan_row.generation, PlanPhase.ACTIVE)
            else:
                self._store.set_phase(plan_row.generation, PlanPhase.REMOVING)
        self.pending.pop(name, None)
        if not plans:
            return  # recovery will find that not all of its plans are known
        first_plan = min(plans.values(), key=lambda plan: plan.generation)
        workers = hosts_of(first_plan, row.task.server)
        if workers != row.task.workers:
            self._store.place(name, workers, row.task.server, ranks_at(row.task.workers, row.ranks, workers))
        kind = _described(first_plan, len(plans), workers)
        reason = f"{'again ' if report.data['again'] else ''}round {report.data['round']}: {kind}"
        self._store.change(name, TaskState.RESCHEDULED, report.at_ps, reason)
        self._store.history.note_replanned(first_plan.generation, report.at_ps, int(report.data["round"]))
        task = self._store.task(name).task
        self._computing.settle(task)
        self._changed(task, plans)

    def end(self, name: str) -> None:
        """Forget the pending change of an ended task."""
        self.pending.pop(name, None)

    # --- after a crash

    def is_replan(self, name: str, plans: Mapping[Role, Plan]) -> bool:
        """Whether plans that are not active belong to a change, and are not the next epochs of the task's jobs."""
        active = {row.job for row in self._store.plans((PlanPhase.ACTIVE,), name)}
        return not {plan.job for plan in plans.values()} <= active

    def come_back(self, row: TaskRow, plans: dict[Role, Plan], *, complete: bool) -> None:
        """Continue or drop a change of an earlier orchestrator; ``complete``: all its entries are in switches."""
        name = row.name
        self.pending[name] = plans
        workers = hosts_of(next(iter(plans.values())), row.task.server)
        keys = {role: (plan.job, plan.epoch) for role, plan in plans.items()}
        run = self._executor.running([name]).get(name)
        if run is None or run.ended or run.keys == keys:
            return  # its end, or the change, will be reported
        first = min(plan.generation for plan in plans.values())
        known = {replan["generation"]: replan for replan in self._store.history.replans(name)}
        try:
            if not complete or first not in known:
                raise TaskRefusedError("the orchestrator ended before all of its plans were installed")
            task = replace(row.task, workers=workers)
            self._computing.extend(task)
            with self._store.transaction():
                for plan in plans.values():
                    self._store.set_phase(plan.generation, PlanPhase.INSTALLED)
            ranks = ranks_at(row.task.workers, row.ranks, workers)
            order = order_of(task, plans, self._computing, row.wanted, ranks=ranks, attempt=row.attempt)
            self._executor.replan(order, at_once=known[first]["at_once"])
        except (TaskRefusedError, PlanError) as error:
            self._executor.keep_plans(name)
            self.give_up(name, one_line(error))


def _described(plan: Plan, count: int, workers: Sequence[str]) -> str:
    kind = f"tree of {plan.root}" if plan.in_network else "ring" if plan.ring else "paths to its server"
    kind = "all to all" if plan.mesh else f"{count} trees" if plan.exchanged and count > 1 else kind
    return f"{kind}, workers {', '.join(workers)}"
