"""Injected faults: their rates, their counts, and their dependence on the seed."""

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scapy.utils import RawPcapReader

from p4reduce.network.virtual import FabricError, Faults, LinkCounters, VirtualNetwork
from p4reduce.network.virtual.kernels.events import draw, link_key, threshold
from p4reduce.network.virtual.records import LINK
from p4reduce.network.virtual.synthetic import frame, route_all, senders
from p4reduce.topologies import leaf_spine, star

ALL = Faults(loss=0.1, duplicate=0.2, reorder=0.3, corrupt=0.15, reorder_delay_ps=3_000_000)


def test_capture_shows_what_is_lost_only_where_it_left(tmp_path: Path) -> None:
    topology = star(2)
    with VirtualNetwork(topology, route_all(topology), faults={("h1", 1): Faults(loss=0.5)}, seed=4) as network:
        network.capture("h1", 1, tmp_path / "h1.pcap")
        network.capture("s1", 1, tmp_path / "s1.pcap")
        with pytest.raises(FabricError, match="captured already"):
            network.capture("s1", 1, tmp_path / "again.pcap")
        for number in range(20_000):
            network.send("h1", frame(topology.node("h2").ip, 300, number=number))
        network.run()
        link = network.links["h1", 1]
    assert link.frames == 20_000
    left = [data for data, _ in RawPcapReader(str(tmp_path / "h1.pcap"))]
    came = [data for data, _ in RawPcapReader(str(tmp_path / "s1.pcap"))]
    assert [int.from_bytes(data[50:54], "big") for data in left] == list(range(20_000))
    assert len(came) == link.delivered
    assert set(came) <= set(left)


def test_draws_are_splitmix64() -> None:
    """The published test vector for seed 1234567: draw number 0, purposes 1 to 5."""
    link = np.zeros(1, dtype=LINK)
    link["key"] = 1234567
    drawn = [int(draw(link[0], np.uint64(0), purpose)) for purpose in range(1, 6)]
    assert drawn == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_keys_differ_by_seed_and_link() -> None:
    keys = {link_key(seed, link) for seed in range(50) for link in range(50)}
    assert len(keys) == 2500
    assert threshold(1.0) == 1 << 53
    assert threshold(0.0) == 0


def one_link(count: int, faults: Faults, seed: int = 1, **options: Path) -> tuple[VirtualNetwork, LinkCounters]:
    """Send ``count`` frames from h1 to h2, with faults only on h1's link."""
    topology = star(2, rate="100G")
    endpoints = senders(topology, ["h1", "h2"])
    endpoints.records["peer"] = topology.node("h2").ip
    endpoints.records["length"] = 100
    endpoints.records["to_send"] = count, 0
    network = VirtualNetwork(
        topology, route_all(topology), endpoints=endpoints, faults={("h1", 1): faults}, seed=seed, queue_frames=10**6
    )
    if "capture" in options:
        network.capture("s1", 1, options["capture"])
    network.start(0)
    network.run()
    return network, network.links["h1", 1]


@pytest.mark.parametrize("name", ["loss", "duplicate", "reorder", "corrupt"])
def test_rate_of_each_fault(name: str) -> None:
    count, rate = 100_000, 0.01
    network, link = one_link(count, Faults(**{name: rate}))
    happened = {
        "loss": link.lost,
        "duplicate": link.duplicated,
        "reorder": link.reordered,
        "corrupt": link.corrupted,
    }
    deviation = (count * rate * (1 - rate)) ** 0.5
    assert abs(happened.pop(name) - count * rate) < 5 * deviation
    assert set(happened.values()) == {0}
    assert network.links["s1", 1].frames == 0
    assert network.links["s1", 2].frames == link.delivered


def test_certain_and_impossible() -> None:
    _, lossless = one_link(1000, Faults())
    assert (lossless.delivered, lossless.lost) == (1000, 0)
    _, lossy = one_link(1000, Faults(loss=1.0))
    assert (lossy.delivered, lossy.lost) == (0, 1000)
    _, doubled = one_link(1000, Faults(duplicate=1.0))
    assert (doubled.delivered, doubled.duplicated) == (2000, 1000)


def test_accounts_of_one_link() -> None:
    network, link = one_link(20_000, ALL)
    assert link.frames == link.inc_first_frames == 20_000
    assert link.bytes == link.inc_first_bytes == 2_000_000
    assert link.frames + link.duplicated == link.delivered + link.lost + link.corrupted
    assert network.links["s1", 2].inc_first_frames == link.delivered
    [(place, seen)] = network.incidents().items()
    assert place[:2] == (("h1", 1), "h2")
    assert (seen.duplicated, seen.lost, seen.corrupted) == (link.duplicated, link.lost, link.corrupted)
    assert (seen.duplicated_bytes, seen.lost_bytes) == (100 * link.duplicated, 100 * link.lost)
    assert seen.queue_dropped == 0


