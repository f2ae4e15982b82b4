"""Work under the server's lock does not grow with the number of entries: reads, idle checks, digests."""

import sys

import finsy as fy
import numpy as np
import pytest
from finsy.proto import p4r
from hypothesis import given, settings
from hypothesis import strategies as st

from p4switch.device import Device
from p4switch.p4runtime import digest_entries
from p4switch.p4runtime.digest_entries import IdleTimers
from p4switch.p4runtime.forwarding import Forwarding, PipelineLoader
from p4switch.p4runtime.p4info import load_schema
from p4switch.program.actions import LearnList
from p4switch.traffic import Digest
from tests.support.effort import examples
from tests.support.p4runtime.configs import schema
from tests.support.p4runtime.idle import idle_config
from tests.support.p4runtime.table_entries import LPM

ENTRIES = 1000
TIMEOUT_NS = 100


class Clocked:
    """entities.p4 with idle time-outs and ENTRIES entries in lpm_table, with or without a direct counter."""

    def __init__(self):
        self.now = 1_000
        loaded = PipelineLoader().load(idle_config())
        device = Device(loaded.program)
        self.forwarding = Forwarding(loaded.config, loaded.program, loaded.schema, device, lambda: self.now)
        updates = []
        for number in range(ENTRIES):
            entry = fy.P4TableEntry(
                "lpm_table", match=fy.Match(dst=(number << 16, 32)), action=LPM.action, idle_timeout_ns=TIMEOUT_NS
            )
            updates.append(p4r.Update(type=p4r.Update.INSERT, entity=entry.encode(schema())))
        assert not any(self.forwarding.write(updates))


@pytest.fixture
def clocked():
    return Clocked()


