"""`hierarchical-ring`: rings within racks, a ring among their leaders, and the sum back to each rack."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from p4reduce.control_plane.plans.problem import StarLayout
from p4reduce.control_plane.predict import Operation
from p4reduce.control_plane.scheduling.policy import Decision
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import View
from p4reduce.experiments.poster.phases import Phase
from p4reduce.experiments.poster.policies import POLICIES
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

NAME: Final = "hierarchical-ring"


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

    name: ClassVar[str] = NAME

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Those with something to do."""
        planned = (
            Phase(Operation.ALL_REDUCE, self.racks),
            Phase(Operation.ALL_REDUCE, self.leaders),
            Phase(Operation.PULL, self.spread),
        )
        return tuple(phase for phase in planned if phase.decisions)


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
