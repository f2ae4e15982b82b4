"""Events that a trace listener receives."""

import numpy as np
import pytest

from p4switch import abi
from p4switch.device import Device
from p4switch.interpreter import Interpreter
from p4switch.interpreter.trace import (
    Change,
    ChecksumUpdated,
    ChecksumVerified,
    ConditionEvaluated,
    HeaderEmitted,
    HeaderExtracted,
    ParserFailed,
    PrimitiveRun,
    Selected,
    StageStarted,
    StateEntered,
    TableApplied,
    Verdict,
)
from p4switch.program import load_program
from p4switch.program.actions import Count, LogMessage, RegisterRead, RegisterWrite
from p4switch.tables import Exact, Lpm, Range, TableEntry, Ternary
from tests.support.p4runtime.configs import json_path

INGRESS = "EntitiesIngress."
MAC = 0x020000000001


def trace(device, port, frame):
    """Return all events of one packet, and the frames that left."""
    events = []
    device.runner.trace = events.append
    sent = device.inject(port, frame)
    return events, sent


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def packet(ether_type=0x1234, src=0):
    return MAC.to_bytes(6, "big") + src.to_bytes(6, "big") + ether_type.to_bytes(2, "big") + bytes(50)


@pytest.fixture
def entities():
    return Device(load_program(json_path("entities")), executor="interpreted")


@pytest.fixture
def constructs():
    return Device(load_program(json_path("constructs")), executor="interpreted")


def test_the_stages_of_a_packet(entities):
    entities.tables[INGRESS + "exact_table"].set_default(INGRESS + "forward", (4,))
    events, sent = trace(entities, 1, packet())
    assert [e.stage for e in of(events, StageStarted)] == ["parser", "ingress", "egress", "deparser"]
    assert of(events, Verdict) == [
        Verdict("ingress", "unicast", 4),
        Verdict("egress", "unicast", 4),
    ]
    assert [e.header for e in of(events, HeaderEmitted)] == ["ethernet"]
    assert len(sent) == 1


def test_drop_and_multicast_verdicts(entities):
    assert of(trace(entities, 1, packet())[0], Verdict) == [Verdict("ingress", "drop")]
    entities.tables[INGRESS + "exact_table"].set_default(INGRESS + "multicast", (7,))
    assert of(trace(entities, 1, packet())[0], Verdict) == [Verdict("ingress", "multicast", 7)]


def test_the_parser(entities):
    events, _ = trace(entities, 1, packet(src=5))
    assert [e.state for e in of(events, StateEntered)] == ["start", "parse_ethernet"]
    assert of(events, Selected) == [Selected("start", (1,), "parse_ethernet"), Selected("parse_ethernet", (), None)]
    fields = (("dst", MAC), ("src", 5), ("ether_type", 0x1234))
    assert of(events, HeaderExtracted) == [HeaderExtracted("ethernet", 0, fields)]


def test_a_parser_error_is_named(constructs):
    events, _ = trace(constructs, 0, bytes(53))
    assert of(events, ParserFailed) == [ParserFailed("parse_words", "PacketTooShort")]


