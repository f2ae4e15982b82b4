"""Expressions: data are unbounded integers, as in BMv2, and are cut to a width only where they are stored.

``DataExpr`` yields an int, ``BoolExpr`` a bool. No expression has a side effect, so the order of evaluation
does not matter. Every node is hashable; equal nodes mean equal expressions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

ArithOp: TypeAlias = Literal["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^"]
CompareOp: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]
LogicOp: TypeAlias = Literal["and", "or", "==", "!="]
CastOp: TypeAlias = Literal["two_comp_mod", "usat_cast", "sat_cast"]


@dataclass(frozen=True, slots=True)
class Const:
    """An integer constant, possibly negative."""

    value: int


@dataclass(frozen=True, slots=True)
class FieldRef:
    """The value of a field; also names the target of an assignment.

    Storing ``v`` leaves ``v mod 2**width``, read back as two's complement where ``signed``.
    """

    header: str
    name: str
    width: int
    signed: bool = False

    def __str__(self) -> str:
        """``header.name``."""
        return f"{self.header}.{self.name}"


@dataclass(frozen=True, slots=True)
class Valid:
    """A header's validity as the number 0 or 1 (the field ``$valid$``)."""

    header: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the enclosing action, unsigned, given by the table entry."""

    index: int
    width: int


@dataclass(frozen=True, slots=True)
class Lookahead:
    """Bits of the packet that lie ahead of what was extracted (parser only); offset and width in bits."""

    offset: int
    width: int


@dataclass(frozen=True, slots=True)
class Arith:
    """``left op right`` on unbounded integers; ``>>`` is floor division by a power of two."""

    op: ArithOp
    left: "DataExpr"
    right: "DataExpr"


@dataclass(frozen=True, slots=True)
class Invert:
    """``~operand``, that is ``-operand - 1``."""

    operand: "DataExpr"


@dataclass(frozen=True, slots=True)
class Cast:
    """``two_comp_mod``: wrap to int<width>; ``usat_cast``, ``sat_cast``: saturate to bit<width>, int<width>."""

    op: CastOp
    operand: "DataExpr"
    width: int


@dataclass(frozen=True, slots=True)
class ToData:
    """0 or 1 from a bool (``b2d``)."""

    operand: "BoolExpr"


@dataclass(frozen=True, slots=True)
class Select:
    """``condition ? then : otherwise``, on data."""

    condition: "BoolExpr"
    then: "DataExpr"
    otherwise: "DataExpr"


@dataclass(frozen=True, slots=True)
class BoolConst:
    """true or false."""

    value: bool


@dataclass(frozen=True, slots=True)
class ToBool:
    """``operand != 0`` (``d2b``)."""

    operand: "DataExpr"


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of data."""

    op: CompareOp
    left: "DataExpr"
    right: "DataExpr"


@dataclass(frozen=True, slots=True)
class Logic:
    """``and``, ``or``, ``==``, ``!=`` of bools."""

    op: LogicOp
    left: "BoolExpr"
    right: "BoolExpr"


@dataclass(frozen=True, slots=True)
class Not:
    """Negation of a bool."""

    operand: "BoolExpr"


@dataclass(frozen=True, slots=True)
class BoolSelect:
    """``condition ? then : otherwise``, on bools."""

    condition: "BoolExpr"
    then: "BoolExpr"
    otherwise: "BoolExpr"


@dataclass(frozen=True, slots=True)
class HeaderEqual:
    """True when both headers are valid and all fields agree (two invalid headers differ, as in BMv2)."""

    left: str
    right: str


DataExpr: TypeAlias = Const | FieldRef | Valid | Parameter | Lookahead | Arith | Invert | Cast | ToData | Select
BoolExpr: TypeAlias = BoolConst | ToBool | Compare | Logic | Not | BoolSelect | HeaderEqual
Expr: TypeAlias = DataExpr | BoolExpr


def is_bool(expr: Expr) -> bool:
    """Whether an expression yields a bool rather than data."""
    return isinstance(expr, BoolConst | ToBool | Compare | Logic | Not | BoolSelect | HeaderEqual)


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct operands of an expression."""
    match expr:
        case Arith(left=a, right=b) | Compare(left=a, right=b):
            return (a, b)
        case Logic(left=p, right=q):
            return (p, q)
        case Invert(operand=x) | Cast(operand=x) | ToBool(operand=x):
            return (x,)
        case ToData(operand=p) | Not(operand=p):
            return (p,)
        case Select(condition=c, then=a, otherwise=b):
            return (c, a, b)
        case BoolSelect(condition=c, then=p, otherwise=q):
            return (c, p, q)
        case _:
            return ()


def walk(expr: Expr) -> Iterator[Expr]:
    """The distinct nodes of an expression, itself first."""
    seen = {expr}
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        for child in children(node):
            if child not in seen:
                seen.add(child)
                stack.append(child)
