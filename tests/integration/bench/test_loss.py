"""The benchmark of losses moves tensors through networks in real time, and counts what was asked."""

import pytest

from p4reduce.bench.loss.real import Group, Seen, row
from p4reduce.comm.errors import ClusterError


def test_questions_are_counted_and_what_goes_wrong_is_told():
    with Group("udp", 0.05, 1) as group:
        assert group.lanes == 256
        rounds = [group.reduce(20_000) for _ in range(2)]
        with pytest.raises(ClusterError, match="udp: preparing: worker h"):
            group.reduce(-1)
    for ms, asks in rounds:
        assert ms > 0
        assert 0 < asks < 100


@pytest.mark.parametrize(
    ("lossy", "asks", "holds"), [((2, 3, 3.1), 0.1, True), ((2, 3.1, 4), 0.1, False), ((2, 2, 2), 0.3, False)]
)
def test_a_bar_is_held_against_the_median_of_ratios_and_the_questions(lossy, asks, holds):
    clean = (10.0, 1.0, 5.0)
    rounds = [
        Seen({"plain": 1.0, "clean": one, "lossy": one * times}, {"plain": asks, "clean": 0.0, "lossy": 1.0})
        for one, times in zip(clean, lossy, strict=True)
    ]
    found = row("udp", 20_000, rounds)
    assert found["ratio"] == sorted(lossy)[1]
    assert found["holds"] is holds
