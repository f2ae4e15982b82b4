"""Tasks that do not fit are rejected, and the reason names the obstacle."""

from dataclasses import replace
from random import Random

import pytest

from p4reduce.control_plane.counters import Operation, predict
from p4reduce.control_plane.plans import StarLayout, TreeLayout, make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.control_plane.scheduling import (
    LinkWeights,
    NetworkState,
    Rejection,
    Task,
    copies,
    plan_requests,
    policy_named,
)
from p4reduce.control_plane.scheduling.view import View, loads, problem_of
from p4reduce.topologies import TopologyBuilder, leaf_spine, load, star, with_capable

TREES = ("exact", "overlay-mst", "spff-ina", "spt", "steiner")
ALL = (*TREES, "spff", "spff-ecmp")
GIGA = 10**9


def task(*workers, server="h1", gbps=0, aggregation=None):
    return Task("t", server, workers, 1000, demand_bps=gbps * GIGA, aggregation=aggregation)


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
    wanted = task("h2", "h3", "h4", "h5", aggregation="switches")
    decision = policy_named(name)(wanted, NetworkState(topology, slots=slots))
    assert set(decision.upload.aggregators) == {"spine2"}
    assert decision.slots == {"spine2": 2}
    with pytest.raises(Rejection, match="no switch has 2 slots left in one range; the most has switch spine2: 1"):
        policy_named(name)(wanted, NetworkState(topology, slots=slots | {"spine2": 1}))


@pytest.mark.parametrize("name", TREES)
def test_a_demand_needs_slots_for_its_round_trip(name):
    """256 lanes over two links and back at 10 Gb/s and 1 us take about 12 us, so 5 Gb/s need 8 chunks in flight."""
    topology = star(4)
    with pytest.raises(Rejection, match=r"switch s1 has 8 slots left in one range, 16 are needed"):
        policy_named(name)(task("h2", "h3", "h4", gbps=5), NetworkState(topology, slots={"s1": 8}))
    assert policy_named(name)(task("h2", "h3", gbps=5), NetworkState(topology, slots={"s1": 16})).slots == {"s1": 16}
    assert policy_named(name)(task("h2", "h3", gbps=1), NetworkState(topology, slots={"s1": 8})).slots
    # The server's link has room for two shares.
    assert policy_named(name)(task("h2", "h3", gbps=5), NetworkState(topology, slots={"s1": 8})).slots == {}


def ring_of_switches():
    """Workers behind s0, which cannot aggregate; s1 has no slots, s3 has plenty; loads differ by direction."""
    builder = TopologyBuilder("ring")
    for number, capable in enumerate((False, True, False, True)):
        builder.switch(f"s{number}", capable=capable)
    for a, b, delay in (("s0", "s1", 0), ("s0", "s2", 0), ("s0", "s3", 1), ("s1", "s2", 0), ("s2", "s3", 0)):
        builder.link(a, b, 10 * GIGA, f"{delay}us")
    for host in ("g", "w"):
        builder.host(host)
        builder.link(host, "s0", 10 * GIGA, "1us")
    topology = builder.build()
    used = {("s2", "s0"): 7, ("s0", "s3"): 7, ("s1", "s2"): 7, ("s2", "s3"): 4}
    background = {hop(topology, *ends): gbps * GIGA for ends, gbps in used.items()}
    return NetworkState(topology, background_bps=background, slots={"s0": 0, "s1": 0})


