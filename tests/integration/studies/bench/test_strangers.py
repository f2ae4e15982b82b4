"""Time-outs with independent senders; the benchmarks have 20 seeds of 8 and of 32 senders."""

import pytest

from studies.bench.strangers import StrangersCell, run_strangers
from tests.support.effort import examples


def holds(cell):
    (row,) = run_strangers(cell)
    return row.resent <= 0.05 and row.over <= 1.05


@pytest.mark.parametrize("seed", [4, 6, *range(20)][: examples(2, 22)])
def test_eight_on_one_uplink_send_hardly_anything_again(seed):
    assert holds(StrangersCell(8, seed))


@pytest.mark.parametrize("seed", range(examples(1, 20)))
def test_32_on_one_uplink_send_hardly_anything_again(seed):
    assert holds(StrangersCell(32, seed, rounds=examples(4, 12)))
