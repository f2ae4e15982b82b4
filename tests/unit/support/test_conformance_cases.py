"""The fuzzer's parts: cases survive a recording, differences are found, recorded programs match the compiled ones."""

import json
import random

import pytest

from tests.conformance.programs import manifest
from tests.support.conformance.fuzz.operations import Send, decode, encode
from tests.support.conformance.fuzz.outcome import Outcome, by_port, differences, merge
from tests.support.conformance.fuzz.recording import Recording, read_recording, write_recording
from tests.support.conformance.fuzz.suites import SUITES

SEND = Send(1, b"\x01")


def outcome(*sent, **more):
    return Outcome(sent=[list(one) for one in sent], **more)


@pytest.mark.parametrize("name", SUITES)
def test_every_operation_survives_its_form_in_json(name):
    suite = SUITES[name]
    operations = suite.make(suite.shape(), random.Random(1), 30)
    assert [decode(json.loads(json.dumps(encode(one)))) for one in operations] == operations


@pytest.mark.parametrize("name", SUITES)
def test_the_same_seed_makes_the_same_case(name):
    suite = SUITES[name]
    first, again, other = (suite.make(suite.shape(), random.Random(seed), 10) for seed in ("a", "a", "b"))
    assert first == again
    assert first != other


def test_registers_of_time_stamps_are_in_no_comparison():
    """Switches have different clocks; the program's other state is compared."""
    shape = SUITES["p4reduce-64"].shape()
    assert shape.timed == {"IncIngress.aggregate.slot.closings"}
    assert shape.untimed().registers.keys() == shape.registers.keys() - shape.timed != set()
    assert not SUITES["state"].shape().timed


def test_a_recording_is_read_as_it_was_written(tmp_path):
    recorded = Recording("1.15", "00", (((SEND,), outcome([[2, "aa"]], registers={"r": [1]}, unordered=[0])),))
    write_recording(tmp_path / "r.json", recorded)
    assert read_recording(tmp_path / "r.json") == recorded


def test_frames_are_sorted_by_port_and_keep_their_order_on_each():
    assert by_port([(2, b"\x02"), (1, b"\x03"), (2, b"\x01")]) == [[1, "03"], [2, "02", "01"]]


def test_order_on_a_port_counts_unless_it_is_open():
    expected, turned = outcome([[2, "aa", "bb"]]), outcome([[2, "bb", "aa"]])
    assert len(differences([SEND], expected, turned)) == 1
    expected.unordered = [0]
    assert differences([SEND], expected, turned) == []
    assert len(differences([SEND], expected, outcome([[2, "bb", "ab"]]))) == 1
    assert len(differences([SEND], expected, outcome([[2, "aa"]]))) == 1


@pytest.mark.parametrize("part", ["registers", "counters", "direct"])
def test_what_remains_counts(part):
    expected, other = outcome([], **{part: {"x": [1]}}), outcome([], **{part: {"x": [2]}})
    assert differences([SEND], expected, other) == [f"{part} x: expected [1], got [2]"]


def test_runs_that_differ_in_order_only_are_merged():
    merged = merge([outcome([[2, "aa", "bb"]], []), outcome([[2, "bb", "aa"]], [])])
    assert merged == outcome([[2, "aa", "bb"]], [], unordered=[0])


def test_runs_that_differ_in_more_are_not():
    assert merge([outcome([[2, "aa"]]), outcome([[2, "ab"]])]) is None
    assert merge([outcome([], registers={"r": [1]}), outcome([], registers={"r": [2]})]) is None


@pytest.mark.parametrize("name", manifest.programs())
def test_programs_are_compiled_from_the_sources_that_are_carried(name):
    made = json.loads(manifest.MANIFEST.read_text())["programs"]
    assert made[name] == manifest.hashes(name), "compile again with: python -m tests.conformance.programs P4C"
