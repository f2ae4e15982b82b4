"""`spff-mean`, `overlay-mst-mean`, `steiner-mean`: links keep what a task takes on average, not its demand.

Iterations of training are predictable: a task computes, then communicates, and its links are idle in between. These
policies weigh and reserve :attr:`~p4reduce.control_plane.scheduling.task.Task.reserved_bps`, the demand times the share
of a round that is communication. The sum of mean uses never exceeds a link; when several tasks communicate at once the
sum of their demands may, and their rounds are then longer than planned. Slots are for the whole demand.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans import mst as spt_plans
from p4reduce.control_plane.plans import ring as ring_plans
from p4reduce.control_plane.plans import steiner as steiner_plans
from p4reduce.control_plane.plans.mst import mst_shared
from p4reduce.control_plane.plans.mst import spt as spt_layout
from p4reduce.control_plane.plans.problem import Problem, TreeLayout
from p4reduce.control_plane.plans.routes import Ints, Routes
from p4reduce.control_plane.plans.steiner import Optimum, solve
from p4reduce.control_plane.scheduling.policy import Decision, NetworkState, Policy, Rejection, register_policy
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.trees import decide_trees, first_fit
from p4reduce.control_plane.scheduling.view import (
    Direction,
    TaskProblem,
    View,
    Weights,
    decision_of,
    hop_words,
    problem_of,
    ring_members,
)

# `exact`: the cheapest trees there are under the poster's weights, by mixed-integer programming (HiGHS).


@register_policy("exact")
def exact(task: Task, state: NetworkState, *, lanes: int = 256, weights: Weights = Weights()) -> Decision:  # noqa: B008
    """The cheapest trees. For networks of some hundred switches at most.

    Where switches could not forward the cheapest tree on asymmetric links, the nearest one that they can is taken.
    """
    view = View(task, state, lanes)
    return decide_trees("exact", view, _tree, view.words(weights))


def optimum(
    task: Task,
    state: NetworkState,
    direction: Direction,
    *,
    lanes: int = 256,
    weights: Weights = Weights(),  # noqa: B008
) -> Optimum:
    """The cheapest tree of one direction with its cost and a lower bound, in weights of 1 / `SCALE`.

    Raises
    ------
    Rejection
        When no tree fits.
    """
    view = View(task, state, lanes)
    return _solve(problem_of(view, view.words(weights), direction))


def _tree(problem: TaskProblem) -> TreeLayout:
    return _solve(problem).layout


def _solve(problem: TaskProblem) -> Optimum:
    try:
        return solve(problem, limits=problem.room, both_ways=problem.both)
    except Rejection:
        raise
    except PlanError as error:
        raise Rejection(f"task {problem.view.task.name}: {error}") from None


# `overlay-mst`: the poster's flexible scheduler: minimum spanning trees of the terminals.


@register_policy("overlay-mst")
def overlay_mst(task: Task, state: NetworkState, *, lanes: int = 256, weights: Weights = Weights()) -> Decision:  # noqa: B008
    """Minimum spanning trees of G and the local models' switches; an edge that a tree uses costs nothing more."""
    view = View(task, state, lanes)
    return decide_trees("overlay-mst", view, mst_shared, view.words(weights))


# `ring`: ring all-reduce between the local models' hosts and G's; nobody aggregates for others.


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
        layout = ring_plans.ring(members)
    except PlanError as error:
        raise Rejection(f"task {task.name}: {error}") from None
    decision = decision_of("ring", view, layout, layout)
    for (node, port), bps in decision.demand_bps.items():
        view.check_link(node, state.topology.neighbour(node, port), bps)
    return decision


# `spff`: the poster's fixed scheduler: shortest path, first fit, for every local model; aggregation at G only.
#
# `spff-ecmp` is the same with a random one of the paths that cross equally many links.


@register_policy("spff")
def spff(task: Task, state: NetworkState, *, lanes: int = 256, ecmp: bool = False) -> Decision:
    """The paths of :func:`~p4reduce.control_plane.scheduling.trees.first_fit`."""
    view = View(task, state, lanes)
    star = first_fit(view, ecmp=ecmp)
    return decision_of("spff-ecmp" if ecmp else "spff", view, star, star)


@register_policy("spff-ecmp")
def spff_ecmp(task: Task, state: NetworkState, *, lanes: int = 256) -> Decision:
    """As `spff` with equal-cost multipath routing."""
    return spff(task, state, lanes=lanes, ecmp=True)


# `spff-ina`: the routes of shortest path, first fit, with aggregation where they meet at capable switches.


@register_policy("spff-ina")
def spff_ina(task: Task, state: NetworkState, *, lanes: int = 256) -> Decision:
    """What aggregation alone gains: fewest links, then least delay; links without room for one copy are left out."""
    view = View(task, state, lanes)
    return decide_trees("spff-ina", view, spt_layout, hop_words(view.graph, view.residual_bps, task.reserved_bps))


# `spt`: shortest paths under the poster's weights, merged where they meet.


@register_policy("spt")
def spt(task: Task, state: NetworkState, *, lanes: int = 256, weights: Weights = Weights()) -> Decision:  # noqa: B008
    """Decide."""
    view = View(task, state, lanes)
    return decide_trees("spt", view, spt_plans.spt, view.words(weights))


# `steiner`: the cheapest tree found, with aggregation at any capable switch.


@register_policy("steiner")
def steiner(task: Task, state: NetworkState, *, lanes: int = 256, weights: Weights = Weights()) -> Decision:  # noqa: B008
    """Decide."""
    view = View(task, state, lanes)
    return decide_trees("steiner", view, steiner_plans.steiner, view.words(weights))


MEAN_OF: Final[dict[str, Policy]] = {"overlay-mst": overlay_mst, "spff": spff, "steiner": steiner}


def mean_use(name: str, policy: Policy) -> Policy:
    """A policy of that name that gives tasks what another one does when they reserve their mean use."""

    def decide(task: Task, state: NetworkState, *, lanes: int = 256) -> Decision:
        return replace(policy(replace(task, reservation="mean"), state, lanes=lanes), policy=name)

    return decide


for _name, _policy in MEAN_OF.items():
    register_policy(f"{_name}-mean")(mean_use(f"{_name}-mean", _policy))
