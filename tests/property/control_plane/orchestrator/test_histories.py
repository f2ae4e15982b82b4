"""Histories of the orchestrator: failures and kills between any two steps leave a clear state."""

from hypothesis import HealthCheck, settings

from tests.support.effort import examples
from tests.support.orchestrated.histories import Histories

TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=examples(25, 1000), stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
