"""One device id of the server: its pipeline configurations and its clients."""

import logging
import time
from collections.abc import Callable, Iterable
from threading import RLock
from typing import Protocol, TypeAlias

from finsy.proto import p4i, p4r

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.model import Program, ProgramError
from p4reduce.dataplane.p4runtime.arbitration import Arbitration
from p4reduce.dataplane.p4runtime.errors import Code, P4RuntimeError
from p4reduce.dataplane.p4runtime.forwarding import Forwarding
from p4reduce.dataplane.p4runtime.idle import Clock
from p4reduce.dataplane.p4runtime.p4info import Schema
from p4reduce.dataplane.p4runtime.pipeline import PipelineLoader
from p4reduce.dataplane.p4runtime.roles import RoleConfig
from p4reduce.dataplane.p4runtime.updates import invalid

_LOG = logging.getLogger(__name__)

DeviceFactory: TypeAlias = Callable[[int, Program, p4i.P4Info], Device]
"""Called with (device id, program, P4Info) when a pipeline is committed; returns the device that runs it."""

_Request = p4r.SetForwardingPipelineConfigRequest


class Client(Protocol):
    """A stream of a controller."""

    def send(self, message: p4r.StreamMessageResponse) -> bool:
        """Queues a message; False where the stream is over or too far behind."""


class DeviceSlot:
    """A device id. ``forwarding`` needs the server's lock, ``gate`` guards arbitration and is held during writes.

    Attributes:
        active: what the device runs; None until a pipeline is committed.
        saved: what VERIFY_AND_SAVE left for COMMIT, with the writes made since, on a device that no packet reaches.
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
        self._arbitration: Arbitration[Client] = Arbitration(device_id)

    @property
    def forwarding(self) -> Forwarding:
        """What Read and Write refer to. Raises FAILED_PRECONDITION."""
        current = self.saved or self.active
        if current is None:
            raise P4RuntimeError(
                Code.FAILED_PRECONDITION, f"No forwarding pipeline config set for device {self.device_id} ({self.name})"
            )
        return current

    # --- pipeline

    def verify(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        """Checks a request and loads its configuration, so that set_pipeline finds it loaded. Needs no lock.

        Raises:
            P4RuntimeError.
        """
        action = request.action
        if action == _Request.COMMIT:
            if request.HasField("config"):
                raise invalid("COMMIT takes no config: it commits what VERIFY_AND_SAVE saved")
            return
        if action not in (
            _Request.VERIFY,
            _Request.VERIFY_AND_SAVE,
            _Request.VERIFY_AND_COMMIT,
            _Request.RECONCILE_AND_COMMIT,
        ):
            raise invalid(f"SetForwardingPipelineConfig: action {action} is not set or unknown")
        if not request.HasField("config"):
            raise invalid("SetForwardingPipelineConfig: config is missing")
        self._loader.load(request.config)

    def set_pipeline(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        """Carries out a request that verify has passed, from the primary client. Raises P4RuntimeError."""
        action = request.action
        if action == _Request.COMMIT:
            self._commit_saved()
            return
        program, schema = self._loader.load(request.config)
        config = p4r.ForwardingPipelineConfig()
        config.CopyFrom(request.config)
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
            raise P4RuntimeError(Code.INTERNAL, f"the pipeline cannot be run: {error}") from error
        self.active, self.saved = Forwarding(config, program, schema, device, self._clock), None
        self.active.digests.send = self.send_to_primaries
        return self.active

    def restart(self) -> None:
        """The program that runs begins anew, with nothing of what was installed and counted. Needs the lock."""
        before = self.active
        if before is not None:
            before.device.reset()
            fresh = Forwarding(before.config, before.program, before.schema, before.device, self._clock)
            fresh.digests.send = self.send_to_primaries
            self.active, self.saved = fresh, None

    def _commit_saved(self) -> None:
        saved = self.saved
        if saved is None:
            raise P4RuntimeError(Code.NOT_FOUND, "COMMIT: no pipeline config was saved by VERIFY_AND_SAVE")
        configured, volatile = saved.snapshot()
        _replay(self._commit(saved.config, saved.program, saved.schema), [*configured, *volatile])

    def _reconcile(self, config: p4r.ForwardingPipelineConfig, program: Program, schema: Schema) -> None:
        """Commits, with groups, entries, counters and registers kept, the latter two where they still fit."""
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

    def arbitrate(self, client: Client, request: p4r.MasterArbitrationUpdate) -> None:
        """Handles an arbitration update and sends the notifications. Raises P4RuntimeError."""
        with self.gate:
            _send(self._arbitration.update(client, request))

    def leave(self, client: Client) -> None:
        """Forgets a client."""
        with self.gate:
            _send(self._arbitration.leave(client))

    def check_primary(self, role: str, election_id: p4r.Uint128 | None) -> None:
        """Raises PERMISSION_DENIED unless a request comes from the primary of its role, NOT_FOUND without the role."""
        with self.gate:
            self._arbitration.check_primary(role, election_id)

    def role_config(self, role: str) -> RoleConfig | None:
        """What a role may do; None: everything. Raises NOT_FOUND."""
        with self.gate:
            return self._arbitration.config(role)

    def is_primary(self, client: Client) -> bool:
        """Whether a client is the primary of its role."""
        with self.gate:
            role = self._arbitration.role_of(client)
            return role is not None and self._arbitration.primary(role) is client

    def send_to_primaries(self, message: p4r.StreamMessageResponse) -> bool:
        """Sends a message to the primary of every role that receives such. Returns whether anyone got it."""
        with self.gate:
            receivers = self._arbitration.receivers(message)
        return sum(client.send(message) for client in receivers) > 0

    def report_idle(self) -> int:
        """Tells the primaries which entries were idle for their time-out, and sends digests that have waited.

        Needs the lock. Returns how many entries it reported.
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
    return P4RuntimeError(Code.RESOURCE_EXHAUSTED, f"the pipeline needs more memory than there is: {error}")


def _send(notifications: Iterable[tuple[Client, p4r.MasterArbitrationUpdate]]) -> None:
    for client, arbitration in notifications:
        client.send(p4r.StreamMessageResponse(arbitration=arbitration))


def _replay(target: Forwarding, updates: list[p4r.Update]) -> None:
    for error in target.write(updates):
        if error is not None:
            raise P4RuntimeError(Code.INTERNAL, f"the state of the saved pipeline cannot be replayed: {error.message}")
