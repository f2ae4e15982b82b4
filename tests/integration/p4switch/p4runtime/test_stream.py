"""StreamChannel: arbitration between clients, packets in and out."""

import contextlib
import queue

import grpc
import pytest
from finsy.proto import U128, p4r

from p4switch.p4runtime import P4RuntimeServer, StatusCode
from p4switch.p4runtime.arbitration import MAX_CLIENTS
from p4switch.p4runtime.service import MAX_QUEUED
from tests.support.p4runtime.client import RawClient, code_of
from tests.support.p4runtime.configs import config


@pytest.fixture
def sent_out():
    return queue.SimpleQueue()


@pytest.fixture
def server(sent_out):
    with P4RuntimeServer(on_packet_out=lambda device_id, frame: sent_out.put((device_id, frame))) as running:
        running.add_device(1)
        running.add_device(2)
        yield running


@pytest.fixture
def connect(server):
    with contextlib.ExitStack() as stack:
        yield lambda election_id=1, device_id=1, role="": stack.enter_context(
            RawClient(server.address, device_id, election_id, role)
        )


def status(update):
    """Return canonical code and election id of a notification."""
    return StatusCode(update.status.code), U128.decode(update.election_id)


def stream_error(client):
    """Return the code with which a stream ends."""
    with pytest.raises(grpc.RpcError) as caught:
        client.drain()
    return code_of(caught.value)


# --- arbitration


def test_the_highest_election_id_is_primary(connect):
    low, high = connect(3), connect(2**80)
    assert status(low.arbitrate()) == (StatusCode.OK, 3)
    assert status(high.arbitrate()) == (StatusCode.OK, 2**80)
    assert status(low.receive().arbitration) == (StatusCode.ALREADY_EXISTS, 2**80)
    with pytest.raises(grpc.RpcError) as caught:
        low.set_pipeline(config())
    assert code_of(caught.value) is StatusCode.PERMISSION_DENIED
    high.set_pipeline(config())


def test_when_the_primary_leaves_the_next_one_may_write(connect):
    low, high = connect(3), connect(4)
    high.arbitrate()
    assert status(low.arbitrate()) == (StatusCode.ALREADY_EXISTS, 4)
    high.hang_up()
    assert status(low.receive().arbitration) == (StatusCode.OK, 3)
    low.set_pipeline(config())
    low.write()


def test_a_lost_connection_counts_as_leaving(connect):
    low, high = connect(3), connect(4)
    high.arbitrate()
    low.arbitrate()
    high.channel.close()
    assert status(low.receive().arbitration) == (StatusCode.OK, 3)


def test_the_same_election_id_twice(connect):
    first, second = connect(3), connect(3)
    first.arbitrate()
    second.bid()
    assert stream_error(second) is StatusCode.INVALID_ARGUMENT
    first.set_pipeline(config())


def test_a_client_may_change_its_election_id(connect):
    first, second = connect(3), connect(2)
    first.arbitrate()
    second.arbitrate()
    assert status(second.arbitrate(9)) == (StatusCode.OK, 9)
    assert status(first.receive().arbitration) == (StatusCode.ALREADY_EXISTS, 9)
    second.set_pipeline(config())


def test_devices_have_primaries_of_their_own(connect):
    assert status(connect(3, device_id=1).arbitrate()) == (StatusCode.OK, 3)
    assert status(connect(2, device_id=2).arbitrate()) == (StatusCode.OK, 2)


def test_a_stream_stays_with_its_device(connect):
    client = connect(3)
    client.arbitrate()
    client.device_id = 2
    client.bid()
    assert stream_error(client) is StatusCode.FAILED_PRECONDITION


def test_an_unknown_device_ends_the_stream(connect):
    client = connect(3, device_id=99)
    client.bid()
    assert stream_error(client) is StatusCode.NOT_FOUND


def test_too_many_clients(connect):
    for election_id in range(MAX_CLIENTS):
        connect(election_id).arbitrate()
    late = connect(100)
    late.bid()
    assert stream_error(late) is StatusCode.RESOURCE_EXHAUSTED


def test_a_role_has_a_primary_of_its_own(connect):
    default, telemetry = connect(3), connect(3, role="telemetry")
    default.arbitrate()
    update = telemetry.arbitrate()
    assert (status(update), update.role.name) == ((StatusCode.OK, 3), "telemetry")
    telemetry.set_pipeline(config())
    default.write()


# --- packets


