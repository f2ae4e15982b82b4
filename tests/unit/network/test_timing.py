"""Arrival times of frames to the picosecond, calculated by hand."""

from pathlib import Path

import pytest
from scapy.utils import RawPcapReader

from p4reduce.network.virtual import FabricError, StopReason, VirtualNetwork
from p4reduce.network.virtual.synthetic import frame, route_all, senders, stamps
from p4reduce.topologies import Topology, TopologyBuilder

# 318 bytes and 24 of overhead are 2736 bits: 273.6 ns at 10 Gb/s, 547.2 ns at 5 Gb/s.
AT_10G, AT_5G = 273_600, 547_200
US = 1_000_000


def line(first: str = "10G", second: str = "5G") -> Topology:
    """Return h1 - s1 - h2 with delays of 1 us and 2 us."""
    builder = TopologyBuilder("line")
    builder.host("h1")
    builder.switch("s1")
    builder.host("h2")
    builder.link("h1", "s1", first, "1us")
    builder.link("s1", "h2", second, "2us")
    return builder.build()


def times_at(path: Path) -> list[int]:
    return [info.sec * 10**9 + info.usec for _, info in RawPcapReader(str(path))]


def test_one_frame_over_two_links() -> None:
    topology = line()
    endpoints = senders(topology, ["h1", "h2"])
    endpoints.records["peer"] = topology.node("h2").ip
    endpoints.records["length"] = 318
    endpoints.records["to_send"] = 1, 0
    endpoints.records["expected"] = 0, 1
    network = VirtualNetwork(topology, route_all(topology), endpoints=endpoints)
    network.start(0, at_ps=7)
    assert network.run(watch=[0, 1]) is StopReason.DONE
    assert network.now == 7 + AT_10G + US + AT_5G + 2 * US
    assert endpoints.records["last_ps"][1] == network.now
    assert network.links["h1", 1].busy_ps == AT_10G
    assert network.links["s1", 2].busy_ps == AT_5G


def test_frames_wait_for_the_slower_link() -> None:
    topology = line()
    endpoints = senders(topology, ["h1", "h2"])
    endpoints.records["peer"] = topology.node("h2").ip
    endpoints.records["length"] = 318
    endpoints.records["to_send"] = 10, 0
    endpoints.records["expected"] = 0, 10
    network = VirtualNetwork(topology, route_all(topology), endpoints=endpoints)
    network.start(0)
    network.run(watch=[1])
    # Store and forward: the first bit leaves s1 when the first frame is complete; then the link is never idle.
    assert network.now == AT_10G + US + 10 * AT_5G + 2 * US
    # Frame k comes at k * 273.6 ns and leaves at 547.2 (k - 1) after the first: at most five wait.
    assert network.links["s1", 2].max_depth == 5


@pytest.mark.parametrize(
    ("length", "rate", "expected_ps"),
    [
        (14, "10G", 67_200),  # padded to 60: 84 * 8 bits
        (60, "10G", 67_200),
        (61, "10G", 68_000),
        (318, "7G", 390_858),  # 2736 bits / 7 Gb/s = 390857.14 ps, rounded up
        (1500, "100G", 121_920),
        (1600, "1M", 12_992_000_000),
    ],
)
def test_time_on_a_link(length: int, rate: str, expected_ps: int) -> None:
    topology = line(first=rate)
    network = VirtualNetwork(topology, route_all(topology))
    network.send("h1", bytes(length))
    network.run()
    assert network.links["h1", 1].busy_ps == expected_ps
    assert network.links["h1", 1].bytes == length


