from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.counters import Operation, lossy_bound_ps, plan_bound, task_bound_ps
from p4reduce.control_plane.plans import Plan, PlanRequest, make_plan
from p4reduce.control_plane.plans.routes import frame_time_ps
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import load, star
from p4reduce.topologies.datacenter import TopologyBuilder

OWN = 1000 * 273_600
"""time of 1,000 frames of 64 lanes at 10 Gb/s, in ps"""
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


def drawn_tail_ps(laid_out: Plan, loss: float, chunks: int, apart_ps: float, *, runs: int) -> float:
    """Estimate `lossy_bound_ps`'s tail by simulation: the mean delay of the last chunk over some runs."""
    random, topology = np.random.default_rng(7), laid_out.topology

    def late(source: str, destination: str) -> np.ndarray:  # type: ignore[type-arg]
        total = np.zeros((runs, chunks))
        for a, b in pairwise(laid_out.paths[source, destination]):
            link = topology.link_between(a, b)
            frame_ps = (laid_out.frame_bytes + 24) * 8 * 10**12 / link.rate_bps
            total += (random.geometric(1 - loss, total.shape) - 1) * (2 * link.delay_ps + frame_ps)
        return total

    def up(node: str) -> np.ndarray:  # type: ignore[type-arg]
        below = [late(child, node) + up(child) for child, parent in laid_out.edges if parent == node]
        return np.max(below, axis=0) if below else np.zeros((runs, chunks))

    def down(node: str) -> np.ndarray:  # type: ignore[type-arg]
        below = [late(node, child) + down(child) for child, parent in laid_out.edges if parent == node]
        return np.max(below, axis=0) if below else np.zeros((runs, chunks))

    if laid_out.ring:
        every = np.max([late(*edge) for edge in laid_out.edges], axis=0)
    else:
        top = laid_out.root if laid_out.server is None else laid_out.server
        every = up(top) + down(top)
    return float(np.maximum((every - apart_ps * np.arange(chunks)).max(axis=1), 0).mean())


@pytest.mark.parametrize(
    ("source", "planner", "loss"),
    [
        ("leaf-spine-8", "steiner", 0.05),
        ("leaf-spine-8", "ring", 0.01),
        ("leaf-spine-8", "ps", 0.3),
        ("fat-tree-4", "steiner", 0.01),
        ("germany50", "steiner", 0.05),
    ],
)
def test_the_bound_with_losses_is_what_draws_give(source, planner, loss):
    laid_out = plan(load(source), planner)
    bound = plan_bound(laid_out, 64 * 64).time_ps
    found = lossy_bound_ps(bound, loss, [(laid_out, 64 * 64)], Operation.ALL_REDUCE)
    paced = bound / (1 - loss)
    wanted = paced + drawn_tail_ps(laid_out, loss, 64, paced / 64, runs=2000)
    assert found == pytest.approx(wanted, rel=0.025)
    assert found > bound


def test_without_time_there_is_no_bound_with_losses_below_that_without():
    laid_out = plan(load("leaf-spine-8"), "steiner")
    tiny = lossy_bound_ps(1000, 1e-12, [(laid_out, 1)], Operation.ALL_REDUCE)
    assert 1000 <= tiny <= 1001
    barrier = lossy_bound_ps(1000, 0.5, [(laid_out, 1)], Operation.BARRIER)
    assert barrier > 2000
