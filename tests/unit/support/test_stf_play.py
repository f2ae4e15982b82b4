"""STF tests played on the embedded switch, with a program built here."""

import pytest

from p4switch.program import load_program
from tests.support.bmv2_json import ProgramJson, assign, const, field, named, parameter, primitive
from tests.support.conformance.stf.parser import parse_stf
from tests.support.conformance.stf.play import Player, fits
from tests.support.conformance.stf.statements import Expect, StfError
from tests.support.conformance.targets.embedded import EmbeddedSwitch

EXECUTORS = ["interpreted", "compiled"]


def build():
    """Return a program: header h (kind 8, value 16); table c.t (ternary kind, exact value) sends, counts,
    multicasts."""
    made = ProgramJson()
    made.header("h", (("kind", 8), ("value", 16)))
    made.sections["counter_arrays"] = [{"name": "c.seen", "id": 0, "size": 4, "is_direct": False}]
    made.sections["register_arrays"] = [{"name": "c.kept", "id": 0, "size": 4, "bitwidth": 16}]
    standard = "standard_metadata"
    drop = made.action("c.drop", [assign(field(standard, "egress_spec"), const(511))])
    send = made.action(
        "c.send",
        [
            assign(field(standard, "egress_spec"), parameter(0)),
            primitive("count", named("counter_array", "c.seen"), const(1)),
            primitive("register_read", field("h", "value"), named("register_array", "c.kept"), const(2)),
        ],
        [("port", 9)],
    )
    copy = made.action("c.copy", [assign(field(standard, "mcast_grp"), parameter(0))], [("group", 16)])
    made.table("c.t", [("ternary", field("h", "kind")), ("exact", field("h", "value"))], [drop, send, copy])
    return load_program(made.build())


PROGRAM = build()


def play(executor, text):
    return Player(PROGRAM, EmbeddedSwitch(PROGRAM, executor)).play(parse_stf(text))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_test_that_passes(executor):
    problems = play(
        executor,
        """
        mc_mgrp_create 5
        mc_node_create 7 4 3        # handle 0: ports in ascending order
        mc_node_associate 5 0
        register_write kept 2 0x1234
        add t 1 h.kind:0x0* h.value:0 send(port:2)
        add t 2 kind:0x01 value:0 c.copy(group:5)
        check_counter seen(1)
        packet 1 02 0000 aabb
        expect 2 02 1234 aabb $
        packet 1 01 0000
        expect 3 01 **** $
        expect 4 01
        packet 1 30 0000
        setdefault c.t send(port:2)
        packet 1 ff ffff
        expect 2 ff
        wait
        check_counter c.seen(1) packets == 2
        check_counter c.seen(1) bytes >= 6
        """,
    )
    assert problems == []


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    ("expected", "problem"),
    [
        ("expect 2 02 0001", "port 2, line 3: 020000 left, expected 020001"),
        ("expect 2 02 0000 00", "port 2, line 3: 020000 left"),
        ("expect 2 02 $", "port 2, line 3: 020000 left"),
        ("expect 3 02 0000", "port 3: 0 frames left, expected 1"),
        ("expect 2 02\nexpect 2 02", "port 2: 1 frames left, expected 2"),
        ("packet 2 ff", "port 2: 1 frames left, expected 0"),
        ("expect 2\ncheck_counter seen(1) packets != 1", "counter seen(1) has 1 packets, expected != 1"),
    ],
)
def test_differences_are_found(executor, expected, problem):
    found = play(executor, f"add t 1 kind:0x02 send(port:2)\npacket 1 02 0000\n{expected}\n")
    assert any(problem in line for line in found), found


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_port_where_anything_may_leave_and_one_that_is_not_named(executor):
    assert play(executor, "setdefault t send(port:2)\npacket 1 02 0000\nexpect 2") == []
    assert play(executor, "setdefault t send(port:2)\npacket 1 02 0000") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("add nowhere 1 kind:0x02 send(port:2)", "table 'nowhere' is unknown"),
        ("add t 1 kind:0x02 fly()", "action 'fly' is unknown"),
        ("add t 1 size:0x02 drop()", "no key 'size'"),
        ("add t kind:0x02 drop()", "needs a priority"),
        ("add t 1 kind:0x02 send()", "no value for port"),
        ("add t 1 kind:0x02 drop(port:1)", "no parameter port"),
        ("check_counter seen($B) packets == 1", "no entry is called B"),
        ("meter_set_rates m 1 2:3 4:5", "meter_set_rates is not played"),
    ],
)
def test_a_test_that_does_not_fit_the_program_is_an_error(text, message):
    with pytest.raises(StfError, match=message):
        play("interpreted", text)


def test_higher_priorities_win():
    text = "add t 1 kind:0x02 send(port:2)\nadd t 9 kind:0x0* send(port:3)\npacket 1 02 0000\nexpect 3 02"
    assert play("interpreted", text) == []


@pytest.mark.parametrize(
    ("frame", "pattern", "exact", "outcome"),
    [("00ff", "00", False, True), ("00ff", "00", True, False), ("00", "00FF", False, False), ("1a", "*A", True, True)],
)
def test_fits(frame, pattern, exact, outcome):
    assert fits(bytes.fromhex(frame), Expect(1, pattern, exact, 1)) is outcome
