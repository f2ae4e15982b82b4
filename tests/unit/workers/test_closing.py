"""ASKs of a worker whose switches close chunks by a deadline: for all open chunks, without a WAIT."""

import numpy as np
import pytest

from p4reduce.workers import wire
from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.kernels.endpoint import deadline, expire, transmit
from p4reduce.workers.numbers import FixedScale, Partial
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4reduce.workers.specs import CLOSED, Congestion, Timing, WorkerSpec
from p4switch.base.values import PS_PER_US
from tests.support.loopback.network import host, switch

LANES, WINDOW, IN_FLIGHT = 4, 32, 4
DEADLINE_PS = 400 * PS_PER_US
TIMING = Timing(initial_ps=40 * PS_PER_US, min_ps=40 * PS_PER_US, max_ps=40 * PS_PER_US, retries=1000)


def sent_in_silence(until_ps: int, *, repeats: bool, levels: int = 1, deadline_ps: int | None = DEADLINE_PS):
    """Return (time, seq, type, late) of all frames that a worker sends without answers."""
    endpoints, out, now, seen = Endpoints(), np.zeros(2048, np.uint8), 0, []
    index = endpoints.add(
        WorkerSpec(
            host(0), switch(), job=1, epoch=1, lanes=LANES, slots=CLOSED * WINDOW, members=2, numbers=FixedScale(1.0),
            deadline_ps=deadline_ps, levels=levels, repeats=repeats, timing=TIMING,
            congestion=Congestion(adaptive=True, initial=IN_FLIGHT),
        )
    )  # fmt: skip
    array = np.ones(LANES * WINDOW, np.float32)
    partial = None if deadline_ps is None else Partial.of(len(array), LANES)
    endpoints.post(index, Post(Collective.ALL_REDUCE, array, array.copy(), partial=partial))
    while now <= until_ps:
        while length := transmit(endpoints.records, index, now, out):
            (header,), _ = wire.unpack(out[None, :length])
            seen.append((now, int(header["seq"]), wire.PacketType(int(header["type"])), bool(header["late"])))
        now = int(deadline(endpoints.records, index))
        expire(endpoints.records, index, now)
    return seen


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("levels", [1, 2])
def test_all_is_open_before_the_deadline_and_asked_for_after_it_though_nobody_answers(repeats, levels):
    seen = sent_in_silence(4 * DEADLINE_PS, repeats=repeats, levels=levels)
    first = {seq: at for at, seq, _, late in reversed(seen) if not late}
    assert set(first) == set(range(WINDOW))
    assert max(first.values()) < DEADLINE_PS
    asked = {seq: [at - first[seq] for at, which, _, late in seen if which == seq and late] for seq in first}
    for seq, ages in asked.items():
        for level in range(1, levels + 1):
            due = DEADLINE_PS * level // levels
            assert any(due < age < due + 4 * TIMING.min_ps for age in ages), (seq, ages)
    kinds = {kind for _, _, kind, late in seen if late}
    assert kinds == {wire.PacketType.PUSH if repeats else wire.PacketType.ASK}


def test_a_chunk_that_is_never_closed_is_not_asked_for_for_ever():
    seen = sent_in_silence(40 * DEADLINE_PS, repeats=False)
    later = {seq for at, seq, _, _ in seen if at > 4 * DEADLINE_PS}
    assert later == {0}, "from then on the oldest alone"


def test_without_a_deadline_only_the_oldest_is_asked_for():
    seen = sent_in_silence(40 * DEADLINE_PS, repeats=False, deadline_ps=None)
    assert {seq for _, seq, kind, _ in seen if kind is wire.PacketType.ASK} == {0}
    assert {seq for _, seq, _, _ in seen} == set(range(IN_FLIGHT))
