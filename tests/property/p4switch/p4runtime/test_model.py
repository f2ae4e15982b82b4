"""Tables behave as dictionaries from (match, priority) to (action, arguments), under any sequence of updates."""

import finsy as fy
from finsy.proto import p4r
from hypothesis import given, settings
from hypothesis import strategies as st

from p4switch.p4runtime import StatusCode
from tests.support.effort import examples
from tests.support.p4runtime.configs import forwarding, schema

CAPACITY = {"exact_table": 4, "lpm_table": 1024, "ternary_table": 1024, "range_table": 64, "optional_table": 64}
FEW = st.integers(0, 3)


@st.composite
def keys(draw):
    """Draw table, match and priority of an entry, from few values so that they collide."""
    table = draw(st.sampled_from(sorted(CAPACITY)))
    match table:
        case "exact_table":
            return table, (("dst", draw(FEW)), ("ingress_port", draw(FEW))), 0
        case "lpm_table":
            prefix = draw(st.integers(46, 48))
            return table, (("dst", (draw(FEW) << (48 - prefix), prefix)),), 0
        case "ternary_table":
            mask = draw(st.integers(1, 3))
            return table, (("dst", (draw(FEW) & mask, mask)),), draw(st.integers(1, 2))
        case "range_table":
            low = draw(FEW)
            return table, (("ether_type", (low, low + draw(FEW))), ("ingress_port", 1)), draw(st.integers(1, 2))
        case _:
            return table, draw(st.sampled_from([(), (("src", 1),), (("ether_type", 0), ("src", 2))])), 1


KINDS = {"insert": p4r.Update.INSERT, "modify": p4r.Update.MODIFY, "delete": p4r.Update.DELETE}


def action_of(table, number):
    if table in ("exact_table", "lpm_table"):
        return fy.Action("forward", port=number)
    return fy.Action("mark", tag=number, src=number)


def entry(key, number):
    table, match, priority = key
    return fy.P4TableEntry(table, match=fy.Match(dict(match)), action=action_of(table, number), priority=priority)


def expected_code(model, kind, key):
    table = key[0]
    if kind != "insert":
        return StatusCode.OK if key in model else StatusCode.NOT_FOUND
    if key in model:
        return StatusCode.ALREADY_EXISTS
    return StatusCode.RESOURCE_EXHAUSTED if sum(k[0] == table for k in model) >= CAPACITY[table] else StatusCode.OK


@settings(max_examples=examples(25, 60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(KINDS)), keys(), st.integers(0, 511)), max_size=40))
def test_tables_are_dictionaries(steps):
    device, model = forwarding(), {}
    for kind, key, number in steps:
        code = expected_code(model, kind, key)
        (error,) = device.write([p4r.Update(type=KINDS[kind], entity=entry(key, number).encode(schema()))])
        assert (StatusCode.OK if error is None else error.code) is code
        if code is StatusCode.OK and kind == "delete":
            del model[key]
        elif code is StatusCode.OK:
            model[key] = number
    found, _ = device.read([p4r.Entity(table_entry=p4r.TableEntry())])
    read = sorted(e.SerializeToString(deterministic=True) for e in found if not e.table_entry.is_const)
    written = (entry(key, number).encode(schema()) for key, number in model.items())
    assert read == sorted(e.SerializeToString(deterministic=True) for e in written)
