"""Tokens of endpoints: frames show the peer's token, and frames without it are refused, however right otherwise."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p4reduce.workers import wire
from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.kernels.endpoint import deadline, expire, receive, transmit
from p4reduce.workers.kernels.ring import SELECTIVE
from p4reduce.workers.numbers import FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState
from p4reduce.workers.specs import AllToAllSpec, HostAddress, PsServerSpec, PsWorkerSpec, RingSpec, Timing, WorkerSpec
from p4switch.base.values import PS_PER_MS, PS_PER_US
from tests.support.loopback.jobs import several
from tests.support.loopback.network import Network, host, switch

LANES = 4
TOKEN = 0xABCDEF
COUNTERS = {"refused", "frames_received", "congested"}
WRONG = st.integers(0, 2**24 - 1).filter(lambda token: token != TOKEN)


def known(address: HostAddress, token: int = TOKEN) -> HostAddress:
    return replace(address, token=token)


def sent(endpoints: Endpoints, index: int = 0, now: int = 0) -> list[np.void]:
    """Return the headers of all frames that an endpoint has to send now."""
    out, found = np.zeros(200, np.uint8), []
    while length := transmit(endpoints.records, index, now, out):
        found.append(wire.unpack(out[None, :length].copy())[0][0])
    return found


def frame(source: HostAddress, target: HostAddress, lanes: bool = True, **columns: Any) -> np.ndarray:
    header = wire.headers(
        1, ethernet_dst=target.mac, ipv4_src=source.ip, ipv4_dst=target.ip, job=5, epoch=2, count=2, **columns
    )
    return wire.pack(header, np.full((1, LANES), 2, np.int32) if lanes else None)[0]


def take(endpoints: Endpoints, what: np.ndarray, index: int = 0, now: int = 1000) -> None:
    assert receive(endpoints.records, index, what, len(what), now) == 1


def refused(endpoints: Endpoints, index: int = 0) -> dict[str, int]:
    return {name: count for name, count in endpoints.status(index).refused.items() if count}


def unchanged(endpoints: Endpoints, before: np.ndarray) -> bool:
    names = set(before.dtype.names or ()) - COUNTERS
    return all(np.array_equal(before[name], endpoints.records[name]) for name in names)


def worker(timing: Timing = Timing()) -> tuple[Endpoints, np.ndarray]:
    """Return a worker with seqs 0..3 in flight, and its target."""
    endpoints = Endpoints()
    numbers, parent = FixedScale(1.0), known(switch())
    spec = WorkerSpec(host(0), parent, job=5, epoch=2, lanes=LANES, slots=8, members=2, numbers=numbers, timing=timing)
    endpoints.add(spec)
    target = np.zeros(40, np.float32)
    endpoints.post(0, Post(Collective.ALL_REDUCE, np.ones(40, np.float32), target))
    return endpoints, target


def test_a_worker_shows_its_token_in_contributions_and_questions() -> None:
    endpoints, _ = worker()
    assert [(int(one["type"]), int(one["token"])) for one in sent(endpoints)] == [(wire.PacketType.PUSH, TOKEN)] * 4
    now = int(deadline(endpoints.records, 0))
    expire(endpoints.records, 0, now)
    [asked] = sent(endpoints, now=now)
    assert (int(asked["type"]), int(asked["token"])) == (wire.PacketType.ASK, TOKEN)


@several
@given(WRONG, st.integers(0, 3), st.booleans(), st.booleans())
def test_a_worker_takes_no_result_without_its_token(token: int, seq: int, late: bool, resend: bool) -> None:
    endpoints, target = worker()
    sent(endpoints)
    before = endpoints.records.copy()
    fields = {"type": wire.PacketType.RESULT, "seq": seq, "late": late, "resend": resend}
    take(endpoints, frame(switch(), host(0), token=token, **fields))
    assert refused(endpoints) == {"token": 1}
    assert unchanged(endpoints, before)
    assert not target.any()
    take(endpoints, frame(switch(), host(0), token=TOKEN, **fields))
    assert refused(endpoints) == {"token": 1}
    assert target[seq * LANES : (seq + 1) * LANES].all()


def test_another_epoch_has_other_tokens() -> None:
    endpoints, target = worker()
    sent(endpoints)
    endpoints.change_peers(0, host(0), [known(switch(), 0x111111)])
    endpoints.change_epoch(0, 3, 0)
    assert {int(one["token"]) for one in sent(endpoints)} == {0x111111}
    for token, epoch in ((TOKEN, 2), (TOKEN, 3), (0x111111, 2)):
        stale = frame(switch(), host(0), type=wire.PacketType.RESULT, token=token)
        stale[wire.offset(wire.INC, "epoch") + 1] = epoch
        take(endpoints, stale)
    assert refused(endpoints) == {"epoch": 2, "token": 1}
    assert not target.any()


def test_forged_waits_do_not_keep_a_worker_silent() -> None:
    """Only a forger answers, with WAITs for every chunk: the worker sends ASKs, and gives up."""
    timing = Timing(initial_ps=PS_PER_MS, min_ps=100 * PS_PER_US, max_ps=2 * PS_PER_MS, retries=20)
    asked = {}
    for forged in (False, True):
        endpoints, _ = worker(timing)
        sent(endpoints)
        now, asked[forged] = 0, []
        while endpoints.status(0).state is EndpointState.ACTIVE:
            now += 50 * PS_PER_US
            assert now < 1000 * PS_PER_MS
            for seq in range(4 if forged else 0):
                wait = frame(switch(), host(0), False, type=wire.PacketType.ASK, seq=seq, exponent=255, token=seq)
                take(endpoints, wait, now=now)
            if int(deadline(endpoints.records, 0)) <= now:
                expire(endpoints.records, 0, now)
            asked[forged] += [now for one in sent(endpoints, now=now) if one["type"] == wire.PacketType.ASK]
        assert endpoints.status(0).failed_seq == 0
        asked[forged].append(now)
    gaps = np.diff([0, *asked[True]])
    assert gaps.max() <= timing.max_ps + timing.initial_ps
    assert len(asked[True]) > 20
    assert asked[True][-1] <= 2 * asked[False][-1]


def test_a_forged_question_is_answered_once_until_it_has_left() -> None:
    endpoints, _ = worker()
    sent(endpoints)
    for seq in (0, 2) * 50:
        ask = frame(switch(), host(0), False, type=wire.PacketType.ASK, seq=seq)
        ask[wire.offset(wire.INC, "count") + 1] = 0
        take(endpoints, ask)
    # The oldest leaves at once, others when there is room.
    assert [(int(one["seq"]), int(one["resend"])) for one in sent(endpoints)] == [(0, 1)]


def server(size: int = 3) -> tuple[Endpoints, list[np.ndarray]]:
    """Return a host-side server, endpoint ``size``, and its workers, each with a different token."""
    endpoints = Endpoints()
    common: dict[str, Any] = {"job": 5, "epoch": 2, "lanes": LANES, "window": 4}
    for rank in range(size):
        endpoints.add(PsWorkerSpec(host(rank), known(host(size), 1 + rank), members=size, **common))
    endpoints.add(PsServerSpec(host(size), tuple(known(host(rank), 1 + rank) for rank in range(size)), **common))
    targets = [np.full(10, rank, np.float32) for rank in range(size + 1)]
    for rank, target in enumerate(targets):
        endpoints.post(rank, Post(Collective.ALL_REDUCE, target if rank < size else None, target))
    return endpoints, targets


@several
@given(st.integers(0, 2**24 - 1), st.integers(0, 2), st.sampled_from(("PUSH", "PULL", "ASK")), st.booleans())
def test_a_server_takes_nothing_without_the_members_token(token: int, rank: int, kind: str, resend: bool) -> None:
    """No token, a guess, or another member's."""
    endpoints, _ = server()
    before = endpoints.records.copy()
    forged = frame(host(rank), host(3), kind == "PUSH", type=wire.PacketType[kind], seq=0, token=token, resend=resend)
    take(endpoints, forged, index=3)
    if token == 1 + rank:
        assert "token" not in refused(endpoints, 3)
    else:
        assert refused(endpoints, 3) == {"token": 1}
        assert unchanged(endpoints, before)
        assert sent(endpoints, 3) == []


