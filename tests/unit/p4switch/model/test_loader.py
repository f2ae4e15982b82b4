"""Loading BMv2 JSON: references are resolved, unsupported constructs are refused by name."""

import copy
import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from p4switch.program import Program, ProgramError, UnsupportedConstruct, load_program
from p4switch.program.actions import Assign, Conditional, Count, RegisterRead, RegisterWrite
from p4switch.program.expressions import Const, FieldRef, Select, ToBool, ToData, Valid
from p4switch.program.program import Transition
from tests.support.bmv2_json import Json, ProgramJson, assign, boolean, const, field, named, op, primitive

COMPILED = Path(str(files("p4reduce") / "p4src" / "compiled"))


def small() -> ProgramJson:
    program = ProgramJson()
    program.header("h", [("a", 12), ("b", 4), ("c", 32)])
    return program


def load(change: Callable[[Json], None] | None = None, program: ProgramJson | None = None) -> Program:
    built = copy.deepcopy((program or small()).build())
    if change is not None:
        change(built)
    return load_program(built)


@pytest.mark.parametrize("lanes", [64, 256])
def test_our_program_loads(lanes: int) -> None:
    program = load_program(COMPILED / f"p4reduce-{lanes}.json")
    assert program.name == f"p4reduce-{lanes}"
    assert [f.width for f in program.headers["lanes"].type.fields] == [2048] * (lanes // 64)
    assert program.headers["ipv4"].bytes == 20
    assert program.deparser[-1] == "lanes"
    peer = program.tables["IncIngress.aggregate.peer"]
    assert [key.width for key in peer.keys] == [9, 32, 16, 16]
    assert peer.direct_counter == "IncIngress.aggregate.peer_received"
    assert peer.splits_on_hit
    assert program.tables["IncIngress.forward.route"].kind == "lpm"
    assert program.tables["IncIngress.traffic_class"].kind == "ternary"
    assert program.registers["IncIngress.aggregate.slot.slots"].width == 128
    assert [c.verify for c in program.checksums] == [False, True]


def test_field_aliases_are_followed() -> None:
    program = load()
    assert program.intrinsic("mcast_grp") == FieldRef("standard_metadata", "mcast_grp", 16)
    assert program.intrinsic("no_such_field") is None


def test_errors_that_the_program_does_not_list_are_numbered_behind_it() -> None:
    program = load()
    assert program.error_code("PacketTooShort") == 1
    # The program lists up to 6; of the core errors it leaves out StackOutOfBounds, HeaderTooShort, ParserTimeout.
    assert [program.error_code(e) for e in ("StackOutOfBounds", "HeaderTooShort", "ParserTimeout")] == [7, 8, 9]


def test_select_values_are_split_into_their_fields() -> None:
    program = small()
    transition = {"type": "hexstr", "value": "0x0aba03", "mask": "0x0fff0f", "next_state": None}
    default = {"type": "default", "value": None, "mask": None, "next_state": None}
    keys = [field("h", "a"), field("h", "b")]
    program.states = [
        {
            "name": "start",
            "id": 0,
            "parser_ops": [{"op": "extract", "parameters": [{"type": "regular", "value": "h"}]}],
            "transition_key": keys,
            "transitions": [default, transition],
        }
    ]
    state = load(program=program).parser.states["start"]
    assert state.transitions == (Transition((0xABA, 3), (0xFFF, 0xF), None), Transition((), (), None))
    assert not state.transitions[0].is_default
    assert state.transitions[1].is_default


def test_primitives_become_model_objects() -> None:
    program = small()
    program.sections["register_arrays"] = [{"name": "r", "id": 0, "size": 4, "bitwidth": 32}]
    program.sections["counter_arrays"] = [{"name": "n", "id": 0, "size": 4, "is_direct": False}]
    program.call(
        [
            assign(field("h", "c"), op("?", const(1), boolean(True), op("d2b", None, field("h", "$valid$")))),
            primitive("register_read", field("h", "c"), named("register_array", "r"), const(2)),
            primitive("register_write", named("register_array", "r"), const(-0x10), field("h", "c")),
            primitive("count", named("counter_array", "n"), field("h", "b")),
        ]
    )
    c, b = FieldRef("h", "c", 32), FieldRef("h", "b", 4)
    assert load(program=program).actions[0].primitives == (
        # A bool beside a number becomes a number.
        Assign(c, Select(ToBool(Valid("h")), Const(1), ToData(_true()))),
        RegisterRead(c, "r", Const(2)),
        RegisterWrite("r", Const(-16), c),
        Count("n", b),
    )


def _true() -> Any:
    from p4switch.program.expressions import BoolConst

    return BoolConst(True)


def test_equal_expressions_are_one_object() -> None:
    program = small()
    program.call([assign(field("h", "c"), op("+", op("~", None, field("h", "a")), op("~", None, field("h", "a"))))])
    [assigned] = load(program=program).actions[0].primitives
    assert isinstance(assigned, Assign)
    assert assigned.value.left is assigned.value.right  # type: ignore[union-attr]


def test_conditionals_name_what_follows() -> None:
    program = small()
    program.call([])
    built = program.build()
    ingress = built["pipelines"][0]
    condition = op("==", field("h", "a"), const(3))
    ingress["conditionals"] = [
        {"name": "node_1", "id": 0, "expression": condition, "true_next": "tbl_call0", "false_next": None}
    ]
    ingress["init_table"] = "node_1"
    loaded = load_program(built)
    node = loaded.ingress.nodes["node_1"]
    assert isinstance(node, Conditional)
    assert (loaded.ingress.start, node.next_true, node.next_false) == ("node_1", "tbl_call0", None)


# --- refusals

SECTIONS = {
    "extern_instances": "extern instance",
}


@pytest.mark.parametrize("section", SECTIONS)
def test_unsupported_sections_are_refused_by_name(section: str) -> None:
    def change(root: Json) -> None:
        root[section] = [{"name": "x", "id": 0, "source_info": {"filename": "a.p4", "line": 7, "column": 1}}]

    with pytest.raises(UnsupportedConstruct, match=rf"{SECTIONS[section]} is not supported.*'x'.*a\.p4:7"):
        load(change)


PRIMITIVES = {
    "teleport": "teleport",
}


@pytest.mark.parametrize("name", PRIMITIVES)
def test_unsupported_primitives_are_refused_by_name(name: str) -> None:
    program = small()
    call = primitive(name, const(0)) | {"source_info": {"filename": "a.p4", "line": 9, "column": 1}}
    program.call([call])
    with pytest.raises(UnsupportedConstruct, match=PRIMITIVES[name]) as caught:
        load(program=program)
    assert caught.value.where == "action 'call0'"
    assert caught.value.source is not None
    assert caught.value.source.line == 9


def test_unsupported_operators_are_refused() -> None:
    program = small()
    program.call([assign(field("h", "c"), op("frobnicate", None, const(1)))])
    with pytest.raises(UnsupportedConstruct, match="is not supported"):
        load(program=program)


OPERATORS = ["last_stack_index", "size_stack", "valid_union", "dereference_header_stack", "access_field"]


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_on_headers_take_no_numbers(operator: str) -> None:
    program = small()
    program.call([assign(field("h", "c"), op(operator, const(1), const(1)))])
    with pytest.raises(ProgramError, match="something else where a"):
        load(program=program)


@pytest.mark.parametrize("kind", ["header_stack", "header_union", "header_union_stack"])
def test_unknown_stacks_and_unions_are_named(kind: str) -> None:
    program = small()
    program.call([primitive("push", {"type": kind, "value": "x"}, const(1))])
    with pytest.raises(ProgramError, match=f"unknown {kind} 'x'"):
        load(program=program)


@pytest.mark.parametrize("kind", ["register", "extern", "meter_array"])
def test_unsupported_values_are_refused(kind: str) -> None:
    program = small()
    program.call([assign(field("h", "c"), {"type": kind, "value": "x"})])
    with pytest.raises(UnsupportedConstruct, match="is not supported"):
        load(program=program)


@pytest.mark.parametrize(
    ("operation", "error", "message"),
    [
        ({"op": "extract", "parameters": [{"type": "stack", "value": "s"}]}, ProgramError, "unknown stack 's'"),
        (
            {"op": "extract_VL", "parameters": [{"type": "regular", "value": "h"}, const(8)]},
            ProgramError,
            "'extract_VL' is for headers with a variable-length field",
        ),
        ({"op": "shift", "parameters": [const(1)]}, UnsupportedConstruct, "shift"),
    ],
)
def test_parser_operations_that_cannot_run_are_refused(
    operation: Json, error: type[ProgramError], message: str
) -> None:
    def change(root: Json) -> None:
        root["parsers"][0]["parse_states"][0]["parser_ops"] = [operation]

    with pytest.raises(error, match=message):
        load(change)


def test_a_parser_loop_without_progress_is_watched() -> None:
    def change(root: Json) -> None:
        state = root["parsers"][0]["parse_states"][0]
        state["parser_ops"] = []
        state["transitions"][0]["next_state"] = "start"

    assert load().parser.watched == frozenset()
    assert load(change).parser.watched == {"start"}


def test_a_varbit_field_needs_the_length_of_its_header() -> None:
    def change(root: Json) -> None:
        root["header_types"][-1]["fields"] = [["a", 8, False], ["b", "*"]]

    with pytest.raises(ProgramError, match="max_length"):
        load(change)


def test_a_varbit_field_in_a_header_of_no_whole_bytes_is_refused() -> None:
    def change(root: Json) -> None:
        root["header_types"][-1] |= {"fields": [["a", 4, False], ["b", "*"], ["c", 8, False]], "max_length": 9}

    with pytest.raises(UnsupportedConstruct, match="variable-length field in a header of no whole bytes"):
        load(change)


def test_a_parser_loop_over_an_empty_varbit_header_is_watched() -> None:
    def change(root: Json) -> None:
        root["header_types"][-1] |= {"fields": [["a", "*"]], "max_length": 9}
        state = root["parsers"][0]["parse_states"][0]
        state["parser_ops"] = [{"op": "extract_VL", "parameters": [{"type": "regular", "value": "h"}, const(0)]}]
        state["transitions"][0]["next_state"] = "start"

    assert load(change).parser.watched == {"start"}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("type", "indirect", "action profile"),
        ("type", "psa", "table of type 'psa'"),
    ],
)
def test_unsupported_tables_are_refused(key: str, value: object, message: str) -> None:
    program = small()
    program.table("t", [("exact", field("h", "a"))], [program.action("a", [])], **{key: value})
    with pytest.raises(UnsupportedConstruct, match=message):
        load(program=program)


