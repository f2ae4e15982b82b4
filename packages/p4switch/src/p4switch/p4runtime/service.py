"""The gRPC service p4.v1.P4Runtime: one event loop for all streams, and a few threads for calls that wait for locks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from threading import Lock, Semaphore, Thread, current_thread
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

import grpc
from finsy.proto import p4r
from google.protobuf.message import DecodeError, Message

from p4switch.abi import MAX_FRAME_BYTES
from p4switch.p4runtime.errors import SPACE, BatchError, P4RuntimeError, ServicerContext, StatusCode, abort
from p4switch.p4runtime.slot import DeviceCalls, DeviceSlot

# Threads for calls that wait for locks: a bounded number of daemon threads.


P = ParamSpec("P")
R = TypeVar("R")

_JOIN_SECONDS: Final = 1.0
"""Seconds for which shutdown waits for threads. A thread that still waits for a lock ends after it gets the lock."""


class DaemonThreads(Executor):
    """Runs calls in at most ``limit`` threads, which are started on demand; further calls wait in line.

    A ThreadPoolExecutor joins its threads when Python exits, so one call that waits for a lock would hang the
    process.
    """

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._lock = Lock()
        self._idle = Semaphore(0)
        self._calls: SimpleQueue[Callable[[bool], None] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._closed = False

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """See Executor.submit. Raises RuntimeError after shutdown."""
        future: Future[R] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("no calls are taken after shutdown")
            self._calls.put(lambda wanted: _run(future, fn, args, kwargs) if wanted else _drop(future))
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._limit:
                thread = Thread(target=self._work, name=self._name, daemon=True)
                self._threads.append(thread)
                thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the threads after all calls taken so far or, with ``cancel_futures``, after the running calls.

        With ``wait`` it waits for the threads, a second at most; a thread that waits for a lock ends later by itself.
        """
        with self._lock:
            self._closed = True
            threads, self._threads = self._threads, []
        if cancel_futures:
            self._drop_waiting()
        for _ in threads:
            self._calls.put(None)
        until = time.monotonic() + _JOIN_SECONDS
        for thread in threads if wait else ():
            if thread is not current_thread():
                thread.join(max(0.0, until - time.monotonic()))

    def _drop_waiting(self) -> None:
        try:
            while True:
                call = self._calls.get_nowait()
                if call is not None:
                    call(False)
        except Empty:
            return

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call(True)
            del call
            self._idle.release()


def _drop(future: Future[R]) -> None:
    future.cancel()
    future.set_running_or_notify_cancel()


