"""Packets from the command line, text files and pcap files."""

import struct

import pytest

from p4reduce.network.virtual.counters import PcapWriter
from p4switch.trace.record import Packet, PacketError, read_packets


def test_hexadecimal_digits():
    assert read_packets("00ff10") == [Packet(b"\x00\xff\x10")]
    assert read_packets("0x00:ff 10") == [Packet(b"\x00\xff\x10")]


@pytest.mark.parametrize("text", ["", "abc", "xy", "packets.pcap", "0x", "a" * 9999])
def test_what_is_neither_digits_nor_a_file(text):
    with pytest.raises(PacketError, match="neither a file nor"):
        read_packets(text)


def test_frames_that_are_too_long():
    with pytest.raises(PacketError, match="a device takes 9216"):
        read_packets("00" * 9217)


def test_a_text_file(tmp_path):
    file = tmp_path / "packets.txt"
    file.write_text("# begin\n\n3 00ff # first\n0a:0b\n7 00 01 02\n2@1500 ff\n")
    assert read_packets(str(file)) == [
        Packet(b"\x00\xff", 3, "first"),
        Packet(b"\x0a\x0b"),
        Packet(b"\0\1\2", 7),
        Packet(b"\xff", 2, "", 1500),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 xx", "line 1: expected"),
        ("00\n600 00", "line 2: port 600"),
        ("# nothing", "no packet"),
        ("1 2 3", "line 1"),
        ("1@ ff", "line 1"),
        ("@5 ff", "line 1"),
    ],
)
def test_wrong_text_files(tmp_path, text, said):
    file = tmp_path / "packets.txt"
    file.write_text(text)
    with pytest.raises(PacketError, match=said):
        read_packets(str(file))


def test_a_pcap_file_of_the_fabric(tmp_path):
    with PcapWriter(tmp_path / "one.pcap") as pcap:
        pcap.write(0, b"first")
        pcap.write(10**12, b"second")
    assert [p.frame for p in read_packets(str(tmp_path / "one.pcap"))] == [b"first", b"second"]


def pcap(*, order="<", magic=0xA1B2C3D4, link=1, captured=4, original=4, data=b"abcd"):
    head = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, link)
    return head + struct.pack(f"{order}IIII", 0, 0, captured, original) + data


def test_the_other_byte_order(tmp_path):
    (tmp_path / "one.pcap").write_bytes(pcap(order=">"))
    assert read_packets(str(tmp_path / "one.pcap")) == [Packet(b"abcd")]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (pcap(link=101), "link type 101 is not Ethernet"),
        (pcap(captured=9, original=9), "packet 1 is cut off"),
        (pcap()[:30], "packet 1 is cut off"),
        (pcap(original=99), "captured in part"),
        (b"\x0a\x0d\x0d\x0a" + bytes(40), "editcap"),
        (bytes([0xFF] * 40), "neither a pcap file nor text"),
    ],
)
def test_pcap_files_that_cannot_be_used(tmp_path, data, said):
    (tmp_path / "one.pcap").write_bytes(data)
    with pytest.raises(PacketError, match=said):
        read_packets(str(tmp_path / "one.pcap"))
