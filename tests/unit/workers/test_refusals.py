"""Refused frames change nothing: each is counted under its reason, and the rest of the record is unchanged."""

from typing import Any

import numpy as np
import pytest

from p4reduce.workers import wire
from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.kernels.endpoint import receive, transmit
from p4reduce.workers.numbers import FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4reduce.workers.specs import WorkerSpec
from tests.support.loopback.jobs import make_ps, make_ring
from tests.support.loopback.network import host, switch

LANES = 4
COUNTERS = {"refused", "frames_received", "congested"}


def active_worker(**more: Any) -> tuple[Endpoints, np.ndarray]:
    """Return a worker with seqs 100..103 in flight, and its target."""
    endpoints = Endpoints()
    endpoints.add(
        WorkerSpec(
            host(0),
            switch(),
            job=5,
            epoch=2,
            lanes=LANES,
            slots=8,
            members=2,
            numbers=FixedScale(1.0),
            first_seq=100,
            **more,
        )
    )
    target = np.zeros(40, np.float32)
    endpoints.post(0, Post(Collective.ALL_REDUCE, np.ones(40, np.float32), target))
    out = np.zeros(200, np.uint8)
    while transmit(endpoints.records, 0, 0, out):
        pass
    return endpoints, target


def result(content: np.ndarray | None = None, **changes: Any) -> np.ndarray:
    """Return a RESULT that the worker waits for, with changes."""
    columns: dict[str, Any] = {
        "ethernet_dst": host(0).mac,
        "ipv4_src": switch().ip,
        "ipv4_dst": host(0).ip,
        "type": wire.PacketType.RESULT,
        "job": 5,
        "epoch": 2,
        "seq": 100,
        "count": 2,
    }
    lanes = np.full((1, LANES), 2, np.int32) if content is None else content
    return wire.pack(wire.headers(1, **(columns | changes)), lanes if lanes.size else None)[0]


NO_LANES = np.zeros((1, 0), np.int32)


def patched(at: int, value: int, *, checksum: bool = True) -> np.ndarray:
    frame = result()
    frame[at] = value
    if checksum:
        frame[24:26] = wire.ipv4_checksums(frame[None]).astype(">u2").view(np.uint8)
    return frame


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (patched(22, 63, checksum=False), "checksum"),
        (result()[:-1], "malformed"),
        (result()[:61], "malformed"),
        (np.concatenate([result(), np.zeros(4, np.uint8)]), "malformed"),
        (result(np.zeros((1, LANES + 1), np.int32)), "malformed"),
        (result(version=2), "malformed"),
        (patched(20, 0x20), "malformed"),
        (patched(14, 0x46), "malformed"),
        (patched(39, 40), "malformed"),
        (result(job=6), "job"),
        (result(epoch=1), "epoch"),
        (result(epoch=3), "epoch"),
        (result(type=wire.PacketType.PUSH), "type"),
        (result(type=wire.PacketType.PULL), "type"),
        (result(type=7), "type"),
        (result(ipv4_src=switch().ip + 1), "peer"),
        (result(udp_src_port=9401), "peer"),
        (result(seq=104), "seq"),
        (result(seq=99), "duplicate"),
        (result(seq=60), "seq"),
        (result(seq=100 + 2**31), "seq"),
        (result(NO_LANES), "kind"),
    ],
)
def test_worker_ignores_and_counts(frame: np.ndarray, reason: str) -> None:
    endpoints, target = active_worker()
    before = endpoints.records.copy()
    assert receive(endpoints.records, 0, frame, len(frame), 1000) == 1
    refused = endpoints.status(0).refused
    assert {name for name, count in refused.items() if count} == {reason}
    assert not target.any()
    for name in set(before.dtype.names or ()) - COUNTERS:
        assert np.array_equal(before[name], endpoints.records[name]), name


def test_the_unchanged_frame_is_taken_and_its_repetition_is_a_duplicate() -> None:
    endpoints, target = active_worker()
    assert receive(endpoints.records, 0, result(), 62 + 4 * LANES, 1000) == 1
    assert target[:LANES].tolist() == [2.0] * LANES
    assert not target[LANES:].any()
    receive(endpoints.records, 0, result(), 62 + 4 * LANES, 1000)
    assert endpoints.status(0).refused["duplicate"] == 1


