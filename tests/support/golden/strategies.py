"""Scenarios as a hypothesis strategy."""

import os
from collections.abc import Callable
from typing import Any, Final

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.support.effort import examples
from tests.support.golden.backend import Backend
from tests.support.golden.choices import DrawnChoices
from tests.support.golden.scenario import MAX_WORKERS, Scenario, draw_scenario

MANY: Final = examples(25, 250)
"""number of trees of a cheap property in everyday test runs"""


@st.composite
def scenarios(draw: st.DrawFn, backend: Backend, size: int = MAX_WORKERS) -> Scenario:
    """Draw a scenario of at most ``size`` workers. It shrinks to few workers, few events and no faults."""
    return draw_scenario(DrawnChoices(draw), backend.lanes, backend.slots, size)


def trees(number: int) -> Callable[[Any], Any]:
    """Return settings that try a property on ``number`` trees. ``P4REDUCE_TREES`` is the number for `MANY` trees.

    A failure prints the shrunk scenario and a line ``@reproduce_failure(...)`` that repeats it.
    """
    many = int(os.environ.get("P4REDUCE_TREES", str(MANY)))
    return settings(
        max_examples=max(1, number * many // MANY),
        deadline=None,
        derandomize=False,
        print_blob=True,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )
