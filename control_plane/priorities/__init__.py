"""Priorities between jobs: which class the frames of each have in switches and hosts, or when and how fast they send.

Importing this package registers the built-in policies.
"""

from p4reduce.control_plane.priorities import policies
from p4reduce.control_plane.priorities.answers import Classes, Order, Paces, Shifts
from p4reduce.control_plane.priorities.deciding import Decision, decide
from p4reduce.control_plane.priorities.facts import Flow, JobFacts, Kind, Situation
from p4reduce.control_plane.priorities.fairness import jain, slowdowns
from p4reduce.control_plane.priorities.policy import (
    PRIORITY_POLICIES,
    PriorityPolicy,
    priority_policy_named,
    register_priority_policy,
)
from p4reduce.control_plane.priorities.prediction import FlowDetector, Forecast, Observed, Predictor
from p4reduce.control_plane.priorities.queues import JOB_CLASSES, cut

__all__ = [
    "JOB_CLASSES",
    "PRIORITY_POLICIES",
    "Classes",
    "Decision",
    "Flow",
    "FlowDetector",
    "Forecast",
    "JobFacts",
    "Kind",
    "Observed",
    "Order",
    "Paces",
    "Predictor",
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
