"""Priorities between jobs: the class of each job's frames in switches and hosts, or the time and pace of its sending.

Importing this package registers the built-in policies.
"""

from p4reduce.control_plane.priorities import policies
from p4reduce.control_plane.priorities.policy import (
    JOB_CLASSES,
    PRIORITY_POLICIES,
    Classes,
    Flow,
    FlowDetector,
    Forecast,
    JobFacts,
    LaneDirection,
    ObservedFlow,
    Order,
    Paces,
    Predictor,
    PriorityDecision,
    PriorityPolicy,
    Shifts,
    Situation,
    cut,
    decide,
    jain,
    priority_policy_named,
    register_priority_policy,
    slowdowns,
)

__all__ = [
    "JOB_CLASSES",
    "PRIORITY_POLICIES",
    "Classes",
    "Flow",
    "FlowDetector",
    "Forecast",
    "JobFacts",
    "LaneDirection",
    "ObservedFlow",
    "Order",
    "Paces",
    "Predictor",
    "PriorityDecision",
    "PriorityPolicy",
    "Shifts",
    "Situation",
    "cut",
    "decide",
    "jain",
    "policies",
    "priority_policy_named",
    "register_priority_policy",
    "slowdowns",
]
