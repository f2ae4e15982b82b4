"""TableEntry: writes, reads, and status codes of refusals."""

import finsy as fy
import pytest
from finsy.proto import p4r

from p4switch.p4runtime import StatusCode
from tests.support.p4runtime.configs import forwarding, schema
from tests.support.p4runtime.table_entries import (
    DELETE,
    EXACT,
    INSERT,
    KINDS,
    LPM,
    MODIFY,
    OPTIONAL,
    RANGE,
    TERNARY,
    dynamic,
    raw,
    read,
    write,
)


@pytest.fixture
def device():
    return forwarding()


@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_reads_back_as_it_was_written(device, kind):
    entry = KINDS[kind]
    assert write(device, INSERT, entry) is StatusCode.OK
    assert dynamic(read(device)) == [raw(entry)]
    assert read(device, entry) == [raw(entry)]


@pytest.mark.parametrize("kind", KINDS)
def test_insert_modify_delete(device, kind):
    entry = KINDS[kind]
    changed = raw(entry)
    changed.action.action.params[0].value = b"\x11"
    assert write(device, MODIFY, entry) is StatusCode.NOT_FOUND
    assert write(device, DELETE, entry) is StatusCode.NOT_FOUND
    assert write(device, INSERT, entry) is StatusCode.OK
    assert write(device, INSERT, changed) is StatusCode.ALREADY_EXISTS
    assert dynamic(read(device)) == [raw(entry)]
    assert write(device, MODIFY, changed) is StatusCode.OK
    assert dynamic(read(device)) == [changed]
    assert write(device, DELETE, raw(entry), metadata=b"ignored") is StatusCode.OK
    assert dynamic(read(device)) == []


def test_delete_looks_at_the_key_only(device):
    assert write(device, INSERT, EXACT) is StatusCode.OK
    entry = raw(EXACT)
    entry.action.action.action_id = 12345
    assert write(device, DELETE, entry) is StatusCode.OK


def test_the_device_uses_what_was_written(device):
    write(device, INSERT, EXACT)
    frame = bytes.fromhex("020000000001 0a0b0c0d0e0f 9999") + b"payload"
    assert device.device.inject(3, frame) == [(7, frame)]
    assert device.device.inject(2, frame) == []


def test_padded_values_are_the_same_entry_and_the_shortest_form_is_returned(device):
    padded = raw(EXACT)
    for match in padded.match:
        match.exact.value = bytes(3) + match.exact.value
    padded.action.action.params[0].value = bytes(5) + b"\x07"
    assert write(device, INSERT, padded) is StatusCode.OK
    assert read(device, EXACT) == [raw(EXACT)]
    assert write(device, INSERT, EXACT) is StatusCode.ALREADY_EXISTS


def test_zero_is_one_zero_byte(device):
    entry = raw(EXACT)
    entry.match[0].exact.value = bytes(6)
    entry.action.action.params[0].value = bytes(2)
    write(device, INSERT, entry)
    (found,) = dynamic(read(device))
    assert found.match[0].exact.value == b"\x00"
    assert found.action.action.params[0].value == b"\x00"


def test_priorities_tell_ternary_entries_apart_and_the_higher_one_wins(device):
    low = fy.P4TableEntry("ternary_table", action=fy.Action("remember", index=1, value=1), priority=1)
    high = fy.P4TableEntry("ternary_table", action=fy.Action("remember", index=1, value=2), priority=2)
    for entry in (high, low):
        assert write(device, INSERT, entry) is StatusCode.OK
    device.device.inject(1, bytes(14))
    assert device.device.registers["EntitiesIngress.narrow"].read(1) == 2
    assert len(read(device, fy.P4TableEntry("ternary_table"))) == 2
    assert read(device, fy.P4TableEntry("ternary_table", priority=1)) == [raw(low)]


def test_a_full_table_says_so(device):
    for port in range(4):
        entry = fy.P4TableEntry(
            "exact_table", match=fy.Match(dst=0, ingress_port=port), action=fy.Action("forward", port=1)
        )
        assert write(device, INSERT, entry) is StatusCode.OK
    assert write(device, INSERT, EXACT) is StatusCode.RESOURCE_EXHAUSTED
    assert len(dynamic(read(device))) == 4


# --- refused keys


def without_match(entry):
    message = raw(entry)
    del message.match[:]
    return message


