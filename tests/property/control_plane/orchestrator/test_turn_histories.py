"""Histories over an optical cross-connect: whatever ends an orchestrator, what holds is a schedule, and all ends."""

from hypothesis import HealthCheck, settings

from tests.support.effort import examples
from tests.support.orchestrated.turn_histories import TurnHistories

TestTurnHistories = TurnHistories.TestCase
TestTurnHistories.settings = settings(
    max_examples=examples(12, 600), stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
