"""Any network with any faults: no frame appears or disappears uncounted, and no memory leaks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from p4reduce.network.virtual import Faults, HostEndpoints, StopReason, VirtualNetwork
from p4reduce.network.virtual.synthetic import route_all, senders
from p4reduce.topologies import Topology, TopologyBuilder
from tests.support.effort import examples

RATES = ("1G", "10G", "7G", "100G")
DELAYS = ("1ns", "1us", "30us")

probability = st.sampled_from((0.0, 0.0, 0.05, 0.3, 1.0))
faults = st.builds(
    Faults,
    loss=probability,
    duplicate=probability,
    reorder=probability,
    corrupt=probability,
    reorder_delay_ps=st.integers(1, 50_000_000),
)


@st.composite
def topologies(draw: Any) -> Topology:
    """Draw a random tree of switches with extra links, and hosts anywhere."""
    builder = TopologyBuilder("random")
    switches = draw(st.integers(1, 6))
    joined = set()
    for number in range(switches):
        builder.switch(f"s{number}")
        if number:
            other = draw(st.integers(0, number - 1))
            joined.add((other, number))
    for _ in range(draw(st.integers(0, 3))):
        pair = sorted((draw(st.integers(0, switches - 1)), draw(st.integers(0, switches - 1))))
        if pair[0] != pair[1]:
            joined.add((pair[0], pair[1]))
    for one, other in sorted(joined):
        builder.link(f"s{one}", f"s{other}", draw(st.sampled_from(RATES)), draw(st.sampled_from(DELAYS)))
    for number in range(draw(st.integers(2, 5))):
        builder.host(f"h{number}")
        at = draw(st.integers(0, switches - 1))
        builder.link(f"h{number}", f"s{at}", draw(st.sampled_from(RATES)), draw(st.sampled_from(DELAYS)))
    return builder.build()


@dataclass(frozen=True)
class Recipe:
    """A network that can be built several times."""

    topology: Topology
    hosts: list[str]
    endpoints: list[dict[str, int]]
    starts: list[int]
    options: dict[str, Any]

    def build(self) -> tuple[VirtualNetwork, HostEndpoints]:
        endpoints = senders(self.topology, self.hosts)
        for record, values in zip(endpoints.records, self.endpoints, strict=True):
            for name, value in values.items():
                record[name] = value
        network = VirtualNetwork(self.topology, route_all(self.topology), endpoints=endpoints, **self.options)
        for index, at_ps in enumerate(self.starts):
            network.start(index, at_ps=at_ps)
        return network, endpoints


@st.composite
def recipes(draw: Any) -> Recipe:
    topology = draw(topologies())
    hosts = [host.name for host in topology.hosts for _ in range(draw(st.integers(1, 2)))]
    endpoints = [
        {
            "peer": draw(st.sampled_from(topology.hosts)).ip,
            "length": draw(st.sampled_from((62, 100, 318, 1500))),
            "to_send": draw(st.integers(0, 60)),
            "gap_ps": draw(st.sampled_from((0, 0, 1, 2_000_000))),
            "resend_every": draw(st.integers(0, 3)),
            "tos": 4 * draw(st.integers(0, 7)),
        }
        for _ in hosts
    ]
    by_link = st.dictionaries(st.sampled_from(_ports(topology)), faults)
    options = {
        "faults": draw(st.one_of(st.just(Faults()), faults, by_link)),
        "seed": draw(st.integers(0, 2**63)),
        "queue_frames": draw(st.sampled_from((1, 4, 1000))),
        "pipeline_delay_ps": draw(st.sampled_from((0, 700_000))),
        "max_replicas": draw(st.sampled_from((1, 512))),
    }
    starts = [draw(st.sampled_from((0, 0, 999_999))) for _ in hosts]
    return Recipe(topology, hosts, endpoints, starts, options)


def _ports(topology: Topology) -> list[tuple[str, int]]:
    return [end for link in topology.links for end in ((link.a, link.port_a), (link.b, link.port_b))]


@settings(max_examples=examples(50, 120), deadline=None, suppress_health_check=list(HealthCheck))
@given(recipes())
def test_every_frame_is_accounted_for(recipe: Recipe) -> None:
    network, endpoints = recipe.build()
    assert network.run() is StopReason.QUIET
    topology, links = network.topology, network.links
    for port, counters in links.items():
        assert counters.frames + counters.duplicated == counters.delivered + counters.lost + counters.corrupted
        assert counters.frames == counters.inc_first_frames + counters.inc_resend_frames
        assert counters.unattributed == 0
        # The last frame may be lost: then no event happens when its link becomes free.
        free_at = network._wiring.links[network._wiring.link_places[port]]["free_at"]
        assert counters.busy_ps <= max(network.now, free_at)
    for switch in topology.switches:
        own = network.switch_counters(switch.name)
        came = [links[other, topology.port(other, switch.name)] for other in topology.neighbours(switch.name)]
        left = [links[switch.name, port] for port in range(1, len(came) + 1)]
        assert sum(c.delivered for c in came) == own.passes
        assert own.passes == own.copies + own.ingress_drops == sum(c.frames + c.queue_drops for c in left)
    records = endpoints.records
    assert (
        sum(links[host.name, 1].frames for host in topology.hosts) == records["sent"].sum() == records["to_send"].sum()
    )
    claimed = [network.host_counters(host.name) for host in topology.hosts]
    assert sum(c.claimed for c in claimed) == records["received"].sum()
    assert all(c.unclaimed == 0 for c in claimed)
    first_lost = sum(s.lost + s.corrupted + s.queue_dropped - s.duplicated for s in network.incidents().values())
    first_sent = sum(links[host.name, 1].inc_first_frames for host in topology.hosts)
    assert first_sent - first_lost == _first_received(network)
    _assert_nothing_leaked(network)


def _first_received(network: VirtualNetwork) -> int:
    """Return first transmissions that hosts received: those on their links minus those lost there."""
    topology = network.topology
    total = 0
    for host in topology.hosts:
        switch = topology.neighbours(host.name)[0]
        port = (switch, topology.port(switch, host.name))
        seen = [incident for (place, _, _), incident in network.incidents().items() if place == port]
        total += network.links[port].inc_first_frames
        total += sum(s.duplicated - s.lost - s.corrupted for s in seen)
    return total


def _assert_nothing_leaked(network: VirtualNetwork) -> None:
    memory = network._memory
    world = memory.world[0]
    assert world["free_frames"] == len(memory.frames.records)
    assert world["free_phvs"] == len(memory.phvs.records)
    assert world["free_copies"] == len(memory.copies.records)
    assert world["heap_size"] == 0
    assert np.all(network._wiring.links["backlog"] == 0)


@settings(max_examples=examples(15, 40), deadline=None, suppress_health_check=list(HealthCheck))
@given(recipes(), st.integers(1, 50), st.integers(1, 3_000_000))
def test_pauses_change_nothing(recipe: Recipe, most_events: int, pause_ps: int) -> None:
    """The same network runs at once, in slices of events and in slices of time."""
    network, endpoints = recipe.build()
    network.run()
    again, same = recipe.build()
    for _ in range(20):
        again.run(max_events=most_events)
        again.run(until_ps=again.now + pause_ps)
    again.run()
    assert again.events == network.events
    assert dict(again.links) == dict(network.links)
    assert again.incidents() == network.incidents()
    assert same.records.tolist() == endpoints.records.tolist()
