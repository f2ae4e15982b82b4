"""The golden model's codec compared with bytes written by hand, with Scapy, and with itself."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from tests.support.golden.frames import (
    HEADER_BYTES,
    Kind,
    Opaque,
    Packet,
    decode,
    encode,
    packet_in,
    routed,
    with_checksum,
)
from tests.support.golden.reasons import Reason

LANES = 2
PACKET = Packet(
    eth_dst=0x02000A800001,
    eth_src=0x02000A000001,
    ip_src=0x0A000001,
    ip_dst=0x0A800001,
    udp_src=9400,
    udp_dst=9400,
    kind=Kind.PUSH,
    job=0x1234,
    epoch=0x5678,
    seq=0x9ABCDEF0,
    lanes=(-2, 7),
    count=3,
    exponent=130,
    iteration=9,
    resend=True,
    ecn_echo=True,
)
WIRE = (
    "02000a800001 02000a000001 0800"
    "45 02 0038 0000 0000 40 11 6632 0a000001 0a800001"
    "24b8 24b8 0024 0000"
    "11 0b 1234 5678 0003 9abcdef0 00000009 82 000000"
    "fffffffe 00000007"
)

packets = st.builds(
    Packet,
    eth_dst=st.integers(0, 2**48 - 1),
    eth_src=st.integers(0, 2**48 - 1),
    ip_src=st.integers(0, 2**32 - 1),
    ip_dst=st.integers(0, 2**32 - 1),
    udp_src=st.integers(0, 2**16 - 1),
    udp_dst=st.just(9400),
    kind=st.integers(0, 15),
    job=st.integers(0, 2**16 - 1),
    epoch=st.integers(0, 2**16 - 1),
    seq=st.integers(0, 2**32 - 1),
    lanes=st.none() | st.tuples(*[st.integers(-(2**31), 2**31 - 1)] * LANES),
    count=st.integers(0, 2**16 - 1),
    exponent=st.integers(0, 255),
    iteration=st.integers(0, 2**32 - 1),
    resend=st.booleans(),
    saturated=st.booleans(),
    ecn_echo=st.booleans(),
    ecn=st.integers(0, 3),
    ttl=st.integers(0, 255),
    dscp=st.integers(0, 63),
    identification=st.integers(0, 2**16 - 1),
    ip_flags=st.integers(0, 7),
    udp_checksum=st.integers(0, 2**16 - 1),
    gap=st.integers(0, 1),
    late=st.booleans(),
    token=st.integers(0, 2**24 - 1),
)


def test_known_bytes():
    assert encode(PACKET) == bytes.fromhex(WIRE)
    assert decode(bytes.fromhex(WIRE), LANES) == PACKET


@given(packets)
def test_what_is_encoded_is_decoded_again(packet):
    assert decode(encode(packet), LANES) == packet


@given(packets)
def test_scapy_agrees_on_the_outer_headers(packet):
    raw = encode(packet)
    frame = Ether(raw)
    assert (frame[IP].ttl, frame[IP].tos, frame[IP].len) == (packet.ttl, packet.dscp << 2 | packet.ecn, len(raw) - 14)
    assert (frame[UDP].sport, frame[UDP].dport, frame[UDP].len) == (packet.udp_src, 9400, len(raw) - 34)
    given_checksum = frame[IP].chksum
    del frame[IP].chksum
    assert Ether(bytes(frame))[IP].chksum == given_checksum


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda raw: raw[:33], Reason.NOT_IPV4),
        (lambda raw: raw[:12] + b"\x86\xdd" + raw[14:], Reason.NOT_IPV4),
        (lambda raw: raw[:14] + b"\x46" + raw[15:], Reason.OPTIONS),
        (lambda raw: raw[:22] + b"\x3f" + raw[23:], Reason.CHECKSUM),
        (lambda raw: raw[:-1], None),
        (lambda raw: raw + b"\0", None),
        (lambda raw: raw[:42] + b"\x21" + raw[43:], None),
        (lambda raw: raw[:43] + b"\x0a" + raw[44:], None),
        (lambda raw: raw[:36] + b"\x24\xb9" + raw[38:], None),
        (lambda raw: with_checksum(raw[:16] + b"\0\x39" + raw[18:]), None),
        (lambda raw: raw[:38] + b"\0\x25" + raw[40:], None),
    ],
)
def test_a_damaged_frame_is_no_packet(damage, fault):
    frame = decode(damage(encode(PACKET)), LANES)
    assert isinstance(frame, Opaque)
    assert frame.fault is fault


@given(packets, st.integers(0, 61))
def test_a_truncated_header_is_no_packet(packet, length):
    assert isinstance(decode(encode(packet)[:length], LANES), Opaque)


@given(packets.filter(lambda p: p.ttl > 0), st.integers(0, 2**48 - 1))
def test_routing_is_the_same_on_fields_and_on_bytes(packet, mac):
    raw = encode(packet)
    as_bytes = routed(Opaque(raw, None, packet.ip_dst, packet.ttl), mac)
    assert isinstance(as_bytes, Opaque)
    assert as_bytes.raw == encode(routed(packet, mac))


def test_packet_in_carries_port_and_reason():
    assert packet_in(0x1FF, Reason.PEER, PACKET) == bytes.fromhex("ff8008") + encode(PACKET)


def test_lanes_follow_the_header():
    assert len(encode(replace(PACKET, lanes=None))) == HEADER_BYTES
