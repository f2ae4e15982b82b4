"""Epoch changes: back to the oldest chunk that any endpoint lacks, nothing applied twice."""

import numpy as np
import pytest

from p4reduce.workers import wire
from p4reduce.workers.kernels.endpoint import receive, transmit
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState
from p4reduce.workers.specs import Timing
from p4switch.base.values import PS_PER_US
from tests.support.loopback.golden import quantized_sum
from tests.support.loopback.jobs import Job, random_arrays, same_bytes
from tests.support.loopback.network import SWITCH_IP, host, switch


def change(job: Job, epoch: int) -> int:
    """Move all endpoints and the switch to another epoch; return the seq to which they go back."""
    oldest = min(job.endpoints.oldest_missing(index) for index in job.workers)
    job.switch.epoch = epoch
    for index in job.workers:
        job.endpoints.change_epoch(index, epoch, oldest)
    if job.server:
        job.endpoints.change_epoch(job.ps, epoch)
    return oldest


def test_a_worker_that_has_all_its_results_sends_its_part_again() -> None:
    job = Job(2, slots=8)
    sources = random_arrays(2, 40, 1)
    targets = [source.copy() for source in sources]
    job.post([Post(Collective.ALL_REDUCE, target, target) for target in targets])
    forward = job.network.handlers[SWITCH_IP]

    def cut_off(frame: np.ndarray) -> list[np.ndarray]:
        """Drop the last chunks' frames to worker 1."""
        return [answer for answer in forward(frame) if answer[33] != job.hosts[1].ip & 255 or answer[53] < 10]

    job.network.handlers[SWITCH_IP] = cut_off
    job.network.run(until=100 * PS_PER_US)
    assert [job.endpoints.status(index).state for index in job.workers] == [EndpointState.DONE, EndpointState.ACTIVE]
    finished = targets[0].copy()
    targets[0][:] = 0  # the caller modifies its array
    job.network.handlers[SWITCH_IP] = forward
    assert change(job, 2) == 10
    assert job.endpoints.status(0).lingering
    job.network.run(lingering=True)
    assert not job.endpoints.status(0).lingering
    assert targets[1].tobytes() == finished.tobytes() == quantized_sum(sources, 4, job.numbers).tobytes()
    assert not targets[0].any()


def test_the_next_operation_may_begin_before_the_last_is_sent_again() -> None:
    job = Job(2, slots=8)
    first = random_arrays(2, 40, 1)
    results = job.all_reduce(first)
    restart = job.endpoints.oldest_missing(0) - 3
    job.switch.epoch = 2
    for index in job.workers:
        job.endpoints.change_epoch(index, 2, restart)
    second = random_arrays(2, 33, 2)
    same_bytes(job.all_reduce(second), quantized_sum(second, 4, job.numbers))
    same_bytes(results, quantized_sum(first, 4, job.numbers))


@pytest.mark.parametrize("stop_us", [3, 5, 8, 12, 16, 20, 30])
def test_the_server_applies_a_step_once_across_epochs(stop_us: int) -> None:
    job = Job(3, slots=8, server=True)
    for epoch in range(2, 6):
        gradients = random_arrays(3, 90, epoch)
        weights = random_arrays(1, 90, 50 + epoch)[0]
        expected = weights - np.float32(0.3 / 3) * quantized_sum(gradients, 4, job.numbers)
        job.post(
            [Post(Collective.PUSH_PULL, gradient, gradient) for gradient in gradients],
            Post(Collective.PUSH_PULL, target=weights, learning_rate=0.3),
        )
        job.network.run(until=job.network.now + stop_us * PS_PER_US)
        change(job, epoch)
        job.network.run()
        job.assert_done()
        same_bytes([weights, *gradients], expected)