@pytest.mark.parametrize(
    "frame",
    [
        result(ipv4_dst=host(1).ip),
        result(udp_dst_port=9401),
        result(ethernet_dst=host(1).mac),
        result(ethernet_ether_type=0x86DD),
        result(ipv4_protocol=6),
        result()[:30],
    ],
)
def test_frames_for_somebody_else_are_left_alone(frame: np.ndarray) -> None:
    endpoints, _ = active_worker()
    before = endpoints.records.copy()
    assert receive(endpoints.records, 0, frame, len(frame), 1000) == 0
    assert np.array_equal(before, endpoints.records)


def test_two_jobs_on_one_host_leave_each_other_their_frames() -> None:
    endpoints, _ = active_worker()
    other = endpoints.add(
        WorkerSpec(
            host(0), switch(), job=6, epoch=2, lanes=LANES, slots=8, members=2, numbers=FixedScale(1.0), first_seq=100
        )
    )
    frame = result(job=6)
    assert receive(endpoints.records, 0, frame, len(frame), 1000) == 0
    assert receive(endpoints.records, other, frame, len(frame), 1000) == 1
    assert not any(endpoints.status(0).refused.values())


def test_congestion_and_saturation_are_counted() -> None:
    endpoints, _ = active_worker()
    receive(endpoints.records, 0, result(ipv4_ecn=wire.ECN_CONGESTED), 62 + 4 * LANES, 1000)
    receive(endpoints.records, 0, result(seq=101, ecn_echo=1, saturated=1), 62 + 4 * LANES, 1000)
    status = endpoints.status(0)
    assert (status.congested, status.saturated) == (2, 1)


def push(**changes: Any) -> np.ndarray:
    columns: dict[str, Any] = {
        "ethernet_dst": host(2).mac,
        "ipv4_src": host(0).ip,
        "ipv4_dst": host(2).ip,
        "job": 1,
        "epoch": 1,
        "seq": 0,
        "count": 1,
    }
    return wire.pack(wire.headers(1, **(columns | changes)), np.zeros((1, LANES), np.int32))[0]


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (push(ipv4_src=host(7).ip), "peer"),
        (push(type=wire.PacketType.RESULT), "type"),
        (push(type=wire.PacketType.PULL), "kind"),
        (push(seq=200), "not_posted"),
        (push(seq=20), "seq"),
        (push(seq=2**32 - 1), "seq"),
    ],
)
def test_server_ignores_and_counts(frame: np.ndarray, reason: str) -> None:
    network = make_ps(2, lanes=LANES, window=4)
    network.endpoints.post(2, Post(Collective.ALL_REDUCE, target=np.zeros(400, np.float32)))
    assert receive(network.endpoints.records, 2, frame, len(frame), 1000) == 1
    assert {name for name, count in network.endpoints.status(2).refused.items() if count} == {reason}
    assert transmit(network.endpoints.records, 2, 1000, np.zeros(200, np.uint8)) == 0


def test_ring_takes_data_from_the_previous_and_answers_from_the_next_only() -> None:
    network = make_ring(3, lanes=LANES)
    array = np.zeros(40, np.float32)
    network.endpoints.post(2, Post(Collective.ALL_REDUCE, array, array))
    wrong = [
        (push(ipv4_src=host(0).ip), "peer"),  # data from the next rank
        (push(ipv4_src=host(1).ip, type=wire.PacketType.RESULT), "peer"),
        (push(ipv4_src=host(1).ip, type=wire.PacketType.PULL), "type"),
        (push(ipv4_src=host(1).ip, seq=500), "seq"),
        (push(ipv4_src=host(0).ip, type=wire.PacketType.RESULT), "kind"),
    ]
    for frame, reason in wrong:
        before = network.endpoints.status(2).refused[reason]
        assert receive(network.endpoints.records, 2, frame, len(frame), 1000) == 1
        assert network.endpoints.status(2).refused[reason] == before + 1
    assert not array.any()


def test_random_bytes_change_nothing() -> None:
    rng = np.random.default_rng(11)
    endpoints, target = active_worker()
    before = endpoints.records.copy()
    # EtherType to UDP length, job and epoch: every bit is covered by a checksum or compared.
    checked = [*range(12, 40), *range(44, 48)]
    for _ in range(2000):
        frame = result()
        length = int(rng.integers(0, len(frame)))
        for at in rng.choice(checked, 3, replace=False):
            frame[at] ^= rng.integers(1, 256)
        receive(endpoints.records, 0, frame, length if rng.random() < 0.5 else len(frame), 1000)
    assert not target.any()
    for name in set(before.dtype.names or ()) - COUNTERS:
        assert np.array_equal(before[name], endpoints.records[name]), name
