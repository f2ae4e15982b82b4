"""The congestion window: growth, cuts, and steady state."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from p4reduce.workers import wire
from p4reduce.workers.kernels.endpoint import expire, receive, transmit
from p4reduce.workers.kernels.frames import ECN_ECHO
from p4reduce.workers.kernels.sender import CHUNK, cut, cut_for_loss, set_up
from p4reduce.workers.numbers import FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4reduce.workers.specs import FIXED, MAX_BRAKE, Congestion, Timing
from p4reduce.workers.status import WindowStatus
from p4switch.base.values import PS_PER_MS, PS_PER_US
from tests.support.loopback.golden import quantized_sum
from tests.support.loopback.jobs import Job, make_ps, make_ring, random_arrays, same_bytes
from tests.support.loopback.network import SWITCH_IP, Faults, Frame, Network

ADAPTIVE = Congestion(adaptive=True)
BY_LOSS = Congestion(adaptive=True, brake=MAX_BRAKE)
"""no brake: round-trip times do not limit the window's growth, only losses do"""
SERVICE_PS = 10 * PS_PER_US
WIRE_PS = 2 * PS_PER_US
PATIENT = Timing(max_ps=100 * PS_PER_MS, retries=200)
LANES = 4


class Bottleneck(Network):
    """A wire to the switch that serves frames one by one, ten microseconds each, and drops those beyond ``space``.

    So BMv2 behaves: one thread receives frames, and frames without buffer space are lost without a mark.
    """

    space: int = 64
    slow: frozenset[int] | None = None
    """IPv4 addresses of the workers behind the bottleneck; all if None"""
    served = 0
    dropped = 0
    _busy_until = 0

    def send(self, frame: Frame) -> None:
        source, destination = (int.from_bytes(frame[at : at + 4].tobytes(), "big") for at in (26, 30))
        if destination != SWITCH_IP or (self.slow is not None and source not in self.slow):
            super().send(frame)
            return
        arrival = self.now + WIRE_PS
        if self._busy_until - arrival > self.space * SERVICE_PS:
            self.dropped += 1
            return
        self.served += 1
        self._busy_until = max(self._busy_until, arrival) + SERVICE_PS
        self._at(self._busy_until, "frame", frame.copy())


def adaptive_job(size: int, window: int, congestion: Congestion = ADAPTIVE, **given: Any) -> Job:
    job = Job(size, lanes=LANES, slots=2 * window, timing=PATIENT, **given)
    for index in job.workers:
        set_up(job.endpoints.records[index], congestion, 1)
    return job


def windows(job: Job) -> list[WindowStatus]:
    return [job.endpoints.status(index).window for index in job.workers]


def through_bottleneck(
    size: int, congestion: Congestion, *, chunks: int = 600, space: int = 16, slow: int | None = None
) -> tuple[Job, Bottleneck, float]:
    """Return a job whose result is checked, its network, and its time relative to the bottleneck's service time."""
    job = adaptive_job(size, 64, congestion)
    network = Bottleneck(job.endpoints, job.faults, job.network.handlers)
    network.space = space
    if slow is not None:
        network.slow = frozenset({int(job.endpoints.records[slow]["ip"])})
    job.network = network
    sources = random_arrays(size, LANES * chunks, 1)
    same_bytes(job.all_reduce(sources), quantized_sum(sources, LANES, job.numbers))
    passes = (size if slow is None else 1) * (chunks + 64)
    return job, network, network.now / (passes * SERVICE_PS)


def test_a_fixed_window_is_the_plans() -> None:
    job = adaptive_job(2, 8, FIXED)
    job.all_reduce(random_arrays(2, 400, 1))
    for window in windows(job):
        assert (window.adaptive, window.limit, window.cuts, window.braked) == (False, 8, 0, 0)
        assert (window.now, window.lowest, window.highest, window.mean) == (8, 8, 8, 8)


def test_it_starts_small_and_doubles_each_round_trip_until_the_plans_window() -> None:
    job = adaptive_job(1, 64, BY_LOSS, numbers=FixedScale(1.0))
    array = np.ones(10_000, np.float32)
    job.post([Post(Collective.ALL_REDUCE, array, array)])
    out = np.zeros(100, np.uint8)
    flights, now = [], 0
    for _ in range(6):
        frames = []
        while length := int(transmit(job.endpoints.records, 0, now, out)):
            frames.append(out[:length].copy())
        flights.append(len(frames))
        now += PS_PER_MS
        for frame in frames:
            for answer in job.switch.frame(frame):
                assert receive(job.endpoints.records, 0, answer, len(answer), now) == 1
    assert flights == [4, 8, 16, 32, 64, 64]


def test_a_bottleneck_without_marks_is_filled_and_hardly_loses() -> None:
    _, fixed, _ = through_bottleneck(3, FIXED, chunks=100)
    assert fixed.dropped > fixed.served  # shows the need for a congestion window
    job, network, over_capacity = through_bottleneck(3, ADAPTIVE)
    assert over_capacity < 1.05
    assert network.dropped < 0.02 * network.served
    assert all(window.braked > 0 and window.highest <= 64 for window in windows(job))


