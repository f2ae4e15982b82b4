"""StreamChannel: one controller, one device. Messages are queued by any thread and sent by the event loop."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from threading import Lock
from typing import Final, TypeAlias

from finsy.proto import p4r
from google.protobuf.message import DecodeError

from p4reduce.dataplane.abi import MAX_FRAME_BYTES
from p4reduce.dataplane.p4runtime.errors import SPACE, Code, P4RuntimeError
from p4reduce.dataplane.p4runtime.slot import DeviceSlot
from p4reduce.dataplane.p4runtime.threads import DaemonThreads

_LOG = logging.getLogger(__name__)

MAX_QUEUED: Final = 4096
"""Messages that wait for a slow controller; from here on packets are dropped."""

_SHOWN_METADATA: Final = 64
_SHOWN_NAME: Final = 256
"""How much of a refused message is sent back."""

PacketOut: TypeAlias = Callable[[DeviceSlot, p4r.PacketOut], None]
"""Takes a packet of a primary client. Raises P4RuntimeError."""

DigestAck: TypeAlias = Callable[[DeviceSlot, p4r.DigestListAck], None]
"""Takes an acknowledgement of a primary client. Raises P4RuntimeError."""


class Stream:
    """A controller's stream; belongs to a device from its first arbitration update on.

    Belongs to the event loop in which it is made. What may wait for a lock runs in threads: an arbitration update
    waits for a write to its device, a packet for whoever drives the devices.
    """

    def __init__(
        self,
        find_slot: Callable[[int], DeviceSlot],
        packet_out: PacketOut,
        digest_ack: DigestAck,
        *,
        clients: DaemonThreads,
        calls: DaemonThreads,
    ) -> None:
        """A stream.

        Args:
            find_slot: the slot of a device id; raises NOT_FOUND.
            packet_out: what packets are given to.
            digest_ack: what acknowledgements of digests are given to.
            clients: threads for arbitration.
            calls: threads for packets and acknowledgements.
        """
        self._find_slot = find_slot
        self._packet_out = packet_out
        self._digest_ack = digest_ack
        self._clients = clients
        self._calls = calls
        self._loop = asyncio.get_running_loop()
        self._outgoing: deque[p4r.StreamMessageResponse | P4RuntimeError | None] = deque()
        self._wake = asyncio.Event()
        self._lock = Lock()
        self._slot: DeviceSlot | None = None
        self._closed = False
        self.asked = asyncio.Event()
        """Set when the first arbitration update has come."""

    @property
    def bound(self) -> bool:
        """Whether a device has taken it."""
        return self._slot is not None

    # --- from any thread

    def send(self, message: p4r.StreamMessageResponse) -> bool:
        """See Client."""
        if self._closed:
            return False
        if len(self._outgoing) >= MAX_QUEUED and message.WhichOneof("update") != "arbitration":
            return False
        return self._put(message)

    def end(self, error: P4RuntimeError) -> None:
        """Ends the responses with an error, before anything that still waits to be sent."""
        self._outgoing.clear()
        self._put(error)

    def close(self) -> None:
        """Leaves the device; waits for a write to it."""
        self._closed = True
        with self._lock:
            slot, self._slot = self._slot, None
        if slot is not None:
            slot.leave(self)

    def _put(self, message: p4r.StreamMessageResponse | P4RuntimeError | None) -> bool:
        self._outgoing.append(message)
        try:
            self._loop.call_soon_threadsafe(self._wake.set)
        except RuntimeError:  # the loop is closed: the server has stopped
            return False
        return True

    # --- in the event loop

    async def responses(self) -> AsyncIterator[p4r.StreamMessageResponse]:
        """Messages for the controller until the stream ends. Raises P4RuntimeError where it ends with an error."""
        while True:
            while self._outgoing:
                message = self._outgoing.popleft()
                if message is None:
                    return
                if isinstance(message, P4RuntimeError):
                    raise message
                yield message
            self._wake.clear()
            if not self._outgoing:
                await self._wake.wait()

    async def consume(self, read: Callable[[], Awaitable[bytes | None]]) -> None:
        """Handles requests until the controller closes the stream or does something that ends it.

        Args:
            read: gives the next message, serialized; None at the end.
        """
        try:
            while (serialized := await read()) is not None:
                try:
                    request = p4r.StreamMessageRequest.FromString(serialized)
                except DecodeError:
                    error = P4RuntimeError(Code.INVALID_ARGUMENT, "bytes that are no StreamMessageRequest")
                    self._report(error, p4r.StreamError())
                    continue
                await self._handle(request)
            self._put(None)
        except P4RuntimeError as error:
            self.end(error)
        except Exception as error:
            _LOG.exception("stream")
            self.end(P4RuntimeError(Code.INTERNAL, f"{type(error).__name__}: {error}"))

    async def _handle(self, request: p4r.StreamMessageRequest) -> None:
        match request.WhichOneof("update"):
            case "arbitration":
                self.asked.set()
                await self._loop.run_in_executor(self._clients, self._arbitrate, request.arbitration)
            case "packet":
                await self._loop.run_in_executor(self._calls, self._packet, request.packet)
            case "digest_ack":
                await self._loop.run_in_executor(self._calls, self._acknowledge, request.digest_ack)
            case "other":
                known = p4r.StreamOtherError()
                known.other.type_url = request.other.type_url[:_SHOWN_NAME]
                error = p4r.StreamError(other=known)
                self._report(P4RuntimeError(Code.UNIMPLEMENTED, "other stream messages are not supported"), error)
            case _:
                self._report(P4RuntimeError(Code.INVALID_ARGUMENT, "the stream message is empty"), p4r.StreamError())

    # --- in threads

    def _arbitrate(self, request: p4r.MasterArbitrationUpdate) -> None:
        slot = self._slot or self._find_slot(request.device_id)
        with self._lock:
            if self._closed:
                return
            slot.arbitrate(self, request)
            self._slot = slot

    def _acknowledge(self, ack: p4r.DigestListAck) -> None:
        def acknowledge(slot: DeviceSlot) -> None:
            self._digest_ack(slot, ack)

        report = p4r.StreamError(digest_list_ack=p4r.DigestListAckError(digest_list_ack=ack))
        self._as_primary("digest_ack: only the primary client may acknowledge", acknowledge, report)

    def _packet(self, packet: p4r.PacketOut) -> None:
        def send(slot: DeviceSlot) -> None:
            self._packet_out(slot, packet)

        # A client that sent megabytes could not take them back: gRPC's limit is 4 MiB.
        shown = p4r.PacketOut(payload=packet.payload[:MAX_FRAME_BYTES], metadata=packet.metadata[:_SHOWN_METADATA])
        report = p4r.StreamError(packet_out=p4r.PacketOutError(packet_out=shown))
        self._as_primary("packet_out: only the primary client may send packets", send, report)

    def _as_primary(self, otherwise: str, work: Callable[[DeviceSlot], None], report: p4r.StreamError) -> None:
        """Does what only the primary may; whatever fails is reported, and the stream goes on."""
        slot = self._slot
        try:
            if slot is None or not slot.is_primary(self):
                raise P4RuntimeError(Code.PERMISSION_DENIED, otherwise)
            work(slot)
        except P4RuntimeError as error:
            self._report(error, report)
        except Exception as error:
            _LOG.exception("stream message")
            self._report(P4RuntimeError(Code.INTERNAL, f"{type(error).__name__}: {error}"), report)

    def _report(self, error: P4RuntimeError, message: p4r.StreamError) -> None:
        message.canonical_code, message.message, message.space = int(error.code), error.message, SPACE
        self.send(p4r.StreamMessageResponse(error=message))
