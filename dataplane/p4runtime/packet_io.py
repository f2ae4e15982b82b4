"""Controller headers: between the bytes in front of a frame and PacketMetadata."""

from collections.abc import Iterable

from finsy.proto import p4r

from p4reduce.dataplane.abi import MAX_FRAME_BYTES
from p4reduce.dataplane.p4runtime.bytestring import decode, encode
from p4reduce.dataplane.p4runtime.p4info import Field
from p4reduce.dataplane.p4runtime.updates import invalid


def decode_packet_in(fields: tuple[Field, ...] | None, frame: bytes) -> p4r.PacketIn | None:
    """A frame that left by the CPU port as PacketIn, None where it is shorter than its header.

    Args:
        fields: of the header ``packet_in``, which the frame starts with; None: the program has none.
        frame: without FCS.
    """
    if fields is None:
        return p4r.PacketIn(payload=frame)
    bits = sum(f.width for f in fields)
    size = (bits + 7) // 8
    if len(frame) < size:
        return None
    rest = int.from_bytes(frame[:size], "big") >> (8 * size - bits)
    metadata = []
    for field in reversed(fields):
        value = rest & ((1 << field.width) - 1)
        metadata.append(p4r.PacketMetadata(metadata_id=field.id, value=encode(value)))
        rest >>= field.width
    return p4r.PacketIn(payload=frame[size:], metadata=reversed(metadata))


def encode_packet_out(fields: tuple[Field, ...] | None, packet: p4r.PacketOut) -> bytes:
    """The frame of a PacketOut, with the header ``packet_out`` in front.

    Raises:
        P4RuntimeError: INVALID_ARGUMENT: a metadata field is unknown, missing, repeated or too wide; the frame is
            longer than a switch takes.
    """
    values = _metadata(fields or (), packet.metadata)
    number, bits = 0, 0
    for field in fields or ():
        number = number << field.width | values[field.id]
        bits += field.width
    size = (bits + 7) // 8
    if size + len(packet.payload) > MAX_FRAME_BYTES:
        raise invalid(f"packet_out: {size + len(packet.payload)} bytes; the limit is {MAX_FRAME_BYTES}")
    return (number << (8 * size - bits)).to_bytes(size, "big") + packet.payload


def _metadata(fields: tuple[Field, ...], metadata: Iterable[p4r.PacketMetadata]) -> dict[int, int]:
    by_id = {f.id: f for f in fields}
    values: dict[int, int] = {}
    for item in metadata:
        field = by_id.get(item.metadata_id)
        if field is None:
            raise invalid(f"packet_out: unknown metadata field {item.metadata_id}")
        if field.id in values:
            raise invalid(f"packet_out: metadata field {field.name!r} is given twice")
        values[field.id] = decode(item.value, field.width, f"packet_out, metadata field {field.name!r}")
    for field in fields:
        if field.id not in values:
            raise invalid(f"packet_out: metadata field {field.name!r} is missing")
    return values
