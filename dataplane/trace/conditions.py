"""Conditions of the program as text. p4c may turn an ``if`` round, so the source line alone would mislead."""

from __future__ import annotations

from collections.abc import Callable

from p4reduce.dataplane.model.expressions import (
    Arith,
    BoolConst,
    Cast,
    Compare,
    Const,
    Expr,
    FieldRef,
    Invert,
    Logic,
    Not,
    Parameter,
    ToBool,
    ToData,
    Valid,
)

_WORDS = {"and": "&&", "or": "||"}


def condition_text(expr: Expr, name: Callable[[str], str]) -> str | None:
    """An expression in P4's notation; None where it holds something that has none here.

    Args:
        expr: the condition.
        name: the readable name of a field.
    """
    try:
        return _text(expr, name, outer=True)
    except LookupError:
        return None


def _text(expr: Expr, name: Callable[[str], str], outer: bool = False) -> str:
    match expr:
        case Compare(op, left, right) | Arith(op, left, right):
            inner = f"{_text(left, name)} {op} {_text(right, name)}"
        case Logic(op, left, right):
            inner = f"{_text(left, name)} {_WORDS.get(op, op)} {_text(right, name)}"
        case Const(value):
            return str(value) if abs(value) < 10_000 else hex(value)
        case BoolConst(value):
            return str(value).lower()
        case FieldRef():
            return name(str(expr))
        case Valid(header):
            return f"{header}.isValid()"
        case Parameter(index):
            return f"parameter {index}"
        case Not(operand):
            return f"!{_text(operand, name)}"
        case Invert(operand):
            return f"~{_text(operand, name)}"
        case ToBool(operand) | ToData(operand) | Cast(operand=operand):
            return _text(operand, name, outer)
        case _:
            raise LookupError(type(expr).__name__)
    return inner if outer else f"({inner})"
