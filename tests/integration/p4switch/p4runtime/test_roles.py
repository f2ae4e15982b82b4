"""Roles over gRPC: arbitration for each role, and the rights that its configuration grants."""

import contextlib

import finsy as fy
import pytest
from finsy.proto import U128, p4r, stratum
from google.protobuf.any_pb2 import Any as AnyMessage
from hypothesis import given, settings
from hypothesis import strategies as st

from p4switch.p4runtime import P4RuntimeError, P4RuntimeServer, StatusCode
from p4switch.p4runtime.arbitration import MAX_ROLES, Arbitration
from tests.support.effort import examples
from tests.support.p4runtime.client import RawClient, codes, details_of
from tests.support.p4runtime.configs import config, schema
from tests.support.p4runtime.updates import EVERYTHING, dynamic, insert, refused

EXACT, LPM, COUNTER = (
    schema().tables["exact_table"].id,
    schema().tables["lpm_table"].id,
    schema().counters["both_count"].id,
)


def packed(**fields):
    message = AnyMessage()
    message.Pack(stratum.P4RoleConfig(**fields))
    return message


def bid(election_id, role="", config=None, device_id=1, role_id=0):
    update = p4r.MasterArbitrationUpdate(device_id=device_id, election_id=U128.encode(election_id))
    if role or role_id or config is not None:
        update.role.name, update.role.id = role, role_id
    if config is not None:
        update.role.config.CopyFrom(config)
    return update


@pytest.fixture
def server():
    with P4RuntimeServer(on_packet_out=lambda device_id, frame: None) as running:
        running.add_device(1)
        yield running


@pytest.fixture
def connect(server):
    with contextlib.ExitStack() as stack:

        def open_stream(role="", election_id=1, **fields):
            client = stack.enter_context(RawClient(server.address, 1, election_id, role))
            client.send(
                p4r.StreamMessageRequest(arbitration=bid(election_id, role, packed(**fields) if fields else None))
            )
            return client

        yield open_stream


@pytest.fixture
def owner(connect):
    client = connect()
    assert client.receive().arbitration.status.code == 0
    client.set_pipeline(config())
    return client


def lpm_entry():
    entry = fy.P4TableEntry("lpm_table", match=fy.Match(dst=(1 << 40, 8)), action=fy.Action("forward", port=3))
    return p4r.Update(type=p4r.Update.INSERT, entity=entry.encode(schema()))


def group_entry():
    members = {"multicast_group_id": 4, "replicas": [{"egress_port": 1}]}
    return p4r.Update(
        type=p4r.Update.INSERT, entity={"packet_replication_engine_entry": {"multicast_group_entry": members}}
    )


def test_a_role_writes_its_entities_only(connect, owner):
    routing = connect("routing", exclusive_p4_ids=[LPM])
    assert routing.receive().arbitration.role.config.Is(stratum.P4RoleConfig.DESCRIPTOR)
    with refused(StatusCode.UNKNOWN) as caught:
        routing.write(lpm_entry(), insert(), group_entry())
    assert codes(details_of(caught.value)) == [
        StatusCode.OK,
        StatusCode.PERMISSION_DENIED,
        StatusCode.PERMISSION_DENIED,
    ]
    assert "outside role 'routing'" in details_of(caught.value)[1].message
    owner.write(insert(), group_entry())
    assert len(dynamic(owner.read(EVERYTHING))) == 2


def test_an_atomic_batch_outside_the_role_changes_nothing(connect, owner):
    routing = connect("routing", exclusive_p4_ids=[LPM])
    routing.receive()
    with refused(StatusCode.UNKNOWN) as caught:
        routing.write(lpm_entry(), insert(), atomicity=p4r.WriteRequest.DATAPLANE_ATOMIC)
    assert codes(details_of(caught.value)) == [StatusCode.ABORTED, StatusCode.PERMISSION_DENIED]
    assert dynamic(owner.read(EVERYTHING)) == []


def test_a_read_for_a_role_shows_its_entities(connect, owner, server):
    routing = connect("routing", shared_p4_ids=[LPM])
    routing.receive()
    owner.write(insert(), lpm_entry())
    request = p4r.ReadRequest(device_id=1, role="routing", entities=[EVERYTHING])
    found = [e for response in owner.stub.Read(request, timeout=10) for e in response.entities]
    assert [e.table_entry.table_id for e in found] == [LPM]
    with refused(StatusCode.NOT_FOUND, "no role 'nobody'"):
        list(owner.stub.Read(p4r.ReadRequest(device_id=1, role="nobody", entities=[EVERYTHING]), timeout=10))


def test_without_a_configuration_a_role_has_everything(connect, owner):
    other = connect("other")
    assert other.receive().arbitration.status.code == 0
    other.write(insert(), lpm_entry(), group_entry())
    other.set_pipeline(config(), "RECONCILE_AND_COMMIT")


def test_roles_need_the_right_to_set_the_pipeline(connect, owner):
    without = connect("without", shared_p4_ids=[LPM])
    without.receive()
    with refused(StatusCode.PERMISSION_DENIED, "may not set the forwarding pipeline"):
        without.set_pipeline(config())
    allowed = connect("allowed", shared_p4_ids=[LPM], can_push_pipeline=True)
    allowed.receive()
    allowed.set_pipeline(config())


