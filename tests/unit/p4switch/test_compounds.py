"""Constructs that BMv2 accepts and p4c rarely writes: whole stacks, run-time indices, loops; on both executors."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from p4switch import abi
from p4switch.device import Device
from p4switch.interpreter import Event, Interpreter
from p4switch.interpreter.trace import PrimitiveRun
from p4switch.program import ProgramError, UnsupportedConstruct, load_program
from p4switch.traffic import ExecutorName
from tests.support.bmv2_json import Json, ProgramJson, assign, boolean, const, field, named, op, primitive

FORWARD = assign(field("standard_metadata", "egress_spec"), const(1))
ITEM = (("kind", 8), ("value", 8))

Run = Callable[[list[Json], str], str]


def groups() -> ProgramJson:
    """``o`` for results, two stacks of two, two stacks of two unions of ``a`` and ``b``; only o is parsed."""
    program = ProgramJson()
    program.header("o", (("at", 8), ("out", 64)))
    names = [f"{stack}[{i}]" for stack in ("s", "t") for i in range(2)]
    members = [f"{stack}[{i}].{member}" for stack in ("u", "v") for i in range(2) for member in ("a", "b")]
    for name in names + members:
        program.header(name, ITEM, parsed=False)
    root = program.build()
    ids = {header["name"]: header["id"] for header in root["headers"]}
    for header in root["headers"]:
        if header["name"] in names + members:
            header["header_type"] = "s[0]_t"
    unions = [f"{stack}[{i}]" for stack in ("u", "v") for i in range(2)]
    program.sections |= {
        "header_stacks": [
            {"name": s, "id": i, "header_type": "s[0]_t", "size": 2, "header_ids": [ids[f"{s}[0]"], ids[f"{s}[1]"]]}
            for i, s in enumerate(("s", "t"))
        ],
        "header_union_types": [{"name": "x_t", "id": 0, "headers": [["a", "s[0]_t"], ["b", "s[0]_t"]]}],
        "header_unions": [
            {"name": name, "id": i, "union_type": "x_t", "header_ids": [ids[f"{name}.a"], ids[f"{name}.b"]]}
            for i, name in enumerate(unions)
        ],
        "header_union_stacks": [
            {"name": "u", "id": 0, "union_type": "x_t", "size": 2, "header_union_ids": [0, 1]},
            {"name": "v", "id": 1, "union_type": "x_t", "size": 2, "header_union_ids": [2, 3]},
        ],
    }
    return program


@pytest.fixture(params=["compiled", "interpreted"])
def run(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run primitives on a frame; return the frame that leaves, in hex."""
    monkeypatch.setenv("P4REDUCE_CACHE", str(tmp_path))

    def through(primitives: list[Json], frame: str) -> str:
        program = groups()
        program.call([FORWARD, *primitives])
        device = Device(load_program(program.build()), executor=request.param)
        [(_, out)] = device.inject(0, bytes.fromhex(frame))
        return out.hex(" ")

    return through


def stack(name: str) -> Json:
    return named("header_stack", name)


def header(name: str) -> Json:
    return named("header", name)


def filled(name: str, value: int) -> list[Json]:
    return [primitive("add_header", header(name)), assign(field(name, "value"), const(value))]


def out(value: Json) -> Json:
    return assign(field("o", "out"), value)


OUT = "00 00 00 00 00 00 00 "
"""The leading bytes of o.out if it holds one byte."""


def test_whole_stacks_are_assigned(run: Run) -> None:
    steps = [*filled("s[1]", 7), *filled("t[0]", 8), primitive("assign_header_stack", stack("t"), stack("s"))]
    assert run(steps, "00" * 9) == f"00 {OUT}00 00 07 00 07"


def test_next_goes_with_a_stack(run: Run) -> None:
    steps = [primitive("push", stack("s"), const(1)), primitive("assign_header_stack", stack("t"), stack("s"))]
    assert run([*steps, out(op("size_stack", None, stack("t")))], "00" * 9) == f"00 {OUT}01"


