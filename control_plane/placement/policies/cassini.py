"""`cassini`: of near hosts those whose links are shared with tasks of compatible phases."""

from collections.abc import Mapping, Sequence
from typing import Any

from p4reduce.control_plane.placement.candidates import hosts_of, shares
from p4reduce.control_plane.placement.cluster import Cluster, server_for
from p4reduce.control_plane.placement.loads import Load
from p4reduce.control_plane.placement.policy import register_placement
from p4reduce.control_plane.scheduling.task import Task


@register_placement("cassini")
def cassini(task: Task, cluster: Cluster) -> tuple[Sequence[str], Mapping[str, Any]]:
    """The candidate with the highest compatibility; among equals the fewest racks, then packed's.

    A link is compatible with its tasks as far as their times on it fit one after the other into a period:
    1 - max(0, sum of comm / period - 1), the score of the best rotation where periods are commensurable. The worst
    link counts. Rajasekaran et al., 'CASSINI', NSDI 2024.
    """
    room = cluster.check(task)
    options = shares(cluster, task, room)
    scores = []
    for share in options:
        hosts = hosts_of(cluster, task, room, share)
        server = "" if cluster.rings else server_for(cluster, task, hosts)
        scores.append(_compatibility(cluster, cluster.load(task, hosts, server)))
    best = min(range(len(options)), key=lambda place: (-round(scores[place], 3), len(options[place]), place))
    why = {"candidates": len(options), "compatibility": scores[best], "packed_compatibility": scores[0]}
    return hosts_of(cluster, task, room, options[best]), why


def _compatibility(cluster: Cluster, load: Load) -> float:
    worst = 1.0
    for link in load.bits:
        jobs = [one for one in (*cluster.running.values(), load) if link in one.bits]
        busy = sum(_share(cluster, one, link) for one in jobs)
        worst = min(worst, 1.0 - max(0.0, busy - 1.0))
    return worst


def _share(cluster: Cluster, load: Load, link: int) -> float:
    """Of its period alone, how long a task is on a link."""
    longest = max(bits / cluster.capacity_bps[one] for one, bits in load.bits.items())
    return float(load.bits[link] / cluster.capacity_bps[link] / (load.compute_s + longest))
