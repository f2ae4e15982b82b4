"""The gRPC service p4.v1.P4Runtime over the slots of a server."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from threading import Lock, Thread
from typing import Final, TypeAlias

import grpc
from finsy.proto import p4r, p4r_grpc

from p4reduce.dataplane.p4runtime.errors import Code, P4RuntimeError, abort, abort_with_status, batch_status
from p4reduce.dataplane.p4runtime.packet_io import encode_packet_out
from p4reduce.dataplane.p4runtime.roles import permit_role, role_name
from p4reduce.dataplane.p4runtime.slot import DeviceSlot
from p4reduce.dataplane.p4runtime.stream import Stream
from p4reduce.dataplane.p4runtime.updates import invalid

API_VERSION: Final = "1.3.0"
"""What BMv2 answers, too."""

ENTITIES_PER_RESPONSE: Final = 512
"""A response stays far below the 4 MiB that gRPC clients accept: an entity has a few hundred bytes."""

PacketOutHandler: TypeAlias = Callable[[int, bytes], None]
"""Called with (device id, frame with the packet_out header in front)."""

_Get = p4r.GetForwardingPipelineConfigRequest


class P4RuntimeService(p4r_grpc.P4RuntimeServicer):
    """Answers calls; every access to a device's state is made under ``lock``."""

    def __init__(
        self,
        slots: dict[int, DeviceSlot],
        lock: AbstractContextManager[bool],
        on_packet_out: PacketOutHandler | None,
    ) -> None:
        self._slots = slots
        self._lock = lock
        self._on_packet_out = on_packet_out
        self._streams: set[Stream] = set()
        self._streams_lock = Lock()

    # --- unary calls

    def Capabilities(self, request: p4r.CapabilitiesRequest, context: grpc.ServicerContext) -> p4r.CapabilitiesResponse:
        """The version of P4Runtime."""
        return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    def Write(self, request: p4r.WriteRequest, context: grpc.ServicerContext) -> p4r.WriteResponse:
        """Applies a batch of updates: each of them wholly or not at all, or the batch, as the request wants."""
        try:
            errors = self._write(request)
        except P4RuntimeError as error:
            abort(context, error)
        if any(errors):
            abort_with_status(context, batch_status(errors, Code.UNKNOWN, "write"))
        return p4r.WriteResponse()

    def _write(self, request: p4r.WriteRequest) -> list[P4RuntimeError | None]:
        slot = self._slot(request.device_id)
        with self._lock, slot.gate:
            role = role_name(request.role, request.role_id)
            slot.check_primary(role, request.election_id if request.HasField("election_id") else None)
            forwarding, permit = slot.forwarding, permit_role(role, slot.role_config(role))
            match request.atomicity:
                case p4r.WriteRequest.CONTINUE_ON_ERROR:
                    return forwarding.write(request.updates, permit)
                case p4r.WriteRequest.ROLLBACK_ON_ERROR | p4r.WriteRequest.DATAPLANE_ATOMIC:
                    return forwarding.write_all(request.updates, permit)
                case unknown:
                    raise invalid(f"Write: unknown atomicity {unknown}")

    def Read(self, request: p4r.ReadRequest, context: grpc.ServicerContext) -> Iterator[p4r.ReadResponse]:
        """The entities that the valid requests of a batch select; then an error where some were invalid.

        As BMv2 does, the error has the code of the first invalid request; details list all, as for Write.
        """
        try:
            slot = self._slot(request.device_id)
            config = slot.role_config(request.role)
            with self._lock:
                found, errors = slot.forwarding.read(request.entities)
            found = [entity for entity in found if config is None or config.owns(entity)]
        except P4RuntimeError as error:
            abort(context, error)
        for start in range(0, len(found), ENTITIES_PER_RESPONSE):
            yield p4r.ReadResponse(entities=found[start : start + ENTITIES_PER_RESPONSE])
        first = next((error for error in errors if error is not None), None)
        if first is not None:
            abort_with_status(context, batch_status(errors, first.code, "read"))

    def SetForwardingPipelineConfig(
        self, request: p4r.SetForwardingPipelineConfigRequest, context: grpc.ServicerContext
    ) -> p4r.SetForwardingPipelineConfigResponse:
        """Verifies, saves or commits P4Info and BMv2 JSON."""
        try:
            slot = self._slot(request.device_id)
            election_id = request.election_id if request.HasField("election_id") else None
            role = role_name(request.role, request.role_id)
            _check_pusher(slot, role, election_id)
            slot.verify(request)
            with self._lock, slot.gate:
                _check_pusher(slot, role, election_id)
                slot.set_pipeline(request)
        except P4RuntimeError as error:
            abort(context, error)
        return p4r.SetForwardingPipelineConfigResponse()

    def GetForwardingPipelineConfig(
        self, request: p4r.GetForwardingPipelineConfigRequest, context: grpc.ServicerContext
    ) -> p4r.GetForwardingPipelineConfigResponse:
        """The configuration, or parts of it; unset where there is none."""
        try:
            slot = self._slot(request.device_id)
            with self._lock:
                return _pipeline_response(slot, request.response_type)
        except P4RuntimeError as error:
            abort(context, error)

    # --- stream

    def StreamChannel(
        self, request_iterator: Iterator[p4r.StreamMessageRequest], context: grpc.ServicerContext
    ) -> Iterator[p4r.StreamMessageResponse]:
        """Arbitration and packets."""
        stream = Stream(self._slot, self._packet_out, self._digest_ack)
        if not context.add_callback(stream.close):
            return
        with self._streams_lock:
            self._streams.add(stream)
        Thread(target=stream.consume, args=(request_iterator,), name="p4runtime-stream", daemon=True).start()
        try:
            yield from stream.responses()
        except P4RuntimeError as error:
            abort(context, error)
        finally:
            stream.close()
            with self._streams_lock:
                self._streams.discard(stream)

    def end_streams(self) -> None:
        """Ends all streams with UNAVAILABLE."""
        with self._streams_lock:
            streams = list(self._streams)
        for stream in streams:
            stream.end(P4RuntimeError(Code.UNAVAILABLE, "the P4Runtime server stops"))

    def _packet_out(self, slot: DeviceSlot, packet: p4r.PacketOut) -> None:
        with self._lock:
            frame = encode_packet_out(slot.forwarding.schema.packet_out, packet)
            if self._on_packet_out is None:
                raise P4RuntimeError(Code.UNIMPLEMENTED, "packet_out: nothing takes packets on this server")
            self._on_packet_out(slot.device_id, frame)

    def _digest_ack(self, slot: DeviceSlot, ack: p4r.DigestListAck) -> None:
        with self._lock:
            if slot.active is None:
                raise P4RuntimeError(Code.FAILED_PRECONDITION, f"device {slot.device_id} runs no pipeline")
            slot.active.digests.acknowledge(ack)

    def _slot(self, device_id: int) -> DeviceSlot:
        slot = self._slots.get(device_id)
        if slot is None:
            raise P4RuntimeError(Code.NOT_FOUND, f"there is no device {device_id}; known: {_ranges(self._slots)}")
        return slot


