"""Queues of all packets: by job, type and iteration, by age of the batch, and for plain IPv4 by code point."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p4switch.device import Device
from p4switch.tables import TableEntry, Ternary
from p4switch.traffic import ExecutorName
from tests.support import classes
from tests.support.classes import Newest, inc_frame, plain_frame, queue_of
from tests.support.effort import examples
from tests.support.executors.twins import load
from tests.support.golden.frames import Kind

EXECUTORS: tuple[ExecutorName, ...] = ("compiled", "interpreted")
ITERATIONS = st.one_of(
    st.integers(0, 8), st.integers(2**31 - 3, 2**31 + 3), st.integers(2**32 - 4, 2**32 - 1), st.integers(0, 2**32 - 1)
)


def device(executor: ExecutorName = "compiled") -> Device:
    made = Device(load("p4src/compiled/p4reduce-64.json"), name="s", executor=executor)
    classes.forward(made)
    return made


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """Compile outside of the examples."""
    queue_of(device(), plain_frame(0))


@settings(max_examples=examples(25, 60), deadline=None)
@given(
    st.integers(0, 7).flatmap(lambda base: st.tuples(st.just(base), st.integers(0, 7 - base))),
    st.lists(st.tuples(st.integers(0, 2), ITERATIONS), min_size=1, max_size=25),
)
def test_the_older_the_batch_the_higher_the_class(base_and_most, packets):
    """Jobs 0 and 1 form a group; job 2 is a later generation in the same cell."""
    base, most = base_and_most
    for executor in EXECUTORS:
        switch, golden = device(executor), Newest()
        for job, generation in ((0, 4), (1, 4), (2, 5)):
            classes.classify(switch, job, "by_lag", (3, generation, base, most))
        for job, iteration in packets:
            expected = golden.priority(3, 4 + (job == 2), base, most, iteration)
            assert queue_of(switch, inc_frame(job, iteration)) == expected


def test_smaller_batch_first_and_pull_before_push():
    """The order 2 * batch + [push] of eight neighbours, by entries on type and iteration, for all pairs at one port."""
    switch = device()
    table = switch.tables["IncIngress.traffic_class"]
    order = [(batch, kind) for batch in range(4) for kind in (Kind.RESULT, Kind.PUSH)]
    for rank, (batch, kind) in enumerate(order):
        match = Ternary(1, 0xFFFF), Ternary(kind, 0xF), Ternary(batch, 3)
        table.insert(TableEntry(match, "IncIngress.prioritize", (7 - rank,), 1))
    queues = [queue_of(switch, inc_frame(1, batch, kind)) for batch, kind in order]
    assert queues == list(range(7, -1, -1))
    assert [queue_of(switch, inc_frame(1, 4 + batch, kind)) for batch, kind in order] == queues


@pytest.mark.parametrize("kind", [Kind.PUSH, Kind.PULL, Kind.RESULT])
def test_resends_and_replies_are_of_the_class_of_their_job(kind):
    switch = device()
    classes.classify(switch, 9, "prioritize", (5,))
    for resend in (False, True):
        assert queue_of(switch, inc_frame(9, 0, kind, resend=resend)) == 5
    assert queue_of(switch, inc_frame(8, 0, kind)) == 0


@given(st.dictionaries(st.integers(0, 63), st.integers(0, 7), max_size=6), st.integers(0, 63))
@settings(max_examples=examples(25, 60), deadline=None)
def test_plain_ipv4_by_its_code_point(known, point):
    switch = device()
    for code, priority in known.items():
        classes.classify_code_point(switch, code, priority)
    classes.classify(switch, 1, "prioritize", (6,))
    assert queue_of(switch, plain_frame(point)) == known.get(point, 0)
    # INC packets are classified by their header, whatever their code point.
    assert queue_of(switch, inc_frame(1, 0, dscp=point)) == 6
    assert queue_of(switch, inc_frame(2, 0, dscp=point)) == 0