@pytest.mark.parametrize(("count", "next_index"), [(0, 0), (1, 1), (2, 2), (3, 2)])
def test_next_stops_at_the_ends(run: Run, count: int, next_index: int) -> None:
    size = out(op("size_stack", None, stack("s")))
    push = primitive("push", stack("s"), const(count))
    assert run([push, size], "00" * 9) == f"00 {OUT}{next_index:02x}"
    full = [primitive("push", stack("s"), const(2)), primitive("pop", stack("s"), const(count)), size]
    assert run(full, "00" * 9) == f"00 {OUT}{2 - next_index:02x}"


def test_the_last_index_of_an_empty_stack_is_that_of_a_size_t(run: Run) -> None:
    assert run([out(op("last_stack_index", None, stack("s")))], "00" * 9) == "00" + " ff" * 8


def test_shifts_by_more_than_the_size_empty_the_stack(run: Run) -> None:
    for name in ("push", "pop"):
        steps = [*filled("s[0]", 1), *filled("s[1]", 2), primitive(name, stack("s"), const(9))]
        assert run(steps, "00" * 9) == f"00 {OUT}00"


def test_fields_that_were_shifted_out_stay_readable(run: Run) -> None:
    """The elements swap places; an invalidated element keeps its new fields."""
    steps = [*filled("s[0]", 1), *filled("s[1]", 2), primitive("pop", stack("s"), const(1))]
    assert run([*steps, out(field("s[1]", "value"))], "00" * 9) == f"00 {OUT}01 00 02"


def at(name: str, index: Json, number: int) -> Json:
    return op("access_field", op("dereference_header_stack", stack(name), index), number)  # type: ignore[arg-type]


@pytest.mark.parametrize(("index", "value"), [("00", "01"), ("01", "02"), ("02", "00"), ("ff", "00")])
def test_an_element_chosen_at_run_time_is_read(run: Run, index: str, value: str) -> None:
    """Past the end BMv2 crashes; here the value is 0."""
    steps = [*filled("s[0]", 1), *filled("s[1]", 2), out(at("s", field("o", "at"), 1))]
    assert run(steps, index + "00" * 8) == f"{index} {OUT}{value} 00 01 00 02"


def test_an_element_chosen_at_run_time_is_made_valid_and_copied(run: Run) -> None:
    chosen = op("dereference_header_stack", stack("s"), field("o", "at"))
    steps = [*filled("t[0]", 5), primitive("add_header", chosen), primitive("assign_header", header("t[1]"), chosen)]
    assert run(steps, "01" + "00" * 8) == f"01 {OUT}00 00 00 00 05 00 00"
    steps = [*filled("t[0]", 5), primitive("assign_header", chosen, header("t[0]"))]
    assert run(steps, "00" + "00" * 8) == f"00 {OUT}00 00 05 00 05"
    steps = [*filled("s[0]", 1), *filled("s[1]", 2), primitive("remove_header", chosen)]
    assert run(steps, "01" + "00" * 8) == f"01 {OUT}00 00 01"


def test_validity_of_an_element_chosen_at_run_time(run: Run) -> None:
    chosen = op("dereference_header_stack", stack("s"), field("o", "at"))
    steps = [*filled("s[1]", 2), out(op("b2d", None, op("valid", None, chosen)))]
    assert run(steps, "01" + "00" * 8) == f"01 {OUT}01 00 02"
    assert run(steps, "00" + "00" * 8) == f"00 {OUT}00 00 02"


@pytest.mark.parametrize(("condition", "value"), [(True, "01"), (False, "02")])
def test_a_choice_between_headers(run: Run, condition: bool, value: str) -> None:
    steps = [*filled("s[0]", 1), *filled("s[1]", 2)]
    chosen = op("?", header("s[0]"), header("s[1]"), boolean(condition))
    assert run([*steps, primitive("assign_header", header("t[0]"), chosen)], "00" * 9) == (
        f"00 {OUT}00 00 01 00 02 00 {value}"
    )


def union(name: str) -> Json:
    return named("header_union", name)


