"""In-network jobs under random loss, duplication and reordering: exact sums, equal bytes, termination."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from p4reduce.workers.numbers import BlockFloat, FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4reduce.workers.specs import Timing
from p4switch.base.values import PS_PER_MS, PS_PER_US
from tests.support.loopback.golden import quantized_sum
from tests.support.loopback.jobs import Job, random_arrays, same_bytes, several
from tests.support.loopback.network import Faults

PATIENT = Timing(max_ps=5 * PS_PER_MS, retries=200)
IMPATIENT = Timing(initial_ps=3 * PS_PER_US, min_ps=PS_PER_US, max_ps=PS_PER_MS, retries=2000, reorder=1)

faults = st.builds(
    Faults,
    loss=st.sampled_from([0, 0.01, 0.1, 0.3]),
    duplicate=st.sampled_from([0, 0.1, 0.3]),
    reorder=st.sampled_from([0, 0.1, 0.5]),
    seed=st.integers(0, 1 << 30),
)


@st.composite
def jobs(draw: st.DrawFn, *, server: bool) -> Job:
    slots = draw(st.sampled_from([2, 4, 8, 32]))
    return Job(
        size=draw(st.integers(1, 5)),
        lanes=draw(st.sampled_from([1, 3, 8])),
        slots=slots,
        numbers=draw(st.sampled_from([BlockFloat(), FixedScale(2.0**6)])),
        server=server,
        lead=draw(st.none() | st.integers(1, slots // 2)),
        first_seq=draw(st.sampled_from([0, 2**32 - 1, 2**32 - 7, 2**31 - 3])),
        timing=draw(st.sampled_from([PATIENT, IMPATIENT])),
        faults=draw(faults),
    )


lengths = st.lists(st.integers(1, 40), min_size=1, max_size=3)
"""elements of the arrays: in single lanes more chunks than there are slots, so that slots are used again"""


@several
@given(jobs(server=False), lengths, st.booleans())
def test_all_reduce(job: Job, sizes: list[int], in_place: bool) -> None:
    for seed, length in enumerate(sizes):
        sources = random_arrays(job.size, length, seed)
        same_bytes(job.all_reduce(sources, in_place=in_place), quantized_sum(sources, job.lanes, job.numbers))


@several
@given(jobs(server=True), lengths)
def test_push_then_pull(job: Job, sizes: list[int]) -> None:
    for seed, length in enumerate(sizes):
        sources = random_arrays(job.size, length, seed)
        total = np.zeros(length, np.float32)
        job.run([Post(Collective.PUSH, s) for s in sources], Post(Collective.PUSH, target=total))
        same_bytes([total], quantized_sum(sources, job.lanes, job.numbers))
        weights = random_arrays(1, length, seed + 100)[0]
        weights[0] = np.float32(-0.0)
        pulled = [np.zeros_like(weights) for _ in sources]
        job.run([Post(Collective.PULL, target=p) for p in pulled], Post(Collective.PULL, source=weights))
        same_bytes(pulled, weights)


@several
@given(jobs(server=True), lengths)
def test_push_pull_is_a_step_of_descent(job: Job, sizes: list[int]) -> None:
    for seed, length in enumerate(sizes):
        gradients = random_arrays(job.size, length, seed)
        weights = random_arrays(1, length, seed + 100)[0]
        step = np.float32(0.25 / job.size)
        expected = weights - step * quantized_sum(gradients, job.lanes, job.numbers)
        targets = [np.zeros(length, np.float32) for _ in gradients]
        job.run(
            [Post(Collective.PUSH_PULL, g, t) for g, t in zip(gradients, targets, strict=True)],
            Post(Collective.PUSH_PULL, target=weights, learning_rate=0.25),
        )
        same_bytes([weights, *targets], expected)


@several
@given(jobs(server=False), st.integers(1, 4))
def test_barriers(job: Job, count: int) -> None:
    for _ in range(count):
        job.run([Post(Collective.BARRIER)] * job.size)


@several
@given(jobs(server=False), st.integers(1, 120), st.data())
def test_epoch_change_at_any_time(job: Job, length: int, data: st.DataObject) -> None:
    """The switch forgets everything; workers go back to the oldest chunk that any of them lacks."""
    for epoch in (2, 3):
        sources = random_arrays(job.size, length, epoch)
        targets = [source.copy() for source in sources]
        job.post([Post(Collective.ALL_REDUCE, target, target) for target in targets])
        job.network.run(until=job.network.now + data.draw(st.integers(0, 200 * PS_PER_US)))
        oldest = min(job.endpoints.oldest_missing(index) for index in job.workers)
        job.switch.epoch = epoch
        for index in job.workers:
            job.endpoints.change_epoch(index, epoch, oldest)
        job.network.run()
        job.assert_done()
        same_bytes(targets, quantized_sum(sources, job.lanes, job.numbers))
