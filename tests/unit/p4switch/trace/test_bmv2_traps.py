"""Surprising behaviour of BMv2 that holds here, too, on both executors; docs/embedded-switch.md lists these tests."""

import re
from pathlib import Path

import numpy as np
import pytest

from p4switch import abi
from p4switch.device import Device
from p4switch.program import load_program
from p4switch.tables import Exact, TableEntry
from tests.support.bmv2_json import ProgramJson, assign, boolean, const, field, named, op, primitive
from tests.support.paths import ROOT

STANDARD = "standard_metadata"
SPEC = field(STANDARD, "egress_spec")
FORWARD = assign(SPEC, const(2))


@pytest.fixture(params=["compiled", "interpreted"])
def make(request, tmp_path, monkeypatch):
    """Make devices on either executor."""
    monkeypatch.setenv("P4REDUCE_CACHE", str(tmp_path))
    return lambda program: Device(load_program(program.build()), executor=request.param)


def octet():
    """Return a program with a header of one byte."""
    program = ProgramJson()
    program.header("a", [("x", 8)])
    return program


def report(program, value, width, pipeline="egress"):
    """Emit a number after all other headers."""
    program.header("report", [("v", width)], parsed=False)
    program.call([primitive("add_header", named("header", "report"))], pipeline=pipeline)
    program.call([assign(field("report", "v"), value)], pipeline=pipeline)


def test_a_forgotten_egress_spec_sends_by_port_0(make):
    program = octet()
    assert make(program).inject(5, b"\x07") == [(0, b"\x07")]


def test_mark_to_drop_is_undone_by_a_later_write(make):
    program = octet()
    program.call([primitive("mark_to_drop", named("header", STANDARD)), FORWARD])
    assert make(program).inject(1, b"\x07") == [(2, b"\x07")]


def test_mark_to_drop_clears_the_group_but_a_later_group_multicasts_all_the_same(make):
    drop, group = primitive("mark_to_drop", named("header", STANDARD)), assign(field(STANDARD, "mcast_grp"), const(7))
    for order, copies in (([group, drop], 0), ([drop, group], 2)):
        program = octet()
        program.call(order)
        device = make(program)
        device.multicast.set(7, [(3, 1), (4, 2)])
        assert len(device.inject(1, b"\x07")) == copies


def test_a_group_that_does_not_exist_drops_whatever_egress_spec_says(make):
    program = octet()
    program.call([FORWARD, assign(field(STANDARD, "mcast_grp"), const(9))])
    assert make(program).inject(1, b"\x07") == []


def test_reading_an_invalid_header_gives_what_it_held_last(make):
    program = octet()
    program.call([FORWARD, primitive("remove_header", named("header", "a"))])
    report(program, field("a", "x"), 8)
    assert make(program).inject(1, b"\x07") == [(2, b"\x07")]  # not the header: the report of its old value


def test_an_assignment_to_an_invalid_header_is_kept_and_not_sent(make):
    program = octet()
    program.call([FORWARD, primitive("remove_header", named("header", "a")), assign(field("a", "x"), const(9))])
    report(program, field("a", "x"), 8)
    assert make(program).inject(1, b"\x07") == [(2, b"\x09")]


def test_set_valid_zeroes_an_invalid_header_and_leaves_a_valid_one(make):
    add, remove = primitive("add_header", named("header", "a")), primitive("remove_header", named("header", "a"))
    for calls, left in (([add], 7), ([remove, add], 0)):
        program = octet()
        program.call([FORWARD, *calls])
        assert make(program).inject(1, b"\x07") == [(2, bytes([left]))]


def test_a_packet_too_short_for_its_header_goes_through_ingress_all_the_same(make):
    program = ProgramJson()
    program.header("a", [("x", 32)])
    program.call([FORWARD])
    report(program, field(STANDARD, "parser_error"), 32)
    assert make(program).inject(1, b"\x07") == [(2, b"\0\0\0\x01" + b"\x07")]


def test_a_select_that_fits_nothing_accepts_the_packet(make):
    program = octet()
    program.header("b", [("y", 8)])
    extract = [{"op": "extract", "parameters": [{"type": "regular", "value": name}]} for name in ("a", "b")]
    only = {"type": "hexstr", "value": "0x01", "mask": None, "next_state": "more"}
    program.states = [
        {
            "name": "start",
            "id": 0,
            "parser_ops": extract[:1],
            "transition_key": [field("a", "x")],
            "transitions": [only],
        },
        {
            "name": "more",
            "id": 1,
            "parser_ops": extract[1:],
            "transition_key": [],
            "transitions": [{"type": "default", "value": None, "mask": None, "next_state": None}],
        },
    ]
    program.call([FORWARD])
    report(program, op("+", op("<<", field("b", "$valid$"), const(4)), field(STANDARD, "parser_error")), 8)
    device = make(program)
    assert device.inject(1, b"\x01\x02") == [(2, b"\x01\x02\x10")]
    assert device.inject(1, b"\x07\x02") == [(2, b"\x07\x00\x02")]


def test_bytes_behind_the_headers_are_sent_on(make):
    program = octet()
    program.call([FORWARD])
    assert make(program).inject(1, b"\x07 and so on") == [(2, b"\x07 and so on")]


