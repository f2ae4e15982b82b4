import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.counters import (
    Fate,
    LinkIncident,
    Operation,
    SwitchCounters,
    Traffic,
    compare_counters,
    compare_links,
    compare_sent,
    expected_on_links,
    predict,
)
from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import leaf_spine, load

FULL = 318


@pytest.fixture
def plan():
    """Return a plan in which only spines aggregate: h1 - leaf1 - spine1 is one overlay hop over two links."""
    return make_plan(load("leaf-spine-8-partial"), PlanRequest("spt", lanes=64), Resources())


def change(plan, *incidents):
    """Return the links that an incident affects, with the change in frames and bytes."""
    before = predict(plan, "all_reduce", 640)
    after = expected_on_links(plan, before, incidents)
    return {
        hop: (after[hop].frames - before[hop].frames, after[hop].bytes - before[hop].bytes)
        for hop in after
        if after[hop] != before[hop]
    }


def test_what_is_lost_is_missing_on_the_rest_of_its_hop(plan):
    uplink = ("leaf1", plan.topology.port("leaf1", "spine1"))
    assert change(plan, LinkIncident("h1", 1, "spine1", Fate.LOST, 2, 2 * FULL)) == {uplink: (-2, -2 * FULL)}
    assert change(plan, LinkIncident("h1", 1, "spine1", Fate.CORRUPTED, 1, FULL)) == {uplink: (-1, -FULL)}
    # The last link of a hop has no later links.
    assert change(plan, LinkIncident(*uplink, "spine1", Fate.LOST, 5, 5 * FULL)) == {}


def test_duplicates_are_on_the_links_after(plan):
    down = ("spine1", plan.topology.port("spine1", "leaf1"))
    assert change(plan, LinkIncident(*down, "h2", Fate.DUPLICATED, 3, 3 * FULL)) == {("leaf1", 2): (3, 3 * FULL)}


def test_what_a_queue_drops_is_missing_on_its_own_link_too(plan):
    down = ("spine1", plan.topology.port("spine1", "leaf1"))
    assert change(plan, LinkIncident(*down, "h2", Fate.QUEUE_DROPPED, 1, FULL)) == {
        down: (-1, -FULL),
        ("leaf1", 2): (-1, -FULL),
    }


def test_incidents_add_up(plan):
    """A frame is duplicated, and its copy is lost on the same link."""
    uplink = ("leaf1", plan.topology.port("leaf1", "spine1"))
    twin = [
        LinkIncident("h1", 1, "spine1", Fate.DUPLICATED, 1, FULL),
        LinkIncident("h1", 1, "spine1", Fate.LOST, 1, FULL),
    ]
    assert change(plan, *twin) == {}
    assert change(plan, *twin, LinkIncident(*uplink, "spine1", Fate.QUEUE_DROPPED, 1, FULL)) == {uplink: (-1, -FULL)}


@pytest.mark.parametrize(
    "incident",
    [
        LinkIncident("h1", 1, "h2", Fate.LOST, 1, FULL),
        LinkIncident("spine2", 1, "h2", Fate.LOST, 1, FULL),
        LinkIncident("leaf1", 1, "h2", Fate.LOST, 1, FULL),
    ],
)
def test_incidents_off_the_plan(plan, incident):
    with pytest.raises(PlanError, match=f"a first transmission to h2 was lost at {incident.node} port 1"):
        change(plan, incident)


def test_links_are_compared_both_ways(plan):
    topology = plan.topology
    expected = predict(plan, "all_reduce", 640)
    assert compare_links(topology, expected, expected) == []
    assert compare_links(topology, expected, {hop: (t.frames, t.bytes) for hop, t in expected.items()}) == []
    counted = dict(expected)
    counted[("h1", 1)] += Traffic(0, 4)
    assert compare_links(topology, expected, counted) == [
        f"link h1 -> leaf1 (port 1): predicted {expected[('h1', 1)].frames} frames, {expected[('h1', 1)].bytes} bytes; "
        f"counted {expected[('h1', 1)].frames} frames, {expected[('h1', 1)].bytes + 4} bytes"
    ]
    del counted[("h1", 1)]
    assert "counted 0 frames" in compare_links(topology, expected, counted)[0]
    unexpected = {**expected, ("spine2", 1): Traffic(1, 62)}
    assert compare_links(topology, expected, unexpected) == [
        "link spine2 -> leaf1 (port 1): predicted 0 frames, 0 bytes; counted 1 frames, 62 bytes"
    ]


def counters(plan, expected, **sent):
    """Return the expected counters of the switches."""
    cells = {(kind, resend): Traffic() for kind in ("PUSH", "PULL", "RESULT") for resend in (0, 1)}
    return {
        switch.name: SwitchCounters(
            link_sent={
                (port, resend): Traffic() if resend else expected[(switch.name, port)]
                for port in range(1, len(plan.topology.neighbours(switch.name)) + 1)
                for resend in (0, 1)
            },
            refused={},
            jobs_received={},
            jobs_sent={
                plan.grant.stats: cells
                | {(kind, 0): Traffic(count) for kind, count in sent.get(switch.name, {}).items()}
            },
            peers={},
        )
        for switch in plan.topology.switches
    }


def test_the_switches_counters(plan):
    expected = predict(plan, "all_reduce", 640)
    counted = counters(plan, expected)
    assert compare_counters(plan.topology, expected, counted) == []
    expected[("spine1", 1)] += Traffic(1, 0)
    found = compare_counters(plan.topology, expected, counted)
    assert len(found) == 1
    assert found[0].startswith("spine1.link_sent[port 1, first]: predicted")


def test_what_slots_sent():
    plan = make_plan(
        leaf_spine(2, 1, 2, servers=1), PlanRequest("spt", server="server1", window=4, lanes=64), Resources()
    )
    assert [aggregator.name for aggregator in plan.aggregators] == ["leaf1", "leaf2"]
    run = [(Operation.PUSH_PULL, 640, None), (Operation.PULL, 640, None), (Operation.BARRIER, 0, None)]
    # Pushes: 10 + 4 ahead, and the barrier's; pulls: 10; results: 14 + 10 + 1 to each of three and two children.
    counted = counters(
        plan,
        predict(plan, "push_pull", 640),
        leaf1={"PUSH": 15, "PULL": 10, "RESULT": 75},
        leaf2={"PUSH": 15, "PULL": 10, "RESULT": 50},
    )
    assert compare_sent(plan, run, counted) == []
    assert compare_sent(plan, run[1:], counted) == [
        f"{name}.job_sent[job 1, {kind}, first]: predicted {want}, counted {have}"
        for name, kind, want, have in (
            ("leaf1", "PUSH", 1, 15),
            ("leaf1", "RESULT", 33, 75),
            ("leaf2", "PUSH", 1, 15),
            ("leaf2", "RESULT", 22, 50),
        )
    ]


def test_readings_are_subtracted(plan):
    expected = predict(plan, "all_reduce", 640)
    once = counters(plan, expected)["spine1"]
    assert once.since(once).link_sent == dict.fromkeys(once.link_sent, Traffic())
    assert once.since(SwitchCounters({}, {}, {}, {}, {})) == once
