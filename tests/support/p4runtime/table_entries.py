"""Entries of entities.p4, one for each kind of table, and functions that write and read them."""

import finsy as fy
from finsy.proto import p4r

from p4switch.p4runtime import StatusCode
from tests.support.p4runtime.configs import schema

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE

EXACT = fy.P4TableEntry(
    "exact_table", match=fy.Match(dst="02:00:00:00:00:01", ingress_port=3), action=fy.Action("forward", port=7)
)
LPM = fy.P4TableEntry("lpm_table", match=fy.Match(dst="02:00:00:00:00:00/16"), action=fy.Action("forward", port=7))
TERNARY = fy.P4TableEntry(
    "ternary_table",
    match=fy.Match({"hdr.ethernet.dst": (0x02, 0x0F), "ether_type": 0x0800}),
    action=fy.Action("mark", tag=5, src=6),
    priority=10,
)
RANGE = fy.P4TableEntry(
    "range_table",
    match=fy.Match(ether_type=(5, 9), ingress_port=1),
    action=fy.Action("mark", tag=5, src=6),
    priority=1,
)
OPTIONAL = fy.P4TableEntry(
    "optional_table", match=fy.Match(ether_type=0x0800), action=fy.Action("mark", tag=5, src=6), priority=2
)
CONST = fy.P4TableEntry("const_table", match=fy.Match(ether_type=0x0800), action=fy.Action("mark", tag=1, src=1))
KINDS = {"exact": EXACT, "lpm": LPM, "ternary": TERNARY, "range": RANGE, "optional": OPTIONAL}


def raw(entry) -> p4r.TableEntry:
    return entry.encode(schema()).table_entry


def write(device, kind, entry, **changes):
    """Write an update; return its status code."""
    message = entry if isinstance(entry, p4r.TableEntry) else raw(entry)
    for name, value in changes.items():
        setattr(message, name, value)
    (error,) = device.write([p4r.Update(type=kind, entity=p4r.Entity(table_entry=message))])
    return StatusCode.OK if error is None else error.code


def read(device, wanted=None):
    """Return the entries that a request selects."""
    message = p4r.TableEntry() if wanted is None else wanted if isinstance(wanted, p4r.TableEntry) else raw(wanted)
    found, errors = device.read([p4r.Entity(table_entry=message)])
    assert errors == [None]
    return [entity.table_entry for entity in found]


def dynamic(entries):
    return [e for e in entries if not e.is_const]


def default(table, action=None):
    return raw(fy.P4TableEntry(table, is_default_action=True, action=action))
