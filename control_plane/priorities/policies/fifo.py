"""`fifo` and `fair`: no order between jobs."""

from p4reduce.control_plane.priorities.answers import Order, Paces, tied
from p4reduce.control_plane.priorities.facts import Situation
from p4reduce.control_plane.priorities.policy import register_priority_policy


@register_priority_policy("fifo")
def fifo(situation: Situation) -> Order:
    """One queue for all: first come, first served."""
    return tied(situation)


@register_priority_policy("fair")
def fair(situation: Situation) -> Paces:
    """Equal shares of common links for all jobs, whatever is sent."""
    return Paces({job.name: 1.0 for job in situation.jobs})
