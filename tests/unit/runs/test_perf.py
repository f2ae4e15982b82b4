"""Sizes, bandwidths and checks of ``p4reduce perf``."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p4reduce.runs.experiment import Experiment
from p4reduce.runs.perf import (
    BLOCKS,
    COLLECTIVES,
    ONE_WAY,
    TYPES,
    PerfPlan,
    as_added,
    as_type,
    bus_factor,
    byte_sizes,
    figures,
    measure_virtual,
    values,
)


@given(
    st.integers(1, 10**7),
    st.integers(0, 10**7),
    st.floats(1.01, 9),
    st.none() | st.integers(10**5, 10**6),
    st.integers(1, 99),
)
def test_sizes_grow_and_are_whole(first, more, factor, step, multiple):
    sizes = byte_sizes(first, first + more, factor=factor, step=step, multiple=multiple)
    assert all(size % multiple == 0 for size in sizes)
    assert list(sizes) == sorted(set(sizes))
    assert sizes[0] <= max(first, multiple)
    assert sizes[-1] <= max(first + more, multiple)


def test_sizes_double():
    assert byte_sizes(65536, 262144, factor=None, step=None, multiple=4) == (65536, 131072, 262144)
    assert byte_sizes(100, 400, factor=None, step=100, multiple=8) == (96, 200, 296, 400)


def test_bandwidths_are_those_of_nccl_tests():
    """Example from doc/PERFORMANCE.md of nccl-tests: 10^9 bytes in 0.1 s, 8 ranks."""
    found = figures(10**9, 1e5, "all_reduce", 8, 0)
    assert found.algbw == pytest.approx(10)
    assert found.busbw == pytest.approx(10 * 2 * 7 / 8)
    assert [bus_factor(one, 4) for one in COLLECTIVES] == [1.5, 0.75, 0.75, 1.0, 0.75]


@pytest.mark.parametrize("kind", TYPES)
def test_sums_of_what_is_given_are_exact(kind):
    """With 64 ranks, also in float16; bfloat16 is added in float32."""
    given_ = [as_added(values(rank, 5000, kind), kind) for rank in range(64)]
    total = np.sum([one.astype(np.int64) for one in given_], axis=0)
    assert (total.astype(given_[0].dtype) == total).all()
    assert (values(3, 5000, kind)[:100] == values(3, 100, kind)).all()


def test_bfloat16_is_rounded_to_nearest_and_ties_to_even():
    """Its bits are the upper half of float32's; the examples are one, and both sides of a tie (1 + 2^-8)."""
    numbers = np.array([1.0, 1 + 2**-8, 1 + 2**-8 + 2**-20, 1 + 3 * 2**-8, -258.0], np.float32)
    stored = as_type(numbers, "bfloat16")
    assert [hex(one) for one in stored] == ["0x3f80", "0x3f80", "0x3f81", "0x3f82", "0xc381"]
    assert as_added(stored, "bfloat16").tolist() == [1.0, 1.0, 1 + 2**-7, 1 + 2**-6, -258.0]


def test_warm_up_is_not_measured_and_a_root_sends(monkeypatch):
    from p4reduce.group.communicator import Communicator

    roots, right = [], Communicator.broadcast
    monkeypatch.setattr(
        Communicator, "broadcast", lambda self, array, root: roots.append(root) or right(self, array, root)
    )
    plan = PerfPlan("broadcast", "bfloat16", (4096,), 2, warmup=3, root=1, checked=False)
    (row,) = measure_virtual(Experiment(topology="star:hosts=2"), plan, lambda *_: None)
    assert roots == [1] * 2 * 2 * 5
    assert (row.root, row.in_place.wrong, row.out_of_place.wrong) == (1, None, None)


@pytest.mark.parametrize("kind", ["int32", "bfloat16"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_is_measured_and_right(collective, kind):
    plan = PerfPlan(collective, kind, byte_sizes(4096, 16384, factor=4, step=None, multiple=8), 2)
    rows = measure_virtual(Experiment(topology="star:hosts=2", rate="10G"), plan, lambda *_: None)
    assert [row.size for row in rows] == [4096, 16384]
    for row in rows:
        both = [one for one in (row.out_of_place, row.in_place) if one is not None]
        assert len(both) == (1 if collective in ONE_WAY else 2)
        share = 0.5 if collective in ONE_WAY else 1.0  # a rank's own block crosses no link
        assert all(one.wrong == 0 and one.time_us > share * row.size * 8 / 10e3 for one in both)
    assert rows[1].count == 16384 // TYPES[kind].itemsize // (2 if collective in BLOCKS else 1)


def test_a_wrong_element_is_counted(monkeypatch):
    from p4reduce.group.communicator import Communicator

    right = Communicator.all_reduce

    def wrong(self, array, **options):
        right(self, array, **options)
        array[7] += self.rank == 1
        return array

    monkeypatch.setattr(Communicator, "all_reduce", wrong)
    plan = PerfPlan("all_reduce", "float", (4096,), 1)
    (row,) = measure_virtual(Experiment(topology="star:hosts=2"), plan, lambda *_: None)
    assert row.out_of_place.wrong == row.in_place.wrong == 1
