"""Distribution of slots: whole trees for the tasks whose trees save most worker-seconds; other tasks' hosts add up.

A part of a tree is worse than a ring (`docs/placement.md`). With ``slots='whole'`` tasks get whole trees in order of
arrival; with ``'value'`` all tasks compete at every arrival and end, and running tasks change between two rounds. A
task that wins slots waits until the losing tasks have changed and their trees are removed.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.orchestrator.executor import ComputingManager, Role
from p4reduce.control_plane.orchestrator.history import TaskRow
from p4reduce.control_plane.orchestrator.installer import Installer, Proposal, round_traffic
from p4reduce.control_plane.orchestrator.options import AT_WORK, PlanPhase
from p4reduce.control_plane.orchestrator.replanning import PlanChange, Replanner
from p4reduce.control_plane.placement import ClusterView, IterationLoad, Placement, Racks, place, placement_named, reads
from p4reduce.control_plane.placement.cluster import FULL
from p4reduce.control_plane.placement.policies import Contender, whole_trees
from p4reduce.control_plane.placement.services import check_objective, paths_of, server_of
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.plans.make import window_range
from p4reduce.control_plane.plans.problem import MeshLayout, RingLayout, TreeLayout, power_of_two
from p4reduce.control_plane.scheduling import Policy, TreeDecision, plan_requests, policy_named
from p4reduce.control_plane.scheduling.task import Task, WantedHosts
from p4reduce.control_plane.scheduling.view import DIRECTIONS, NetworkState, loads
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4switch.base.values import PS_PER_S

# The kinds of plans that a task may have (whole trees, or its hosts add up), and the time of a round with each.


MOST_TREES: Final = 4
"""largest number of equally good trees to find"""


@dataclass(frozen=True)
class DecisionKind:
    """A decision for a task.

    Attributes
    ----------
    decision : TreeDecision
        The layouts of the task.
    switches : mapping
        Slots needed in every aggregating switch to keep the links busy; empty if hosts add up.
    """

    decision: TreeDecision
    switches: Mapping[str, int]

    def seconds(self, state: NetworkState, training_s: float) -> float:
        """Seconds of one round: training, and communication at the free rate of the busiest directed links."""
        task, total = self.decision.task, 0.0
        ways: list[Mapping[Hop, int | Fraction]] = [loads(self.decision, state.topology, way) for way in DIRECTIONS]
        if self.decision.together:
            ways = [{hop: sum(way.get(hop, 0) for way in ways) for hop in {**ways[0], **ways[1]}}]
        for way in ways:
            total += max((times / _left(state, hop) for hop, times in way.items()), default=0.0)
        bits = 32.0 * task.elements
        if isinstance(self.decision.upload, RingLayout):
            members = len(self.decision.upload.order)
            bits *= (members - 1) / members
        elif isinstance(self.decision.upload, MeshLayout):
            bits *= 2  # dispatch, combine
        return training_s + bits * total


@dataclass(frozen=True)
class Kinds:
    """``trees``: equally good whole trees, the best first; ``hosts``: a ring, or paths to the server."""

    trees: tuple[DecisionKind, ...]
    hosts: DecisionKind | None


class KindsOf:
    """Finds the kinds of plans of a task, and caches them while its hosts and the links that are down are the same."""

    def __init__(self, installer: Installer, policy: Policy, *, served: bool = True) -> None:
        self._served = served
        self._topology = installer.controller.topology
        self._lanes = installer.controller.program.lanes
        self._slots = installer.controller.resources.slots
        self._policy = policy
        self._known: dict[str, tuple[object, Kinds]] = {}

    def of(self, task: Task, state: NetworkState) -> Kinds:
        """The kinds of a task, for ``state`` without the task's own reservations; `PlanError` when there are none."""
        key = (task.workers, task.server, frozenset(state.down))
        known = self._known.get(task.name)
        if known is None or known[0] != key:
            kinds = Kinds(self._trees(task, state), self._hosts(task, state))
            if not kinds.trees and kinds.hosts is None:
                self._policy(task, replace(state, slots={}), lanes=self._lanes)  # raises and names the obstacle
                raise PlanError(f"task {task.name}: neither a whole tree nor its hosts' links have room for it")
            known = self._known[task.name] = key, kinds
        return known[1]

    def forget(self, name: str) -> None:
        """Forget an ended task."""
        self._known.pop(name, None)

    def _trees(self, task: Task, state: NetworkState) -> tuple[DecisionKind, ...]:
        """Equally good whole trees as if all slots were free; each avoids the inter-rack switches of earlier trees.

        For a policy without a server, its parallel trees in the present network.
        """
        if task.exchange is not None:
            return ()
        if not self._served:
            with contextlib.suppress(PlanError):
                decision = self._policy(task, state, lanes=self._lanes)
                return (DecisionKind(decision, {}),) if decision.parts else ()
        if task.aggregation == "hosts" or not self._served:
            return ()
        kinds: list[DecisionKind] = []
        state = replace(state, slots={}, reserved_slots={})
        without: dict[str, int] = {}
        for _ in range(MOST_TREES):
            try:
                asked = replace(task, aggregation="switches")
                decision = self._policy(asked, replace(state, slots=dict(without)), lanes=self._lanes)
                kind = self._kind(decision)
            except PlanError:
                break
            if not kind.switches or any(slots > self._slots for slots in kind.switches.values()):
                break
            if kinds and kind.seconds(state, 0.0) > 1.001 * kinds[0].seconds(state, 0.0):
                break
            kinds.append(kind)
            hosts = {*task.workers, task.server}
            between = [name for name in kind.switches if not hosts & set(self._topology.neighbours(name))]
            if not between:
                break
            without |= dict.fromkeys(between, 0)
        return tuple(kinds)

    def _hosts(self, task: Task, state: NetworkState) -> DecisionKind | None:
        """A ring or paths to the server, whichever takes less time; None if neither fits.

        For a task with an ``exchange``, the policy's plan for that exchange.
        """
        kinds = []
        policies = [self._policy] if task.exchange is not None else [policy_named("ring"), policy_named("spff")]
        for policy in policies if task.aggregation != "switches" else ():
            try:
                kinds.append(DecisionKind(policy(task, state, lanes=self._lanes), {}))
            except PlanError:
                continue
        return min(kinds, key=lambda kind: kind.seconds(state, 0.0), default=None)

    def _kind(self, decision: TreeDecision) -> DecisionKind:
        slots: Counter[str] = Counter()
        for request in plan_requests(replace(decision, max_slots=None), job=0, lanes=self._lanes):
            if isinstance(request.layout, TreeLayout):
                least = power_of_two(2 * window_range(self._topology, request)[0])
                slots.update(dict.fromkeys(request.layout.children, least))
        return DecisionKind(decision, dict(slots))


