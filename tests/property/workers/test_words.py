"""Sums of raw int32, and non-finite chunks, under loss, duplication and reordering."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState
from p4reduce.workers.specs import Timing
from p4switch.base.values import PS_PER_MS
from tests.support.loopback.jobs import Job, make_ps, make_ring, random_arrays, same_bytes, several
from tests.support.loopback.network import Faults

PATIENT = Timing(max_ps=5 * PS_PER_MS, retries=200)
faults = st.builds(
    Faults,
    loss=st.sampled_from([0, 0.01, 0.1, 0.3]),
    duplicate=st.sampled_from([0, 0.1, 0.3]),
    reorder=st.sampled_from([0, 0.1, 0.5]),
    seed=st.integers(0, 1 << 30),
)
Words = NDArray[np.int32]


def _words(size: int, length: int, seed: int, largest: int) -> list[Words]:
    random = np.random.default_rng(seed)
    return [random.integers(-largest, largest, length, dtype=np.int32, endpoint=True) for _ in range(size)]


def _operations(arrays: list[Words]) -> list[Post]:
    views = [array.view(np.float32) for array in arrays]
    return [Post(Collective.ALL_REDUCE, view, view, words=True) for view in views]


@several
@given(st.integers(1, 5), st.sampled_from([1, 3, 8]), st.integers(1, 70), faults, st.integers(0, 99))
def test_words_are_added_as_they_are(size: int, lanes: int, length: int, given: Faults, seed: int) -> None:
    job = Job(size=size, lanes=lanes, faults=given, timing=PATIENT)
    for turn in range(2):
        arrays = _words(size, length, seed + turn, (2**31 - 1) // size)
        expected = np.sum(arrays, axis=0, dtype=np.int64).astype(np.int32)
        job.run(_operations(arrays))
        for array in arrays:
            assert array.tobytes() == expected.tobytes()
        sources = random_arrays(size, length, seed)  # in between, the same job sums floats
        assert np.allclose(job.all_reduce(sources)[0], np.sum(sources, axis=0), rtol=1e-2, atol=1e-1)
    assert all(job.endpoints.status(index).saturated == 0 for index in job.workers)


@several
@given(st.integers(2, 5), st.integers(1, 70), faults, st.integers(0, 99), st.booleans())
def test_hosts_add_words_too(size: int, length: int, given: Faults, seed: int, ring: bool) -> None:
    network = make_ring(size, faults=given) if ring else make_ps(size, faults=given)
    arrays = _words(size, length, seed, (2**31 - 1) // size)
    expected = np.sum(arrays, axis=0, dtype=np.int64).astype(np.int32)
    if not ring:
        total = np.zeros(length, np.float32)
        network.endpoints.post(size, Post(Collective.ALL_REDUCE, target=total, words=True))
    for index, operation in enumerate(_operations(arrays)):
        network.endpoints.post(index, operation)
    network.run()
    for array in arrays:
        assert array.tobytes() == expected.tobytes()


def test_words_beyond_int32_are_held_and_told() -> None:
    for network, ring in ((make_ring(2), True), (make_ps(2), False)):
        arrays = [np.array([2**31 - 1, -(2**31), 5], np.int32), np.array([1, -1, 6], np.int32)]
        if not ring:
            network.endpoints.post(2, Post(Collective.ALL_REDUCE, target=np.zeros(3, np.float32), words=True))
        for index, operation in enumerate(_operations(arrays)):
            network.endpoints.post(index, operation)
        network.run()
        assert arrays[0].tolist() == arrays[1].tolist() == [2**31 - 1, -(2**31), 11]
        assert any(network.endpoints.status(index).saturated for index in range(2))


@several
@given(st.integers(1, 5), st.integers(1, 70), faults, st.integers(0, 99), st.data())
def test_a_chunk_that_is_not_finite_comes_through_as_nan(
    size: int, length: int, given: Faults, seed: int, data: st.DataObject
) -> None:
    lanes = 4
    job = Job(size=size, lanes=lanes, faults=given, timing=PATIENT)
    sources = random_arrays(size, length, seed)
    clean = [source.copy() for source in sources]
    bad = data.draw(
        st.lists(
            st.tuples(st.integers(0, size - 1), st.integers(0, length - 1), st.sampled_from([np.nan, np.inf, -np.inf])),
            max_size=4,
        )
    )
    for rank, index, value in bad:
        sources[rank][index] = value
    expected = Job(size=size, lanes=lanes).all_reduce(clean)[0]
    for _, index, _ in bad:
        expected[index // lanes * lanes : (index // lanes + 1) * lanes] = np.nan
    targets = [np.zeros_like(source) for source in sources]
    job.run([Post(Collective.ALL_REDUCE, a, b, poison=True) for a, b in zip(sources, targets, strict=True)])
    same_bytes(targets, expected)
    for index in job.workers:
        status = job.endpoints.status(index)
        assert status.state is EndpointState.DONE
        assert (status.poisoned > 0) == bool(bad)
    again = random_arrays(size, length, seed + 1)  # the poison does not persist
    same_bytes(job.all_reduce(again), Job(size=size, lanes=lanes).all_reduce(again)[0])
