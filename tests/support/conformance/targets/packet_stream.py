"""BMv2's gRPC service for frames (``--dp-grpc-server-addr``), without generated code and without interfaces.

A stream takes frames and returns those that leave. When its sending side is closed, BMv2 ends it once no packet is
left in the switch. So one stream for each batch of frames needs neither sleeps nor marker packets.
"""

from typing import Any, Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.support.conformance.targets.target import Sent

STREAM: Final = "/p4.bm.DataplaneInterface/PacketStream"
DEADLINE_S: Final = 60.0

_FieldType = descriptor_pb2.FieldDescriptorProto


def _message_class() -> Any:
    """Returns the message class of both directions: id = 1, device_id = 2, port = 3, packet = 4."""
    file = descriptor_pb2.FileDescriptorProto(name="dataplane_frames.proto", package="p4.bm", syntax="proto3")
    message = file.message_type.add(name="PacketStreamFrame")
    kinds = (
        ("id", _FieldType.TYPE_UINT64),
        ("device_id", _FieldType.TYPE_UINT64),
        ("port", _FieldType.TYPE_UINT32),
        ("packet", _FieldType.TYPE_BYTES),
    )
    for number, (name, kind) in enumerate(kinds, start=1):
        message.field.add(name=name, number=number, type=kind, label=_FieldType.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p4.bm.PacketStreamFrame"))


Frame: Final = _message_class()


class PacketStream:
    """Frames to and from one BMv2."""

    def __init__(self, channel: grpc.Channel, device_id: int) -> None:
        self._device_id = device_id
        self._call = channel.stream_stream(
            STREAM, request_serializer=Frame.SerializeToString, response_deserializer=Frame.FromString
        )

    def run(self, frames: Sent) -> Sent:
        """Sends all frames, waits until the switch is empty, and returns the frames that left, in order.

        Raises:
            grpc.RpcError: the switch ended, or is not empty after DEADLINE_S.
        """
        requests = [Frame(device_id=self._device_id, port=port, packet=packet) for port, packet in frames]
        responses = self._call(iter(requests), timeout=DEADLINE_S)
        return [(response.port, response.packet) for response in responses]