def _run(future: Future[R], fn: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = fn(*args, **kwargs)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


# StreamChannel: one controller and one device. Any thread queues messages, the event loop sends them.


_LOG = logging.getLogger(__name__)

MAX_QUEUED: Final = 4096
"""Largest number of messages that wait for a slow controller; further packets are dropped."""

_SHOWN_METADATA: Final = 64
_SHOWN_NAME: Final = 256
"""Characters of a refused message's type that are sent back."""

PacketOut: TypeAlias = Callable[[DeviceSlot, p4r.PacketOut], None]
"""Takes a packet of a primary client. Raises P4RuntimeError."""

DigestAck: TypeAlias = Callable[[DeviceSlot, p4r.DigestListAck], None]
"""Takes an acknowledgement of a primary client. Raises P4RuntimeError."""


class Stream:
    """The stream of a controller, bound to a device by its first arbitration update.

    Belongs to the event loop in which it is made. Calls that may wait for a lock run in threads: an arbitration update
    waits for a write to its device, a packet waits for the driver of the devices.
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
        """Makes a stream that is not bound to a device.

        Args:
            find_slot: returns the slot of a device id; raises NOT_FOUND.
            packet_out: takes packets of the controller.
            digest_ack: takes the controller's acknowledgements of digests.
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
        """Set when the first arbitration update has arrived."""

    @property
    def bound(self) -> bool:
        """Whether the stream is bound to a device."""
        return self._slot is not None

    # --- from any thread

    def send(self, message: p4r.StreamMessageResponse) -> bool:
        """See Client.send."""
        if self._closed:
            return False
        if len(self._outgoing) >= MAX_QUEUED and message.WhichOneof("update") != "arbitration":
            return False
        return self._put(message)

    def end(self, error: P4RuntimeError) -> None:
        """Ends the responses with an error; messages that still wait are dropped."""
        self._outgoing.clear()
        self._put(error)

    def close(self) -> None:
        """Leaves the device; waits for a running write to the device."""
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
        """Yields messages for the controller until the stream ends. Raises P4RuntimeError if it ends with an error."""
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
        """Handles requests until the controller closes the stream or a request ends it.

        Args:
            read: returns the next message, serialized; None at the end.
        """
        try:
            while (serialized := await read()) is not None:
                try:
                    request = p4r.StreamMessageRequest.FromString(serialized)
                except DecodeError:
                    error = P4RuntimeError(StatusCode.INVALID_ARGUMENT, "bytes that are no StreamMessageRequest")
                    self._report(error, p4r.StreamError())
                    continue
                await self._handle(request)
            self._put(None)
        except P4RuntimeError as error:
            self.end(error)
        except Exception as error:
            _LOG.exception("stream")
            self.end(P4RuntimeError(StatusCode.INTERNAL, f"{type(error).__name__}: {error}"))

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
                self._report(P4RuntimeError(StatusCode.UNIMPLEMENTED, "other stream messages are not supported"), error)
            case _:
                self._report(
                    P4RuntimeError(StatusCode.INVALID_ARGUMENT, "the stream message is empty"), p4r.StreamError()
                )

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

        # A client that sent megabytes could not receive them back: gRPC's limit is 4 MiB.
        shown = p4r.PacketOut(payload=packet.payload[:MAX_FRAME_BYTES], metadata=packet.metadata[:_SHOWN_METADATA])
        report = p4r.StreamError(packet_out=p4r.PacketOutError(packet_out=shown))
        self._as_primary("packet_out: only the primary client may send packets", send, report)

    def _as_primary(self, otherwise: str, work: Callable[[DeviceSlot], None], report: p4r.StreamError) -> None:
        """Runs work that only the primary may do; every failure is reported, and the stream goes on."""
        slot = self._slot
        try:
            if slot is None or not slot.is_primary(self):
                raise P4RuntimeError(StatusCode.PERMISSION_DENIED, otherwise)
            work(slot)
        except P4RuntimeError as error:
            self._report(error, report)
        except Exception as error:
            _LOG.exception("stream message")
            self._report(P4RuntimeError(StatusCode.INTERNAL, f"{type(error).__name__}: {error}"), report)

    def _report(self, error: P4RuntimeError, message: p4r.StreamError) -> None:
        message.canonical_code, message.message, message.space = int(error.code), error.message, SPACE
        self.send(p4r.StreamMessageResponse(error=message))


MAX_CALLS: Final = 1024
"""Maximum number of calls of all clients that run or wait."""

MAX_UNBOUND: Final = 256
"""Maximum number of unbound streams beyond one for each device; a further one ends the oldest."""

_CALL_THREADS: Final = 8
_CLIENT_THREADS: Final = 4

A = TypeVar("A")
M = TypeVar("M", bound=Message)


class P4RuntimeService:
    """Takes calls in an event loop and runs them in threads; belongs to the loop in which it is made."""

    def __init__(self, calls: DeviceCalls, *, bid_seconds: float) -> None:
        """Makes a service.

        Args:
            calls: answers the calls.
            bid_seconds: seconds for which a stream may be open without an arbitration update.
        """
        self._calls = calls
        self._bid_seconds = bid_seconds
        self._loop = asyncio.get_running_loop()
        self._call_threads = DaemonThreads("p4runtime-call", _CALL_THREADS)
        self._client_threads = DaemonThreads("p4runtime-client", _CLIENT_THREADS)
        self._streams: set[Stream] = set()
        self._unbound: dict[Stream, None] = {}
        self._running = 0

    def handlers(self) -> grpc.GenericRpcHandler:
        """Returns the handler for a grpc.aio server. Messages are decoded and encoded in this service's threads."""
        unary = grpc.unary_unary_rpc_method_handler
        methods = {
            "Capabilities": unary(self._capabilities),
            "Write": unary(self._unary(p4r.WriteRequest, self._calls.write)),
            "Read": grpc.unary_stream_rpc_method_handler(self._read),
            "SetForwardingPipelineConfig": unary(
                self._unary(p4r.SetForwardingPipelineConfigRequest, self._calls.set_pipeline)
            ),
            "GetForwardingPipelineConfig": unary(
                self._unary(p4r.GetForwardingPipelineConfigRequest, self._calls.get_pipeline)
            ),
            "StreamChannel": grpc.stream_stream_rpc_method_handler(self._stream),
        }
        return grpc.method_handlers_generic_handler("p4.v1.P4Runtime", methods)

    def end_streams(self) -> None:
        """Ends all streams with UNAVAILABLE."""
        for stream in self._streams:
            stream.end(P4RuntimeError(StatusCode.UNAVAILABLE, "the P4Runtime server stops"))

    def close(self) -> None:
        """Ends the threads after all clients have left their devices; see DaemonThreads.shutdown."""
        self._call_threads.shutdown(cancel_futures=True)
        self._client_threads.shutdown()

    # --- unary calls

    async def _capabilities(self, serialized: bytes, context: ServicerContext) -> bytes:
        """Answers with the version of P4Runtime; needs no lock."""
        return self._calls.capabilities().SerializeToString()

    def _unary(
        self, kind: type[M], work: Callable[[M], Message]
    ) -> Callable[[bytes, ServicerContext], Awaitable[bytes]]:
        """Returns the handler of a call with one answer."""

        def answer(serialized: bytes) -> bytes:
            return work(_decoded(kind, serialized)).SerializeToString()

        async def call(serialized: bytes, context: ServicerContext) -> bytes:
            try:
                return await self._in_thread(answer, serialized)
            except (P4RuntimeError, BatchError) as error:
                await abort(context, error)

        return call

    async def _read(self, serialized: bytes, context: ServicerContext) -> None:
        """Sends entities in chunks; each is encoded after the one before was sent, so a slow client holds no thread."""

        def select(serialized: bytes) -> Iterator[p4r.ReadResponse]:
            return self._calls.read(_decoded(p4r.ReadRequest, serialized))

        def encode(responses: Iterator[p4r.ReadResponse]) -> bytes | None:
            response = next(responses, None)
            return None if response is None else response.SerializeToString()

        try:
            responses = await self._in_thread(select, serialized)
            while (response := await self._in_thread(encode, responses)) is not None:
                await context.write(response)
        except (P4RuntimeError, BatchError) as error:
            await abort(context, error)

    async def _in_thread(self, work: Callable[[A], R], argument: A) -> R:
        """Runs work in a thread. Raises RESOURCE_EXHAUSTED if too many calls wait, INTERNAL for unexpected errors."""
        if self._running >= MAX_CALLS:
            raise P4RuntimeError(StatusCode.RESOURCE_EXHAUSTED, f"{MAX_CALLS} calls wait already; no more are taken")
        self._running += 1
        try:
            return await self._loop.run_in_executor(self._call_threads, work, argument)
        except (P4RuntimeError, BatchError):
            raise
        except Exception as error:
            _LOG.exception("P4Runtime call")
            raise P4RuntimeError(StatusCode.INTERNAL, f"{type(error).__name__}: {error}") from None
        finally:
            self._running -= 1

    # --- streams

    async def _stream(self, requests: object, context: ServicerContext) -> None:
        """Runs a stream: arbitration, packets and acknowledgements."""
        stream = Stream(
            self._calls.slot,
            self._calls.packet_out,
            self._calls.digest_ack,
            clients=self._client_threads,
            calls=self._call_threads,
        )

        async def read() -> bytes | None:
            message = await context.read()
            return None if message is grpc.aio.EOF else message

        self._make_room()
        self._streams.add(stream)
        self._unbound[stream] = None
        helpers = [asyncio.create_task(stream.consume(read)), asyncio.create_task(self._await_bid(stream))]
        try:
            async for message in stream.responses():
                await context.write(message.SerializeToString())
        except P4RuntimeError as error:
            for helper in helpers:
                helper.cancel()
            await abort(context, error)
        finally:
            for helper in helpers:
                helper.cancel()
            self._streams.discard(stream)
            self._unbound.pop(stream, None)
            self._client_threads.submit(stream.close)

    async def _await_bid(self, stream: Stream) -> None:
        """Ends a stream that sends no arbitration update in time."""
        try:
            async with asyncio.timeout(self._bid_seconds):
                await stream.asked.wait()
        except TimeoutError:
            reason = f"no arbitration update within {self._bid_seconds:g} s"
            stream.end(P4RuntimeError(StatusCode.DEADLINE_EXCEEDED, reason))

    def _make_room(self) -> None:
        """Ends the oldest of the unbound streams if there are too many."""
        most = MAX_UNBOUND + self._calls.devices
        if len(self._unbound) >= most:
            self._unbound = {stream: None for stream in self._unbound if not stream.bound}
        if len(self._unbound) >= most:
            oldest = next(iter(self._unbound))
            del self._unbound[oldest]
            reason = f"{most} streams belong to no device; this one has waited longest"
            oldest.end(P4RuntimeError(StatusCode.RESOURCE_EXHAUSTED, reason))


def _decoded(kind: type[M], serialized: bytes) -> M:
    try:
        return kind.FromString(serialized)
    except DecodeError:
        raise P4RuntimeError(StatusCode.INTERNAL, f"bytes that are no {kind.DESCRIPTOR.name}") from None
