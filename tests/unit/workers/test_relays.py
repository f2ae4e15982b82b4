"""Workers that aggregate for others: lossless traffic, and refusals."""

import numpy as np
import pytest

from p4reduce.workers import wire
from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.kernels.endpoint import receive, transmit
from p4reduce.workers.numbers import BlockFloat
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointKind
from p4reduce.workers.specs import HostAddress, WorkerSpec
from tests.support.loopback.golden import quantized_sum
from tests.support.loopback.jobs import random_arrays, same_bytes
from tests.support.loopback.network import Faults, Frame, host
from tests.support.loopback.relays import RelayJob

CHAIN = (0, 1, 1, 0)
"""parents of ranks 1 to 4: 0 has the children 1 and 4, 1 has 2 and 3"""


def spec(rank: int, parent: int, children: tuple[HostAddress, ...], **more: object) -> WorkerSpec:
    return WorkerSpec(
        host(rank),
        host(parent),
        job=1,
        epoch=1,
        lanes=4,
        slots=8,
        members=3,
        numbers=BlockFloat(),
        children=children,
        **more,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("length", [1, 4, 5, 63, 640])
def test_each_edge_carries_every_chunk_once_each_way(length: int) -> None:
    job = RelayJob(CHAIN)
    carried: dict[tuple[int, int], list[Frame]] = {}

    def tap(frame: Frame) -> None:
        ends = (int(frame[29]) - 1, int(frame[33]) - 1)
        carried.setdefault(ends, []).append(frame)

    job.network.tap = tap
    sources = random_arrays(5, length, 1)
    same_bytes(job.all_reduce(sources), quantized_sum(sources, 4, BlockFloat()))
    chunks = -(-length // 4)
    edges = {(1, 0), (2, 1), (3, 1), (4, 0)}
    assert set(carried) == edges | {(b, a) for a, b in edges}
    for frames in carried.values():
        assert sum(len(frame) == wire.frame_bytes(4) for frame in frames) == chunks
        assert len(frames) == chunks + min(chunks, 4), "and the lead without lanes"
    for index in job.workers:
        status = job.endpoints.status(index)
        assert (status.resends, status.asks, sum(status.refused.values())) == (0, 0, 0)
    sent = sum(job.endpoints.status(index).frames_sent for index in job.workers)
    assert sent == sum(map(len, carried.values())), "frames that a relay hands to itself are not counted"


def test_the_sum_says_how_many_are_in_it() -> None:
    job = RelayJob(CHAIN)
    seen: list[tuple[int, int]] = []
    job.network.tap = lambda frame: seen.append((int(frame[29]) - 1, int(frame[wire.COUNT + 1])))
    job.all_reduce(random_arrays(5, 8, 1))
    assert set(seen) == {(1, 3), (2, 1), (3, 1), (4, 1), (0, 5), (1, 5)}


def test_what_is_not_finite_reaches_all() -> None:
    sources = random_arrays(5, 12, 2)
    sources[3][5] = np.inf
    results = RelayJob(CHAIN).all_reduce(sources, poison=True)
    for result in results:
        assert np.isnan(result[4:8]).all()
        assert np.isfinite(result[:4]).all()


def test_words_beyond_int32_are_told_to_all() -> None:
    job = RelayJob(CHAIN)
    sources = [np.full(4, 2**30, np.int32).view(np.float32) for _ in range(5)]
    results = job.all_reduce(sources, words=True)
    same_bytes(results, np.full(4, 2**31 - 1, np.int32).view(np.float32))
    assert all(job.endpoints.status(index).saturated == 1 for index in job.workers)


@pytest.mark.parametrize("loss", [0.01, 0.05])
def test_a_deep_chain_ends_under_losses(loss: float) -> None:
    job = RelayJob(range(9), slots=32, faults=Faults(loss=loss, seed=7))
    sources = random_arrays(10, 2000, 3)
    same_bytes(job.all_reduce(sources), quantized_sum(sources, 4, BlockFloat()))
    assert job.network.lost > 0


def test_who_is_late_is_waited_for_and_named() -> None:
    """Children and parent of a relay that has not called yet: its slots keep contributions, and all are told of it."""
    job = RelayJob(CHAIN)
    sources = random_arrays(5, 40, 4)
    targets = [np.zeros_like(source) for source in sources]
    posts = [Post(Collective.ALL_REDUCE, a, b) for a, b in zip(sources, targets, strict=True)]
    for rank in (0, 2, 3, 4):
        job.endpoints.post(job.workers[rank], posts[rank])
    job.network.run(until=20_000_000_000)
    waiting = job.endpoints.status(job.workers[2]).waiting
    assert waiting is not None
    assert (waiting.level, waiting.awaited) == (1, 1), "the relay itself"
    waiting = job.endpoints.status(job.workers[0]).waiting
    assert waiting is not None
    assert (waiting.level, waiting.awaited) == (0, 2), "its first child"
    job.endpoints.post(job.workers[1], posts[1])
    job.run()
    same_bytes(targets, quantized_sum(sources, 4, BlockFloat()))


def test_what_cannot_be_a_relay() -> None:
    endpoints = Endpoints()
    index = endpoints.add(spec(0, 0, (host(1), host(2))))
    assert endpoints.status(index).kind is EndpointKind.RELAY
    with pytest.raises(ValueError, match="a relay endpoint cannot do PULL"):
        endpoints.post(index, Post(Collective.PULL, None, np.zeros(4, np.float32)))
    with pytest.raises(ValueError, match="two of them have the same"):
        endpoints.add(spec(3, 1, (host(2), host(2))))
    with pytest.raises(ValueError, match="children: none with deadline_ps"):
        spec(3, 1, (host(2),), deadline_ps=1000)
    with pytest.raises(ValueError, match="at most 31"):
        spec(3, 1, tuple(host(rank) for rank in range(4, 36)))
    with pytest.raises(ValueError, match="only a root with children"):
        spec(3, 3, ())


def test_a_result_that_may_be_on_its_way_is_not_repeated() -> None:
    """A child that asks early is told that the RESULT has left; one with a later RESULT gets it once more."""
    job = RelayJob((0,), slots=8)
    same_bytes(job.all_reduce(random_arrays(2, 16, 5)), quantized_sum(random_arrays(2, 16, 5), 4, BlockFloat()))
    relay, root, child = job.workers[0], host(0), host(1)
    first = int(job.endpoints.records[relay]["end"]) - 4

    def answer(seq: int, count: int) -> tuple[int, int, int]:
        columns = {"type": wire.PacketType.ASK, "job": 1, "epoch": 1, "resend": 1, "seq": seq, "count": count & 0xFFFF}
        ends = {"ethernet_dst": root.mac, "ipv4_src": child.ip, "ipv4_dst": root.ip}
        frame = wire.pack(wire.headers(1, **ends, **columns))[0]
        out = np.zeros(200, np.uint8)
        assert receive(job.endpoints.records, relay, frame, len(frame), job.network.now) == 1
        length = transmit(job.endpoints.records, relay, job.network.now, out)
        assert length
        got = wire.unpack(out[None, :length])[0][0]
        return int(got["type"]), int(got["seq"]), int(got["count"])

    sent = (wire.PacketType.ASK, first + 1, wire.RESULT_SENT)
    result = (wire.PacketType.RESULT, first + 1, 2)
    assert answer(first + 1, -1) == sent, "the one before it came last"
    assert answer(first + 1, 1 << 15) == sent, "it asks again by time"
    assert answer(first + 1, 1) == result, "a later one has come"
    assert answer(first + 1, 0) == result, "it insists"
    assert answer(first + 1, 40) == sent, "what it names is in no slot"
