"""Programs that p4c never writes (out of bounds, endless, oversized) are refused when loaded."""

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from p4switch import abi
from p4switch.device import Device
from p4switch.program import ProgramError, load_program
from p4switch.program.errors import MAX_DEPTH, MAX_STEPS
from tests.support.bmv2_json import ProgramJson, assign, const, field, op
from tests.support.executors.twins import ROOT

Json = dict[str, Any]
EXECUTORS = ("compiled", "interpreted")
FORWARD = assign(field("standard_metadata", "egress_spec"), const(2))


def p4c(name: str) -> Json:
    root: Json = json.loads((ROOT / "tests" / "data" / f"{name}.json").read_text(encoding="utf-8"))
    return root


def small() -> ProgramJson:
    program = ProgramJson()
    program.header("a", [("x", 32), ("y", 32)])
    return program


def set_first(root: Json, section: str, key: str, value: object) -> None:
    root[section][0][key] = value


def widen(root: Json, name: str, width: int) -> None:
    kinds = {h["name"]: h["header_type"] for h in root["headers"]}
    for kind in root["header_types"]:
        if kind["name"] == kinds["standard_metadata"]:
            for item in kind["fields"]:
                if item[0] == name:
                    item[1] = width


def meter(size: int) -> Json:
    return {"name": "m", "id": 0, "is_direct": False, "size": size, "rate_count": 2, "type": "packets"}


def first_state(root: Json) -> Json:
    state: Json = root["parsers"][0]["parse_states"][0]
    return state


REFUSED: dict[str, tuple[str, Callable[[Json], object], str]] = {
    "counter of -1 cells": ("entities", lambda r: set_first(r, "counter_arrays", "size", -1), "counter .* -1 cells"),
    "meter of -1 cells": ("ten_lines", lambda r: r.update(meter_arrays=[meter(-1)]), "meter .* -1 cells"),
    "meter of 2**40 cells": ("ten_lines", lambda r: r.update(meter_arrays=[meter(1 << 40)]), "meter .* cells"),
    "register of 2**32 cells": ("ten_lines", lambda r: set_first(r, "register_arrays", "size", 1 << 32), "register"),
    "register of 2**31 cells": ("ten_lines", lambda r: set_first(r, "register_arrays", "size", 1 << 31), "bytes of"),
    "register of 2**24 bits": ("ten_lines", lambda r: set_first(r, "register_arrays", "bitwidth", 1 << 24), "bits of"),
    "lookahead before the packet": (
        "ten_lines",
        lambda r: first_state(r).update(transition_key=[{"type": "lookahead", "value": [-8, 8]}]),
        "parser state .* lookahead of 8 bits at -8",
    ),
    "lookahead in text": (
        "ten_lines",
        lambda r: first_state(r).update(transition_key=[{"type": "lookahead", "value": ["0", 8]}]),
        "'0' is not a number",
    ),
    "64-bit egress_spec": ("ten_lines", lambda r: widen(r, "egress_spec", 64), "egress_spec .* 64 bits, not 1 to 9"),
    "64-bit mcast_grp": ("ten_lines", lambda r: widen(r, "mcast_grp", 64), "mcast_grp .* 64 bits, not 1 to 16"),
    "64-bit priority": ("ten_lines", lambda r: widen(r, "priority", 64), "priority .* 64 bits"),
    "field of 2**24 bits": ("ten_lines", lambda r: r["header_types"][-1]["fields"].append(["w", 1 << 24]), "bits of"),
    "parameter of -1 bits": (
        "control",
        lambda r: next(a for a in r["actions"] if a["runtime_data"])["runtime_data"][0].update(bitwidth=-1),
        "action .* -1 bits of parameter",
    ),
    "table without room": ("control", lambda r: r["pipelines"][0]["tables"][0].update(max_size=-5), "room for -5"),
    "one table in both pipelines": (
        "control",
        lambda r: r["pipelines"][1].update(
            tables=copy.deepcopy(r["pipelines"][0]["tables"]),
            conditionals=copy.deepcopy(r["pipelines"][0]["conditionals"]),
        ),
        "in both pipelines",
    ),
    "next table that is a list": (
        "control",
        lambda r: r["pipelines"][0]["tables"][0].update(base_default_next=["x"]),
        "base_default_next",
    ),
    "errors that are no pairs": ("ten_lines", lambda r: r.update(errors=[7]), "errors"),
}


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_refused_with_the_name_of_what_asks_for_it(case: str) -> None:
    name, change, message = REFUSED[case]
    root = p4c(name)
    change(root)
    with pytest.raises(ProgramError, match=message):
        load_program(root)


