"""`first-fit`: the first hosts with room, in the order of the topology."""

from collections.abc import Mapping, Sequence
from typing import Any

from p4reduce.control_plane.placement.cluster import Cluster, asked
from p4reduce.control_plane.placement.policy import register_placement
from p4reduce.control_plane.scheduling.task import Task


@register_placement("first-fit")
def first_fit(task: Task, cluster: Cluster) -> tuple[Sequence[str], Mapping[str, Any]]:
    """Racks are filled one after the other."""
    hosts = [host for rack in cluster.check(task).values() for host in rack]
    return hosts[: asked(task).count], {}
