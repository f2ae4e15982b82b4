"""Hosts chosen by policies: compared with hand counts, on clusters that differ in one respect."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.placement import PLACEMENTS, ClusterView, Racks, place, register_placement
from p4reduce.control_plane.placement.cluster import reads
from p4reduce.control_plane.placement.policies import ORDERS, sorted_queue
from p4reduce.control_plane.scheduling import NetworkState, Rejection, Task
from p4reduce.control_plane.scheduling.task import WantedHosts
from p4reduce.topologies import fat_tree, leaf_spine
from tests.support.effort import examples

TOPOLOGY = leaf_spine(leaves=4, spines=2, hosts=4)
RACKS = Racks(TOPOLOGY)
HOSTS = [host.name for host in TOPOLOGY.workers]
SLOTS = dict.fromkeys(HOSTS, 1)
AWARE = ("ina-aware", "netpack", "cassini")
ALL = ("random", "first-fit", "packed", "spread", *AWARE)


def cluster(free=None, network=None, **more):
    state = network or NetworkState(TOPOLOGY)
    return ClusterView(RACKS, state, SLOTS, SLOTS if free is None else free, rings=True, **more)


def task(count, name="a", elements=10_000_000, **more):
    shards, size = more.pop("shards", ()), more.pop("shard_bytes", 0)
    return Task(name, "", (), elements, 100, 10**9, wanted=WantedHosts(count, shards, size), **more)


def chosen(count, where, policy, **more):
    return place(task(count, **more), where, policy)


def racks(placement):
    return {RACKS.of[host] for host in placement.workers}


def busy_uplinks(*leaves, share=0.9):
    used = {}
    for leaf in leaves:
        for other in ("spine1", "spine2"):
            for a, b in ((leaf, other), (other, leaf)):
                used[(a, TOPOLOGY.port(a, b))] = round(share * TOPOLOGY.link_between(a, b).rate_bps)
    return NetworkState(TOPOLOGY, background_bps=used)


@pytest.mark.parametrize("policy", ["packed", *AWARE])
def test_in_an_empty_cluster_a_task_of_a_rack_gets_one_and_does_not_break_up_another(policy):
    found = chosen(4, cluster(), policy)
    assert len(racks(found)) == 1
    used = {**SLOTS, **dict.fromkeys(HOSTS[:2], 0)}  # two of leaf1 are left
    assert racks(chosen(2, cluster(used), policy)) == {"leaf1"}


def test_spread_uses_every_rack_evenly_and_first_fit_the_first_hosts():
    assert sorted(chosen(4, cluster(), "spread").why["racks"].values()) == [1, 1, 1, 1]
    assert chosen(5, cluster(), "first-fit").workers == tuple(HOSTS[:5])


def test_random_is_that_of_the_task_and_the_seed():
    found = {chosen(5, cluster(), "random", name=name).workers for name in "abcdefgh"}
    assert found == {chosen(5, cluster(), "random", name=name).workers for name in "hgfedcba"}
    assert len(found) > 4
    assert chosen(5, cluster(seed=1), "random").workers != chosen(5, cluster(), "random").workers


@pytest.mark.parametrize("policy", ["ina-aware", "netpack"])
def test_a_task_of_two_racks_avoids_those_whose_uplinks_are_busy_and_packed_does_not_know(policy):
    free = {**SLOTS, **dict.fromkeys(HOSTS[8:9], 0), **dict.fromkeys(HOSTS[12:13], 0)}  # leaf3 and leaf4: three each
    where = cluster(free, busy_uplinks("leaf1", "leaf2"))
    assert racks(chosen(6, where, policy)) == {"leaf3", "leaf4"}
    assert racks(chosen(6, where, "packed")) & {"leaf1", "leaf2"}


def test_a_rack_that_cannot_aggregate_is_left_to_others():
    topology = leaf_spine(leaves=4, spines=2, hosts=4)
    nodes = tuple(
        replace(node, capable=node.is_switch and node.name not in ("leaf1", "leaf2")) for node in topology.nodes
    )
    changed = replace(topology, nodes=nodes)
    where = ClusterView(Racks(changed), NetworkState(changed), SLOTS, SLOTS, rings=True)
    assert {"leaf3", "leaf4"} >= {where.racks.of[host] for host in chosen(4, where, "ina-aware").workers}


def test_slow_hosts_and_hosts_without_the_data_come_last():
    slow = cluster(slowdown={"h1": 3.0, "h2": 3.0})
    assert {"h1", "h2"}.isdisjoint(chosen(4, slow, "ina-aware").workers)
    homes = ("h13", "h14", "h15", "h16")
    found = chosen(4, cluster(), "ina-aware", shards=homes, shard_bytes=10**9)
    assert found.workers == homes
    assert found.why["reading_s"] == 0


@pytest.mark.parametrize("policy", ALL)
def test_every_policy_takes_hosts_with_shards(policy):
    homes = ("h3", "h8", "h11", "h14") if policy == "spread" else ("h13", "h14", "h15", "h16")
    assert chosen(4, cluster(), policy, shards=homes, shard_bytes=10**9).workers == homes
    assert set(chosen(2, cluster(), policy, shards=homes, shard_bytes=10**9).workers) < set(homes)


@pytest.mark.parametrize("policy", ["packed", "netpack", "cassini", "ina-aware"])
def test_a_worker_has_the_shards_of_the_host_that_has_most(policy):
    assert chosen(1, cluster(), policy, shards=("h5", "h10", "h10", "h5", "h10"), shard_bytes=1).workers == ("h10",)


def test_packed_takes_no_rack_more_for_the_sake_of_data():
    free = {**SLOTS, **dict.fromkeys(["h4", "h8", "h12", "h14", "h15", "h16"], 0)}  # 3, 3, 3 and 1 free hosts
    found = chosen(6, cluster(free), "packed", shards=("h13", "h9"), shard_bytes=10**9)
    assert len(racks(found)) == 2
    assert "h9" in found.workers
    found = chosen(7, cluster(free), "packed", shards=("h13", "h9"), shard_bytes=10**9)  # three racks, h13's among them
    assert len(racks(found)) == 3
    assert {"h13", "h9"} < set(found.workers)


@given(
    st.lists(st.booleans(), min_size=16, max_size=16),
    st.integers(1, 16),
    st.lists(st.sampled_from(HOSTS), min_size=1, max_size=12),
    st.sampled_from(ALL),
)
@settings(max_examples=examples(60, 600), deadline=None)
def test_data_do_not_spoil_what_a_policy_is_for(taken, count, homes, policy):
    free = {host: int(not one) for host, one in zip(HOSTS, taken, strict=True)}
    if sum(free.values()) < count:
        return
    told = chosen(count, cluster(free), policy, shards=tuple(homes), shard_bytes=10**6)
    without = chosen(count, cluster(free), policy)
    assert len(set(told.workers)) == count
    if policy in ("packed", "cassini"):
        assert len(racks(told)) == len(racks(without))
    if policy == "spread":
        shares = [sorted(one.why["racks"].values()) for one in (told, without)]
        assert shares[0] == shares[1]
    if policy in ("spread", "random"):
        read = [len(reads(WantedHosts(count, tuple(homes), 1), one.workers)) for one in (told, without)]
        assert read[0] <= read[1]


def test_a_task_keeps_away_from_links_that_others_use():
    first = task(6, "first")
    hosts = ("h1", "h2", "h3", "h5", "h6", "h7")
    running = {"first": cluster().load(first, hosts)}
    free = {**SLOTS, **dict.fromkeys(hosts, 0), "h4": 1, "h8": 1, "h9": 0, "h13": 0}
    found = chosen(6, cluster(free, running=running), "ina-aware")
    assert racks(found) == {"leaf3", "leaf4"}
    assert found.why["others_s"] == 0


def test_shards_are_read_by_whoever_has_fewest():
    wanted = WantedHosts(2, ("h1", "h9", "h9", "h2"), 100)
    assert reads(wanted, ["h1", "h3"]) == [("h9", "h3"), ("h9", "h1"), ("h2", "h3")]
    assert reads(WantedHosts(2, ("h9",)), ["h1", "h3"]) == []


@pytest.mark.parametrize("policy", ALL)
def test_too_few_hosts_are_named_with_their_number(policy):
    with pytest.raises(Rejection, match="it wants 17 hosts with 1 free slots each; now there are 16"):
        chosen(17, cluster(), policy)
    assert "the cluster has 16 such hosts" in cluster().fault(task(17))
    assert "the cluster has 0 such hosts" in cluster().fault(task(1, slots=2))
    assert cluster().fault(task(16)) == ""
    assert cluster().fault(task(1, shards=("nobody",))) == "'nobody' is no host of the topology"


def test_hosts_behind_a_link_that_is_down_are_not_chosen():
    state = NetworkState(TOPOLOGY, down={("h1", 1), ("leaf1", TOPOLOGY.port("leaf1", "h1"))})
    for policy in ALL:
        assert "h1" not in chosen(15, cluster(network=state), policy).workers


def test_an_answer_that_no_task_can_have_is_refused():
    @register_placement("twice")
    def twice(task, cluster):
        return ["h1", "h1"], {}

    try:
        with pytest.raises(PlanError, match="placement 'twice' answered with hosts that it cannot have"):
            chosen(2, cluster(), "twice")
    finally:
        del PLACEMENTS["twice"]


@settings(max_examples=examples(12, 25))
@given(
    free=st.lists(st.integers(0, 2), min_size=16, max_size=16),
    slow=st.dictionaries(st.sampled_from(HOSTS), st.floats(0.5, 4)),
    count=st.integers(1, 16),
    slots=st.integers(1, 2),
    loaded=st.lists(st.sampled_from(["leaf1", "leaf2", "leaf3", "leaf4"]), unique=True),
    policy=st.sampled_from(ALL),
)
def test_every_policy_gives_different_hosts_with_room_or_says_that_there_are_none(
    free, slow, count, slots, loaded, policy
):
    where = cluster(dict(zip(HOSTS, free, strict=True)), busy_uplinks(*loaded), slowdown=slow)
    able = {host for host, own in zip(HOSTS, free, strict=True) if own >= slots}
    if len(able) < count:
        with pytest.raises(Rejection):
            chosen(count, where, policy, slots=slots)
        return
    found = chosen(count, where, policy, slots=slots)
    assert len(set(found.workers)) == count
    assert set(found.workers) <= able
    assert chosen(count, where, policy, slots=slots) == found


def test_a_fat_tree_keeps_a_task_in_a_pod():
    topology = fat_tree(k=4)
    racks = Racks(topology)
    slots = {host.name: 1 for host in topology.workers}
    for policy in ("packed", "ina-aware"):
        where = ClusterView(racks, NetworkState(topology), slots, slots, rings=True)
        hosts = chosen(4, where, policy).workers
        assert max(racks.distance(racks.of[a], racks.of[b]) for a in hosts for b in hosts) <= 2


def test_orders():
    tasks = {
        "long": Task("long", "h1", ("h2",), 10**6, 50, arrival_ps=0, owner="x", priority=1),
        "short": Task("short", "h1", ("h2",), 10**6, 2, arrival_ps=1, owner="x", priority=0, deadline_ps=900),
        "urgent": Task("urgent", "h1", ("h2",), 10**6, 5, arrival_ps=2, owner="y", priority=7, deadline_ps=100),
    }
    found = {name: sorted_queue(tasks, order, {"x": 5.0}) for name, order in ORDERS.items()}
    assert found["fifo"] == ["long", "short", "urgent"]
    assert found["fair"] == ["urgent", "long", "short"]
    assert found["priority"] == ["urgent", "long", "short"]
    assert found["edf"] == ["urgent", "short", "long"]
    assert found["sjf"] == ["short", "urgent", "long"]
