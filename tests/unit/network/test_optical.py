"""Circuits, gates and pauses, computed by hand."""

from dataclasses import replace
from pathlib import Path

import pytest
from scapy.utils import RawPcapReader

from p4reduce.network.virtual import FabricError, Faults, VirtualNetwork
from p4reduce.network.virtual.synthetic import SyntheticSwitch, frame, senders
from p4reduce.topologies import Topology, TopologyBuilder
from p4reduce.topologies.optical import lay_circuits, oxc

US = 1_000_000
AT_10G = 273_600  # 318 bytes and 24 of overhead


def pods(ports: int = 2, pod_count: int = 3) -> Topology:
    return oxc(pod_count, 1, ports, rate="10G", delay="1us")


def joined(topology: Topology, *pairs: tuple[int, int]) -> list[list[int]]:
    count = len(topology.switches)
    wanted = [[0] * count for _ in range(count)]
    for i, j in pairs:
        wanted[i][j] += 1
        wanted[j][i] += 1
    return wanted


def devices(topology: Topology) -> dict[str, SyntheticSwitch]:
    """Each ToR sends frames that are not for its host by its first fibre."""
    return {
        f"tor{pod}": SyntheticSwitch({host.index: 1 if host.name == f"h{pod}" else 2 for host in topology.hosts})
        for pod in range(1, len(topology.switches) + 1)
    }


def test_a_frame_is_serialized_once_and_crosses_both_fibres(tmp_path: Path) -> None:
    topology = pods()
    network = VirtualNetwork(topology, devices(topology))
    [links] = lay_circuits(topology, [joined(topology, (0, 1))])
    network.reconfigure("oxc1", links)
    network.capture("tor2", links[0].port_b, tmp_path / "in.pcap")
    network.inject("tor1", 1, frame(topology.node("h2").ip, 318), 5 * US)
    network.run()
    network.close()
    at_tor2 = 5 * US + AT_10G + 2 * US
    assert network.now == at_tor2 + AT_10G + 1 * US
    [(_, info)] = RawPcapReader(str(tmp_path / "in.pcap"))
    assert info.sec * 10**9 + info.usec == at_tor2 // 1000
    assert network.links["tor1", 2].busy_ps == AT_10G
    assert network.host_counters("h2").unclaimed == 1


def test_a_bond_sends_at_the_sum_of_its_rates() -> None:
    topology = pods()
    network = VirtualNetwork(topology, devices(topology))
    [links] = lay_circuits(topology, [joined(topology, (0, 1), (0, 1))])
    network.reconfigure("oxc1", links)
    network.inject("tor1", 1, frame(topology.node("h2").ip, 318), 5 * US)
    network.run()
    assert network.links["tor1", 2].busy_ps == AT_10G // 2