def _check_pusher(slot: DeviceSlot, role: str, election_id: p4r.Uint128 | None) -> None:
    """Raises PERMISSION_DENIED unless a client is primary in a role that may set the pipeline."""
    slot.check_primary(role, election_id)
    config = slot.role_config(role)
    if config is not None and not config.can_push_pipeline:
        raise P4RuntimeError(Code.PERMISSION_DENIED, f"role {role!r} may not set the forwarding pipeline")


def _pipeline_response(slot: DeviceSlot, response_type: int) -> p4r.GetForwardingPipelineConfigResponse:
    if response_type not in (_Get.ALL, _Get.COOKIE_ONLY, _Get.P4INFO_AND_COOKIE, _Get.DEVICE_CONFIG_AND_COOKIE):
        raise invalid(f"GetForwardingPipelineConfig: unknown response type {response_type}")
    response = p4r.GetForwardingPipelineConfigResponse()
    current = slot.saved or slot.active
    if current is None:
        return response
    config = current.config
    response.config.SetInParent()
    if config.HasField("cookie"):
        response.config.cookie.CopyFrom(config.cookie)
    if response_type in (_Get.ALL, _Get.P4INFO_AND_COOKIE):
        response.config.p4info.CopyFrom(config.p4info)
    if response_type in (_Get.ALL, _Get.DEVICE_CONFIG_AND_COOKIE):
        response.config.p4_device_config = config.p4_device_config
    return response


def _ranges(ids: dict[int, DeviceSlot]) -> str:
    """Device ids for a message: the first few."""
    known = sorted(ids)
    return ", ".join(map(str, known[:8])) + (", ..." if len(known) > 8 else "") or "none"