@pytest.mark.parametrize(
    ("section", "entry", "error", "message"),
    [
        ("meter_arrays", {"type": "packets", "rate_count": 3, "size": 1}, UnsupportedConstruct, "3 rates"),
        ("meter_arrays", {"type": "colors", "rate_count": 2, "size": 1}, ProgramError, "'colors'"),
        ("learn_lists", {"elements": [{"type": "header", "value": "h"}]}, UnsupportedConstruct, "'header'"),
        ("field_lists", {"elements": [{"type": "field", "value": ["h", "z"]}]}, ProgramError, "no field 'z'"),
    ],
)
def test_what_guides_packets_is_checked(section: str, entry: Json, error: type[ProgramError], message: str) -> None:
    program = small()
    program.sections[section] = [{"name": "x", "id": 0} | entry]
    with pytest.raises(error, match=message):
        load(program=program)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (primitive("resubmit", const(7)), "no field list with id 7"),
        (primitive("recirculate", field("h", "a")), "field list chosen at run time"),
        (primitive("generate_digest", const(1), const(7)), "no digest with id 7"),
        (primitive("execute_meter", named("meter_array", "m"), const(0), field("h", "a")), "'m' is not declared"),
    ],
)
def test_primitives_must_name_what_is_there(call: Json, message: str) -> None:
    program = small()
    program.call([call])
    with pytest.raises(ProgramError, match=message):
        load(program=program)


