"""The P4 program equals the golden model in every packet, slot and counter, on random trees."""

from dataclasses import replace

import pytest
from hypothesis import given

from tests.support.effort import examples
from tests.support.golden.choices import SeededChoices
from tests.support.golden.p4 import P4Backend
from tests.support.golden.run import run
from tests.support.golden.scenario import draw_scenario
from tests.support.golden.strategies import MANY, scenarios, trees
from tests.support.golden.switch import GoldenSwitch

COMPILED = P4Backend(64, "compiled")
WIDE = P4Backend(256, "compiled")
INTERPRETED = P4Backend(64, "interpreted")
FROM_SOURCE = P4Backend(64, "interpreted", source=True)


@trees(MANY)
@given(scenarios(COMPILED))
def test_machine_code_does_what_the_golden_model_does(scenario):
    run(scenario, COMPILED)


@trees(examples(8, 20))
@given(scenarios(WIDE, size=8))
def test_machine_code_of_the_wide_build_does_what_the_golden_model_does(scenario):
    run(scenario, WIDE)


@trees(examples(4, 10))
@given(scenarios(INTERPRETED, size=6))
def test_the_interpreter_does_what_the_golden_model_does(scenario):
    run(scenario, INTERPRETED)


@trees(3)
@given(scenarios(FROM_SOURCE, size=4))
def test_what_our_front_end_compiles_does_what_the_golden_model_does(scenario):
    """Many more cases, on machine code: python -m tests.support.golden.soak --backend source."""
    run(scenario, FROM_SOURCE)


class KeepsTheSource(GoldenSwitch):
    """Mutant: frames leave with another UDP source port, which no worker would notice."""

    def _send(self, job, packet, to):
        port, sent = super()._send(job, packet, to)
        return port, replace(sent, udp_src=9401)


class CountsOneTooMany(GoldenSwitch):
    """Mutant: another cell of a slot differs, in no packet before the slot is complete."""

    def _completed(self, job, slot):
        return super()._completed(job, replace(slot, count=slot.count + (slot.children != job.full)))


class MiscountsResends(GoldenSwitch):
    """Mutant: a counter differs."""

    def _send(self, job, packet, to):
        self.link_sent[to.port, packet.resend] += packet.resend
        return super()._send(job, packet, to)


class AddsOneInTheLastLane(GoldenSwitch):
    """Mutant: the sum differs."""

    def _completed(self, job, slot):
        lanes = slot.lanes if slot.lanes is None else (*slot.lanes[:-1], slot.lanes[-1] ^ 1)
        return super()._completed(job, replace(slot, lanes=lanes))


@pytest.mark.parametrize(
    "model", [KeepsTheSource, CountsOneTooMany, MiscountsResends, AddsOneInTheLastLane], ids=lambda m: m.__name__
)
def test_the_comparison_finds_a_difference(model):
    backend = P4Backend(64, "compiled", model)

    def all_trees() -> None:
        for seed in range(20):
            run(draw_scenario(SeededChoices(seed), backend.lanes, backend.slots), backend)

    with pytest.raises(AssertionError, match=r"differs from the golden model|golden:"):
        all_trees()
