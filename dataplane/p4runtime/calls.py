"""What the calls of p4.v1.P4Runtime do with the slots of a server."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Final, TypeAlias

from finsy.proto import p4r

from p4reduce.dataplane.p4runtime.errors import BatchError, Code, P4RuntimeError, batch_status
from p4reduce.dataplane.p4runtime.packet_io import encode_packet_out
from p4reduce.dataplane.p4runtime.roles import permit_role, role_name
from p4reduce.dataplane.p4runtime.slot import DeviceSlot
from p4reduce.dataplane.p4runtime.updates import invalid

API_VERSION: Final = "1.3.0"
"""What BMv2 answers, too."""

ENTITIES_PER_RESPONSE: Final = 512
"""A response stays far below the 4 MiB that gRPC clients accept: an entity has a few hundred bytes."""

PacketOutHandler: TypeAlias = Callable[[int, bytes], None]
"""Called with (device id, frame with the packet_out header in front)."""

_Get = p4r.GetForwardingPipelineConfigRequest


class Calls:
    """Answers calls, in whatever thread; every access to a device's state is made under ``lock``.

    Every method raises P4RuntimeError, or BatchError where parts of a request failed.
    """

    def __init__(
        self,
        slots: dict[int, DeviceSlot],
        lock: AbstractContextManager[bool],
        on_packet_out: PacketOutHandler | None,
    ) -> None:
        self._slots = slots
        self._lock = lock
        self._on_packet_out = on_packet_out

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return len(self._slots)

    def slot(self, device_id: int) -> DeviceSlot:
        """The slot of a device id. Raises NOT_FOUND."""
        slot = self._slots.get(device_id)
        if slot is None:
            raise P4RuntimeError(Code.NOT_FOUND, f"there is no device {device_id}; known: {_ranges(self._slots)}")
        return slot

    # --- unary calls

    def capabilities(self) -> p4r.CapabilitiesResponse:
        """The version of P4Runtime."""
        return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    def write(self, request: p4r.WriteRequest) -> p4r.WriteResponse:
        """Applies a batch of updates: each of them wholly or not at all, or the batch, as the request wants."""
        errors = self._write(request)
        if any(errors):
            raise BatchError(batch_status(errors, Code.UNKNOWN, "write"))
        return p4r.WriteResponse()

    def _write(self, request: p4r.WriteRequest) -> list[P4RuntimeError | None]:
        slot = self.slot(request.device_id)
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

    def read(self, request: p4r.ReadRequest) -> Iterator[p4r.ReadResponse]:
        """The entities that the valid requests of a batch select; then BatchError where some were invalid.

        As BMv2 does, the error has the code of the first invalid request; details list all, as for write. The state
        is that of the call; it is encoded as the responses are taken, without the lock.
        """
        slot = self.slot(request.device_id)
        config = slot.role_config(request.role)
        with self._lock:
            found, errors = slot.forwarding.select(request.entities)
        return _responses(found if config is None else filter(config.owns, found), errors)

    def set_pipeline(self, request: p4r.SetForwardingPipelineConfigRequest) -> p4r.SetForwardingPipelineConfigResponse:
        """Verifies, saves or commits P4Info and BMv2 JSON."""
        slot = self.slot(request.device_id)
        election_id = request.election_id if request.HasField("election_id") else None
        role = role_name(request.role, request.role_id)
        _check_pusher(slot, role, election_id)
        slot.verify(request)
        with self._lock, slot.gate:
            _check_pusher(slot, role, election_id)
            slot.set_pipeline(request)
        return p4r.SetForwardingPipelineConfigResponse()

    def get_pipeline(self, request: p4r.GetForwardingPipelineConfigRequest) -> p4r.GetForwardingPipelineConfigResponse:
        """The configuration, or parts of it; unset where there is none."""
        slot = self.slot(request.device_id)
        with self._lock:
            return _pipeline_response(slot, request.response_type)

    # --- what streams ask for

    def packet_out(self, slot: DeviceSlot, packet: p4r.PacketOut) -> None:
        """Hands a packet of the primary client over."""
        with self._lock:
            frame = encode_packet_out(slot.forwarding.schema.packet_out, packet)
            if self._on_packet_out is None:
                raise P4RuntimeError(Code.UNIMPLEMENTED, "packet_out: nothing takes packets on this server")
            self._on_packet_out(slot.device_id, frame)

    def digest_ack(self, slot: DeviceSlot, ack: p4r.DigestListAck) -> None:
        """Takes the primary client's acknowledgement of a digest list."""
        with self._lock:
            if slot.active is None:
                raise P4RuntimeError(Code.FAILED_PRECONDITION, f"device {slot.device_id} runs no pipeline")
            slot.active.digests.acknowledge(ack)


def _responses(found: Iterable[p4r.Entity], errors: Sequence[P4RuntimeError | None]) -> Iterator[p4r.ReadResponse]:
    """Entities in chunks; then BatchError where there are errors."""
    entities = iter(found)
    while chunk := list(islice(entities, ENTITIES_PER_RESPONSE)):
        yield p4r.ReadResponse(entities=chunk)
    first = next((error for error in errors if error is not None), None)
    if first is not None:
        raise BatchError(batch_status(errors, first.code, "read"))


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
