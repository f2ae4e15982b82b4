"""Switches in real time give the output of `Device.inject`, count it, and pause on request."""

import random
import socket
from contextlib import ExitStack

import numpy as np
import pytest

from p4reduce.network.real.io.path import Udp
from p4reduce.network.real.switches import PausingLock, RealSwitches
from p4reduce.network.virtual import FabricError
from studies.bench.switch import JOB
from tests.support.real_io.lab import DEADLINE_S, LANES, SWITCH, Lab, device, eventually, lab, set_route


def random_frames(net: Lab, count: int, seed: int) -> list[tuple[int, bytes]]:
    """Return contributions, duplicates, other UDP, and garbage, each with its ingress port."""
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        port, kind = draw.randint(1, 3), draw.random()
        lanes = np.array([draw.randint(-(2**31), 2**31 - 1) for _ in range(LANES)], np.int32)
        if kind < 0.6:
            made.append((port, net.push(port, draw.randint(0, 8), lanes, resend=draw.randint(0, 1))))
        elif kind < 0.7:
            made.append((port, net.push(draw.randint(1, 3), draw.randint(0, 8), lanes)))  # perhaps another port's host
        elif kind < 0.9:
            made.append((port, net.datagram(port, draw.randint(1, 3), number=draw.randint(0, 99))))
        else:
            made.append((port, draw.randbytes(draw.randint(14, 200))))
    return made


def test_what_leaves_is_what_the_device_makes_of_the_same_frames():
    twin = device(3)
    with lab(3) as net:
        expected: dict[int, list[bytes]] = {1: [], 2: [], 3: []}
        found: dict[int, list[bytes]] = {1: [], 2: [], 3: []}
        for port, frame in random_frames(net, 400, seed=3):
            net.send(port, frame)
            found[port] += net.settle(port)
            for out_port, out in twin.inject(port, frame):
                expected.get(out_port, []).append(out)
        for port in found:
            found[port] += net.waiting(port)
        assert found == expected
        assert sum(map(len, expected.values())) > 300


def test_a_sum_goes_back_to_everyone_and_every_port_counts_it():
    with lab(3) as net:
        for port in (1, 2, 3):
            net.send(port, net.push(port, 0, np.full(LANES, port, np.int32)))
        results = [net.receive(port) for port in (1, 2, 3)]
        for result in results:
            assert result[62:] == np.full(LANES, 6, ">i4").tobytes()
        net.send(1, net.push(1, 0, np.full(LANES, 1, np.int32), resend=1))
        again = net.receive(1)
        assert again[62:] == results[0][62:]
        net.settle(1)
        seen = net.counters(1)
        size = 62 + 4 * LANES
        assert (seen.received_first_frames, seen.received_first_bytes) == (1, size)
        assert (seen.received_resend_frames, seen.received_resend_bytes) == (1, size)
        assert (seen.sent.inc_first_frames, seen.sent.inc_first_bytes) == (1, size)
        assert (seen.sent.inc_resend_frames, seen.sent.inc_resend_bytes) == (1, size)
        assert seen.sent.delivered == seen.sent.frames == seen.received_frames == 3  # including the mark
        assert (seen.send_failures, seen.overrun, seen.oversize) == (0, 0, 0)


def test_counters_can_be_read_when_all_is_over():
    with lab(2) as net:
        net.send(1, net.datagram(1, 2))
        net.receive(2)
        net.settle(1)
    assert net.counters(2).sent.frames == 1
    assert net.switches.switch_counters(SWITCH).passes == 2
    net.switches.stop()


def test_frames_that_are_too_long_are_counted_and_dropped():
    with lab(2, max_frame=300) as net:
        net.send(1, net.datagram(1, 2, size=100))
        net.send(1, b"short")
        net.settle(1)
        assert net.counters(1).oversize == 2
        assert net.waiting(2) == []


def test_nothing_moves_while_the_lock_is_held_and_what_changes_then_holds_for_all_that_follows():
    with lab(3) as net:
        hosts = net.topology.hosts
        for target in (3, 2, 3):
            with net.switches.paused():
                net.send(1, net.datagram(1, 2))
                before = net.counters(1).received_frames
                set_route(net.device, hosts[1].ip, target, hosts[1].mac, change=True)
                assert net.counters(1).received_frames == before  # the lock is re-entrant
            assert net.receive(target)[42:] == net.datagram(1, 2)[42:]


