"""Policies that the experiment adds to the scheduler's."""

from random import Random

from p4reduce.control_plane.plans import StarLayout
from p4reduce.control_plane.scheduling import NetworkState, Task
from p4reduce.control_plane.scheduling.view import POLICIES
from p4reduce.topologies import load, with_capable


def test_routes_of_the_tree_are_asked_for_where_a_tree_is_a_detour():
    """With few capable switches overlay-mst equals spff, which has no tree."""
    topology = with_capable(load("germany50"), ["Hamburg"])
    hosts = [host.name for host in topology.hosts]
    stars = 0
    for seed in range(8):
        server, *workers = Random(seed).sample(hosts, 4)
        task = Task("t", server, tuple(workers), 1000, demand_bps=10**6)
        stars += isinstance(POLICIES["overlay-mst"](task, NetworkState(topology)).upload, StarLayout)
        routed = POLICIES["mst-routes"](task, NetworkState(topology)).upload
        assert isinstance(routed, StarLayout)
        assert len(routed.paths) == 2 * len(workers)
    assert stars
