"""Meters, action profiles, clone sessions, value sets and digests over P4Runtime entities (tests/data/control.p4)."""

import finsy as fy
import pytest
from finsy.p4entity import P4ValueSetMember
from finsy.proto import p4r

from p4switch.p4runtime import StatusCode
from p4switch.program.actions import LearnList
from p4switch.traffic import Digest
from tests.support.p4runtime.configs import forwarding, schema

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE
SCHEMA = schema("control")
SELECTOR, PROFILE = "I.selector", "I.profile"


@pytest.fixture
def device():
    return forwarding("control")


def entity(message):
    return message if isinstance(message, p4r.Entity) else message.encode(SCHEMA)


def write(device, kind, *messages):
    """Return the code of the first failure, OK if there is none."""
    errors = device.write([p4r.Update(type=kind, entity=entity(message)) for message in messages])
    return next((error.code for error in errors if error is not None), StatusCode.OK)


def read(device, message):
    found, (error,) = device.read([entity(message)])
    assert error is None, error
    return found


def read_code(device, message):
    return device.read([entity(message)])[1][0].code


def send(device, op, index=0, key=0, color=9, rest=b"", port=1):
    return device.device.inject(port, bytes([op, index]) + key.to_bytes(2, "big") + bytes([color, 0]) + rest)


# --- meters

CONFIG = fy.P4MeterConfig(cir=0, cburst=1, pir=0, pburst=2)


def test_meter_cells_are_configured_read_and_reset(device):
    assert write(device, MODIFY, fy.P4MeterEntry("packets", index=2, config=CONFIG)) is StatusCode.OK
    assert [send(device, 1, 2)[0][1][4] for _ in range(3)] == [0, 1, 2]
    found = [fy.P4MeterEntry.decode(e, SCHEMA) for e in read(device, fy.P4MeterEntry("packets"))]
    assert [(e.index, e.config) for e in found] == [(0, None), (1, None), (2, CONFIG), (3, None)]
    assert write(device, MODIFY, fy.P4MeterEntry("packets", index=2)) is StatusCode.OK
    assert send(device, 1, 2)[0][1][4] == 0
    assert len(read(device, fy.P4MeterEntry())) == 8
    assert write(device, MODIFY, fy.P4MeterEntry("packets", config=CONFIG)) is StatusCode.OK  # all cells
    assert all(e.meter_entry.HasField("config") for e in read(device, fy.P4MeterEntry("packets")))


@pytest.mark.parametrize(
    ("kind", "entry", "code"),
    [
        (INSERT, fy.P4MeterEntry("packets", index=0, config=CONFIG), StatusCode.INVALID_ARGUMENT),
        (DELETE, fy.P4MeterEntry("packets", index=0), StatusCode.INVALID_ARGUMENT),
        (MODIFY, fy.P4MeterEntry("packets", index=4, config=CONFIG), StatusCode.OUT_OF_RANGE),
        (MODIFY, fy.P4MeterEntry("packets", index=-1, config=CONFIG), StatusCode.INVALID_ARGUMENT),
        (MODIFY, p4r.Entity(meter_entry=p4r.MeterEntry(meter_id=5)), StatusCode.INVALID_ARGUMENT),
        (MODIFY, ("packets", (-2, 0, 0, 0)), StatusCode.INVALID_ARGUMENT),
        (MODIFY, ("packets", (0, 1 << 32, 0, 0)), StatusCode.UNIMPLEMENTED),
        (MODIFY, ("packets", (2, 1, 1, 1)), StatusCode.UNKNOWN),
        (MODIFY, ("packets", (-1, -1, -1, -1)), StatusCode.OK),
    ],
)
def test_meter_writes(device, kind, entry, code):
    if isinstance(entry, tuple):
        cir, cburst, pir, pburst = entry[1]
        entry = fy.P4MeterEntry(entry[0], index=0, config=CONFIG).encode(SCHEMA)
        entry.meter_entry.config.CopyFrom(p4r.MeterConfig(cir=cir, cburst=cburst, pir=pir, pburst=pburst))
    assert write(device, kind, entry) is code


def direct(index=1, **fields):
    return fy.P4TableEntry("direct", match=fy.Match(index=index), action=fy.Action("metered", port=6), **fields)