def test_a_role_that_nobody_has_is_not_found(owner):
    with refused(StatusCode.NOT_FOUND):
        owner.stub.Write(p4r.WriteRequest(device_id=1, role="nobody", election_id=U128.encode(1)), timeout=10)


def test_packets_reach_the_roles_that_want_them(connect, owner, server):
    field = next(h for h in config().p4info.controller_packet_metadata if h.preamble.name == "packet_in").metadata[0]
    deaf = connect("deaf", shared_p4_ids=[LPM])
    some = connect("some", receives_packet_ins=True, packet_in_filter={"metadata_id": field.id, "value": b"\x00\x03"})
    for client in (deaf, some):
        client.receive()
    header = lambda port: (port << 7).to_bytes(2, "big")  # noqa: E731
    for port in (2, 3):
        assert server.packet_in(1, header(port) + b"payload%d" % port)
    assert [owner.receive().packet.payload for _ in range(2)] == [b"payload2", b"payload3"]
    assert some.receive().packet.payload == b"payload3"
    deaf.bid(5)  # its next message is the answer to this
    assert deaf.receive().WhichOneof("update") == "arbitration"


def test_a_new_configuration_is_told_to_all_clients_of_the_role(connect, owner):
    primary = connect("routing", election_id=5, exclusive_p4_ids=[LPM])
    primary.receive()
    backup = connect("routing", election_id=4, exclusive_p4_ids=[EXACT])
    assert backup.receive().arbitration.status.code == StatusCode.ALREADY_EXISTS
    update = bid(5, "routing", packed(exclusive_p4_ids=[LPM, COUNTER]))
    primary.send(p4r.StreamMessageRequest(arbitration=update))
    for client in (backup, primary):
        told = stratum.P4RoleConfig()
        assert client.receive().arbitration.role.config.Unpack(told)
        assert list(told.exclusive_p4_ids) == [LPM, COUNTER]
    primary.hang_up()
    told = stratum.P4RoleConfig()
    assert backup.receive().arbitration.role.config.Unpack(told)
    assert list(told.exclusive_p4_ids) == [EXACT]  # the new primary's own
    backup.election_id = 4
    backup.write(insert())


def test_exclusive_ids_belong_to_one_role(connect, owner):
    connect("one", exclusive_p4_ids=[LPM]).receive()
    for fields in ({"exclusive_p4_ids": [LPM]}, {"shared_p4_ids": [LPM]}):
        with refused(StatusCode.INVALID_ARGUMENT, "exclusive"):
            connect("two", **fields).drain()
    connect("two", shared_p4_ids=[EXACT]).receive()


def test_other_configurations_are_refused(server):
    other = AnyMessage()
    other.Pack(p4r.TableEntry())
    broken = AnyMessage(type_url="type.googleapis.com/stratum.P4RoleConfig", value=b"\xff\xff")
    for role, message in (("routing", other), ("routing", broken), ("", packed(shared_p4_ids=[LPM]))):
        with RawClient(server.address) as client:
            client.send(p4r.StreamMessageRequest(arbitration=bid(1, role, message)))
            with refused(StatusCode.INVALID_ARGUMENT, "role"):
                client.drain()


def test_roles_by_number(connect, owner, server):
    """Clients before P4Runtime 1.4 send role numbers."""
    with RawClient(server.address) as old:
        old.send(p4r.StreamMessageRequest(arbitration=bid(9, role_id=7)))
        answer = old.receive().arbitration
        assert (answer.status.code, answer.role.id) == (0, 7)
        request = p4r.WriteRequest(device_id=1, role_id=7, election_id=U128.encode(9), updates=[insert()])
        old.stub.Write(request, timeout=10)
        request.role_id = 8
        with refused(StatusCode.NOT_FOUND):
            old.stub.Write(request, timeout=10)


@settings(max_examples=examples(25, 60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.text(max_size=3), st.integers(0, 5), st.booleans()), max_size=80))
def test_arbitration_never_fails_inside_and_one_primary_a_role(steps):
    """Clients connect, change and leave; each role's primary is its connected client with the highest id."""
    arbitration, live = Arbitration(1), {}
    for client, role, election_id, leaves in steps:
        if leaves:
            arbitration.leave(client)
            live.pop(client, None)
            continue
        try:
            arbitration.update(client, bid(election_id, role, packed(shared_p4_ids=[election_id]) if role else None))
        except P4RuntimeError:
            arbitration.leave(client)
            live.pop(client, None)
        else:
            live[client] = (role, election_id)
        for name in {r for r, _ in live.values()}:
            highest = max(e for r, e in live.values() if r == name)
            assert live[arbitration.primary(name)] == (name, highest)


def test_roles_do_not_pile_up():
    arbitration = Arbitration(1)
    for number in range(4 * MAX_ROLES):
        arbitration.update("client", bid(1, f"role {number}"))
        arbitration.leave("client")
    with pytest.raises(P4RuntimeError, match="no role 'role 0'"):
        arbitration.config("role 0")
    assert arbitration.config(f"role {4 * MAX_ROLES - 1}") is None
