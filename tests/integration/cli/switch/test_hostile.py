"""Hostile requests to a switch process: it answers with errors, keeps serving, and its state stays consistent."""

import contextlib
import json
import socket

import grpc
import pytest
from finsy.proto import U128, p4r, p4r_grpc
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from p4switch.p4runtime import StatusCode
from tests.support.effort import examples
from tests.support.p4runtime.client import TIMEOUT, RawClient, code_of, codes, details_of
from tests.support.p4runtime.configs import config
from tests.support.p4runtime.process import running_switch
from tests.support.p4runtime.updates import EVERYTHING, INSERT, insert, refused

SETTINGS = settings(
    max_examples=examples(12, 25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def address():
    with running_switch("--device-id", "1-2", "--executor", "interpreted") as switch:
        yield switch.address()
        assert switch.process.poll() is None
        assert switch.stop() == 0
        assert "Traceback" not in switch.errors()


@pytest.fixture(scope="module")
def owner(address):
    with RawClient(address, election_id=1 << 100) as client:
        client.arbitrate()
        client.set_pipeline(config())
        client.write(insert(1))
        yield client


@pytest.fixture(autouse=True)
def unharmed(owner):
    """Check that the state is unchanged and the primary can still write."""
    before = owner.read(EVERYTHING)
    yield
    assert owner.read(EVERYTHING) == before
    owner.write()


@SETTINGS
@given(st.lists(st.binary(min_size=1, max_size=200), max_size=5))
def test_bytes_that_are_no_grpc(address, chunks):
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=TIMEOUT) as connection, contextlib.suppress(OSError):
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        for chunk in chunks:
            connection.sendall(chunk)


def test_streams_that_open_and_vanish(address):
    """More streams than a device's limit of clients; their slots are freed."""
    for number in range(60):
        with contextlib.ExitStack() as stack:
            client = stack.enter_context(RawClient(address, election_id=number, role=f"role {number % 7}"))
            client.bid()
            if number % 3 == 0:
                client.receive()
            if number % 2:
                client.channel.close()
    with RawClient(address, election_id=1, role="last") as client:
        assert client.arbitrate().status.code == 0


def test_many_streams_at_once_do_not_keep_others_out(address):
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(RawClient(address, election_id=None)) for _ in range(40)]
        for client in clients:
            client.bid()
        answers = []
        for client in clients:
            try:
                answers.append(StatusCode(client.receive().arbitration.status.code))
            except grpc.RpcError as error:
                answers.append(code_of(error))
        assert set(answers) == {StatusCode.ALREADY_EXISTS, StatusCode.RESOURCE_EXHAUSTED}


@pytest.mark.parametrize("atomicity", [0, 1, 2])
def test_a_huge_batch_of_nonsense(owner, atomicity):
    nonsense = p4r.Update(type=INSERT, entity={"table_entry": {"table_id": 99}})
    with refused(StatusCode.UNKNOWN, "20000 of 20000 failed"):
        owner.write(*[nonsense] * 20_000, atomicity=atomicity)


def test_fields_of_a_megabyte(owner, address):
    update = insert(2)
    update.entity.table_entry.match[0].exact.value = b"\xff" * (1 << 20)
    with refused(StatusCode.UNKNOWN) as caught:
        owner.write(update)
    (error,) = details_of(caught.value)
    assert error.canonical_code == StatusCode.INVALID_ARGUMENT
    assert len(error.message) < 1000
    long = p4r.MasterArbitrationUpdate(device_id=1, election_id=U128.encode(1))
    long.role.name = "x" * (1 << 20)
    with RawClient(address) as client:
        client.send(p4r.StreamMessageRequest(arbitration=long))
        assert client.receive().arbitration.role.name == long.role.name


def damaged(change):
    message = config()
    program = json.loads(message.p4_device_config)
    change(program, message.p4info)
    message.p4_device_config = json.dumps(program).encode()
    return message


def test_pipelines_that_do_not_match(owner):
    def other_json(program, p4info):
        program.update(json.loads(config("p4reduce-64").p4_device_config))

    def wider_key(program, p4info):
        p4info.tables[0].match_fields[0].bitwidth += 1

    def endless_register(program, p4info):
        for array in program["register_arrays"]:
            array["size"] = 1 << 60
        for register in p4info.registers:
            register.size = (1 << 31) - 1

    def no_pipelines(program, p4info):
        program["pipelines"] = []

    for change in (other_json, wider_key, endless_register, no_pipelines):
        with refused(StatusCode.INVALID_ARGUMENT):
            owner.set_pipeline(damaged(change))
    for content in (b"[" * 100_000, b"{}", b"null", b"\xff", config().p4_device_config[:-100]):
        message = config()
        message.p4_device_config = content
        with refused(StatusCode.INVALID_ARGUMENT, "p4_device_config"):
            owner.set_pipeline(message)


@pytest.mark.parametrize(
    ("bits", "said"),
    [(1 << 20, "bits of a cell"), (1 << 16, "bytes of registers, counters, meters and value sets")],
)
def test_registers_without_end_are_an_error_not_a_crash(owner, bits, said):
    """P4Info and JSON agree on registers that exceed any machine's memory."""

    def endless(program, p4info):
        for array in program["register_arrays"]:
            array["size"], array["bitwidth"] = (1 << 31) - 1, bits
        for register in p4info.registers:
            register.size = (1 << 31) - 1
            register.type_spec.bitstring.bit.bitwidth = bits

    for action in ("VERIFY_AND_COMMIT", "VERIFY_AND_SAVE", "RECONCILE_AND_COMMIT"):
        with refused(StatusCode.INVALID_ARGUMENT, said):
            owner.set_pipeline(damaged(endless), action)


@SETTINGS
@given(
    role=st.text(max_size=5),
    role_id=st.integers(0, 3),
    election_id=st.integers(0, 1 << 128) | st.none(),
    device_id=st.integers(0, 3),
)
def test_calls_of_strangers(address, role, role_id, election_id, device_id):
    with grpc.insecure_channel(address) as channel:
        stub = p4r_grpc.P4RuntimeStub(channel)
        request = p4r.WriteRequest(device_id=device_id, role=role, role_id=role_id, updates=[insert(2)])
        if election_id is not None and election_id != 1 << 100:
            request.election_id.CopyFrom(U128.encode(election_id & ((1 << 128) - 1)))
        with pytest.raises(grpc.RpcError) as caught:
            stub.Write(request, timeout=TIMEOUT)
        assert code_of(caught.value) in (StatusCode.NOT_FOUND, StatusCode.PERMISSION_DENIED)


def test_a_batch_with_an_error_for_each_update(owner):
    """Error details are returned up to gRPC's metadata limit."""
    with refused(StatusCode.UNKNOWN) as caught:
        owner.write(*[insert(1)] * 100)
    assert codes(details_of(caught.value)) == [StatusCode.ALREADY_EXISTS] * 100
