"""Batches of frames: NumPy compared with Scapy, bit by bit."""

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from p4reduce.workers import wire
from p4reduce.workers.scapy_layer import INC

RNG = np.random.default_rng(7)


def random_headers(frames: int) -> np.ndarray:
    """Return headers with random INC fields and addresses."""
    columns = {
        field.name: RNG.integers(0, 1 << field.bits, frames, np.uint64)
        for field in wire.INC.fields
        if field.name != "has_lanes"
    }
    return wire.headers(
        frames,
        ethernet_dst=RNG.integers(0, 1 << 48, frames, np.uint64),
        ethernet_src=RNG.integers(0, 1 << 48, frames, np.uint64),
        ipv4_src=RNG.integers(0, 1 << 32, frames, np.uint64),
        ipv4_dst=RNG.integers(0, 1 << 32, frames, np.uint64),
        **columns,
    )


@pytest.mark.parametrize("lanes", [0, 1, 64, 256])
def test_unpack_undoes_pack(lanes: int) -> None:
    headers = random_headers(20)
    values = RNG.integers(-(2**31), 2**31, (20, lanes)).astype(np.int32) if lanes else None
    frames = wire.pack(headers, values)
    assert frames.shape == (20, wire.frame_bytes(lanes))
    back, words = wire.unpack(frames)
    assert np.array_equal(words, np.zeros((20, 0)) if values is None else values)
    headers["has_lanes"] = values is not None
    headers["udp_length"] = 28 + 4 * lanes
    headers["ipv4_total_length"] = 48 + 4 * lanes
    headers["ipv4_checksum"] = back["ipv4_checksum"]
    assert np.array_equal(back, headers)


def test_scapy_reads_as_many_lanes_as_the_widest_program_has() -> None:
    lanes = RNG.integers(-(2**31), 2**31, (1, 256)).astype(np.int32)
    assert Ether(wire.pack(wire.headers(1), lanes)[0].tobytes())[INC].lanes == lanes[0].tolist()


def test_scapy_reads_what_numpy_writes_and_rebuilds_the_same_bytes() -> None:
    headers = random_headers(8)
    headers["version"] = wire.INC_VERSION
    headers["width"] = 0
    lanes = RNG.integers(-(2**31), 2**31, (8, 64)).astype(np.int32)
    for frame, header, row in zip(wire.pack(headers, lanes), headers, lanes, strict=True):
        packet = Ether(frame.tobytes())
        layer = packet[INC]
        for field in wire.INC.fields:
            if field.name != "has_lanes":
                assert getattr(layer, field.name) == header[field.name], field.name
        assert layer.lanes == row.tolist()
        assert (packet[IP].ttl, packet[IP].tos & 3, packet[UDP].chksum) == (64, wire.ECN_CAPABLE, 0)
        assert (packet[UDP].sport, packet[UDP].dport) == (9400, 9400)
        written = packet[IP].chksum
        del packet[IP].chksum
        again = Ether(bytes(packet))
        assert again[IP].chksum == written
        assert bytes(packet) == frame.tobytes()


@pytest.mark.parametrize("bits", [16, 8])
def test_narrow_lanes_are_the_same_to_numpy_and_scapy(bits: int) -> None:
    most = 2 ** (bits - 1)
    values = RNG.integers(-most, most, (3, 256 * 32 // bits))
    headers = wire.headers(3, version=wire.INC_VERSION_NARROW, width=wire.WIDTHS[bits], seq=RNG.integers(0, 99, 3))
    words = wire.pack_lanes(values, bits)
    assert words.shape == (3, 256)
    assert np.array_equal(wire.unpack_lanes(words, bits), values)
    for frame, row in zip(wire.pack(headers, words), values, strict=True):
        layer = Ether(frame.tobytes())[INC]
        assert (layer.version, layer.width, layer.lanes) == (2, wire.WIDTHS[bits], row.tolist())
        assert bytes(layer) == frame[42:].tobytes()


@pytest.mark.parametrize(("bits", "value"), [(16, 2**15), (16, -(2**15) - 1), (8, 128), (8, -129)])
def test_a_number_that_does_not_fit_its_lane_is_an_error(bits: int, value: int) -> None:
    with pytest.raises(ValueError, match=f"a lane of {bits} bits holds"):
        wire.pack_lanes(np.array([[value, 0, 0, 0]]), bits)


def test_numpy_reads_what_scapy_writes() -> None:
    packet = (
        Ether(src="02:00:0a:00:00:01", dst="02:00:0a:80:00:01")
        / IP(src="10.0.0.1", dst="10.128.0.1")
        / UDP(sport=9400, dport=9400, chksum=0)
        / INC(type="RESULT", job=3, epoch=2, seq=2**32 - 1, exponent=130, resend=1, lanes=[-1, 2**31 - 1, -(2**31)])
    )
    headers, lanes = wire.unpack(np.frombuffer(bytes(packet), np.uint8)[None])
    header = headers[0]
    assert header["type"] == wire.PacketType.RESULT
    assert (header["job"], header["epoch"], header["seq"], header["exponent"]) == (3, 2, 2**32 - 1, 130)
    assert (header["resend"], header["saturated"], header["ecn_echo"], header["has_lanes"]) == (1, 0, 0, 1)
    assert header["ethernet_src"] == 0x02000A000001
    assert lanes.tolist() == [[-1, 2**31 - 1, -(2**31)]]


def test_packet_without_lanes_has_no_flag_and_padding_is_not_lanes() -> None:
    packet = Ether() / IP(dst="10.0.0.1") / UDP(sport=9400, dport=9400, chksum=0) / INC(seq=5)
    layer = Ether(bytes(packet) + bytes(4))[INC]
    assert layer.has_lanes == 0
    assert len(bytes(layer.payload)) == 4


def test_frame_dtype_is_a_view_of_the_bytes() -> None:
    headers = random_headers(5)
    views = wire.pack(headers).view(wire.FRAME_DTYPE)[:, 0]
    assert np.array_equal(views["seq"], headers["seq"])
    assert np.array_equal(views["ipv4_dst"], headers["ipv4_dst"])
    assert np.array_equal(views["version_type"], headers["version"] << 4 | headers["type"])


def test_defaults_make_a_sendable_frame() -> None:
    header, _ = wire.unpack(wire.pack(wire.headers(1)))
    assert header["ipv4_version"] == 4
    assert header["ipv4_ihl"] == 5
    assert header["ethernet_ether_type"] == 0x0800


def test_bad_input_is_named() -> None:
    with pytest.raises(KeyError, match="no header field 'sequence'"):
        wire.headers(1, sequence=3)
    with pytest.raises(ValueError, match="2 headers, but lanes for 3 frames"):
        wire.pack(wire.headers(2), np.zeros((3, 4), np.int32))
    with pytest.raises(ValueError, match="do not fit an IPv4 datagram"):
        wire.pack(wire.headers(1), np.zeros((1, wire.MAX_LANES + 1), np.int32))
    with pytest.raises(ValueError, match=r"inc\.type: 16 does not fit 4 bits"):
        wire.pack(wire.headers(1, type=16))
    with pytest.raises(ValueError, match="expected"):
        wire.unpack(np.zeros((1, 63), np.uint8))
    with pytest.raises(KeyError, match="has no field"):
        wire.offset(wire.INC, "nothing")
