"""Ports: the system's refusals are explained, and its changes to frames are repaired."""

import socket
import struct

import numpy as np
import pytest

from p4reduce.network.real.io.frames import finish_checksum
from p4reduce.network.real.io.path import OpenPort, Udp, Veth, drop_waiting
from p4reduce.network.real.switches import RealSwitches
from p4reduce.network.virtual import FabricError
from p4reduce.network.virtual.records import Faults


def test_an_interface_that_is_not_there_is_named():
    with pytest.raises(FabricError, match=r"s1:3: .*(no interface nowhere0|root or CAP_NET_RAW)"):
        OpenPort("s1:3", Veth("nowhere0"), 1600)


def test_an_address_that_is_taken_is_named():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        taken = other.getsockname()
        with pytest.raises(FabricError, match=rf"udp:127.0.0.1:{taken[1]}.*in use; choose another"):
            OpenPort("s1:1", Udp(taken, ("127.0.0.1", 9)), 1600)


def test_a_port_takes_datagrams_of_its_peer_alone_also_those_that_came_before_it_was_connected():
    every = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
    peer, stranger, port = every
    for one in every:
        one.bind(("127.0.0.1", 0))
        one.settimeout(10)
    try:
        for text in (b"first", b"second"):
            stranger.sendto(text, port.getsockname())
        port.connect(peer.getsockname())
        drop_waiting(port)
        stranger.sendto(b"third", port.getsockname())
        peer.sendto(b"frame", port.getsockname())
        assert port.recv(100) == b"frame"
        opened = OpenPort("s1:1", Udp(("127.0.0.1", 0), peer.getsockname()), 1600)
        try:
            stranger.sendto(b"fourth", opened.socket.getsockname())
            peer.sendto(b"frame", opened.socket.getsockname())
            assert opened.socket.recv(100) == b"frame"
        finally:
            opened.close()
    finally:
        for one in every:
            one.close()


def test_a_name_instead_of_an_address_is_refused():
    with pytest.raises(FabricError, match="localhost"):
        OpenPort("s1:1", Udp(("localhost", 0), ("127.0.0.1", 9)), 1600)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, "threads=0"),
        ({"max_frame": 20}, "max_frame=20"),
        ({"queue_frames": 0}, "queue_frames=0"),
        ({"rates_bps": {("s1", 2): 1}}, r"rates_bps: there are no ports \[\('s1', 2\)\]"),
        ({"delays_ps": -1}, "delays_ps: a number is at least 0"),
        ({"faults": {("s2", 1): Faults()}}, "faults: there are no ports"),
    ],
)
def test_settings_that_fit_nothing_are_refused(options, message):
    port = Udp(("127.0.0.1", 0), ("127.0.0.1", 9))
    with pytest.raises(FabricError, match=message):
        RealSwitches({"s1": None}, {"s1": {1: port}}, **options)


@pytest.mark.parametrize("number", [-1, 510, 511])
def test_port_numbers_that_mean_something_else_are_refused(number):
    with pytest.raises(FabricError, match=r"a port is a number in 0\.\.509"):
        RealSwitches({"s1": None}, {"s1": {number: Udp(("127.0.0.1", 0), ("127.0.0.1", 9))}})


def test_ports_of_nobody_are_refused():
    with pytest.raises(FabricError, match=r"there are no switches \['s2'\]"):
        RealSwitches({"s1": None}, {"s2": {}})


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
@pytest.mark.parametrize("size", [0, 1, 7, 64])
def test_checksums_that_the_sender_left_open_are_completed(protocol, size):
    from scapy.layers.inet import IP, TCP, UDP
    from scapy.layers.l2 import Ether

    layer = TCP(sport=5, dport=6) if protocol == "tcp" else UDP(sport=5, dport=6)
    whole = bytes(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(dst="10.0.0.9") / layer / bytes(size))
    field = 34 + (16 if protocol == "tcp" else 6)
    frame = np.frombuffer(whole + bytes(3), np.uint8).copy()  # with padding, which the checksum excludes
    pseudo = whole[26:34] + struct.pack("!HH", 6 if protocol == "tcp" else 17, len(whole) - 34)
    total = sum(struct.unpack(f"!{len(pseudo) // 2}H", pseudo))
    frame[field : field + 2] = list(struct.pack("!H", (total & 0xFFFF) + (total >> 16)))
    assert frame[: len(whole)].tobytes() != whole
    finish_checksum(frame.ctypes.data, len(frame))
    assert frame[: len(whole)].tobytes() == whole


@pytest.mark.parametrize("frame", [bytes(20), bytes(60), b"\0" * 12 + b"\x08\0\x45" + bytes(50)])
def test_other_frames_are_left_alone(frame):
    kept = np.frombuffer(frame, np.uint8).copy()
    finish_checksum(kept.ctypes.data, len(kept))
    assert kept.tobytes() == frame
