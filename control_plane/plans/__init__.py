"""Plans: the aggregation points and paths of jobs. Importing this package registers the built-in planners."""

from p4reduce.control_plane.plans import ring, steiner, trees
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
    "make_plan",
    "planner",
    "register",
    "release_plan",
    "ring",
    "steiner",
    "trees",
]
