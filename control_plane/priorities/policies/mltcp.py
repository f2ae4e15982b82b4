"""`mltcp`: pace instead of classes; who has sent more of the iteration sends faster, until jobs take turns."""

from typing import Final

from p4reduce.control_plane.priorities.answers import Paces
from p4reduce.control_plane.priorities.facts import Situation
from p4reduce.control_plane.priorities.policy import register_priority_policy

SLOPE: Final = 1.75
INTERCEPT: Final = 0.25
"""of the aggressiveness by the share sent (MLTCP, arXiv 2402.09589, section 3)"""


@register_priority_policy("mltcp", within=True)
def mltcp(situation: Situation) -> Paces:
    """No order: who has sent more of the iteration sends faster, until jobs take turns (MLTCP)."""
    return Paces({job.name: INTERCEPT + SLOPE * job.sent for job in situation.jobs})