def test_an_unknown_hash_is_refused() -> None:
    program = small()
    program.sections["calculations"] = [{"name": "c", "id": 0, "algo": "xxh64", "input": []}]
    with pytest.raises(UnsupportedConstruct, match="xxh64"):
        load(program=program)


# --- malformed JSON


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("parsers",), [], "no parser"),
        (("deparsers",), [], "no deparser"),
        (("pipelines",), [], "no pipeline"),
        (("deparsers", 0, "order"), ["nobody"], "unknown header 'nobody'"),
        (("headers", 2, "header_type"), "nobody", "unknown header type"),
        (("pipelines", 0, "init_table"), "nobody", "unknown node 'nobody'"),
        (("parsers", 0, "init_state"), "nobody", "unknown state 'nobody'"),
        (("header_types", 2, "fields"), [["a", 3]], "whole number of bytes"),
        (("header_types", 2, "fields"), [["a", 0]], "width 0"),
        (("headers",), 5, "'headers' is int"),
    ],
)
def test_malformed_programs_say_where(path: tuple[str | int, ...], value: object, message: str) -> None:
    def change(root: Any) -> None:
        for step in path[:-1]:
            root = root[step]
        root[path[-1]] = value

    with pytest.raises(ProgramError, match=message):
        load(change)


@pytest.mark.parametrize("text", ["not json", "[]", '{"program": "x"}'])
def test_files_that_are_no_programs(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ProgramError):
        load_program(path)


def test_the_fingerprint_depends_on_the_contents_only(tmp_path: Path) -> None:
    built = small().build()
    path = tmp_path / "p.json"
    path.write_text(json.dumps(built, indent=4))
    assert load_program(path).fingerprint == load_program(built).fingerprint
    built["errors"].append(["Mine", 9])
    assert load_program(path).fingerprint != load_program(built).fingerprint
