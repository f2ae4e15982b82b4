"""Counters, registers, multicast groups, and unsupported entities."""

import finsy as fy
import pytest
from finsy.proto import p4d, p4r

from p4switch.p4runtime import StatusCode
from tests.support.p4runtime.configs import forwarding, schema

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE


@pytest.fixture
def device():
    return forwarding()


def entity(message):
    return message if isinstance(message, p4r.Entity) else message.encode(schema())


def write(device, kind, message):
    """Return the code of an update."""
    (error,) = device.write([p4r.Update(type=kind, entity=entity(message))])
    return StatusCode.OK if error is None else error.code


def read(device, message):
    """Return the entities that a request selects."""
    found, (error,) = device.read([entity(message)])
    assert error is None, error
    return found


def read_code(device, message):
    """Return the code of a failing read."""
    found, (error,) = device.read([entity(message)])
    assert found == []
    return error.code


# --- indirect counters


def counter(name="both_count", index=None, packets=None, octets=0):
    data = None if packets is None else fy.P4CounterData(packet_count=packets, byte_count=octets)
    return fy.P4CounterEntry(name, index=index, data=data)


def cells(device, name):
    return [(e.counter_entry.data.packet_count, e.counter_entry.data.byte_count) for e in read(device, counter(name))]


def test_a_counter_cell_is_written_and_read(device):
    assert write(device, MODIFY, counter(index=3, packets=5, octets=600)) is StatusCode.OK
    (found,) = read(device, counter(index=3))
    assert fy.P4CounterEntry.decode(found, schema()).data == fy.P4CounterData(packet_count=5, byte_count=600)
    assert cells(device, "both_count") == [(0, 0)] * 3 + [(5, 600)] + [(0, 0)] * 4


def test_packets_are_counted(device):
    device.device.inject(3, bytes(100))
    assert read(device, counter(index=3))[0].counter_entry.data == p4r.CounterData(packet_count=1, byte_count=100)


def test_without_an_index_all_cells_are_written(device):
    assert write(device, MODIFY, counter(packets=1, octets=2)) is StatusCode.OK
    assert cells(device, "both_count") == [(1, 2)] * 8


def test_without_data_nothing_is_written(device):
    write(device, MODIFY, counter(index=0, packets=1, octets=2))
    assert write(device, MODIFY, counter()) is StatusCode.OK
    assert cells(device, "both_count")[0] == (1, 2)


@pytest.mark.parametrize(("name", "expected"), [("packet_count", (7, 20)), ("byte_count", (10, 8))])
def test_a_write_sets_what_the_unit_names(device, name, expected):
    device.device.counters[f"EntitiesIngress.{name}"].write(1, 10, 20)
    assert write(device, MODIFY, counter(name, index=1, packets=7, octets=8)) is StatusCode.OK
    assert cells(device, name)[1] == expected


def test_all_counters_are_read_at_once(device):
    assert len(read(device, p4r.Entity(counter_entry=p4r.CounterEntry()))) == 8 + 8 + 4


@pytest.mark.parametrize("kind", [INSERT, DELETE, p4r.Update.UNSPECIFIED])
def test_counters_can_only_be_modified(device, kind):
    assert write(device, kind, counter(index=0, packets=1)) is StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("index", "code"),
    [(-1, StatusCode.INVALID_ARGUMENT), (8, StatusCode.OUT_OF_RANGE), (2**40, StatusCode.OUT_OF_RANGE)],
)
def test_counter_index_out_of_range(device, index, code):
    assert write(device, MODIFY, counter(index=index, packets=1)) is code
    assert read_code(device, counter(index=index)) is code


def test_wrong_counters(device):
    assert write(device, MODIFY, counter(index=0, packets=-1)) is StatusCode.INVALID_ARGUMENT
    assert (
        write(device, MODIFY, p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=1))) is StatusCode.INVALID_ARGUMENT
    )
    direct = schema().direct_counters["exact_count"].id
    assert (
        read_code(device, p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=direct))) is StatusCode.INVALID_ARGUMENT
    )
    wild = p4r.CounterEntry(index=p4r.Index(index=1))
    assert read_code(device, p4r.Entity(counter_entry=wild)) is StatusCode.INVALID_ARGUMENT


