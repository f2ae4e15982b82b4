"""`spff-ina`: the routes of shortest path, first fit, with aggregation where they meet at capable switches."""

from p4reduce.control_plane.plans.spt import spt
from p4reduce.control_plane.scheduling.deciding import decide_trees
from p4reduce.control_plane.scheduling.policy import Decision, register_policy
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import View
from p4reduce.control_plane.scheduling.weights import hop_words


@register_policy("spff-ina")
def spff_ina(task: Task, state: NetworkState, *, lanes: int = 256) -> Decision:
    """What aggregation alone gains: fewest links, then least delay; links without room for one copy are left out."""
    view = View(task, state, lanes)
    return decide_trees("spff-ina", view, spt, hop_words(view.graph, view.residual_bps, task.reserved_bps))