def test_what_stays_is_never_dark_and_what_is_the_same_changes_nothing() -> None:
    topology = pods()
    network = VirtualNetwork(topology, devices(topology))
    first, second = lay_circuits(topology, [joined(topology, (0, 1), (1, 2)), joined(topology, (0, 1), (0, 2))])
    for number, links in enumerate((first, first, second)):
        network.reconfigure("oxc1", links, number * 10 * US, 5 * US)
    for time in range(6 * US, 40 * US, US // 2):
        network.inject("tor1", 1, frame(topology.node("h2").ip, 318), time)
    network.run()
    counted = network.links["tor1", 2]
    assert (counted.dark_lost, counted.misrouted) == (0, 0)
    assert counted.delivered == counted.frames == 68


def test_a_dark_loss_is_an_incident_as_every_loss() -> None:
    topology = pods()
    network = VirtualNetwork(topology, devices(topology))
    network.inject("tor1", 1, frame(topology.node("h2").ip, 318), US)  # no circuit at all: dark forever
    network.run()
    assert network.links["tor1", 2].dark_lost == 1
    [(where, seen)] = network.incidents().items()
    assert (where.port, where.destination) == (("tor1", 2), "h2")
    assert (seen.lost, seen.lost_bytes) == (1, 318)


def test_faults_of_a_circuit_are_those_of_the_switch_that_sends() -> None:
    topology = pods()
    network = VirtualNetwork(topology, devices(topology), faults=Faults(duplicate=1.0))
    [links] = lay_circuits(topology, [joined(topology, (0, 1))])
    network.reconfigure("oxc1", links)
    network.inject("tor1", 1, frame(topology.node("h2").ip, 318), US)
    network.run()
    assert network.links["tor1", 2].delivered == 2
    assert network.links["oxc1", 3].delivered == 2  # no further frame
    assert network.host_counters("h2").unclaimed == 4


@pytest.mark.parametrize(
    ("circuits", "said"),
    [
        ([("tor1", 1, "tor2", 2)], "does not lead to"),
        ([("tor1", 2, "tor1", 2)], "joined twice"),
        ([("tor1", 2, "tor2", 2), ("tor1", 2, "tor3", 2)], "joined twice"),
        ([("tor1", 9, "tor2", 2)], "no link at port 9"),
    ],
)
def test_what_is_no_circuit_says_why(circuits: list[tuple[str, int, str, int]], said: str) -> None:
    from p4reduce.topologies import Link

    topology = pods()
    network = VirtualNetwork(topology, devices(topology))
    with pytest.raises(FabricError, match=said):
        network.reconfigure("oxc1", [Link(*ends, 10**10, 0) for ends in circuits])


def test_other_wrong_reconfigurations() -> None:
    topology = pods()
    network = VirtualNetwork(topology, devices(topology))
    with pytest.raises(FabricError, match="no less than no time"):
        network.reconfigure("oxc1", [], 0, -1)
    with pytest.raises(FabricError, match="is no cross-connect"):
        network.reconfigure("tor1", [])


def line() -> Topology:
    builder = TopologyBuilder("line")
    builder.host("h1")
    builder.switch("s1")
    builder.host("h2")
    builder.link("h1", "s1", "10G", "1us")
    builder.link("s1", "h2", "10G", "1us")
    return builder.build()


def test_a_frame_leaves_only_while_its_gate_stays_open_for_it() -> None:
    topology = line()
    network = VirtualNetwork(topology, {"s1": SyntheticSwitch({1: 2})})
    # Queue 0 is open in [0, 1 us), queue 5 in [1 us, 3 us) of every 3 us.
    network.set_gates(("s1", 2), [(US, 0b000001), (2 * US, 0b100000)], longest=318)
    network.inject("s1", 1, frame(topology.node("h2").ip, 318), US - AT_10G + 1)  # one picosecond late: the next cycle
    network.inject("s1", 1, frame(topology.node("h2").ip, 318, tos=5 << 2), US - AT_10G + 2)
    left = []
    for _ in range(2):
        while network.links["s1", 2].frames == len(left):
            network.run(max_events=1)
        left.append(network.now)
    assert left == [US, 3 * US]
    network.inject("s1", 1, frame(topology.node("h2").ip, 318), 7 * US - AT_10G)  # just in time
    network.run(7 * US - AT_10G)
    assert network.links["s1", 2].frames == 3


def test_a_gate_that_stays_closed_keeps_what_it_has_until_gates_are_lifted() -> None:
    topology = line()
    network = VirtualNetwork(topology, {"s1": SyntheticSwitch({1: 2})})
    network.set_gates(("s1", 2), [(US, 0b10)])
    for number in range(5):
        network.inject("s1", 1, frame(topology.node("h2").ip, 318), number * US)
    network.run()
    assert network.links["s1", 2].frames == 0
    network.set_gates(("s1", 2), [])
    network.run()
    assert network.links["s1", 2].frames == 5


def test_a_paused_endpoint_sends_nothing_and_goes_on() -> None:
    topology = line()
    endpoints = senders(topology, ["h1", "h2"])
    endpoints.records["peer"] = topology.node("h2").ip
    endpoints.records["length"] = 318
    endpoints.records["to_send"] = 10, 0
    endpoints.records["expected"] = 0, 10
    network = VirtualNetwork(topology, {"s1": SyntheticSwitch({1: 2})}, endpoints=endpoints)
    network.pause(0, 3 * AT_10G)
    network.resume(0, 50 * US)
    network.start(0)
    network.run(50 * US - 1)
    sent = network.links["h1", 1].frames
    assert sent in (3, 4)  # the fourth begins as the pause does
    network.run(watch=[1])
    assert network.now == 50 * US + (10 - sent) * AT_10G + US + AT_10G + US


def test_a_circuit_is_as_long_as_it_says_and_frames_under_way_keep_their_way() -> None:
    """A lightpath through other cities: 30 us beyond the cross-connect; the next circuit is short."""
    topology = pods()
    network = VirtualNetwork(topology, devices(topology))
    [[link]] = lay_circuits(topology, [joined(topology, (0, 1))])
    network.reconfigure("oxc1", [replace(link, delay_ps=link.delay_ps + 30 * US)])
    network.inject("tor1", 1, frame(topology.node("h2").ip, 318), 5 * US)
    network.inject("tor1", 1, frame(topology.node("h2").ip, 318), 15 * US)
    network.reconfigure("oxc1", [link], 12 * US)
    network.run(5 * US + 2 * AT_10G + 33 * US - 1)
    assert network.host_counters("h2").unclaimed == 1, "the second frame, on the short circuit, has overtaken the first"
    network.run()
    assert network.now == 5 * US + 2 * AT_10G + 33 * US
    assert network.host_counters("h2").unclaimed == 2
