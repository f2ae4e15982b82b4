"""Windows, timers, loss and giving up."""

from collections import Counter

import numpy as np
import pytest

from p4reduce.workers import wire
from p4reduce.workers.kernels.endpoint import deadline, expire, transmit
from p4reduce.workers.numbers import UNANNOUNCED, BlockFloat, FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import NEVER, Collective, EndpointState
from p4reduce.workers.specs import Timing
from p4switch.base.values import PS_PER_MS, PS_PER_US
from tests.support.loopback.golden import quantized_sum
from tests.support.loopback.jobs import Job, make_ring, random_arrays, same_bytes
from tests.support.loopback.network import SWITCH_IP, Faults, Frame


class Tap:
    """Recorder of the headers of all sent frames, in order."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def __call__(self, frame: Frame) -> None:
        self.frames.append(frame.tobytes())

    def headers(self, *, to: int | None = None) -> list[np.void]:
        found = [wire.unpack(np.frombuffer(frame, np.uint8)[None])[0][0] for frame in self.frames]
        return [header for header in found if to is None or header["ipv4_dst"] == to]


def test_a_collective_takes_lead_and_chunks_and_announces_each_exponent_once() -> None:
    job = Job(1, lanes=4, slots=8, lead=3, first_seq=2**32 - 2)
    job.network.tap = tap = Tap()
    source = np.array([2.0**k for k in range(0, 40)], np.float32)
    target = np.zeros_like(source)
    job.run([Post(Collective.ALL_REDUCE, source, target, iteration=77)])
    pushes = tap.headers(to=SWITCH_IP)
    assert [int(header["seq"]) for header in pushes] == [(2**32 - 2 + k) % 2**32 for k in range(13)]
    assert [int(header["has_lanes"]) for header in pushes] == [0] * 3 + [1] * 10
    assert [int(header["exponent"]) for header in pushes] == [127 + 4 * k + 4 for k in range(10)] + [UNANNOUNCED] * 3
    assert {int(header["iteration"]) for header in pushes} == {77}
    assert {int(header["count"]) for header in pushes} == {1}
    assert {(int(h["ipv4_ttl"]), int(h["ipv4_ecn"]), int(h["udp_checksum"])) for h in pushes} == {(64, 2, 0)}
    assert all(
        wire.ipv4_checksums(np.frombuffer(f, np.uint8)[None])[0] == h["ipv4_checksum"]
        for f, h in zip(tap.frames, tap.headers(), strict=True)
    )


@pytest.mark.parametrize(("length", "frames"), [(1, 2), (4, 2), (5, 4), (17, 9), (400, 104)])
def test_short_collectives_have_a_short_lead(length: int, frames: int) -> None:
    job = Job(2, lanes=4, slots=8)
    job.all_reduce(random_arrays(2, length, 1))
    assert job.endpoints.status(job.workers[0]).frames_sent == frames


def test_no_more_than_a_window_is_on_its_way() -> None:
    job = Job(1, slots=16, numbers=FixedScale(1.0))
    out = np.zeros(100, np.uint8)
    job.post([Post(Collective.PUSH, np.ones(1000, np.float32))])
    sent = 0
    while transmit(job.endpoints.records, 0, 0, out):
        sent += 1
    assert sent == 8


@pytest.mark.parametrize("numbers", [BlockFloat(), FixedScale(2.0**8)])
def test_without_faults_nothing_is_sent_twice(numbers: BlockFloat | FixedScale) -> None:
    job = Job(4, slots=32, numbers=numbers)
    for seed in range(3):
        job.all_reduce(random_arrays(4, 999, seed))
    for index in job.workers:
        status = job.endpoints.status(index)
        assert (status.resends, status.spurious, status.refused["duplicate"]) == (0, 0, 0)


def test_same_seed_same_frames() -> None:
    def run(seed: int) -> list[bytes]:
        job = Job(3, slots=16, faults=Faults(0.1, 0.1, 0.1, seed=seed))
        job.network.tap = tap = Tap()
        job.all_reduce(random_arrays(3, 300, 1))
        return tap.frames

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_resends_are_marked_and_counted_apart() -> None:
    job = Job(3, slots=16, faults=Faults(loss=0.2, seed=5))
    job.network.tap = tap = Tap()
    job.all_reduce(random_arrays(3, 300, 1))
    chunks = 75 + 8
    first = [header for header in tap.headers(to=SWITCH_IP) if not header["resend"]]
    again = [header for header in tap.headers(to=SWITCH_IP) if header["resend"]]
    assert set(Counter((int(h["ipv4_src"]), int(h["seq"])) for h in first).values()) == {1}
    assert len(first) == 3 * chunks
    assert len(again) == sum(job.endpoints.status(index).resends for index in job.workers) > 0


def test_a_lost_chunk_is_found_by_its_successors_long_before_the_timer() -> None:
    job = Job(1, slots=64, numbers=FixedScale(1.0), timing=Timing(initial_ps=PS_PER_MS, min_ps=PS_PER_MS))
    sink = job.network.handlers[SWITCH_IP]
    dropped = []

    def lossy(frame: Frame) -> list[Frame]:
        seq = int(wire.unpack(frame[None])[0][0]["seq"])
        if seq == 3 and not dropped:
            dropped.append(seq)
            return []
        return sink(frame)

    job.network.handlers[SWITCH_IP] = lossy
    job.all_reduce(random_arrays(1, 400, 1))
    assert dropped
    assert job.endpoints.status(0).resends == 2  # it sent an ASK, and answered one
    assert job.network.now < PS_PER_MS // 4


@pytest.mark.parametrize(("before", "least_ms", "most_ms"), [({40}, 0.0015, 0.004), (set(), 0.9, 1.1)])
def test_a_lost_last_chunk_is_found_sooner_where_others_were_lost_before(
    before: set[int], least_ms: float, most_ms: float
) -> None:
    """After the shortest round trip, about 2 us, if a chunk was lost before; otherwise after the first time-out."""
    lost_before = set(before)
    job = Job(1, slots=64, numbers=FixedScale(1.0), timing=Timing(initial_ps=PS_PER_MS, min_ps=PS_PER_MS))
    sink = job.network.handlers[SWITCH_IP]
    lost: list[int] = []
    asked: list[int] = []

    def lossy(frame: Frame) -> list[Frame]:
        header = wire.unpack(frame[None])[0][0]
        if int(header["seq"]) in lost_before:
            lost_before.remove(int(header["seq"]))
            return []
        if int(header["seq"]) == 99:
            if header["type"] == wire.PacketType.ASK:
                asked.append(job.network.now)
            elif not lost:
                lost.append(job.network.now)
                return []
        return sink(frame)

    job.network.handlers[SWITCH_IP] = lossy
    job.all_reduce(random_arrays(1, 400, 1))
    (left,), question = lost, asked[0]
    assert least_ms * PS_PER_MS < question - left < most_ms * PS_PER_MS


def test_small_reordering_causes_no_resends() -> None:
    job = Job(2, slots=64, faults=Faults(reorder=0.3, late_ps=100_000, seed=3))
    job.all_reduce(random_arrays(2, 2000, 1))
    assert job.endpoints.status(0).resends == 0


def test_tolerance_grows_when_resends_were_for_nothing() -> None:
    job = Job(2, slots=128, faults=Faults(reorder=0.5, late_ps=1_000_000, seed=3), timing=Timing(reorder=1))
    for seed in range(2):
        job.all_reduce(random_arrays(2, 2000, seed))
    status = job.endpoints.status(0)
    assert status.spurious > 0
    assert int(job.endpoints.records[0]["reorder"]) > 1
    assert int(job.endpoints.records[0]["reorder"]) <= 32


@pytest.mark.parametrize(("order", "late", "spurious"), [("behind", True, 0), ("before", False, 1), ("lost", False, 0)])
def test_a_result_behind_the_one_that_repeats_it_was_overtaken(order: str, late: bool, spurious: int) -> None:
    """This was reordering: a worker waits that long from then on, and its window is as wide as its slots."""
    job = Job(1, slots=64, numbers=FixedScale(1.0))
    sink = job.network.handlers[SWITCH_IP]
    held: list[Frame] = []

    def overtaking(frame: Frame) -> list[Frame]:
        answers = sink(frame)
        header = wire.unpack(frame[None])[0][0]
        if int(header["seq"]) != 40:
            return answers
        if header["type"] != wire.PacketType.ASK:
            held.extend(answers)
            return []
        return {"behind": answers + held, "before": held + answers, "lost": answers}[order]

    job.network.handlers[SWITCH_IP] = overtaking
    job.all_reduce(random_arrays(1, 400, 1))
    record = job.endpoints.records[0]
    assert record["asks"] == 1
    assert (record["late_by"] > 0) == late
    assert record["spurious"] == spurious


def test_losses_alone_are_never_taken_for_frames_that_overtake_each_other() -> None:
    job = Job(3, slots=64, faults=Faults(loss=0.1, duplicate=0.1, seed=1))
    job.all_reduce(random_arrays(3, 1000, 1))
    records = job.endpoints.records[job.workers]
    assert records["asks"].min() > 50
    assert records["spurious"].sum() > 0
    assert records["late_by"].max() == 0


def test_behind_a_link_that_loses_much_the_shortest_round_trip_counts() -> None:
    """Every third window is lost completely, so nothing reveals the loss; a time-out is a millisecond."""
    timing = Timing(initial_ps=PS_PER_MS, min_ps=PS_PER_MS, reorder=3)
    job = Job(1, slots=16, numbers=FixedScale(1.0), timing=timing)
    sink = job.network.handlers[SWITCH_IP]
    lost: set[int] = set()
    took: list[int] = []

    def lossy(frame: Frame) -> list[Frame]:
        header = wire.unpack(frame[None])[0][0]
        seq = int(header["seq"])
        if (seq // 8 % 3 == 2 or seq == 1) and seq not in lost and header["type"] == wire.PacketType.PUSH:
            lost.add(seq)
            return []
        return sink(frame)

    job.network.handlers[SWITCH_IP] = lossy
    for seed in range(3):
        before = job.network.now
        job.all_reduce(random_arrays(1, 400, seed))
        took.append(job.network.now - before)
    assert took[0] > PS_PER_MS
    assert max(took[1:]) < PS_PER_MS // 2


def test_gives_up_after_bounded_retries_and_names_the_seq() -> None:
    timing = Timing(initial_ps=10 * PS_PER_US, min_ps=10 * PS_PER_US, max_ps=40 * PS_PER_US, retries=5)
    job = Job(2, slots=8, numbers=FixedScale(1.0), timing=timing, first_seq=2**32 - 2)
    sink = job.network.handlers[SWITCH_IP]
    job.network.handlers[SWITCH_IP] = lambda frame: sink(frame) if wire.unpack(frame[None])[0][0]["seq"] != 1 else []
    sources = random_arrays(2, 100, 1)
    job.post([Post(Collective.PUSH_PULL, s, np.zeros_like(s)) for s in sources])
    job.network.run()
    for index in job.workers:
        status = job.endpoints.status(index)
        assert status.state is EndpointState.FAILED
        assert status.failed_seq == 1
        assert status.error is not None
        assert "no RESULT for seq 1 after 5 retries" in status.error
        assert "PUSH_PULL had 3 of 25 chunks answered" in status.error
        assert deadline(job.endpoints.records, index) == NEVER
        with pytest.raises(RuntimeError, match="failed"):
            job.endpoints.post(index, Post(Collective.BARRIER))
    # 10 + 20 + 40 + 40 + 40 + 40 us after the last answer.
    assert 190 * PS_PER_US <= job.network.now < 260 * PS_PER_US


def test_in_silence_questions_become_rarer() -> None:
    timing = Timing(initial_ps=4 * PS_PER_US, min_ps=4 * PS_PER_US, max_ps=5 * PS_PER_US, retries=40)
    job = Job(1, timing=timing)
    out = np.zeros(100, np.uint8)
    job.post([Post(Collective.BARRIER)])
    records = job.endpoints.records
    assert transmit(records, 0, 0, out)
    waits = []
    now = 0
    for _ in range(25):
        asked = now
        while not transmit(records, 0, now, out):
            now = int(deadline(records, 0))
            expire(records, 0, now)
        waits.append(now - asked)
        assert out[wire.offset(wire.INC, "version")] & 15 == wire.PacketType.ASK
    assert waits == [us * PS_PER_US for us in (4, *[2] * 14, *[4] * 8, 5, 5)]


def test_a_straggler_is_waited_for() -> None:
    job = Job(3, slots=16)
    sources = random_arrays(3, 200, 1)
    targets = [np.zeros_like(source) for source in sources]
    operations = [Post(Collective.ALL_REDUCE, s, t) for s, t in zip(sources, targets, strict=True)]
    job.endpoints.post(0, operations[0])
    job.endpoints.post(1, operations[1])
    job.network.run(until=20 * PS_PER_MS)
    assert job.endpoints.status(0).state is EndpointState.ACTIVE
    resends = job.endpoints.status(0).resends
    assert 0 < resends < 70
    job.endpoints.post(2, operations[2])
    job.network.run()
    same_bytes(targets, quantized_sum(sources, job.lanes, job.numbers))
    # The silence was no loss: an ASK for the oldest chunk instead of the window, and no resend.
    assert job.endpoints.status(0).resends < resends + 3
    assert job.endpoints.status(0).resends == int(job.endpoints.records[0]["asks"])


def test_saturation_is_flagged_counted_and_never_silent() -> None:
    job = Job(2, numbers=FixedScale(2.0**20))
    job.network.tap = tap = Tap()
    sources = [np.full(8, 3000.0, np.float32), np.full(8, 1.0, np.float32)]
    job.all_reduce(sources)
    flagged = [header for header in tap.headers(to=SWITCH_IP) if header["saturated"]]
    assert {int(header["ipv4_src"]) for header in flagged} == {job.hosts[0].ip}
    assert all(job.endpoints.status(index).saturated >= 2 for index in job.workers)


def test_ring_of_late_neighbours_holds_early_frames() -> None:
    network = make_ring(3, window=8, ack_every=1)
    sources = random_arrays(3, 60, 1)
    targets = [source.copy() for source in sources]
    for rank in (0, 1):
        network.endpoints.post(rank, Post(Collective.ALL_REDUCE, targets[rank], targets[rank]))
    network.run(until=400 * PS_PER_US)
    network.endpoints.post(2, Post(Collective.ALL_REDUCE, targets[2], targets[2]))
    network.run(lingering=True)
    assert targets[0].tobytes() == targets[1].tobytes() == targets[2].tobytes()
    assert [network.endpoints.status(rank).resends for rank in range(3)] == [0, 0, 0]


def test_ring_gives_up_when_a_neighbour_is_gone() -> None:
    network = make_ring(2)
    array = np.ones(100, np.float32)
    network.endpoints.post(0, Post(Collective.ALL_REDUCE, array, array))
    network.faults = Faults(loss=1.0)
    network.run()
    status = network.endpoints.status(0)
    assert status.state is EndpointState.FAILED
    assert status.error is not None
    assert "no acknowledgement for seq 0" in status.error


@pytest.mark.parametrize("seed", [0, 1])
def test_losses_do_not_drive_up_the_round_trip_that_a_ring_measures(seed: int) -> None:
    network = make_ring(4, window=32, ack_every=4, faults=Faults(loss=0.15, seed=seed))
    arrays = random_arrays(4, 3000, 1)
    for rank in range(4):
        network.endpoints.post(rank, Post(Collective.ALL_REDUCE, arrays[rank], arrays[rank]))
    network.run()
    for rank in range(4):
        status = network.endpoints.status(rank)
        assert status.state is EndpointState.DONE
        assert 0 < status.rtt_ps < 2 * status.rtt_min_ps
