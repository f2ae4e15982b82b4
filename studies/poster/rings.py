"""Tasks without aggregating switches: their times if hosts sum the models among themselves.

The part has rings and the overlay MST of hosts. It is separate and in no bar: the bound of a ring is not tight
(:mod:`~studies.poster.packets`), and phases are not pipelined.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Protocol

import numpy as np

from p4reduce.control_plane.counters import Operation
from p4reduce.control_plane.plans.problem import StarLayout
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.trees import NAME, HostTree, overlay_mst_hosts
from p4reduce.control_plane.scheduling.trees import NAME as HOST_TREE
from p4reduce.control_plane.scheduling.view import POLICIES, NetworkState, Rejection, TreeDecision, View
from p4reduce.group.backend import FloatArray
from p4reduce.group.errors import ClusterError
from p4reduce.network.jobs.network import bundled
from p4reduce.network.jobs.specs import expect_sum
from p4reduce.runs.participant import tensor
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from studies.frame import column, record
from studies.poster.cells import FINISHED, REJECTED, CellResult, decide_all
from studies.poster.packets import FIRST_JOB, Round, RoundCounts, TaskNetwork, limits
from studies.poster.settings import SPFF, PosterSettings, TrafficScenario, tasks_of

# Tasks that run in phases, on packets: hosts sum or forward data only when it is complete.


Held = dict[str, FloatArray]
"""the array of every host, by the host's name"""


@dataclass(frozen=True)
class JobsAtOnce:
    """Jobs that run at the same time."""

    operation: Operation
    """ALL_REDUCE for rings; PUSH: a host adds the arrays of others to its array; PULL: others get a host's array"""
    decisions: tuple[TreeDecision, ...]


class Phased(Protocol):
    """An admitted task, with its phases in order."""

    @property
    def name(self) -> str:
        """Name of the policy."""

    @property
    def task(self) -> Task:
        """The admitted task."""

    @property
    def phases(self) -> tuple[JobsAtOnce, ...]:
        """The phases in order, none of them empty."""

    @property
    def demand_bps(self) -> Mapping[Hop, int]:
        """Rate that the task reserves on every directed link, bit/s."""


class PhasedNetwork(TaskNetwork):
    """A network that also runs tasks of several phases."""

    def run_phases(
        self, phased: Phased, inputs: Sequence[FloatArray]
    ) -> tuple[FloatArray, RoundCounts, tuple[RoundCounts, ...]]:
        """Run one round: each phase begins when all hosts have the results of the previous one; nothing is pipelined.

        A phase lasts until its last host is done. The run then waits for outstanding acknowledgements, in time that
        does not count: each phase has the links to itself, like the rounds of :meth:`run`.

        Parameters
        ----------
        phased : Phased
            The admitted task.
        inputs : sequence of float32, each of shape (elements,)
            Array of each local model, in rank order; G's host adds nothing.

        Returns
        -------
        float32 of shape (elements,), RoundCounts, tuple of RoundCounts
            The sum that every host got; the counts of the round; the counts of every phase.

        Raises
        ------
        ClusterError
            A phase does not end, a sum is wrong, or hosts end with different bytes.
        """
        plans = []
        for number, decision in enumerate(decision for phase in phased.phases for decision in phase.decisions):
            made = self._plan(decision, FIRST_JOB + number, alone=True)
            assert made is not None  # alone: plans, or an error  # noqa: S101
            plans.append((decision, made))
        every = [plan for _, own in plans for plan in own]
        self._switches.controller.install_idle(every)
        held: Held = dict(zip(phased.task.workers, inputs, strict=True))
        held[phased.task.server] = np.zeros_like(inputs[0])
        measured = []
        with self._network() as network:
            waiting = iter(self._rounds(network, plans))
            for phase in phased.phases:
                rounds = [self._round(next(waiting), phase.operation, held) for _ in phase.decisions]
                before, began = network.fabric.links.array(), network.now
                self._carry(network, rounds)
                for round_ in rounds:
                    round_.check()
                    _keep(round_, held)
                done = max(network.done_ps(round_.jobs[0]) for round_ in rounds) - began
                carried = [what for round_ in rounds for what in round_.carried]
                own = self._count(network, carried, before, done)
                allowed = [limits(plan, operation, self.elements) for plan, operation in carried]
                measured.append(
                    replace(
                        own,
                        bound_ps=max(limit.bound_ps for limit in allowed),
                        ordered_ps=max(limit.ordered_ps for limit in allowed),
                        chunk_ps=max(limit.chunk_ps for limit in allowed),
                    )
                )
        self._switches.controller.uninstall_idle(every)
        _check(phased, held, inputs, self.lanes)
        return held[phased.task.server], _one_after_the_other(measured), tuple(measured)

    def _round(self, idle: Round, operation: Operation, held: Held) -> Round:
        plan = idle.jobs[0].plan
        if operation is Operation.PULL:
            assert plan.server is not None  # noqa: S101
            given = [held[plan.server]]
        else:
            given = [held[host] for host in plan.workers]
        targets = np.zeros((len(plan.workers) + (not plan.ring), self.elements), np.float32)
        if operation is Operation.PULL:
            targets[-1] = given[0]
        return Round(idle.jobs, given, expect_sum(given, None, self.lanes), targets, operation)


