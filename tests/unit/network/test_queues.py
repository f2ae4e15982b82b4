"""Output queues of a switch: strict priorities, tail drop, replication, and places of drops."""

from pathlib import Path

import pytest
from scapy.utils import RawPcapReader

from p4reduce.network.virtual import FabricError, Incidents, VirtualNetwork
from p4reduce.network.virtual.synthetic import TO_GROUP, SyntheticSwitch, frame, stamps
from p4reduce.topologies import Topology, star
from p4switch.abi import INSTANCE_REPLICATION

CPU_PORT = 510


def network_of(switch: SyntheticSwitch, topology: Topology | None = None, **options: int) -> VirtualNetwork:
    return VirtualNetwork(topology or star(3, rate="10G"), {"s1": switch}, **options)  # type: ignore[arg-type]


def to_host(index: int, **fields: int) -> bytes:
    return frame(0x0A000001 + index, 318, **fields)  # type: ignore[arg-type]


def numbers_at(path: Path) -> list[int]:
    return [int.from_bytes(data[50:54], "big") for data, _ in RawPcapReader(str(path))]


def test_strict_priorities_highest_first(tmp_path: Path) -> None:
    network = network_of(SyntheticSwitch({2: 3}))
    network.capture("h3", 1, tmp_path / "out.pcap")
    # All arrive at once on two ports: the first finds the link free, the others leave by priority.
    for number, priority in enumerate((0, 3, 7, 1, 7, 0, 2)):
        network.inject("s1", 1 + number % 2, to_host(2, tos=priority << 2, number=number))
    network.run()
    assert numbers_at(tmp_path / "out.pcap") == [0, 2, 4, 1, 6, 3, 5]


def test_depths_are_those_of_the_queue_of_the_frame(tmp_path: Path) -> None:
    """Depths are per queue, not per port: other classes do not count."""
    network = network_of(SyntheticSwitch({2: 3}))
    network.capture("h3", 1, tmp_path / "out.pcap")
    for number, priority in enumerate((1, 1, 1, 7, 1, 7)):
        network.inject("s1", 1, to_host(2, tos=priority << 2, number=number))
    network.run()
    told = [(stamps(data)["enq_qdepth"], stamps(data)["deq_qdepth"]) for _, data in _captured(tmp_path / "out.pcap")]
    assert numbers_at(tmp_path / "out.pcap") == [0, 3, 5, 1, 2, 4]
    assert told == [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (2, 0)]


def _captured(path: Path) -> list[tuple[int, bytes]]:
    return [(number, data) for number, (data, _) in enumerate(RawPcapReader(str(path)))]


def test_tail_drop_is_per_queue() -> None:
    network = network_of(SyntheticSwitch({2: 3}), queue_frames=4)
    for priority in (0, 5):
        for _ in range(10):
            network.inject("s1", 1, to_host(2, tos=priority << 2))
    network.run()
    link = network.links["s1", 3]
    # One frame is on the link at once; four wait in each queue.
    assert (link.frames, link.queue_drops, link.max_depth) == (9, 11, 8)
    assert link.delivered == 9
    assert link.unattributed == 0
    [(place, seen)] = network.incidents().items()
    assert place[:2] == (("s1", 3), "h3")
    assert seen == Incidents(0, 0, 0, 11, 0, 0, 0, 11 * 318)


def test_resends_that_are_dropped_are_no_incident() -> None:
    network = network_of(SyntheticSwitch({2: 3}), queue_frames=1)
    for resend in (False, True, True, False):
        network.inject("s1", 1, frame(0x0A000003, 318, resend=resend))
    network.run()
    assert network.links["s1", 3].queue_drops == 2
    assert network.links["s1", 3].inc_resend_frames == 1
    assert network.links["s1", 3].inc_first_frames == 1
    assert [seen.queue_dropped for seen in network.incidents().values()] == [1]


