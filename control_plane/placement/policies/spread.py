"""`spread`: as many racks as possible, evenly: a rack that fails costs each task least."""

from collections.abc import Mapping, Sequence
from typing import Any

from p4reduce.control_plane.placement.cluster import Cluster, asked
from p4reduce.control_plane.placement.policy import register_placement
from p4reduce.control_plane.scheduling.task import Task


@register_placement("spread")
def spread(task: Task, cluster: Cluster) -> tuple[Sequence[str], Mapping[str, Any]]:
    """Each time a host of the rack that the task has fewest hosts in, of these the one with most room."""
    room = cluster.check(task)
    taken = dict.fromkeys(room, 0)
    for _ in range(asked(task).count):
        able = [switch for switch in room if taken[switch] < len(room[switch])]
        taken[min(able, key=lambda switch: (taken[switch], taken[switch] - len(room[switch]), switch))] += 1
    return [host for switch, hosts in room.items() for host in hosts[: taken[switch]]], {}
