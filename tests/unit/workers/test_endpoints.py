"""The Python interface of endpoints: refusals and representations."""

from typing import Any

import numpy as np
import pytest

from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.kernels import endpoint
from p4reduce.workers.numbers import BlockFloat, FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import NEVER, Collective, EndpointKind, EndpointState
from p4reduce.workers.specs import HostAddress, PsServerSpec, RingSpec, Timing, WorkerSpec
from tests.support.loopback.jobs import Job, make_ring, random_arrays
from tests.support.loopback.network import host, switch

ONES = np.ones(10, np.float32)


def add_worker(endpoints: Endpoints, **changes: Any) -> int:
    arguments: dict[str, Any] = {
        "job": 1,
        "epoch": 1,
        "lanes": 4,
        "slots": 8,
        "members": 2,
        "numbers": BlockFloat(),
    }
    return endpoints.add(WorkerSpec(host(len(endpoints)), switch(), **(arguments | changes)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slots": 6}, "slots: 6, must be a power of two"),
        ({"slots": 1}, "slots: 1"),
        ({"lanes": 0}, "lanes: 0"),
        ({"lanes": 100_000}, "lanes: 100000"),
        ({"members": 0}, "members: 0"),
        ({"lead": 0}, r"lead: 0, must be 1\.\.4"),
        ({"lead": 5}, r"lead: 5, must be 1\.\.4"),
        ({"job": 65536}, "job: 65536"),
        ({"epoch": -1}, "epoch: -1"),
        ({"first_seq": 2**32}, "first_seq"),
    ],
)
def test_impossible_workers_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        add_worker(Endpoints(), **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rank": 3}, r"rank: 3, must be 0\.\.2"),
        ({"ack_every": 8}, "ack_every: 8"),
        ({"window": 40_000}, "window: 40000"),
    ],
)
def test_impossible_rings_are_refused(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"job": 1, "epoch": 1, "lanes": 4, "rank": 0, "size": 3, "window": 8, "ack_every": 2}
    with pytest.raises(ValueError, match=message):
        Endpoints().add(RingSpec(host(0), host(1), host(2), **(arguments | changes)))


def test_two_members_with_one_address_are_refused() -> None:
    with pytest.raises(ValueError, match="same IPv4 address"):
        Endpoints().add(PsServerSpec(host(3), (host(1), host(1)), job=1, epoch=1, lanes=4, window=4))


@pytest.mark.parametrize(
    ("operation", "error", "message"),
    [
        (Post(Collective.ALL_REDUCE, ONES.astype(np.float64), ONES), TypeError, "source: .* float64"),
        (Post(Collective.ALL_REDUCE, [1.0], ONES), TypeError, "source: .* list"),  # type: ignore[arg-type]
        (Post(Collective.ALL_REDUCE, ONES.reshape(2, 5), ONES), ValueError, "source: must be one-dimensional"),
        (Post(Collective.ALL_REDUCE, np.ones(20, np.float32)[::2], ONES), ValueError, "C-contiguous"),
        (Post(Collective.ALL_REDUCE, ONES), ValueError, "target: ALL_REDUCE at a worker endpoint needs one"),
        (Post(Collective.ALL_REDUCE, ONES, np.ones(9, np.float32)), ValueError, "10 elements, target 9"),
        (Post(Collective.PUSH, ONES[:0]), ValueError, "source: is empty"),
        (Post(Collective.PUSH, ONES, ONES), ValueError, "target: PUSH at a worker endpoint takes none"),
        (Post(Collective.PUSH, ONES, iteration=2**32), ValueError, "iteration"),
        (Post(Collective.PUSH, np.array([1, 2, np.nan], np.float32)), ValueError, "element 2 is nan"),
    ],
)
def test_operations_that_do_not_fit_are_refused(operation: Post, error: type[Exception], message: str) -> None:
    endpoints = Endpoints()
    index = add_worker(endpoints)
    with pytest.raises(error, match=message):
        endpoints.post(index, operation)
    assert endpoints.status(index).state is EndpointState.IDLE


def test_overlapping_and_read_only_arrays_are_refused() -> None:
    endpoints = Endpoints()
    index = add_worker(endpoints)
    memory = np.ones(20, np.float32)
    with pytest.raises(ValueError, match="overlap"):
        endpoints.post(index, Post(Collective.ALL_REDUCE, memory[:10], memory[5:15]))
    frozen = ONES.copy()
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="target: is read-only"):
        endpoints.post(index, Post(Collective.PULL, target=frozen))


def test_a_server_in_the_network_and_a_ring_cannot_do_everything() -> None:
    job = Job(2, server=True)
    with pytest.raises(ValueError, match="turned round by the root switch"):
        job.endpoints.post(job.ps, Post(Collective.ALL_REDUCE, target=ONES.copy()))
    with pytest.raises(ValueError, match="a ring endpoint cannot do PUSH"):
        make_ring(2).endpoints.post(0, Post(Collective.PUSH, ONES))
    with pytest.raises(ValueError, match="a ring has no epochs"):
        make_ring(2).endpoints.change_epoch(0, 2, 0)


def test_one_operation_at_a_time() -> None:
    endpoints = Endpoints()
    index = add_worker(endpoints)
    endpoints.post(index, Post(Collective.PUSH, ONES))
    with pytest.raises(RuntimeError, match="under way"):
        endpoints.post(index, Post(Collective.PUSH, ONES))