def test_direct_meters_in_entries_of_their_own_and_in_table_entries(device):
    assert write(device, INSERT, direct(), direct(2, meter_config=CONFIG)) is StatusCode.OK
    key = fy.P4TableEntry("direct", match=fy.Match(index=1))
    assert write(device, MODIFY, fy.P4DirectMeterEntry(table_entry=key, config=CONFIG)) is StatusCode.OK
    for index in (1, 2):
        assert [send(device, 3, index)[0][1][4] for _ in range(3)] == [0, 1, 2]
    everything = fy.P4DirectMeterEntry(table_entry=fy.P4TableEntry("direct"))
    assert [e.direct_meter_entry.config.pburst for e in read(device, everything)] == [2, 2]
    wanted = direct(2).encode(SCHEMA)
    wanted.table_entry.ClearField("action")
    assert not read(device, wanted)[0].table_entry.HasField("meter_config")
    wanted.table_entry.meter_config.SetInParent()
    assert read(device, wanted)[0].table_entry.meter_config.pburst == 2
    assert write(device, MODIFY, fy.P4DirectMeterEntry(table_entry=key)) is StatusCode.OK
    assert send(device, 3, 1)[0][1][4] == 0
    missing = fy.P4TableEntry("direct", match=fy.Match(index=7))
    assert write(device, MODIFY, fy.P4DirectMeterEntry(table_entry=missing, config=CONFIG)) is StatusCode.NOT_FOUND
    other = fy.P4TableEntry("profiled", match=fy.Match(key=1), priority=1)
    assert write(device, MODIFY, fy.P4DirectMeterEntry(table_entry=other, config=CONFIG)) is StatusCode.INVALID_ARGUMENT


# --- action profiles


def member(ident, port=1, extra=0, profile=SELECTOR):
    return fy.P4ActionProfileMember(profile, member_id=ident, action=fy.Action("send", port=port, extra=extra))


def group(ident, *members, max_size=0, profile=SELECTOR):
    given = [fy.P4Member(m, weight=w) for m, w in members]
    return fy.P4ActionProfileGroup(profile, group_id=ident, max_size=max_size, members=given)


def choose(index, **named):
    return fy.P4TableEntry("choose", match=fy.Match(index=index), action=fy.P4IndirectAction(**named))


def test_members_groups_and_entries(device):
    assert write(device, INSERT, member(1, 21, 1), member(2, 22, 2), group(9, (2, 1))) is StatusCode.OK
    assert write(device, INSERT, choose(1, member_id=1), choose(2, group_id=9)) is StatusCode.OK
    assert [send(device, 4, index)[0][0] for index in (1, 2)] == [21, 22]
    assert write(device, MODIFY, member(2, 33, 3), choose(1, group_id=9)) is StatusCode.OK
    assert [send(device, 4, index)[0][0] for index in (1, 2)] == [33, 33]
    assert read(device, fy.P4ActionProfileMember()) == [entity(member(1, 21, 1)), entity(member(2, 33, 3))]
    assert read(device, fy.P4ActionProfileGroup(SELECTOR)) == [entity(group(9, (2, 1)))]
    assert read(device, fy.P4TableEntry("choose", match=fy.Match(index=1))) == [entity(choose(1, group_id=9))]
    assert write(device, DELETE, member(2)) is StatusCode.UNKNOWN  # as PI answers for a member in use
    assert write(device, DELETE, group(9)) is StatusCode.UNKNOWN
    assert write(device, DELETE, choose(1, group_id=9), choose(2, group_id=9), group(9), member(2)) is StatusCode.OK
    assert read(device, fy.P4ActionProfileGroup()) == []


@pytest.mark.parametrize(
    ("kind", "message", "code"),
    [
        (INSERT, member(1), StatusCode.ALREADY_EXISTS),
        (MODIFY, member(7), StatusCode.NOT_FOUND),
        (DELETE, member(7), StatusCode.NOT_FOUND),
        (INSERT, group(9), StatusCode.ALREADY_EXISTS),
        (MODIFY, group(8), StatusCode.NOT_FOUND),
        (DELETE, group(8), StatusCode.NOT_FOUND),
        (INSERT, group(8, (7, 1)), StatusCode.NOT_FOUND),
        (INSERT, group(8, (1, 0)), StatusCode.INVALID_ARGUMENT),
        (INSERT, group(8, (1, 1), (1, 1)), StatusCode.INVALID_ARGUMENT),
        (INSERT, group(8, (1, 3), max_size=2), StatusCode.RESOURCE_EXHAUSTED),
        (MODIFY, group(9, (1, 1), max_size=5), StatusCode.INVALID_ARGUMENT),
        (INSERT, group(1, profile=PROFILE), StatusCode.INVALID_ARGUMENT),
        (INSERT, choose(1, member_id=7), StatusCode.NOT_FOUND),
        (INSERT, choose(1, group_id=7), StatusCode.NOT_FOUND),
        (MODIFY, choose(1, member_id=1), StatusCode.NOT_FOUND),
    ],
)
def test_what_is_wrong_with_members_groups_and_entries(device, kind, message, code):
    assert write(device, INSERT, member(1), group(9, (1, 1), max_size=4)) is StatusCode.OK
    before = read(device, fy.P4ActionProfileMember()), read(device, fy.P4ActionProfileGroup())
    assert write(device, kind, message) is code
    assert (read(device, fy.P4ActionProfileMember()), read(device, fy.P4ActionProfileGroup())) == before
    assert read(device, fy.P4TableEntry("choose")) == []


