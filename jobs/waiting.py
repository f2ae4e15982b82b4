"""How long the frames of a job may wait for those of others, where jobs have different classes.

A strict priority lets a lower class wait for as long as there are frames of higher ones. Its senders must not take that
for loss: what they send again only makes the others wait longer, or is for nothing. So the least time-out of a job
covers what may stand before one of its frames on every link of its way: the windows of all jobs of its class, and all
that jobs of higher ones send in one operation, since their windows move on while it waits. (With their windows alone
four channels of a model sent a twentieth of their frames again.) Where all jobs on its links have one class, queues are
first come, first served, and a round trip shows what is in them: nothing is added.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from p4reduce.control_plane.frames import frame_time_ps
from p4reduce.control_plane.plans import Plan
from p4reduce.topologies.model import Hop


def chunk_times(plan: Plan) -> dict[Hop, int]:
    """How long a chunk of a plan, up and down, occupies each directed link, picoseconds."""
    copies: Counter[Hop] = Counter()
    for a, b in plan.edges:
        copies.update(plan.path_hops(a, b))
        if not plan.ring and not plan.mesh:  # what goes back to a neighbour has no lanes
            copies.update(plan.path_hops(b, a))
    return {
        hop: count * frame_time_ps(plan.frame_bytes, plan.topology.link_at(*hop).rate_bps)
        for hop, count in copies.items()
    }


@dataclass
class Occupant:
    """What a job may have on its links, and the lowest and highest class that it has had so far."""

    plan: Plan
    window: int
    """chunks that a sender has in flight"""
    lowest: int
    highest: int
    burst: int = 0
    """chunks of its largest operation so far"""
    always: bool = False
    """whether its time-outs cover others also where all have one class"""

    @cached_property
    def times(self) -> dict[Hop, int]:
        """How long a chunk occupies each of its links."""
        return chunk_times(self.plan)


def ahead_ps(own: Occupant, others: Iterable[Occupant]) -> int:
    """What may stand before a chunk of a job there and back, ps; 0 where all have one class, but for ``always``."""
    sharing = [other for other in others if not own.times.keys().isdisjoint(other.times)]
    one = all((other.lowest, other.highest) == (own.lowest, own.lowest) for other in (own, *sharing))
    if one and not own.always:
        return 0
    waiting: Counter[Hop] = Counter()
    for other in sharing:
        if other.highest >= own.lowest:
            chunks = max(other.window, other.burst) if other.highest > own.lowest else other.window
            waiting.update({hop: chunks * time for hop, time in other.times.items() if hop in own.times})
    return max((_both_ways(own.plan, worker, waiting) for worker in own.plan.workers), default=0)


def _both_ways(plan: Plan, worker: str, waiting: Mapping[Hop, int]) -> int:
    """Of one worker's chunk: from there to the top, and back; in a ring to the next, in an all-to-all to any."""
    if plan.mesh:
        return max(_along(plan.path_hops(a, b), waiting) for a, b in plan.edges if a == worker)
    above = dict(plan.edges)
    total, name = 0, worker
    while name in above:
        total += _along(plan.path_hops(name, above[name]), waiting)
        if plan.ring:
            return total
        total += _along(plan.path_hops(above[name], name), waiting)
        name = above[name]
    return total


def _along(hops: Iterable[Hop], waiting: Mapping[Hop, int]) -> int:
    return sum(waiting.get(hop, 0) for hop in hops)
