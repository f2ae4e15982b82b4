"""Silent streams, calls that never end, and a server that stops despite them."""

import contextlib
import subprocess
import sys
import threading
from pathlib import Path

import grpc
import pytest
from finsy.proto import p4r

from p4switch.p4runtime import P4RuntimeServer, StatusCode
from p4switch.p4runtime.service import MAX_CALLS, MAX_UNBOUND
from tests.support.p4runtime.client import TIMEOUT, RawClient, code_of
from tests.support.p4runtime.configs import config
from tests.support.p4runtime.updates import insert
from tests.support.paths import ROOT

GARBAGE = b"\xff\xff\xff\xff"
STREAM = "/p4.v1.P4Runtime/StreamChannel"


@pytest.fixture
def server():
    with P4RuntimeServer(on_packet_out=lambda device_id, frame: None) as running:
        running.add_device(1)
        yield running


def own_threads():
    """Return threads of this process that the server started, or that run its calls."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("p4runtime")]


class Mute:
    """Streams on one channel that send nothing until ``go``."""

    def __init__(self, address, count, message=None):
        self.channel = grpc.insecure_channel(address)
        self._go = threading.Event()
        open_stream = self.channel.stream_stream(STREAM, request_serializer=bytes, response_deserializer=bytes)
        self.calls = [open_stream(self._requests(message), timeout=TIMEOUT) for _ in range(count)]

    def _requests(self, message):
        if message is not None:
            yield message
        self._go.wait(TIMEOUT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._go.set()
        self.channel.close()


def ended_with(call):
    """Return the code with which a stream ends."""
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    return code_of(caught.value)


def test_mute_streams_cost_no_threads_and_keep_nobody_out(server):
    with Mute(server.address, 150), RawClient(server.address) as client:
        client.arbitrate()
        client.set_pipeline(config())
        client.write(insert())
        assert len(own_threads()) < 20


def test_a_stream_must_bid_in_time():
    with P4RuntimeServer(bid_seconds=0.05) as server:
        server.add_device(1)
        with RawClient(server.address) as client, Mute(server.address, 3) as mute:
            client.arbitrate()
            assert [ended_with(call) for call in mute.calls] == [StatusCode.DEADLINE_EXCEEDED] * 3
            client.set_pipeline(config())  # a client that has bid in time stays connected


def test_other_messages_are_no_bid():
    packet = p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=b"x")).SerializeToString()
    with P4RuntimeServer(bid_seconds=0.05) as server:
        server.add_device(1)
        for message in (packet, GARBAGE):
            with Mute(server.address, 1, message) as mute:
                assert ended_with(mute.calls[0]) is StatusCode.DEADLINE_EXCEEDED


def test_too_many_mute_streams_end_the_oldest(server):
    with Mute(server.address, 1, GARBAGE) as first:
        next(first.calls[0])  # the server's answer to the garbage shows that it has read it
        with Mute(server.address, MAX_UNBOUND + 1), RawClient(server.address) as client:
            assert ended_with(first.calls[0]) is StatusCode.RESOURCE_EXHAUSTED
            client.arbitrate()


@pytest.mark.parametrize("message", [GARBAGE, b"\x0a\xff", b"\x08" * 1000])
def test_garbage_on_a_stream_is_answered_and_the_stream_goes_on(server, message):
    with grpc.insecure_channel(server.address) as channel:
        open_stream = channel.stream_stream(STREAM, request_serializer=bytes, response_deserializer=bytes)
        bid = p4r.StreamMessageRequest(arbitration=p4r.MasterArbitrationUpdate(device_id=1, election_id={"low": 1}))
        answers = list(open_stream(iter([message, bid.SerializeToString(), message]), timeout=TIMEOUT))
    answers = [p4r.StreamMessageResponse.FromString(answer) for answer in answers]
    assert [answer.WhichOneof("update") for answer in answers] == ["error", "arbitration", "error"]
    assert answers[0].error.canonical_code == StatusCode.INVALID_ARGUMENT


# --- stop


def stopped(server):
    """Stop a server in a thread, and check that this ends."""
    thread = threading.Thread(target=server.stop, daemon=True)
    thread.start()
    thread.join(TIMEOUT)
    assert not thread.is_alive()


@pytest.mark.parametrize("message", [None, GARBAGE], ids=["mute", "garbage"])
def test_a_stop_ends_mute_streams(server, message):
    with Mute(server.address, 40, message) as mute, RawClient(server.address) as client:
        client.arbitrate()
        stopped(server)
        codes = set()
        for call in mute.calls:
            with contextlib.suppress(grpc.RpcError):
                for _ in call:
                    pass
            codes.add(call.code())
        assert codes <= {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
    assert own_threads() == []


def test_a_stop_does_not_wait_for_whoever_holds_the_lock(server):
    with RawClient(server.address) as client:
        client.arbitrate()
        client.set_pipeline(config())
        with server.lock:
            calls = [client.stub.Write.future(write_request(), timeout=TIMEOUT) for _ in range(30)]
            client.send(p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=b"x")))
            stopped(server)
            for call in calls:
                with pytest.raises(grpc.RpcError):
                    call.result()
        waiting = own_threads()
        for thread in waiting:
            thread.join(TIMEOUT)
    assert own_threads() == []


def write_request():
    return p4r.WriteRequest(device_id=1, election_id={"low": 1}, updates=[insert()])


def test_a_stop_ends_a_read_that_nobody_takes(server):
    """The client's flow control blocks the answer halfway."""
    with RawClient(server.address) as client:
        client.arbitrate()
        client.set_pipeline(config("p4reduce-64"))
        everything = p4r.ReadRequest(device_id=1, entities=[p4r.Entity(register_entry={})] * 40)
        answers = client.stub.Read(everything, timeout=TIMEOUT)
        next(answers)
        stopped(server)
        with pytest.raises(grpc.RpcError):
            list(answers)
    assert own_threads() == []