def test_losses_alone_keep_it_near_the_capacity() -> None:
    job, network, over_capacity = through_bottleneck(3, BY_LOSS)
    # If frames without lanes take as long as others, a loss costs two: the ASK and the resend.
    assert over_capacity < 1.45
    assert 0 < network.dropped < 0.15 * network.served
    for window in windows(job):
        assert window.cuts > 5
        assert 2 <= window.lowest <= window.mean <= window.highest <= 64


@pytest.mark.parametrize(("congestion", "most"), [(ADAPTIVE, 1.05), (BY_LOSS, 1.45)])
def test_one_slow_worker_sets_the_pace_and_is_not_starved(congestion: Congestion, most: float) -> None:
    job, _, over_capacity = through_bottleneck(3, congestion, slow=0)
    assert over_capacity < most
    means = [window.mean for window in windows(job)]
    if congestion is ADAPTIVE:
        assert max(means) < 2 * min(means)
    else:  # a worker is not cut for another link's losses
        assert [window.cuts > 0 for window in windows(job)] == [True, False, False]


def test_one_round_trip_is_cut_once() -> None:
    job = adaptive_job(1, 64)
    record = job.endpoints.records[0]
    record["cwnd"], record["order"] = 40 * CHUNK, 100
    for order in (60, 70, 99):
        cut(record, order)
    assert (int(record["cwnd"]), int(record["cuts"])) == (20 * CHUNK, 1)
    record["order"] = 130
    cut(record, 99)  # sent before the cut
    cut(record, 100)
    assert (int(record["cwnd"]), int(record["cuts"])) == (10 * CHUNK, 2)


@pytest.mark.parametrize(
    ("congestion", "last_rtt", "threshold"),
    [
        (ADAPTIVE, 2000, 35),  # no standing queue: it may be a random loss
        (ADAPTIVE, 2100, 20),
        (Congestion(adaptive=True, brake_ps=100), 2100, 35),
        (BY_LOSS, 1000, 20),  # losses are the only sign of congestion
    ],
)
def test_after_a_loss_by_chance_most_of_it_comes_back_at_once(
    congestion: Congestion, last_rtt: int, threshold: int
) -> None:
    job = adaptive_job(1, 64, congestion)
    record = job.endpoints.records[0]
    record["cwnd"], record["order"] = 40 * CHUNK, 100
    record["base_rtt"], record["last_rtt"] = 1024, last_rtt
    for order in (60, 99):  # cut only once
        cut_for_loss(record, order)
    assert (int(record["cwnd"]), int(record["cuts"])) == (20 * CHUNK, 1)
    assert int(record["threshold"]) == threshold * CHUNK


def test_it_is_never_cut_below_the_minimum() -> None:
    job = adaptive_job(1, 64, Congestion(adaptive=True, minimum=3))
    record = job.endpoints.records[0]
    for order in range(10):
        record["order"] = order + 1
        cut(record, order)
    assert int(record["cwnd"]) == 3 * CHUNK


def marked(handler: Callable[[Frame], list[Frame]], every: int) -> Callable[[Frame], list[Frame]]:
    """Return a switch that reports a congested queue in every n-th chunk."""
    flags = wire.offset(wire.INC, "has_lanes")
    seq = wire.offset(wire.INC, "seq")

    def handle(frame: Frame) -> list[Frame]:
        answers = handler(frame)
        for answer in answers:
            if int.from_bytes(answer[seq : seq + 4].tobytes(), "big") % every == every - 1:
                answer[flags] |= ECN_ECHO
        return answers

    return handle


def test_a_congestion_mark_cuts_it_and_nothing_is_sent_again() -> None:
    job = adaptive_job(2, 64, BY_LOSS)
    job.network.handlers[SWITCH_IP] = marked(job.switch.frame, 100)
    job.all_reduce(random_arrays(2, LANES * 1000, 1))
    for index in job.workers:
        status = job.endpoints.status(index)
        assert (status.resends, status.window.congested) == (0, 10)
        assert 5 <= status.window.cuts <= 10
        assert status.window.mean < 64


def test_a_worker_that_computes_is_no_congestion() -> None:
    job = adaptive_job(2, 8)
    sources = random_arrays(2, 400, 1)
    targets = [np.zeros_like(source) for source in sources]
    job.endpoints.post(0, Post(Collective.ALL_REDUCE, sources[0], targets[0]))
    job.network.run(until=20 * PS_PER_MS)
    assert job.endpoints.status(0).resends > 0  # the worker sent ASKs repeatedly
    job.endpoints.post(1, Post(Collective.ALL_REDUCE, sources[1], targets[1]))
    job.network.run()
    job.assert_done()
    assert [window.cuts for window in windows(job)] == [0, 0]