@pytest.mark.parametrize("name", TREES)
def test_a_decision_ends_where_only_switches_without_slots_are_left(name):
    one = Task("t", "g", ("w",), 1000, demand_bps=31 * GIGA // 10)
    assert isinstance(policy_named(name)(one, ring_of_switches()).upload, StarLayout)


def test_switches_without_slots_are_refused_each_time_they_are_asked_for():
    topology = leaf_spine(2, 1, 2)
    view = View(task("h3", gbps=1), NetworkState(topology, slots={switch.name: 0 for switch in topology.switches}), 256)
    problem = problem_of(view, view.words(LinkWeights()), "upload")
    for _ in range(2):
        with pytest.raises(Rejection, match="no switch has"):
            _ = problem.capable


@pytest.mark.parametrize("name", TREES)
def test_no_switch_can_aggregate(name):
    state = NetworkState(star(3, capable=False))
    with pytest.raises(Rejection, match=r"task t: no switch of topology .* can aggregate"):
        policy_named(name)(task("h2", aggregation="switches"), state)
    decision = policy_named(name)(task("h2"), state)
    assert decision.policy == name
    assert decision.upload == policy_named("spff")(task("h2"), state).upload
    assert isinstance(decision.upload, StarLayout)


@pytest.mark.parametrize("name", TREES)
def test_copies_behind_a_plain_switch_must_fit_together(name):
    """Three workers behind a non-aggregating leaf: three copies on its uplink."""
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


def loaded(topology, most, seed):
    """Return background load on links between switches, different in each direction."""
    rng, used = Random(seed), {}
    for link in topology.links:
        if topology.node(link.a).is_switch and topology.node(link.b).is_switch:
            for end in ((link.a, link.port_a), (link.b, link.port_b)):
                used[end] = int(link.rate_bps * most * rng.random())
    return used


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("network", "most", "gbps"),
    [
        ("leaf-spine:leaves=8,spines=4,hosts=4,rate=40G,oversubscription=2", 0.7, 6),
        ("wan:graph=nobel-us,hosts=2", 0.8, 3),
    ],
)
def test_no_link_is_booked_twice_where_both_directions_cross_it(name, network, most, gbps):
    topology, admitted = load(network), 0
    hosts = [host.name for host in topology.workers]
    for seed in range(3):
        state, rng = NetworkState(topology, background_bps=loaded(topology, most, seed)), Random(seed)
        for _ in range(8):
            server, *workers = rng.sample(hosts, 7)
            try:
                decision = policy_named(name)(task(*workers, server=server, gbps=gbps), state)
            except Rejection:
                continue
            admitted += 1
            for at, bps in decision.demand_bps.items():
                assert bps <= topology.link_at(*at).rate_bps - state.background_bps.get(at, 0) - state.reserved_bps.get(
                    at, 0
                )
            state.reserve(decision.demand_bps)
    assert admitted or name.startswith("spff")


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("poor", [1, 7, 8, 9, 15])
def test_many_switches_poor_in_slots_do_not_keep_a_task_from_one_that_has_plenty(name, poor):
    """Each of 16 leaves has a worker and too few slots, but one spine has enough."""
    topology = leaf_spine(16, 4, 2)
    switches = [switch.name for switch in topology.switches if switch.name.startswith("leaf")][:poor]
    slots = dict.fromkeys(["spine1", "spine2", "spine3", *switches], 2) | {"spine4": 4096}
    workers = [f"h{2 * leaf + 1}" for leaf in range(1, 16)]
    wanted = task(*workers, gbps=5, aggregation="switches")
    decision = policy_named(name)(wanted, NetworkState(topology, slots=slots))
    for layout in (decision.upload, decision.broadcast):
        assert all(slots.get(switch, 4096) > 2 for switch in layout.aggregators)
    assert all(2 < needed <= slots.get(switch, 4096) for switch, needed in decision.slots.items())


