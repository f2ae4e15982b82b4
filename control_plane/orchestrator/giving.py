"""Slots by value: whole trees for the tasks whose trees save most worker-seconds, and hosts that add up for the others.

A tree in part is worse than a ring (`docs/placement.md`). With ``slots='whole'`` who comes first gets a whole tree;
with ``'value'`` all tasks contend anew at every arrival and end, and running ones change between two rounds. What a
winner gets must be free first, so it waits until those that lose have changed and their trees are removed.
"""

from collections.abc import Callable
from dataclasses import dataclass

from p4reduce.base.units import PS_PER_S
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.orchestrator.computing import ComputingManager
from p4reduce.control_plane.orchestrator.installer import Installer, Proposal
from p4reduce.control_plane.orchestrator.kinds import Kind, Kinds, KindsOf, training_s
from p4reduce.control_plane.orchestrator.replanning import Change, Replanner
from p4reduce.control_plane.orchestrator.rows import TaskRow
from p4reduce.control_plane.orchestrator.states import AT_WORK, Phase
from p4reduce.control_plane.placement.slots_by_value import Contender, whole_trees
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.scheduling import Decision
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task

StateWithout = Callable[[str | None], NetworkState]


@dataclass(frozen=True)
class _Standing:
    """A running task, what it has, and what it could have."""

    row: TaskRow
    plans: tuple[Plan, ...]
    kinds: Kinds
    left: int
    tree_s: float
    ring_s: float
    keeps: bool

    @property
    def on_tree(self) -> bool:
        return any(plan.in_network for plan in self.plans)

    @property
    def has(self) -> dict[str, int]:
        """Slots by switch."""
        found: dict[str, int] = {}
        for plan in self.plans:
            for switch in plan.by_switch:
                found[switch] = found.get(switch, 0) + plan.slots
        return found

    def contender(self) -> Contender:
        trees = [tuple(tree.switches) for tree in self.kinds.trees]
        needs = max((slots for tree in self.kinds.trees[:1] for slots in tree.switches.values()), default=1)
        if self.on_tree:  # it stays on the one that it has, or has none
            trees, needs = [tuple(self.has)], max(self.has.values())
        return Contender(
            self.row.name,
            tuple(trees),
            self.tree_s,
            self.ring_s,
            len(self.row.task.workers),
            needs,
            self.keeps and self.on_tree,
        )


class Giver:
    """Proposes plans for new tasks, and gives slots of running ones to others."""

    def __init__(
        self,
        installer: Installer,
        kinds: KindsOf,
        computing: ComputingManager,
        replanner: Replanner,
        state: StateWithout,
    ) -> None:
        self._installer = installer
        self._store = installer.store
        self._kinds = kinds
        self._computing = computing
        self._replanner = replanner
        self._state = state
        self._by_value = installer.options.slots == "value"
        self.due = True
        """somebody came or went since slots were last given"""

    def propose(self, task: Task, state: NetworkState) -> tuple[Decision, list[Proposal]]:
        """Plans for a task at its hosts: a whole tree where its slots are free now, else none in the network.

        `PlanError` where neither has room; nothing is taken then.
        """
        kinds = self._kinds.of(task, state)
        trains = self._trains(task)
        quick = kinds.hosts.seconds(state, trains) if kinds.hosts else float("inf")
        reason: PlanError | None = None
        for kind in kinds.trees:
            if kind.seconds(state, trains) >= quick:
                continue
            try:
                return kind.decision, self._installer.propose(kind.decision, whole=True)
            except PlanError as error:
                reason = error
        if kinds.hosts is None:
            raise reason or PlanError(f"task {task.name}: no whole tree, and its hosts may not add up")
        return kinds.hosts.decision, self._installer.propose(kinds.hosts.decision)

    def share(self) -> None:
        """Give slots to whom they save most, if that is wanted and somebody came or went."""
        if not self.due or not self._by_value or self._installer.options.threshold is None:
            return
        self.due = False
        standing = {one.row.name: one for row in self._store.tasks(AT_WORK) if (one := self._standing(row)) is not None}
        contenders = [one.contender() for one in standing.values() if one.kinds.trees or one.on_tree]
        resources = self._installer.controller.resources
        names = {switch for one in contenders for tree in one.trees for switch in tree}
        chosen = whole_trees(contenders, dict.fromkeys(names, resources.slots))
        for name, one in standing.items():
            if not one.keeps and one.on_tree and name not in chosen and one.kinds.hosts is not None:
                self._change(one, [one.kinds.hosts], "hosts add", "its slots save others more")
        for name, one in standing.items():
            if not one.keeps and not one.on_tree and name in chosen:
                first = one.kinds.trees[chosen[name]]
                others = [tree for tree in one.kinds.trees if tree is not first]
                self._change(one, [first, *others], "tree", "its tree saves most")

    def _standing(self, row: TaskRow) -> _Standing | None:
        """Where a running task stands; None where nothing can be said of it. It has the plans that wait for it."""
        left = row.task.rounds - self._store.history.rounds_done(row.name)
        pending = self._replanner.pending.get(row.name)
        active = self._store.plans((Phase.ACTIVE,), row.name)
        plans = tuple(pending.values()) if pending else tuple(map(self._installer.plan_of, active))
        state = self._state(row.name)
        try:
            kinds = self._kinds.of(row.task, state)
        except PlanError:
            kinds = Kinds((), None)
        trains = self._trains(row.task)
        tree_s = max(1e-12, kinds.trees[0].seconds(state, trains) if kinds.trees else trains)
        ring_s = kinds.hosts.seconds(state, trains) if kinds.hosts else float("inf")
        keeps = bool(pending) or left < 2 or kinds.hosts is None or not kinds.trees
        return _Standing(row, plans, kinds, left, tree_s, ring_s, keeps)

    def _change(self, one: _Standing, kinds: list[Kind], what: str, cause: str) -> None:
        """Have a task change at the end of its round, to the first of these that has its slots now."""
        if one.row.name in self._replanner.pending or self._store.task(one.row.name).state not in AT_WORK:
            return
        workers = len(one.row.task.workers)
        saving = (one.ring_s - one.tree_s) * (one.left - 1) * workers * (1 if what == "tree" else -1)
        cost = workers * max((plan.rtt_ps for plan in one.plans), default=0) / PS_PER_S
        threshold = self._installer.options.threshold
        if what == "tree" and (threshold is None or saving <= threshold * cost):
            return
        for kind in kinds:
            try:
                proposals = self._installer.propose(kind.decision, whole=bool(kind.switches))
            except PlanError:
                continue
            why = {"tree_s": one.tree_s, "hosts_add_s": one.ring_s, "switches": sorted(kind.switches)}
            change = Change(one.row.task, proposals, what, cause, saving_s=saving, cost_s=cost, why=why)
            self._replanner.begin(one.row, change)
            return

    def _trains(self, task: Task) -> float:
        return training_s(task, self._computing.slowdowns())
