"""What does not fit is rejected, and the reason names what is in the way."""

import pytest

from p4reduce.control_plane.plans import make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.control_plane.scheduling import NetworkState, Rejection, Task, copies, plan_requests, policy_named
from p4reduce.topologies import TopologyBuilder, leaf_spine, star

TREES = ("exact", "overlay-mst", "spff-ina", "spt", "steiner")
ALL = (*TREES, "spff", "spff-ecmp")
GIGA = 10**9


def task(*workers, server="h1", gbps=0):
    return Task("t", server, workers, 1000, demand_bps=gbps * GIGA)


def hop(topology, a, b):
    return (a, topology.port(a, b))


@pytest.mark.parametrize("name", ALL)
def test_the_link_in_the_way_is_named(name):
    topology = leaf_spine(2, 1, 2)
    state = NetworkState(topology, reserved_bps={hop(topology, "leaf2", "spine1"): 8 * GIGA})
    with pytest.raises(Rejection, match=r"task t: link leaf2 -> spine1 has 2Gb/s left of 10Gb/s, 3Gb/s are needed"):
        policy_named(name)(task("h3", gbps=3), state)
    assert policy_named(name)(task("h3", gbps=2), state)


@pytest.mark.parametrize("name", ALL)
def test_a_broadcast_needs_room_the_other_way(name):
    topology = leaf_spine(2, 1, 2)
    state = NetworkState(topology, reserved_bps={hop(topology, "spine1", "leaf2"): 8 * GIGA})
    with pytest.raises(Rejection, match=r"link spine1 -> leaf2 has 2Gb/s left"):
        policy_named(name)(task("h3", gbps=3), state)


@pytest.mark.parametrize("name", ALL)
def test_links_of_hosts_count(name):
    topology = leaf_spine(2, 1, 2)
    state = NetworkState(topology, background_bps={("h3", 1): 9 * GIGA})
    with pytest.raises(Rejection, match=r"link h3 -> leaf2 has 1Gb/s left of 10Gb/s, 2Gb/s are needed"):
        policy_named(name)(task("h3", gbps=2), state)


@pytest.mark.parametrize("name", ALL)
def test_links_that_are_down(name):
    topology = leaf_spine(2, 2, 2)
    state = NetworkState(topology, down={hop(topology, "leaf2", "spine1")})
    decision = policy_named(name)(task("h3", "h4"), state)
    for layout, direction in ((decision.upload, "upload"), (decision.broadcast, "broadcast")):
        crossed = copies(decision.task, topology, layout, direction)
        assert hop(topology, "leaf2", "spine1") not in crossed
        assert hop(topology, "spine1", "leaf2") not in crossed
    state.down.add(hop(topology, "spine2", "leaf2"))
    with pytest.raises(Rejection, match=r"link leaf2 -> spine. is down"):
        policy_named(name)(task("h3"), state)
    with pytest.raises(Rejection, match=r"link (leaf1 -> h1|h1 -> leaf1) is down"):
        policy_named(name)(task("h2"), NetworkState(topology, down={hop(topology, "leaf1", "h1")}))


def test_without_aggregation_the_servers_link_carries_every_share():
    state = NetworkState(star(5))
    with pytest.raises(Rejection, match="12Gb/s are needed"):
        policy_named("spff")(task("h2", "h3", "h4", "h5", gbps=3), state)
    assert policy_named("spff-ina")(task("h2", "h3", "h4", "h5", gbps=3), state)


def test_shares_that_do_not_fit_beside_each_other():
    builder = TopologyBuilder("narrow")
    for switch in ("s1", "s2"):
        builder.switch(switch)
    for host, switch in (("g", "s1"), ("w1", "s2"), ("w2", "s2")):
        builder.host(host)
        builder.link(host, switch, "10G", "1us")
    builder.link("s1", "s2", "5G", "1us")
    state = NetworkState(builder.build())
    with pytest.raises(
        Rejection, match=r"link s2 -> s1 has 2Gb/s left beside the task's other shares, 3Gb/s .* for w2"
    ):
        policy_named("spff")(task("w1", "w2", server="g", gbps=3), state)
    assert policy_named("steiner")(task("w1", "w2", server="g", gbps=3), state)