def _left(state: NetworkState, hop: Hop) -> float:
    rate = state.topology.link_at(*hop).rate_bps
    return max(float(state.residual_bps(hop)), FULL * rate)


def training_s(task: Task, slowdown: Mapping[str, float]) -> float:
    """Training time in seconds of one round at the slowest of a task's hosts."""
    return task.training_ps / PS_PER_S * max((slowdown.get(host, 1.0) for host in task.workers), default=1.0)


# Hosts for tasks that name none: placement policies see the orchestrator's knowledge as a cluster.


class Placer:
    """Chooses hosts; the same task in the same cluster gets the same hosts.

    It stores the predicted load of running tasks on links, so the time for a choice depends on the cluster, not on the
    number of tasks so far.
    """

    def __init__(self, topology: Topology, computing: ComputingManager, policy: str) -> None:
        """Raise `PlanError` for an unknown policy."""
        placement_named(policy)
        self._racks = Racks(topology)
        self._computing = computing
        self._policy = policy
        self._loads: dict[str, IterationLoad] = {}
        self._hosts: dict[str, dict[str, int]] = {}

    def fault(self, task: Task, lanes: int) -> str:
        """Reason why no choice of hosts will ever be possible; '' if one may be."""
        if task.serving is None and task.wanted is None:
            return ""
        empty = self._cluster(NetworkState(self._racks.topology))
        return empty.fault(task) if task.serving is None else check_objective(task, empty, lanes)

    def choose(self, task: Task, state: NetworkState) -> Placement:
        """Hosts for a task now; `PlanError` when there are none."""
        placement = place(task, self._cluster(state), self._policy)
        return Placement(placement.workers, placement.server, {"placement": self._policy, **placement.why})

    def serve(self, task: Task, state: NetworkState, lanes: int) -> Placement:
        """Choose a host for the server of a task that infers; `PlanError` when there is none."""
        server, why = server_of(task, self._cluster(state), lanes)
        return Placement(task.workers, server, why)

    def paths(self, task: Task, state: NetworkState, lanes: int) -> list[TreeDecision]:
        """Paths between the server of a task that infers and its clients; `PlanError` if a link is full."""
        return paths_of(task, self._cluster(state), lanes)

    def begin(self, task: Task, plans: Mapping[Role, Plan], rounds: int) -> None:
        """Record that a task runs at its hosts with these plans, and how many rounds are left."""
        if task.serving is not None:
            return  # its demand is reserved on links, so its traffic is not predicted
        self._hosts[task.name] = dict.fromkeys(task.workers, task.slots)
        self._loads[task.name] = self._load(task, plans, rounds)

    def _load(self, task: Task, plans: Mapping[Role, Plan], rounds: int) -> IterationLoad:
        """The load of a round on links, from the predicted bytes of its plans."""
        bits: dict[int, float] = {}
        for role, plan in plans.items():
            own: dict[int, float] = {}
            for (node, port), sent in round_traffic(task, role, plan).items():
                link = self._racks.link(node, self._racks.topology.neighbour(node, port))
                own[link] = max(own.get(link, 0.0), 8.0 * sent.bytes)
            for link, much in own.items():
                if much:  # predictions include links without traffic
                    bits[link] = bits.get(link, 0.0) + much
        slots = tuple(dict.fromkeys(switch for plan in plans.values() for switch in plan.by_switch))
        return IterationLoad(training_s(task, self._computing.slowdowns()), bits, slots, float(rounds))

    def round_done(self, task: Task, number: int) -> None:
        """Record that round ``number`` (from 0) of a task has ended."""
        load = self._loads.get(task.name)
        if load is not None:
            self._loads[task.name] = replace(load, rounds=float(max(0, task.rounds - number - 1)))

    def another(self, task: Task, state: NetworkState) -> tuple[Placement, ClusterView]:
        """Choose hosts for a running task as if it arrived now; returns them and the cluster without the task.

        ``task`` wants hosts; ``state`` is the network without its reservations. `PlanError` when there are none.
        """
        cluster = self._cluster(state).without([task.name])
        return place(task, cluster, self._policy), cluster

    def end(self, name: str) -> None:
        """Forget an ended task; no effect if it is not known."""
        self._loads.pop(name, None)
        self._hosts.pop(name, None)

    def _cluster(self, state: NetworkState) -> ClusterView:
        computing = self._computing
        return ClusterView(
            self._racks,
            state,
            slots=computing.slots(),
            free=computing.free_slots(),
            slowdown=computing.slowdowns(),
            running=self._loads,
            hosts=self._hosts,
            serving=computing.serving,
        )