def test_a_union_is_assigned_and_has_one_valid_member(run: Run) -> None:
    steps = [*filled("u[0].a", 1), *filled("u[0].b", 2), primitive("assign_union", union("v[1]"), union("u[0]"))]
    valid = out(op("b2d", None, op("valid_union", None, union("v[1]"))))
    assert run([*steps, valid], "00" * 9) == f"00 {OUT}01 00 02 00 02"
    assert run([valid], "00" * 9) == f"00 {OUT}00"


def test_stacks_of_unions_are_assigned(run: Run) -> None:
    stacks = named("header_union_stack", "v"), named("header_union_stack", "u")
    steps = [*filled("u[1].b", 3), *filled("v[0].a", 9), primitive("assign_union_stack", *stacks)]
    assert run(steps, "00" * 9) == f"00 {OUT}00 00 03 00 03"


def test_a_member_of_a_union_chosen_at_run_time(run: Run) -> None:
    """BMv2's loader takes access_union_header for access_field and crashes at the first packet."""
    chosen = op("dereference_union_stack", named("header_union_stack", "u"), field("o", "at"))
    member = op("access_union_header", chosen, 1)  # type: ignore[arg-type]
    steps = [*filled("u[1].b", 3), out(op("access_field", member, 1))]  # type: ignore[arg-type]
    assert run(steps, "01" + "00" * 8) == f"01 {OUT}03 00 03"
    same = op("==", chosen, union("u[1]"))
    assert run([*filled("u[1].b", 3), out(op("b2d", None, same))], "01" + "00" * 8) == f"01 {OUT}01 00 03"
    assert run([*filled("u[1].b", 3), out(op("b2d", None, same))], "00" + "00" * 8) == f"00 {OUT}00 00 03"


@pytest.mark.parametrize("rounds", [0, 1, 5, 255])
def test_a_loop_of_backward_jumps(run: Run, rounds: int) -> None:
    """while (o.at != 0) { o.out = o.out + 3; o.at = o.at - 1; }"""
    loop = [
        primitive("_jump_if_zero", field("o", "at"), const(5)),
        out(op("+", field("o", "out"), const(3))),
        assign(field("o", "at"), op("-", field("o", "at"), const(1))),
        primitive("_jump", const(1)),
    ]
    assert run(loop, f"{rounds:02x}" + "00" * 8) == "00 " + (3 * rounds).to_bytes(8, "big").hex(" ")


@pytest.mark.parametrize(("operator", "value"), [("/", "0c"), ("%", "03")])
def test_division(run: Run, operator: str, value: str) -> None:
    assert run([out(op(operator, field("o", "at"), const(5)))], "3f" + "00" * 8) == f"3f {OUT}{value}"


def random_program(low: int, high: int) -> ProgramJson:
    program = groups()
    program.call([FORWARD, primitive("modify_field_rng_uniform", field("o", "out"), const(low), const(high))])
    return program


@pytest.mark.parametrize(("low", "high"), [(3, 3), (3, 6), (0, 2**64 - 1), (2**64 - 4, 2**64 - 1)])
def test_random_numbers_are_in_range_and_alike_on_both_executors(
    low: int, high: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("P4REDUCE_CACHE", str(tmp_path))
    program = load_program(random_program(low, high).build())
    interpreted, compiled = Device(program, executor="interpreted"), Device(program, executor="compiled")
    drawn = [[d.inject(0, bytes(9))[0][1] for _ in range(64)] for d in (interpreted, compiled)]
    assert drawn[0] == drawn[1]
    assert interpreted.state.random_state == compiled.state.random_state
    numbers = {int.from_bytes(frame[1:], "big") for frame in drawn[0]}
    assert all(low <= number <= high for number in numbers)
    assert len(numbers) == min(high - low + 1, 64)


def test_the_first_random_numbers_are_those_of_splitmix64(run: Run) -> None:
    """The published sequence for seed 0 begins with 0xe220a8397b1dcdaf."""
    draw = primitive("modify_field_rng_uniform", field("o", "out"), const(0), const(2**64 - 1))
    assert run([draw], "00" * 9) == "00 e2 20 a8 39 7b 1d cd af"


def test_random_between_limits_in_the_wrong_order_writes_nothing(run: Run) -> None:
    draw = primitive("modify_field_rng_uniform", field("o", "out"), const(5), const(4))
    assert run([draw], "00" + "11" * 8) == "00" + " 11" * 8


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("a={} b={}", "a=1 b=2"),
        ("{}{}", "12"),
        (r"\{{}\} {}", "{1} 2"),
        ("none", "none"),
        ("one {}, two {}, three {}", "one 1, two 2, three {}"),
        ("hex {:x} and {}", "hex 1 and 2"),
    ],
)
def test_log_messages(template: str, text: str) -> None:
    program = groups()
    values = {"type": "parameters_vector", "value": [const(1), const(2)]}
    program.call([FORWARD, primitive("log_msg", named("string", template), values)])
    loaded = load_program(program.build())
    device, events = Device(loaded, executor="interpreted"), list[Event]()
    Interpreter(loaded, device.state, events.append).ingress(bytes(9), np.zeros(abi.IO_CELLS, dtype=np.int64))
    assert [e.text for e in events if isinstance(e, PrimitiveRun) and e.text] == [text]