def with_match(entry, number=0, **fields):
    """Return the entry with one match field replaced: exact=..., ternary=(value, mask), ...."""
    message = raw(entry)
    match = p4r.FieldMatch(field_id=message.match[number].field_id)
    for kind, value in fields.items():
        parts = {"exact": ("value",), "optional": ("value",), "ternary": ("value", "mask"), "range": ("low", "high")}
        parts["lpm"] = ("value", "prefix_len")
        getattr(match, kind).SetInParent()
        for part, content in zip(parts[kind], value, strict=True):
            setattr(getattr(match, kind), part, content)
    message.match[number].CopyFrom(match)
    return message


def extra_match(entry, field_id):
    message = raw(entry)
    message.match.add(field_id=field_id).exact.value = b"\x01"
    return message


BAD_KEYS = {
    "exact missing": without_match(EXACT),
    "unknown field": extra_match(EXACT, 77),
    "field twice": extra_match(EXACT, 1),
    "match unset": with_match(EXACT),
    "other match type": with_match(EXACT, lpm=(b"\x01", 8)),
    "exact too wide": with_match(EXACT, exact=(b"\x01" + bytes(6),)),
    "exact empty": with_match(EXACT, exact=(b"",)),
    "prefix 0": with_match(LPM, lpm=(b"\x00", 0)),
    "prefix negative": with_match(LPM, lpm=(b"\x00", -1)),
    "prefix too long": with_match(LPM, lpm=(b"\x00", 49)),
    "bits behind the prefix": with_match(LPM, lpm=(b"\x01", 16)),
    "mask 0": with_match(TERNARY, ternary=(b"\x00", b"\x00")),
    "mask too wide": with_match(TERNARY, ternary=(b"\x01", b"\x01" + bytes(6))),
    "bits outside the mask": with_match(TERNARY, ternary=(b"\x03", b"\x01")),
    "low above high": with_match(RANGE, range=(b"\x09", b"\x05")),
    "range of all values": with_match(RANGE, range=(b"\x00", b"\xff\xff")),
    "optional too wide": with_match(OPTIONAL, optional=(b"\x01\x00\x00",)),
    "key of a keyless table": raw(fy.P4TableEntry("keyless_table", action=fy.Action("NoAction"))),
}


@pytest.mark.parametrize("what", BAD_KEYS)
def test_bad_keys_are_refused_and_change_nothing(device, what):
    before = read(device)
    assert write(device, INSERT, BAD_KEYS[what]) is StatusCode.INVALID_ARGUMENT
    assert read(device) == before


@pytest.mark.parametrize(
    ("entry", "priority"), [(TERNARY, 0), (TERNARY, -1), (RANGE, 0), (OPTIONAL, 0), (EXACT, 1), (LPM, 1)]
)
def test_priority_is_needed_where_there_is_a_choice_and_only_there(device, entry, priority):
    for kind in (INSERT, MODIFY, DELETE):
        assert write(device, kind, entry, priority=priority) is StatusCode.INVALID_ARGUMENT


# --- refused actions


def action_changed(**changes):
    message = raw(EXACT)
    action = message.action.action
    if "action_id" in changes:
        action.action_id = changes["action_id"]
    if "params" in changes:
        del action.params[:]
        action.params.extend(p4r.Action.Param(param_id=i, value=v) for i, v in changes["params"])
    return message


def no_action():
    message = raw(EXACT)
    message.ClearField("action")
    return message


def profile_member():
    message = raw(EXACT)
    message.action.action_profile_member_id = 1
    return message


BAD_ACTIONS = {
    "unset": no_action(),
    "unknown": action_changed(action_id=1),
    "of another table": action_changed(action_id=schema().actions["remember"].id, params=[(1, b"\1"), (2, b"\1")]),
    "profile member": profile_member(),
    "parameter missing": action_changed(params=[]),
    "parameter unknown": action_changed(params=[(9, b"\1")]),
    "parameter twice": action_changed(params=[(1, b"\1"), (1, b"\1")]),
    "parameter too wide": action_changed(params=[(1, b"\x02\x00")]),
    "parameter empty": action_changed(params=[(1, b"")]),
}


@pytest.mark.parametrize("what", BAD_ACTIONS)
def test_bad_actions_are_refused(device, what):
    assert write(device, INSERT, BAD_ACTIONS[what]) is StatusCode.INVALID_ARGUMENT
    assert dynamic(read(device)) == []


