"""`packed`: the fewest racks, the best fit among them; knows nothing of the network but distances."""

from collections.abc import Mapping, Sequence
from typing import Any

from p4reduce.control_plane.placement.candidates import packed_share
from p4reduce.control_plane.placement.cluster import Cluster, asked
from p4reduce.control_plane.placement.policy import register_placement
from p4reduce.control_plane.scheduling.policy import Rejection
from p4reduce.control_plane.scheduling.task import Task


@register_placement("packed")
def packed(task: Task, cluster: Cluster) -> tuple[Sequence[str], Mapping[str, Any]]:
    """The hosts of a rack in the order of the topology, whatever they are like."""
    room = cluster.check(task)
    share = packed_share(cluster, room, asked(task).count)
    if share is None:
        raise Rejection(f"task {task.name}: too few hosts")
    return [host for switch, hosts in room.items() for host in hosts[: share.get(switch, 0)]], {}
