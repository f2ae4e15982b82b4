"""P4Runtime over gRPC: pipeline configurations are verified, saved, committed, reconciled."""

import contextlib

import finsy as fy
import pytest
from finsy.proto import p4r

from p4switch.device import Device
from p4switch.p4runtime import P4RuntimeServer, StatusCode
from p4switch.program import UnsupportedConstruct
from tests.support.p4runtime.client import RawClient
from tests.support.p4runtime.configs import config, schema
from tests.support.p4runtime.updates import EVERYTHING, INSERT, MODIFY, dynamic, entry, insert, refused


@pytest.mark.parametrize("action", ["VERIFY", "VERIFY_AND_SAVE", "VERIFY_AND_COMMIT", "RECONCILE_AND_COMMIT"])
def test_wrong_pipelines_change_nothing(client, action):
    client.set_pipeline(config(cookie=5))
    client.write(insert())
    wrong = config()
    wrong.p4_device_config = b"garbage"
    for bad in (wrong, p4r.ForwardingPipelineConfig(), None):
        with refused(StatusCode.INVALID_ARGUMENT):
            client.set_pipeline(bad, action)
    assert client.get_pipeline("COOKIE_ONLY").config.cookie.cookie == 5
    assert len(dynamic(client.read(EVERYTHING))) == 1


def test_unspecified_action(client):
    with refused(StatusCode.INVALID_ARGUMENT):
        client.set_pipeline(config(), "UNSPECIFIED")


def test_verify_only_verifies(client):
    client.set_pipeline(config(), "VERIFY")
    assert not client.get_pipeline().HasField("config")


def test_get_returns_what_was_set(client):
    sent = config(cookie=0xFFFF_FFFF_FFFF_FFFF)
    client.set_pipeline(sent)
    assert client.get_pipeline("ALL").config == sent
    cookie = client.get_pipeline("COOKIE_ONLY").config
    assert cookie == p4r.ForwardingPipelineConfig(cookie=sent.cookie)
    assert client.get_pipeline("P4INFO_AND_COOKIE").config == p4r.ForwardingPipelineConfig(
        p4info=sent.p4info, cookie=sent.cookie
    )
    device_config = client.get_pipeline("DEVICE_CONFIG_AND_COOKIE").config
    assert device_config.p4_device_config == sent.p4_device_config
    assert not device_config.HasField("p4info")


def test_without_a_cookie_none_is_returned(client):
    client.set_pipeline(config())
    response = client.get_pipeline("COOKIE_ONLY")
    assert response.HasField("config")
    assert not response.config.HasField("cookie")


def test_commit_clears_the_forwarding_state(client):
    client.set_pipeline(config())
    client.write(insert())
    client.set_pipeline(config())
    assert dynamic(client.read(EVERYTHING)) == []


def test_a_saved_pipeline_takes_writes_and_runs_once_committed(server, client):
    with refused(StatusCode.NOT_FOUND):
        client.set_pipeline(None, "COMMIT")
    client.set_pipeline(config(), "VERIFY_AND_SAVE")
    assert server.device(1) is None
    client.write(insert(), *state_updates())
    before = client.read(*WHOLE_STATE)
    with refused(StatusCode.INVALID_ARGUMENT):
        client.set_pipeline(config(), "COMMIT")
    client.set_pipeline(None, "COMMIT")
    assert client.read(*WHOLE_STATE) == before
    ((port, _),) = server.device(1).inject(1, bytes(5) + b"\1" + bytes(8))
    assert port == 7
    with refused(StatusCode.NOT_FOUND):
        client.set_pipeline(None, "COMMIT")


def test_packets_do_not_see_a_saved_pipeline(server, client):
    client.set_pipeline(config())
    client.write(insert(1))
    client.set_pipeline(config(), "VERIFY_AND_SAVE")
    client.write(insert(2))
    frame = bytes(5) + b"\1" + bytes(8)
    assert server.device(1).inject(1, frame) == [(7, frame)]
    assert server.device(1).inject(2, frame) == []
    client.set_pipeline(None, "COMMIT")
    assert server.device(1).inject(1, frame) == []
    assert server.device(1).inject(2, frame) == [(7, frame)]