def test_entries_of_other_tables_are_not_taken(device):
    plain = entity(choose(1, member_id=1))
    plain.table_entry.action.action.action_id = SCHEMA.actions["drop"].id
    assert write(device, INSERT, plain) is StatusCode.INVALID_ARGUMENT
    indirect = entity(direct())
    indirect.table_entry.action.action_profile_member_id = 1
    assert write(device, INSERT, indirect) is StatusCode.INVALID_ARGUMENT


def one_shot(index, *ports):
    return choose(index, action_set=[(1, fy.Action("send", port=port, extra=port)) for port in ports])


def test_one_shot_action_sets_have_members_of_their_own(device):
    assert write(device, INSERT, one_shot(1, 21, 22)) is StatusCode.OK
    assert {send(device, 4, 1, key)[0][0] for key in range(16)} == {21, 22}
    assert read(device, fy.P4TableEntry("choose")) == [entity(one_shot(1, 21, 22))]
    assert read(device, fy.P4ActionProfileMember()) == []
    assert read(device, fy.P4ActionProfileGroup()) == []
    assert write(device, MODIFY, one_shot(1, 23)) is StatusCode.OK
    assert send(device, 4, 1)[0][0] == 23
    assert len(device.device.profiles[SELECTOR].members) == 1
    assert write(device, INSERT, one_shot(1, 24)) is StatusCode.ALREADY_EXISTS
    assert write(device, INSERT, one_shot(2, 600 & 0x1FF)) is StatusCode.OK
    assert write(device, DELETE, one_shot(1, 23), one_shot(2, 88)) is StatusCode.OK
    assert device.device.profiles[SELECTOR].members == {}
    assert device.device.profiles[SELECTOR].groups == {}


def test_action_sets_do_not_mix_with_members_and_groups(device):
    assert write(device, INSERT, one_shot(1, 5)) is StatusCode.OK
    for message in (member(1), group(9)):
        assert write(device, INSERT, message) is StatusCode.INVALID_ARGUMENT
        assert write(device, DELETE, message) is StatusCode.INVALID_ARGUMENT
    assert write(device, INSERT, member(1, profile=PROFILE)) is StatusCode.OK
    assert write(device, DELETE, one_shot(1, 5)) is StatusCode.OK
    assert write(device, INSERT, group(9)) is StatusCode.OK
    assert write(device, INSERT, one_shot(1, 5)) is StatusCode.INVALID_ARGUMENT
    assert read(device, fy.P4TableEntry("choose")) == []
    assert write(device, DELETE, group(9)) is StatusCode.OK
    assert write(device, INSERT, one_shot(1, 5)) is StatusCode.OK


def test_members_and_groups_that_are_not_there_are_read_as_nothing(device):
    assert write(device, INSERT, member(1), group(9)) is StatusCode.OK
    for profile in (SCHEMA.action_profiles[SELECTOR].id, 0):
        for ident, found in ((1, [entity(member(1))]), (2, [])):
            wanted = p4r.ActionProfileMember(action_profile_id=profile, member_id=ident)
            assert read(device, p4r.Entity(action_profile_member=wanted)) == found
        for ident, found in ((9, [entity(group(9))]), (8, [])):
            of_group = p4r.ActionProfileGroup(action_profile_id=profile, group_id=ident)
            assert read(device, p4r.Entity(action_profile_group=of_group)) == found


def test_a_one_shot_that_does_not_fit_leaves_nothing(device):
    assert write(device, INSERT, one_shot(1, *range(1, 18))) is StatusCode.RESOURCE_EXHAUSTED
    assert device.device.profiles[SELECTOR].members == {}


