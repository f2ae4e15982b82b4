"""Predicted load: what is learned, and the fallback before."""

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.orchestrator.recovery import Foresight

HOP, OTHER = ("leaf1", 1), ("leaf2", 1)


def test_a_load_that_comes_and_goes_is_seen_ahead():
    foresight = Foresight("ar", 1)
    errors = []
    for number in range(80):
        now, after = ((5 * 10**9 if (at // 4) % 2 else 0) for at in (number, number + 1))
        found = foresight.predict({HOP: now} if now else {}).get(HOP, 0)
        if number >= 40:
            assert foresight.missing == ""
            errors.append(abs(found - after))
    assert max(errors) < 0.02 * 5 * 10**9  # every fourth measurement is entirely wrong


def test_without_a_history_it_is_what_was_measured_and_says_why():
    foresight = Foresight("ewma", 2)
    assert foresight.predict({HOP: 7, OTHER: 0}) == {HOP: 7}
    assert "the history has 1 samples, 19 are needed" in foresight.missing
    for _ in range(18):
        foresight.predict({HOP: 7})
    assert foresight.missing == ""


def test_a_link_that_was_idle_for_long_has_a_history_of_nothing():
    foresight = Foresight("mean", 1)
    for _ in range(30):
        assert foresight.predict({}) == {}
    assert 0 < foresight.predict({OTHER: 31})[OTHER] < 31


def test_none_is_what_was_measured():
    foresight = Foresight("", 1)
    assert foresight.predict({HOP: 5}) == {HOP: 5}
    assert foresight.missing == ""


@pytest.mark.parametrize(("name", "ahead", "message"), [("crystal", 1, "crystal"), ("ar", 0, "0 samples ahead")])
def test_what_cannot_be_is_refused(name, ahead, message):
    with pytest.raises(PlanError, match=message):
        Foresight(name, ahead)
