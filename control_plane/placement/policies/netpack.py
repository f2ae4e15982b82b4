"""`netpack`: shares of racks by a dynamic programme, whose cost is what they send up."""

from collections.abc import Mapping, Sequence
from typing import Any

from p4reduce.control_plane.placement.candidates import hosts_of
from p4reduce.control_plane.placement.cluster import Cluster
from p4reduce.control_plane.placement.knapsack import cheapest_shares
from p4reduce.control_plane.placement.policy import register_placement
from p4reduce.control_plane.scheduling.policy import Rejection
from p4reduce.control_plane.scheduling.task import Task


@register_placement("netpack")
def netpack(task: Task, cluster: Cluster) -> tuple[Sequence[str], Mapping[str, Any]]:
    """See :mod:`~p4reduce.control_plane.placement.knapsack`."""
    room = cluster.check(task)
    share = cheapest_shares(cluster, task, room)
    if share is None:
        raise Rejection(f"task {task.name}: too few hosts")
    return hosts_of(cluster, task, room, share), {}