def test_a_table_with_a_profile_has_no_default_action(device):
    entry = fy.P4TableEntry("choose", action=fy.P4IndirectAction(member_id=1), is_default_action=True)
    assert write(device, MODIFY, entry) is StatusCode.INVALID_ARGUMENT
    entry = fy.P4TableEntry("choose", is_default_action=True)
    assert write(device, MODIFY, entry) is StatusCode.INVALID_ARGUMENT


# --- clone sessions


def test_clone_sessions(device):
    session = fy.P4CloneSessionEntry(7, replicas=[(1, 0), (2, 5)])
    assert write(device, INSERT, session) is StatusCode.OK
    assert device.device.clone_sessions.get(7).replicas == ((1, 0), (2, 5))
    assert read(device, fy.P4CloneSessionEntry()) == [entity(session)]
    assert write(device, INSERT, session) is StatusCode.ALREADY_EXISTS
    changed = fy.P4CloneSessionEntry(7, replicas=[(3, 1)])
    assert write(device, MODIFY, changed) is StatusCode.OK
    assert read(device, fy.P4CloneSessionEntry(7)) == [entity(changed)]
    assert write(device, DELETE, changed) is StatusCode.OK
    assert read_code(device, fy.P4CloneSessionEntry(7)) is StatusCode.NOT_FOUND
    for kind, entry, code in (
        (MODIFY, session, StatusCode.NOT_FOUND),
        (DELETE, session, StatusCode.NOT_FOUND),
        (INSERT, fy.P4CloneSessionEntry(0, replicas=[1]), StatusCode.INVALID_ARGUMENT),
        (INSERT, fy.P4CloneSessionEntry(1 << 15, replicas=[1]), StatusCode.INVALID_ARGUMENT),
        (INSERT, fy.P4CloneSessionEntry(7, class_of_service=1, replicas=[1]), StatusCode.UNIMPLEMENTED),
        (INSERT, fy.P4CloneSessionEntry(7, packet_length_bytes=64, replicas=[1]), StatusCode.UNIMPLEMENTED),
        (INSERT, fy.P4CloneSessionEntry(7, replicas=[512]), StatusCode.INVALID_ARGUMENT),
    ):
        assert write(device, kind, entry) is code
    assert device.device.clone_sessions.sessions() == ()


# --- value sets


def value_set(*members):
    given = [P4ValueSetMember({"a": a, "b": b}) for a, b in members]
    return fy.P4ValueSetEntry("pairs", members=given)


def test_value_sets(device):
    assert write(device, MODIFY, value_set((0xF, 0x00F), (1, 0x234))) is StatusCode.OK
    assert device.device.value_sets["P.pairs"].values == (0xF00F, 0x1234)
    assert read(device, fy.P4ValueSetEntry("pairs", members=[])) == [entity(value_set((0xF, 0x00F), (1, 0x234)))]
    assert write(device, MODIFY, value_set((1, 1), (2, 2), (3, 3))) is StatusCode.RESOURCE_EXHAUSTED
    assert write(device, INSERT, value_set((1, 1))) is StatusCode.INVALID_ARGUMENT
    assert write(device, MODIFY, value_set((1, 1), (1, 1))) is StatusCode.ALREADY_EXISTS
    incomplete = entity(value_set((1, 1)))
    del incomplete.value_set_entry.members[0].match[1]
    assert write(device, MODIFY, incomplete) is StatusCode.INVALID_ARGUMENT
    assert device.device.value_sets["P.pairs"].values == (0xF00F, 0x1234)
    assert write(device, MODIFY, value_set()) is StatusCode.OK
    assert device.device.value_sets["P.pairs"].values == ()


# --- digests


class Heard:
    """Messages of a device, with a manual clock."""

    def __init__(self):
        self.now = 1_000
        self.lists = []
        self.device = forwarding("control", clock=lambda: self.now)
        self.device.digests.send = lambda message: self.lists.append(message.digest) is None

    def samples(self):
        """Return the keys of each received list."""
        return [[data["key"] for data in fy.P4DigestList.decode(wrapped(m), SCHEMA).data] for m in self.lists]


def wrapped(digest):
    return p4r.StreamMessageResponse(digest=digest)


def configure(heard, kind=INSERT, **config):
    return write(heard.device, kind, fy.P4DigestEntry("report_t", **config))


