"""Jobs with any congestion settings, under random loss, duplication and reordering: exact sums, and termination."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from p4reduce.workers.kernels.sender import CHUNK, set_up
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4reduce.workers.specs import Congestion, Timing
from p4switch.base.values import PS_PER_MS, PS_PER_US
from tests.support.loopback.golden import quantized_sum, ring_sum
from tests.support.loopback.jobs import Job, make_ring, random_arrays, same_bytes, several
from tests.support.loopback.network import Faults

PATIENT = Timing(max_ps=5 * PS_PER_MS, retries=200)
IMPATIENT = Timing(initial_ps=3 * PS_PER_US, min_ps=PS_PER_US, max_ps=PS_PER_MS, retries=2000, reorder=1)

faults = st.builds(
    Faults,
    loss=st.sampled_from([0, 0.01, 0.1, 0.3]),
    duplicate=st.sampled_from([0, 0.1]),
    reorder=st.sampled_from([0, 0.1, 0.5]),
    seed=st.integers(0, 1 << 30),
)


@st.composite
def settings(draw: st.DrawFn) -> Congestion:
    minimum = draw(st.sampled_from([1, 2, 5]))
    return Congestion(
        adaptive=True,
        minimum=minimum,
        initial=minimum + draw(st.sampled_from([0, 1, 30])),
        decrease=draw(st.sampled_from([0.01, 0.5, 0.99])),
        brake=draw(st.sampled_from([1.0, 2.0, 1000.0])),
        brake_ps=draw(st.sampled_from([0, PS_PER_MS])),
    )


@several
@given(
    st.integers(1, 5),
    st.sampled_from([2, 8, 32]),
    st.sampled_from([PATIENT, IMPATIENT]),
    faults,
    st.lists(settings(), min_size=5, max_size=5),
    st.lists(st.integers(1, 90), min_size=1, max_size=3),
)
def test_workers_of_the_network_each_with_its_own(
    size: int, slots: int, timing: Timing, wires: Faults, chosen: list[Congestion], lengths: list[int]
) -> None:
    job = Job(size, lanes=3, slots=slots, timing=timing, faults=wires)
    for index, congestion in zip(job.workers, chosen, strict=False):
        set_up(job.endpoints.records[index], congestion, 1)
    for seed, length in enumerate(lengths):
        sources = random_arrays(size, length, seed)
        same_bytes(job.all_reduce(sources), quantized_sum(sources, 3, job.numbers))
    for index in job.workers:
        record = job.endpoints.records[index]
        assert record["flight"] == 0
        assert CHUNK <= record["cwnd_low"] <= record["cwnd"] <= record["cwnd_high"] <= record["window"] * CHUNK


@several
@given(st.integers(2, 4), faults, st.lists(settings(), min_size=4, max_size=4), st.integers(1, 200))
def test_rings_each_with_its_own(size: int, wires: Faults, chosen: list[Congestion], length: int) -> None:
    network = make_ring(size, window=16, ack_every=3, faults=wires)
    for index in range(size):
        set_up(network.endpoints.records[index], chosen[index], 4)
    sources = random_arrays(size, length, 7)
    targets = [np.zeros_like(source) for source in sources]
    for index in range(size):
        network.endpoints.post(index, Post(Collective.ALL_REDUCE, sources[index], targets[index]))
    network.run(lingering=True)
    same_bytes(targets, ring_sum(sources, 4))
    assert all(record["flight"] == 0 for record in network.endpoints.records)
