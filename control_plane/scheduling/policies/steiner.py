"""`steiner`: the cheapest tree found, with aggregation at any capable switch."""

from p4reduce.control_plane.plans import steiner as plans
from p4reduce.control_plane.scheduling.deciding import decide_trees
from p4reduce.control_plane.scheduling.policy import Decision, register_policy
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import View
from p4reduce.control_plane.scheduling.weights import Weights


@register_policy("steiner")
def steiner(task: Task, state: NetworkState, *, lanes: int = 256, weights: Weights = Weights()) -> Decision:  # noqa: B008
    """Decide."""
    view = View(task, state, lanes)
    return decide_trees("steiner", view, plans.steiner, view.words(weights))
