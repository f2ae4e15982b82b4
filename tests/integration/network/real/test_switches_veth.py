"""The embedded switch between veth pairs of the kernel: wrapping rings, VLAN tags, full kernel queues.

Each test runs a function of this file in a separate process and network namespace.
"""

import json
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from p4reduce.network.real.io.path import RING_FRAMES, Veth
from p4reduce.network.real.net import enter_command, why_not
from p4reduce.network.real.net.network import add_veth, bring_up, netlink, shape, wait_until_up, without_ipv6
from p4reduce.network.real.switches import RealSwitches
from p4switch.device import Device
from p4switch.program import load_program
from tests.support.p4runtime.configs import json_path
from tests.support.paths import ROOT

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no network namespaces: {REASON}")

DEADLINE_S = 300
ETH_P_ALL = 3
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23


def run_entered(case: str) -> None:
    command = enter_command([sys.executable, "-m", "tests.integration.network.real.test_switches_veth", case])
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr


def test_rings_wrap_and_frames_stay_in_order():
    run_entered("many_frames")


def test_vlan_tags_that_the_kernel_takes_out_are_put_back():
    run_entered("tagged_frames")


def test_when_the_kernels_queue_is_full_frames_wait_in_ours():
    run_entered("full_queue")


def test_an_interface_that_goes_down_loses_frames_and_nothing_else():
    run_entered("interface_down")


# --- in the namespace


def hosts(rate_bps: int = 0) -> list[socket.socket]:
    """Make two veth pairs s1-o1 and s2-o2, with s2 shaped by the kernel, and sockets at o1 and o2."""
    without_ipv6()
    with netlink() as route:
        for number in (1, 2):
            add_veth(route, 100 + 2 * number, f"s{number}", f"o{number}")
            for name in (f"o{number}", f"s{number}"):
                index = bring_up(route, name)
        if rate_bps:
            shape(route, index, rate_bps, 4096)
        wait_until_up(route)
    found = []
    for number in (1, 2):
        one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        one.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        one.bind((f"o{number}", ETH_P_ALL))
        one.settimeout(DEADLINE_S)
        found.append(one)
    return found


def switch(**options: object) -> RealSwitches:
    """A switch that sends a frame by the port in its first byte, and numbers each port's frames in bytes 2 and 3."""
    device = Device(load_program(json.loads(json_path("ten_lines").read_text())))
    shaped = bool(options.pop("shaped", False))
    ports = {1: Veth("s1"), 2: Veth("s2", shaped=shaped)}
    return RealSwitches({"s": device}, {"s": ports}, **options)


def frame(number: int, size: int = 100) -> bytes:
    return bytes((2, 64, 0, 0)) + bytes(8) + b"\x12\x34" + struct.pack(">I", number) + bytes(size)


def many_frames() -> None:
    first, second = hosts()
    total, together = 3 * RING_FRAMES, 128
    with switch() as running:
        for begin in range(0, total, together):
            for number in range(begin, begin + together):
                first.send(frame(number))
            for number in range(begin, begin + together):
                found = second.recv(2000)
                assert struct.unpack(">HI", found[2:4] + found[14:18]) == (number + 1, number)
    seen = running.port_counters()
    assert (seen["s", 1].received_frames, seen["s", 2].sent.delivered, seen["s", 1].overrun) == (total, total, 0)


def tagged_frames() -> None:
    first, second = hosts()
    frames = [
        bytes((2, 64)) + bytes(10) + tag + b"\x12\x34" + bytes(50)
        for tag in (b"\x81\x00\x20\x05", b"\x88\xa8\x00\x07\x81\x00\x00\x08", b"")
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "port1.pcap"
        with switch() as running:
            running.capture("s", 1, path)
            for one in frames:
                first.send(one)
                second.recv(2000)
        assert captured(path) == frames


def captured(path: Path) -> list[bytes]:
    data, at, found = path.read_bytes(), 24, []
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        found.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return found


def full_queue() -> None:
    _, second = hosts(rate_bps=1_000_000)
    count = 1000
    with switch(shaped=True, queue_frames=count) as running:
        for begin in range(0, count, 10):
            with running.paused():
                for number in range(begin, begin + 10):
                    running.inject("s", 1, frame(number))
        assert [struct.unpack(">I", second.recv(2000)[14:18])[0] for _ in range(count)] == list(range(count))
        seen = running.port_counters()["s", 2]
    assert seen.waits > 0
    assert seen.sent.max_depth > 10
    assert (seen.sent.delivered, seen.send_failures, seen.sent.queue_drops) == (count, 0, 0)


def interface_down() -> None:
    first, second = hosts()
    with netlink() as route, switch() as running:
        place = route.link_lookup(ifname="s2")[0]
        route.link("set", index=place, state="down")
        first.send(frame(0))
        while running.port_counters()["s", 2].send_failures == 0:
            running.check()
        route.link("set", index=place, state="up")
        wait_until_up(route)
        first.send(frame(1))
        assert struct.unpack(">I", second.recv(2000)[14:18])[0] == 1


if __name__ == "__main__":
    {case.__name__: case for case in (many_frames, tagged_frames, full_queue, interface_down)}[sys.argv[1]]()