def test_addresses_and_timing_are_checked() -> None:
    with pytest.raises(ValueError, match="mac: 0x1000000000000 does not fit 48 bits"):
        HostAddress(1 << 48, 0)
    with pytest.raises(ValueError, match="udp"):
        HostAddress(0, 0, 65536)
    assert str(HostAddress(0, 0x0A000001)) == "10.0.0.1:9400"
    with pytest.raises(ValueError, match="time-outs"):
        Timing(min_ps=2, max_ps=1)
    with pytest.raises(ValueError, match="reorder: 0"):
        Timing(reorder=0)


def test_status_counts_frames_bytes_and_round_trips() -> None:
    job = Job(3, lanes=4, slots=8, numbers=FixedScale(2.0**10))
    job.all_reduce(random_arrays(3, 41, seed=1))
    status = job.endpoints.status(job.workers[0])
    assert status.kind is EndpointKind.WORKER
    assert status.state is EndpointState.DONE
    assert not status.lingering
    assert status.frames_sent == status.frames_received == 11
    assert status.bytes_sent == 11 * (62 + 16)
    assert (status.resends, status.resend_bytes, status.spurious, status.saturated) == (0, 0, 0, 0)
    assert status.done_at_ps == job.network.now
    assert 0 < status.rtt_min_ps <= status.rtt_ps < job.network.now
    assert status.rtt_samples > 1
    assert not any(status.refused.values())
    assert status.error is None
    assert status.failed_seq is None


def test_arrays_stay_alive_while_they_are_used() -> None:
    job = Job(1)
    target = np.zeros(1000, np.float32)
    job.post([Post(Collective.ALL_REDUCE, np.full(1000, 3.0, np.float32), target)])
    filler = [np.full(1000, 7.0, np.float32) for _ in range(50)]
    job.network.run()
    assert (target == 3.0).all()
    assert len(filler) == 50


def test_a_ring_that_is_retired_while_frames_are_lost_sends_nothing_more() -> None:
    """Its memory is freed, so anything it sent would be garbage."""
    endpoints, array = Endpoints(), np.ones(64, np.float32)
    spec = RingSpec(host(0), host(1), host(2), job=1, epoch=0, lanes=4, rank=0, size=3, window=8, ack_every=4)
    index = endpoints.add(spec)
    endpoints.post(index, Post(Collective.ALL_REDUCE, array, array))
    out = np.zeros(62 + 16, np.uint8)
    assert endpoint.transmit(endpoints.records, index, 0, out) > 0
    endpoint.expire(endpoints.records, index, int(endpoint.deadline(endpoints.records, index)))
    assert endpoints.records[index]["lost"] > 0
    endpoints.give_up(index)
    endpoints.retire(index, spec.link)
    assert endpoint.transmit(endpoints.records, index, 10**12, out) == 0
    assert endpoint.deadline(endpoints.records, index) == NEVER


def crew() -> tuple[Endpoints, list[int]]:
    """Return endpoints of many kinds, some of which guess exponents."""
    endpoints = Endpoints()
    made = [add_worker(endpoints, guesses=guesses, members=members) for guesses, members in ((0, 2), (2, 2), (0, 1))]
    made.append(add_worker(endpoints, numbers=FixedScale(4.0)))
    ring = RingSpec(host(len(endpoints)), host(90), host(91), job=2, epoch=1, rank=0, size=3, lanes=4, window=32)
    made.append(endpoints.add(ring))
    return endpoints, made


def test_posting_to_many_is_posting_to_each() -> None:
    together, made = crew()
    apart, _ = crew()
    source = np.random.default_rng(1).standard_normal(33).astype(np.float32)
    kept = [np.zeros(33, np.float32) for _ in made]
    posts = [Post(Collective.ALL_REDUCE, source, target, iteration=place) for place, target in enumerate(kept)]
    together.post_all(made, posts)
    for index, operation in zip(made, posts, strict=True):
        apart.post(index, operation)
    addresses = ("templates", "senders", "ranks", "entries", "payloads", "exponents", "truths", "ask_queue", "late")
    addresses += ("again_queue", "skipped", "cells", "held")
    names = [name for name in together.records.dtype.names or () if name not in addresses]
    for name in names:
        assert together.records[name].tolist() == apart.records[name].tolist(), name


def test_where_one_of_many_does_not_fit_none_has_begun() -> None:
    endpoints, made = crew()
    good, before = Post(Collective.ALL_REDUCE, ONES, np.zeros(10, np.float32)), endpoints.records.copy()
    for bad, error, message in (
        (Post(Collective.ALL_REDUCE, ONES, np.zeros(9, np.float32)), ValueError, "source has 10"),
        (Post(Collective.ALL_REDUCE, np.full(10, np.nan, np.float32), np.zeros(10, np.float32)), ValueError, "nan"),
    ):
        with pytest.raises(error, match=message):
            endpoints.post_all(made, [good] * (len(made) - 2) + [bad, good])
    with pytest.raises(RuntimeError, match=f"endpoint {made[0]}: the operation before is under way"):
        endpoints.post_all([made[0], made[0]], [good, good])
    for name in before.dtype.names or ():
        assert endpoints.records[name].tolist() == before[name].tolist(), name
    endpoints.post_all([], [])


def test_a_target_that_has_become_read_only_is_refused_also_the_second_time() -> None:
    endpoints = Endpoints()
    first, second = add_worker(endpoints), add_worker(endpoints)
    target = np.zeros(10, np.float32)
    operation = Post(Collective.ALL_REDUCE, ONES, target)
    endpoints.post(first, operation)
    target.flags.writeable = False
    with pytest.raises(ValueError, match="target: is read-only"):
        endpoints.post(second, operation)