def test_many_pauses_under_load_lose_nothing():
    with lab(2) as net:
        lock = net.switches.lock
        for number in range(100):
            net.send(1, net.datagram(1, 2, number=number))
            with lock:
                pass
        assert [int.from_bytes(net.receive(2)[50:54], "big") for _ in range(100)] == list(range(100))


def test_a_switch_without_a_program_drops_until_it_gets_one():
    with lab(2, made=None) as net:
        net.send(1, net.datagram(1, 2))
        eventually(lambda: net.counters(1).unprogrammed == 1, "the frame to be dropped")
        for _ in range(2):  # the second program replaces the first
            net.switches.set_device(SWITCH, device(2))
            net.send(1, net.datagram(1, 2))
            assert net.receive(2)
        net.switches.set_device(SWITCH, None)
        net.send(1, net.datagram(1, 2))
        eventually(lambda: net.counters(1).unprogrammed == 2, "the frame to be dropped")


def test_refused_frames_go_to_the_controller_and_its_frames_enter_by_its_port():
    seen: list[tuple[str, bytes]] = []
    made = device(2)
    made.tables["IncIngress.settings"].set_default("IncIngress.configure", (64, 0))  # the controller sees all of them
    with lab(2, made=made, on_packet_in=lambda switch, frame: seen.append((switch, frame))) as net:
        net.send(1, b"\x02" * 60)
        eventually(lambda: len(seen) == 1, "the packet-in")
        assert seen[0][0] == SWITCH
        assert seen[0][1].endswith(b"\x02" * 60)
        net.switches.inject(SWITCH, 510, net.datagram(1, 2, number=5))
        assert net.receive(2)[50:54] == b"\0\0\0\5"
        with pytest.raises(FabricError, match="5 bytes is not in"):
            net.switches.inject(SWITCH, 510, b"short")
    assert net.switches.packet_ins(SWITCH) == []


def test_a_host_sends_to_others_by_its_own_address_only():
    """A forger at port 1, and another process of this machine, behind no port."""
    with lab(3) as net, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as process:
        for forged in (net.datagram(3, 2), net.datagram(3, 2, job=JOB), net.datagram(3, 2, job=9)):
            net.send(1, forged)
            process.sendto(forged, net.switches.address(SWITCH, 3))
        net.send(1, net.push(2, 0, np.ones(LANES, np.int32)))
        assert net.settle(1) == []
        assert net.settle(2) == []
        refused = net.device.counters["IncIngress.refuse.refused"].cells[:, 0]
        assert {reason: int(count) for reason, count in enumerate(refused) if count} == {8: 1, 16: 3}
        assert net.counters(3).received_frames == 0
        net.send(3, net.datagram(3, 2, job=JOB, number=4))
        assert net.receive(2)[50:54] == b"\0\0\0\4"


def test_captures_have_both_directions(tmp_path):
    from scapy.utils import PcapReader

    with lab(2) as net:
        net.switches.capture(SWITCH, 2, tmp_path / "port2.pcap")
        net.send(1, net.datagram(1, 2))
        there = net.receive(2)
        net.send(2, net.datagram(2, 1))
        net.receive(1)
        with pytest.raises(FabricError, match="captured already"):
            net.switches.capture(SWITCH, 2, tmp_path / "again.pcap")
    with PcapReader(str(tmp_path / "port2.pcap")) as reader:
        frames = [bytes(frame) for frame in reader]
    assert frames == [there, net.datagram(2, 1)]


def test_several_threads_share_the_switches_and_stand_still_together():
    lock = PausingLock()
    with ExitStack() as stack, lab(2) as net:
        hosts = {
            (name, port): stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            for name in "ab"
            for port in (1, 2)
        }
        ports: dict[str, dict[int, Udp]] = {"a": {}, "b": {}}
        for (name, port), host in hosts.items():
            host.bind(("127.0.0.1", 0))
            host.settimeout(DEADLINE_S)
            ports[name][port] = Udp(("127.0.0.1", 0), host.getsockname())
        with RealSwitches({name: device(2) for name in ports}, ports, threads=2, lock=lock) as both:
            assert len(both.data_paths) == 2
            for name in ports:
                hosts[name, 1].sendto(net.datagram(1, 2), both.address(name, 1))
                assert hosts[name, 2].recv(2000)
            with lock:
                sent = {port: seen.sent.frames for port, seen in both.port_counters().items()}
            assert sent == {("a", 1): 0, ("a", 2): 1, ("b", 1): 0, ("b", 2): 1}