StateWithout = Callable[[str | None], NetworkState]


@dataclass(frozen=True)
class _Standing:
    """A running task with its plans and the kinds that it could have."""

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
        """Slots that the task has, by switch."""
        slots: dict[str, int] = {}
        for plan in self.plans:
            for switch in plan.by_switch:
                slots[switch] = slots.get(switch, 0) + plan.slots
        return slots

    def contender(self) -> Contender:
        trees = [tuple(tree.switches) for tree in self.kinds.trees]
        needs = max((slots for tree in self.kinds.trees[:1] for slots in tree.switches.values()), default=1)
        if self.on_tree:  # it keeps its present tree, or has none
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
    """Proposes plans for new tasks, and moves slots of running tasks to others."""

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
        """whether a task began or ended since slots were last distributed"""

    def propose(self, task: Task, state: NetworkState) -> tuple[TreeDecision, list[Proposal]]:
        """Plan a task at its hosts: a whole tree if its slots are free now, otherwise no aggregation in the network.

        `PlanError` if neither fits; nothing is taken then.
        """
        kinds = self._kinds.of(task, state)
        trains = self._trains(task)
        quick = kinds.hosts.seconds(state, trains) if kinds.hosts else float("inf")
        reason: PlanError | None = None
        for kind in kinds.trees:
            if kind.seconds(state, trains) >= quick:
                continue
            try:
                return kind.decision, self._installer.propose(kind.decision, whole=bool(kind.switches))
            except PlanError as error:
                reason = error
        if kinds.hosts is None:
            raise reason or PlanError(f"task {task.name}: no whole tree, and its hosts may not add up")
        return kinds.hosts.decision, self._installer.propose(kinds.hosts.decision)

    def share(self) -> None:
        """Give slots to the tasks that save most with them, if that is enabled and a task began or ended."""
        if not self.due or not self._by_value or self._installer.options.threshold is None:
            return
        self.due = False
        rows = [row for row in self._store.tasks(AT_WORK) if row.task.serving is None]
        standing = {running.row.name: running for row in rows if (running := self._standing(row)) is not None}
        contenders = [running.contender() for running in standing.values() if running.kinds.trees or running.on_tree]
        resources = self._installer.controller.resources
        names = {switch for contender in contenders for tree in contender.trees for switch in tree}
        chosen = whole_trees(contenders, dict.fromkeys(names, resources.slots))
        for name, running in standing.items():
            if not running.keeps and running.on_tree and name not in chosen and running.kinds.hosts is not None:
                self._change(running, [running.kinds.hosts], "hosts add", "its slots save others more")
        for name, running in standing.items():
            if not running.keeps and not running.on_tree and name in chosen:
                first = running.kinds.trees[chosen[name]]
                others = [tree for tree in running.kinds.trees if tree is not first]
                self._change(running, [first, *others], "tree", "its tree saves most")

    def _standing(self, row: TaskRow) -> _Standing | None:
        """The present plans and the choices of a running task; plans of a pending change count as present ones."""
        left = row.task.rounds - self._store.history.rounds_done(row.name)
        pending = self._replanner.pending.get(row.name)
        active = self._store.plans((PlanPhase.ACTIVE,), row.name)
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

    def _change(self, running: _Standing, kinds: list[DecisionKind], what: str, cause: str) -> None:
        """Change a task, at the end of its round, to the first of these kinds whose slots are free now."""
        if running.row.name in self._replanner.pending or self._store.task(running.row.name).state not in AT_WORK:
            return
        workers = len(running.row.task.workers)
        saving = (running.ring_s - running.tree_s) * (running.left - 1) * workers * (1 if what == "tree" else -1)
        cost = workers * max((plan.rtt_ps for plan in running.plans), default=0) / PS_PER_S
        threshold = self._installer.options.threshold
        if what == "tree" and (threshold is None or saving <= threshold * cost):
            return
        for kind in kinds:
            try:
                proposals = self._installer.propose(kind.decision, whole=bool(kind.switches))
            except PlanError:
                continue
            why = {"tree_s": running.tree_s, "hosts_add_s": running.ring_s, "switches": sorted(kind.switches)}
            change = PlanChange(running.row.task, proposals, what, cause, saving_s=saving, cost_s=cost, why=why)
            self._replanner.begin(running.row, change)
            return

    def _trains(self, task: Task) -> float:
        return training_s(task, self._computing.slowdowns())


