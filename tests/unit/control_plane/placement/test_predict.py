"""Loads and iteration times, compared with sums by hand."""

import numpy as np
import pytest

from p4reduce.control_plane.placement import IterationLoad, Racks
from p4reduce.control_plane.placement.cluster import iteration_times, ring_copies, tree_copies
from p4reduce.topologies import fat_tree, leaf_spine

TOPOLOGY = leaf_spine(leaves=3, spines=2, hosts=4)
RACKS = Racks(TOPOLOGY)
HOSTS = ("h1", "h2", "h3", "h5", "h6")
"""three hosts of leaf1, two of leaf2"""


def named(copies):
    links = {number: (one.a, one.b) for number, one in enumerate(TOPOLOGY.links)}
    return {links[number]: times for number, times in copies.copies.items()}


def way(root="spine1"):
    (found,) = [one for one in RACKS.ways({"leaf1", "leaf2"}) if one.root == root]
    return found


def test_a_tree_that_aggregates_everywhere_has_one_copy_on_every_link():
    found = tree_copies(RACKS, HOSTS, way(), {"leaf1", "leaf2", "spine1"})
    assert set(named(found).values()) == {1.0}
    assert len(found.copies) == len(HOSTS) + 2
    assert set(found.slots) == {"leaf1", "leaf2", "spine1"}


def test_a_switch_that_does_not_aggregate_sends_all_on():
    links = named(tree_copies(RACKS, HOSTS, way(), {"leaf2", "spine1"}))
    assert {copies for (a, b), copies in links.items() if {"leaf1", "spine1"} == {a, b}} == {3.0}
    assert {copies for (a, b), copies in links.items() if {"leaf2", "spine1"} == {a, b}} == {1.0}


def test_a_server_gets_the_sum_or_every_copy():
    links = named(tree_copies(RACKS, HOSTS, way(), {"leaf1", "leaf2", "spine1"}, "h4"))
    assert links[("h4", "leaf1")] if ("h4", "leaf1") in links else links[("leaf1", "h4")] == 1.0
    copies = tree_copies(RACKS, HOSTS, way(), {"leaf1", "leaf2"}, "h7").copies
    assert copies[RACKS.uplink("h7")] == 2.0


def test_a_ring_has_its_share_on_every_link():
    found = ring_copies(RACKS, HOSTS, way())
    assert set(found.copies.values()) == {2 * 4 / 5}
    assert len(found.copies) == len(HOSTS) + 2
    assert ring_copies(RACKS, ("h1",), way()).copies == {}


def test_ways_of_a_fat_tree():
    racks = Racks(fat_tree(k=4))
    edges = list(racks.members)
    assert len(racks.ways(edges[:1])) == 1
    assert len(racks.ways(edges[:2])) == 2  # within a pod: either aggregation switch
    assert {one.root for one in racks.ways([edges[0], edges[2]])} <= {
        switch.name for switch in racks.topology.switches
    } - set(edges)
    assert len(racks.ways([edges[0], edges[2]])) >= 4  # one path for each core switch


def test_jobs_that_share_nothing_take_their_time_alone():
    found = iteration_times([IterationLoad(1.0, {0: 2.0}), IterationLoad(0.5, {1: 1.0})], np.array([1.0, 1.0]))
    assert found.tolist() == [3.0, 1.5]


def test_jobs_that_only_communicate_share_evenly():
    for count in (2, 3, 5):
        found = iteration_times([IterationLoad(0.0, {0: 1.0})] * count, np.array([1.0]))
        assert found == pytest.approx(count, rel=1e-3)


def test_two_jobs_that_communicate_half_of_the_time_meet_with_the_mean_of_all_phases():
    """M = 1 + p, p = M / (1 + M), so M = (1 + sqrt 5) / 2."""
    found = iteration_times([IterationLoad(1.0, {0: 1.0})] * 2, np.array([1.0]))
    assert found == pytest.approx(1 + (1 + 5**0.5) / 2, rel=1e-3)


def test_who_is_slow_elsewhere_leaves_the_rest_of_a_link():
    slow = IterationLoad(0.0, {0: 1.0, 1: 10.0})
    alone, _ = iteration_times([IterationLoad(0.0, {0: 1.0}), slow], np.array([1.0, 1.0]))
    assert alone == pytest.approx(1 + 0.1 / 0.9, rel=1e-2)


def test_the_order_of_jobs_does_not_matter():
    loads = [IterationLoad(0.1 * n, {0: 1.0, n: 2.0}) for n in range(1, 5)]
    capacity = np.ones(8)
    found = iteration_times(loads, capacity)
    assert iteration_times(loads[::-1], capacity)[::-1] == pytest.approx(found)
