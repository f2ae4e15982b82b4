"""Batches that are applied wholly or not at all."""

import threading

import finsy as fy
import pytest
from finsy.proto import p4r
from hypothesis import given, settings
from hypothesis import strategies as st

from p4switch.p4runtime import StatusCode
from tests.support.effort import examples
from tests.support.p4runtime.client import codes, details_of
from tests.support.p4runtime.configs import config, forwarding, schema
from tests.support.p4runtime.updates import DELETE, EVERYTHING, MODIFY, dynamic, entry, insert, refused

ALL_OR_NOTHING = [p4r.WriteRequest.ROLLBACK_ON_ERROR, p4r.WriteRequest.DATAPLANE_ATOMIC]
WHOLE_STATE = [
    p4r.Entity(table_entry=p4r.TableEntry(counter_data=p4r.CounterData())),
    p4r.Entity(table_entry=p4r.TableEntry(is_default_action=True)),
    p4r.Entity(counter_entry=p4r.CounterEntry()),
    p4r.Entity(register_entry=p4r.RegisterEntry()),
    p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": {}}),
]


@pytest.fixture
def client(client):
    client.set_pipeline(config())
    return client


def change(kind, port):
    return p4r.Update(type=kind, entity=entry(port).encode(schema()))


def group(kind, number):
    members = {"multicast_group_id": number, "replicas": [{"egress_port": 1}, {"egress_port": 2}]}
    return p4r.Update(type=kind, entity={"packet_replication_engine_entry": {"multicast_group_entry": members}})


@pytest.mark.parametrize("atomicity", ALL_OR_NOTHING)
def test_a_good_batch_is_applied(client, atomicity):
    client.write(insert(1), insert(2), group(p4r.Update.INSERT, 4), change(DELETE, 1), atomicity=atomicity)
    assert len(dynamic(client.read(EVERYTHING))) == 1
    assert len(client.read(WHOLE_STATE[-1])) == 1
    client.write(atomicity=atomicity)


@pytest.mark.parametrize("atomicity", ALL_OR_NOTHING)
def test_a_bad_batch_leaves_everything_as_it_was(client, atomicity):
    client.write(insert(1), group(p4r.Update.INSERT, 4))
    before = client.read(*WHOLE_STATE)
    with refused(StatusCode.UNKNOWN) as caught:
        client.write(
            insert(2),
            change(DELETE, 1),
            group(DELETE, 4),
            insert(2, "drop"),
            insert(3),
            atomicity=atomicity,
        )
    aborted = [StatusCode.ABORTED] * 3
    assert codes(details_of(caught.value)) == [*aborted, StatusCode.PERMISSION_DENIED, StatusCode.ABORTED]
    assert "update 3" in details_of(caught.value)[0].message
    assert client.read(*WHOLE_STATE) == before


@pytest.mark.parametrize("atomicity", ALL_OR_NOTHING)
def test_room_counts_what_is_there_already(client, atomicity):
    client.write(*(insert(port) for port in (1, 2, 3)))
    with refused(StatusCode.UNKNOWN, "RESOURCE_EXHAUSTED"):
        client.write(insert(4), insert(5), atomicity=atomicity)
    assert len(dynamic(client.read(EVERYTHING))) == 3
    client.write(change(DELETE, 1), insert(4), insert(5), atomicity=atomicity)
    assert len(dynamic(client.read(EVERYTHING))) == 4


def test_an_unknown_atomicity_is_refused(client):
    with refused(StatusCode.INVALID_ARGUMENT, "atomicity"):
        client.write(insert(), atomicity=7)
    assert dynamic(client.read(EVERYTHING)) == []


def test_packets_see_all_of_a_batch_or_nothing(server, client):
    """A driver that runs packets under the lock always finds both entries or none."""
    device, stop, halves = server.device(1), threading.Event(), []
    table = device.tables["EntitiesIngress.exact_table"]
    looks = 0

    def look():
        nonlocal looks
        while not stop.is_set():
            with server.lock:
                looks += 1
                if len(table) not in (0, 2):
                    halves.append(len(table))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for _ in range(30):
            client.write(insert(1), insert(2), atomicity=p4r.WriteRequest.DATAPLANE_ATOMIC)
            client.write(change(DELETE, 1), change(DELETE, 2), atomicity=p4r.WriteRequest.DATAPLANE_ATOMIC)
    finally:
        stop.set()
        watcher.join()
    assert looks
    assert halves == []


