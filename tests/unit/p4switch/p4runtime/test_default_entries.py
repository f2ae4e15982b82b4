"""TableEntry: default entries, constant tables, reads by wildcard and filter."""

import finsy as fy
import pytest
from finsy.proto import p4r

from p4switch.p4runtime import StatusCode
from tests.support.p4runtime.configs import forwarding, schema
from tests.support.p4runtime.table_entries import (
    CONST,
    DELETE,
    EXACT,
    INSERT,
    KINDS,
    LPM,
    MODIFY,
    TERNARY,
    default,
    raw,
    read,
    write,
)


@pytest.fixture
def device():
    return forwarding()


def test_the_default_entry_is_modified_and_reset(device):
    assert read(device, default("exact_table")) == [default("exact_table", fy.Action("drop"))]
    changed = default("exact_table", fy.Action("forward", port=9))
    changed.metadata = b"mine"
    assert write(device, MODIFY, changed) is StatusCode.OK
    assert read(device, default("exact_table")) == [changed]
    assert device.device.inject(1, bytes(14)) == [(9, bytes(14))]
    assert write(device, MODIFY, default("exact_table")) is StatusCode.OK
    assert read(device, default("exact_table")) == [default("exact_table", fy.Action("drop"))]


def test_a_keyless_table_has_a_default_entry_too(device):
    assert write(device, MODIFY, default("keyless_table", fy.Action("mark", tag=1, src=2))) is StatusCode.OK
    assert device.device.inject(1, bytes(14)) == []
    assert write(device, MODIFY, default("exact_table", fy.Action("forward", port=2))) is StatusCode.OK
    assert device.device.inject(1, bytes(14)) == [(2, bytes(11) + b"\x02\x00\x00")]


def test_what_a_default_entry_does_not_take(device):
    forward = fy.Action("forward", port=1)
    assert write(device, INSERT, default("exact_table", forward)) is StatusCode.INVALID_ARGUMENT
    assert write(device, DELETE, default("exact_table")) is StatusCode.INVALID_ARGUMENT
    assert write(device, MODIFY, default("exact_table", forward), priority=1) is StatusCode.INVALID_ARGUMENT
    assert write(device, MODIFY, raw(EXACT), is_default_action=True) is StatusCode.INVALID_ARGUMENT
    message = default("exact_table", forward)
    message.counter_data.packet_count = 1
    assert write(device, MODIFY, message) is StatusCode.UNIMPLEMENTED
    assert write(device, MODIFY, default("const_default_table", fy.Action("NoAction"))) is StatusCode.PERMISSION_DENIED
    assert write(device, MODIFY, default("const_default_table")) is StatusCode.PERMISSION_DENIED


def test_defaults_of_all_tables_are_read_at_once(device):
    found = read(device, p4r.TableEntry(is_default_action=True))
    assert len(found) == 8
    assert [e.is_const for e in found].count(True) == 1


# --- constant tables


def test_a_constant_table_is_read_but_not_changed(device):
    found = read(device, fy.P4TableEntry("const_table"))
    assert {int.from_bytes(e.match[0].exact.value, "big") for e in found} == {0x0800, 0x86DD}
    assert all(e.is_const for e in found)
    new = fy.P4TableEntry("const_table", match=fy.Match(ether_type=1), action=fy.Action("NoAction"))
    for kind, entry in ((INSERT, new), (MODIFY, CONST), (DELETE, CONST)):
        assert write(device, kind, entry) is StatusCode.PERMISSION_DENIED
    assert read(device, fy.P4TableEntry("const_table")) == found
    assert write(device, MODIFY, default("const_table", fy.Action("mark", tag=1, src=1))) is StatusCode.OK


# --- reads


def test_filters(device):
    for entry in KINDS.values():
        write(device, INSERT, entry)
    mark = schema().actions["mark"].id
    by_action = p4r.TableEntry(table_id=raw(TERNARY).table_id)
    by_action.action.action.action_id = mark
    assert read(device, by_action) == [raw(TERNARY)]
    by_action.action.action.action_id = schema().actions["NoAction"].id
    assert read(device, by_action) == []
    assert read(device, p4r.TableEntry(table_id=raw(LPM).table_id)) == [raw(LPM)]
    assert read(device, fy.P4TableEntry("lpm_table", match=fy.Match(dst="03:00:00:00:00:00/16"))) == []


def test_reads_that_make_no_sense(device):
    requests = [
        p4r.TableEntry(match=raw(EXACT).match),
        p4r.TableEntry(action=raw(EXACT).action),
        p4r.TableEntry(table_id=raw(EXACT).table_id, time_since_last_hit=p4r.TableEntry.IdleTimeout()),
        p4r.TableEntry(table_id=raw(EXACT).table_id, match=raw(LPM).match),
        p4r.TableEntry(table_id=raw(EXACT).table_id, match=raw(EXACT).match, is_default_action=True),
    ]
    found, errors = device.read([p4r.Entity(table_entry=r) for r in requests])
    assert found == []
    assert [e.code for e in errors] == [StatusCode.INVALID_ARGUMENT] * len(requests)
