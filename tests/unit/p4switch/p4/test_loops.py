"""Loops: their results in actions, apply blocks and functions, and refusals (specification, section 12.9)."""

import pytest

from p4switch.p4.compile import compile_text
from p4switch.program import load_program
from tests.support.conformance.targets.embedded import EmbeddedSwitch
from tests.support.frontend.loops import BODIES, program
from tests.support.frontend.mistakes import PROGRAM


@pytest.fixture(params=["interpreted", "compiled"])
def executor(request):
    return request.param


def port_of(text, executor, ingress=1, length=60):
    """Return the port by which a frame leaves."""
    switch = EmbeddedSwitch(load_program(compile_text(text).require().json), executor)
    switch.send(ingress, bytes(length))
    ((port, _),) = switch.drain()
    return port


SWITCHES = "switch ("


@pytest.mark.parametrize(("body", "wanted"), BODIES, ids=range(len(BODIES)))
def test_in_an_apply_block(body, wanted, executor):
    assert port_of(program(f"bit<9> n = 0; {body} std.egress_spec = n;"), executor, ingress=3) == wanted


@pytest.mark.parametrize(("body", "wanted"), [b for b in BODIES if SWITCHES not in b[0]])
def test_in_an_action_of_a_table(body, wanted, executor):
    """The action stays one action; its loop becomes jumps."""
    table = "table counts { actions = { count_up; } const default_action = count_up(); }"
    action = f"action count_up() {{ bit<9> n = 0; {body} std.egress_spec = n; }} {table}"
    assert port_of(program("counts.apply();", action), executor, ingress=3) == wanted


def test_return_within_loops_of_a_function(executor):
    root = "bit<9> root(in bit<9> x) { for (bit<9> i = 0; i < 20; i += 1) { if (i * i >= x) return i; } return 99; }"
    text = program("std.egress_spec = root(50) + root(500 - 11);")
    text = text.replace("control MyIngress", f"{root}\ncontrol MyIngress", 1)
    assert port_of(text, executor) == 8 + 99


@pytest.mark.parametrize(("stop", "wanted"), [(2, 2), (7, 50)])
def test_return_within_loops_of_an_apply_block(stop, wanted, executor):
    """It leaves all enclosing loops, and skips the tables after them."""
    loops = (
        "for (bit<9> i = 0; i < 5; i = i + 1) { for (bit<9> j = 0; j < 5; j = j + 1) "
        f"{{ if (i == {stop}) {{ std.egress_spec = i; return; }} }} }} std.egress_spec = 50;"
    )
    assert port_of(program(loops), executor) == wanted


def test_exit_within_a_loop(executor):
    statements = (
        "std.egress_spec = 4; for (bit<9> i = 0; i < 5; i = i + 1) { if (i == 3) { std.egress_spec = i; exit; } }"
    )
    assert port_of(program(f"{statements} std.egress_spec = 50;"), executor) == 3


def test_a_loop_calls_actions_and_functions(executor):
    locals_ = "bit<9> sum; action more(in bit<9> x) { sum = sum + x; }"
    statements = "sum = 0; for (bit<9> i = 1; i < 4; i = i + 1) { more(i + 1); } std.egress_spec = sum;"
    assert port_of(program(statements, locals_), executor) == 9


def test_a_header_that_is_declared_within_a_loop_begins_invalid_each_time(executor):
    body = (
        "for (bit<9> i = 0; i < 3; i = i + 1) { ipv4_t h; if (h.isValid()) { n = n + 10; } h.setValid(); n = n + 1; }"
    )
    assert port_of(program(f"bit<9> n = 0; {body} std.egress_spec = n;"), executor) == 3


def test_a_function_with_a_loop_in_a_parser(executor):
    function = (
        "bit<8> three(in bit<8> x) { bit<8> n = 0; for (bit<8> i = 0; i < 3; i = i + 1) { n = n + x; } return n; }"
    )
    text = program("std.egress_spec = (bit<9>) meta.hops;").replace(
        "parser MyParser", f"{function}\nparser MyParser", 1
    )
    text = text.replace("state start {", "state start { meta.hops = three(7);", 1)
    assert port_of(text, executor) == 21


def refused(text):
    found = compile_text(text, "student.p4")
    assert not found.ok
    (error,) = found.diagnostics.errors
    assert found.sources.place(error.position).file == "student.p4"
    return error, found.sources.line(error.position)


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ("for (bit<8> i = 0; i < 3; i = i + 1) { route.apply(); }", "the table 'MyIngress.route' is applied in a loop"),
        ("break;", "'break' stands outside of a loop"),
        ("if (meta.seen == 1) { continue; }", "'continue' stands outside of a loop"),
        ("for (bit<8> i = 0; meta.hops; i = i + 1) { }", "a condition is bool, but this is bit<8>"),
        ("for (bit<8> i in 0..3) { meta.hops = i; }", "'for … in' is not taken: the target has no such loops"),
        ("for (bit<8> i = 0; i < 3; i = i + 1) { } meta.hops = i;", "'i' is not declared"),
        ("for (bit<8> i = 0; i < 3; bit<8> j = 1) { }", "a loop declares its variables in its first part"),
    ],
)  # fmt: skip
def test_loops_that_are_refused(statements, message):
    text = program(statements)
    if "table" in message:
        text = text.replace("            route.apply();\n", "")
    error, line = refused(text)
    assert error.message == message
    assert error.hint
    assert statements in line


def test_a_loop_in_a_parser_s_state_is_refused():
    loop = "for (bit<8> i = 0; i < 3; i = i + 1) { meta.hops = i; }"
    error, line = refused(PROGRAM.replace("state start {", f"state start {{ {loop}", 1))
    assert error.message == "a loop cannot stand in a parser's state"
    assert loop in line
