"""The P4Runtime server: one process, one port, many devices."""

import asyncio
import ssl
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Final, Self

import grpc
from finsy.proto import p4r

from p4switch.base.event_loop import EventLoopThread
from p4switch.base.files import read_bytes
from p4switch.device import Device
from p4switch.p4runtime.digest_entries import Clock
from p4switch.p4runtime.forwarding import PipelineLoader, decode_packet_in
from p4switch.p4runtime.service import P4RuntimeService
from p4switch.p4runtime.slot import DeviceCalls, DeviceFactory, DeviceSlot, PacketOutHandler
from p4switch.traffic import Digest

# TLS for the P4Runtime server: its own certificate, and the CA of clients' certificates if clients need them.


class TlsError(ValueError):
    """A certificate or key cannot be used; the message names the file."""


@dataclass(frozen=True)
class Tls:
    """Certificates and key of a server, PEM.

    Attributes:
        certificate: the server's certificate chain.
        key: its private key.
        client_ca: the CA certificates for clients' certificates; None: clients need no certificate. With it, only
            clients with a certificate can connect (mutual TLS).
    """

    certificate: bytes
    key: bytes
    client_ca: bytes | None = None

    def __repr__(self) -> str:
        return f"Tls(mutual={self.client_ca is not None})"  # never the key

    @classmethod
    def from_files(cls, certificate: Path, key: Path, client_ca: Path | None = None) -> Self:
        """Reads PEM files and checks that they fit together.

        Raises:
            TlsError: a file cannot be read or is not PEM, or key and certificate do not belong together.
        """
        tls = cls(_read(certificate), _read(key), None if client_ca is None else _read(client_ca))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(certificate, key, password=_NoPassword(key))
        except ssl.SSLError as error:
            reason = error.reason or str(error)
            raise TlsError(f"{certificate} and {key} are no certificate with its private key (PEM): {reason}") from None
        if client_ca is not None:
            try:
                context.load_verify_locations(client_ca)
            except ssl.SSLError as error:
                raise TlsError(f"{client_ca} holds no certificates (PEM): {error.reason or error}") from None
        return tls

    def credentials(self) -> grpc.ServerCredentials:
        """Returns the credentials for gRPC."""
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)],
            root_certificates=self.client_ca,
            require_client_auth=self.client_ca is not None,
        )


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise TlsError(f"{path}: {error.strerror}") from None


class _NoPassword:
    """Called for the password of an encrypted key; raises TlsError, because the server cannot ask for one."""

    def __init__(self, key: Path) -> None:
        self._key = key

    def __call__(self) -> str:
        raise TlsError(f"{self._key} is encrypted; give a key without a password")


MAX_MESSAGE_BYTES: Final = 256 << 20
"""Largest request, as in BMv2: pipeline configurations are large."""

BID_SECONDS: Final = 30.0
"""Seconds for which a stream may be open without an arbitration update."""

_LOADER: Final = PipelineLoader()
"""Shared by all servers of a process, because they often get the same programs."""
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 1.0
"""Seconds for which ``stop`` lets calls finish before it cancels them."""
_CANCEL_SECONDS: Final = 2.0
"""Seconds for which ``stop`` waits for cancelled calls."""
_ENDING_SECONDS: Final = 0.5
"""Seconds for which ``stop`` waits for the tasks of calls that have ended."""