def test_action_scopes(device):
    drop = fy.P4TableEntry("exact_table", match=fy.Match(dst=1, ingress_port=1), action=fy.Action("drop"))
    assert write(device, INSERT, drop) is StatusCode.PERMISSION_DENIED
    mark = fy.P4TableEntry("exact_table", is_default_action=True, action=fy.Action("mark", tag=1, src=1))
    assert write(device, MODIFY, mark) is StatusCode.PERMISSION_DENIED


def test_modify_without_action_keeps_the_action(device):
    write(device, INSERT, EXACT)
    message = raw(EXACT)
    message.ClearField("action")
    message.counter_data.packet_count = 3
    assert write(device, MODIFY, message) is StatusCode.OK
    wanted = raw(EXACT)
    wanted.counter_data.SetInParent()
    (found,) = read(device, wanted)
    assert found.action == raw(EXACT).action
    assert found.counter_data.packet_count == 3


# --- other fields


@pytest.mark.parametrize("entry", KINDS.values(), ids=KINDS)
def test_update_type_unset(device, entry):
    assert write(device, p4r.Update.UNSPECIFIED, entry) is StatusCode.INVALID_ARGUMENT


def test_unknown_table(device):
    assert write(device, INSERT, EXACT, table_id=33554433) is StatusCode.INVALID_ARGUMENT
    _, (error,) = device.read([p4r.Entity(table_entry=p4r.TableEntry(table_id=33554433))])
    assert error.code is StatusCode.INVALID_ARGUMENT


def test_fields_that_a_write_must_not_set(device):
    assert write(device, INSERT, EXACT, is_const=True) is StatusCode.INVALID_ARGUMENT
    assert write(device, INSERT, EXACT, idle_timeout_ns=5) is StatusCode.INVALID_ARGUMENT
    for field in ("meter_config", "meter_counter_data", "time_since_last_hit"):
        message = raw(EXACT)
        getattr(message, field).SetInParent()
        assert write(device, INSERT, message) is StatusCode.INVALID_ARGUMENT
    assert dynamic(read(device)) == []


def test_metadata_is_kept_replaced_and_used_as_filter(device):
    assert write(device, INSERT, EXACT, metadata=b"cookie", controller_metadata=42) is StatusCode.OK
    assert write(device, INSERT, LPM) is StatusCode.OK
    (found,) = read(device, p4r.TableEntry(metadata=b"cookie"))
    assert (found.metadata, found.controller_metadata) == (b"cookie", 42)
    assert read(device, p4r.TableEntry(table_id=found.table_id, metadata=b"other")) == []
    assert len(read(device, p4r.TableEntry(controller_metadata=42))) == 1
    write(device, MODIFY, EXACT, metadata=b"new")
    (found,) = read(device, EXACT)
    assert (found.metadata, found.controller_metadata) == (b"new", 0)
    write(device, DELETE, EXACT)
    write(device, INSERT, EXACT)
    assert read(device, EXACT)[0].metadata == b""


# --- direct counters in entries


def test_a_direct_counter_starts_as_given_and_is_read_only_on_request(device):
    message = raw(EXACT)
    message.counter_data.packet_count, message.counter_data.byte_count = 5, 600
    assert write(device, INSERT, message) is StatusCode.OK
    assert not read(device, EXACT)[0].HasField("counter_data")
    device.device.inject(3, bytes.fromhex("020000000001 000000000000 0000") + bytes(86))
    wanted = raw(EXACT)
    wanted.counter_data.SetInParent()
    (found,) = read(device, wanted)
    assert (found.counter_data.packet_count, found.counter_data.byte_count) == (6, 700)


def test_a_wildcard_read_adds_counters_where_there_are_any(device):
    for entry in KINDS.values():
        write(device, INSERT, entry)
    found = dynamic(read(device, p4r.TableEntry(counter_data=p4r.CounterData())))
    assert sum(entry.HasField("counter_data") for entry in found) == 2


def test_counter_data_is_refused_where_it_makes_no_sense(device):
    message = raw(LPM)
    message.counter_data.packet_count = 1
    assert write(device, INSERT, message) is StatusCode.INVALID_ARGUMENT
    message = raw(EXACT)
    message.counter_data.packet_count = -1
    assert write(device, INSERT, message) is StatusCode.INVALID_ARGUMENT
    assert dynamic(read(device)) == []