def _keep(round_: Round, held: Held) -> None:
    """Store the arrays that hosts have after a phase."""
    plan = round_.jobs[0].plan
    if round_.operation is Operation.PUSH:
        assert plan.server is not None  # noqa: S101
        held[plan.server] = held[plan.server] + round_.weights
    else:
        held.update({host: round_.targets[rank] for rank, host in enumerate(plan.workers)})


def _check(phased: Phased, held: Held, inputs: Sequence[FloatArray], lanes: int) -> None:
    total = held[phased.task.server]
    expect_sum(list(inputs), None, lanes).deviation(total).check(phased.name)
    for worker in phased.task.workers:
        if not np.array_equal(held[worker].view(np.uint32), total.view(np.uint32)):
            raise ClusterError(f"{phased.name}: {worker} got other weights than the global model has")


def _one_after_the_other(phases: Sequence[RoundCounts]) -> RoundCounts:
    """Return the sums of all numbers of the phases."""
    names = [name for name in RoundCounts.__dataclass_fields__ if name != "differences"]
    return RoundCounts(
        **{name: sum(getattr(phase, name) for phase in phases) for name in names},
        differences=tuple(text for phase in phases for text in phase.differences),
    )


# `hierarchical-ring`: rings within racks, a ring among their leaders, and the sum back to each rack.


HIERARCHICAL: Final = "hierarchical-ring"


@dataclass(frozen=True)
class HierarchicalRing:
    """The rings of a task by phase; all rings of a phase run at the same time.

    Phases without work are empty: without racks of two or more hosts there is only ``leaders``, a plain ring; with all
    hosts in one rack there is only ``racks``.
    """

    task: Task
    racks: tuple[TreeDecision, ...]
    """a ring all-reduce in every rack with at least two hosts; the leader is the last of its ring"""
    leaders: tuple[TreeDecision, ...]
    """a ring all-reduce over one host of each rack"""
    spread: tuple[TreeDecision, ...]
    """in every rack with at least two hosts, the leader sends the sum to each of the others"""
    demand_bps: Mapping[Hop, int]
    """on every directed link, the highest rate of any phase, because phases do not overlap"""

    name: ClassVar[str] = HIERARCHICAL

    @property
    def phases(self) -> tuple[JobsAtOnce, ...]:
        """The phases that are not empty."""
        planned = (
            JobsAtOnce(Operation.ALL_REDUCE, self.racks),
            JobsAtOnce(Operation.ALL_REDUCE, self.leaders),
            JobsAtOnce(Operation.PULL, self.spread),
        )
        return tuple(phase for phase in planned if phase.decisions)


def racks_of(task: Task, topology: Topology) -> list[tuple[str, ...]]:
    """Return the task's hosts by access switch, each with its leader last: G, or the first of the local models."""
    racks: dict[str, list[str]] = {}
    for host in (task.server, *task.workers):
        racks.setdefault(topology.neighbours(host)[0], []).append(host)
    return [(*rack[1:], rack[0]) for rack in racks.values()]