class P4RuntimeServer:
    """Serves P4Runtime for devices of this process.

    Use it as a context manager, or call start and stop. Every call that reads or changes the state of a device holds
    ``lock``; the driver of the devices must hold it while packets run.

        with P4RuntimeServer("127.0.0.1:0", on_pipeline=attach) as server:
            server.add_device(1, name="leaf1")
            connect(server.port)
    """

    def __init__(
        self,
        address: str = "127.0.0.1:0",
        *,
        on_pipeline: DeviceFactory | None = None,
        on_packet_out: PacketOutHandler | None = None,
        clock: Clock = time.time_ns,
        tls: Tls | None = None,
        lock: AbstractContextManager[bool] | None = None,
        bid_seconds: float = BID_SECONDS,
    ) -> None:
        """Makes a server that does not listen yet.

        Args:
            address: host:port; port 0 takes a free one. Without ``tls`` there is no authentication: keep it on the
                loopback interface unless the network is trusted.
            on_pipeline: called with (device id, program, P4Info), under the lock, when a pipeline is committed;
                returns the device that runs it. If unset, a plain Device is made.
            on_packet_out: called with (device id, frame that starts with the packet_out header), under the lock,
                from another thread, for packets that a controller sends. If unset, they are refused.
            clock: returns the devices' time in nanoseconds, for idle time-outs.
            tls: encrypts; also authenticates clients if it has a ``client_ca``.
            lock: becomes ``lock``; must be re-entrant. If unset, an RLock is made.
            bid_seconds: seconds for which a stream may be open without an arbitration update.
        """
        self.lock: Final[AbstractContextManager[bool]] = lock or RLock()
        self._address = address
        self._clock = clock
        self._tls = tls
        self._factory = on_pipeline or (
            lambda ident, program, _: Device(program, name=self._slots[ident].name, device_id=ident)
        )
        self._loader = _LOADER
        self._slots: dict[int, DeviceSlot] = {}
        self._calls = DeviceCalls(self._slots, self.lock, on_packet_out)
        self._bid_seconds = bid_seconds
        self._loop: EventLoopThread | None = None
        self._service: P4RuntimeService | None = None
        self._server: grpc.aio.Server | None = None
        self._port = 0

    # --- devices

    def add_device(self, device_id: int, *, name: str | None = None) -> None:
        """Adds a device without a pipeline; allowed while the server runs.

        Raises:
            ValueError: the id is not positive, needs more than 64 bits, or exists.
        """
        if not 0 < device_id < 1 << 64:
            raise ValueError(f"device id {device_id} is not in 1..2**64 - 1")
        with self.lock:
            if device_id in self._slots:
                raise ValueError(f"device id {device_id} is taken by {self._slots[device_id].name!r}")
            slot = DeviceSlot(device_id, name or f"switch{device_id}", self._factory, self._loader, self._clock)
            self._slots[device_id] = slot

    def set_pipeline(self, device_ids: int | Iterable[int], config: p4r.ForwardingPipelineConfig) -> None:
        """Commits a pipeline without a controller, like a switch that starts with a program.

        Raises:
            P4RuntimeError: as VERIFY_AND_COMMIT.
            KeyError: unknown device id.
        """
        slots = [self._slots[device_id] for device_id in ([device_ids] if isinstance(device_ids, int) else device_ids)]
        commit = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        loaded = self._loader.load(config)
        for slot in slots:
            with self.lock, slot.gate:
                slot.set_pipeline(commit, loaded)

    def restart(self, device_id: int) -> None:
        """Restarts a device with its program: entries, groups, registers and counters are gone.

        Controllers' streams stay open. Raises KeyError for an unknown device id.
        """
        slot = self._slots[device_id]
        with self.lock, slot.gate:
            slot.restart()

    def device(self, device_id: int) -> Device | None:
        """Returns the device of an id; None until a pipeline is committed. Raises KeyError."""
        active = self._slots[device_id].active
        return None if active is None else active.device

    def packet_in(self, device_id: int, frame: bytes) -> bool:
        """Sends a frame that left by the CPU port to the primary client.

        Args:
            device_id: the device that the frame left.
            frame: begins with the program's packet_in header, if there is one.

        Returns:
            False if it was lost: no primary, a primary that is too far behind, or a frame shorter than the header.

        Raises:
            KeyError: unknown device id.
        """
        slot = self._slots[device_id]
        active = slot.active
        packet = None if active is None else decode_packet_in(active.schema.packet_in, frame)
        return packet is not None and slot.send_to_primaries(p4r.StreamMessageResponse(packet=packet))

    def learn(self, device_id: int, digest: Digest) -> None:
        """Accepts a digest from a device that has its own driver, for the primary client. Raises KeyError."""
        with self.lock:
            active = self._slots[device_id].active
            if active is not None:
                active.digests.learn(digest)

    def dropped_digests(self, device_id: int) -> int:
        """Returns the number of samples that no controller got since the pipeline was committed. Raises KeyError."""
        active = self._slots[device_id].active
        return 0 if active is None else active.digests.dropped

    def report_idle(self) -> int:
        """Reports table entries that no packet has hit for their idle time-out to the primary clients.

        Call it as often as the precision of the time-outs requires. Returns the number of reported entries.
        """
        timed = [slot for slot in list(self._slots.values()) if slot.active is not None and slot.active.timed]
        if not timed:
            return 0  # without taking the lock, so that packets need not wait
        with self.lock:
            return sum(slot.report_idle() for slot in timed)

    # --- start and stop

    @property
    def port(self) -> int:
        """The TCP port. Raises RuntimeError before start."""
        if self._loop is None:
            raise RuntimeError("the P4Runtime server is not running: call start() first")
        return self._port

    @property
    def address(self) -> str:
        """host:port of the server. Raises RuntimeError before start."""
        return f"{self._address.rpartition(':')[0]}:{self.port}"

    def start(self) -> None:
        """Starts to listen and serve.

        Raises:
            OSError: the address cannot be bound.
            RuntimeError: the server runs already.
        """
        if self._loop is not None:
            raise RuntimeError("the P4Runtime server is running already")
        loop = EventLoopThread("p4runtime")
        try:
            self._port = loop.run(self._listen(), _START_SECONDS)
        except BaseException:
            loop.close()
            raise
        self._loop = loop

    async def _listen(self) -> int:
        """Starts the gRPC server in the event loop of this coroutine; returns the port."""
        service = P4RuntimeService(self._calls, bid_seconds=self._bid_seconds)
        server = grpc.aio.server(
            handlers=(service.handlers(),),
            options=(
                ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
                ("grpc.so_reuseport", 0),  # otherwise a second server would silently share the port
            ),
        )
        try:
            if self._tls is None:
                port = server.add_insecure_port(self._address)
            else:
                port = server.add_secure_port(self._address, self._tls.credentials())
        except RuntimeError as error:
            port, reason = 0, str(error)
        else:
            reason = "address in use or not of this machine"
        if port == 0:
            raise OSError(f"P4Runtime server: cannot listen on {self._address}: {reason}")
        await server.start()
        self._server, self._service = server, service
        return int(port)

    def stop(self) -> None:
        """Ends all calls and stops listening; does nothing if the server does not run.

        Takes a few seconds at most, even if clients do not answer or a thread holds the lock: a call that waits for the
        lock ends once it gets the lock, and its answer is dropped.
        """
        loop, self._loop = self._loop, None
        service, self._service = self._service, None
        if loop is None or service is None:
            return
        try:
            loop.run(self._close(service))
        finally:
            loop.close()
            service.close()

    async def _close(self, service: P4RuntimeService) -> None:
        server, self._server = self._server, None
        service.end_streams()
        if server is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(server.stop(grace=_STOP_SECONDS), _STOP_SECONDS + _CANCEL_SECONDS)
        # gRPC's tasks outlive its calls by one or two turns of the loop; a task cancelled in its last turn is reported
        if ending := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(ending, timeout=_ENDING_SECONDS)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
