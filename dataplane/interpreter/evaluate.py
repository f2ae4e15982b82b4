"""Values of expressions. Data are unbounded integers, as in BMv2."""

from collections.abc import Callable
from dataclasses import dataclass

from p4reduce.dataplane.interpreter.phv import Phv
from p4reduce.dataplane.model.expressions import (
    Arith,
    BoolConst,
    BoolExpr,
    BoolSelect,
    Cast,
    Compare,
    Const,
    DataExpr,
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
from p4reduce.dataplane.model.headers import LENGTH_FIELD
from p4reduce.dataplane.model.limits import MAX_SHIFT, SHIFT_MASK


def _no_packet(ahead: Lookahead) -> int:
    raise AssertionError(f"lookahead outside the parser: {ahead}")


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression may refer to.

    Attributes:
        arguments: of the action, by index.
        look: bits ahead in the packet (parser only).
    """

    phv: Phv
    arguments: tuple[int, ...] = ()
    look: Callable[[Lookahead], int] = _no_packet

    def data(self, expr: DataExpr) -> int:
        """The value of a data expression."""
        match expr:
            case FieldRef():
                return self.phv.load(expr)
            case Const(value):
                return value
            case Arith(op, left, right):
                return arith(op, self.data(left), self.data(right))
            case Select(condition, then, otherwise):
                return self.data(then if self.truth(condition) else otherwise)
            case ToData(operand):
                return int(self.truth(operand))
            case Parameter(index):
                return self.arguments[index]
            case Invert(operand):
                return ~self.data(operand)
            case Cast(op, operand, width):
                return cast(op, self.data(operand), width)
            case Valid(header):
                return int(header in self.phv.valid)
            case Lookahead():
                return self.look(expr)

    def truth(self, expr: BoolExpr) -> bool:
        """The value of a bool expression."""
        match expr:
            case Compare(op, left, right):
                return compare(op, self.data(left), self.data(right))
            case Logic("and", left, right):
                return self.truth(left) and self.truth(right)
            case Logic("or", left, right):
                return self.truth(left) or self.truth(right)
            case Logic("==", left, right):
                return self.truth(left) == self.truth(right)
            case Logic(_, left, right):
                return self.truth(left) != self.truth(right)
            case Not(operand):
                return not self.truth(operand)
            case ToBool(operand):
                return self.data(operand) != 0
            case BoolConst(value):
                return value
            case BoolSelect(condition, then, otherwise):
                return self.truth(then if self.truth(condition) else otherwise)
            case HeaderEqual(left_header, right_header):
                return self._headers_equal(left_header, right_header)

    def _headers_equal(self, left: str, right: str) -> bool:
        if left not in self.phv.valid or right not in self.phv.valid:
            return False
        # A varbit field is compared as a number, whatever its length, as in BMv2.
        ours = {name: v for (header, name), v in self.phv.values.items() if header == left and name != LENGTH_FIELD}
        return all(self.phv.values[right, name] == value for name, value in ours.items())


def arith(op: str, left: int, right: int) -> int:
    """``left op right``. Where BMv2 aborts (a divisor below 1, a negative dividend), division gives 0."""
    match op:
        case "&":
            return left & right
        case "|":
            return left | right
        case "^":
            return left ^ right
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "<<":
            return left << min(right & SHIFT_MASK, MAX_SHIFT)
        case ">>":
            return left >> min(right & SHIFT_MASK, MAX_SHIFT)
        case "/":
            return left // right if left >= 0 and right > 0 else 0
        case "%":
            return left % right if left >= 0 and right > 0 else 0
        case _:
            raise AssertionError(f"unknown operator {op!r}")


def compare(op: str, left: int, right: int) -> bool:
    """``left op right``."""
    match op:
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
        case _:
            raise AssertionError(f"unknown comparison {op!r}")


def cast(op: str, value: int, width: int) -> int:
    """Wraps (two_comp_mod) or saturates a number."""
    half = 1 << (width - 1)
    match op:
        case "two_comp_mod":
            return ((value + half) & ((1 << width) - 1)) - half
        case "usat_cast":
            return min(max(value, 0), (1 << width) - 1)
        case "sat_cast":
            return min(max(value, -half), half - 1)
        case _:
            raise AssertionError(f"unknown cast {op!r}")