def test_hidden_fields_cannot_be_assigned_to() -> None:
    root = p4c("groups")
    types = {t["name"]: t for t in root["header_types"]}
    varbit = next((h["name"], f[0]) for h in root["headers"] for f in types[h["header_type"]]["fields"] if f[1] == "*")
    for target in ([varbit[0], "$length$"], list(varbit), ["$next$", root["header_stacks"][0]["name"]]):
        changed = copy.deepcopy(root)
        primitives = next(a for a in changed["actions"] if a["primitives"])["primitives"]
        source = {"type": "hexstr", "value": "0xffffffff"}
        primitives.append({"op": "assign", "parameters": [{"type": "field", "value": target}, source]})
        with pytest.raises(ProgramError, match=r"hidden|variable length"):
            load_program(changed)


def test_a_varbit_field_is_copied_only_to_one_that_holds_it() -> None:
    program = small()
    for name in ("short", "long"):
        program.header(name, [("n", 8)])
    root = program.build()
    for kind in root["header_types"]:
        if kind["name"] in ("short_t", "long_t"):
            kind["fields"] = [["n", 8], ["v", "*"]]
            kind["max_length"] = 3 if kind["name"] == "short_t" else 41
    operations = root["parsers"][0]["parse_states"][0]["parser_ops"]
    for operation in operations:
        if operation["parameters"][0]["value"] != "a":
            operation["op"] = "extract_VL"
            operation["parameters"].append({"type": "hexstr", "value": "0x8"})
    copies = {"op": "assign_VL", "parameters": [field("short", "v"), field("long", "v")]}
    action = {"name": "copy", "id": 50, "runtime_data": [], "primitives": [copies]}
    root["actions"].append(action)
    with pytest.raises(ProgramError, match="cannot hold long"):
        load_program(root)
    copies["parameters"].reverse()
    load_program(root)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("pipeline", ["ingress", "egress"])
def test_a_cycle_of_tables_ends_and_the_packet_is_dropped_and_counted(pipeline: str, executor: Any) -> None:
    program = small()
    program.call([FORWARD])
    program.call([assign(field("a", "x"), op("+", field("a", "x"), const(1)))], pipeline=pipeline)
    root = program.build()
    [stage] = [p for p in root["pipelines"] if p["name"] == pipeline]
    last = stage["tables"][-1]
    last["next_tables"] = dict.fromkeys(last["next_tables"], last["name"])
    last["base_default_next"] = last["name"]
    loaded = load_program(root)
    assert {p.name: set(p.watched) for p in (loaded.ingress, loaded.egress)}[pipeline] == {last["name"]}
    device = Device(loaded, executor=executor)
    assert [device.inject(1, bytes(8)) for _ in range(2)] == [[], []]
    assert device.state.endless_packets == 2
    device.reset()
    assert device.state.endless_packets == 0


def counting_loop(times: int) -> Json:
    """Return an action that adds 1 to x, ``times`` times, by a backward jump."""
    program = small()
    again = {"op": "_jump_if_zero", "parameters": [op("b2d", None, op("==", field("a", "x"), const(times))), const(1)]}
    program.call([FORWARD, assign(field("a", "x"), op("+", field("a", "x"), const(1))), again])
    return program.build()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_loops_of_actions_run_up_to_the_limit_and_not_beyond(executor: Any) -> None:
    for times in (1, 1000, MAX_STEPS + 1):
        device = Device(load_program(counting_loop(times)), executor=executor)
        assert device.inject(1, bytes(8)) == [(2, times.to_bytes(4, "big") + bytes(4))]
        assert device.state.endless_packets == 0
    device = Device(load_program(counting_loop(MAX_STEPS + 2)), executor=executor)
    assert device.inject(1, bytes(8)) == []
    assert device.state.endless_packets == 1


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_packet_without_an_end_leaves_no_clone_and_no_digest(executor: Any) -> None:
    root = p4c("paths")
    for stage in root["pipelines"]:
        for table in stage["tables"]:
            table["next_tables"] = dict.fromkeys(table["next_tables"], stage["init_table"])
            table["base_default_next"] = stage["init_table"]
    device = Device(load_program(root), executor=executor)
    io = np.full(abi.IO_CELLS, 3, dtype=np.int64)
    io[[abi.IN_INSTANCE, abi.IN_FIELD_LIST]] = 0
    device.runner.ingress(bytes(64), io)
    assert {cell: int(io[cell]) for cell in abi.INGRESS_DROPS} == dict(abi.INGRESS_DROPS)
    assert device.state.endless_packets == 1


