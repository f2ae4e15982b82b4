"""Every client request gets an answer, and no update is half applied."""

import grpc
import pytest
from finsy.proto import U128, p4r
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from p4switch.p4runtime import P4RuntimeServer, StatusCode
from tests.support.effort import examples
from tests.support.p4runtime.client import TIMEOUT, RawClient, code_of
from tests.support.p4runtime.configs import config, forwarding, schema
from tests.support.p4runtime.valid import valid_updates

KNOWN_IDS = sorted(
    {
        0,
        1,
        2,
        3,
        *(t.id for t in schema().tables),
        *(a.id for a in schema().actions),
        *(c.id for c in schema().counters),
        *(c.id for c in schema().direct_counters),
        *(r.id for r in schema().registers),
    }
)
NUMBERS = st.sampled_from([*KNOWN_IDS, -1, 15, 16, 510, 511, 512, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63)])
BYTES = st.sampled_from([b"", b"\0", b"\1", b"\2", b"\x08\0", b"\x02\0", b"\xff" * 6, b"\xff" * 16]) | st.binary(
    max_size=9
)
MAX_DEPTH = 6

RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}


@st.composite
def messages(draw, kind, depth=0):
    """Draw a message of a class with random fields, including nested messages."""
    message = kind()
    fields = list(kind.DESCRIPTOR.fields)
    chosen = draw(st.lists(st.sampled_from(fields), unique_by=lambda f: f.name, max_size=4)) if fields else []
    for field in chosen:
        fill(draw, message, field, depth)
    return message


def fill(draw, message, field, depth):
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        kind = field.message_type
        if depth >= MAX_DEPTH or kind.full_name.startswith("google.protobuf") or kind.GetOptions().map_entry:
            return
        nested = messages(field.message_type._concrete_class, depth + 1)
        if field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(nested, max_size=3)))
        else:
            getattr(message, field.name).CopyFrom(draw(nested))
        return
    value = scalars(field)
    if field.is_repeated:
        getattr(message, field.name).extend(draw(st.lists(value, max_size=3)))
    else:
        setattr(message, field.name, draw(value))


def scalars(field):
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            return BYTES if field.type == FieldDescriptor.TYPE_BYTES else st.text(max_size=5)
        case FieldDescriptor.CPPTYPE_BOOL:
            return st.booleans()
        case FieldDescriptor.CPPTYPE_ENUM:
            return st.sampled_from([v.number for v in field.enum_type.values]) | st.integers(0, 9)
        case number:
            low, high = RANGES[number]
            return NUMBERS.filter(lambda n: low <= n <= high)


VALID_UPDATES = valid_updates()


def test_the_valid_updates_are_valid():
    assert not any(forwarding().write(VALID_UPDATES))


WHOLE_STATE = [
    p4r.Entity(table_entry=p4r.TableEntry(counter_data=p4r.CounterData())),
    p4r.Entity(table_entry=p4r.TableEntry(is_default_action=True)),
    p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=p4r.TableEntry())),
    p4r.Entity(counter_entry=p4r.CounterEntry()),
    p4r.Entity(register_entry=p4r.RegisterEntry()),
    p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": {}}),
]


def state(device):
    found, errors = device.read(WHOLE_STATE)
    assert not any(errors)
    return [entity.SerializeToString(deterministic=True) for entity in found]


@st.composite
def nearly_valid(draw):
    """Draw a valid update with a few fields, at any depth, changed at random."""
    update = p4r.Update()
    update.CopyFrom(draw(st.sampled_from(VALID_UPDATES)))
    for _ in range(draw(st.integers(0, 2))):
        message = update
        while nested := [v for _, v in message.ListFields() if hasattr(v, "ListFields")] + [
            item for _, v in message.ListFields() if hasattr(v, "add") for item in v
        ]:
            if draw(st.integers(0, 3)) == 0:
                break
            message = draw(st.sampled_from(nested))
        fill(draw, message, draw(st.sampled_from(list(message.DESCRIPTOR.fields))), MAX_DEPTH - 1)
    return update


@settings(max_examples=examples(40, 100), deadline=None)
@given(st.lists(messages(p4r.Update), max_size=3), st.lists(nearly_valid(), min_size=1, max_size=6))
def test_a_refused_update_changes_nothing_and_none_is_an_internal_error(garbage, updates):
    device = forwarding()
    for update in [*garbage, *updates]:
        before = state(device)
        (error,) = device.write([update])
        if error is not None:
            assert error.code is not StatusCode.INTERNAL, error
            assert state(device) == before