@pytest.mark.parametrize("name", TREES)
def test_switches_without_slots_do_not_aggregate(name):
    topology = leaf_spine(2, 2, 3)
    slots = dict.fromkeys(("leaf1", "leaf2", "spine1"), 0) | {"spine2": 8}
    decision = policy_named(name)(task("h2", "h3", "h4", "h5"), NetworkState(topology, slots=slots))
    assert set(decision.upload.aggregators) == {"spine2"}
    with pytest.raises(Rejection, match="no switch has 2 slots left in one range; the most has switch spine2: 1"):
        policy_named(name)(task("h2", "h4"), NetworkState(topology, slots=slots | {"spine2": 1}))


@pytest.mark.parametrize("name", TREES)
def test_a_demand_needs_slots_for_its_round_trip(name):
    """256 lanes over two links and back at 10 Gb/s and 1 us: some 12 us, so 5 Gb/s need 8 chunks in flight."""
    topology = star(4)
    with pytest.raises(Rejection, match=r"switch s1 has 8 slots left in one range, 16 are needed"):
        policy_named(name)(task("h2", "h3", gbps=5), NetworkState(topology, slots={"s1": 8}))
    assert policy_named(name)(task("h2", "h3", gbps=5), NetworkState(topology, slots={"s1": 16}))
    assert policy_named(name)(task("h2", "h3", gbps=1), NetworkState(topology, slots={"s1": 8}))


@pytest.mark.parametrize("name", TREES)
def test_no_switch_can_aggregate(name):
    with pytest.raises(Rejection, match=r"task t: no switch of topology .* can aggregate"):
        policy_named(name)(task("h2"), NetworkState(star(3, capable=False)))


@pytest.mark.parametrize("name", TREES)
def test_copies_behind_a_plain_switch_must_fit_together(name):
    """Three workers behind a leaf that cannot aggregate: three copies on its uplink."""
    topology = leaf_spine(2, 1, 3, capable=["spine*"])
    state = NetworkState(topology)
    with pytest.raises(Rejection, match=r"link leaf2 -> spine1 has 10Gb/s left of 10Gb/s, 12Gb/s are needed|no tree"):
        policy_named(name)(task("h4", "h5", "h6", gbps=4), state)
    assert policy_named(name)(task("h4", "h5", "h6", gbps=3), state)


@pytest.mark.parametrize("name", TREES)
def test_copies_of_a_broadcast_must_fit_too_where_both_directions_weigh_the_same(name):
    topology = leaf_spine(2, 1, 3, capable=["spine*"])
    state = NetworkState(topology, background_bps={hop(topology, "spine1", "leaf2"): 5 * GIGA})
    with pytest.raises(Rejection, match=r"link spine1 -> leaf2 has 5Gb/s left of 10Gb/s, 9Gb/s are needed|no tree"):
        policy_named(name)(task("h4", "h5", "h6", gbps=3), state)
    assert policy_named(name)(task("h4", gbps=3), state)


@pytest.mark.parametrize("name", ALL)
def test_deciding_changes_nothing_and_repeats_itself(name):
    topology = leaf_spine(3, 2, 3)
    state = NetworkState(topology, slots={"leaf1": 64})
    job = task("h2", "h5", "h8", gbps=1)
    first = policy_named(name)(job, state)
    assert (state.reserved_bps, state.background_bps, state.slots) == ({}, {}, {"leaf1": 64})
    assert policy_named(name)(job, state) == first
    state.reserve(first.demand_bps)
    assert all(state.residual_bps(at) == topology.link_at(*at).rate_bps - bps for at, bps in first.demand_bps.items())
    state.release(first.demand_bps)
    assert state.reserved_bps == {}


@pytest.mark.parametrize("name", ALL)
def test_decisions_become_plans(name):
    topology, resources = leaf_spine(3, 2, 3), Resources()
    decision = policy_named(name)(Task("t", "h1", ("h2", "h5", "h8"), 1000, priority=5), NetworkState(topology))
    (request,) = plan_requests(decision, job=3, lanes=64)
    plan = make_plan(topology, request, resources)
    assert (plan.name, plan.job, plan.server, plan.workers) == (name, 3, "h1", ("h2", "h5", "h8"))
    assert plan.priority == 5
    assert plan.in_network == (name not in ("spff", "spff-ecmp"))