def test_clients_that_were_there_are_forgotten_at_the_next_start(server):
    with RawClient(server.address, election_id=5) as client:
        client.arbitrate()
        stopped(server)
    server.start()
    with RawClient(server.address, election_id=1) as client:
        assert client.arbitrate().status.code == 0


LEAVES_NOTHING = """
import gc, os, threading
from tests.integration.p4switch.p4runtime.test_streams_limits import Mute
from tests.support.p4runtime.client import RawClient
from p4switch.p4runtime import P4RuntimeServer

def left():
    gc.collect()
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(30)  # gRPC's own threads of a client end a little after it was closed
    return len(os.listdir("/proc/self/fd")), sorted(thread.name for thread in threading.enumerate())

def serve():
    with P4RuntimeServer() as server:
        server.add_device(1)
        with Mute(server.address, 20), RawClient(server.address) as client:
            client.arbitrate()
            server.stop()

serve()
first = left()
for _ in range(5):
    serve()
print(first == left(), first[1], left())
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files in /proc")
def test_nothing_is_left_after_a_stop():
    """No threads or sockets are left, however often a server is started and stopped."""
    done = subprocess.run(
        [sys.executable, "-c", LEAVES_NOTHING], cwd=ROOT, timeout=120, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.startswith("True ['MainThread']"), done.stdout


def test_a_packet_out_that_is_too_long_costs_nothing(server):
    with RawClient(server.address) as client:
        client.arbitrate()
        client.set_pipeline(config())
        metadata = [p4r.PacketMetadata(metadata_id=i, value=b"\x01") for i in (1, 2, 3)]
        for size in (9217, 5 << 20):
            packet = p4r.PacketOut(payload=bytes(size), metadata=metadata)
            client.send(p4r.StreamMessageRequest(packet=packet))
            error = client.receive().error
            assert error.canonical_code == StatusCode.INVALID_ARGUMENT
            assert "9216" in error.message
        client.write(insert())


def test_calls_beyond_the_limit_are_refused(server):
    with RawClient(server.address) as client:
        client.arbitrate()
        with server.lock:
            request = p4r.GetForwardingPipelineConfigRequest(device_id=1)
            calls = [
                client.stub.GetForwardingPipelineConfig.future(request, timeout=TIMEOUT) for _ in range(MAX_CALLS + 10)
            ]
            done = []
            while len(done) < 10:
                done = [call for call in calls if call.done()]
            assert {call.code() for call in done} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert sum(call.code() is grpc.StatusCode.OK for call in calls) == MAX_CALLS
