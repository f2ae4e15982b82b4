"""One device id of the server, with its pipeline configurations and its clients."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from threading import RLock
from typing import Final, Protocol, TypeAlias

from finsy.proto import p4i, p4r

from p4switch.device import Device
from p4switch.p4runtime.arbitration import Arbitration, RoleConfig, permit_role, role_name
from p4switch.p4runtime.digest_entries import Clock
from p4switch.p4runtime.errors import BatchError, P4RuntimeError, StatusCode, batch_status
from p4switch.p4runtime.forwarding import Forwarding, LoadedPipeline, PipelineLoader, encode_packet_out
from p4switch.p4runtime.p4info import Schema
from p4switch.p4runtime.updates import invalid
from p4switch.program import Program, ProgramError

_LOG = logging.getLogger(__name__)

DeviceFactory: TypeAlias = Callable[[int, Program, p4i.P4Info], Device]
"""Called with (device id, program, P4Info) when a pipeline is committed; returns the device that runs it."""

_Request = p4r.SetForwardingPipelineConfigRequest


class StreamClient(Protocol):
    """A controller's stream."""

    def send(self, message: p4r.StreamMessageResponse) -> bool:
        """Queues a message; returns False if the stream is over or too far behind."""


class DeviceSlot:
    """A device id of the server. ``forwarding`` needs the server's lock; ``gate`` guards arbitration and writes.

    Attributes:
        active: the configuration that the device runs; None until a pipeline is committed.
        saved: the configuration that VERIFY_AND_SAVE keeps for COMMIT, with later writes, on a device that no packet
            reaches.
    """

    def __init__(
        self, device_id: int, name: str, factory: DeviceFactory, loader: PipelineLoader, clock: Clock = time.time_ns
    ) -> None:
        self.device_id = device_id
        self.name = name
        self.gate = RLock()
        self.active: Forwarding | None = None
        self.saved: Forwarding | None = None
        self._factory = factory
        self._loader = loader
        self._clock = clock
        self._arbitration: Arbitration[StreamClient] = Arbitration(device_id)

    @property
    def forwarding(self) -> Forwarding:
        """The configuration that Read and Write use. Raises FAILED_PRECONDITION if there is none."""
        current = self.saved or self.active
        if current is None:
            raise P4RuntimeError(
                StatusCode.FAILED_PRECONDITION,
                f"No forwarding pipeline config set for device {self.device_id} ({self.name})",
            )
        return current

    # --- pipeline

    def verify(self, request: p4r.SetForwardingPipelineConfigRequest) -> LoadedPipeline | None:
        """Checks a request and loads its configuration for set_pipeline; returns None for COMMIT. Needs no lock.

        Raises:
            P4RuntimeError.
        """
        action = request.action
        if action == _Request.COMMIT:
            if request.HasField("config"):
                raise invalid("COMMIT takes no config: it commits what VERIFY_AND_SAVE saved")
            return None
        if action not in (
            _Request.VERIFY,
            _Request.VERIFY_AND_SAVE,
            _Request.VERIFY_AND_COMMIT,
            _Request.RECONCILE_AND_COMMIT,
        ):
            raise invalid(f"SetForwardingPipelineConfig: action {action} is not set or unknown")
        if not request.HasField("config"):
            raise invalid("SetForwardingPipelineConfig: config is missing")
        return self._loader.load(request.config)

    def set_pipeline(
        self, action: p4r.SetForwardingPipelineConfigRequest.Action.ValueType, loaded: LoadedPipeline | None
    ) -> None:
        """Carries out a request of the primary client; ``loaded``: the result of ``verify``. Raises P4RuntimeError."""
        if loaded is None:
            self._commit_saved()
            return
        config, program, schema = loaded.config, loaded.program, loaded.schema
        if action == _Request.VERIFY_AND_SAVE:
            self.saved = self._staged(config, program, schema)
        elif action == _Request.VERIFY_AND_COMMIT:
            self._commit(config, program, schema)
        elif action == _Request.RECONCILE_AND_COMMIT:
            self._reconcile(config, program, schema)

    def _commit(self, config: p4r.ForwardingPipelineConfig, program: Program, schema: Schema) -> Forwarding:
        try:
            device = self._factory(self.device_id, program, schema.proto)
        except ProgramError as error:
            raise invalid(f"config.p4_device_config: {error}") from None
        except MemoryError as error:
            raise _too_large(error) from None
        except Exception as error:
            _LOG.exception("device %s: committing a pipeline", self.name)
            raise P4RuntimeError(StatusCode.INTERNAL, f"the pipeline cannot be run: {error}") from error
        self.active, self.saved = Forwarding(config, program, schema, device, self._clock), None
        self.active.digests.send = self.send_to_primaries
        return self.active

    def restart(self) -> None:
        """Restarts the program without its entries, groups, registers and counters. Needs the lock."""
        before = self.active
        if before is not None:
            before.device.reset()
            fresh = Forwarding(before.config, before.program, before.schema, before.device, self._clock)
            fresh.digests.send = self.send_to_primaries
            self.active, self.saved = fresh, None

    def _commit_saved(self) -> None:
        saved = self.saved
        if saved is None:
            raise P4RuntimeError(StatusCode.NOT_FOUND, "COMMIT: no pipeline config was saved by VERIFY_AND_SAVE")
        configured, volatile = saved.snapshot()
        _replay(self._commit(saved.config, saved.program, saved.schema), [*configured, *volatile])

    def _reconcile(self, config: p4r.ForwardingPipelineConfig, program: Program, schema: Schema) -> None:
        """Commits and keeps groups and entries; keeps counters and registers where they still fit."""
        before = self.saved or self.active
        if before is None:
            self._commit(config, program, schema)
            return
        configured, volatile = before.snapshot()
        trial = self._staged(config, program, schema)
        for error in trial.write(configured):
            if error is not None:
                raise invalid(f"RECONCILE_AND_COMMIT: the forwarding state cannot be kept: {error.message}")
        kept = [u for u, error in zip(volatile, trial.write(volatile), strict=True) if error is None]
        _replay(self._commit(config, program, schema), [*configured, *kept])

    def _staged(self, config: p4r.ForwardingPipelineConfig, program: Program, schema: Schema) -> Forwarding:
        try:
            device = Device(program, name=f"{self.name} (saved)", device_id=self.device_id)
        except MemoryError as error:
            raise _too_large(error) from None
        return Forwarding(config, program, schema, device, self._clock)

    # --- clients

    def arbitrate(self, client: StreamClient, request: p4r.MasterArbitrationUpdate) -> None:
        """Handles an arbitration update and sends the notifications. Raises P4RuntimeError."""
        with self.gate:
            _send(self._arbitration.update(client, request))

    def leave(self, client: StreamClient) -> None:
        """Removes a client."""
        with self.gate:
            _send(self._arbitration.leave(client))

    def check_primary(self, role: str, election_id: p4r.Uint128 | None) -> None:
        """Raises PERMISSION_DENIED unless the primary of its role sent the request, NOT_FOUND for an unknown role."""
        with self.gate:
            self._arbitration.check_primary(role, election_id)

    def role_config(self, role: str) -> RoleConfig | None:
        """Returns the permissions of a role; None: everything. Raises NOT_FOUND."""
        with self.gate:
            return self._arbitration.config(role)

    def is_primary(self, client: StreamClient) -> bool:
        """Returns whether a client is the primary of its role."""
        with self.gate:
            role = self._arbitration.role_of(client)
            return role is not None and self._arbitration.primary(role) is client

    def send_to_primaries(self, message: p4r.StreamMessageResponse) -> bool:
        """Sends a message to the primary of every role that receives it. Returns whether any client got it."""
        with self.gate:
            receivers = self._arbitration.receivers(message)
        return sum(client.send(message) for client in receivers) > 0

    def report_idle(self) -> int:
        """Reports entries that were idle for their time-out to the primaries, and sends digests that have waited.

        Needs the lock. Returns the number of reported entries.
        """
        reported = 0
        if self.active is not None:
            self.active.digests.flush()
        for entries in self.active.idle() if self.active is not None else ():
            message = p4r.IdleTimeoutNotification(table_entry=entries, timestamp=self._clock())
            self.send_to_primaries(p4r.StreamMessageResponse(idle_timeout_notification=message))
            reported += len(entries)
        return reported


