"""Histories of the orchestrator from a seed, with the final contents of their databases."""

from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.internal.conjecture import providers
from hypothesis.stateful import run_state_machine_as_test

from tests.support.orchestrated.soak import KINDS
from tests.support.same.items import rows

STEPS = 12


def play(kind: str, number: int, count: int) -> dict[str, Any]:
    """Play ``count`` histories; return all rows of each database."""
    # Hypothesis also draws constants found in the sources of this repository, so histories would change with every new
    # number.
    nothing = providers.Constants()
    providers._get_local_constants = lambda: nothing
    found: dict[str, Any] = {}

    class Kept(KINDS[kind]):  # type: ignore[misc]
        def _check_end(self) -> None:
            super()._check_end()
            found[f"{len(found):02}"] = rows(self.path)

    seed(number)(Kept)
    run_state_machine_as_test(
        Kept,
        settings=settings(
            max_examples=count,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
    return found
