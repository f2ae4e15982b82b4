"""Scheduling AI tasks: the choice of each task's trees, given the load of other tasks and background traffic.

Importing this package registers the built-in policies.
"""

from p4reduce.control_plane.scheduling import policies
from p4reduce.control_plane.scheduling.policies import choose_capable, choose_capable_for
from p4reduce.control_plane.scheduling.task import Selection, Task
from p4reduce.control_plane.scheduling.view import (
    POLICIES,
    LinkWeights,
    NetworkState,
    Policy,
    Rejection,
    TreeDecision,
    consumed,
    copies,
    plan_requests,
    policy_named,
    register_policy,
)
from p4reduce.topologies.model import Hop

__all__ = [
    "POLICIES",
    "Hop",
    "LinkWeights",
    "NetworkState",
    "Policy",
    "Rejection",
    "Selection",
    "Task",
    "TreeDecision",
    "choose_capable",
    "choose_capable_for",
    "consumed",
    "copies",
    "plan_requests",
    "policies",
    "policy_named",
    "register_policy",
]