def test_a_failed_worker_goes_on_in_a_new_epoch() -> None:
    job = Job(2, slots=8, timing=Timing(initial_ps=PS_PER_US, min_ps=PS_PER_US, max_ps=PS_PER_US, retries=2))
    forward = job.network.handlers[SWITCH_IP]
    job.network.handlers[SWITCH_IP] = lambda frame: []
    sources = random_arrays(2, 40, 1)
    targets = [source.copy() for source in sources]
    job.post([Post(Collective.ALL_REDUCE, target, target) for target in targets])
    job.network.run()
    assert job.endpoints.status(0).state is EndpointState.FAILED
    job.network.handlers[SWITCH_IP] = forward
    job.endpoints.records["retries"] = 100
    change(job, 2)
    assert job.endpoints.status(0).error is None
    job.network.run()
    same_bytes(targets, quantized_sum(sources, 4, job.numbers))


def test_a_worker_says_how_far_it_can_go_back() -> None:
    job = Job(1, slots=4, first_seq=7)
    job.all_reduce(random_arrays(1, 100, 1))
    low = job.endpoints.oldest_missing(0)
    assert low == 7 + 25 + 2
    with pytest.raises(ValueError, match=rf"must be {low - 8}\.\.{low}: endpoint 0 keeps the inputs of its last 8"):
        job.endpoints.change_epoch(0, 2, low - 9)
    with pytest.raises(ValueError, match="restart_seq"):
        job.endpoints.change_epoch(0, 2, low + 1)
    with pytest.raises(ValueError, match="workers need one"):
        job.endpoints.change_epoch(0, 2)
    with pytest.raises(ValueError, match="epoch: 65536"):
        job.endpoints.change_epoch(0, 65536, low)
    assert int(job.endpoints.records[0]["epoch"]) == 1
    fresh = Job(1, slots=4, first_seq=7)
    with pytest.raises(ValueError, match=r"must be 7\.\.7"):
        fresh.endpoints.change_epoch(0, 2, 6)


def test_frames_of_the_new_epoch_that_were_sent_before_are_resends() -> None:
    job = Job(1, slots=8)
    out = np.zeros(100, np.uint8)
    job.post([Post(Collective.PULL, target=np.zeros(4, np.float32))])
    assert transmit(job.endpoints.records, 0, 0, out)
    assert not out[43] & 8
    job.endpoints.change_epoch(0, 9, 0)
    assert transmit(job.endpoints.records, 0, 0, out)
    assert out[43] & 8
    assert out[47] == 9


def answer(job: Job, seq: int, epoch: int, exponent: int) -> None:
    """Return a RESULT without lanes for worker 0."""
    header = wire.headers(
        1,
        ethernet_dst=host(0).mac,
        ipv4_src=switch().ip,
        ipv4_dst=host(0).ip,
        type=wire.PacketType.RESULT,
        job=1,
        epoch=epoch,
        seq=seq,
        exponent=exponent,
    )
    assert receive(job.endpoints.records, 0, wire.pack(header)[0], 62, 0) == 1


def sent(job: Job) -> dict[int, int]:
    """Return the first lane of each frame that leaves now, by seq; frames without lanes are omitted."""
    out = np.zeros(100, np.uint8)
    lanes = {}
    while length := transmit(job.endpoints.records, 0, 0, out):
        headers, words = wire.unpack(out[None, :length])
        if words.size:
            lanes[int(headers[0]["seq"])] = int(words[0, 0])
    return lanes


def test_the_exponent_of_the_last_epoch_that_answered_counts() -> None:
    """A worker with large numbers leaves; exponents that it raised are forgotten when all ask again."""
    job = Job(1, slots=8, lead=2, lanes=1)
    source = np.ones(8, np.float32)
    job.post([Post(Collective.ALL_REDUCE, source, np.zeros_like(source))])
    assert sent(job) == {}
    answer(job, 0, 1, 138)
    answer(job, 1, 1, 138)
    assert sent(job) == {2: 2 ** (30 - 11), 3: 2 ** (30 - 11)}
    job.endpoints.change_epoch(0, 2, 0)
    assert sent(job) == {}
    answer(job, 0, 2, 128)
    answer(job, 1, 2, 129)
    # Before the lanes leave in epoch 2, epoch 3 begins, after one of the two.
    job.endpoints.change_epoch(0, 3, 1)
    assert sent(job) == {2: 2 ** (30 - 1)}
    answer(job, 1, 3, 130)
    assert sent(job)[3] == 2 ** (30 - 3)