def test_a_server_shows_each_member_its_own() -> None:
    endpoints, targets = server()
    shown: set[tuple[int, int, int]] = set()

    def tap(what: np.ndarray) -> None:
        header = wire.unpack(what[None])[0][0]
        shown.add((int(header["ipv4_src"]), int(header["ipv4_dst"]), int(header["token"])))

    Network(endpoints, tap=tap).run()
    assert {target.tobytes() for target in targets} == {np.full(10, 3, np.float32).tobytes()}
    up = {(host(rank).ip, host(3).ip, 1 + rank) for rank in range(3)}
    assert shown == up | {(target, source, token) for source, target, token in up}


def ring(size: int) -> Endpoints:
    """Return a ring whose neighbours share a token, the lower rank + 1; in a ring of two there is one token."""
    endpoints = Endpoints()
    tokens = [1 + (rank if size > 2 else 0) for rank in range(size)]
    for rank in range(size):
        after, before = known(host((rank + 1) % size), tokens[rank]), known(host((rank - 1) % size), tokens[rank - 1])
        endpoints.add(
            RingSpec(
                host(rank), after, before, job=5, epoch=2, lanes=LANES, rank=rank, size=size, window=8, ack_every=3
            )
        )
    return endpoints


@pytest.mark.parametrize("size", [2, 3])
def test_neighbours_in_a_ring_know_each_other(size: int) -> None:
    endpoints = ring(size)
    targets = [np.full(100, 1 + rank, np.float32) for rank in range(size)]
    for rank, target in enumerate(targets):
        endpoints.post(rank, Post(Collective.ALL_REDUCE, target, target))
    tokens = {0: 0}

    def tap(what: np.ndarray) -> None:
        header = wire.unpack(what[None])[0][0]
        tokens[int(header["token"])] = tokens.get(int(header["token"]), 0) + 1

    Network(endpoints, tap=tap).run()
    assert {target.tobytes() for target in targets} == {np.full(100, size * (size + 1) / 2, np.float32).tobytes()}
    assert tokens.pop(0) == 0
    assert set(tokens) == set(range(1, 1 + (size if size > 2 else 1)))