@pytest.fixture
def primary(connect):
    client = connect(5)
    client.arbitrate()
    client.set_pipeline(config())
    return client


HEADER = (0b0_0000_0111_0000101).to_bytes(2, "big")


def packet_out(**changes):
    fields = {1: b"\x07", 2: b"\x05", 3: b"\x00"} | changes.get("fields", {})
    metadata = [p4r.PacketMetadata(metadata_id=i, value=v) for i, v in fields.items() if v is not None]
    return p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=b"frame", metadata=metadata))


def test_packets_in_reach_the_primary_only(server, primary, connect):
    backup = connect(4)
    backup.arbitrate()
    assert server.packet_in(1, HEADER + b"frame")
    packet = primary.receive().packet
    assert packet.payload == b"frame"
    assert {m.metadata_id: m.value for m in packet.metadata} == {1: b"\x07", 2: b"\x05"}
    primary.hang_up()
    assert status(backup.receive().arbitration) == (StatusCode.OK, 4)
    assert server.packet_in(1, HEADER)
    assert backup.receive().packet.payload == b""


def test_packets_that_nobody_can_be_given(server, connect):
    assert not server.packet_in(1, HEADER)
    client = connect(5)
    client.arbitrate()
    assert not server.packet_in(1, HEADER)
    client.set_pipeline(config())
    assert not server.packet_in(1, b"x")
    with pytest.raises(KeyError):
        server.packet_in(77, HEADER)


def test_a_primary_that_does_not_read_is_not_waited_for(server, primary):
    # Unsent packets are queued up to a limit; beyond it they are dropped, so memory is bounded.
    payload = bytes(4000)
    sent = [server.packet_in(1, HEADER + payload) for _ in range(4 * MAX_QUEUED)]
    assert not all(sent)
    for _ in range(sum(sent)):
        assert primary.receive().packet.payload == payload


def test_packets_out_are_handed_over_with_their_header(primary, sent_out):
    primary.send(packet_out())
    assert sent_out.get(timeout=10) == (1, (0b0_0000_0111_101_0000).to_bytes(2, "big") + b"frame")


def test_the_device_sends_a_packet_out(server, primary, sent_out):
    primary.send(packet_out())
    device_id, frame = sent_out.get(timeout=10)
    payload = bytes(14) + b"payload"
    assert server.device(device_id).inject(510, frame[:2] + payload) == [(7, payload)]


@pytest.mark.parametrize("fields", [{1: None}, {9: b"\1"}, {1: b"\x02\x00"}, {2: b""}])
def test_wrong_packets_out_are_reported_and_dropped(primary, sent_out, fields):
    wrong = packet_out(fields=fields)
    primary.send(wrong)
    error = primary.receive().error
    assert error.canonical_code == StatusCode.INVALID_ARGUMENT
    assert error.packet_out.packet_out == wrong.packet
    primary.send(packet_out())
    assert sent_out.get(timeout=10)[1].endswith(b"frame")
    assert sent_out.empty()


def test_a_backup_sends_no_packets(primary, connect, sent_out):
    backup = connect(4)
    backup.arbitrate()
    backup.send(packet_out())
    assert backup.receive().error.canonical_code == StatusCode.PERMISSION_DENIED
    stranger = connect(1)
    stranger.send(packet_out())
    assert stranger.receive().error.canonical_code == StatusCode.PERMISSION_DENIED
    assert sent_out.empty()


def test_packets_need_a_pipeline_and_somebody_who_takes_them(connect):
    client = connect(5)
    client.arbitrate()
    client.send(packet_out())
    assert client.receive().error.canonical_code == StatusCode.FAILED_PRECONDITION
    with P4RuntimeServer() as deaf:
        deaf.add_device(1)
        with RawClient(deaf.address) as other:
            other.arbitrate()
            other.set_pipeline(config())
            other.send(packet_out())
            assert other.receive().error.canonical_code == StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (p4r.StreamMessageRequest(digest_ack=p4r.DigestListAck(digest_id=1)), StatusCode.NOT_FOUND),
        (p4r.StreamMessageRequest(other={}), StatusCode.UNIMPLEMENTED),
        (p4r.StreamMessageRequest(), StatusCode.INVALID_ARGUMENT),
    ],
)
def test_other_messages_are_answered_with_an_error(primary, message, code):
    primary.send(message)
    assert primary.receive().error.canonical_code == code
    assert status(primary.arbitrate()) == (StatusCode.OK, 5)
