"""Reconsiders the trees of running tasks when the network or the tasks change, and continues tasks after losses."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.orchestrator.executor import ExecutorReport, Role, Running, lost_hosts, named
from p4reduce.control_plane.orchestrator.giving import Mover
from p4reduce.control_plane.orchestrator.history import PlanRow, TaskRow
from p4reduce.control_plane.orchestrator.installer import Installer, InstallError, Proposal, TradeOff, same_tree, weigh
from p4reduce.control_plane.orchestrator.options import AT_WORK, PlanPhase, StoreError
from p4reduce.control_plane.orchestrator.replanning import Replanner
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import NetworkState, Policy, TreeDecision
from p4reduce.topologies.model import Hop
from p4switch.base.values import one_line

# A running task that has lost a worker, or all of its trees: `on_failure` (docs/faults.md).
#
# A restarted orchestrator decides the same: the executor reports the losses (links without a carrier, processes that
# have ended), and the decision is in the database before hosts are told.


MOST_ANEW: Final = 8
"""largest number of attempts to continue a task that loses further hosts; then it fails"""


class Losses:
    """Records the hosts where processes of tasks have died, and continues these tasks without them, or fails them.

    Parameters
    ----------
    installer : Installer
        Writes to switches.
    mover : Mover
        Gives tasks other plans, and other hosts.
    replanner : Replanner
        Knows the pending changes.
    state : callable
        Returns the network without a task's reservations.
    fail : callable
        Fails a task, with a reason.
    """

    def __init__(
        self,
        installer: Installer,
        mover: Mover,
        replanner: Replanner,
        state: Callable[[str | None], NetworkState],
        fail: Callable[[str, str], None],
    ) -> None:
        self._installer = installer
        self._store = installer.store
        self._mover = mover
        self._replanner = replanner
        self._state = state
        self._fail = fail
        self._died: dict[str, dict[str, None]] = {}

    # --- processes that have died

    def take(self, report: ExecutorReport) -> None:
        """Record that a process of a task has died. Runs within a transaction."""
        name, host = str(report.task), str(report.data["host"])
        self._died.setdefault(name, {})[host] = None
        why = {"host": host, "round": int(report.data["round"])}
        self._store.history.add_decision(report.at_ps, name, "died", "", why)

    def found(self, running: Mapping[str, Running]) -> None:
        """Set which processes have died, from the executor's list of running tasks."""
        self._died = {name: dict.fromkeys(run.died) for name, run in running.items() if run.died and not run.ended}

    def forget(self, name: str) -> None:
        """Forget the deaths of a task that has ended, or that continues without those hosts."""
        self._died.pop(name, None)

    def died(self, name: str) -> tuple[str, ...]:
        """Hosts where a process of a task has died, in the order of their deaths."""
        return tuple(self._died.get(name, ()))

    def _lost(self, row: TaskRow) -> tuple[str, ...]:
        topology, down = self._installer.controller.topology, self._installer.executor.links_down()
        return lost_hosts(row.task, topology, down, self.died(row.name))

    # --- consequences

    def settle(self, row: TaskRow, cause: str, otherwise: str) -> None:
        """Continue a task that cannot stay as it is and finds no other trees for the same hosts, or fail it.

        As far as the task allows, it continues with other plans, at other hosts, or without the lost hosts. The reason
        of a failure names ``cause``, the obstacle to all alternatives (``otherwise``), and the lost hosts.
        """
        before: tuple[str, ...] | None = None
        lost: tuple[str, ...] = ()
        for _ in range(MOST_ANEW):
            self._replanner.take_reports()
            self._replanner.cancel(row.name)
            row = self._store.task(row.name)
            if row.state not in AT_WORK:
                return
            lost = self._lost(row)
            if lost == before:
                break
            before = lost
            try:
                if self._goes_on(row, cause, lost):
                    return
            except (StoreError, sqlite3.Error):
                raise
            except Exception as error:  # a fault of a policy
                otherwise += f"; and no other plans: {type(error).__name__}: {one_line(error)}"
                break
        who = named(row.task, row.ranks, lost)
        told = f"{cause}, and {otherwise}" if row.task.on_failure != "raise" or not lost else cause
        number = self._store.history.rounds_done(row.name)
        where = f" in round {number} of {row.task.rounds} (on_failure: {row.task.on_failure})"
        self._fail(row.name, f"{who}{where}: {told}" if who else told)

    def _goes_on(self, row: TaskRow, cause: str, lost: tuple[str, ...]) -> bool:
        """Continue a task after losses; returns whether that is possible."""
        if self._installer.options.schedule or self._installer.options.wdm is not None:
            return False  # plans come with turns, or with lightpaths
        if row.task.serving is not None:
            return False  # its clients and its server cannot move
        if lost and row.task.on_failure == "raise":
            return False
        if self._mover.rescue(row, cause, lost):
            return True
        return bool(lost) and row.task.on_failure == "shrink" and self._shrink(row, cause, lost)

    def _shrink(self, row: TaskRow, cause: str, lost: tuple[str, ...]) -> bool:
        left = tuple(host for host in row.task.workers if host not in lost)
        if not left or row.task.server in lost or self._store.task(row.name).state not in AT_WORK:
            return False
        task = replace(row.task, workers=left)
        why = {
            "lost": list(lost),
            "ranks": [rank for host, rank in zip(row.task.workers, row.ranks, strict=True) if host in left],
        }
        return self._mover.change(row, task, self._state(row.name), "shrink", cause, at_once=True, more=why)