def python_calls(work):
    """Return the number of Python functions that a call runs; machine code and C are not counted."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_a_look_for_idle_entries_does_not_visit_those_that_are_not(clocked):
    assert python_calls(lambda: list(clocked.forwarding.idle())) < 50
    clocked.now += TIMEOUT_NS
    (expired,) = clocked.forwarding.idle()
    assert len(expired) == ENTRIES
    assert list(clocked.forwarding.idle()) == []


WILDCARDS = [
    p4r.Entity(table_entry={"time_since_last_hit": {}, "table_id": schema().tables["lpm_table"].id}),
    p4r.Entity(table_entry={"counter_data": {}}),
    p4r.Entity(counter_entry={}),
    p4r.Entity(register_entry={}),
    p4r.Entity(direct_counter_entry={"table_entry": {}}),
]


def test_a_wildcard_read_makes_no_message_of_an_entry_while_the_lock_is_held(clocked):
    assert python_calls(lambda: clocked.forwarding.select(WILDCARDS)) < ENTRIES / 4


def test_a_read_shows_the_state_of_its_call_whatever_is_written_meanwhile(clocked):
    forwarding = clocked.forwarding
    before, _ = forwarding.read(WILDCARDS)
    found, errors = forwarding.select(WILDCARDS)
    assert not any(errors)
    half = [next(found) for _ in range(ENTRIES // 2)]
    key = p4r.Update(type=p4r.Update.DELETE)
    for message in before[:ENTRIES]:
        key.entity.CopyFrom(message)
        key.entity.table_entry.ClearField("time_since_last_hit")
        assert forwarding.write([key]) == [None]
    for counter in forwarding.device.counters.values():
        counter.cells[:] = 7
    for register in forwarding.device.registers.values():
        register.write(0, 1)
    assert [*half, *found] == before
    assert len(forwarding.read(WILDCARDS)[0]) < len(before) - ENTRIES


# --- idle timers, compared with a model


class Model:
    """A simple model of one entry."""

    def __init__(self, now, hits, timeout):
        self.hits, self.hit_at, self.since, self.timeout = hits, now, now, timeout

    def look(self, now, hits):
        if hits != self.hits:
            self.hits, self.hit_at, self.since = hits, now, now


ROWS = st.integers(0, 20)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), ROWS, st.integers(0, 5)),
        st.tuples(st.just("restart"), ROWS, st.integers(0, 5)),
        st.tuples(st.just("stop"), ROWS, st.just(0)),
        st.tuples(st.just("hit"), ROWS, st.just(0)),
        st.tuples(st.just("set"), ROWS, st.integers(0, 3)),
        st.tuples(st.just("pass"), st.just(0), st.integers(0, 4)),
        st.tuples(st.just("elapsed"), ROWS, st.just(0)),
        st.tuples(st.just("look"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=examples(80, 200), deadline=None)
@given(STEPS)
def test_timers_do_what_one_entry_after_the_other_would(steps):
    now = 0
    timers, model = IdleTimers(lambda: now), {}
    packets = np.zeros(21, dtype=np.uint64)
    for what, row, number in steps:
        known = model.get(row)
        if what == "start" and known is None:
            packets[row] = 0
            timers.start(row, 0, number)
            model[row] = Model(now, 0, number)
        elif what == "restart" and known is not None:
            timers.restart(row, int(packets[row]), number)
            known.look(now, packets[row])
            known.since, known.timeout = now, number
        elif what == "stop" and known is not None:
            timers.stop(row)
            del model[row]
        elif what == "hit" and known is not None:
            packets[row] += np.uint64(1)
        elif what == "set" and known is not None:
            packets[row] = number
            timers.counter_set(row, number)
            known.hits = number
        elif what == "pass":
            now += number
        elif what == "elapsed" and known is not None:
            known.look(now, packets[row])
            assert timers.elapsed([row], packets[[row]]) == [now - known.hit_at]
        elif what == "look":
            late = []
            for at, entry in sorted(model.items()):
                entry.look(now, packets[at])
                if entry.timeout and now - entry.since >= entry.timeout:
                    entry.since = now
                    late.append(at)
            assert timers.expired(packets) == late


# --- digests


class Learner:
    """The digest of control.p4, driven without packets."""

    def __init__(self, **config):
        known = load_schema(schema("control").p4info)
        self.now = 0
        self.heard = []
        self.takes = True
        self.digests = digest_entries.DigestEntries(known, lambda: self.now)
        self.digests.send = lambda message: self.takes and self.heard.append(message.digest) is None
        (self.info,) = known.digests.values()
        entry = p4r.DigestEntry(digest_id=self.info.id, config=config)
        self.digests.write(p4r.Update.INSERT, entry)

    def learn(self, key):
        self.digests.learn(Digest(LearnList(1, self.info.name, ()), (key, 1, 1)))

    def acknowledge(self, list_id):
        self.digests.acknowledge(p4r.DigestListAck(digest_id=self.info.id, list_id=list_id))


@pytest.fixture
def little_room(monkeypatch):
    monkeypatch.setattr(digest_entries, "MAX_LIST", 4)
    monkeypatch.setattr(digest_entries, "MAX_UNACKED", 10)


@pytest.mark.parametrize("max_list_size", [0, 1000])
def test_a_list_is_sent_when_it_is_as_long_as_a_message_may_be(little_room, max_list_size):
    learner = Learner(max_list_size=max_list_size, max_timeout_ns=1 << 60)
    for key in range(9):
        learner.learn(key)
    assert [len(sent.data) for sent in learner.heard] == [4, 4]


def test_samples_without_room_are_dropped_and_counted(little_room):
    learner = Learner(max_list_size=3, ack_timeout_ns=100, max_timeout_ns=1 << 60)
    for key in range(15):
        learner.learn(key)
    assert [len(sent.data) for sent in learner.heard] == [3, 3, 3]
    assert learner.digests.dropped == 5
    learner.acknowledge(2)
    for key in (3, 20, 21, 22):  # list 2 contains 3
        learner.learn(key)
    assert len(learner.heard) == 4
    assert learner.digests.dropped == 6
    learner.now += 100
    learner.learn(0)
    assert learner.digests.dropped == 6


def test_samples_that_nobody_takes_are_counted_and_wait_for_nothing(little_room):
    learner = Learner(max_list_size=1, ack_timeout_ns=1 << 60)
    learner.takes = False
    for _ in range(20):
        learner.learn(1)
    assert learner.digests.dropped == 20
    learner.takes = True
    learner.learn(1)
    assert len(learner.heard) == 1


def test_an_acknowledgement_costs_what_its_list_holds():
    learner = Learner(max_list_size=1, ack_timeout_ns=1 << 60)
    for key in range(2000):
        learner.learn(key)
    assert python_calls(lambda: learner.acknowledge(1000)) < 20
    assert python_calls(lambda: learner.learn(3000)) < 60