def test_reordered_frames_are_late_by_no_more_than_the_bound(tmp_path: Path) -> None:
    bound_ps = 2_000_000
    _, link = one_link(5000, Faults(reorder=0.5, reorder_delay_ps=bound_ps), capture=tmp_path / "in.pcap")
    arrived = [
        (int.from_bytes(data[50:54], "big"), info.sec * 10**9 + info.usec)
        for data, info in RawPcapReader(str(tmp_path / "in.pcap"))
    ]
    serialization_ps = (100 + 24) * 80
    late_ns = [
        time_ns - (number * serialization_ps + serialization_ps + 1_000_000) // 1000 for number, time_ns in arrived
    ]
    assert min(late_ns) == 0
    assert bound_ps // 1000 * 0.99 < max(late_ns) <= bound_ps // 1000
    assert sum(late > 0 for late in late_ns) == pytest.approx(link.reordered, abs=5)
    assert [number for number, _ in arrived] != sorted(number for number, _ in arrived)


def test_duplicates_arrive_with_the_original(tmp_path: Path) -> None:
    one_link(200, Faults(duplicate=0.5), capture=tmp_path / "in.pcap")
    arrived = [
        (int.from_bytes(data[50:54], "big"), info.sec, info.usec)
        for data, info in RawPcapReader(str(tmp_path / "in.pcap"))
    ]
    assert arrived == sorted(arrived)
    assert set(Counter(arrived).values()) == {1, 2}


COUNTED = ("frames", "delivered", "lost", "duplicated", "reordered", "corrupted", "queue_drops", "busy_ps")


def fingerprint(seed: int, path: Path) -> str:
    """Return a hash of everything that a network with all faults did."""
    topology = leaf_spine(2, 2, 2, rate="10G")
    hosts = [host.name for host in topology.hosts]
    endpoints = senders(topology, hosts)
    endpoints.records["peer"] = [topology.hosts[(i + 1) % 4].ip for i in range(4)]
    endpoints.records["length"] = [200, 300, 400, 500]
    endpoints.records["to_send"] = 300
    endpoints.records["resend_every"] = 7
    with VirtualNetwork(
        topology, route_all(topology), endpoints=endpoints, faults=ALL, seed=seed, queue_frames=8
    ) as network:
        network.capture("leaf1", 1, path)
        for index in range(4):
            network.start(index, at_ps=1000 * index)
        network.run()
        digest = hashlib.sha256()
        for port, counters in network.links.items():
            counted = [getattr(counters, name) for name in COUNTED]
            digest.update(repr((port, counted)).encode())
        digest.update(repr((network.now, network.events)).encode())
    digest.update(path.read_bytes())
    return digest.hexdigest()


def test_same_seed_same_bytes_on_every_machine(tmp_path: Path) -> None:
    first = fingerprint(1, tmp_path / "1.pcap")
    assert first == fingerprint(1, tmp_path / "2.pcap")
    assert first != fingerprint(2, tmp_path / "3.pcap")
    # Computed with integers only, so equal on all machines.
    assert first == "0f335503cee141108dbd34c7632e553881cfd75c25365ab45a6525dbd1ab9653"


def test_links_fail_independently() -> None:
    """Two links with the same faults and frames lose different ones."""
    topology = star(3, rate="10G")
    endpoints = senders(topology, ["h1", "h2"])
    endpoints.records["peer"] = topology.node("h3").ip
    endpoints.records["length"] = 100
    endpoints.records["to_send"] = 1000
    network = VirtualNetwork(topology, route_all(topology), endpoints=endpoints, faults=Faults(loss=0.5), seed=3)
    for index in range(2):
        network.start(index)
    network.run()
    assert network.links["h1", 1].lost != network.links["h2", 1].lost


@pytest.mark.parametrize(
    ("given", "said"),
    [({"loss": 1.5}, "loss=1.5"), ({"corrupt": -0.1}, "corrupt=-0.1"), ({"reorder_delay_ps": 0}, "reorder")],
)
def test_impossible_faults_are_refused(given: dict[str, float], said: str) -> None:
    with pytest.raises(FabricError, match=said):
        Faults(**given)  # type: ignore[arg-type]


def test_faults_of_an_unknown_link_are_refused() -> None:
    topology = star(2)
    with pytest.raises(FabricError, match="'h1' has no link at port 2"):
        VirtualNetwork(topology, route_all(topology), faults={("h1", 2): ALL})
