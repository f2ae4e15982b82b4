import networkx as nx
import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.counters import Operation, plan_bound, task_bound_ps
from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.plans.routes import frame_time_ps
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import load, star
from p4reduce.topologies.datacenter import TopologyBuilder

OWN = 1000 * 273_600
"""of 1,000 frames of 64 lanes at 10 Gb/s"""
ELEMENTS = 64 * 1000


def plan(topology, name, **request):
    return make_plan(topology, PlanRequest(name, **{"lanes": 64, **request}), Resources())


def uneven_star(server_rate):
    builder = TopologyBuilder("uneven")
    builder.switch("s1")
    for number in range(4):
        builder.host(f"h{number}")
        builder.link(f"h{number}", "s1", "10G", "1us")
    builder.host("ps", server=True)
    builder.link("ps", "s1", server_rate, "1us")
    return builder.build()


def test_equal_links():
    topology = star(8, servers=1)
    assert plan_bound(plan(topology, "spt"), ELEMENTS).time_ps == OWN
    assert plan_bound(plan(topology, "ring"), ELEMENTS).time_ps == 2 * 7 * OWN // 8
    server = plan_bound(plan(topology, "ps"), ELEMENTS)
    assert (server.time_ps, server.copies) == (8 * OWN, 8)
    assert topology.neighbour(*server.hop) == topology.servers[0].name


@pytest.mark.parametrize(("rate", "least"), [("40G", OWN), ("100G", OWN), ("20G", 2 * OWN), ("1G", 40 * OWN)])
def test_a_server_with_another_link(rate, least):
    assert plan_bound(plan(uneven_star(rate), "ps"), ELEMENTS).time_ps == least


def test_what_crosses_between_switches_bounds_too():
    builder = TopologyBuilder("thin")
    for name in "ab":
        builder.switch(f"s{name}")
        for number in range(2):
            builder.host(f"h{name}{number}")
            builder.link(f"h{name}{number}", f"s{name}", "10G", "1us")
    builder.link("sa", "sb", "1G", "1us")
    topology = builder.build()
    found = plan_bound(plan(topology, "steiner"), ELEMENTS)
    assert found.time_ps == 10 * OWN
    assert found.hop in {("sa", 3), ("sb", 3)}
    # The ring h-a0 a1 b0 b1 crosses once in each direction, 2 * 3/4 of the chunks.
    assert plan_bound(plan(topology, "ring"), ELEMENTS).time_ps == 15 * OWN
    assert task_bound_ps(topology, [host.name for host in topology.hosts], ELEMENTS, 64) == 10 * OWN


def test_operations():
    built = plan(star(3, servers=1), "ps")
    both = plan_bound(built, ELEMENTS, Operation.ALL_REDUCE).time_ps
    for operation, towards_server in ((Operation.PUSH, True), (Operation.PULL, False)):
        found = plan_bound(built, ELEMENTS, operation)
        assert found.time_ps == both == 3 * OWN
        assert (found.hop[0] == "s1") is towards_server
    assert plan_bound(built, 1, Operation.BARRIER).time_ps == 3 * frame_time_ps(62, 10**10)


def test_sizes():
    built = plan(star(3), "spt")
    assert plan_bound(built, 1).time_ps == 273_600
    assert plan_bound(built, 10**30).time_ps == -(-(10**30) // 64) * 273_600
    with pytest.raises(PlanError, match="at least one"):
        plan_bound(built, 0)
    with pytest.raises(PlanError, match="at least one"):
        task_bound_ps(built.topology, built.workers, 0, 64)
    assert task_bound_ps(built.topology, built.workers[:1], 64, 64) == 0


@pytest.mark.parametrize("name", ["leaf-spine-8", "two-racks", "nobel-us", "fat-tree-4"])
def test_the_least_flow_of_all_pairs(name):
    topology = load(name)
    graph = nx.Graph()
    for link in topology.links:
        graph.add_edge(link.a, link.b, capacity=link.rate_bps)
    hosts = [host.name for host in topology.hosts][:6]
    least = min(nx.maximum_flow_value(graph, a, b) for a in hosts for b in hosts if a < b)
    assert task_bound_ps(topology, hosts, 64 * 10, 64) == 10 * frame_time_ps(318, least)