def hierarchical_ring(task: Task, state: NetworkState, *, lanes: int = 256) -> HierarchicalRing:
    """Admit a task: rings as in policy ``ring``, and the leaders' copies within the residual bandwidth of links.

    Raises
    ------
    Rejection
        A link has too little bandwidth left; the message names it.
    """
    racks = racks_of(task, state.topology)
    shared = [rack for rack in racks if len(rack) > 1]
    tops = tuple(rack[-1] for rack in racks)

    def ring(members: tuple[str, ...]) -> TreeDecision:
        return POLICIES["ring"](replace(task, workers=members[:-1], server=members[-1]), state, lanes=lanes)

    first = tuple(ring(rack) for rack in shared)
    # G leads the first rack, and is also the last of the leaders' ring.
    second = (ring((*tops[1:], tops[0])),) if len(tops) > 1 else ()
    third = tuple(_star(task, state, rack, lanes) for rack in shared) if second else ()
    demand: dict[Hop, int] = {}
    for phase in (first, second, third):
        together: Counter[Hop] = Counter()
        for decision in phase:
            together.update(decision.demand_bps)
        for hop, bps in together.items():
            demand[hop] = max(bps, demand.get(hop, 0))
    return HierarchicalRing(task, first, second, third, demand)


def _star(task: Task, state: NetworkState, rack: tuple[str, ...], lanes: int) -> TreeDecision:
    """Return the leader's copies to each of the others through their switch; requests (empty frames) do not count."""
    *others, leader = rack
    own = replace(task, workers=tuple(others), server=leader)
    view, topology = View(own, state, lanes), state.topology
    switch = topology.neighbours(leader)[0]
    copies = {(leader, switch): len(others)} | {(switch, other): 1 for other in others}
    demand = {}
    for (a, b), times in copies.items():
        needed = times * task.reserved_bps
        view.check_link(a, b, max(1, needed))
        if needed:
            demand[(a, topology.port(a, b))] = needed
    ways = [(a, switch, b) for other in others for a, b in ((leader, other), (other, leader))]
    layout = StarLayout({(way[0], way[-1]): way for way in ways})
    return TreeDecision(HIERARCHICAL, own, layout, layout, demand)


# `overlay-mst-hosts` on packets: stars up the tree of hosts, the deepest first, and down again.


@dataclass(frozen=True)
class HostPhases:
    """A tree of hosts as phases: PUSH from the deepest inner hosts up to G's host; PULL in reverse order."""

    tree: HostTree
    name: ClassVar[str] = NAME

    @property
    def task(self) -> Task:
        """The task of the tree."""
        return self.tree.task

    @property
    def demand_bps(self) -> Mapping[Hop, int]:
        """Rate that the tree reserves on every directed link, bit/s."""
        return self.tree.demand_bps

    @property
    def phases(self) -> tuple[JobsAtOnce, ...]:
        """Two phases for each level with inner hosts."""
        stars = [tuple(self._star(host) for host in stage) for stage in self.tree.stages]
        up = [JobsAtOnce(Operation.PUSH, stage) for stage in stars]
        return (*up, *(JobsAtOnce(Operation.PULL, stage) for stage in stars[::-1]))

    def _star(self, host: str) -> TreeDecision:
        layout = self.tree.requests(job=0)[host].layout
        assert isinstance(layout, StarLayout)  # noqa: S101
        own = replace(self.task, workers=tuple(self.tree.children[host]), server=host)
        return TreeDecision(NAME, own, layout, layout)


COMPARED: Final = (SPFF, "overlay-mst", "steiner", "ring")
"""policies that are compared, besides those of ``IN_PHASES``"""


def _host_tree(task: Task, state: NetworkState, *, lanes: int) -> Phased:
    return HostPhases(overlay_mst_hosts(task, state, lanes=lanes))


IN_PHASES: Final[dict[str, Callable[..., Phased]]] = {HIERARCHICAL: hierarchical_ring, HOST_TREE: _host_tree}
"""by name: functions from a task, the network's state and ``lanes`` to the admitted task; they may raise `Rejection`"""


@dataclass(frozen=True)
class RingCell:
    """The work of one process: a network with the first tasks of a seed, with the most local models."""

    settings: PosterSettings
    scenario: TrafficScenario
    seed: int


