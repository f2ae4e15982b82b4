"""Plans: who adds up where, and which way frames go. Importing this package registers the built-in ones."""

from p4reduce.control_plane.plans import mst, ring, steiner
from p4reduce.control_plane.plans.make import PlanRequest, make_plan, release_plan
from p4reduce.control_plane.plans.plan import Aggregator, Child, Parent, Plan
from p4reduce.control_plane.plans.problem import (
    MAX_CHILDREN,
    PLANS,
    Layout,
    MeshLayout,
    Planner,
    Problem,
    RingLayout,
    StarLayout,
    TreeLayout,
    planner,
    register,
)

__all__ = [
    "MAX_CHILDREN",
    "PLANS",
    "Aggregator",
    "Child",
    "Layout",
    "MeshLayout",
    "Parent",
    "Plan",
    "PlanRequest",
    "Planner",
    "Problem",
    "RingLayout",
    "StarLayout",
    "TreeLayout",
    "all_to_all",
    "exact",
    "make_plan",
    "mst",
    "planner",
    "ps",
    "register",
    "release_plan",
    "ring",
    "spt",
    "steiner",
]
