"""Histories over an optical cross-connect: schedules stay valid whatever ends an orchestrator, and all tasks end."""

from hypothesis import HealthCheck, settings

from tests.support.effort import examples
from tests.support.orchestrated.turn_histories import TurnHistories

TestTurnHistories = TurnHistories.TestCase
TestTurnHistories.settings = settings(
    max_examples=examples(12, 600), stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
