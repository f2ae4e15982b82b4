"""The check of sums must itself be able to fail."""

import numpy as np
import pytest

from p4reduce.network.jobs.specs import expect_sum
from p4reduce.runs.participant import tensor
from p4reduce.workers.numbers import BlockFloat, FixedScale, local_exponent

LANES = 64
MEMBERS = 5


def inputs(elements=1000):
    return [tensor(1, rank, 0, elements) for rank in range(MEMBERS)]


def through(numbers, arrays):
    """Return the reference result of the network, chunk by chunk."""
    result = np.empty_like(arrays[0])
    for first in range(0, arrays[0].size, LANES):
        part = slice(first, first + LANES)
        exponent = max(local_exponent(array[part]) for array in arrays)
        total = sum(numbers.quantize(array[part], exponent, MEMBERS)[0].astype(np.int64) for array in arrays)
        result[part] = numbers.dequantize(total.astype(np.int32), exponent, MEMBERS)
    return result


@pytest.mark.parametrize("numbers", [BlockFloat(), FixedScale(2.0**18)])
def test_a_right_sum_is_within_the_bound(numbers):
    arrays = inputs()
    expected = expect_sum(arrays, numbers, LANES)
    deviation = expected.deviation(through(numbers, arrays))
    assert 0 < deviation.worst_ratio <= 1
    assert deviation.max_error <= deviation.error_bound


@pytest.mark.parametrize("numbers", [BlockFloat(), FixedScale(2.0**18), None])
def test_a_contribution_too_many_is_noticed(numbers):
    arrays = inputs()
    expected = expect_sum(arrays, numbers, LANES)
    total = np.sum(np.stack(arrays).astype(np.float64), axis=0).astype(np.float32)
    assert expected.deviation(total).worst_ratio <= 1
    total[777] += arrays[2][777]
    assert expected.deviation(total).worst_ratio > 1


def test_zeros_must_stay_zero():
    arrays = [np.zeros(100, np.float32) for _ in range(MEMBERS)]
    expected = expect_sum(arrays, BlockFloat(), LANES)
    assert expected.deviation(np.zeros(100, np.float32)).worst_ratio == 0
    wrong = np.zeros(100, np.float32)
    wrong[3] = 1e-30
    assert expected.deviation(wrong).worst_ratio > 1