def test_a_count_above_63_bits_is_shown_as_the_largest_number(device):
    device.device.counters["EntitiesIngress.both_count"].write(0, 2**64 - 1, 2**63)
    assert cells(device, "both_count")[0] == (2**63 - 1, 2**63 - 1)


# --- direct counters


def table_entry(port=3, table="exact_table"):
    return fy.P4TableEntry(table, match=fy.Match(dst=1, ingress_port=port), action=fy.Action("forward", port=1))


def direct(port=3, packets=None, octets=0):
    data = None if packets is None else fy.P4CounterData(packet_count=packets, byte_count=octets)
    return fy.P4DirectCounterEntry("exact_count", table_entry=table_entry(port), data=data)


def test_a_direct_counter_is_written_and_read(device):
    write(device, INSERT, table_entry())
    assert write(device, MODIFY, direct(packets=5, octets=6)) is StatusCode.OK
    (found,) = read(device, direct())
    assert (found.direct_counter_entry.data.packet_count, found.direct_counter_entry.data.byte_count) == (5, 6)
    assert found.direct_counter_entry.table_entry.match == entity(table_entry()).table_entry.match
    assert write(device, MODIFY, direct()) is StatusCode.OK
    assert read(device, direct()) == [found]


def test_direct_counters_of_a_table_and_of_all_tables(device):
    ternary = fy.P4TableEntry("ternary_table", action=fy.Action("NoAction"), priority=1)
    for entry in (table_entry(1), table_entry(2), ternary):
        assert write(device, INSERT, entry) is StatusCode.OK
    assert len(read(device, fy.P4DirectCounterEntry("exact_count"))) == 2
    everything = p4r.DirectCounterEntry(table_entry=p4r.TableEntry())
    assert len(read(device, p4r.Entity(direct_counter_entry=everything))) == 3


def test_modifying_an_entry_keeps_its_counter(device):
    write(device, INSERT, table_entry())
    write(device, MODIFY, direct(packets=5, octets=6))
    write(device, MODIFY, table_entry())
    assert read(device, direct())[0].direct_counter_entry.data.packet_count == 5


def test_wrong_direct_counters(device):
    assert write(device, MODIFY, direct(packets=1)) is StatusCode.NOT_FOUND
    assert read_code(device, direct()) is StatusCode.NOT_FOUND
    write(device, INSERT, table_entry())
    for kind in (INSERT, DELETE):
        assert write(device, kind, direct(packets=1)) is StatusCode.INVALID_ARGUMENT
    assert write(device, MODIFY, direct(packets=-1)) is StatusCode.INVALID_ARGUMENT
    assert (
        write(device, MODIFY, p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry())) is StatusCode.INVALID_ARGUMENT
    )
    assert read_code(device, p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry())) is StatusCode.INVALID_ARGUMENT
    no_counter = p4r.DirectCounterEntry(table_entry=p4r.TableEntry(table_id=schema().tables["lpm_table"].id))
    assert read_code(device, p4r.Entity(direct_counter_entry=no_counter)) is StatusCode.INVALID_ARGUMENT
    default = p4r.TableEntry(table_id=schema().tables["exact_table"].id, is_default_action=True)
    assert (
        read_code(device, p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=default)))
        is StatusCode.UNIMPLEMENTED
    )


# --- registers


def register(name, index=None, **data):
    message = p4r.RegisterEntry(register_id=schema().registers[name].id)
    if index is not None:
        message.index.index = index
    if data:
        message.data.CopyFrom(p4d.P4Data(**data))
    return p4r.Entity(register_entry=message)


@pytest.mark.parametrize(
    ("name", "size", "data"),
    [
        ("narrow", 16, b"\x0f\xff"),
        ("narrow", 16, b"\x01"),
        ("signed", 4, b"\x80"),
        ("signed", 4, b"\x7f"),
        ("wide", 4, bytes(range(1, 17))),
    ],
)
def test_a_register_cell_is_written_and_read(device, name, size, data):
    assert write(device, MODIFY, register(name, 2, bitstring=data)) is StatusCode.OK
    assert read(device, register(name, 2)) == [register(name, 2, bitstring=data)]
    found = [e.register_entry.data.bitstring for e in read(device, register(name))]
    assert found == [b"\0", b"\0", data] + [b"\0"] * (size - 3)


