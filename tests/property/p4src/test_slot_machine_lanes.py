"""Exact sums: the P4 program adds 64 lanes of 32 bits at once, or 128 of 16, without visible effects."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.effort import examples
from tests.support.golden.frames import Kind, Packet
from tests.support.golden.p4 import P4Backend
from tests.support.golden.reasons import Reason
from tests.support.golden.switch import INT32_MAX, INT32_MIN, lane_range
from tests.support.golden.tables import JobEntry, PeerEntry

IP, MAC = 0x0A800001, 0x02000A800001
CHILDREN = 4
EDGES = [INT32_MIN, INT32_MIN + 1, -(2**30), -(2**16), -2, -1, 0, 1, 2, 2**16, 2**30, INT32_MAX - 1, INT32_MAX]

WIDTHS = (0, 1, 2)


def edges(width: int) -> list[int]:
    """Draw numbers near the limits of lanes of this width."""
    least, most = lane_range(width)
    return sorted(
        {max(least, min(most, number)) for number in EDGES} | {least + 1, most - 1, least // 2, most // 2 + 1}
    )


def contributions(count: int, width: int) -> st.SearchStrategy[list[tuple[int, ...]]]:
    """Draw one contribution for each child: a short pattern, repeated, which is cheaper for hypothesis."""
    lanes = st.sampled_from(edges(width)) | st.integers(*lane_range(width))
    row = st.lists(lanes, min_size=1, max_size=16).map(lambda some: tuple((some * count)[:count]))
    return st.lists(row, min_size=CHILDREN, max_size=CHILDREN)


def push(backend: P4Backend, rows: list[tuple[int, ...]], width: int = 0) -> None:
    """Compare sum, flag and slot after every contribution."""
    switch = backend.switch(IP, MAC, 0xFF)
    switch.write(JobEntry(1, 1, 1, 0, 2, (1 << CHILDREN) - 1, 1, 0, None), insert=True)
    for child, row in enumerate(rows):
        switch.write(PeerEntry(child, child, 1, 1, 1 << child), insert=True)
        switch.receive(child, Packet(MAC, child, child, IP, 9400, 9400, Kind.PUSH, 1, 1, 0, row, width=width))
        switch.check()
    exact = [sum(column) for column in zip(*rows, strict=True)]
    slot = switch.golden.slots[0]
    assert slot.saturated or slot.lanes == tuple(exact)


@pytest.mark.parametrize(
    "backend",
    [P4Backend(64, "compiled"), P4Backend(256, "compiled"), P4Backend(64, "interpreted")],
    ids=lambda b: f"{b.executor}-{b.lanes}",
)
@settings(max_examples=examples(40, 100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_lanes_add_and_saturate_each_for_itself(backend, data):
    width = data.draw(st.sampled_from(WIDTHS))
    push(backend, data.draw(contributions(backend.lanes << width, width)), width)


@pytest.mark.parametrize(("width", "first"), [(width, first) for width in WIDTHS for first in edges(width)])
@pytest.mark.parametrize("backend", [P4Backend(64, "compiled"), P4Backend(64, "interpreted")], ids=lambda b: b.executor)
def test_every_pair_of_edges_in_neighbouring_lanes(backend, first, width):
    count, all_edges = 64 << width, edges(width)
    some = all_edges * count
    push(backend, [(first,) * count, tuple(some[:count]), (0,) * count, tuple(some[::-1][:count])], width)


@pytest.mark.parametrize("backend", [P4Backend(64, "compiled"), P4Backend(64, "interpreted")], ids=lambda b: b.executor)
def test_a_chunk_has_lanes_of_one_width(backend):
    switch = backend.switch(IP, MAC, 0xFF)
    switch.write(JobEntry(1, 1, 1, 0, 2, 7, 1, 0, None), insert=True)
    for child in range(3):
        switch.write(PeerEntry(child, child, 1, 1, 1 << child), insert=True)
    first, second = (
        Packet(MAC, 0, 0, IP, 9400, 9400, Kind.PUSH, 1, 1, 0, (7,) * (64 << width), width=width) for width in (1, 2)
    )
    switch.receive(0, first)
    for child, packet in ((1, second), (1, replace(second, lanes=(7,) * 64, width=0))):
        switch.receive(child, replace(packet, eth_src=child, ip_src=child))
        assert switch.golden.refused[Reason.KIND] == (2 if packet.width == 0 else 1)
        switch.check()
    for child in (1, 2):
        switch.receive(child, replace(first, eth_src=child, ip_src=child))
        switch.check()
    assert switch.golden.slots[0].lanes == (21,) * 128
