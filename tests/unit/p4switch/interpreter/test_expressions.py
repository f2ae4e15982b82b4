"""Expressions, compared with results worked out by hand."""

import pytest

from p4switch.interpreter.evaluate import Phv, ValueScope, arith, cast, compare
from p4switch.program.expressions import (
    Arith,
    BoolConst,
    BoolSelect,
    Cast,
    Compare,
    Const,
    FieldRef,
    HeaderEqual,
    Invert,
    Logic,
    Lookahead,
    Not,
    Parameter,
    Select,
    ToBool,
    ToData,
    Valid,
)

UNSIGNED = FieldRef("h", "u", 8)
SIGNED = FieldRef("h", "s", 8, signed=True)


@pytest.fixture
def scope():
    values = {("h", "u"): 200, ("h", "s"): 200, ("g", "u"): 200, ("g", "s"): 200}
    return ValueScope(Phv(values, valid={"h"}), arguments=(7, 9))


@pytest.mark.parametrize(
    ("op", "left", "right", "result"),
    [
        ("+", 250, 10, 260),
        ("-", 3, 5, -2),
        ("*", -3, 5, -15),
        ("&", -1, 0xFF, 0xFF),
        ("|", 0xF0, 0x0F, 0xFF),
        ("^", 0xFF, 0x0F, 0xF0),
        ("<<", 1, 40, 1 << 40),
        (">>", 0x80, 3, 0x10),
        (">>", -8, 1, -4),
        (">>", -1, 200, -1),
        (">>", 5, 1 << 31, 0),
        ("/", 17, 5, 3),
        ("%", 17, 5, 2),
        ("/", 17, 0, 0),
        ("%", 17, 0, 0),
        ("/", -17, 5, 0),
    ],
)
def test_arithmetic_is_unbounded(op, left, right, result):
    assert arith(op, left, right) == result


def test_a_huge_shift_fills_no_memory():
    assert arith("<<", 1, (1 << 32) - 1) & ((1 << 2048) - 1) == 0
    assert arith("<<", 1, (1 << 32) - 1) != 0


@pytest.mark.parametrize(
    ("op", "value", "width", "result"),
    [
        ("two_comp_mod", 127, 8, 127),
        ("two_comp_mod", 128, 8, -128),
        ("two_comp_mod", 255, 8, -1),
        ("two_comp_mod", 256, 8, 0),
        ("two_comp_mod", -129, 8, 127),
        ("two_comp_mod", 1, 1, -1),
        ("usat_cast", 300, 8, 255),
        ("usat_cast", -1, 8, 0),
        ("usat_cast", 255, 8, 255),
        ("sat_cast", 128, 8, 127),
        ("sat_cast", -200, 8, -128),
        ("sat_cast", -5, 8, -5),
    ],
)
def test_casts(op, value, width, result):
    assert cast(op, value, width) == result


@pytest.mark.parametrize(
    ("op", "holds"),
    [
        ("==", (0, 1, 0)),
        ("!=", (1, 0, 1)),
        ("<", (1, 0, 0)),
        ("<=", (1, 1, 0)),
        (">", (0, 0, 1)),
        (">=", (0, 1, 1)),
    ],
)
def test_comparisons(op, holds):
    assert tuple(compare(op, left, 5) for left in (-4, 5, 6)) == tuple(map(bool, holds))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (Const(-3), -3),
        (UNSIGNED, 200),
        (SIGNED, -56),
        (Valid("h"), 1),
        (Valid("g"), 0),
        (Parameter(1, 8), 9),
        (Invert(Const(5)), -6),
        (Arith("&", Invert(UNSIGNED), Const(0xFF)), 55),
        (Cast("two_comp_mod", UNSIGNED, 8), -56),
        (ToData(BoolConst(True)), 1),
        (Select(ToBool(Const(2)), Const(10), Const(20)), 10),
        (Select(ToBool(Const(0)), Const(10), Const(20)), 20),
    ],
)
def test_data(scope, expression, value):
    assert scope.data(expression) == value


T, F = BoolConst(True), BoolConst(False)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (Compare("<", SIGNED, Const(0)), True),
        (Compare("<", UNSIGNED, Const(0)), False),
        (Logic("and", T, F), False),
        (Logic("or", F, T), True),
        (Logic("==", F, F), True),
        (Logic("!=", F, F), False),
        (Not(F), True),
        (ToBool(Const(-1)), True),
        (BoolSelect(F, F, T), True),
        (HeaderEqual("h", "h"), True),
        (HeaderEqual("h", "g"), False),
    ],
)
def test_bools(scope, expression, value):
    assert scope.truth(expression) is value


def test_headers_are_equal_when_valid_with_equal_fields(scope):
    scope.phv.valid.add("g")
    assert scope.truth(HeaderEqual("h", "g"))
    scope.phv.values["g", "u"] = 1
    assert not scope.truth(HeaderEqual("h", "g"))
    scope.phv.valid.clear()
    assert not scope.truth(HeaderEqual("h", "h"))


def test_a_field_keeps_its_width(scope):
    scope.phv.store(UNSIGNED, 511)
    scope.phv.store(SIGNED, -1)
    assert (scope.phv.load(UNSIGNED), scope.phv.load(SIGNED), scope.phv.bits(SIGNED)) == (255, -1, 255)


def test_lookahead_is_for_parsers(scope):
    with pytest.raises(AssertionError, match="outside the parser"):
        scope.data(Lookahead(0, 8))
