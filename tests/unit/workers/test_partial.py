"""Counts of partially closed sums, and the contributions left out of them."""

import numpy as np
import pytest

from p4reduce.workers.numbers import Partial, Residuals
from p4reduce.workers.operation import Post, check
from p4reduce.workers.records import Collective, EndpointKind


@pytest.mark.parametrize(
    ("counts", "runs"),
    [
        ([4, 4, 4], ((10, 4),)),
        ([3, 4, 4], ((4, 3), (6, 4))),
        ([4, 4, 3], ((8, 4), (2, 3))),
        ([1, 2, 1], ((4, 1), (4, 2), (2, 1))),
    ],
)
def test_stretches_of_equal_counts_cover_the_array(counts, runs):
    partial = Partial.of(10, 4)
    partial.counts[:] = counts
    assert partial.runs(4) == runs


def test_one_element_is_one_stretch():
    partial = Partial.of(1, 256)
    partial.counts[:] = 2
    assert partial.runs(256) == ((1, 2),)


def test_what_was_left_out_goes_into_the_next_array_of_that_tensor_once():
    residuals, partial = Residuals(), Partial.of(6, 4)
    partial.late[1] = 1
    partial.kept[4:] = 7
    residuals.keep(partial, "a")
    other, first, second = np.ones(5, np.float32), np.ones(6, np.float32), np.ones(6, np.float32)
    another = np.ones(6, np.float32)
    residuals.add_to(another, "b")
    for array in (other, first, second):
        residuals.add_to(array, "a")
    assert another.tolist() == [1] * 6
    assert other.tolist() == [1] * 5
    assert first.tolist() == [1, 1, 1, 1, 8, 8]
    assert second.tolist() == [1] * 6


def test_nothing_late_leaves_nothing():
    residuals, array = Residuals(), np.ones(6, np.float32)
    residuals.keep(Partial.of(6, 4), "a")
    residuals.add_to(array, "a")
    assert array.tolist() == [1] * 6


@pytest.mark.parametrize(
    ("kind", "more", "said"),
    [
        (EndpointKind.RING, {}, "partial: ALL_REDUCE waits for all"),
        (EndpointKind.WORKER, {"words": True}, "waits for all"),
        (EndpointKind.WORKER, {"poison": True}, "waits for all"),
        (EndpointKind.WORKER, {"partial": Partial.of(5, 4)}, "partial: is for 5 elements, not for 6"),
    ],
)
def test_only_sums_of_finite_floats_in_the_network_may_be_closed(kind, more, said):
    array = np.ones(6, np.float32)
    with pytest.raises(ValueError, match=said):
        check(kind, Post(Collective.ALL_REDUCE, array, array, **{"partial": Partial.of(6, 4), **more}))
