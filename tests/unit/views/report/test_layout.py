"""Drawings: distinct node positions, levels in rows, geographic positions on maps."""

import math
from itertools import combinations

import pytest

from p4reduce.topologies import bundled, load
from p4reduce.views.report.network import NodePositions, place


def placed(topology, positions=True):
    nodes = {node.name: node.position if positions else None for node in topology.nodes}
    links = [(link.a, link.b) for link in topology.links]
    return place(nodes, [host.name for host in topology.hosts], links)


@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("name", bundled())
def test_everything_is_inside_and_apart(name, positions):
    topology = load(name)
    found = placed(topology, positions)
    assert set(found.at) == {node.name for node in topology.nodes}
    assert all(0 < x < found.width and 0 < y < found.height for x, y in found.at.values())
    least = 4.0 if found.is_map else 40.0
    assert min(math.dist(a, b) for a, b in combinations(found.at.values(), 2)) >= least
    assert found == placed(topology, positions)


@pytest.mark.parametrize("name", ["leaf-spine-8", "fat-tree-4", "star8"])
def test_levels_are_rows_with_hosts_below(name):
    topology = load(name)
    found = placed(topology, positions=False)
    assert not found.is_map
    lowest = max(y for _, y in found.at.values())
    assert {found.at[host.name][1] for host in topology.hosts} == {lowest}
    assert all(found.at[switch.name][1] < lowest for switch in topology.switches)


def test_hosts_stand_with_their_switch():
    topology = load("leaf-spine-8")
    found = placed(topology)
    order = sorted((host.name for host in topology.hosts), key=lambda name: found.at[name][0])
    switches = [topology.neighbours(name)[0] for name in order]
    assert switches == sorted(switches)


def test_a_map_keeps_north_and_west():
    topology = load("germany50")
    found = placed(topology)
    assert found.is_map
    assert found.at["Flensburg"][1] < found.at["Muenchen"][1]
    assert found.at["Aachen"][0] < found.at["Berlin"][0]


@pytest.mark.parametrize(("nodes", "hosts", "links"), [("a", [], []), ("ab", ["a", "b"], [("a", "b")])])
def test_very_small_networks(nodes, hosts, links):
    found = place(dict.fromkeys(nodes), hosts, links)
    assert isinstance(found, NodePositions)
    assert set(found.at) == set(nodes)