@several
@given(st.integers(0, 2**24 - 1), st.sampled_from((0, 1, SELECTIVE, SELECTIVE + 1, 65535)), st.booleans())
def test_a_ring_takes_neither_data_nor_answers_of_strangers(token: int, count: int, data: bool) -> None:
    endpoints = ring(3)
    target = np.zeros(100, np.float32)
    endpoints.post(0, Post(Collective.ALL_REDUCE, np.ones(100, np.float32), target))
    assert {int(one["token"]) for one in sent(endpoints)} == {1}
    before = endpoints.records.copy()
    # The next rank sends answers (token 1), the previous one data (token 3).
    source, right = (host(2), 3) if data else (host(1), 1)
    kind = wire.PacketType.PUSH if data else wire.PacketType.RESULT
    forged = frame(source, host(0), data, type=kind, seq=0, token=token, resend=1, iteration=0xFFFFFFFF, exponent=data)
    at = wire.offset(wire.INC, "count")
    forged[at : at + 2] = count >> 8, count & 255
    take(endpoints, forged)
    if token == right:
        assert "token" not in refused(endpoints)
    else:
        assert refused(endpoints) == {"token": 1}
        assert unchanged(endpoints, before)
        assert sent(endpoints) == []


def test_pairs_of_an_all_to_all_know_each_other() -> None:
    endpoints, size, block = Endpoints(), 4, 9
    for rank in range(size):
        others = [(rank + step) % size for step in range(1, size)]
        peers = tuple(known(host(other), 1 + (1 << rank | 1 << other)) for other in others)
        endpoints.add(AllToAllSpec(host(rank), peers, job=5, epoch=2, lanes=LANES, rank=rank, window=8, ack_every=3))
    sources = [np.arange(size * block, dtype=np.float32) + 100 * rank for rank in range(size)]
    targets = [np.zeros(size * block, np.float32) for _ in range(size)]
    for rank in range(size):
        endpoints.post(rank, Post(Collective.ALL_TO_ALL, sources[rank], targets[rank]))
    pairs: dict[tuple[int, int], set[int]] = {}

    def tap(what: np.ndarray) -> None:
        header = wire.unpack(what[None])[0][0]
        ends = sorted((int(header["ipv4_src"]) - host(0).ip, int(header["ipv4_dst"]) - host(0).ip))
        pairs.setdefault((ends[0], ends[1]), set()).add(int(header["token"]))

    Network(endpoints, tap=tap).run()
    for rank in range(size):
        expected = np.concatenate([source[rank * block : (rank + 1) * block] for source in sources])
        assert targets[rank].tobytes() == expected.tobytes()
    assert pairs == {(a, b): {1 + (1 << a | 1 << b)} for a in range(size) for b in range(a + 1, size)}
    forged = frame(host(1), host(0), type=wire.PacketType.PUSH, token=9)
    take(endpoints, forged)
    assert refused(endpoints)["token"] == 1


def test_tokens_are_not_printed_and_must_fit() -> None:
    spec = WorkerSpec(
        host(0), known(switch()), job=5, epoch=2, lanes=LANES, slots=8, members=2, numbers=FixedScale(1.0)
    )
    for said in (repr(spec), str(spec.parent), repr(spec.parent)):
        assert str(TOKEN) not in said
        assert f"{TOKEN:x}" not in said.lower()
    with pytest.raises(ValueError, match="token: does not fit 24 bits") as error:
        known(switch(), 1 << 24)
    assert str(1 << 24) not in str(error.value)
