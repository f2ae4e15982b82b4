"""All-or-nothing batches that conflict with other entries: profiles with little room, members and groups in use."""

import finsy as fy
import pytest
from finsy.proto import p4r
from hypothesis import given, settings
from hypothesis import strategies as st

from p4switch.p4runtime import P4RuntimeServer, StatusCode
from tests.support.effort import examples
from tests.support.p4runtime.client import RawClient, codes, details_of
from tests.support.p4runtime.configs import config, forwarding, schema
from tests.support.p4runtime.updates import DELETE, INSERT, MODIFY, refused

CONTROL = schema("control")
SELECTOR, PROFILE = "I.selector", "I.profile"
ROOM = 16
"""Capacity of the selector in members, including those of action sets."""

WHOLE_STATE = [
    p4r.Entity(table_entry={"counter_data": {}, "meter_config": {}}),
    p4r.Entity(table_entry={"is_default_action": True}),
    p4r.Entity(direct_meter_entry={"table_entry": {}}),
    p4r.Entity(counter_entry={}),
    p4r.Entity(meter_entry={}),
    p4r.Entity(register_entry={}),
    p4r.Entity(action_profile_member={}),
    p4r.Entity(action_profile_group={}),
    p4r.Entity(value_set_entry={}),
    p4r.Entity(digest_entry={}),
    p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": {}}),
    p4r.Entity(packet_replication_engine_entry={"clone_session_entry": {}}),
]


def state(device):
    found, errors = device.read(WHOLE_STATE)
    assert not any(errors)
    return sorted(entity.SerializeToString(deterministic=True) for entity in found)


def update(kind, entity):
    return p4r.Update(type=kind, entity=entity.encode(CONTROL))


def action_set(kind, index, size=1, weight=1):
    """Return an entry of table choose with an action set, which takes one member of the selector per action."""
    message = update(kind, fy.P4TableEntry("choose", match=fy.Match(index=index)))
    action = fy.Action("send", port=1, extra=0).encode_action(CONTROL)
    for _ in range(size):
        actions = message.entity.table_entry.action.action_profile_action_set.action_profile_actions
        actions.add(action=action, weight=weight)
    return message


def names_member(kind, index, ident):
    action = fy.P4IndirectAction(member_id=ident)
    return update(kind, fy.P4TableEntry("choose", match=fy.Match(index=index), action=action))


def names_group(kind, index, ident):
    action = fy.P4IndirectAction(group_id=ident)
    return update(kind, fy.P4TableEntry("choose", match=fy.Match(index=index), action=action))


def profiled(kind, key, ident):
    action = fy.P4IndirectAction(member_id=ident)
    return update(kind, fy.P4TableEntry("profiled", match=fy.Match(key=key), priority=1, action=action))


def member(kind, profile, ident, port):
    action = fy.Action("send", port=port, extra=0)
    return update(kind, fy.P4ActionProfileMember(profile, member_id=ident, action=action))


def group(kind, ident, members):
    given_members = [fy.P4Member(m, weight=w) for m, w in members]
    return update(kind, fy.P4ActionProfileGroup(SELECTOR, group_id=ident, members=given_members))


def direct(kind, index, metered):
    config_ = fy.P4MeterConfig(cir=1, cburst=1, pir=1, pburst=1) if metered else None
    action = fy.Action("metered", port=1)
    return update(kind, fy.P4TableEntry("direct", match=fy.Match(index=index), action=action, meter_config=config_))


def session(kind, number):
    return update(kind, fy.P4CloneSessionEntry(number, replicas=[1]))


def digest(kind, size):
    return update(kind, fy.P4DigestEntry("report_t", max_list_size=size))


KINDS = st.sampled_from([INSERT, INSERT, MODIFY, DELETE])
FEW = st.integers(1, 3)
UPDATES = st.one_of(
    st.builds(action_set, KINDS, st.integers(1, 20), st.integers(0, 3), st.integers(0, 2)),
    st.builds(names_member, KINDS, FEW, FEW),
    st.builds(names_group, KINDS, FEW, FEW),
    st.builds(profiled, KINDS, FEW, FEW),
    st.builds(member, KINDS, st.sampled_from([SELECTOR, PROFILE]), FEW, FEW),
    st.builds(group, KINDS, FEW, st.lists(st.tuples(FEW, FEW), max_size=2)),
    st.builds(direct, KINDS, FEW, st.booleans()),
    st.builds(session, KINDS, st.integers(0, 2)),
    st.builds(digest, KINDS, st.integers(-1, 1)),
    st.just(p4r.Update()),
)


def filled(entries):
    """Return a device with a number of the selector's members taken by action sets."""
    device = forwarding("control")
    assert not any(device.write([action_set(INSERT, 100 + n) for n in range(entries)]))
    return device


@settings(max_examples=examples(25, 60), deadline=None)
@given(st.integers(ROOM - 4, ROOM), st.lists(UPDATES, max_size=6), st.lists(UPDATES, max_size=6))
def test_a_batch_is_done_as_a_whole_or_leaves_the_state_as_it_was(entries, first, batch):
    """A twin device that takes the updates one by one gives the expected result."""
    device, twin = filled(entries), filled(entries)
    device.write(first)
    twin.write(first)
    before = state(device)
    errors, outcomes = device.write_all(batch), twin.write(batch)
    if any(outcomes):
        at = next(i for i, error in enumerate(outcomes) if error is not None)
        aborted = [StatusCode.ABORTED] * len(batch)
        aborted[at] = outcomes[at].code
        assert [error.code for error in errors] == aborted
        assert state(device) == before
    else:
        assert not any(errors)
        assert state(device) == state(twin)


@pytest.mark.parametrize("atomicity", ["ROLLBACK_ON_ERROR", "DATAPLANE_ATOMIC"])
def test_action_sets_of_other_entries_count(atomicity):
    """15 of 16 members are taken: of two more, neither is inserted."""
    with P4RuntimeServer() as server, RawClient(server.address) as client:
        server.add_device(1)
        client.arbitrate()
        client.set_pipeline(config("control"))
        client.write(*(action_set(INSERT, n) for n in range(ROOM - 1)))
        before = client.read(*WHOLE_STATE)
        with refused(StatusCode.UNKNOWN) as caught:
            client.write(
                action_set(INSERT, 50),
                action_set(INSERT, 51),
                atomicity=p4r.WriteRequest.Atomicity.Value(atomicity),
            )
        assert codes(details_of(caught.value)) == [StatusCode.ABORTED, StatusCode.RESOURCE_EXHAUSTED]
        assert client.read(*WHOLE_STATE) == before
