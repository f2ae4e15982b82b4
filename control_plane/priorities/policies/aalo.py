"""`aalo`: without any knowledge, whoever has sent least in this iteration comes first.

As PIAS (NSDI'15) and Aalo (SIGCOMM'15): queues at thresholds that grow by a factor, first come, first served in each.
"""

from typing import Final

from p4reduce.control_plane.priorities.answers import Classes
from p4reduce.control_plane.priorities.facts import Situation
from p4reduce.control_plane.priorities.policy import register_priority_policy
from p4reduce.control_plane.priorities.queues import JOB_CLASSES

FIRST_BYTES: Final = 32 * 1024
"""in the highest queue"""
FACTOR: Final = 4
"""from threshold to threshold: 32 KiB, 128 KiB, 512 KiB, 2 MiB, 8 MiB"""


@register_priority_policy("aalo", within=True)
def aalo(situation: Situation) -> Classes:
    """Fewest bytes of this iteration so far first, in steps of a factor (PIAS, Aalo); nothing need be known."""
    return Classes({flow: _class(job.attained) for job in situation.jobs for flow in job.flows})


def _class(attained: int) -> int:
    threshold, value = FIRST_BYTES, JOB_CLASSES[-1]
    while attained >= threshold and value > JOB_CLASSES[0]:
        threshold, value = threshold * FACTOR, value - 1
    return value
