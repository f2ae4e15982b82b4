"""Digests over gRPC: sent to the primary and acknowledged by it; and finsy as a client of control.p4's features."""

import asyncio

import finsy as fy
import pytest
from finsy.proto import p4r

from p4reduce.network.virtual import VirtualNetwork
from p4reduce.topologies import TopologyBuilder
from p4switch.p4runtime import StatusCode
from tests.support.p4runtime.client import RawClient
from tests.support.p4runtime.configs import config, json_path, p4info_path, schema

SCHEMA = schema("control")


@pytest.fixture
def primary(client):
    client.set_pipeline(config("control"))
    return client


def configure(client, **fields):
    entry = fy.P4DigestEntry("report_t", **fields).encode(SCHEMA)
    client.write(p4r.Update(type=p4r.Update.INSERT, entity=entry))
    return entry.digest_entry.digest_id


def learn(server, key):
    server.device(1).inject(1, bytes([6, 7]) + key.to_bytes(2, "big") + bytes(2))


def acknowledge(client, digest_id, list_id):
    ack = p4r.DigestListAck(digest_id=digest_id, list_id=list_id)
    client.send(p4r.StreamMessageRequest(digest_ack=ack))


def test_the_primary_gets_a_sample_again_once_it_has_acknowledged_it(server, primary):
    digest_id = configure(primary, max_list_size=1, ack_timeout_ns=1 << 60)
    learn(server, 5)
    learn(server, 5)
    first = primary.receive().digest
    assert (first.digest_id, first.list_id, len(first.data)) == (digest_id, 1, 1)
    acknowledge(primary, digest_id, 1)
    primary.arbitrate()  # answered in order, so the acknowledgement has been handled
    learn(server, 5)
    assert primary.receive().digest.list_id == 2


def test_digests_that_wait_are_sent_when_time_is_looked_at(server, primary):
    configure(primary, max_list_size=10, max_timeout_ns=1)
    learn(server, 5)
    server.report_idle()
    assert primary.receive().digest.list_id == 1


def test_digests_of_the_virtual_fabric_reach_the_primary(server, primary):
    configure(primary, max_list_size=2, max_timeout_ns=1 << 60)
    builder = TopologyBuilder("one")
    builder.host("h1")
    builder.switch("leaf1")
    builder.link("h1", "leaf1", "10G", "1us")
    network = VirtualNetwork(builder.build(), {"leaf1": server.device(1)})
    for key in (5, 6):
        network.send("h1", bytes([6, 7]) + key.to_bytes(2, "big") + bytes(50))
    network.run()
    for _, digest in network.digests("leaf1"):
        server.learn(1, digest)
    keys = [sample.struct.members[0].bitstring for sample in primary.receive().digest.data]
    assert keys == [b"\x05", b"\x06"]


def test_wrong_acknowledgements_are_answered(server, primary):
    digest_id = configure(primary, max_list_size=1)
    with RawClient(server.address, election_id=0) as backup:
        backup.bid()
        acknowledge(backup, digest_id, 1)
        error = next(m.error for m in iter(backup.receive, None) if m.WhichOneof("update") == "error")
    assert error.canonical_code == StatusCode.PERMISSION_DENIED
    assert error.digest_list_ack.digest_list_ack.digest_id == digest_id
    acknowledge(primary, 99, 1)
    assert primary.receive().error.canonical_code == StatusCode.NOT_FOUND
    acknowledge(primary, digest_id, 99)  # an unknown list counts as acknowledged
    assert primary.arbitrate().device_id == 1


def test_finsy_configures_everything_and_reads_it_back(server):
    entities = [
        fy.P4ActionProfileMember("I.selector", member_id=1, action=fy.Action("send", port=3, extra=1)),
        fy.P4ActionProfileGroup("I.selector", group_id=2, members=[fy.P4Member(1, weight=2)]),
        fy.P4TableEntry("choose", match=fy.Match(index=1), action=fy.P4IndirectAction(group_id=2)),
        fy.P4TableEntry("direct", match=fy.Match(index=1), action=fy.Action("metered", port=4)),
        fy.P4CloneSessionEntry(5, replicas=[(1, 0), (2, 7)]),
        fy.P4DigestEntry("report_t", max_list_size=1),
    ]
    rates = fy.P4MeterConfig(cir=1, cburst=2, pir=3, pburst=4)
    meters = [
        fy.P4MeterEntry("packets", index=1, config=rates),
        fy.P4DirectMeterEntry(table_entry=fy.P4TableEntry("direct", match=fy.Match(index=1)), config=rates),
    ]

    async def run():
        options = fy.SwitchOptions(p4info=p4info_path("control"), p4blob=json_path("control"))
        async with fy.Switch("sw1", server.address, options) as switch:
            await switch.insert(entities)
            await switch.modify(meters)
            learn(server, 5)
            digest = await anext(switch.read_digests("report_t"))
            await switch.write([fy.P4DigestListAck("report_t", digest.list_id)])
            found = [e async for e in switch.read([fy.P4MeterEntry("packets", index=1), fy.P4ActionProfileMember()])]
            return digest.data, found

    data, found = asyncio.run(asyncio.wait_for(run(), 30))
    assert data == [{"key": 5, "port": 1, "index": 7}]
    assert found[0].config == rates
    assert found[1].member_id == 1
    device = server.device(1)
    assert [port for port, _ in device.inject(1, bytes([4, 1, 0, 0, 0, 0]))] == [3]
    assert device.clone_sessions.get(5).replicas == ((1, 0), (2, 7))
