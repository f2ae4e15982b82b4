"""`exact`: groups, placement, trees and circuits at once, for small networks."""

from collections.abc import Sequence

from p4reduce.control_plane.tdm.exact import solve
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.registry import Options, register_scheduler
from p4reduce.control_plane.tdm.schedule import Schedule
from p4reduce.control_plane.tdm.schedulers.switched import two_groups


@register_scheduler("exact")
def exact(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Schedule:
    """The least t_round of all (up to 5 pods and 8 jobs): branch and bound over groups, HiGHS within."""
    return two_groups("exact", jobs, network, options, solve(jobs, network, options.reading))
