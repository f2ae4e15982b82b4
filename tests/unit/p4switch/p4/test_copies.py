"""Arguments are copied in and out only if the difference is observable (specification, section 6.7)."""

import pytest

from p4switch.p4.compile import compile_text
from p4switch.program import load_program
from tests.support.conformance.targets.embedded import EmbeddedSwitch
from tests.support.frontend.mistakes import PROGRAM


def primitives(body):
    """Return the primitives of an action whose argument is a stack element with a run-time index."""
    text = PROGRAM.replace("struct headers_t { ", "struct headers_t { ipv4_t[2] many; ")
    text = text.replace("action drop()", f"action look(inout bit<8> seen) {{ {body} }}\n    action drop()")
    text = text.replace("route.apply();", "look(hdr.many[hdr.ipv4.ttl].ttl); route.apply();")
    json = compile_text(text).require().json
    return str(next(a for a in json["actions"] if a["name"] == "MyIngress.look")["primitives"])


def test_what_an_action_names_is_copied_in_and_out():
    assert primitives("seen = seen + 1;").count("dereference_header_stack") == 2


def test_an_element_is_not_copied_for_an_action_that_never_names_it():
    """The element may lie outside of its stack, which crashes BMv2."""
    assert primitives("").count("dereference_header_stack") == 0


def test_what_is_hashed_is_copied_out_of_headers():
    """The target omits fields of invalid headers from a hash, and shifts the following ones."""
    call = "hash(previous, HashAlgorithm.crc32, 32w0, { hdr.ipv4.ttl, meta.hops, hdr.ethernet.src }, 32w99);"
    json = compile_text(PROGRAM.replace("route.apply();", f"{call} route.apply();")).require().json
    inputs = [item["value"] for item in json["calculations"][0]["input"]]
    assert [header for header, _ in inputs] == ["scalars"] * 3
    assert inputs[1] == ["scalars", "meta.hops"]


def leaves_by(statements):
    """Return a frame's egress ports after these ingress statements, with an action that drops its argument."""
    text = PROGRAM.replace(
        "control MyIngress", "action away(inout standard_metadata_t s) { mark_to_drop(s); }\ncontrol MyIngress"
    )
    table = "table gone { actions = { away(std); } const default_action = away(std); }"
    text = text.replace("table route", f"{table}\n    table route").replace("bit<32> previous;", statements)
    switch = EmbeddedSwitch(load_program(compile_text(text).require().json), "interpreted")
    switch.send(1, bytes(60))
    return [port for port, _ in switch.drain()]


def test_a_copy_of_the_standard_metadata_is_dropped_by_its_own_fields():
    """The copy's fields overwrote those of the target, so nothing was dropped."""
    rest = "bit<32> previous;"
    assert leaves_by(f"std.egress_spec = 3; {rest}") == [3]
    assert leaves_by(f"std.egress_spec = 3; gone.apply(); {rest}") == []
    assert leaves_by(f"std.egress_spec = 3; away(std); {rest}") == []
    assert leaves_by(f"std.egress_spec = 3; standard_metadata_t mine = std; mark_to_drop(mine); {rest}") == [3]


@pytest.mark.parametrize("assignment", ["ttl += 1", "ttl[3:0] += 1", "ttl |= 1"])
@pytest.mark.parametrize("before", [0, 1])
def test_the_left_side_of_a_compound_assignment_is_evaluated_once(assignment, before):
    """Its index may have side effects: the element read is the one written."""
    text = PROGRAM.replace("struct headers_t { ", "struct headers_t { ipv4_t[3] many; ")
    counter = "bit<8> taken(inout bit<8> x) { bit<8> was = x; x = x + 1; return was; }\n"
    statements = "".join(f"hdr.many[{n}].setValid(); hdr.many[{n}].ttl = {2 * n + 4}; " for n in range(3))
    statements += f"bit<8> at = {before}; hdr.many[taken(at)].{assignment}; "
    statements += f"std.egress_spec = (bit<9>) hdr.many[{before}].ttl * 4 + (bit<9>) at; bit<32> previous;"
    text = text.replace("control MyIngress", f"{counter}control MyIngress", 1).replace("bit<32> previous;", statements)
    switch = EmbeddedSwitch(load_program(compile_text(text).require().json), "interpreted")
    switch.send(1, bytes(60))
    ((port, _),) = switch.drain()
    assert port == (2 * before + 5) * 4 + before + 1
