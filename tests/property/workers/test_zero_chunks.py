"""Chunks that are zero at all workers travel without lanes; sums have the same bytes as with lanes."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from p4reduce.workers import wire
from p4reduce.workers.numbers import BlockFloat, FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4switch.base.values import PS_PER_US
from tests.property.workers.test_in_network import PATIENT, faults
from tests.support.loopback.golden import Floats, quantized_sum
from tests.support.loopback.jobs import Job, random_arrays, same_bytes, several
from tests.support.loopback.network import Frame

LANES = 3


@st.composite
def sparse(draw: st.DrawFn, size: int) -> list[Floats]:
    """Draw an array for each worker, many of whose chunks are zero at one, some or all workers, with signed zeros."""
    chunks = draw(st.integers(1, 30))
    length = LANES * chunks - draw(st.integers(0, LANES - 1))
    arrays = random_arrays(size, length, draw(st.integers(0, 1 << 20)))
    kinds = draw(st.lists(st.sampled_from(["dense", "all", "all", "some", "tiny"]), min_size=chunks, max_size=chunks))
    for chunk, kind in enumerate(kinds):
        part = slice(chunk * LANES, (chunk + 1) * LANES)
        for rank, array in enumerate(arrays):
            if kind == "all" or (kind == "some" and rank % 2 == chunk % 2):
                array[part] = -0.0 if chunk % 3 == 0 else 0.0
            elif kind == "tiny":
                array[part] = 2.0**-149
    return arrays


def zero_chunks(arrays: list[Floats]) -> int:
    """Return the number of chunks that are zero in all arrays."""
    together = np.abs(np.stack(arrays)).max(axis=0)
    return sum(not together[begin : begin + LANES].any() for begin in range(0, len(together), LANES))


def job_of(data: st.DataObject, **more: object) -> Job:
    slots = data.draw(st.sampled_from([2, 4, 8, 32]))
    lead = data.draw(st.none() | st.integers(1, slots // 2))
    size = data.draw(st.integers(1, 4))
    return Job(size, LANES, slots, lead=lead, faults=data.draw(faults), timing=PATIENT, **more)


@several
@given(st.data())
def test_sums_have_the_bytes_that_they_had_with_lanes(data: st.DataObject) -> None:
    job = job_of(data, first_seq=2**32 - 7)
    expected = 0
    for _ in range(2):
        sources = data.draw(sparse(job.size))
        expected += zero_chunks(sources)
        given_arrays = [source.copy() for source in sources]
        same_bytes(job.all_reduce(given_arrays, in_place=True), quantized_sum(sources, LANES, job.numbers) + 0.0)
        assert job.endpoints.records["bare"].tolist() == [expected] * job.size


@several
@given(st.data())
def test_after_a_change_of_epoch_at_any_time(data: st.DataObject) -> None:
    job = job_of(data)
    sources = data.draw(sparse(job.size))
    targets = [source.copy() for source in sources]
    job.post([Post(Collective.ALL_REDUCE, target, target) for target in targets])
    job.network.run(until=data.draw(st.integers(0, 100 * PS_PER_US)))
    oldest = min(job.endpoints.oldest_missing(index) for index in job.workers)
    job.switch.epoch = 2
    for index in job.workers:
        job.endpoints.change_epoch(index, 2, oldest)
    job.network.run()
    job.assert_done()
    same_bytes(targets, quantized_sum(sources, LANES, job.numbers) + 0.0)


def frames_of(numbers: BlockFloat | FixedScale, sources: list[Floats]) -> Counter[tuple[int, bool]]:
    """Return the numbers of an all-reduce's frames by type and lanes."""
    frames: Counter[tuple[int, bool]] = Counter()

    def count(frame: Frame) -> None:
        header = wire.unpack(frame[None])[0][0]
        frames[int(header["type"]), bool(header["has_lanes"])] += 1

    job = Job(len(sources), LANES, 8, numbers=numbers)
    job.network.tap = count
    job.all_reduce(sources)
    return frames


def test_frames_without_lanes_stand_for_zero_chunks() -> None:
    sources = random_arrays(3, 10 * LANES, 1)
    for source in sources:
        source[2 * LANES : 6 * LANES] = 0
    sources[0][7 * LANES : 8 * LANES] = 0  # not at the others
    frames = frames_of(BlockFloat(), sources)
    lead = 4
    for kind in (wire.PacketType.PUSH, wire.PacketType.RESULT):
        assert frames[kind, True] == 3 * 6
        assert frames[kind, False] == 3 * (lead + 4)


def test_a_fixed_scale_has_no_exponents_that_would_tell() -> None:
    sources = [np.zeros(10 * LANES, np.float32) for _ in range(3)]
    assert frames_of(FixedScale(64.0), sources) == {
        (wire.PacketType.PUSH, True): 30,
        (wire.PacketType.RESULT, True): 30,
    }


def test_what_is_not_finite_at_one_worker_is_nan_at_all() -> None:
    """The chunk is announced as zero, so it travels without lanes if the others' are zero; the flag marks it."""
    job = Job(3, LANES, 8)
    sources = [np.zeros(6 * LANES, np.float32) for _ in range(3)]
    sources[1][2 * LANES] = np.inf
    targets = [np.ones_like(source) for source in sources]
    job.run([Post(Collective.ALL_REDUCE, a, b, poison=True) for a, b in zip(sources, targets, strict=True)])
    expected = np.zeros(6 * LANES, np.float32)
    expected[2 * LANES : 3 * LANES] = np.nan
    for target in targets:
        np.testing.assert_array_equal(target, expected)
    assert job.endpoints.records["bare"].tolist() == [6] * 3
    assert job.endpoints.records["poisoned"].tolist() == [1] * 3
