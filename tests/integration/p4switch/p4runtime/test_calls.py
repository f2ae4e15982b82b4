"""P4Runtime over gRPC: Write and Read as a whole, and finsy as a client."""

import asyncio

import finsy as fy
import pytest
from finsy.proto import U128, p4r

from p4switch.p4runtime import P4RuntimeServer, StatusCode
from tests.support.p4runtime.client import RawClient, codes, details_of
from tests.support.p4runtime.configs import config, json_path, p4info_path, schema
from tests.support.p4runtime.updates import EVERYTHING, INSERT, MODIFY, dynamic, entry, insert, refused


def test_capabilities(client):
    assert client.stub.Capabilities(p4r.CapabilitiesRequest(), timeout=60).p4runtime_api_version == "1.3.0"


def test_every_call_needs_a_known_device(server):
    with RawClient(server.address, device_id=99) as stranger:
        for call in (
            lambda: stranger.write(insert()),
            lambda: stranger.read(EVERYTHING),
            lambda: stranger.set_pipeline(config()),
            stranger.get_pipeline,
            stranger.arbitrate,
        ):
            with refused(StatusCode.NOT_FOUND, "no device 99; known: 1"):
                call()


def test_without_a_pipeline(client):
    with refused(StatusCode.FAILED_PRECONDITION, "No forwarding pipeline config"):
        client.write(insert())
    with refused(StatusCode.FAILED_PRECONDITION):
        client.read(EVERYTHING)
    assert not client.get_pipeline().HasField("config")


def test_only_the_primary_writes_and_anyone_reads(server, client):
    client.set_pipeline(config())
    client.write(insert())
    for election_id in (None, 0, 2):
        with RawClient(server.address, election_id=election_id) as other:
            with refused(StatusCode.PERMISSION_DENIED):
                other.write(insert(2))
            with refused(StatusCode.PERMISSION_DENIED):
                other.set_pipeline(config())
            assert len(dynamic(other.read(EVERYTHING))) == 1


def test_a_failed_batch_has_an_error_for_each_update(client):
    client.set_pipeline(config())
    with refused(StatusCode.UNKNOWN) as caught:
        client.write(insert(1), insert(1), insert(2, "drop"), insert(3), p4r.Update())
    errors = details_of(caught.value)
    expected = [
        StatusCode.OK,
        StatusCode.ALREADY_EXISTS,
        StatusCode.PERMISSION_DENIED,
        StatusCode.OK,
        StatusCode.INVALID_ARGUMENT,
    ]
    assert codes(errors) == expected
    assert [bool(e.message) for e in errors] == [c is not StatusCode.OK for c in expected]
    assert "3 of 5 failed" in caught.value.details()
    assert len(dynamic(client.read(EVERYTHING))) == 2


def test_a_successful_batch_has_no_details(client):
    client.set_pipeline(config())
    client.write()
    client.write(insert(1), insert(2))
    assert len(dynamic(client.read(EVERYTHING))) == 2


def test_a_long_failing_batch_still_says_what_failed(client):
    client.set_pipeline(config())
    with refused(StatusCode.UNKNOWN) as caught:
        client.write(*[insert(1)] * 700)
    assert codes(details_of(caught.value)) == [StatusCode.OK] + [StatusCode.ALREADY_EXISTS] * 699
    with refused(StatusCode.UNKNOWN, "3000 of 3000 failed.*ALREADY_EXISTS") as caught:
        client.write(*[insert(1)] * 3000)
    assert details_of(caught.value) == []


def test_a_failed_read_returns_what_the_other_requests_select(client):
    client.set_pipeline(config())
    client.write(insert())
    wrong = p4r.Entity(table_entry=p4r.TableEntry(table_id=5))
    request = p4r.ReadRequest(device_id=1, entities=[EVERYTHING, wrong, p4r.Entity(), EVERYTHING])
    found = []
    with refused(StatusCode.INVALID_ARGUMENT) as caught:
        for response in client.stub.Read(request, timeout=10):
            found += dynamic(response.entities)
    assert len(found) == 2
    assert codes(details_of(caught.value)) == [
        StatusCode.OK,
        StatusCode.INVALID_ARGUMENT,
        StatusCode.INVALID_ARGUMENT,
        StatusCode.OK,
    ]