StateWithout = Callable[[str | None], NetworkState]
"""Function that gives the network without a task's reservations; None: with the reservations of all tasks."""
Fail = Callable[[str, str], None]
"""Function that fails a task, with a reason."""


@dataclass(frozen=True)
class Cause:
    """Reason for a task to leave its trees. ``must``: it cannot stay on them."""

    text: str
    must: bool


class Rescheduler:
    """Decides whether running tasks keep their trees, and swaps trees that must or should be swapped."""

    def __init__(
        self,
        installer: Installer,
        policy: Policy,
        name: str,
        state: StateWithout,
        losses: Losses,
        replanner: Replanner,
        paths: Callable[[Task, NetworkState, int], list[TreeDecision]],
    ) -> None:
        self._losses, self._paths = losses, paths
        self._replanner = replanner
        self._installer = installer
        self._store = installer.store
        self._policy = policy
        self._name = name
        self._state = state
        self._kept: dict[str, tuple[float, int]] = {}  # task -> (saving per round, cost) last recorded, in bytes
        self._last = -1  # number of the task that was last reconsidered without need
        self.lost: set[str] = set()
        """tasks of which switches have lost entries"""

    def consider_all(self) -> None:
        """Swap trees that must be swapped; then, for a few other tasks in turn, trees whose swap pays."""
        tasks = self._store.tasks(AT_WORK)
        if not tasks:
            return
        down = self._installer.executor.links_down()
        state = self._state(None)
        causes = {row.name: self._cause(row, down, state) for row in tasks}
        for row in tasks:
            cause = causes[row.name]
            if cause is not None and cause.must:
                self._consider(row, cause)
        others = [row for row in tasks if (cause := causes[row.name]) is None or not cause.must]
        others = [row for row in others if row.name not in self._replanner.pending and not self._exchanges(row)]
        others = [row for row in others if row.task.serving is None or causes[row.name] is not None]
        if self._installer.options.threshold is None:
            others = [row for row in others if causes[row.name] is not None]
        in_turn = sorted(others, key=lambda row: (causes[row.name] is None, row.number <= self._last, row.number))
        for row in in_turn[: self._installer.options.retries]:
            self._last = row.number
            self._consider(row, causes[row.name])
        names = {row.name for row in tasks}
        self._kept = {name: kept for name, kept in self._kept.items() if name in names}
        self.lost &= names

    def _rows(self, row: TaskRow) -> list[PlanRow]:
        return self._store.plans((PlanPhase.ACTIVE,), row.name)

    def _cause(self, row: TaskRow, down: set[Hop], state: NetworkState) -> Cause | None:
        """Reason why a task cannot, or should not, stay on its trees; None when it can. ``state`` has all tasks."""
        if row.name in self.lost:
            return Cause("a switch has lost its entries", True)
        if died := self._losses.died(row.name):
            return Cause(f"the process of {died[0]} has died", True)
        topology = self._installer.controller.topology
        rows = self._rows(row)
        for plan in map(self._installer.plan_of, rows if down else ()):
            for pair in plan.paths:
                for node, port in plan.path_hops(*pair):
                    if (node, port) in down:
                        return Cause(f"link {node} - {topology.neighbour(node, port)} is down", True)
        for hop, bps in (item for plan_row in rows for item in plan_row.demand_bps.items()):
            own = sum(plan_row.demand_bps.get(hop, 0) for plan_row in rows)
            used = state.background_bps.get(hop, 0) + state.reserved_bps.get(hop, 0) - own
            if hop in state.down or topology.link_at(*hop).rate_bps - used < bps:
                return Cause(f"link {hop[0]} - {topology.neighbour(*hop)} is overloaded", False)
        return None

    def _consider(self, row: TaskRow, cause: Cause | None) -> None:
        if self._store.task(row.name).state not in AT_WORK:
            return  # ended while another task was given up
        self._replanner.cancel(row.name)  # with a pending change or a ring, a task comes here only if it must change
        row = self._store.task(row.name)
        if row.state not in AT_WORK:
            return
        if self._losses.died(row.name):
            self._give_up(row, cause.text if cause else "", "no other process could take its place")
            return
        options = self._installer.options
        if options.wdm is not None or (options.schedule and row.task.serving is not None):
            if cause is not None and cause.must:
                self._give_up(row, cause.text, "tasks keep their lightpaths, and services their circuits")
            return
        if self._exchanges(row):
            self._give_up(row, cause.text if cause else "", "its hosts find no other plans")
            return
        rows = self._rows(row)
        olds = {plan_row.role: self._installer.plan_of(plan_row) for plan_row in rows}
        state = self._state(row.name)
        lanes = self._installer.controller.program.lanes
        try:
            must = cause is not None and cause.must
            if row.task.serving is not None:
                proposals = self._installer.propose_for(self._paths(row.task, state, lanes), rows)
            else:
                decision = self._policy(_as_it_runs(row, olds), state, lanes=lanes)
                proposals = self._installer.propose_next(decision, rows, state, must=must)
        except (StoreError, sqlite3.Error):
            raise
        except Exception as error:  # a fault of a policy ends only a task that must leave
            if cause is not None and cause.must:
                known = "" if isinstance(error, PlanError) else f"{type(error).__name__}: "
                self._give_up(row, cause.text, f"no other tree fits: {known}{one_line(error)}")
            return
        changed = [
            proposal
            for proposal in proposals
            if row.name in self.lost or not same_tree(olds[proposal.role], proposal.plan)
        ]
        unfit = next((proposal for proposal in changed if not _exchangeable(olds[proposal.role], proposal.plan)), None)
        if unfit is not None:
            self._installer.withdraw(proposals)
            if cause is not None and cause.must:
                self._give_up(row, cause.text, f"hosts cannot change to a {unfit.plan.name} plan on the way")
            return
        self._installer.withdraw([proposal for proposal in proposals if proposal not in changed])
        trade_off = self._weigh(row, olds, changed)
        if changed and (cause is not None or trade_off.worthwhile):
            self._swap(row, changed, cause or Cause("saving", False), trade_off)
        else:
            self._installer.withdraw(changed)
            self._note_kept(row.name, trade_off, changed)

    def _exchanges(self, row: TaskRow) -> bool:
        """Whether the hosts exchange the sum among themselves; such a task changes between rounds, or repeats one."""
        return any(self._installer.plan_of(plan_row).exchanged for plan_row in self._rows(row))

    def _give_up(self, row: TaskRow, cause: str, otherwise: str) -> None:
        """Continue a task for which no other trees fit, with other plans or hosts or with fewer hosts; or fail it."""
        self._losses.settle(row, cause, otherwise)
        self.lost.discard(row.name)

    def _weigh(self, row: TaskRow, olds: Mapping[Role, Plan], changed: Sequence[Proposal]) -> TradeOff:
        done = self._store.history.rounds_done(row.name)
        threshold = self._installer.options.threshold
        pairs = [(proposal.role, olds[proposal.role], proposal.plan) for proposal in changed]
        return weigh(row.task, pairs, row.task.rounds - done, 0.0 if threshold is None else threshold)

    def _swap(self, row: TaskRow, changed: Sequence[Proposal], cause: Cause, trade_off: TradeOff) -> None:
        try:
            self._installer.swap(row.name, changed, self._name, cause=cause.text, trade_off=trade_off)
        except InstallError as error:
            if cause.must:
                self._give_up(row, cause.text, f"other trees could not be installed: {error}")
        self.lost.discard(row.name)

    def _note_kept(self, task: str, trade_off: TradeOff, changed: Sequence[Proposal]) -> None:
        key = (trade_off.saving_bytes / max(1, trade_off.remaining_rounds), trade_off.cost_bytes)
        if changed and self._kept.get(task) != key:
            self._kept[task] = key
            with self._store.transaction():
                now = self._installer.executor.now()
                self._store.history.add_decision(now, task, "keep", self._name, trade_off.as_data())


def _as_it_runs(row: TaskRow, olds: Mapping[Role, Plan]) -> Task:
    """The task with ``aggregation`` set as in its present plans, since its hosts cannot change that."""
    return replace(row.task, aggregation="switches" if any(plan.in_network for plan in olds.values()) else "hosts")


def _exchangeable(old: Plan, new: Plan) -> bool:
    """Whether hosts can change from one plan to the other within a collective: same windows, same arithmetic."""
    return old.in_network == new.in_network and old.slots == new.slots and not old.exchanged and not new.exchanged
