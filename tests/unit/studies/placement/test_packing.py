"""Small numbers packed in one lane: no sum overflows into the next field."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.placement.knobs import NumberPacking


@given(
    workers=st.integers(1, 40),
    level=st.integers(1, 127),
    signed=st.booleans(),
    count=st.integers(0, 40),
    seed=st.integers(0, 99),
)
def test_sums_of_lanes_hold_the_sums_of_numbers(workers, level, signed, count, seed):
    packing = NumberPacking(workers, level, signed)
    random = np.random.default_rng(seed)
    given = random.integers(-level if signed else 0, level + 1, (workers, count)).astype(np.int32)
    given[:, : count // 2] = level  # the maximum
    lanes = np.sum([packing.pack(own) for own in given], axis=0, dtype=np.int64)
    assert lanes.size == -(-count // packing.in_word)
    assert (lanes >= 0).all()
    assert (lanes < 2**31).all()
    assert packing.unpack(lanes.astype(np.int32), count).tolist() == given.sum(axis=0).tolist()


@pytest.mark.parametrize(("workers", "level", "in_word"), [(8, 127, 2), (8, 7, 4), (8, 1, 6), (1, 7, 7)])
def test_how_many_fit(workers, level, in_word):
    assert NumberPacking(workers, level).in_word == in_word


def test_what_does_not_fit_is_an_error():
    with pytest.raises(ValueError, match="no room in a lane"):
        NumberPacking(65535, 32767)
    with pytest.raises(ValueError, match=r"-7\.\.7"):
        NumberPacking(8, 7).pack(np.array([8], np.int32))
    with pytest.raises(ValueError, match=r"0\.\.7"):
        NumberPacking(8, 7, signed=False).pack(np.array([-1], np.int32))
