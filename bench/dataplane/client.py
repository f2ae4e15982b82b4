"""A P4Runtime client with only what the benchmarks need; the same calls go to BMv2 and to the embedded switch."""

import queue
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Final, Self

import grpc
from finsy.proto import p4i, p4r, p4r_grpc
from google.protobuf import text_format

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.p4runtime import P4RuntimeServer

DEADLINE_S: Final = 60.0
DEVICE_ID: Final = 1
_MAX_MESSAGE: Final = 256 << 20


class Client:
    """The primary client of device 1."""

    def __init__(self, address: str) -> None:
        """Connects and becomes primary. Raises RuntimeError where somebody else is, grpc.FutureTimeoutError."""
        options = (("grpc.max_receive_message_length", _MAX_MESSAGE), ("grpc.max_send_message_length", _MAX_MESSAGE))
        self._channel = grpc.insecure_channel(address, options=options)
        grpc.channel_ready_future(self._channel).result(timeout=DEADLINE_S)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._election = p4r.Uint128(low=1)
        self._requests: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        arbitration = p4r.MasterArbitrationUpdate(device_id=DEVICE_ID, election_id=self._election)
        self._requests.put(p4r.StreamMessageRequest(arbitration=arbitration))
        self._stream = self._stub.StreamChannel(iter(self._requests.get, None))
        answer = next(self._stream)
        if answer.arbitration.status.code != 0:
            raise RuntimeError(f"{address}: not primary: {answer.arbitration.status.message}")

    def set_pipeline(self, p4info: p4i.P4Info, device_config: bytes) -> None:
        """Loads a program. Raises grpc.RpcError."""
        self._stub.SetForwardingPipelineConfig(
            p4r.SetForwardingPipelineConfigRequest(
                device_id=DEVICE_ID,
                election_id=self._election,
                action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
                config=p4r.ForwardingPipelineConfig(p4info=p4info, p4_device_config=device_config),
            ),
            timeout=DEADLINE_S,
        )

    def insert(self, entities: Iterable[p4r.Entity]) -> None:
        """One Write request. Raises grpc.RpcError."""
        updates = [p4r.Update(type=p4r.Update.INSERT, entity=entity) for entity in entities]
        request = p4r.WriteRequest(device_id=DEVICE_ID, election_id=self._election, updates=updates)
        self._stub.Write(request, timeout=DEADLINE_S)

    def read(self, entities: Iterable[p4r.Entity]) -> Iterator[p4r.Entity]:
        """What the device has of what is asked for. Raises grpc.RpcError."""
        request = p4r.ReadRequest(device_id=DEVICE_ID, entities=entities)
        for answer in self._stub.Read(request, timeout=DEADLINE_S):
            yield from answer.entities

    def close(self) -> None:
        """Leaves."""
        self._requests.put(None)
        self._stream.cancel()
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def parse_p4info(text: str) -> p4i.P4Info:
    """P4Info from protobuf's text format."""
    return text_format.Parse(text, p4i.P4Info())


def entities_of(device: Device, p4info: p4i.P4Info, config: bytes) -> list[p4r.Entity]:
    """All table entries and multicast groups of a device, as a P4Runtime client reads them."""
    with P4RuntimeServer("127.0.0.1:0", on_pipeline=lambda _id, _program, _p4info: device) as server:
        server.add_device(DEVICE_ID)
        with Client(server.address) as client:
            client.set_pipeline(p4info, config)
            groups = p4r.PacketReplicationEngineEntry(multicast_group_entry=p4r.MulticastGroupEntry())
            wanted = (p4r.Entity(table_entry=p4r.TableEntry()), p4r.Entity(packet_replication_engine_entry=groups))
            found = list(client.read(wanted))
    return [entity for entity in found if not entity.table_entry.is_default_action]