def test_packets_and_controllers_see_the_same_cells(device):
    write(device, MODIFY, register("narrow", 0, bitstring=b"\x0f\xff"))
    device.device.inject(1, bytes.fromhex("000000000000 010203040506 0000"))
    assert read(device, register("narrow", 0)) == [register("narrow", 0, bitstring=b"\0")]
    assert read(device, register("signed", 0)) == [register("signed", 0, bitstring=b"\xfb")]
    wide = bytes.fromhex("010203040506") + bytes(10)
    assert read(device, register("wide", 1)) == [register("wide", 1, bitstring=wide)]


def test_without_an_index_all_cells_of_a_register_are_written(device):
    assert write(device, MODIFY, register("narrow", bitstring=b"\x05")) is StatusCode.OK
    assert {e.register_entry.data.bitstring for e in read(device, register("narrow"))} == {b"\x05"}
    assert len(read(device, p4r.Entity(register_entry=p4r.RegisterEntry()))) == 16 + 4 + 4


@pytest.mark.parametrize(("index", "code"), [(-1, StatusCode.INVALID_ARGUMENT), (16, StatusCode.OUT_OF_RANGE)])
def test_register_index_out_of_range(device, index, code):
    assert write(device, MODIFY, register("narrow", index, bitstring=b"\1")) is code
    assert read_code(device, register("narrow", index)) is code


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("narrow", {}),
        ("narrow", {"bitstring": b"\x10\x00"}),
        ("narrow", {"bitstring": b""}),
        ("narrow", {"bool": True}),
        ("signed", {"bitstring": b"\x00\x80"}),
    ],
)
def test_wrong_register_data(device, name, data):
    assert write(device, MODIFY, register(name, 0, **data)) is StatusCode.INVALID_ARGUMENT


def test_wrong_registers(device):
    for kind in (INSERT, DELETE):
        assert write(device, kind, register("narrow", 0, bitstring=b"\1")) is StatusCode.INVALID_ARGUMENT
    assert (
        write(device, MODIFY, p4r.Entity(register_entry=p4r.RegisterEntry(register_id=1)))
        is StatusCode.INVALID_ARGUMENT
    )
    wild = p4r.RegisterEntry(index=p4r.Index(index=1))
    assert read_code(device, p4r.Entity(register_entry=wild)) is StatusCode.INVALID_ARGUMENT


# --- multicast groups


def group(number=1, *replicas, **fields):
    message = p4r.MulticastGroupEntry(multicast_group_id=number, **fields)
    for port, instance in replicas:
        if isinstance(port, bytes):
            message.replicas.add(port=port, instance=instance)
        else:
            message.replicas.add(egress_port=port, instance=instance)
    return p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(multicast_group_entry=message))


def test_a_group_is_created_replaced_and_deleted(device):
    first, second = group(5, (b"\1", 1), (2, 2), metadata=b"m"), group(5, (b"\0\3", 9))
    assert write(device, MODIFY, first) is StatusCode.NOT_FOUND
    assert write(device, INSERT, first) is StatusCode.OK
    assert write(device, INSERT, second) is StatusCode.ALREADY_EXISTS
    assert read(device, group(5)) == [first]
    assert device.device.multicast.get(5) == ((1, 1), (2, 2))
    assert write(device, MODIFY, second) is StatusCode.OK
    assert read(device, group(0)) == [second]
    assert write(device, DELETE, group(5)) is StatusCode.OK
    assert write(device, DELETE, group(5)) is StatusCode.NOT_FOUND
    assert read(device, group(0)) == []


def test_packets_are_copied(device):
    write(device, INSERT, group(5, (b"\1", 1), (2, 2)))
    entry = fy.P4TableEntry(
        "exact_table", match=fy.Match(dst=0, ingress_port=9), action=fy.Action("multicast", group=5)
    )
    assert write(device, INSERT, entry) is StatusCode.OK
    assert [port for port, _ in device.device.inject(9, bytes(14))] == [1, 2]


