"""Time-outs survive senders that know nothing of each other; ``make bench-strangers`` has 20 seeds of 8 and of 32."""

import pytest

from studies.bench.strangers import strangers
from tests.support.effort import examples


@pytest.mark.parametrize("seed", [4, 6, *range(20)][: examples(2, 22)])
def test_eight_on_one_uplink_send_hardly_anything_again(seed):
    assert strangers(8, seed)["holds"]


@pytest.mark.parametrize("seed", range(examples(1, 20)))
def test_32_on_one_uplink_send_hardly_anything_again(seed):
    assert strangers(32, seed, rounds=examples(4, 12))["holds"]