@pytest.mark.parametrize("executor", ["compiled", "interpreted"])
@pytest.mark.parametrize(
    ("frame", "out"),
    [
        pytest.param("02 aa ff", "00 02", id="jumps by what it reads"),
        pytest.param("01 01 01 04 aa aa aa ff", "00 07", id="several jumps"),
        pytest.param("01 04 ff", "01 01", id="past the end"),
        pytest.param("01 00 ff", "05 01", id="stands still"),
    ],
)
def test_a_parser_loop_that_may_stand_still(
    executor: ExecutorName, frame: str, out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop reads a byte and advances by that many, until ff. BMv2 hangs if the byte is 0."""
    monkeypatch.setenv("P4REDUCE_CACHE", str(tmp_path))
    program = ProgramJson()
    program.struct("m", (("at", 8), ("taken", 8)))
    program.header("o", (("error", 8), ("taken", 8)), parsed=False)
    look = {"op": "set", "parameters": [field("m", "at"), {"type": "lookahead", "value": [0, 8]}]}
    bits = {"type": "expression", "value": op("<<", field("m", "at"), const(3))}
    count = {"op": "set", "parameters": [field("m", "taken"), op("+", field("m", "taken"), field("m", "at"))]}
    stop = {"type": "hexstr", "value": "0xff", "mask": None, "next_state": None}
    go_on = {"type": "default", "value": None, "mask": None, "next_state": "skip"}
    again = {"type": "default", "value": None, "mask": None, "next_state": "start"}
    key = [field("m", "at")]
    skip = [{"op": "advance", "parameters": [bits]}, count]
    program.states = [
        {"name": "start", "id": 0, "parser_ops": [look], "transition_key": key, "transitions": [stop, go_on]},
        {"name": "skip", "id": 1, "parser_ops": skip, "transition_key": [], "transitions": [again]},
    ]
    seen = assign(field("o", "error"), field("standard_metadata", "parser_error"))
    taken = assign(field("o", "taken"), field("m", "taken"))
    program.call([FORWARD, primitive("add_header", header("o")), seen, taken])
    root = program.build() | {"errors": [["NoError", 0], ["PacketTooShort", 1], ["ParserTimeout", 5]]}
    loaded = load_program(root)
    assert loaded.parser.watched == {"start", "skip"}
    [(_, sent)] = Device(loaded, executor=executor).inject(0, bytes.fromhex(frame))
    assert sent[:2].hex(" ") == out


def test_a_shift_by_a_field_is_refused() -> None:
    program = groups()
    program.call([primitive("push", stack("s"), field("o", "at"))])
    with pytest.raises(UnsupportedConstruct, match="shift of a stack by a number that is no constant"):
        load_program(program.build())


def test_a_stack_that_names_an_unknown_header_is_an_error() -> None:
    program = groups()
    program.sections["header_stacks"][0]["header_ids"] = [99]
    with pytest.raises(ProgramError, match="header stack 's': header_ids names 99"):
        load_program(program.build())
