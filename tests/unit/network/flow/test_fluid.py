"""Rates of flows that share links."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p4reduce.network.sharing import Demand, rates
from tests.support.effort import examples

HOSTS = frozenset({0, 1})


def flow(links, *, most=1.0, window=1e9, rtt=1.0, priority=0, streams=False, cycle=False):
    ways = [frozenset({link}) for link in dict(links)] if cycle else [frozenset(dict(links))]
    return Demand(dict(links), most, window, rtt, ways, streams=streams, cycle=cycle, priority=priority)


def test_a_host_serves_its_flows_in_turn():
    found, waits = rates([flow({0: 1.0}), flow({0: 1.0}), flow({1: 1.0})], HOSTS)
    assert found == pytest.approx([0.5, 0.5, 1.0])
    assert waits == {}


def test_what_one_flow_cannot_use_others_get():
    found, _ = rates([flow({0: 1.0}, most=0.2), flow({0: 1.0}), flow({0: 1.0})], HOSTS)
    assert found == pytest.approx([0.2, 0.4, 0.4])


def test_a_queue_serves_windows():
    """x = W / (rtt + q), and the link is full: q = 30 - 2 for windows of 10 and 20 and a round trip of 2."""
    found, waits = rates([flow({5: 1.0}, window=10, rtt=2.0), flow({5: 1.0}, window=20, rtt=2.0)], HOSTS)
    assert found == pytest.approx([1 / 3, 2 / 3], rel=1e-3)
    ((place, wait),) = waits.values()
    assert place == 0
    assert wait == pytest.approx(28, rel=1e-3)


def test_a_queue_stands_before_the_first_of_links_that_are_full_alike():
    flows = [flow({5: 1.0, 6: 1.0}, window=10), flow({5: 1.0, 6: 1.0}, window=10)]
    found, waits = rates(flows, HOSTS)
    assert found == pytest.approx([0.5, 0.5], rel=1e-3)
    assert waits[0, 5] == waits[0, 6]


def test_what_goes_round_shares_its_window_among_the_queues():
    """A round trip of 20 and two queues of 10 each, shared with another flow's 10 there."""
    flows = [flow({5: 1.0, 6: 1.0}, window=20, cycle=True), flow({5: 1.0}, window=10), flow({6: 1.0}, window=10)]
    found, _ = rates(flows, HOSTS)
    assert found == pytest.approx([0.5, 0.5, 0.5], rel=0.1)


def test_higher_classes_go_first():
    flows = [flow({5: 1.0}, priority=1, most=0.75), flow({5: 1.0}), flow({5: 1.0})]
    found, _ = rates(flows, HOSTS)
    assert found[0] == pytest.approx(0.75)
    assert sum(found) == pytest.approx(1.0, rel=1e-3)


def test_a_class_that_is_left_nothing_waits_no_longer_than_its_windows_take():
    found, waits = rates([flow({5: 1.0}, priority=7), flow({5: 1.0}, window=10, priority=6)], HOSTS)
    assert found == pytest.approx([1.0, 0.0], abs=1e-6)
    found, waits = rates([flow({5: 1.0}, priority=7, most=0.999), *[flow({5: 1.0}, window=10, priority=6)] * 2], HOSTS)
    assert found[1] == pytest.approx(0.0005, rel=0.01)
    assert waits[6, 5][1] <= 20


@settings(deadline=None, max_examples=examples(15, 1_000))
@given(st.data())
def test_no_link_carries_more_than_it_can(data):
    count = data.draw(st.integers(1, 5))
    flows = [
        flow(
            data.draw(st.dictionaries(st.integers(0, 6), st.floats(0.1, 10), min_size=1, max_size=4)),
            most=data.draw(st.floats(0.01, 2)),
            window=data.draw(st.integers(1, 2000)),
            rtt=data.draw(st.floats(0.5, 500)),
            priority=data.draw(st.integers(0, 2)),
            streams=data.draw(st.booleans()),
        )
        for _ in range(count)
    ]
    # alone, a flow is no faster than its own links are
    flows = [replace(one, most=min(one.most, 1 / max(one.busy.values()))) for one in flows]
    found, _ = rates(flows, HOSTS)
    assert (found >= 0).all()
    assert (found <= np.array([one.most for one in flows]) * (1 + 1e-9)).all()
    load = {}
    for rate, one in zip(found, flows, strict=True):
        for link, taken in one.busy.items():
            load[link] = load.get(link, 0.0) + rate * taken
    assert all(carried <= 1 + 1e-3 for carried in load.values())
