"""`overlay-mst`: the poster's flexible scheduler: minimum spanning trees of the terminals."""

from p4reduce.control_plane.plans.mst import mst_shared
from p4reduce.control_plane.scheduling.deciding import decide_trees
from p4reduce.control_plane.scheduling.policy import Decision, register_policy
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import View
from p4reduce.control_plane.scheduling.weights import Weights


@register_policy("overlay-mst")
def overlay_mst(task: Task, state: NetworkState, *, lanes: int = 256, weights: Weights = Weights()) -> Decision:  # noqa: B008
    """Minimum spanning trees of G and the local models' switches; an edge that a tree uses costs nothing more."""
    view = View(task, state, lanes)
    return decide_trees("overlay-mst", view, mst_shared, view.words(weights))