@record
class RingRow:
    """One task under one policy."""

    scenario: str = column("network")
    policy: str = column("policy")
    size: int = column("local models")
    seed: int
    task: str
    status: str
    reason: str
    """why the task was rejected; empty if it was not"""
    phases: int
    """number of phases with work; 1 for a tree in switches and for a ring"""
    communication_ps: int
    bound_ps: int
    """lower bound of the phases together; not tight for rings"""
    bytes: int
    first_bytes: int
    predicted_bytes: int


def ring_cells(settings: PosterSettings) -> list[RingCell]:
    """Return cells by network, for the first seed."""
    return [
        RingCell(settings, scenario, settings.seeds[0])
        for scenario in settings.scenarios
        if settings.ring_tasks and scenario.name in settings.ring_networks
    ]


def run_rings(cell: RingCell) -> CellResult:
    """Admit the tasks of every policy one after the other, and run one round of each; sums and bytes are checked."""
    settings, scenario = cell.settings, cell.scenario
    topology, size = scenario.build(), max(settings.sizes)
    inputs = [tensor(cell.seed, rank, 0, settings.elements) for rank in range(size)]
    rows: list[RingRow] = []
    differences: list[str] = []
    with PhasedNetwork(
        topology,
        bundled(settings.lanes),
        elements=settings.elements,
        load=scenario.load,
        seed=cell.seed,
    ) as network:
        background = network.background()
        tasks = tasks_of(scenario, topology, settings, cell.seed, size)[: settings.ring_tasks]
        answers: dict[str, Sequence[TreeDecision | Phased | Rejection]] = {
            name: decide_all(POLICIES[name], tasks, NetworkState(topology, dict(background)), settings.lanes)
            for name in COMPARED
        }
        for name, admit in IN_PHASES.items():
            answers[name] = _in_phases(admit, tasks, NetworkState(topology, dict(background)), settings.lanes)
        for name, own in answers.items():
            trees = iter(network.run([own_answer for own_answer in own if isinstance(own_answer, TreeDecision)]))
            for task, answer in zip(tasks, own, strict=True):
                answer_measured: RoundCounts | None = None
                if isinstance(answer, TreeDecision):
                    answer_measured = next(trees)
                elif not isinstance(answer, Rejection):
                    _, answer_measured, _ = network.run_phases(answer, inputs)
                rows.append(_row(cell, name, task, answer, answer_measured))
                if answer_measured is not None:
                    differences += [
                        f"{scenario.name}, seed {cell.seed}, {name}: {text}" for text in answer_measured.differences
                    ]
            # The rest of the generator uninstalls the trees.
            assert next(trees, None) is None  # noqa: S101
        differences += [f"{scenario.name}, seed {cell.seed}, rings: {text}" for text in network.check_counters()]
    return CellResult(tuple(rows), tuple(differences))


def _in_phases(
    admit: Callable[..., Phased], tasks: Sequence[Task], state: NetworkState, lanes: int
) -> list[Phased | Rejection]:
    """Admit tasks one after the other, and reserve their bandwidth in ``state``."""
    answers: list[Phased | Rejection] = []
    for task in tasks:
        try:
            phased = admit(task, state, lanes=lanes)
        except Rejection as rejection:
            answers.append(rejection)
            continue
        state.reserve(phased.demand_bps)
        answers.append(phased)
    return answers


def _row(
    cell: RingCell, policy: str, task: Task, answer: TreeDecision | Phased | Rejection, measured: RoundCounts | None
) -> RingRow:
    return RingRow(
        scenario=cell.scenario.name,
        policy=policy,
        size=len(task.workers),
        seed=cell.seed,
        task=task.name,
        status=FINISHED if measured else REJECTED,
        reason=str(answer) if isinstance(answer, Rejection) else "",
        phases=int(measured is not None) if isinstance(answer, TreeDecision | Rejection) else len(answer.phases),
        communication_ps=measured.communication_ps if measured else 0,
        bound_ps=measured.bound_ps if measured else 0,
        bytes=measured.bytes if measured else 0,
        first_bytes=measured.first_bytes if measured else 0,
        predicted_bytes=measured.predicted_bytes if measured else 0,
    )
