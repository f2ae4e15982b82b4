"""Controller headers."""

import pytest
from finsy.proto import p4r
from hypothesis import given
from hypothesis import strategies as st

from p4switch.p4runtime import P4RuntimeError, StatusCode
from p4switch.p4runtime.forwarding import decode_packet_in, encode_packet_out
from p4switch.p4runtime.p4info import P4InfoField

HEADER = (P4InfoField(1, "port", 9), P4InfoField(2, "flags", 3), P4InfoField(7, "reason", 4))
ODD = (P4InfoField(1, "a", 3), P4InfoField(2, "b", 7))


def packet_out(payload=b"frame", **values):
    ids = {"port": 1, "flags": 2, "reason": 7}
    metadata = [p4r.PacketMetadata(metadata_id=ids[name], value=value) for name, value in values.items()]
    return p4r.PacketOut(payload=payload, metadata=metadata)


def test_packet_in_fields_are_cut_from_the_front():
    frame = (0b1_1111_1110_101_0011).to_bytes(2, "big") + b"payload"
    packet = decode_packet_in(HEADER, frame)
    assert packet.payload == b"payload"
    assert [(m.metadata_id, m.value) for m in packet.metadata] == [(1, b"\x01\xfe"), (2, b"\x05"), (7, b"\x03")]


def test_a_header_that_ends_within_a_byte_is_padded_at_its_end():
    packet = decode_packet_in(ODD, (0b101_0000001_000000).to_bytes(2, "big"))
    assert [(m.metadata_id, m.value) for m in packet.metadata] == [(1, b"\x05"), (2, b"\x01")]
    assert packet.payload == b""


def test_a_frame_shorter_than_its_header_is_no_packet():
    assert decode_packet_in(HEADER, b"\x00") is None


def test_without_a_header_the_frame_is_the_payload():
    assert decode_packet_in(None, b"frame") == p4r.PacketIn(payload=b"frame")
    assert encode_packet_out(None, p4r.PacketOut(payload=b"frame")) == b"frame"


def test_packet_out_puts_the_header_in_front():
    frame = encode_packet_out(HEADER, packet_out(reason=b"\x03", port=b"\x01\xfe", flags=b"\x05"))
    assert frame == (0b1_1111_1110_101_0011).to_bytes(2, "big") + b"frame"


@pytest.mark.parametrize(
    ("packet", "said"),
    [
        (packet_out(port=b"\x01", flags=b"\x01"), "'reason' is missing"),
        (packet_out(port=b"\x02\x00", flags=b"\x01", reason=b"\x00"), "does not fit 9 bits"),
        (packet_out(port=b"", flags=b"\x01", reason=b"\x00"), "empty"),
        (p4r.PacketOut(metadata=[p4r.PacketMetadata(metadata_id=9, value=b"\x01")]), "unknown metadata field 9"),
        (p4r.PacketOut(metadata=[p4r.PacketMetadata(metadata_id=1, value=b"\x01")] * 2), "given twice"),
    ],
)
def test_wrong_metadata_is_refused(packet, said):
    with pytest.raises(P4RuntimeError, match=said) as caught:
        encode_packet_out(HEADER, packet)
    assert caught.value.code is StatusCode.INVALID_ARGUMENT


def test_metadata_without_a_header_is_refused():
    with pytest.raises(P4RuntimeError):
        encode_packet_out(None, packet_out(port=b"\x01"))


@given(st.lists(st.integers(1, 70), min_size=1, max_size=6), st.data())
def test_what_is_sent_out_comes_in_alike(widths, data):
    fields = tuple(P4InfoField(i, f"f{i}", width) for i, width in enumerate(widths, start=1))
    values = {f.id: data.draw(st.integers(0, 2**f.width - 1)) for f in fields}
    metadata = [p4r.PacketMetadata(metadata_id=i, value=v.to_bytes(10, "big")) for i, v in values.items()]
    frame = encode_packet_out(fields, p4r.PacketOut(payload=b"xyz", metadata=metadata))
    packet = decode_packet_in(fields, frame)
    assert packet.payload == b"xyz"
    assert {m.metadata_id: int.from_bytes(m.value, "big") for m in packet.metadata} == values
