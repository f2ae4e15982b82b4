"""The documented error bounds, compared with exact rational arithmetic."""

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from p4reduce.workers.numbers import BlockFloat, FixedScale, Numbers, local_exponent
from tests.support.effort import examples

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def contributions(draw: st.DrawFn, elements: st.SearchStrategy[float]) -> np.ndarray:
    """Draw float32 contributions of shape (workers, elements)."""
    shape = draw(st.tuples(st.integers(1, 9), st.integers(1, 6)))
    return draw(hnp.arrays(np.float32, shape, elements=elements))


def assert_within_bound(numbers: Numbers, workers: np.ndarray, exponent: int) -> None:
    members = len(workers)
    quantized = [numbers.quantize(row, exponent, members) for row in workers]
    assert all(held == 0 for _, held in quantized)
    total = sum(lanes.astype(np.int64) for lanes, _ in quantized)
    assert (np.abs(total) < 2**31).all()
    result = numbers.dequantize(total.astype(np.int32), exponent, members)
    bound = numbers.error_bound(result, exponent, members)
    for column, value in enumerate(result):
        if not np.isfinite(value):
            continue  # the sum lies beyond float32
        exact = sum(Fraction(float(x)) for x in workers[:, column])
        assert abs(Fraction(float(value)) - exact) <= Fraction(float(bound[column]))


@settings(max_examples=examples(120, 300), deadline=None)
@given(contributions(floats))
def test_block_floating_point_keeps_its_bound(workers: np.ndarray) -> None:
    assert_within_bound(BlockFloat(), workers, max(local_exponent(row) for row in workers))


@settings(max_examples=examples(120, 300), deadline=None)
@given(contributions(st.floats(-1000, 1000, width=32)), st.floats(1e-3, 2.0**17))
def test_fixed_scale_keeps_its_bound(workers: np.ndarray, factor: float) -> None:
    assert_within_bound(FixedScale(factor), workers, 0)


@settings(max_examples=examples(80, 200), deadline=None)
@given(contributions(floats))
def test_order_of_workers_does_not_matter(workers: np.ndarray) -> None:
    exponent = max(local_exponent(row) for row in workers)
    numbers = BlockFloat()
    lanes = [numbers.quantize(row, exponent, len(workers))[0] for row in workers]
    forward = np.zeros(workers.shape[1], np.int32)
    backward = forward.copy()
    for row in lanes:
        forward += row
    for row in reversed(lanes):
        backward += row
    assert np.array_equal(forward, backward)
