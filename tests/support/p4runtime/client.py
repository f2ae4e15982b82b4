"""A raw gRPC client that sends messages unchanged."""

import queue
from collections.abc import Iterable, Iterator
from typing import Self

import grpc
from finsy.proto import U128, p4r, p4r_grpc, rpc_status

from p4switch.p4runtime import StatusCode

TIMEOUT = 20.0


class RawClient:
    """Calls of one controller to one device. Its stream ends after ``stream_s`` seconds (None: no limit)."""

    def __init__(
        self,
        address: str,
        device_id: int = 1,
        election_id: int | None = 1,
        role: str = "",
        stream_s: float | None = TIMEOUT,
    ) -> None:
        self.channel = grpc.insecure_channel(address, options=(("grpc.max_metadata_size", 1 << 20),))
        self.stub = p4r_grpc.P4RuntimeStub(self.channel)
        self.device_id, self.election_id, self.role, self._stream_s = device_id, election_id, role, stream_s
        self._outgoing: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        self._stream: Iterator[p4r.StreamMessageResponse] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        self.channel.close()

    # --- stream

    def send(self, message: p4r.StreamMessageRequest) -> None:
        """Sends a message; opens the stream if necessary."""
        if self._stream is None:
            self._stream = self.stub.StreamChannel(iter(self._outgoing.get, None), timeout=self._stream_s)
        self._outgoing.put(message)

    def receive(self) -> p4r.StreamMessageResponse:
        """Returns the next message. Raises grpc.RpcError if the stream ended with an error."""
        assert self._stream is not None
        return next(self._stream)

    def drain(self) -> None:
        """Reads until the stream ends. Raises grpc.RpcError if it ends with an error."""
        assert self._stream is not None
        for _ in self._stream:
            pass

    def arbitrate(self, election_id: int | None = None) -> p4r.MasterArbitrationUpdate:
        """Sends an arbitration update and returns the answer."""
        self.bid(election_id)
        return self.receive().arbitration

    def bid(self, election_id: int | None = None) -> None:
        """Sends an arbitration update."""
        if election_id is not None:
            self.election_id = election_id
        update = p4r.MasterArbitrationUpdate(device_id=self.device_id)
        if self.role:
            update.role.name = self.role
        if self.election_id is not None:
            update.election_id.CopyFrom(U128.encode(self.election_id))
        self.send(p4r.StreamMessageRequest(arbitration=update))

    def hang_up(self) -> None:
        """Closes the stream."""
        if self._stream is not None:
            self._outgoing.put(None)
            self._stream.cancel()  # type: ignore[attr-defined]
            self._stream = None
            self._outgoing = queue.SimpleQueue()

    # --- calls

    def write(self, *updates: p4r.Update, **fields: object) -> None:
        """Writes updates as this client."""
        request = p4r.WriteRequest(device_id=self.device_id, role=self.role, updates=updates, **fields)
        if self.election_id is not None:
            request.election_id.CopyFrom(U128.encode(self.election_id))
        self.stub.Write(request, timeout=TIMEOUT)

    def read(self, *entities: p4r.Entity) -> list[p4r.Entity]:
        """Returns the entities that a read request selects."""
        request = p4r.ReadRequest(device_id=self.device_id, entities=entities)
        return [e for response in self.stub.Read(request, timeout=TIMEOUT) for e in response.entities]

    def set_pipeline(
        self, config: p4r.ForwardingPipelineConfig | None, action: str = "VERIFY_AND_COMMIT"
    ) -> p4r.SetForwardingPipelineConfigResponse:
        """Sets a pipeline as this client."""
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self.device_id,
            role=self.role,
            action=p4r.SetForwardingPipelineConfigRequest.Action.Value(action),
            config=config,
        )
        if self.election_id is not None:
            request.election_id.CopyFrom(U128.encode(self.election_id))
        return self.stub.SetForwardingPipelineConfig(request, timeout=TIMEOUT)

    def get_pipeline(self, what: str = "ALL") -> p4r.GetForwardingPipelineConfigResponse:
        """Returns the pipeline configuration."""
        response_type = p4r.GetForwardingPipelineConfigRequest.ResponseType.Value(what)
        request = p4r.GetForwardingPipelineConfigRequest(device_id=self.device_id, response_type=response_type)
        return self.stub.GetForwardingPipelineConfig(request, timeout=TIMEOUT)


def code_of(error: grpc.RpcError) -> StatusCode:
    """Returns the canonical code of a failed call."""
    return StatusCode(error.code().value[0])


def details_of(error: grpc.RpcError) -> list[p4r.Error]:
    """Returns the p4.v1.Error of each element of a batch."""
    for key, value in error.trailing_metadata():
        if key == "grpc-status-details-bin":
            status = rpc_status.Status.FromString(value)
            assert status.code == error.code().value[0]
            assert status.message == error.details()
            return [_unpack(detail) for detail in status.details]
    return []


def _unpack(detail: object) -> p4r.Error:
    error = p4r.Error()
    assert detail.Unpack(error)  # type: ignore[attr-defined]
    return error


def codes(errors: Iterable[p4r.Error]) -> list[StatusCode]:
    """Returns the canonical codes of errors."""
    return [StatusCode(error.canonical_code) for error in errors]
