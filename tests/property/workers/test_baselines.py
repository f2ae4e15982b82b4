"""Ring and parameter-server baselines under random loss, duplication and reordering."""

from math import ceil

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from p4reduce.workers import wire
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState
from tests.support.loopback.golden import rank_order_sum, ring_sum
from tests.support.loopback.jobs import make_ps, make_ring, random_arrays, same_bytes, several
from tests.support.loopback.network import Faults, Network

faults = st.builds(
    Faults,
    loss=st.sampled_from([0, 0.01, 0.1, 0.2]),
    duplicate=st.sampled_from([0, 0.1, 0.3]),
    reorder=st.sampled_from([0, 0.1, 0.5]),
    seed=st.integers(0, 1 << 30),
)
first_seqs = st.sampled_from([0, 2**32 - 1, 2**32 - 9])
lengths = st.lists(st.integers(1, 150), min_size=1, max_size=3)


class Acknowledgements:
    """Counter of the ring's acknowledgements without RESEND on the wire."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: np.ndarray) -> None:
        header = wire.unpack(frame[None])[0][0]
        self.count += header["type"] == wire.PacketType.RESULT and not header["resend"]


def assert_done(network: Network) -> None:
    for index in range(len(network.endpoints)):
        status = network.endpoints.status(index)
        assert status.state is EndpointState.DONE, status


@several
@given(
    st.integers(1, 6),
    st.sampled_from([1, 4]),
    st.integers(2, 12),
    st.data(),
    lengths,
    st.booleans(),
    faults,
    first_seqs,
)
def test_ring(
    size: int, lanes: int, window: int, data: st.DataObject, sizes: list[int], in_place: bool, bad: Faults, first: int
) -> None:
    ack_every = data.draw(st.integers(1, window - 1))
    network = make_ring(size, lanes=lanes, window=window, ack_every=ack_every, first_seq=first, faults=bad)
    network.tap = acknowledgements = Acknowledgements()
    frames = acks = 0
    for seed, length in enumerate(sizes):
        sources = random_arrays(size, length, seed)
        targets = [source.copy() if in_place else np.zeros_like(source) for source in sources]
        for rank in range(size):
            source = targets[rank] if in_place else sources[rank]
            network.endpoints.post(rank, Post(Collective.ALL_REDUCE, source, targets[rank]))
        network.run()
        assert_done(network)
        same_bytes(targets, ring_sum(sources, lanes))
        for target in targets:
            target[:] = np.nan  # unacknowledged data must not be read from the caller's array
        stream = 2 * (size - 1) * ceil(ceil(length / lanes) / size)
        frames += stream
        acks += ceil(stream / ack_every)
    network.run(lingering=True)
    for rank in range(size):
        status = network.endpoints.status(rank)
        assert status.frames_sent - status.resends == frames + acks
    assert acknowledgements.count == size * acks


@several
@given(st.integers(1, 5), st.sampled_from([1, 4]), st.integers(1, 9), lengths, faults, first_seqs)
def test_parameter_server(size: int, lanes: int, window: int, sizes: list[int], bad: Faults, first: int) -> None:
    network = make_ps(size, lanes=lanes, window=window, first_seq=first, faults=bad)
    for seed, length in enumerate(sizes):
        sources = random_arrays(size, length, seed)
        targets = [source.copy() for source in sources]
        total = np.zeros(length, np.float32)
        network.endpoints.post(size, Post(Collective.ALL_REDUCE, target=total))
        for rank in range(size):
            network.endpoints.post(rank, Post(Collective.ALL_REDUCE, targets[rank], targets[rank]))
        network.run()
        assert_done(network)
        same_bytes([*targets, total], rank_order_sum(sources))
        weights = random_arrays(1, length, seed + 50)[0]
        step = np.float32(0.5 / size)
        expected = weights - step * rank_order_sum(sources)
        network.endpoints.post(size, Post(Collective.PUSH_PULL, target=weights, learning_rate=0.5))
        for rank in range(size):
            network.endpoints.post(rank, Post(Collective.PUSH_PULL, sources[rank], targets[rank]))
        network.run()
        same_bytes([*targets, weights], expected)
        network.endpoints.post(size, Post(Collective.PULL, source=sources[0]))
        for rank in range(size):
            network.endpoints.post(rank, Post(Collective.PULL, target=targets[rank]))
        network.run()
        same_bytes(targets, sources[0])
