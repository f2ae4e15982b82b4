"""`hierarchical-ring`: rings within racks, a ring among their leaders, and the sum back to each rack, on packets."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from p4reduce.comm.communicator import FloatArray
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.plans.problem import StarLayout
from p4reduce.control_plane.scheduling.policy import Decision
from p4reduce.control_plane.scheduling.state import Hop, NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import View
from p4reduce.experiments.poster.bounds import limits
from p4reduce.experiments.poster.measured import Measured
from p4reduce.experiments.poster.packets import FIRST_JOB, TaskNetwork
from p4reduce.experiments.poster.policies import POLICIES
from p4reduce.experiments.poster.rounds import Round
from p4reduce.jobs.verify import expect_sum
from p4reduce.topologies import Topology

NAME: Final = "hierarchical-ring"
Held = dict[str, FloatArray]
"""what every host has, by its name"""


@dataclass(frozen=True)
class HierarchicalRing:
    """What a task runs, phase after phase; within a phase all at the same time.

    A phase that has nothing to do is empty: without racks of two or more only ``leaders`` are left, a plain ring; with
    all hosts in one rack only ``racks``.
    """

    task: Task
    racks: tuple[Decision, ...]
    """a ring all-reduce in every rack of at least two; its leader is the last of the ring"""
    leaders: tuple[Decision, ...]
    """a ring all-reduce of one host a rack"""
    spread: tuple[Decision, ...]
    """in every rack of at least two its leader sends the sum to each of the others"""
    demand_bps: Mapping[Hop, int]
    """on every directed link the most that one phase takes: phases do not overlap"""

    @property
    def phases(self) -> tuple[tuple[Decision, ...], ...]:
        """Those with something to do."""
        return tuple(phase for phase in (self.racks, self.leaders, self.spread) if phase)


def racks_of(task: Task, topology: Topology) -> list[tuple[str, ...]]:
    """The task's hosts by access switch, the leader of each last: G, or the first of the local models."""
    found: dict[str, list[str]] = {}
    for host in (task.server, *task.workers):
        found.setdefault(topology.neighbours(host)[0], []).append(host)
    return [(*rack[1:], rack[0]) for rack in found.values()]


def hierarchical_ring(task: Task, state: NetworkState, *, lanes: int = 256) -> HierarchicalRing:
    """Admit a task: every ring as policy ``ring`` does, and the leaders' copies on what links have left.

    Raises
    ------
    Rejection
        Names a link with too little left.
    """
    racks = racks_of(task, state.topology)
    shared = [rack for rack in racks if len(rack) > 1]
    tops = tuple(rack[-1] for rack in racks)

    def ring(members: tuple[str, ...]) -> Decision:
        return POLICIES["ring"](replace(task, workers=members[:-1], server=members[-1]), state, lanes=lanes)

    first = tuple(ring(rack) for rack in shared)
    # G leads the first rack; it is the last of the leaders' ring too.
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


def _star(task: Task, state: NetworkState, rack: tuple[str, ...], lanes: int) -> Decision:
    """The leader sends a copy to each of the others, through their switch; requests, empty frames, are not counted."""
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
    return Decision(NAME, own, layout, layout, demand)


class HierarchicalNetwork(TaskNetwork):
    """A network that carries hierarchical rings too."""

    def run_phases(
        self, found: HierarchicalRing, inputs: Sequence[FloatArray]
    ) -> tuple[FloatArray, Measured, tuple[Measured, ...]]:
        """One round: each phase begins when all of the one before have what it gave them; nothing is pipelined.

        What a phase takes is counted until its last host is done. Acknowledgements that are still on their way then
        are waited for, in nobody's time: each phase has the links to itself, like the rounds of :meth:`run`.

        Parameters
        ----------
        found : HierarchicalRing
            What was admitted.
        inputs : sequence of float32, each of shape (elements,)
            What each local model gives, in rank order; G's host adds nothing.

        Returns
        -------
        float32 of shape (elements,), Measured, tuple of Measured
            The sum that every host got; what the round took; the same of every phase.

        Raises
        ------
        ClusterError
            When a phase does not end, a sum is wrong, or hosts end with different bytes.
        """
        decisions = [decision for phase in found.phases for decision in phase]
        plans = []
        for number, decision in enumerate(decisions):
            made = self._plan(decision, FIRST_JOB + number, alone=True)
            assert made is not None  # alone: plans, or an error  # noqa: S101
            plans.append((decision, made))
        every = [plan for _, own in plans for plan in own]
        self._switches.controller.install_idle(every)
        held: Held = dict(zip(found.task.workers, inputs, strict=True))
        held[found.task.server] = np.zeros_like(inputs[0])
        measured = []
        with self._network() as network:
            waiting = iter(self._rounds(network, plans))
            make: Callable[[Round, Held], Round]
            for phase in found.phases:
                make = self._pulling if phase is found.spread else self._reducing
                rounds = [make(next(waiting), held) for _ in phase]
                before, began = network.fabric.links.array(), network.now
                self._carry(network, rounds)
                for one in rounds:
                    one.check()
                    plan = one.jobs[0].plan
                    held.update({host: one.targets[rank] for rank, host in enumerate(plan.workers)})
                done = max(network.done_ps(one.jobs[0]) for one in rounds) - began
                carried = [what for one in rounds for what in one.carried]
                own = self._count(network, carried, before, done)
                allowed = [limits(plan, operation, self.elements) for plan, operation in carried]
                measured.append(
                    replace(
                        own,
                        bound_ps=max(one.bound_ps for one in allowed),
                        ordered_ps=max(one.ordered_ps for one in allowed),
                        chunk_ps=max(one.chunk_ps for one in allowed),
                    )
                )
        self._switches.controller.uninstall_idle(every)
        total = held[found.task.server]
        _check(found.task, held, inputs, self.lanes)
        return total, _one_after_the_other(measured), tuple(measured)

    def _reducing(self, idle: Round, held: Held) -> Round:
        given = [held[host] for host in idle.jobs[0].plan.workers]
        expected = expect_sum(given, None, self.lanes)
        return Round(idle.jobs, given, expected, np.zeros((len(given), self.elements), np.float32))

    def _pulling(self, idle: Round, held: Held) -> Round:
        plan = idle.jobs[0].plan
        assert plan.server is not None  # noqa: S101
        given = held[plan.server]
        targets = np.zeros((len(plan.workers) + 1, self.elements), np.float32)
        targets[-1] = given
        return Round(idle.jobs, [given], expect_sum([given], None, self.lanes), targets, pulls=True)


def _check(task: Task, held: Held, inputs: Sequence[FloatArray], lanes: int) -> None:
    total = held[task.server]
    ratio = expect_sum(list(inputs), None, lanes).deviation(total).worst_ratio
    if ratio > 1:
        raise ClusterError(f"{NAME}: a sum is {ratio:.3g} times its documented error bound off")
    for worker in task.workers:
        if not np.array_equal(held[worker].view(np.uint32), total.view(np.uint32)):
            raise ClusterError(f"{NAME}: {worker} got other weights than the global model has")


def _one_after_the_other(phases: Sequence[Measured]) -> Measured:
    """All numbers of the phases added up."""
    names = [name for name in Measured.__dataclass_fields__ if name != "differences"]
    return Measured(
        **{name: sum(getattr(phase, name) for phase in phases) for name in names},
        differences=tuple(text for phase in phases for text in phase.differences),
    )