@settings(max_examples=examples(40, 100), deadline=None)
@given(messages(p4r.Entity))
def test_a_read_never_fails_inside(wanted):
    _, (error,) = forwarding().read([wanted])
    assert error is None or error.code is not StatusCode.INTERNAL, error


@pytest.fixture(scope="module")
def server():
    with P4RuntimeServer(on_packet_out=lambda device_id, frame: None) as running:
        running.add_device(1)
        yield running


@pytest.fixture(scope="module")
def primary(server):
    with RawClient(server.address) as client:
        client.arbitrate()
        client.set_pipeline(config())
        yield client


ANSWERS = set(StatusCode) - {StatusCode.INTERNAL}
CALLS = {
    "Write": p4r.WriteRequest,
    "Read": p4r.ReadRequest,
    "SetForwardingPipelineConfig": p4r.SetForwardingPipelineConfigRequest,
    "GetForwardingPipelineConfig": p4r.GetForwardingPipelineConfigRequest,
}


def answer(call):
    """Return the canonical code of a call."""
    try:
        call()
    except grpc.RpcError as error:
        return code_of(error)
    return StatusCode.OK


@settings(max_examples=examples(25, 60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(CALLS)), data=st.data())
def test_random_calls_are_answered(primary, name, data):
    request = data.draw(messages(CALLS[name]))
    request.device_id = data.draw(st.sampled_from([1, 1, 1, 0, 2]))
    if name in ("Write", "SetForwardingPipelineConfig") and data.draw(st.booleans()):
        request.election_id.CopyFrom(U128.encode(1))
        request.role = ""
    stub = getattr(primary.stub, name)
    call = (
        (lambda: list(stub(request, timeout=TIMEOUT))) if name == "Read" else (lambda: stub(request, timeout=TIMEOUT))
    )
    assert answer(call) in ANSWERS
    assert primary.get_pipeline("COOKIE_ONLY").HasField("config")


@settings(max_examples=examples(15, 40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(messages(p4r.StreamMessageRequest), min_size=1, max_size=4))
def test_random_streams_end_or_go_on_but_never_stop_the_server(server, primary, requests):
    with RawClient(server.address, election_id=None) as client:
        for request in requests:
            # A winning election id would rightly replace the primary, which is not tested here.
            request.arbitration.ClearField("election_id") if request.HasField("arbitration") else None
            client.send(request)
        client.hang_up()
    assert answer(primary.write) is StatusCode.OK


@settings(max_examples=examples(25, 60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(garbage=st.binary(max_size=60), name=st.sampled_from(sorted(CALLS)))
def test_bytes_that_are_no_message_are_answered(primary, garbage, name):
    make = primary.channel.unary_stream if name == "Read" else primary.channel.unary_unary
    call = make(f"/p4.v1.P4Runtime/{name}", request_serializer=bytes, response_deserializer=bytes)
    code = answer(lambda: list(call(garbage, timeout=TIMEOUT)) if name == "Read" else call(garbage, timeout=TIMEOUT))
    try:
        CALLS[name].FromString(garbage)
    except DecodeError:
        assert code is StatusCode.INTERNAL  # gRPC's answer to bytes that cannot be deserialized
    else:
        assert code in ANSWERS
    assert answer(primary.write) is StatusCode.OK


def flip(data, at, bit):
    changed = bytearray(data)
    changed[at % len(changed)] ^= 1 << bit
    return bytes(changed)


@settings(max_examples=examples(15, 40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 7)), min_size=1, max_size=20))
def test_damaged_pipelines_are_refused_or_work(primary, flips):
    message = config()
    for at, bit in flips:
        message.p4_device_config = flip(message.p4_device_config, at, bit)
    assert answer(lambda: primary.set_pipeline(message, "VERIFY")) in (StatusCode.OK, StatusCode.INVALID_ARGUMENT)
    p4info = message.p4info.SerializeToString()
    for at, bit in flips:
        p4info = flip(p4info, at, bit)
    message = config()
    try:
        message.p4info.ParseFromString(p4info)
    except DecodeError:
        return
    assert answer(lambda: primary.set_pipeline(message, "VERIFY")) in (StatusCode.OK, StatusCode.INVALID_ARGUMENT)