@pytest.mark.parametrize(
    ("table", "entry", "keys"),
    [
        ("exact_table", TableEntry((Exact(MAC), Exact(1)), INGRESS + "forward", (4,)), (MAC, 1)),
        ("lpm_table", TableEntry((Lpm(MAC >> 8 << 8, 40),), INGRESS + "forward", (4,)), (MAC,)),
        ("ternary_table", TableEntry((Ternary(1, 1), Ternary(0, 0)), "NoAction", (), 9), (MAC, 0x1234)),
        ("range_table", TableEntry((Range(0x1000, 0x2000), Exact(1)), "NoAction", (), 9), (0x1234, 1)),
    ],
)
def test_a_hit_shows_the_key_the_entry_and_the_action(entities, table, entry, keys):
    decoy = {
        "exact_table": TableEntry((Exact(MAC), Exact(2)), INGRESS + "forward", (9,)),
        "lpm_table": TableEntry((Lpm(0, 0),), INGRESS + "forward", (9,)),
        "ternary_table": TableEntry((Ternary(0, 0), Ternary(0, 0)), "NoAction", (), 3),
        "range_table": TableEntry((Range(0, 0xFFFF), Exact(1)), "NoAction", (), 3),
    }[table]
    for e in (decoy, entry):
        entities.tables[INGRESS + table].insert(e)
    (applied,) = [e for e in of(trace(entities, 1, packet())[0], TableApplied) if e.table == INGRESS + table]
    assert applied.hit
    assert applied.entry == entry
    assert tuple(value for _, value in applied.keys) == keys
    assert applied.action == entry.action
    assert tuple(value for _, value in applied.arguments) == entry.arguments
    assert applied.source is not None
    assert applied.source.file.endswith("entities.p4")


def test_a_miss_shows_the_default(entities):
    applied = {e.table: e for e in of(trace(entities, 1, packet())[0], TableApplied)}
    missed = applied[INGRESS + "exact_table"]
    assert (missed.hit, missed.entry, missed.action) == (False, None, INGRESS + "drop")


def test_primitives_show_values_before_and_after(entities):
    narrow = entities.registers[INGRESS + "narrow"]
    narrow.write(0, 41)
    events, _ = trace(entities, 3, packet())
    runs = of(events, PrimitiveRun)
    (read,) = [r for r in runs if isinstance(r.primitive, RegisterRead)]
    assert (read.index, read.changes[0].before, read.changes[0].after) == (0, 0, 41)
    writes = {r.primitive.register: r for r in runs if isinstance(r.primitive, RegisterWrite)}
    assert writes[INGRESS + "narrow"].changes == (Change(INGRESS + "narrow[0]", 41, 42),)
    assert writes[INGRESS + "signed"].changes == (Change(INGRESS + "signed[0]", 0, 251),)
    counts = {r.primitive.counter: r for r in runs if isinstance(r.primitive, Count)}
    assert counts[INGRESS + "both_count"].changes == (
        Change(INGRESS + "both_count[3] packets", 0, 1),
        Change(INGRESS + "both_count[3] bytes", 0, 64),
    )


def test_an_index_out_of_range_is_shown(entities):
    events, _ = trace(entities, 9, packet())
    counts = [r for r in of(events, PrimitiveRun) if isinstance(r.primitive, Count)]
    assert {(r.index, r.in_range, r.changes) for r in counts} == {(9, False, ())}


def test_conditions_checksums_and_messages(constructs):
    words = b"\x00\x01\x00\x02\x00\x00"
    events, _ = trace(constructs, 2, bytes(53) + words)
    assert all(isinstance(e.outcome, bool) and e.conditional.source is not None for e in of(events, ConditionEvaluated))
    (verified,) = of(events, ChecksumVerified)
    assert (verified.computed, verified.found) == (0xFFFE, 2)
    assert sorted(e.value for e in of(events, ChecksumUpdated)) == [0xFFFE, 0xFFFE]
    (message,) = [e for e in of(events, PrimitiveRun) if isinstance(e.primitive, LogMessage)]
    assert message.text == "kind 0 of 59 bytes"


def test_listening_changes_nothing(entities):
    silent = Device(entities.program, executor="interpreted")
    for device in (silent, entities):
        device.tables[INGRESS + "exact_table"].set_default(INGRESS + "forward", (4,))
    assert trace(entities, 1, packet())[1] == silent.inject(1, packet())


def test_a_listener_may_be_given_at_once(entities):
    events, io = [], np.zeros(abi.IO_CELLS, dtype=np.int64)
    Interpreter(entities.program, entities.state, trace=events.append).ingress(packet(), io)
    assert isinstance(events[0], StageStarted)