def test_a_digest_is_sent_once_it_is_configured():
    heard = Heard()
    send(heard.device, 6, 7, 0xABCD, port=300)
    assert heard.lists == []
    assert configure(heard, max_list_size=1) is StatusCode.OK
    send(heard.device, 6, 7, 0xABCD, port=300)
    send(heard.device, 6, 7, 0xABCD, port=300)
    decoded = [fy.P4DigestList.decode(wrapped(m), SCHEMA) for m in heard.lists]
    assert [(d.digest_id, d.list_id, d.timestamp) for d in decoded] == [("report_t", 1, 1_000), ("report_t", 2, 1_000)]
    assert decoded[0].data == [{"key": 0xABCD, "port": 300, "index": 7}]
    assert configure(heard, DELETE) is StatusCode.OK
    send(heard.device, 6, 7, 1)
    assert len(heard.lists) == 2


def test_digests_wait_for_a_full_list_or_their_time_out():
    heard = Heard()
    configure(heard, max_list_size=2, max_timeout_ns=500)
    for key in (1, 2, 3):
        send(heard.device, 6, key=key)
    assert heard.samples() == [[1, 2]]
    assert heard.device.digests.flush() == 0
    heard.now += 500
    assert heard.device.digests.flush() == 1
    assert heard.samples() == [[1, 2], [3]]


def test_samples_come_once_until_they_are_acknowledged_or_time_out():
    heard = Heard()
    configure(heard, max_list_size=1, ack_timeout_ns=500)
    for key in (1, 1, 2, 1):
        send(heard.device, 6, key=key)
    assert heard.samples() == [[1], [2]]
    heard.device.digests.acknowledge(p4r.DigestListAck(digest_id=heard.lists[0].digest_id, list_id=1))
    for key in (1, 2):
        send(heard.device, 6, key=key)
    assert heard.samples() == [[1], [2], [1]]
    heard.now += 500
    send(heard.device, 6, key=2)
    assert heard.samples() == [[1], [2], [1], [2]]


def test_digest_entries():
    heard = Heard()
    entry = fy.P4DigestEntry("report_t", max_list_size=3, max_timeout_ns=4, ack_timeout_ns=5)
    assert read(heard.device, fy.P4DigestEntry()) == []
    assert read_code(heard.device, fy.P4DigestEntry("report_t")) is StatusCode.NOT_FOUND
    assert write(heard.device, MODIFY, entry) is StatusCode.NOT_FOUND
    assert write(heard.device, INSERT, entry) is StatusCode.OK
    assert write(heard.device, INSERT, entry) is StatusCode.ALREADY_EXISTS
    assert read(heard.device, fy.P4DigestEntry("report_t")) == [entity(entry)]
    assert write(heard.device, MODIFY, fy.P4DigestEntry("report_t", max_timeout_ns=-1)) is StatusCode.INVALID_ARGUMENT
    assert write(heard.device, INSERT, p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=3))) is StatusCode.NOT_FOUND
    assert write(heard.device, DELETE, entry) is StatusCode.OK
    assert write(heard.device, DELETE, entry) is StatusCode.NOT_FOUND


def test_digests_of_other_learn_lists_are_not_taken_for_one_another():
    heard = Heard()
    configure(heard)
    heard.device.digests.learn(Digest(LearnList(9, "other_t", ()), ()))
    assert heard.lists == []


# --- carrying state over


CHOSEN = {
    "a group": [member(1, 21, 1), group(9, (1, 2)), choose(1, group_id=9)],
    "an action set": [one_shot(2, 5)],
}


@pytest.mark.parametrize("chosen", CHOSEN.values(), ids=CHOSEN)
def test_a_snapshot_holds_it_all(device, chosen):
    assert write(device, INSERT, *chosen) is StatusCode.OK
    assert (
        write(device, INSERT, direct(1, meter_config=CONFIG), fy.P4CloneSessionEntry(7, replicas=[1])) is StatusCode.OK
    )
    assert write(device, INSERT, fy.P4DigestEntry("report_t", max_list_size=3)) is StatusCode.OK
    assert write(device, MODIFY, value_set((1, 1)), fy.P4MeterEntry("octets", index=1, config=CONFIG)) is StatusCode.OK
    configured, volatile = device.snapshot()
    other = forwarding("control")
    assert [error for error in other.write([*configured, *volatile]) if error is not None] == []
    assert other.snapshot() == (configured, volatile)
    assert len(configured) == 5 + len(chosen)
