"""Arguments are copied in and out only where somebody can tell (specification, section 6.7)."""

from tests.support.frontend.mistakes import PROGRAM

from p4reduce.frontend.compile import compile_text


def primitives(body):
    """Of an action that is given an element of a stack that only the packet names."""
    text = PROGRAM.replace("struct headers_t { ", "struct headers_t { ipv4_t[2] many; ")
    text = text.replace("action drop()", f"action look(inout bit<8> seen) {{ {body} }}\n    action drop()")
    text = text.replace("route.apply();", "look(hdr.many[hdr.ipv4.ttl].ttl); route.apply();")
    json = compile_text(text).require().json
    return str(next(a for a in json["actions"] if a["name"] == "MyIngress.look")["primitives"])


def test_what_an_action_names_is_copied_in_and_out():
    assert primitives("seen = seen + 1;").count("dereference_header_stack") == 2


def test_an_element_is_not_copied_for_an_action_that_never_names_it():
    """It may lie beyond its stack, which ends BMv2."""
    assert primitives("").count("dereference_header_stack") == 0


def test_what_is_hashed_is_copied_out_of_headers():
    """The target leaves fields of invalid headers out of a hash, and what comes behind them moves up."""
    call = "hash(previous, HashAlgorithm.crc32, 32w0, { hdr.ipv4.ttl, meta.hops, hdr.ethernet.src }, 32w99);"
    json = compile_text(PROGRAM.replace("route.apply();", f"{call} route.apply();")).require().json
    inputs = [item["value"] for item in json["calculations"][0]["input"]]
    assert [header for header, _ in inputs] == ["scalars"] * 3
    assert inputs[1] == ["scalars", "meta.hops"]