@pytest.mark.parametrize("index", [3, 4, 1 << 31])
def test_a_register_index_out_of_range_does_nothing(make, index):
    program = octet()
    program.sections["register_arrays"] = [{"name": "r", "id": 0, "size": 4, "bitwidth": 8}]
    program.call(
        [
            FORWARD,
            primitive("register_write", named("register_array", "r"), const(index), const(9)),
            primitive("register_read", field("a", "x"), named("register_array", "r"), const(index)),
        ]
    )
    device = make(program)
    assert device.inject(1, b"\x07") == [(2, b"\x09" if index < 4 else b"\x07")]
    assert [device.registers["r"].read(i) for i in range(4)] == [0, 0, 0, 9 if index < 4 else 0]


def test_a_signed_register_reads_back_unsigned(make):
    """Cells are unsigned: -1 |+| -2 of two cells read back is not -3."""
    program = ProgramJson()
    program.header("a", [("x", 8, True)])
    program.struct("m", [("wide", 16, True)])
    program.sections["register_arrays"] = [{"name": "r", "id": 0, "size": 1, "bitwidth": 8}]
    cell = named("register_array", "r")
    program.call(
        [
            FORWARD,
            primitive("register_write", cell, const(0), field("a", "x")),
            primitive("register_read", field("m", "wide"), cell, const(0)),
        ]
    )
    report(program, field("m", "wide"), 16)
    assert make(program).inject(1, b"\xff") == [(2, b"\xff" + b"\x00\xff")]


def test_counters_count_the_length_that_came_in(make):
    program = octet()
    program.sections["counter_arrays"] = [{"name": "c", "id": 0, "size": 1, "is_direct": False}]
    program.call([FORWARD])
    report(program, const(1), 64, pipeline="ingress")
    program.call([primitive("count", named("counter_array", "c"), const(0))], pipeline="egress")
    device = make(program)
    ((_, frame),) = device.inject(1, b"\x07rest")
    assert len(frame) == 13
    assert device.counters["c"].read(0) == (1, 5)


def test_packet_length_is_renewed_at_egress(make):
    program = octet()
    program.call([FORWARD, primitive("remove_header", named("header", "a"))])
    report(program, field(STANDARD, "packet_length"), 32)
    assert make(program).inject(1, b"\x07rest") == [(2, (4).to_bytes(4, "big") + b"rest")]


def test_egress_spec_written_in_egress_sends_nowhere_else(make):
    program = octet()
    program.call([FORWARD])
    program.call([assign(SPEC, const(6))], pipeline="egress")
    assert make(program).inject(1, b"\x07") == [(2, b"\x07")]


def test_the_drop_port_written_in_egress_drops(make):
    program = octet()
    program.call([FORWARD])
    program.call([assign(SPEC, const(abi.DROP_PORT))], pipeline="egress")
    assert make(program).inject(1, b"\x07") == []


def test_unicast_has_rid_0_and_copies_to_one_port_are_told_apart_by_theirs(make):
    program = octet()
    program.call([FORWARD, assign(field(STANDARD, "mcast_grp"), field("a", "x"))])
    report(program, field(STANDARD, "egress_rid"), 8)
    device = make(program)
    device.multicast.set(7, [(3, 1), (3, 2)])
    assert device.inject(1, b"\x00") == [(2, b"\x00\x00")]
    assert device.inject(1, b"\x07") == [(3, b"\x07\x01"), (3, b"\x07\x02")]


def test_exit_lets_the_action_finish(make):
    program = octet()
    program.call([FORWARD, primitive("exit"), assign(field("a", "x"), const(9))])
    program.call([assign(field("a", "x"), const(1))])
    assert make(program).inject(1, b"\x07") == [(2, b"\x09")]


def test_a_direct_counter_counts_hits_even_where_the_action_does_not_count(make):
    program = octet()
    action = program.action("forward", [FORWARD])
    program.sections["counter_arrays"] = [{"name": "hits", "id": 0, "is_direct": True, "binding": "t"}]
    program.table("t", [("exact", field("a", "x"))], [action], with_counters=True)
    device = make(program)
    entry = TableEntry((Exact(7),), "forward")
    device.tables["t"].insert(entry)
    device.inject(1, b"\x07")
    device.inject(1, b"\x08")
    assert device.tables["t"].read_counter(entry) == (1, 1)


def test_a_failed_assertion_is_counted_and_the_packet_goes_on(make):
    program = octet()
    program.call([FORWARD, primitive("assert", boolean(False))])
    device = make(program)
    assert device.inject(1, b"\x07") == [(2, b"\x07")]
    assert device.state.failed_assertions == 1


def test_priority_is_handed_on_and_decided_by_the_queues(make):
    """A priority beyond the last queue drops the packet; tests of the fabric cover that."""
    program = octet()
    program.call([FORWARD, assign(field(STANDARD, "priority"), op("&", field("a", "x"), const(7)))])
    device = make(program)
    io = np.zeros(abi.IO_CELLS, dtype=np.int64)
    device.runner.ingress(b"\x05", io)
    assert io[abi.OUT_PRIORITY] == 5


def test_the_page_names_tests_that_exist():
    page = (ROOT / "docs" / "embedded-switch.md").read_text("utf-8")
    named_tests = set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page))
    assert len(named_tests) > 15
    for file, test in named_tests:
        assert f"def {test}(" in (ROOT / file).read_text("utf-8"), f"{file}::{test}"
    mine = Path(__file__).relative_to(ROOT).as_posix()
    here = set(re.findall(r"^def (test_\w+)\(make", Path(__file__).read_text("utf-8"), re.MULTILINE))
    assert here <= {test for file, test in named_tests if file == mine}
