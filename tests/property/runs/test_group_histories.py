"""Groups in real time under kills, joins, forged and replayed messages, and clocks that jump."""

import pytest

from tests.support.effort import examples
from tests.support.kills.histories import Tally, play

EACH = 10


@pytest.mark.parametrize("tenth", range(examples(6, 100)))
def test_the_invariants_hold_in_random_histories_of_a_coordinator(tenth):
    for seed in range(EACH * tenth, EACH * (tenth + 1)):
        assert play(seed, Tally()) == [], f"python -m tests.support.kills.histories --histories 1 --seed {seed}"
