"""Background traffic: its amount, its destinations, and its coexistence with jobs."""

import numpy as np
import pytest

from p4reduce.network.background import (
    BackgroundEndpoints,
    Demands,
    SourceOptions,
    background_calls,
    gravity,
    link_loads,
    sndlib,
)
from p4reduce.network.jobs.network import EmbeddedSwitches, bundled
from p4reduce.network.virtual import FabricError, HostEndpoints, StopReason, VirtualNetwork
from p4reduce.network.virtual.synthetic import route_all
from p4reduce.topologies import leaf_spine, wan

US = 1_000_000
MS = 1000 * US


def network_with(topology, demands, *, seed=1, devices=None, options=None):
    endpoints = BackgroundEndpoints(topology, demands, options or SourceOptions(), seed)
    network = VirtualNetwork(
        topology,
        devices or route_all(topology),
        endpoints=HostEndpoints(endpoints.records, endpoints.hosts, background_calls()),
    )
    for index in range(endpoints.sources):
        network.start(index)
    return network, endpoints


def test_gravity_demands_are_products_of_weights():
    demands = gravity(("a", "b", "c"), 7)
    assert not demands.bps.diagonal().any()
    np.testing.assert_allclose(demands.bps, demands.bps.T)
    ratio = demands.bps[0, 1] / demands.bps[0, 2]  # w_b / w_c, independent of the third host
    assert ratio > 0
    np.testing.assert_allclose(gravity(("a", "b", "c"), 7, sigma=0).bps[0, 1], 1 / 3)


def test_sndlib_demands_are_those_of_the_graph():
    topology = wan("nobel-us")
    demands = sndlib(topology, "nobel-us")
    assert demands.hosts[0] == "Palo-Alto-h1"
    assert demands.bps[0, 1] == 52.0  # as in the file
    assert demands.bps.sum() > 0
    with pytest.raises(FabricError, match="has 14 cities"):
        sndlib(wan("germany50"), "nobel-us")
    with pytest.raises(FabricError, match="no 'nowhere'"):
        sndlib(topology, "nowhere")


def test_at_load_scales_the_busiest_host_link():
    topology = leaf_spine(2, 2, 4, rate="40G")
    demands = gravity(tuple(host.name for host in topology.workers), 3).at_load(topology, 0.5)
    assert max(demands.sent_bps.max(), demands.received_bps.max()) == pytest.approx(20e9)
    with pytest.raises(FabricError, match="load"):
        demands.at_load(topology, 1.0)


def test_links_carry_about_what_was_demanded_and_nothing_is_lost():
    topology = leaf_spine(2, 2, 4, rate="10G")
    demands = gravity(tuple(host.name for host in topology.workers), 3, sigma=0.5).at_load(topology, 0.4)
    network, endpoints = network_with(topology, demands)
    assert network.run(MS) is StopReason.TIME
    before, since = dict(network.links), network.now
    assert network.run(21 * MS) is StopReason.TIME
    loads = link_loads(network, before, since)
    for place, host in enumerate(demands.hosts):
        # Frames occupy 24 bytes more than their length; bursts are random, so the rate is only near its mean.
        wanted = demands.sent_bps[place] * (1086 + 24) / 1086
        assert loads[(host, 1)] == pytest.approx(wanted, rel=0.1)
    assert 0 <= endpoints.sent - endpoints.received < 100  # those on their way
    assert all(network.host_counters(host).unclaimed == 0 for host in demands.hosts)


def test_bursts_go_where_the_matrix_says():
    topology = leaf_spine(1, 1, 3, rate="10G")
    demands = Demands(("h1", "h2", "h3"), np.array([[0, 3e9, 1e9], [0, 0, 0], [0, 0, 0]]))
    network, endpoints = network_with(topology, demands)
    network.run(20 * MS)
    assert network.links["h2", 1].frames == network.links["h3", 1].frames == 0
    two, three = network.host_counters("h2").claimed, network.host_counters("h3").claimed
    assert endpoints.sent > 1000
    assert two / (two + three) == pytest.approx(0.75, abs=0.06)


def test_the_same_seed_gives_the_same_traffic_and_another_seed_other():
    topology = leaf_spine(2, 2, 2)
    demands = gravity(tuple(host.name for host in topology.workers), 3).at_load(topology, 0.3)
    counted = []
    for seed in (1, 1, 2):
        network, _ = network_with(topology, demands, seed=seed)
        network.run(3 * MS)
        counted.append(network.links.array().tobytes())
    assert counted[0] == counted[1] != counted[2]


def test_the_p4_program_forwards_it():
    topology = leaf_spine(2, 1, 2)
    demands = gravity(tuple(host.name for host in topology.workers), 3).at_load(topology, 0.3)
    with EmbeddedSwitches(topology, bundled(64)) as switches:
        network, endpoints = network_with(topology, demands, devices=switches.devices())
        network.run(MS)
        refused = switches.controller.read_counters()
    assert endpoints.received > 0.9 * endpoints.sent > 0
    assert all(not own.refused for own in refused.values())


def test_more_than_bursts_allow_is_refused():
    topology = leaf_spine(1, 1, 2, rate="10G")
    demands = Demands(("h1", "h2"), np.array([[0, 9.5e9], [0, 0]]))
    with pytest.raises(FabricError, match=r"h1 shall send 9\.5 Gb/s"):
        BackgroundEndpoints(topology, demands, SourceOptions(), 0)