def test_programs_without_cycles_count_nothing() -> None:
    from p4switch.compiler.pipelines import build_module

    for path in ("p4src/compiled/p4reduce-64.json", "tests/data/control.json"):
        text = str(build_module(load_program(ROOT / path)))
        assert "few_steps" not in text
        assert "endless" not in text
    assert "few_steps" in str(build_module(load_program(counting_loop(3))))


def nested(depth: int) -> Json:
    value = field("a", "x")
    for _ in range(depth - 1):
        value = op("+", value, const(1))
    program = small()
    program.call([assign(field("a", "y"), value), FORWARD])
    return program.build()


def test_expressions_up_to_the_limit_run_and_deeper_ones_are_refused() -> None:
    program = load_program(nested(MAX_DEPTH))
    for executor in EXECUTORS:
        sent = Device(program, executor=executor).inject(1, bytes(8))
        assert sent == [(2, bytes(4) + (MAX_DEPTH - 1).to_bytes(4, "big"))]
    for depth in (MAX_DEPTH + 1, 1000, 50_000):
        with pytest.raises(ProgramError, match=f"limit is {MAX_DEPTH}"):
            load_program(nested(depth))


def test_a_file_nested_beyond_what_json_reads_is_named(tmp_path: Any) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * 200_000)
    with pytest.raises(ProgramError, match=r"deep\.json"):
        load_program(path)
    path.write_text('{"a": ' + "9" * 10_000 + "}")
    with pytest.raises(ProgramError, match=r"deep\.json"):
        load_program(path)


def test_choices_inside_each_other_are_counted_as_often_as_they_are_written_out() -> None:
    root = p4c("groups")
    stack = max(root["header_stacks"], key=lambda s: len(s["header_ids"]))
    index: Json = {"type": "hexstr", "value": "0x0"}
    for _ in range(40):
        element = {"op": "dereference_header_stack", "left": {"type": "header_stack", "value": stack["name"]}}
        element["right"] = index
        index = {
            "type": "expression",
            "value": {"op": "access_field", "left": {"type": "expression", "value": element}, "right": 0},
        }
    action = next(a for a in root["actions"] if a["primitives"])
    action["primitives"].append(
        {
            "op": "log_msg",
            "parameters": [{"type": "string", "value": "{}"}, {"type": "parameters_vector", "value": [index]}],
        }
    )
    with pytest.raises(ProgramError, match=r"operands|limit is"):
        load_program(root)


@pytest.mark.parametrize("name", ['x"y', "x\ndefine void @f() { ret void }", "\\", "é", ""])
def test_names_are_never_code(name: str) -> None:
    program = small()
    program.call([FORWARD])
    root = program.build()
    root["program"] = name
    root["pipelines"][0]["tables"][0]["name"] = name
    root["pipelines"][0]["init_table"] = name
    assert Device(load_program(root)).inject(1, bytes(8)) == [(2, bytes(8))]


def test_shift_amounts_count_modulo_2_to_the_32() -> None:
    program = ProgramJson()
    program.header("a", [("x", 32), ("n", 64), ("y", 32), ("z", 32)])
    program.call(
        [
            assign(field("a", "y"), op("<<", field("a", "x"), field("a", "n"))),
            assign(field("a", "z"), op(">>", field("a", "x"), const((1 << 32) + 4))),
            FORWARD,
        ]
    )
    loaded = load_program(program.build())
    for amount in (0, 1, 31, 32, (1 << 32) - 1, 1 << 32, (1 << 32) + 3, (1 << 64) - 1):
        frame = (0x80000011).to_bytes(4, "big") + amount.to_bytes(8, "big") + bytes(8)
        one, other = (Device(loaded, executor=e).inject(1, frame) for e in EXECUTORS)
        assert one == other
        assert one[0][1][16:] == (0x8000001).to_bytes(4, "big")
        assert one[0][1][12:16] == ((0x80000011 << min(amount % (1 << 32), 64)) & 0xFFFFFFFF).to_bytes(4, "big")