def state(device):
    found, errors = device.read(WHOLE_STATE)
    assert not any(errors)
    return [entity.SerializeToString(deterministic=True) for entity in found]


def counter(index):
    return p4r.Update(
        type=MODIFY,
        entity={
            "counter_entry": {
                "counter_id": schema().counters["both_count"].id,
                "index": {"index": index},
                "data": {"packet_count": 9, "byte_count": 9},
            }
        },
    )


def ternary(kind, mask, priority, padding):
    """Mask 0 matches everything, so its match is empty. ``padding`` writes the same key in more bytes."""
    match = fy.Match(dst=(1 & mask, mask)) if mask else fy.Match()
    entity = fy.P4TableEntry(
        "ternary_table", match=match, action=fy.Action("mark", tag=1, src=2), priority=priority
    ).encode(schema())
    for field in entity.table_entry.match:
        field.ternary.value = bytes(padding) + field.ternary.value
    return p4r.Update(type=kind, entity=entity)


KINDS = st.sampled_from([p4r.Update.INSERT, p4r.Update.INSERT, MODIFY, DELETE])
UPDATES = st.one_of(
    st.builds(ternary, KINDS, st.integers(0, 2), st.integers(1, 2), st.integers(0, 1)),
    st.builds(change, st.sampled_from([p4r.Update.INSERT, MODIFY, DELETE]), st.integers(1, 6)),
    st.builds(group, st.sampled_from([p4r.Update.INSERT, MODIFY, DELETE]), st.integers(0, 3)),
    st.builds(counter, st.integers(-1, 8)),
    st.just(p4r.Update()),
)


@settings(max_examples=examples(30, 80), deadline=None)
@given(st.lists(UPDATES, max_size=6), st.lists(UPDATES, max_size=6))
def test_all_or_nothing_whatever_the_batch(first, batch):
    device, twin = forwarding(), forwarding()
    device.write(first)
    twin.write(first)
    before = state(device)
    errors = device.write_all(batch)
    outcomes = twin.write(batch)
    if any(errors):
        assert state(device) == before
        at = next(i for i, error in enumerate(outcomes) if error is not None)
        assert errors[at].code is outcomes[at].code
        assert all(error.code is StatusCode.ABORTED for i, error in enumerate(errors) if i != at)
    else:
        assert not any(outcomes)
        assert state(device) == state(twin)


# --- members and entries that use them (tests/data/control.p4)

CONTROL = schema("control")


def member(kind, ident, port=1):
    entity = fy.P4ActionProfileMember("I.selector", member_id=ident, action=fy.Action("send", port=port, extra=0))
    return p4r.Update(type=kind, entity=entity.encode(CONTROL))


def choose(kind, index, ident):
    entity = fy.P4TableEntry("choose", match=fy.Match(index=index), action=fy.P4IndirectAction(member_id=ident))
    return p4r.Update(type=kind, entity=entity.encode(CONTROL))


PROFILE_UPDATES = st.one_of(
    st.builds(member, KINDS, st.integers(1, 2), st.integers(1, 3)),
    st.builds(choose, KINDS, st.integers(1, 2), st.integers(1, 2)),
)
PROFILE_STATE = [p4r.Entity(action_profile_member=p4r.ActionProfileMember()), EVERYTHING]


@settings(max_examples=examples(25, 60), deadline=None)
@given(st.lists(PROFILE_UPDATES, max_size=6), st.lists(PROFILE_UPDATES, max_size=6))
def test_members_in_use_count_in_the_trial(first, batch):
    """A member can be removed only if no entry outside of the batch uses it."""
    device, twin = forwarding("control"), forwarding("control")
    for each in (device, twin):
        each.write(first)
    before = device.read(PROFILE_STATE)
    errors, outcomes = device.write_all(batch), twin.write(batch)
    assert any(errors) == any(outcomes)
    assert device.read(PROFILE_STATE) == (before if any(errors) else twin.read(PROFILE_STATE))