@pytest.mark.parametrize("name", TREES)
def test_of_equally_poor_switches_the_near_one_carries_the_task(name):
    """The tree over both has a round trip too long for their slots; the near switch alone does not."""
    builder = TopologyBuilder("two")
    for switch in ("near", "far"):
        builder.switch(switch)
    builder.link("near", "far", "10G", "1us")
    for number in range(4):
        builder.host(f"h{number}")
        builder.link(f"h{number}", "far" if number > 1 else "near", "10G", "1us")
    topology = builder.build()
    wanted = Task("t", "h0", ("h1", "h2", "h3"), 1000, demand_bps=3 * GIGA, aggregation="switches")
    free = policy_named(name)(wanted, NetworkState(topology, slots={"near": 4096, "far": 4096}))
    assert set(free.upload.aggregators) == {"near", "far"}
    needed = free.slots["near"]
    state = NetworkState(topology, slots={"near": needed, "far": needed // 2})
    assert set(policy_named(name)(wanted, state).upload.aggregators) == {"near"}


@pytest.mark.parametrize("name", TREES)
def test_two_trees_of_a_task_share_the_slots_of_a_switch(name):
    """Up and down must use different paths; each needs 16 slots of s1 and s4."""
    builder = TopologyBuilder("square")
    for number in range(1, 5):
        builder.switch(f"s{number}")
    for host, switch in (("g", "s1"), ("w1", "s4"), ("w2", "s4")):
        builder.host(host)
        builder.link(host, switch, "10G", "1us")
    for a, b in (("s1", "s2"), ("s1", "s3"), ("s2", "s4"), ("s3", "s4")):
        builder.link(a, b, "10G", "1us")
    topology = builder.build()
    ways = (("s4", "s2"), ("s2", "s1"), ("s1", "s3"), ("s3", "s4"))
    busy = {hop(topology, a, b): 9 * GIGA for a, b in ways}
    wanted = Task("t", "g", ("w1", "w2"), 1000, demand_bps=2 * GIGA, aggregation="switches")
    with pytest.raises(Rejection, match="slots left in one range"):
        policy_named(name)(wanted, NetworkState(topology, busy, slots=dict.fromkeys(("s1", "s2", "s3", "s4"), 8)))
    resources = Resources(16)
    state = NetworkState(
        topology, busy, slots={f"s{number}": resources.largest(f"s{number}") for number in range(1, 5)}
    )
    decision = policy_named(name)(wanted, state)
    assert not decision.together
    for request in plan_requests(decision, job=1):
        assert make_plan(topology, request, resources).slots_rate_bps >= 2 * GIGA


@pytest.mark.parametrize("name", TREES)
def test_more_workers_in_a_rack_than_a_switch_can_have_children(name):
    topology = leaf_spine(2, 1, 41)
    workers = [f"h{number}" for number in range(2, 81)]
    decision = policy_named(name)(task(*workers, aggregation="switches"), NetworkState(topology))
    assert max(map(len, decision.upload.children.values())) <= 32
    make_plan(topology, plan_requests(decision, job=1)[0], Resources())


@pytest.mark.parametrize("name", TREES)
def test_what_the_host_may_add_up_without_switches(name):
    topology = leaf_spine(2, 2, 3)
    decision = policy_named(name)(task("h2", "h4", "h5", aggregation="hosts"), NetworkState(topology))
    assert isinstance(decision.upload, StarLayout)
    decision = policy_named(name)(task("h2", "h4", "h5"), NetworkState(topology))
    assert isinstance(decision.upload, TreeLayout)


def bytes_of(decision, topology):
    """Return the predicted bytes of a decision's plans on all links."""
    plans = [make_plan(topology, request, Resources()) for request in plan_requests(decision, job=1)]
    steps = [Operation.PUSH_PULL] if len(plans) == 1 else [Operation.PUSH, Operation.PULL]
    predicted = (predict(plan, step, 10_000, lead=0) for plan, step in zip(plans, steps, strict=True))
    return sum(traffic.bytes for links in predicted for traffic in links.values())


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize(
    ("graph", "share", "size", "load_share"),
    [
        ("germany50", 0.02, 3, 0),
        ("germany50", 0.04, 3, 0),
        ("germany50", 0.1, 3, 0),
        ("germany50", 0.1, 1, 0.7),
        ("germany50", 0.1, 3, 0.7),
        ("germany50", 1, 1, 0.7),
        ("leaf-spine:leaves=8,spines=4,hosts=4,rate=40G,oversubscription=2", 1, 1, 0.7),
        ("leaf-spine:leaves=8,spines=4,hosts=4,rate=40G,oversubscription=2", 1, 2, 0.7),
    ],
)
def test_no_tree_takes_more_bytes_than_the_fixed_scheduler(name, graph, share, size, load_share):
    topology = load(graph)
    rng = Random(7)
    switches = [switch.name for switch in topology.switches]
    topology = with_capable(topology, rng.sample(switches, max(1, round(share * len(switches)))))
    hosts = [host.name for host in topology.workers]
    state = NetworkState(topology, background_bps=loaded(topology, load_share, 7))
    for _ in range(10):
        server, *workers = rng.sample(hosts, size + 1)
        wanted = task(*workers, server=server)
        ours, fixed = (bytes_of(policy_named(one)(wanted, state), topology) for one in (name, "spff"))
        assert ours <= fixed


SEVERAL = ("striped", "packing", "rina", "hierarchical", "halving-doubling", "double-binary-tree")


def crossing(decision, topology):
    return {*loads(decision, topology, "upload")} | {*loads(decision, topology, "broadcast")}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_trees_go_round_links_that_are_down_or_full_and_are_refused_by_name(name):
    topology = leaf_spine(2, 2, 2)
    one, other = hop(topology, "leaf2", "spine1"), hop(topology, "spine2", "leaf1")
    wanted = task("h2", "h3", "h4", gbps=1)
    for state in (NetworkState(topology, down={one}), NetworkState(topology, reserved_bps={one: 10 * GIGA})):
        assert one not in crossing(policy_named(name)(wanted, state), topology)
    state = NetworkState(topology, down={one}, background_bps={other: 10 * GIGA})
    with pytest.raises(Rejection, match="task t: "):
        policy_named(name)(wanted, state)
    state = NetworkState(topology, reserved_bps={hop(topology, "h3", "leaf2"): 9 * GIGA})
    with pytest.raises(Rejection, match=r"link h3 -> leaf2 has 1Gb/s left of 10Gb/s, 3Gb/s are needed"):
        policy_named(name)(task("h2", "h3", "h4", gbps=3), state)


def test_several_trees_share_the_slots_that_are_left_or_say_that_these_are_too_few():
    topology = leaf_spine(2, 2, 2)
    wanted = task("h2", "h3", "h4")
    names = [switch.name for switch in topology.switches]
    decision = policy_named("striped")(wanted, NetworkState(topology, slots=dict.fromkeys(names, 64)))
    assert (len(decision.parts), decision.max_slots) == (2, 32)
    resources = Resources(slots=64)
    assert [make_plan(topology, one, resources).slots for one in plan_requests(decision, job=1)] == [32, 32]
    with pytest.raises(Rejection, match=r"can aggregate.*; 4 of 4 switches have fewer than 24 slots left in one range"):
        policy_named("striped")(wanted, NetworkState(topology, slots=dict.fromkeys(names, 16)))
    state = NetworkState(leaf_spine(2, 2, 2, delay="20us"), slots=dict.fromkeys(names, 64))
    with pytest.raises(Rejection, match=r"switch leaf\d has 64 slots left in one range, 256 are needed for each of 2"):
        policy_named("striped")(task("h2", "h3", "h4", gbps=9), state)


@pytest.mark.parametrize(("weights", "bps"), [((7, 18), 10 * GIGA), ((9, 5), GIGA * 14 // 10)])
def test_shares_of_several_trees_are_exact_so_that_no_link_is_charged_a_bit_too_many(weights, bps):
    topology = leaf_spine(2, 2, 2)
    decision = policy_named("striped")(task("h2", "h3", "h4"), NetworkState(topology))
    parts = tuple(replace(part, weight=weight) for part, weight in zip(decision.parts, weights, strict=True))
    decision = replace(decision, parts=parts)
    for way in ("upload", "broadcast"):
        crossed = loads(decision, topology, way)
        assert crossed
        assert all((times * bps) % 1 == 0 for times in crossed.values())


def test_several_trees_add_up_where_the_task_wants():
    topology = with_capable(leaf_spine(2, 2, 2), ["leaf1"])
    state = NetworkState(topology)
    with pytest.raises(Rejection, match=r"aggregation: only switches may add up, not h\d"):
        policy_named("hierarchical")(task("h2", "h3", "h4", aggregation="switches"), state)
    with pytest.raises(Rejection, match="aggregation: only hosts may add up, not leaf1"):
        policy_named("rina")(task("h2", "h3", "h4", aggregation="hosts"), state)
    assert policy_named("hierarchical")(task("h2", "h3", "h4", aggregation="hosts"), state).parts
