"""Placement: the hosts of a task, the order in which waiting tasks are tried, and the distribution of switch slots.

Importing this package registers the built-in policies.
"""

from p4reduce.control_plane.placement import policies
from p4reduce.control_plane.placement.cluster import ClusterView, IterationLoad, Racks, reads
from p4reduce.control_plane.placement.policies import (
    ORDERS,
    PLACEMENTS,
    Placement,
    PlacementPolicy,
    QueueOrder,
    order_named,
    place,
    placement_named,
    register_placement,
)

__all__ = [
    "ORDERS",
    "PLACEMENTS",
    "ClusterView",
    "IterationLoad",
    "Placement",
    "PlacementPolicy",
    "QueueOrder",
    "Racks",
    "order_named",
    "place",
    "placement_named",
    "policies",
    "reads",
    "register_placement",
]
