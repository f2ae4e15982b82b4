"""The checks of results that ranks got when one of them died."""

import pytest

from tests.support.kills.invariants import check
from tests.support.kills.script import Got, kind_of, wanted

SEED, ELEMENTS, ALL, OTHERS = 9, 7, (0, 1, 2), (1, 2)


def results(operations, contributors):
    return [(one, contributors, wanted(SEED, one, contributors, ELEMENTS, contributors[0])) for one in operations]


def died(last=ALL):
    """Rank 0 died after operation 1, which the others repeated without it."""
    others = [*results([0], ALL), *results([1, 2], OTHERS)]
    changes = [(2, 1, OTHERS)]
    got = {rank: Got(list(others), list(changes), ALL) for rank in OTHERS}
    return {0: Got([*results([0], ALL), *results([1], last)], [], ALL), **got}


def test_a_relay_may_die_with_a_result_that_the_others_repeat_without_it():
    assert {kind_of(SEED, operation) for operation in range(3)} <= {"float", "int"}
    check(died(), {1, 2}, SEED, 3, ELEMENTS, relays=True)
    with pytest.raises(AssertionError, match=r"I2: operation 1: \(0, 1, 2\) at rank 0, \(1, 2\)"):
        check(died(), {1, 2}, SEED, 3, ELEMENTS)


def test_nothing_else_may_differ_at_a_relay():
    got = died()
    got[0].results[1][2][3] += 1
    with pytest.raises(AssertionError, match="I2: operation 1: rank 0, now dead, has no sum"):
        check(got, {1, 2}, SEED, 3, ELEMENTS, relays=True)
    got = died()
    got[0].results[0] = results([0], (0, 1))[0]  # not its last one
    with pytest.raises(AssertionError, match="I2: operation 0"):
        check(got, {1, 2}, SEED, 3, ELEMENTS, relays=True)
    got = died()
    got[2].results[1] = results([1], (2,))[0]  # a survivor
    with pytest.raises(AssertionError, match="I2: operation 1"):
        check(got, {1, 2}, SEED, 3, ELEMENTS, relays=True)
