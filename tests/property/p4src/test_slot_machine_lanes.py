"""Sums of int32 to the last bit: the P4 program adds 64 lanes at once, which must not be seen at their ends."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.golden.frames import Kind, Packet
from tests.support.golden.p4 import P4Backend
from tests.support.golden.switch import INT32_MAX, INT32_MIN
from tests.support.golden.tables import JobEntry, PeerEntry

IP, MAC = 0x0A800001, 0x02000A800001
CHILDREN = 4
EDGES = [INT32_MIN, INT32_MIN + 1, -(2**30), -(2**16), -2, -1, 0, 1, 2, 2**16, 2**30, INT32_MAX - 1, INT32_MAX]

lanes = st.sampled_from(EDGES) | st.integers(INT32_MIN, INT32_MAX)


def contributions(width: int) -> st.SearchStrategy[list[tuple[int, ...]]]:
    """One for each child. A short pattern, repeated, costs hypothesis less than as many lanes as there are."""
    row = st.lists(lanes, min_size=1, max_size=16).map(lambda some: tuple((some * width)[:width]))
    return st.lists(row, min_size=CHILDREN, max_size=CHILDREN)


def push(backend: P4Backend, rows: list[tuple[int, ...]]) -> None:
    """Compares the sum, its flag and the slot after every contribution."""
    switch = backend.switch(IP, MAC, 0xFF)
    switch.write(JobEntry(1, 1, 1, 0, 2, (1 << CHILDREN) - 1, 1, 0, None), insert=True)
    for child, row in enumerate(rows):
        switch.write(PeerEntry(child, child, 1, 1, 1 << child), insert=True)
        switch.receive(child, Packet(MAC, child, child, IP, 9400, 9400, Kind.PUSH, 1, 1, 0, row))
        switch.check()
    exact = [sum(column) for column in zip(*rows, strict=True)]
    slot = switch.golden.slots[0]
    assert slot.saturated or slot.lanes == tuple(exact)


@pytest.mark.parametrize(
    "backend",
    [P4Backend(64, "compiled"), P4Backend(256, "compiled"), P4Backend(64, "interpreted")],
    ids=lambda b: f"{b.executor}-{b.lanes}",
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_lanes_add_and_saturate_each_for_itself(backend, data):
    push(backend, data.draw(contributions(backend.lanes)))


@pytest.mark.parametrize("first", EDGES)
@pytest.mark.parametrize("backend", [P4Backend(64, "compiled"), P4Backend(64, "interpreted")], ids=lambda b: b.executor)
def test_every_pair_of_edges_in_neighbouring_lanes(backend, first):
    rows = [(first,) * 64, tuple((EDGES * 5)[:64]), (0,) * 64, tuple((EDGES[::-1] * 5)[:64])]
    push(backend, rows)
