"""Host-based plans: ring and parameter server."""

from itertools import pairwise

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans import PlanRequest, Problem, make_plan
from p4reduce.control_plane.plans.make import check_forwarding
from p4reduce.control_plane.plans.ring import ring
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import TopologyBuilder, fat_tree, leaf_spine, load, star


def plan(topology, name, **request):
    return make_plan(topology, PlanRequest(name, **{"lanes": 64, **request}), Resources())


def streams(built):
    """Return the number of full-frame streams on each directed link."""
    count = {}
    for edge in built.edges:
        for hop in built.path_hops(*edge):
            count[hop] = count.get(hop, 0) + 1
    return count


def test_a_ring_goes_leaf_by_leaf():
    # Ranks alternate between the leaves, the ring does not.
    workers = ("h1", "h5", "h2", "h6", "h3", "h7", "h4", "h8")
    built = plan(leaf_spine(2, 2, 4), "ring", workers=workers)
    assert built.workers == workers
    assert built.ring == ("h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8")
    assert set(streams(built).values()) == {1}
    assert (built.slots, built.aggregators, built.in_network) == (0, (), False)
    assert built.up("h4").name == "h5"
    with pytest.raises(PlanError, match="has no root"):
        _ = built.root


@pytest.mark.parametrize(
    "topology", [star(8), fat_tree(4), leaf_spine(4, 2, 4), load("two-racks")], ids=lambda t: t.name
)
def test_a_ring_loads_no_link_twice_in_a_data_centre(topology):
    built = plan(topology, "ring")
    assert set(streams(built).values()) == {1}
    host = topology.link_at("h1", 1)
    assert built.chunk_ps == -(-(318 + 24) * 8 * 10**12 // host.rate_bps)


def test_acknowledgements_join_the_way_of_data():
    built = plan(load("nobel-us"), "ring")
    check_forwarding(built.paths)
    assert len(built.paths) == 2 * len(built.ring)
    for host, following in built.edges:
        assert built.paths[(following, host)][0] == following
        assert built.paths[(following, host)][-1] == host


def test_two_and_one_in_a_ring():
    two = plan(star(2), "ring")
    assert two.edges == (("h1", "h2"), ("h2", "h1"))
    assert set(two.paths) == {("h1", "h2"), ("h2", "h1")}
    assert plan(star(1), "ring").edges == ()


def test_a_ring_avoids_a_link_that_shortest_paths_would_share():
    """Hosts on a square of slow links, whose shortest paths would all use the first link."""
    builder = TopologyBuilder("ladder")
    for switch in ("a", "b", "c", "d"):
        builder.switch(switch)
    for number, switch in enumerate(("a", "a", "b", "b"), start=1):
        builder.host(f"h{number}")
        builder.link(f"h{number}", switch, "10G", "1us")
    for a, b in (("a", "b"), ("a", "c"), ("c", "b"), ("a", "d"), ("d", "b")):
        builder.link(a, b, "10G", "1us")
    topology = builder.build()
    # In rank order two streams would cross a - b; the ring reorders hosts.
    crossed = Problem(topology, ("h1", "h3", "h2", "h4"))
    assert ring(crossed).order == ("h1", "h2", "h3", "h4")
    assert set(streams(plan(topology, "ring", workers=crossed.workers)).values()) == {1}


def test_a_ring_reroutes_when_the_shortest_way_is_too_slow():
    builder = TopologyBuilder("slow")
    for switch in ("a", "b", "c"):
        builder.switch(switch)
    for host, switch in (("h1", "a"), ("h2", "b")):
        builder.host(host)
        builder.link(host, switch, "10G", "1us")
    builder.link("a", "b", "1G", "1us")
    builder.link("a", "c", "10G", "1us")
    builder.link("c", "b", "10G", "1us")
    builder.host("h3")
    builder.link("h3", "c", "10G", "1us")
    built = plan(builder.build(), "ring")
    assert ("a", "b") not in {pair for path in built.paths.values() for pair in pairwise(path)}
    assert built.chunk_ps == 273_600


def test_ps_takes_the_topologys_server():
    built = plan(leaf_spine(2, 2, 2, servers=1), "ps")
    assert built.server == "server1"
    assert built.edges == (("h1", "server1"), ("h2", "server1"), ("h3", "server1"), ("h4", "server1"))
    assert built.paths[("server1", "h3")] == built.paths[("h3", "server1")][::-1]
    assert (built.slots, built.in_network) == (0, False)
    with pytest.raises(PlanError, match="'ps' needs a server"):
        plan(star(2), "ps")


def test_ps_fills_the_first_path_before_it_takes_another():
    """Six workers want a sixth of 60 Gb/s each; links between leaves and spines hold three of these shares."""
    builder = TopologyBuilder("fit")
    for switch in ("spine1", "spine2", "leaf0", "leaf1", "leaf2", "leaf3"):
        builder.switch(switch)
    for leaf in range(4):
        for spine in (1, 2):
            builder.link(f"leaf{leaf}", f"spine{spine}", "30G", "1us")
    builder.host("ps", server=True)
    builder.link("ps", "leaf0", "60G", "1us")
    for number in range(6):
        builder.host(f"h{number}")
        builder.link(f"h{number}", f"leaf{1 + number // 2}", "10G", "1us")
    built = plan(builder.build(), "ps", server="ps")
    used = [built.paths[(f"h{number}", "ps")][2] for number in range(6)]
    # h2's share is the last that fits on spine1 - leaf0. Its leaf forwards by destination, so h3 must follow it.
    assert used == ["spine1", "spine1", "spine1", "spine1", "spine2", "spine2"]


def test_ps_counts_what_others_use():
    topology = leaf_spine(2, 2, 1, servers=1)
    busy = {(node, topology.port(node, "spine1")): 10**10 for node in ("leaf1", "leaf2")}
    free = plan(topology, "ps").paths[("h2", "server1")]
    assert free == ("h2", "leaf2", "spine1", "leaf1", "server1")
    assert plan(topology, "ps", load=busy).paths[("h2", "server1")] == ("h2", "leaf2", "spine2", "leaf1", "server1")


def test_a_planner_that_breaks_the_rule_is_caught():
    with pytest.raises(PlanError, match=r"paths to d part at s \(to a and to b\)"):
        check_forwarding({("x", "d"): ("x", "s", "a", "d"), ("y", "d"): ("y", "s", "b", "d")})