def test_a_window_that_is_lost_altogether_is_asked_for_by_time() -> None:
    job = adaptive_job(1, 8, numbers=FixedScale(1.0))
    array = np.ones(LANES * 4, np.float32)
    job.post([Post(Collective.ALL_REDUCE, array, array)])
    out = np.zeros(100, np.uint8)
    while transmit(job.endpoints.records, 0, 0, out):
        pass  # dropped
    job.network.run()
    job.assert_done()
    window = windows(job)[0]
    assert (window.lost_by_order, window.lost_by_time) == (0, 4)
    assert int(job.endpoints.records[0]["own_losses"]) == 4
    assert window.cuts == 0  # four losses are too few for a rate


def test_lost_resends_do_not_stop_a_full_window() -> None:
    """The oldest chunk may always be resent, however much is in flight."""
    job = adaptive_job(1, 8, Congestion(adaptive=True, initial=1, minimum=1), numbers=FixedScale(1.0))
    job.post([Post(Collective.PUSH, np.ones(LANES * 3, np.float32))])
    out = np.zeros(100, np.uint8)
    now = 0
    for _ in range(5):
        sent = 0
        while transmit(job.endpoints.records, 0, now, out):
            sent += 1
        assert sent == 1
        now = int(job.endpoints.records[0]["timer"])
        expire(job.endpoints.records, 0, now)


def test_another_epoch_starts_over() -> None:
    job, _, _ = through_bottleneck(1, ADAPTIVE, chunks=300)
    record = job.endpoints.records[0]
    assert int(record["cwnd"]) > 4 * CHUNK
    job.endpoints.change_epoch(0, 2, job.endpoints.oldest_missing(0))
    assert (int(record["cwnd"]), int(record["flight"])) == (4 * CHUNK, 0)
    assert windows(job)[0].rtt_base_ps == 0


def adaptive(network: Network, indices: range, congestion: Congestion, least: int) -> Network:
    for index in indices:
        set_up(network.endpoints.records[index], congestion, least)
    return network


def all_reduce(network: Network, size: int, length: int) -> None:
    sources = random_arrays(size, length, 3)
    targets = [np.zeros_like(source) for source in sources]
    for index in range(size):
        network.endpoints.post(index, Post(Collective.ALL_REDUCE, sources[index], targets[index]))
    if len(network.endpoints) > size:
        network.endpoints.post(size, Post(Collective.ALL_REDUCE, None, np.zeros(length, np.float32)))
    network.run(lingering=True)
    same_bytes(targets, targets[0])


def test_a_ring_starts_above_its_acknowledgements_and_is_cut_by_losses() -> None:
    ring = adaptive(make_ring(3, window=64, ack_every=8, faults=Faults(loss=0.02)), range(3), BY_LOSS, 9)
    all_reduce(ring, 3, 4 * 900)
    for index in range(3):
        window = ring.endpoints.status(index).window
        assert 9 <= window.lowest <= window.mean <= window.highest <= 64
        assert window.cuts > 0
        assert window.lost_by_order + window.lost_by_time > 0


def test_a_rings_receiver_echoes_marks() -> None:
    ring = adaptive(make_ring(2, window=64, ack_every=8), range(2), BY_LOSS, 9)
    tos = wire.offset(wire.IPV4, "dscp")
    checksum = wire.offset(wire.IPV4, "checksum")
    deliver = ring._deliver

    def mark(frame: Frame) -> None:
        """Mark full frames of worker 0 alone, like a congested queue."""
        if len(frame) > wire.HEADER_BYTES and frame[29] == 1:
            frame[tos] |= wire.ECN_CONGESTED
            frame[checksum : checksum + 2] = wire.ipv4_checksums(frame[None]).astype(">u2").view(np.uint8)
        deliver(frame)

    ring._deliver = mark  # type: ignore[method-assign]
    all_reduce(ring, 2, 4 * 900)
    assert ring.endpoints.status(0).window.cuts > 0
    assert ring.endpoints.status(1).window.cuts == 0


def test_a_worker_of_the_parameter_server_is_cut_by_losses() -> None:
    group = make_ps(2, window=32, faults=Faults(loss=0.03))
    adaptive(group, range(2), BY_LOSS, 1)
    all_reduce(group, 2, 4 * 600)
    assert all(group.endpoints.status(index).window.cuts > 0 for index in range(2))


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"initial": 0, "minimum": 0}, "minimum"),
        ({"initial": 3, "minimum": 4}, "minimum"),
        ({"decrease": 1.0}, "decrease"),
        ({"decrease": 0.0}, "decrease"),
        ({"brake": 0.5}, "brake"),
        ({"brake": MAX_BRAKE + 1}, "brake"),
        ({"brake_ps": -1}, "brake_ps"),
    ],
)
def test_settings_that_make_no_sense(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Congestion(adaptive=True, **given)