def test_pipeline_delay_and_what_egress_is_told(tmp_path: Path) -> None:
    topology = line()
    network = VirtualNetwork(topology, route_all(topology), pipeline_delay_ps={"s1": 3 * US})
    network.capture("h2", 1, tmp_path / "h2.pcap")
    for number in range(3):
        network.send("h1", frame(topology.node("h2").ip, 318, number=number))
    network.run()
    seen = list(RawPcapReader(str(tmp_path / "h2.pcap")))
    first_ps = AT_10G + US + 3 * US + AT_5G + 2 * US
    assert [info.sec * 10**9 + info.usec for _, info in seen] == [(first_ps + k * AT_5G) // 1000 for k in range(3)]
    assert [int.from_bytes(data[50:54], "big") for data, _ in seen] == [0, 1, 2]
    # In: 4.2736, 4.5472, 4.8208 us. Out: 4.2736, 4.8208, 5.3680 us. Stamps are whole microseconds.
    told = [stamps(data) for data, _ in seen]
    assert [t["enq_time_us"] for t in told] == [4, 4, 4]
    assert [t["time_us"] for t in told] == [4, 4, 5]
    assert [t["deq_timedelta_us"] for t in told] == [0, 0, 1]
    assert [t["enq_qdepth"] for t in told] == [0, 0, 1]
    assert [t["deq_qdepth"] for t in told] == [0, 1, 0]
    # Ingress gets the arrival time of the frame, not the end of its pass: 1.2736, 1.5472, 1.8208 us.
    assert [(t["ingress_us"], t["ingress_port"]) for t in told] == [(1, 1), (1, 1), (1, 1)]
    assert [(t["rid"], t["instance"]) for t in told] == [(0, 0), (0, 0), (0, 0)]


def test_capture_stamps_leaving_and_arriving(tmp_path: Path) -> None:
    topology = line()
    with VirtualNetwork(topology, route_all(topology)) as network:
        network.capture("h1", 1, tmp_path / "h1.pcap")
        network.capture("s1", 1, tmp_path / "s1.pcap")
        network.send("h1", frame(topology.node("h2").ip, 318), at_ps=5 * US)
        network.send("h2", frame(topology.node("h1").ip, 318), at_ps=2 * 10**12 + 999)
        network.run()
    back_at_s1 = 2 * 10**12 + 999 + AT_5G + 2 * US
    back_at_h1 = back_at_s1 + AT_10G + US
    assert times_at(tmp_path / "s1.pcap") == [(5 * US + AT_10G + US) // 1000, back_at_s1 // 1000]
    assert times_at(tmp_path / "h1.pcap") == [5000, back_at_h1 // 1000]


def test_until_is_exact_and_time_goes_on() -> None:
    topology = line()
    network = VirtualNetwork(topology, route_all(topology))
    network.send("h1", frame(topology.node("h2").ip, 318))
    assert network.run(AT_10G + US - 1) is StopReason.TIME
    assert network.now == AT_10G + US - 1
    assert network.switch_counters("s1").passes == 0
    assert network.run(AT_10G + US) is StopReason.TIME
    assert network.switch_counters("s1").passes == 1
    assert network.run() is StopReason.QUIET
    assert network.host_counters("h2").unclaimed == 1
    with pytest.raises(FabricError, match="past"):
        network.send("h1", bytes(60), at_ps=5)
    then = network.now + 5
    assert network.run(then) is StopReason.QUIET
    assert network.now == then


def test_two_routes_meet_at_one_time_in_order_of_sending() -> None:
    """Events at the same picosecond happen in the order in which they were scheduled, in every run."""
    builder = TopologyBuilder("fork")
    builder.switch("s1")
    for name in ("h1", "h2", "h3"):
        builder.host(name)
        builder.link(name, "s1", "10G", "1us")
    topology = builder.build()
    orders = []
    for _ in range(2):
        network = VirtualNetwork(topology, route_all(topology))
        for host, tos in (("h2", 4), ("h1", 0)):
            network.send(host, frame(topology.node("h3").ip, 318, tos=tos))
        network.run(until_ps=AT_10G + US)
        orders.append((network.links["s1", 3].frames, network.links["s1", 3].max_depth))
        network.run()
        assert network.links["s1", 3].delivered == 2
    assert orders == [(1, 1), (1, 1)]
