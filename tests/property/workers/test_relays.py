"""Trees with aggregating workers under random loss, duplication and reordering: exact sums, equal bytes, an end."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from p4reduce.workers.numbers import BlockFloat, FixedScale
from tests.property.workers.test_in_network import IMPATIENT, PATIENT, faults, lengths
from tests.support.loopback.golden import quantized_sum
from tests.support.loopback.jobs import random_arrays, same_bytes, several
from tests.support.loopback.relays import RelayJob


@st.composite
def trees(draw: st.DrawFn) -> RelayJob:
    slots = draw(st.sampled_from([2, 4, 8, 32]))
    size = draw(st.integers(2, 7))
    return RelayJob(
        [draw(st.integers(0, rank - 1)) for rank in range(1, size)],
        lanes=draw(st.sampled_from([1, 3, 8])),
        slots=slots,
        numbers=draw(st.sampled_from([BlockFloat(), FixedScale(2.0**6)])),
        lead=draw(st.none() | st.integers(1, slots // 2)),
        first_seq=draw(st.sampled_from([0, 2**32 - 1, 2**32 - 7, 2**31 - 3])),
        timing=draw(st.sampled_from([PATIENT, IMPATIENT])),
        faults=draw(faults),
    )


@several
@given(trees(), lengths)
def test_all_reduce(job: RelayJob, sizes: list[int]) -> None:
    for seed, length in enumerate(sizes):
        sources = random_arrays(len(job.workers), length, seed)
        same_bytes(job.all_reduce(sources), quantized_sum(sources, job.lanes, job.numbers))
    job.barrier()


@several
@given(trees(), st.integers(1, 70))
def test_words(job: RelayJob, length: int) -> None:
    """int32 values are added unchanged; a sum beyond int32 saturates."""
    rng = np.random.default_rng(length)
    words = rng.integers(-(2**28), 2**28, (len(job.workers), length), np.int32)
    results = job.all_reduce([row.view(np.float32) for row in words], words=True)
    same_bytes(results, words.sum(axis=0, dtype=np.int32).view(np.float32))
