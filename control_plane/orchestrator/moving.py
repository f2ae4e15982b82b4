"""Moving the workers of running tasks: where they would be quicker by more than the move costs, or a host has died.

A move is a change of plans between two rounds (`replanning`): the server, which stays, sends the model to the workers
that are new, these read their data from the homes, and the next round begins. Who stays keeps its rank.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.orchestrator.giving import Giver
from p4reduce.control_plane.orchestrator.installer import Installer, Proposal
from p4reduce.control_plane.orchestrator.placing import Placer
from p4reduce.control_plane.orchestrator.replanning import Change, Replanner
from p4reduce.control_plane.orchestrator.rows import TaskRow
from p4reduce.control_plane.orchestrator.states import AT_WORK
from p4reduce.control_plane.placement import Cluster, reads
from p4reduce.control_plane.scheduling import Decision
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.wanted import Wanted

Propose = Callable[[Task, NetworkState], tuple[Decision, list[Proposal]]]
"""Plans for a task at its hosts; `PlanError` when there are none."""
LEAST_LEFT: Final = 2
"""rounds of a task that is worth a move: the one that runs, and one more"""


@dataclass(frozen=True)
class Saving:
    """Of a move, in worker-seconds, as predicted.

    Attributes
    ----------
    saving_s : float
        (what a round takes at the old hosts, and costs others - the same at the new ones) * rounds * workers.
    cost_s : float
        (sending the model to those who are new + reading their data) * workers.
    """

    saving_s: float
    cost_s: float
    old_s: float
    new_s: float


class Mover:
    """Moves workers of tasks whose hosts were chosen."""

    def __init__(
        self,
        installer: Installer,
        placer: Placer,
        giver: Giver,
        replanner: Replanner,
        state: Callable[[str | None], NetworkState],
        policy: str,
    ) -> None:
        self._installer = installer
        self._store = installer.store
        self._placer = placer
        self._giver = giver
        self._replanner = replanner
        self._state = state
        self._policy = policy
        self._last = -1
        self._kept: dict[str, tuple[str, ...]] = {}

    def consider(self) -> None:
        """Move those for whom it pays; a few tasks at a time, in turn. Nothing where moving is off."""
        threshold = self._installer.options.move
        if threshold is None:
            return
        rows = [row for row in self._store.tasks(AT_WORK) if row.wanted is not None]
        rows = [row for row in rows if row.name not in self._replanner.pending]
        in_turn = sorted(rows, key=lambda row: (row.number <= self._last, row.number))
        for row in in_turn[: self._installer.options.retries]:
            self._last = row.number
            if self._store.task(row.name).state in AT_WORK:
                self._consider(row, threshold)
        names = {row.name for row in rows}
        self._kept = {name: hosts for name, hosts in self._kept.items() if name in names}

    def rescue(self, row: TaskRow, cause: str, lost: Sequence[str] = ()) -> bool:
        """Have a task go on elsewhere, at once, whose plans or hosts do not work any more; whether that is possible.

        First at its hosts with other plans, if none of them is ``lost``; then, where moving is on and its hosts were
        chosen, at others.
        """
        state = self._state(row.name)
        options: list[Task] = [] if lost else [row.task]
        if self._installer.options.move is not None and row.wanted is not None:
            with contextlib.suppress(PlanError):
                options.append(self._elsewhere(row, row.wanted, state)[0])
        return any(self._rescue(row, task, state, cause, lost) for task in options)

    def _rescue(self, row: TaskRow, task: Task, state: NetworkState, cause: str, lost: Sequence[str]) -> bool:
        anew = tuple(host for host in lost if host in task.workers)
        return self.change(row, task, state, "rescue", cause, at_once=True, anew=anew)

    def _consider(self, row: TaskRow, threshold: float) -> None:
        left = row.task.rounds - self._store.history.rounds_done(row.name)
        if left < LEAST_LEFT or row.wanted is None:
            return
        state = self._state(row.name)
        try:
            task, cluster = self._elsewhere(row, row.wanted, state)
            if task.workers == row.task.workers:
                return
            found = self._weigh(row, row.wanted, task, cluster, left - 1)
        except PlanError:
            return
        if found.saving_s > threshold * found.cost_s:
            cause = "it is predicted to be quicker there"
            self.change(row, task, state, "move", cause, saving=found)
        elif self._kept.get(row.name) != task.workers:
            self._kept[row.name] = task.workers
            self._note(row, "stay", {"hosts": list(task.workers), **vars(found), "threshold": threshold})

    def _elsewhere(self, row: TaskRow, wanted: Wanted, state: NetworkState) -> tuple[Task, Cluster]:
        """The task at the hosts that it would get now, and the cluster without it; `PlanError`: there are none."""
        asked = replace(row.task, workers=(), wanted=replace(wanted, count=len(row.task.workers)))
        found, cluster = self._placer.another(asked, state)
        if row.task.server in found.workers:
            raise PlanError(f"task {row.name}: its server's host cannot be a worker")
        new = iter([host for host in found.workers if host not in row.task.workers])
        hosts = tuple(host if host in found.workers else next(new) for host in row.task.workers)
        return replace(row.task, workers=hosts), cluster

    def _weigh(self, row: TaskRow, wanted: Wanted, task: Task, cluster: Cluster, left: int) -> Saving:
        totals, times, sends = [], [], 0.0
        for one in (row.task, task):
            load = replace(cluster.load(one, one.workers, one.server), rounds=float(left))
            round_s, others_s = cluster.seconds(load)
            times.append(round_s)
            totals.append(round_s * left + others_s)
            sends = max((bits / cluster.capacity_bps[link] for link, bits in load.bits.items()), default=0.0)
        before = set(reads(wanted, row.task.workers))
        again = [pair for pair in reads(wanted, task.workers) if pair not in before]
        shards = Wanted(wanted.count, tuple(home for home, _ in again), wanted.shard_bytes)
        cost = sends + (cluster.read_seconds(shards, task.workers) if again else 0.0)
        workers = len(task.workers)
        return Saving((totals[0] - totals[1]) * workers, cost * workers, times[0], times[1])

    def change(
        self,
        row: TaskRow,
        task: Task,
        state: NetworkState,
        what: str,
        cause: str,
        *,
        saving: Saving | None = None,
        at_once: bool = False,
        anew: tuple[str, ...] = (),
        more: Mapping[str, Any] | None = None,
    ) -> bool:
        """Have a task change to these hosts, with the plans that they get now; whether that is possible.

        more: for the database, beside what is known here.
        """
        try:
            decision, proposals = self._giver.propose(task, state)
        except PlanError:
            return False
        why: dict[str, Any] = {"hosts": list(task.workers), "before": list(row.task.workers)}
        why |= more or {}
        why |= {} if saving is None else {"old_s": saving.old_s, "new_s": saving.new_s}
        why["plans"] = type(decision.upload).__name__.removesuffix("Layout").lower()
        numbers = {} if saving is None else {"saving_s": saving.saving_s, "cost_s": saving.cost_s}
        change = Change(task, proposals, what, cause, at_once, why=why, anew=anew, **numbers)
        return self._replanner.begin(row, change)

    def _note(self, row: TaskRow, what: str, why: dict[str, Any]) -> None:
        with self._store.transaction():
            now = self._installer.executor.now()
            self._store.history.add_decision(now, row.name, what, self._policy, why)
