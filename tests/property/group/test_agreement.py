"""The agreement alone: deaths in any phase, joins, forged answers, and clocks that stop or jump."""

from collections import Counter

import pytest

from tests.support.effort import examples
from tests.support.kills.agreed import play

EACH = 40


@pytest.mark.parametrize("part", range(examples(8, 250)))
def test_the_invariants_hold_in_random_histories_of_an_agreement(part):
    for seed in range(EACH * part, EACH * (part + 1)):
        assert play(seed, Counter()) == [], f"python -m tests.support.kills.agreed --histories 1 --seed {seed}"