# Moves of running tasks' workers to other hosts: when that saves more than it costs, or when a host has died.
#
# A move is a change of plans between two rounds (`replanning`). The server stays and sends the model to new workers,
# new workers read their data from its homes, and the next round begins. Workers that stay keep their rank.


LEAST_LEFT: Final = 2
"""least number of remaining rounds for a move: the present one, and one more"""


@dataclass(frozen=True)
class Saving:
    """The predicted saving and cost of a move, in worker-seconds.

    Attributes
    ----------
    saving_s : float
        (seconds of a round at the old hosts, and its cost to others - the same at the new hosts) * rounds * workers.
    cost_s : float
        (sending the model to new workers + reading their data) * workers.
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
        """Move tasks for which a move pays; each call considers a few, in turn. No effect if moving is disabled."""
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
        """Continue a task at once after its plans or hosts have failed; returns whether that is possible.

        Tries other plans at the same hosts, if none of them is ``lost``; then other hosts, if moving is enabled and the
        task's hosts were chosen.
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
            saving = self._weigh(row, row.wanted, task, cluster, left - 1)
        except PlanError:
            return
        if saving.saving_s > threshold * saving.cost_s:
            cause = "it is predicted to be quicker there"
            self.change(row, task, state, "move", cause, saving=saving)
        elif self._kept.get(row.name) != task.workers:
            self._kept[row.name] = task.workers
            self._note(row, "stay", {"hosts": list(task.workers), **vars(saving), "threshold": threshold})

    def _elsewhere(self, row: TaskRow, wanted: WantedHosts, state: NetworkState) -> tuple[Task, ClusterView]:
        """The task with the hosts that it would get now, and the cluster without it; `PlanError`: there are none."""
        asked = replace(row.task, workers=(), wanted=replace(wanted, count=len(row.task.workers)))
        placement, cluster = self._placer.another(asked, state)
        if row.task.server in placement.workers:
            raise PlanError(f"task {row.name}: its server's host cannot be a worker")
        new = iter([host for host in placement.workers if host not in row.task.workers])
        hosts = tuple(host if host in placement.workers else next(new) for host in row.task.workers)
        return replace(row.task, workers=hosts), cluster

    def _weigh(self, row: TaskRow, wanted: WantedHosts, task: Task, cluster: ClusterView, left: int) -> Saving:
        totals, times, sends = [], [], 0.0
        for placed in (row.task, task):
            load = replace(cluster.load(placed, placed.workers, placed.server), rounds=float(left))
            round_s, others_s = cluster.seconds(load)
            times.append(round_s)
            totals.append(round_s * left + others_s)
            sends = max((bits / cluster.capacity_bps[link] for link, bits in load.bits.items()), default=0.0)
        before = set(reads(wanted, row.task.workers))
        again = [pair for pair in reads(wanted, task.workers) if pair not in before]
        shards = WantedHosts(wanted.count, tuple(home for home, _ in again), wanted.shard_bytes)
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
        """Plan ``task``, which has the next hosts, and change to it; returns whether that is possible.

        more: additional reasons to record in the database.
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
        change = PlanChange(task, proposals, what, cause, at_once, why=why, anew=anew, **numbers)
        return self._replanner.begin(row, change)

    def _note(self, row: TaskRow, what: str, why: dict[str, Any]) -> None:
        with self._store.transaction():
            now = self._installer.executor.now()
            self._store.history.add_decision(now, row.name, what, self._policy, why)