def test_a_read_may_be_larger_than_a_message(client):
    client.set_pipeline(config("p4reduce-64"))
    found = client.read(p4r.Entity(register_entry=p4r.RegisterEntry()))
    assert len(found) == sum(register.size for register in config("p4reduce-64").p4info.registers) > 2 * 4096
    client.write(
        p4r.Update(
            type=MODIFY,
            entity=p4r.Entity(
                register_entry=p4r.RegisterEntry(
                    register_id=next(
                        r.preamble.id for r in config("p4reduce-64").p4info.registers if "lanes_0" in r.preamble.name
                    ),
                    data={"bitstring": b"\xff" * 256},
                )
            ),
        )
    )
    found = client.read(p4r.Entity(register_entry=p4r.RegisterEntry()))
    assert sum(len(e.register_entry.data.bitstring) for e in found) > 1 << 20


def test_ten_thousand_entries_in_one_write(client):
    client.set_pipeline(config("p4reduce-64"))
    described = schema("p4reduce-64")
    updates = [
        p4r.Update(
            type=INSERT,
            entity=fy.P4TableEntry(
                "route",
                match=fy.Match(dst=(0x0A000000 + 256 * i, 24)),
                action=fy.Action("next_hop", port=i % 500, mac=i),
            ).encode(described),
        )
        for i in range(10_000)
    ]
    request = p4r.WriteRequest(device_id=1, election_id=U128.encode(1), updates=updates)
    client.stub.Write(request, timeout=20)
    wanted = p4r.Entity(table_entry=p4r.TableEntry(table_id=described.tables["route"].id))
    assert len(client.read(wanted)) == 10_000


# --- finsy as a client


def test_many_devices_on_one_port():
    count = 12
    with P4RuntimeServer() as server:
        for device_id in range(1, count + 1):
            server.add_device(device_id)

        async def program(device_id):
            options = fy.SwitchOptions(
                p4info=p4info_path("entities"), p4blob=json_path("entities"), device_id=device_id
            )
            async with fy.Switch(f"s{device_id}", server.address, options) as switch:
                assert switch.is_primary
                for port in range(device_id % 4 + 1):
                    await switch.write([+entry(port)])
                found = [e async for e in switch.read(fy.P4TableEntry("exact_table"))]
                return len(found)

        async def everyone():
            return await asyncio.gather(*(program(d) for d in range(1, count + 1)))

        assert asyncio.run(everyone()) == [d % 4 + 1 for d in range(1, count + 1)]
        for device_id in range(1, count + 1):
            assert len(server.device(device_id).tables["EntitiesIngress.exact_table"]) == device_id % 4 + 1


def test_finsy_reads_what_it_wrote(server):
    entities = [
        entry(),
        fy.P4TableEntry(
            "ternary_table",
            match=fy.Match(ether_type=0x0800),
            action=fy.Action("remember", index=3, value=9),
            priority=7,
        ),
        fy.P4TableEntry("lpm_table", match=fy.Match(dst="0a:00:00:00:00:00/8"), action=fy.Action("forward", port=2)),
        fy.P4TableEntry(
            "range_table", match=fy.Match(ether_type=(4, 9), ingress_port=1), action=fy.Action("NoAction"), priority=1
        ),
        fy.P4TableEntry("optional_table", match=fy.Match(src=5), action=fy.Action("NoAction"), priority=1),
        fy.P4MulticastGroupEntry(4, replicas=[1, 2, (3, 7)]),
    ]

    async def session():
        options = fy.SwitchOptions(p4info=p4info_path("entities"), p4blob=json_path("entities"), device_id=1)
        async with fy.Switch("s1", server.address, options) as switch:
            await switch.insert(entities)
            found = [e async for e in switch.read([fy.P4TableEntry(), fy.P4MulticastGroupEntry()])]
            with pytest.raises(fy.P4ClientError) as caught:
                await switch.insert(entities[:2])
            assert {d.canonical_code for d in caught.value.details.values()} == {fy.GRPCStatusCode.ALREADY_EXISTS}
            await switch.delete_all()
            left = [e async for e in switch.read(fy.P4TableEntry())]
            return found, left

    found, left = asyncio.run(session())
    encoded = {e.encode(schema()).SerializeToString(deterministic=True) for e in found}
    assert {e.encode(schema()).SerializeToString(deterministic=True) for e in entities} <= encoded
    assert {e.table_id for e in left} == {"const_table"}