def _too_large(error: MemoryError) -> P4RuntimeError:
    return P4RuntimeError(StatusCode.RESOURCE_EXHAUSTED, f"the pipeline needs more memory than there is: {error}")


def _send(notifications: Iterable[tuple[StreamClient, p4r.MasterArbitrationUpdate]]) -> None:
    for client, arbitration in notifications:
        client.send(p4r.StreamMessageResponse(arbitration=arbitration))


def _replay(target: Forwarding, updates: list[p4r.Update]) -> None:
    for error in target.write(updates):
        if error is not None:
            raise P4RuntimeError(
                StatusCode.INTERNAL, f"the state of the saved pipeline cannot be replayed: {error.message}"
            )


# The calls of p4.v1.P4Runtime, on the slots of a server.


API_VERSION: Final = "1.3.0"
"""The version that BMv2 reports, too."""

ENTITIES_PER_RESPONSE: Final = 512
"""Entities of one response: with a few hundred bytes each, it stays far below the 4 MiB that gRPC clients accept."""

PacketOutHandler: TypeAlias = Callable[[int, bytes], None]
"""Called with (device id, frame with the packet_out header in front)."""

_Get = p4r.GetForwardingPipelineConfigRequest


class DeviceCalls:
    """Answers calls in the calling thread; holds ``lock`` for every access to a device's state.

    Every method raises P4RuntimeError, or BatchError if parts of a request failed.
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
        """Returns the number of devices."""
        return len(self._slots)

    def slot(self, device_id: int) -> DeviceSlot:
        """Returns the slot of a device id. Raises NOT_FOUND."""
        slot = self._slots.get(device_id)
        if slot is None:
            raise P4RuntimeError(StatusCode.NOT_FOUND, f"there is no device {device_id}; known: {_ranges(self._slots)}")
        return slot

    # --- unary calls

    def capabilities(self) -> p4r.CapabilitiesResponse:
        """Returns the version of P4Runtime."""
        return p4r.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    def write(self, request: p4r.WriteRequest) -> p4r.WriteResponse:
        """Applies a batch of updates: each update wholly or not at all, or the whole batch, as the request demands."""
        errors = self._write(request)
        if any(errors):
            raise BatchError(batch_status(errors, StatusCode.UNKNOWN, "write"))
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
        """Yields the entities that the valid requests of a batch select; then raises BatchError if some were invalid.

        As in BMv2, the error has the code of the first invalid request; details list all, as for write. The state is
        that of the call; it is encoded without the lock, as the responses are taken.
        """
        slot = self.slot(request.device_id)
        config = slot.role_config(request.role)
        with self._lock:
            selected, errors = slot.forwarding.select(request.entities)
        return _responses(selected if config is None else filter(config.owns, selected), errors)

    def set_pipeline(self, request: p4r.SetForwardingPipelineConfigRequest) -> p4r.SetForwardingPipelineConfigResponse:
        """Verifies, saves or commits P4Info and BMv2 JSON."""
        slot = self.slot(request.device_id)
        election_id = request.election_id if request.HasField("election_id") else None
        role = role_name(request.role, request.role_id)
        _check_pusher(slot, role, election_id)
        loaded = slot.verify(request)
        with self._lock, slot.gate:
            _check_pusher(slot, role, election_id)
            slot.set_pipeline(request.action, loaded)
        return p4r.SetForwardingPipelineConfigResponse()

    def get_pipeline(self, request: p4r.GetForwardingPipelineConfigRequest) -> p4r.GetForwardingPipelineConfigResponse:
        """Returns the configuration, or the requested parts of it; unset if there is none."""
        slot = self.slot(request.device_id)
        with self._lock:
            return _pipeline_response(slot, request.response_type)

    # --- calls of streams

    def packet_out(self, slot: DeviceSlot, packet: p4r.PacketOut) -> None:
        """Passes on a packet of the primary client."""
        with self._lock:
            frame = encode_packet_out(slot.forwarding.schema.packet_out, packet)
            if self._on_packet_out is None:
                raise P4RuntimeError(StatusCode.UNIMPLEMENTED, "packet_out: nothing takes packets on this server")
            self._on_packet_out(slot.device_id, frame)

    def digest_ack(self, slot: DeviceSlot, ack: p4r.DigestListAck) -> None:
        """Takes the primary client's acknowledgement of a digest list."""
        with self._lock:
            if slot.active is None:
                raise P4RuntimeError(StatusCode.FAILED_PRECONDITION, f"device {slot.device_id} runs no pipeline")
            slot.active.digests.acknowledge(ack)


def _responses(selected: Iterable[p4r.Entity], errors: Sequence[P4RuntimeError | None]) -> Iterator[p4r.ReadResponse]:
    """Yields entities in chunks; then raises BatchError if there are errors."""
    entities = iter(selected)
    while chunk := list(islice(entities, ENTITIES_PER_RESPONSE)):
        yield p4r.ReadResponse(entities=chunk)
    first = next((error for error in errors if error is not None), None)
    if first is not None:
        raise BatchError(batch_status(errors, first.code, "read"))


def _check_pusher(slot: DeviceSlot, role: str, election_id: p4r.Uint128 | None) -> None:
    """Raises PERMISSION_DENIED unless the client is the primary of a role that may set the pipeline."""
    slot.check_primary(role, election_id)
    config = slot.role_config(role)
    if config is not None and not config.can_push_pipeline:
        raise P4RuntimeError(StatusCode.PERMISSION_DENIED, f"role {role!r} may not set the forwarding pipeline")


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
    """Returns device ids for a message: the first few."""
    known = sorted(ids)
    return ", ".join(map(str, known[:8])) + (", ..." if len(known) > 8 else "") or "none"
