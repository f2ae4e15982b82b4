"""Policies where links are down or full, so that some switches are reached by no worker, or in one direction only."""

import pytest

from p4reduce.control_plane.scheduling import NetworkState, Rejection, Task, policy_named
from p4reduce.topologies import load

GBPS = 10**9
POLICIES = ("steiner", "exact", "spt", "overlay-mst", "spff-ina")


@pytest.mark.parametrize("policy", POLICIES)
def test_surplus_children_do_not_move_to_a_switch_that_is_not_reached(policy):
    """34 workers under a leaf, which can have 32 children; the only other leaf is behind a dead spine."""
    topology = load("leaf-spine:leaves=2,spines=1,hosts=36,servers=1")
    down = {
        hop
        for link in topology.links
        if "spine1" in (link.a, link.b)
        for hop in ((link.a, link.port_a), (link.b, link.port_b))
    }
    near = [host.name for host in topology.workers if topology.neighbours(host.name)[0] == "leaf1"]
    task = Task("t", "server1", tuple(near[:34]), elements=1000, demand_bps=10**7, aggregation="switches")
    with pytest.raises(Rejection, match="would have 34 children"):
        policy_named(policy)(task, NetworkState(topology, down=down))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_switch_adds_for_its_own_workers_though_others_do_not_reach_it(policy):
    """Each link between leaf2 and a spine is full in one direction: a copy of one tree fits, three copies do not."""
    topology = load("leaf-spine:leaves=2,spines=2,hosts=4,servers=1")
    used = {("leaf2", "spine1"): 9, ("leaf2", "spine2"): 10, ("spine2", "leaf2"): 9, ("spine1", "leaf2"): 10}
    background = {(a, topology.port(a, b)): rate * GBPS for (a, b), rate in used.items()}
    task = Task("t", "server1", ("h1", "h5", "h6", "h7"), elements=10_000, demand_bps=GBPS)
    decision = policy_named(policy)(task, NetworkState(topology, background_bps=background))
    assert decision is not None
