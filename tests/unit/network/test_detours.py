"""Clones, resubmitted and recirculated packets, and digests in virtual time: as in Device.inject, at the right time."""

from collections.abc import Callable
from pathlib import Path

import pytest

from p4reduce.network.virtual import Faults, VirtualNetwork
from p4reduce.network.virtual.kernels.wires import MAX_ROUNDS
from p4reduce.topologies import TopologyBuilder
from p4switch.device import Device
from p4switch.program import load_program
from p4switch.state.device_state import CloneSession
from tests.support.paths import DATA
from tests.support.pcaps import read_frames

PATHS = load_program(DATA / "paths.json")
CONTROL = load_program(DATA / "control.json")
PORTS = range(1, 8)
PAYLOAD = bytes(range(40))
TO_PORTS, TO_GROUP, NOWHERE = 0x105, 0x107, 0x999
DELAY_PS = 7_000_000

Make = Callable[..., tuple[VirtualNetwork, Callable[[], list[tuple[int, bytes]]]]]


def paths_device() -> Device:
    device = Device(PATHS)
    device.multicast.set(1, [(2, 10), (3, 11)])
    device.clone_sessions.set(TO_PORTS, [(5, 0), (6, 77)])
    device.clone_sessions.configure(TO_GROUP, CloneSession(port=7, group=1))
    return device


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return a network of one switch, and a function that returns all (port, frame) that have left, by port."""

    def network(device: Device, rate: str = "10G", **options: object) -> tuple[VirtualNetwork, Callable[[], object]]:
        builder = TopologyBuilder("one")
        builder.switch("s1")
        for port in PORTS:
            builder.host(f"h{port}")
            builder.link(f"h{port}", "s1", rate, "1us")
        made = VirtualNetwork(builder.build(), {"s1": device}, **options)  # type: ignore[arg-type]
        for port in PORTS:
            made.capture("s1", port, tmp_path / f"{port}.pcap")
        return made, lambda: [(port, f) for port in PORTS for f in read_frames(tmp_path / f"{port}.pcap")]

    return network  # type: ignore[return-value]


def order(op: int, count: int = 3, session: int = TO_PORTS) -> bytes:
    return bytes([op, count]) + session.to_bytes(2, "big") + PAYLOAD


@pytest.mark.parametrize("session", [TO_PORTS, TO_GROUP, NOWHERE])
@pytest.mark.parametrize("op", range(13))
def test_the_same_frames_leave_as_without_time(make: Make, op: int, session: int) -> None:
    network, left = make(paths_device())
    network.inject("s1", 1, order(op, session=session))
    network.run()
    expected = paths_device().inject(1, order(op, session=session))
    assert left() == sorted(expected, key=lambda sent: sent[0])
    assert network.switch_counters("s1").round_drops == 0


def test_what_comes_back_takes_the_pipelines_delay_again(make: Make) -> None:
    network, left = make(paths_device(), pipeline_delay_ps=DELAY_PS)
    network.inject("s1", 1, order(6, count=3))  # recirculated three times
    network.run(until_ps=4 * DELAY_PS - 1)
    assert left() == []
    assert network.switch_counters("s1").passes == 3
    network.run(until_ps=4 * DELAY_PS)
    assert len(left()) == 1
    assert network.switch_counters("s1").recirculated == 3


def test_a_resubmitted_packet_takes_the_pipelines_delay_again(make: Make) -> None:
    network, left = make(paths_device(), pipeline_delay_ps=DELAY_PS)
    network.inject("s1", 1, order(3))
    network.run(until_ps=2 * DELAY_PS - 1)
    assert left() == []
    network.run(until_ps=2 * DELAY_PS)
    assert [port for port, _ in left()] == [3]
    assert network.switch_counters("s1").resubmitted == 1


def test_a_packet_that_goes_round_and_round_is_cut_off_and_counted(make: Make) -> None:
    network, left = make(paths_device())
    network.inject("s1", 1, order(14))
    network.run()
    counters = network.switch_counters("s1")
    assert (left(), counters.round_drops, counters.passes) == ([], 1, 1 + MAX_ROUNDS)
    network.inject("s1", 1, order(0))  # no frame leaves
    network.run()
    assert [port for port, _ in left()] == [1]


def test_a_recirculated_packet_waits_in_its_queue_and_leaves_the_link_to_others(make: Make) -> None:
    network, left = make(paths_device(), rate="1M")
    network.inject("s1", 1, order(0))  # occupies port 1 for (60 + 24) * 8 us
    network.inject("s1", 1, order(6, count=1))
    network.inject("s1", 1, order(0, count=9))
    network.run(until_ps=671_999_999)
    assert network.switch_counters("s1").recirculated == 0
    network.run(until_ps=672_000_000)
    assert network.switch_counters("s1").recirculated == 1
    network.run()
    assert [(port, frame[1]) for port, frame in left()] == [(1, 3), (1, 9), (4, 0)]


def test_a_queue_that_is_full_drops_copies_of_clones_too(make: Make) -> None:
    network, left = make(paths_device(), rate="1M", queue_frames=1)
    for _ in range(8):
        network.inject("s1", 1, order(10))
    network.run()
    # Port 1 and the session's ports: one frame on the link, one queued, the others dropped.
    assert network.links["s1", 1].queue_drops == 6
    assert [port for port, _ in left()].count(1) == 2
    # The two clones are one serialization time apart: each finds its link free.
    assert [network.links["s1", port].queue_drops for port in (5, 6)] == [0, 0]
    assert network.switch_counters("s1").clones == 2


def test_many_packets_at_once_find_space_and_all_leave(make: Make) -> None:
    network, left = make(paths_device(), queue_frames=5000, max_replicas=4)
    single = paths_device()
    expected = []
    for number in range(300):
        frame = order(number % 13, session=(TO_PORTS, TO_GROUP)[number % 2])
        network.inject("s1", 1, frame)
        expected += single.inject(1, frame)
    network.run()
    # Here the order of two packets at a port depends on timing.
    assert sorted(left()) == sorted(expected)


def test_faults_on_links_meet_copies_like_other_frames(make: Make) -> None:
    network, left = make(paths_device(), faults=Faults(duplicate=1))
    network.inject("s1", 1, order(10))
    network.run()
    delivered = [network.links["s1", port].delivered for port in (1, 5, 6)]
    assert delivered == [2, 2, 2]
    assert len(left()) == 3


def digest_frame(key: int, index: int) -> bytes:
    return bytes([6, index]) + key.to_bytes(2, "big") + bytes(2) + PAYLOAD


def test_digests_come_with_their_time_and_the_values_of_device_inject(make: Make) -> None:
    device, single = Device(CONTROL), Device(CONTROL)
    network, _ = make(device)
    frames = [digest_frame(0x1234, 5), digest_frame(0xFFFF, 255)]
    for place, frame in enumerate(frames):
        network.inject("s1", 3, frame, at_ps=1000 * (place + 1))
        single.inject(3, frame)
    network.run()
    got = network.digests("s1")
    assert [time_ps for time_ps, _ in got] == [1000, 2000]
    assert [digest for _, digest in got] == list(single.digests)
    assert [digest.values for _, digest in got] == [(0x1234, 3, 5), (0xFFFF, 3, 255)]
    assert network.digests("s1") == []
    assert network.switch_counters("s1").digests == 2


def test_digests_that_nobody_takes_are_dropped_and_counted(make: Make) -> None:
    network, _ = make(Device(CONTROL), packet_in_limit=3)
    for number in range(5):
        network.inject("s1", 3, digest_frame(number, 0))
    network.run()
    assert network.digest_drops("s1") == 2
    assert len(network.digests("s1")) == 3
