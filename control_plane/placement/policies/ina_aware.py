"""`ina-aware`: the hosts under which all tasks together are predicted to lose least time."""

from collections.abc import Mapping, Sequence
from typing import Any

from p4reduce.base.units import PS_PER_S
from p4reduce.control_plane.placement.candidates import Share, hosts_of, shares
from p4reduce.control_plane.placement.cluster import Cluster, asked, server_for
from p4reduce.control_plane.placement.policy import register_placement
from p4reduce.control_plane.scheduling.task import Task

EQUAL = 0.005
"""predicted costs that differ by less are the same: the prediction is no better"""


@register_placement("ina-aware")
def ina_aware(task: Task, cluster: Cluster) -> tuple[Sequence[str], Mapping[str, Any]]:
    """Compare candidates by time: its own, until it ends, and what it costs all tasks that it touches until they end.

    Predicted are iteration times under the slots that switches have left, what background traffic leaves of links, the
    tasks that run, slow hosts, and the reading of shards that lie elsewhere. Among equal ones that which breaks up the
    fewest racks, then packed's.
    """
    room = cluster.check(task)
    options = shares(cluster, task, room)
    found = [_cost(task, cluster, hosts_of(cluster, task, room, share)) for share in options]
    least = min(total for total, _ in found)
    best = min(
        (place for place, (total, _) in enumerate(found) if total <= least * (1 + EQUAL)),
        key=lambda place: (_broken(cluster, room, options[place]), len(options[place]), place),
    )
    why = {"candidates": len(options), "cost_s": found[best][0], "packed_cost_s": found[0][0], **found[best][1]}
    return hosts_of(cluster, task, room, options[best]), why


def _cost(task: Task, cluster: Cluster, hosts: Sequence[str]) -> tuple[float, dict[str, Any]]:
    server = "" if cluster.rings else server_for(cluster, task, hosts)
    iteration, others = cluster.seconds(cluster.load(task, hosts, server))
    reading = cluster.read_seconds(asked(task), hosts)
    total = task.rounds * iteration + reading + max(others, 0.0)
    return max(total, 1 / PS_PER_S), {"iteration_s": iteration, "others_s": others, "reading_s": reading}


def _broken(cluster: Cluster, room: Mapping[str, Sequence[str]], share: Share) -> int:
    """Hosts that are left in racks that the task takes a part of: large tasks will miss them."""
    return sum(len(room[switch]) - own for switch, own in share.items())