def test_a_group_that_something_else_changed_is_read_as_it_is(device):
    write(device, INSERT, group(5, (1, 1)))
    device.device.multicast.set(5, [(300, 2)])
    assert read(device, group(5)) == [group(5, (b"\x01\x2c", 2))]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (group(0, (1, 1)), StatusCode.INVALID_ARGUMENT),
        (group(1 << 15, (1, 1)), StatusCode.OUT_OF_RANGE),
        (group(1, (1, 1), (1, 1)), StatusCode.INVALID_ARGUMENT),
        (group(1, (1, 1), (b"\0\1", 1)), StatusCode.INVALID_ARGUMENT),
        (group(1, (512, 1)), StatusCode.INVALID_ARGUMENT),
        (group(1, (b"\x02\x00", 1)), StatusCode.INVALID_ARGUMENT),
        (group(1, (b"", 1)), StatusCode.INVALID_ARGUMENT),
        (group(1, (1, 1 << 16)), StatusCode.INVALID_ARGUMENT),
    ],
)
def test_wrong_groups(device, message, code):
    assert write(device, INSERT, message) is code
    assert device.device.multicast.groups() == ()


def test_a_replica_needs_a_port_and_takes_no_backup(device):
    for message, code in ((group(1), StatusCode.INVALID_ARGUMENT), (group(1, (1, 1)), StatusCode.UNIMPLEMENTED)):
        entry = message.packet_replication_engine_entry.multicast_group_entry
        if entry.replicas:
            entry.replicas[0].backup_replicas.add(port=b"\2")
        else:
            entry.replicas.add(instance=1)
        assert write(device, INSERT, message) is code


def test_a_wrong_replacement_keeps_the_group(device):
    write(device, INSERT, group(5, (1, 1)))
    assert write(device, MODIFY, group(5, (512, 1))) is StatusCode.INVALID_ARGUMENT
    assert read(device, group(5)) == [group(5, (1, 1))]


def test_reading_unknown_groups(device):
    assert read_code(device, group(6)) is StatusCode.NOT_FOUND
    assert read_code(device, group(1 << 15)) is StatusCode.OUT_OF_RANGE


# --- unsupported entities


def clone_session(session_id):
    clone = p4r.CloneSessionEntry(session_id=session_id)
    return p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(clone_session_entry=clone))


UNSUPPORTED = {
    "ExternEntry": lambda i: p4r.Entity(extern_entry=p4r.ExternEntry(extern_type_id=i)),
}

OF_OTHER_PROGRAMS = UNSUPPORTED | {
    "ActionProfileMember": lambda i: p4r.Entity(action_profile_member=p4r.ActionProfileMember(action_profile_id=i)),
    "ActionProfileGroup": lambda i: p4r.Entity(action_profile_group=p4r.ActionProfileGroup(action_profile_id=i)),
    "MeterEntry": lambda i: p4r.Entity(meter_entry=p4r.MeterEntry(meter_id=i)),
    "DirectMeterEntry": lambda i: p4r.Entity(direct_meter_entry={"table_entry": {"table_id": i}}),
    "ValueSetEntry": lambda i: p4r.Entity(value_set_entry=p4r.ValueSetEntry(value_set_id=i)),
    "DigestEntry": lambda i: p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=i)),
    "CloneSessionEntry": clone_session,
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_entities_are_named(device, name):
    make = UNSUPPORTED[name]
    for error in (*device.write([p4r.Update(type=INSERT, entity=make(1))]), *device.read([make(1)])[1]):
        assert error.code is StatusCode.UNIMPLEMENTED
        assert name in error.message
    assert write(device, INSERT, make(0)) is StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("name", OF_OTHER_PROGRAMS)
def test_of_what_a_program_does_not_have_there_is_none(device, name):
    assert read(device, OF_OTHER_PROGRAMS[name](0)) == []


@pytest.mark.parametrize(
    "message",
    [p4r.Entity(), p4r.Entity(packet_replication_engine_entry=p4r.PacketReplicationEngineEntry())],
    ids=["entity", "replication"],
)
def test_unset_entities(device, message):
    assert write(device, INSERT, message) is StatusCode.INVALID_ARGUMENT
    assert read_code(device, message) is StatusCode.INVALID_ARGUMENT


def test_a_batch_goes_on_after_errors(device):
    updates = [
        p4r.Update(type=INSERT, entity=entity(table_entry(1))),
        p4r.Update(type=INSERT, entity=entity(table_entry(1))),
        p4r.Update(),
        p4r.Update(type=INSERT, entity=entity(table_entry(2))),
    ]
    errors = device.write(updates)
    assert [None if e is None else e.code for e in errors] == [
        None,
        StatusCode.ALREADY_EXISTS,
        StatusCode.INVALID_ARGUMENT,
        None,
    ]
    assert len(read(device, fy.P4TableEntry("exact_table"))) == 2
