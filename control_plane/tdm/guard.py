"""How long circuits must stay after the last chunk was begun: what is under way then arrives meanwhile."""

from collections import Counter
from collections.abc import Iterable

from p4reduce.control_plane.frames import frame_time_ps
from p4reduce.control_plane.plans import Plan
from p4reduce.topologies.model import Hop


def least_guard_ps(plans: Iterable[Plan]) -> int:
    """Picoseconds: the longest round trip, and the time in which the busiest link drains all that may be in its queue.

    Of a job a window of chunks may be under way on every hop (an all-to-all is paced, so that its streams do not all
    stand there); windows of jobs that share a link stand one behind the other. plans: of those who communicate at the
    same time.
    """
    known = list(plans)
    queued: Counter[Hop] = Counter()
    for plan in known:
        for hop in {hop for pair in plan.paths for hop in plan.path_hops(*pair)}:
            rate = plan.topology.link_at(*hop).rate_bps
            queued[hop] += plan.window * frame_time_ps(plan.frame_bytes, rate)
    return max((plan.rtt_ps for plan in known), default=0) + max(queued.values(), default=0)
