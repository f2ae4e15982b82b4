"""The gRPC service p4.v1.P4Runtime: an event loop for all streams, a few threads for calls that wait for locks."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeVar

import grpc
from finsy.proto import p4r
from google.protobuf.message import DecodeError, Message

from p4reduce.dataplane.p4runtime.calls import Calls
from p4reduce.dataplane.p4runtime.errors import BatchError, Code, P4RuntimeError, ServicerContext, abort
from p4reduce.dataplane.p4runtime.stream import Stream
from p4reduce.dataplane.p4runtime.threads import DaemonThreads

_LOG = logging.getLogger(__name__)

MAX_CALLS: Final = 1024
"""Calls that run or wait for their turn, of all clients."""

MAX_UNBOUND: Final = 256
"""Streams that no device has taken yet, beyond one for each device; a further one ends the oldest of them."""

_CALL_THREADS: Final = 8
_CLIENT_THREADS: Final = 4

A = TypeVar("A")
R = TypeVar("R")
M = TypeVar("M", bound=Message)


class P4RuntimeService:
    """Takes calls in an event loop and has them done; belongs to the loop in which it is made."""

    def __init__(self, calls: Calls, *, bid_seconds: float) -> None:
        """A service.

        Args:
            calls: what answers.
            bid_seconds: how long a stream may be open without an arbitration update.
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
        """What a grpc.aio server takes. Messages are decoded and encoded here, in the threads."""
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
            stream.end(P4RuntimeError(Code.UNAVAILABLE, "the P4Runtime server stops"))

    def close(self) -> None:
        """Ends the threads, when all clients have left their devices; see DaemonThreads.shutdown."""
        self._call_threads.shutdown(cancel_futures=True)
        self._client_threads.shutdown()

    # --- unary calls

    async def _capabilities(self, serialized: bytes, context: ServicerContext) -> bytes:
        """The version of P4Runtime; waits for nothing."""
        return self._calls.capabilities().SerializeToString()

    def _unary(
        self, kind: type[M], work: Callable[[M], Message]
    ) -> Callable[[bytes, ServicerContext], Awaitable[bytes]]:
        """The handler of a call with one answer."""

        def answer(serialized: bytes) -> bytes:
            return work(_decoded(kind, serialized)).SerializeToString()

        async def call(serialized: bytes, context: ServicerContext) -> bytes:
            try:
                return await self._in_thread(answer, serialized)
            except (P4RuntimeError, BatchError) as error:
                await abort(context, error)

        return call

    async def _read(self, serialized: bytes, context: ServicerContext) -> None:
        """Entities in chunks, each of them encoded when the one before was sent: a slow client holds no thread."""

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
        """Raises RESOURCE_EXHAUSTED where too many calls wait; INTERNAL for what nobody expected."""
        if self._running >= MAX_CALLS:
            raise P4RuntimeError(Code.RESOURCE_EXHAUSTED, f"{MAX_CALLS} calls wait already; no more are taken")
        self._running += 1
        try:
            return await self._loop.run_in_executor(self._call_threads, work, argument)
        except (P4RuntimeError, BatchError):
            raise
        except Exception as error:
            _LOG.exception("P4Runtime call")
            raise P4RuntimeError(Code.INTERNAL, f"{type(error).__name__}: {error}") from None
        finally:
            self._running -= 1

    # --- streams

    async def _stream(self, requests: object, context: ServicerContext) -> None:
        """Arbitration and packets."""
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
        """Ends a stream without an arbitration update."""
        try:
            async with asyncio.timeout(self._bid_seconds):
                await stream.asked.wait()
        except TimeoutError:
            reason = f"no arbitration update within {self._bid_seconds:g} s"
            stream.end(P4RuntimeError(Code.DEADLINE_EXCEEDED, reason))

    def _make_room(self) -> None:
        """Ends the oldest of the streams that belong to no device where there are too many."""
        most = MAX_UNBOUND + self._calls.devices
        if len(self._unbound) >= most:
            self._unbound = {stream: None for stream in self._unbound if not stream.bound}
        if len(self._unbound) >= most:
            oldest = next(iter(self._unbound))
            del self._unbound[oldest]
            reason = f"{most} streams belong to no device; this one has waited longest"
            oldest.end(P4RuntimeError(Code.RESOURCE_EXHAUSTED, reason))


def _decoded(kind: type[M], serialized: bytes) -> M:
    try:
        return kind.FromString(serialized)
    except DecodeError:
        raise P4RuntimeError(Code.INTERNAL, f"bytes that are no {kind.DESCRIPTOR.name}") from None