def test_drops_that_name_their_reason() -> None:
    network = network_of(SyntheticSwitch({0: 1, 1: 9, 2: 0, 3: 300}))
    network.inject("s1", 1, to_host(0, tos=8 << 2))  # priority 8 of 0..7
    network.inject("s1", 1, to_host(0, tos=1))  # egress drops it
    for host in (1, 2, 3):  # ports without a link
        network.inject("s1", 1, to_host(host))
    network.inject("s1", 1, to_host(77))  # ingress drops it
    network.run()
    counters = network.switch_counters("s1")
    assert (counters.passes, counters.copies) == (6, 5)
    assert (counters.ingress_drops, counters.priority_drops, counters.no_link_drops) == (1, 1, 3)
    assert network.links["s1", 1].egress_drops == 1
    assert sum(link.frames for link in network.links.values()) == 0


def test_egress_drop_gives_the_turn_to_the_next(tmp_path: Path) -> None:
    network = network_of(SyntheticSwitch({2: 3}))
    network.capture("h3", 1, tmp_path / "out.pcap")
    for number, tos in enumerate((0, 1, 1, 0, 1)):
        network.inject("s1", 1, to_host(2, tos=tos, number=number))
    network.run()
    assert numbers_at(tmp_path / "out.pcap") == [0, 3]
    # The second frame follows the first without a gap: dropped frames take no time.
    assert network.now == 2 * 273_600 + 1_000_000
    assert network.links["s1", 3].egress_drops == 3


def test_replicas_are_readdressed_and_share_a_port(tmp_path: Path) -> None:
    network = network_of(SyntheticSwitch({7: TO_GROUP + 5}, {3: [(1, 1)], 5: [(1, 11), (2, 12), (1, 13), (3, 14)]}))
    for port in (1, 2, 3):
        network.capture("s1", port, tmp_path / f"{port}.pcap")
    network.inject("s1", 2, to_host(7))
    network.run()
    last_bytes = {port: [data[33] for data, _ in RawPcapReader(str(tmp_path / f"{port}.pcap"))] for port in (1, 2, 3)}
    assert last_bytes == {1: [11, 13], 2: [12], 3: [14]}
    (copy, _) = next(iter(RawPcapReader(str(tmp_path / "3.pcap"))))
    assert stamps(copy)["instance"] == INSTANCE_REPLICATION
    assert network.switch_counters("s1").copies == 4
    # Every reference to the packet was released.
    world = network._memory.world[0]
    assert world["free_phvs"] == len(network._memory.phvs.records)
    assert world["free_copies"] == len(network._memory.copies.records)
    assert world["free_frames"] == len(network._memory.frames.records)


def test_empty_group_and_unknown_group_drop() -> None:
    network = network_of(SyntheticSwitch({0: TO_GROUP + 9}))
    network.inject("s1", 1, to_host(0))
    network.run()
    assert network.switch_counters("s1").copies == 0
    assert network.events == 1


def test_group_larger_than_allowed_is_an_error() -> None:
    network = network_of(SyntheticSwitch({0: TO_GROUP + 1}, {1: [(1, rid) for rid in range(5)]}), max_replicas=4)
    network.inject("s1", 1, to_host(0))
    with pytest.raises(FabricError, match=r"'s1'.*max_replicas=4"):
        network.run()


def test_packets_for_the_controller_are_bounded() -> None:
    network = network_of(SyntheticSwitch({0: CPU_PORT}), packet_in_limit=3)
    for number in range(5):
        network.inject("s1", 1, to_host(0, number=number), at_ps=number * 10)
    network.run()
    waiting = network.packet_ins("s1")
    assert [(p.time_ps, int.from_bytes(p.frame[50:54], "big")) for p in waiting] == [(0, 0), (10, 1), (20, 2)]
    assert network.packet_ins("s1") == []
    assert network.packet_in_drops("s1") == 2
    assert network.switch_counters("s1").packet_ins == 5


def test_deep_queues_grow_the_pools_up_to_the_limit() -> None:
    def fill(network: VirtualNetwork) -> None:
        for _ in range(3000):
            network.inject("s1", 1, to_host(2))
        network.run(until_ps=1)

    network = network_of(SyntheticSwitch({2: 3}), queue_frames=5000, max_replicas=1)
    fill(network)
    assert network.links["s1", 3].max_depth == 2999
    network.run()
    assert network.links["s1", 3].delivered == 3000
    small = network_of(SyntheticSwitch({2: 3}), queue_frames=5000, max_replicas=1, memory_limit=1 << 20)
    with pytest.raises(FabricError, match="memory_limit"):
        fill(small)
