"""Every compiled expression operator, compared with unbounded Python integers (BMv2's semantics)."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from p4switch.device import Device
from p4switch.program import load_program
from tests.support.bmv2_json import Json, ProgramJson, assign, boolean, const, field, op
from tests.support.effort import examples

WIDTHS = (1, 2, 7, 8, 9, 16, 31, 32, 33, 48, 63, 64, 65, 96, 128, 200, 255, 256, 260, 288, 512, 544, 2048)
LANES = 512
SIGN = int("80000000" * (LANES // 32), 16)
REST = int("7fffffff" * (LANES // 32), 16)


@pytest.fixture(autouse=True, scope="module")
def _no_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Use a separate directory for the machine code of these programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("P4REDUCE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def evaluate(expr: Json, values: dict[str, int]) -> Any:
    """Evaluate an expression in JSON with Python integers, as the reference."""
    kind, value = expr["type"], expr["value"]
    if kind == "field":
        return values[value[1]]
    if kind == "hexstr":
        return int(value, 16)
    if kind == "bool":
        return value
    right = evaluate(value["right"], values)
    left = None if value["left"] is None else evaluate(value["left"], values)
    match value["op"]:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left // right if left >= 0 and right > 0 else 0
        case "%":
            return left % right if left >= 0 and right > 0 else 0
        case "<<":
            return left << right
        case ">>":
            return left >> right
        case "&":
            return left & right
        case "|":
            return left | right
        case "^":
            return left ^ right
        case "~":
            return ~right
        case "==":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
        case "and":
            return left and right
        case "or":
            return left or right
        case "not":
            return not right
        case "d2b":
            return right != 0
        case "b2d":
            return int(right)
        case "?":
            return left if evaluate(value["cond"], values) else right
        case "two_comp_mod":
            return signed(left, right)
        case "usat_cast":
            return min(max(left, 0), (1 << right) - 1)
        case "sat_cast":
            return min(max(left, -(1 << (right - 1))), (1 << (right - 1)) - 1)
    raise AssertionError(value["op"])


def signed(number: int, width: int) -> int:
    number &= (1 << width) - 1
    return number - (1 << width) if number >> (width - 1) else number


FIELDS = {f"f{w}": (w, False) for w in WIDTHS} | {f"s{w}": (w, True) for w in (2, 8, 31, 64, 65, 512)}


def run(expressions: list[tuple[Json, int, bool]], inputs: list[dict[str, int]]) -> list[list[int]]:
    """Return the compiled expressions' values, each stored into a field (width, signed), for each set of inputs."""
    used = {name for expr, _, _ in expressions for name in names(expr)} or {"f8"}
    program = ProgramJson()
    total = sum(FIELDS[name][0] for name in used)
    program.header("in", [(n, *FIELDS[n]) for n in sorted(used)] + [("pad", 8 + -total % 8)])
    for i, (_, width, is_signed) in enumerate(expressions):
        program.header(f"out{i}", [("v", width, is_signed), ("pad", 8 + -width % 8)], parsed=False)
        target = field(f"out{i}", "v")
        program.call([{"op": "add_header", "parameters": [{"type": "header", "value": f"out{i}"}]}])
        program.call([assign(target, expressions[i][0])])
    program.call([assign(field("standard_metadata", "egress_spec"), const(1))])
    device = Device(load_program(program.build()))
    results = []
    for values in inputs:
        packed = 0
        for name in sorted(used):
            width = FIELDS[name][0]
            packed = packed << width | values[name] & ((1 << width) - 1)
        frame = (packed << (8 + -total % 8)).to_bytes(total // 8 + 1 + (1 if total % 8 else 0), "big")
        [(_, out)] = device.inject(3, frame)
        assert out.startswith(frame)
        rest, row = out[len(frame) :], []
        for _, width, _ in expressions:
            size = (width + 8 + -width % 8) // 8
            row.append(int.from_bytes(rest[:size], "big") >> (8 + -width % 8))
            rest = rest[size:]
        assert rest == b""
        results.append(row)
    return results


def names(expr: Json) -> set[str]:
    if expr["type"] == "field":
        return {expr["value"][1]}
    if expr["type"] != "expression":
        return set()
    parts = (expr["value"].get(k) for k in ("left", "right", "cond"))
    return set().union(*(names(p) for p in parts if p is not None))


def check(expressions: list[tuple[Json, int, bool]], inputs: list[dict[str, int]]) -> None:
    for values, row in zip(inputs, run(expressions, inputs), strict=True):
        for (expr, width, _), got in zip(expressions, row, strict=True):
            expected = int(evaluate(expr, values)) & ((1 << width) - 1)
            assert got == expected, (expr, {n: hex(values[n]) for n in names(expr)}, hex(got), hex(expected))


def numbers(width: int) -> st.SearchStrategy[int]:
    top = (1 << width) - 1
    patterns = [0, 1, top, 1 << (width - 1), top >> 1, SIGN & top, REST & top]
    return st.one_of(st.sampled_from(patterns), st.integers(0, top))


@st.composite
def input_sets(draw: st.DrawFn) -> dict[str, int]:
    values = {}
    for name, (width, is_signed) in FIELDS.items():
        value = draw(numbers(width))
        values[name] = signed(value, width) if is_signed else value
    return values


LEAF = st.one_of(
    st.sampled_from([field("in", name) for name in FIELDS]),
    st.sampled_from([0, 1, 5, 0xFF, 0xFFFFFFFF, SIGN, REST, (1 << LANES) - 1, (1 << 64) - 1, -1, -129]).map(const),
)
SHIFTS = st.one_of(st.sampled_from([0, 1, 7, 31, 32, 33, 64, 100, 511]).map(const), st.just(field("in", "f8")))
MASKS = st.sampled_from([8, 31, 32, 64, 65, 128, 256, 512, 2048]).map(lambda w: const((1 << w) - 1))
CASTS = st.sampled_from([1, 2, 8, 31, 32, 63, 64, 65, 128, 256, 512, 2048]).map(const)


def grow(data: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    def binary(operators: list[str], left: Any, right: Any) -> st.SearchStrategy[Json]:
        return st.builds(op, st.sampled_from(operators), left, right)

    compare = binary(["==", "!=", "<", "<=", ">", ">="], data, data)
    conditions = st.one_of(
        compare,
        binary(["and", "or", "==", "!="], compare, compare),
        st.builds(op, st.just("not"), st.none(), compare),
        st.builds(op, st.just("d2b"), st.none(), data),
        st.booleans().map(boolean),
    )
    narrow = st.builds(op, st.just("&"), data, st.just(const(0xFFFFFFFFFF)))
    return st.one_of(
        binary(["+", "-", "&", "|", "^"], data, data),
        binary(["*", "/", "%"], narrow, narrow),
        binary(["<<", ">>"], data, SHIFTS).flatmap(lambda e: MASKS.map(lambda m: op("&", e, m))),
        st.builds(op, st.just("~"), st.none(), data),
        st.builds(op, st.sampled_from(["two_comp_mod", "usat_cast", "sat_cast"]), data, CASTS),
        st.builds(op, st.just("b2d"), st.none(), conditions),
        st.builds(op, st.just("?"), data, data, conditions),
        st.builds(op, st.just("&"), data, MASKS),
    )


EXPRESSIONS = st.recursive(LEAF, grow, max_leaves=8)
TARGETS = st.tuples(st.sampled_from(WIDTHS[1:]), st.booleans())


@settings(max_examples=examples(12, 30), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(EXPRESSIONS, TARGETS), min_size=6, max_size=6),
    st.lists(input_sets(), min_size=4, max_size=4),
)
def test_expressions_agree_with_unbounded_integers(pairs: list[Any], inputs: list[dict[str, int]]) -> None:
    check([(expr, width, is_signed) for expr, (width, is_signed) in pairs], inputs)


def corners(width: int, is_signed: bool) -> list[int]:
    top = (1 << width) - 1
    raw = [0, 1, top, 1 << (width - 1), (top >> 1) & 0x5A5A5A5A5A, SIGN & top, REST & top]
    return [signed(v, width) for v in raw] if is_signed else raw


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^"])
@pytest.mark.parametrize(
    ("left", "right"), [("f8", "f8"), ("f64", "f64"), ("s8", "f7"), ("f33", "s31"), ("f512", "f8")]
)
def test_each_arithmetic_operator_at_corner_values(operator: str, left: str, right: str) -> None:
    if operator in ("<<", ">>"):
        amount = op("&", field("in", right), const(0x7F))
        expr = op(operator, field("in", left), amount)
    else:
        expr = op(operator, field("in", left), field("in", right))
    inputs = [
        {left: a, right: a if left == right else b} for a in corners(*FIELDS[left]) for b in corners(*FIELDS[right])
    ]
    check([(expr, 64, False), (expr, 2048, False), (expr, 9, True)], inputs)


@pytest.mark.parametrize("operator", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize(
    ("left", "right"), [("f8", "f9"), ("s8", "f64"), ("s64", "s65"), ("f512", "f544"), ("s512", "f512")]
)
def test_each_comparison_at_corner_values(operator: str, left: str, right: str) -> None:
    expr = op("b2d", None, op(operator, field("in", left), field("in", right)))
    inputs = [{left: a, right: b} for a in corners(*FIELDS[left]) for b in corners(*FIELDS[right])]
    check([(expr, 8, False)], inputs)


@pytest.mark.parametrize("by", [0, 1, 31, 32, 33, 95, 96, 500, 511, 512, 600])
def test_wide_shifts_by_constants(by: int) -> None:
    value = field("in", "f512")
    guarded = op("&", value, const(SIGN))
    expressions = [
        (op("&", op(operator, operand, const(by)), const((1 << width) - 1)), width, False)
        for operator in ("<<", ">>")
        for operand in (value, guarded, op("~", None, value))
        for width in (512, 544)
    ]
    pattern = int.from_bytes(bytes(range(1, 65)), "big")
    check(expressions, [{"f512": v} for v in (0, pattern, SIGN, (1 << 512) - 1)])


@pytest.mark.parametrize("name", ["f288", "f512", "f544"])
def test_narrow_parts_of_wide_fields(name: str) -> None:
    width, value = FIELDS[name][0], field("in", name)
    expressions = [
        (op("&", op(">>", value, const(by)), const((1 << part) - 1)), part, False)
        for part in (1, 9, 17, 31, 33, 48, 65, 96, 144, 257)
        for by in (0, 9, 32, 100)
    ]
    check(expressions, [{name: int.from_bytes(bytes(range(width // 8)), "big")}, {name: (1 << width) - 1}])


def test_wide_sums_whose_carries_cross_lanes() -> None:
    a, b = field("in", "f512"), field("in", "f544")
    expressions = [
        (op("+", a, b), 544, False),
        (op("&", op("+", a, a), const((1 << 512) - 1)), 512, False),
        (op("-", a, b), 512, False),
        (op("+", a, const(1)), 544, False),
        (op("-", op("&", a, const(SIGN)), op("&", b, const(REST))), 512, False),
    ]
    top = (1 << 512) - 1
    check(expressions, [{"f512": x, "f544": y} for x in (0, 1, top, SIGN, REST) for y in (0, 1, top, SIGN, REST)])


def test_a_masked_shift_by_a_large_variable_amount_gives_zero() -> None:
    expr = op("&", op("<<", field("in", "f64"), field("in", "f32")), const((1 << 64) - 1))
    [[zero], [one]] = run([(expr, 64, False)], [{"f64": 5, "f32": 1 << 31}, {"f64": 1, "f32": 0}])
    assert (zero, one) == (0, 1)
