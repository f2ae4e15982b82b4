"""StreamChannel: one controller, one device. Requests are read by a thread of their own, responses by gRPC's."""

import logging
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Final, TypeAlias

import grpc
from finsy.proto import p4r

from p4reduce.dataplane.p4runtime.errors import SPACE, Code, P4RuntimeError
from p4reduce.dataplane.p4runtime.slot import DeviceSlot

_LOG = logging.getLogger(__name__)

MAX_QUEUED: Final = 4096
"""Messages that wait for a slow controller; from here on packets are dropped."""

PacketOut: TypeAlias = Callable[[DeviceSlot, p4r.PacketOut], None]
"""Takes a packet of a primary client. Raises P4RuntimeError."""

DigestAck: TypeAlias = Callable[[DeviceSlot, p4r.DigestListAck], None]
"""Takes an acknowledgement of a primary client. Raises P4RuntimeError."""


class Stream:
    """A controller's stream; belongs to a device from its first arbitration update on."""

    def __init__(self, find_slot: Callable[[int], DeviceSlot], packet_out: PacketOut, digest_ack: DigestAck) -> None:
        """A stream.

        Args:
            find_slot: the slot of a device id; raises NOT_FOUND.
            packet_out: what packets are given to.
            digest_ack: what acknowledgements of digests are given to.
        """
        self._find_slot = find_slot
        self._packet_out = packet_out
        self._digest_ack = digest_ack
        self._outgoing: SimpleQueue[p4r.StreamMessageResponse | P4RuntimeError | None] = SimpleQueue()
        self._lock = Lock()
        self._slot: DeviceSlot | None = None
        self._closed = False

    def send(self, message: p4r.StreamMessageResponse) -> bool:
        """See Client."""
        if self._closed:
            return False
        if self._outgoing.qsize() >= MAX_QUEUED and message.WhichOneof("update") != "arbitration":
            return False
        self._outgoing.put(message)
        return True

    def close(self) -> None:
        """Leaves the device and ends the responses."""
        with self._lock:
            self._closed = True
            slot, self._slot = self._slot, None
        if slot is not None:
            slot.leave(self)
        self._outgoing.put(None)

    def end(self, error: P4RuntimeError) -> None:
        """Ends the responses with an error, before anything that still waits to be sent."""
        self._drop_pending()
        self._outgoing.put(error)

    def responses(self) -> Iterator[p4r.StreamMessageResponse]:
        """Messages for the controller until the stream ends. Raises P4RuntimeError where it ends with an error."""
        while True:
            message = self._outgoing.get()
            if message is None:
                return
            if isinstance(message, P4RuntimeError):
                raise message
            yield message

    def consume(self, requests: Iterator[p4r.StreamMessageRequest]) -> None:
        """Handles requests until the controller closes the stream or does something that ends it."""
        try:
            for request in requests:
                self._handle(request)
        except P4RuntimeError as error:
            self.end(error)
        except grpc.RpcError:
            _LOG.debug("stream broken", exc_info=True)
        except Exception as error:
            # gRPC's request iterator raises plain exceptions when the call is cancelled.
            if not self._closed:
                _LOG.exception("stream")
                self._outgoing.put(P4RuntimeError(Code.INTERNAL, f"{type(error).__name__}: {error}"))
        finally:
            self.close()

    def _drop_pending(self) -> None:
        try:
            while True:
                self._outgoing.get_nowait()
        except Empty:
            return

    def _handle(self, request: p4r.StreamMessageRequest) -> None:
        match request.WhichOneof("update"):
            case "arbitration":
                self._arbitrate(request.arbitration)
            case "packet":
                self._packet(request.packet)
            case "digest_ack":
                self._acknowledge(request.digest_ack)
            case "other":
                error = p4r.StreamError(other=p4r.StreamOtherError(other=request.other))
                self._report(P4RuntimeError(Code.UNIMPLEMENTED, "other stream messages are not supported"), error)
            case _:
                self._report(P4RuntimeError(Code.INVALID_ARGUMENT, "the stream message is empty"), p4r.StreamError())

    def _arbitrate(self, request: p4r.MasterArbitrationUpdate) -> None:
        slot = self._slot or self._find_slot(request.device_id)
        with self._lock:
            if self._closed:
                return
            slot.arbitrate(self, request)
            self._slot = slot

    def _acknowledge(self, ack: p4r.DigestListAck) -> None:
        slot = self._slot
        try:
            if slot is None or not slot.is_primary(self):
                raise P4RuntimeError(Code.PERMISSION_DENIED, "digest_ack: only the primary client may acknowledge")
            self._digest_ack(slot, ack)
        except P4RuntimeError as error:
            self._report(error, p4r.StreamError(digest_list_ack=p4r.DigestListAckError(digest_list_ack=ack)))

    def _packet(self, packet: p4r.PacketOut) -> None:
        slot = self._slot
        try:
            if slot is None or not slot.is_primary(self):
                raise P4RuntimeError(Code.PERMISSION_DENIED, "packet_out: only the primary client may send packets")
            self._packet_out(slot, packet)
        except P4RuntimeError as error:
            self._report(error, p4r.StreamError(packet_out=p4r.PacketOutError(packet_out=packet)))

    def _report(self, error: P4RuntimeError, message: p4r.StreamError) -> None:
        message.canonical_code, message.message, message.space = int(error.code), error.message, SPACE
        self.send(p4r.StreamMessageResponse(error=message))
