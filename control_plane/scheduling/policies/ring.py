"""`ring`: ring all-reduce between the local models' hosts and G's; nobody aggregates for others."""

from dataclasses import dataclass, field
from functools import cached_property

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans import ring as plans
from p4reduce.control_plane.plans.graph import Ints
from p4reduce.control_plane.plans.problem import Problem
from p4reduce.control_plane.plans.routes import Routes
from p4reduce.control_plane.scheduling.consumption import decision_of
from p4reduce.control_plane.scheduling.policy import Decision, Rejection, register_policy
from p4reduce.control_plane.scheduling.requests import ring_members
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import View
from p4reduce.control_plane.scheduling.weights import hop_words


@dataclass(frozen=True)
class _Members(Problem):
    """The hosts of a ring, and paths over links that have room."""

    words: Ints = field(kw_only=True, compare=False)
    view: View = field(kw_only=True)

    @cached_property
    def paths(self) -> Routes:
        return Routes(self.topology, self.view.graph, self.words)


@register_policy("ring", served=False)
def ring(task: Task, state: NetworkState, *, lanes: int = 256) -> Decision:
    """The hosts in an order that crosses few links (:mod:`~p4reduce.control_plane.plans.ring`), on links with room.

    Models are reduced and scattered round the ring, then gathered: of n + 1 hosts each sends n / (n + 1) of a model to
    the next one, twice. A copy of a model is reserved for either, on every link of every stream; acknowledgements, one
    empty frame for 16 full ones, are not counted.

    Raises
    ------
    Rejection
        Names a link with too little left.
    """
    view = View(task, state, lanes)
    needed = 2 * task.reserved_bps
    for host in ring_members(task):
        switch = state.topology.neighbours(host)[0]
        for a, b in ((host, switch), (switch, host)):
            view.check_link(a, b, max(1, needed))
    words = hop_words(view.graph, view.residual_bps, needed)
    members = _Members(state.topology, ring_members(task), None, lanes, words=words, view=view)
    try:
        layout = plans.ring(members)
    except PlanError as error:
        raise Rejection(f"task {task.name}: {error}") from None
    decision = decision_of("ring", view, layout, layout)
    for (node, port), bps in decision.demand_bps.items():
        view.check_link(node, state.topology.neighbour(node, port), bps)
    return decision
