"""Pipeline configurations: P4Info and BMv2 JSON, loaded and checked."""

import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Final

from finsy.proto import p4i, p4r

from p4switch.abi import MAX_FRAME_BYTES
from p4switch.p4runtime.errors import P4RuntimeError, decode, encode
from p4switch.p4runtime.p4info import Field, Schema, check_conformity, load_schema
from p4switch.p4runtime.updates import invalid
from p4switch.program import Program, ProgramError, load_program

# Controller headers: between the bytes in front of a frame and PacketMetadata.


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


_LOG = logging.getLogger(__name__)

_KEPT: Final = 16


class PipelineLoader:
    """Loads configurations and remembers the latest: hundreds of switches are given the same one. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: OrderedDict[bytes, tuple[Program, Schema]] = OrderedDict()

    def load(self, config: p4r.ForwardingPipelineConfig) -> tuple[Program, Schema]:
        """The program and the index of a configuration.

        Raises:
            P4RuntimeError: INVALID_ARGUMENT: malformed, not supported, or P4Info and program do not belong together.
        """
        if not config.HasField("p4info"):
            raise invalid("config.p4info is missing")
        if not config.p4_device_config:
            raise invalid("config.p4_device_config is empty; it must be the JSON that p4c-bm2-ss writes")
        key = _digest(config)
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = _load(config)
            self._loaded.move_to_end(key)
            if len(self._loaded) > _KEPT:
                self._loaded.popitem(last=False)
            return self._loaded[key]


def _digest(config: p4r.ForwardingPipelineConfig) -> bytes:
    digest = hashlib.sha256(config.p4info.SerializeToString(deterministic=True))
    digest.update(hashlib.sha256(config.p4_device_config).digest())
    return digest.digest()


def _load(config: p4r.ForwardingPipelineConfig) -> tuple[Program, Schema]:
    p4info = p4i.P4Info()
    p4info.CopyFrom(config.p4info)
    schema = load_schema(p4info)
    program = _program(config.p4_device_config)
    check_conformity(schema, program)
    return program, schema


def _program(device_config: bytes) -> Program:
    try:
        root = json.loads(device_config)
    except (ValueError, RecursionError) as error:
        raise invalid(f"config.p4_device_config is not the JSON that p4c-bm2-ss writes: {error}") from None
    if not isinstance(root, dict):
        raise invalid(f"config.p4_device_config holds a JSON {type(root).__name__}, expected an object")
    try:
        return load_program(root)
    except ProgramError as error:
        raise invalid(f"config.p4_device_config: {error}") from None
    except Exception as error:
        _LOG.exception("loading a P4 program")
        raise _unreadable(error) from None


def _unreadable(error: Exception) -> P4RuntimeError:
    return invalid(f"config.p4_device_config cannot be loaded: {type(error).__name__}: {error}")