WHOLE_STATE = [
    p4r.Entity(table_entry=p4r.TableEntry(counter_data=p4r.CounterData())),
    p4r.Entity(table_entry=p4r.TableEntry(is_default_action=True)),
    p4r.Entity(counter_entry=p4r.CounterEntry()),
    p4r.Entity(register_entry=p4r.RegisterEntry()),
    p4r.Entity(
        packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
            multicast_group_entry=p4r.MulticastGroupEntry()
        )
    ),
]


def state_updates():
    """Return one update of every kind."""
    described = schema()
    counted = entry(9).encode(described)
    counted.table_entry.counter_data.packet_count = 4
    counted.table_entry.metadata = b"note"
    group = p4r.MulticastGroupEntry(multicast_group_id=3, replicas=[{"port": b"\1", "instance": 2}])
    return [
        p4r.Update(type=INSERT, entity=counted),
        p4r.Update(
            type=MODIFY,
            entity=fy.P4TableEntry("lpm_table", is_default_action=True, action=fy.Action("NoAction")).encode(described),
        ),
        p4r.Update(
            type=MODIFY,
            entity=fy.P4TableEntry(
                "keyless_table", is_default_action=True, action=fy.Action("mark", tag=1, src=2)
            ).encode(described),
        ),
        p4r.Update(
            type=MODIFY,
            entity=fy.P4CounterEntry("both_count", index=1, data=fy.P4CounterData(packet_count=1, byte_count=2)).encode(
                described
            ),
        ),
        p4r.Update(
            type=MODIFY,
            entity=p4r.Entity(
                register_entry=p4r.RegisterEntry(
                    register_id=described.registers["wide"].id, index={"index": 2}, data={"bitstring": b"\5"}
                )
            ),
        ),
        p4r.Update(
            type=INSERT,
            entity=p4r.Entity(
                packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(multicast_group_entry=group)
            ),
        ),
    ]


def test_reconcile_keeps_the_forwarding_state(server, client):
    client.set_pipeline(config(), "RECONCILE_AND_COMMIT")
    client.write(insert(), *state_updates())
    before, device = client.read(*WHOLE_STATE), server.device(1)
    client.set_pipeline(config(cookie=2), "RECONCILE_AND_COMMIT")
    assert server.device(1) is not device
    assert client.read(*WHOLE_STATE) == before


def test_reconcile_with_a_program_that_lacks_the_tables_is_refused(server, client):
    client.set_pipeline(config(cookie=1))
    client.write(insert(), *state_updates())
    before, device = client.read(*WHOLE_STATE), server.device(1)
    with refused(StatusCode.INVALID_ARGUMENT, "cannot be kept"):
        client.set_pipeline(config("p4reduce-64"), "RECONCILE_AND_COMMIT")
    assert server.device(1) is device
    assert client.read(*WHOLE_STATE) == before
    assert client.get_pipeline("COOKIE_ONLY").config.cookie.cookie == 1


def test_the_owner_makes_the_devices():
    made = []

    def attach(device_id, program, p4info):
        made.append((device_id, p4info.tables[0].preamble.name))
        if device_id == 2:
            raise RuntimeError("no room for leaf2")
        if device_id == 3:
            raise UnsupportedConstruct("meter", "table 't'")
        return Device(program, name="mine", device_id=device_id)

    with P4RuntimeServer(on_pipeline=attach) as server:
        with contextlib.ExitStack() as stack:
            for device_id in (1, 2, 3):
                server.add_device(device_id)
            one, two, three = (stack.enter_context(RawClient(server.address, d)) for d in (1, 2, 3))
            for client in (one, two, three):
                client.arbitrate()
            one.set_pipeline(config())
            with refused(StatusCode.INTERNAL, "no room for leaf2"):
                two.set_pipeline(config())
            with refused(StatusCode.INVALID_ARGUMENT, "meter is not supported"):
                three.set_pipeline(config())
            assert not two.get_pipeline().HasField("config")
        assert server.device(1).name == "mine"
        assert server.device(2) is None
    assert made == [(device_id, "EntitiesIngress.exact_table") for device_id in (1, 2, 3)]
