"""`spff`: the poster's fixed scheduler: shortest path, first fit, for every local model; aggregation at G only.

`spff-ecmp` is the same with a random one of the paths that cross equally many links.
"""

from p4reduce.control_plane.scheduling.consumption import decision_of
from p4reduce.control_plane.scheduling.policy import Decision, register_policy
from p4reduce.control_plane.scheduling.stars import first_fit
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import View


@register_policy("spff")
def spff(task: Task, state: NetworkState, *, lanes: int = 256, ecmp: bool = False) -> Decision:
    """The paths of :func:`~p4reduce.control_plane.scheduling.stars.first_fit`."""
    view = View(task, state, lanes)
    star = first_fit(view, ecmp=ecmp)
    return decision_of("spff-ecmp" if ecmp else "spff", view, star, star)


@register_policy("spff-ecmp")
def spff_ecmp(task: Task, state: NetworkState, *, lanes: int = 256) -> Decision:
    """As `spff` with equal-cost multipath routing."""
    return spff(task, state, lanes=lanes, ecmp=True)
