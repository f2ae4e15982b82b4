"""Wide values as vectors of 32-bit lanes, the most significant lane first, as they travel in packets.

An operation is lane-wise when nothing it does crosses from one lane into the next; Analysis proves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from p4reduce.dataplane.compiler.known import Bits, adds_in_lanes, subtracts_in_lanes
from p4reduce.dataplane.compiler.llvm_types import I32, Value, intrinsic, lane_constant, pick_lanes
from p4reduce.dataplane.compiler.storage import is_lanes
from p4reduce.dataplane.model.expressions import Arith, Cast, Compare, Const, DataExpr, FieldRef, Invert, Select
from p4reduce.dataplane.state.layout import LANE_BITS

if TYPE_CHECKING:
    from p4reduce.dataplane.compiler.data import DataLowering


class LaneOps:
    """Vector code for wide expressions."""

    def __init__(self, data: DataLowering) -> None:
        self._data = data
        self._builder = data.context.builder

    def can(self, expr: DataExpr, width: int) -> bool:
        """Whether the operation at the root of an expression is lane-wise modulo ``2**width``."""
        match expr:
            case Const() | Invert() | Select():
                return True
            case FieldRef():
                return is_lanes(expr) and (not expr.signed or width <= expr.width)
            case Cast(op="two_comp_mod", width=to):
                return to >= width
            case Arith(op="&" | "|" | "^"):
                return True
            case Arith(op="<<" | ">>", right=Const(by)):
                return by >= 0
            case Arith(op="+" | "-"):
                left, right = self._bits(expr.left, width), self._bits(expr.right, width)
                within = adds_in_lanes if expr.op == "+" else subtracts_in_lanes
                return within(left, right, width)
            case _:
                return False

    def lower(self, expr: DataExpr, width: int) -> Value:
        """The vector for an expression that ``can`` accepts."""
        b, data = self._builder, self._data
        match expr:
            case Const(value):
                return lane_constant(width, value)
            case FieldRef():
                return self._fit(data.context.storage.load(expr), width)
            case Invert(operand):
                return b.not_(data.lanes(operand, width))
            case Select(condition, then, otherwise):
                return b.select(data.condition(condition), data.lanes(then, width), data.lanes(otherwise, width))
            case Cast(operand=operand):
                return data.lanes(operand, width)
            case Arith(op="<<", left=left, right=Const(by)):
                return self._left(left, by, width)
            case Arith(op=">>", left=left, right=Const(by)):
                return self._right(left, by, width)
            case Arith(op=op):
                operations = {"+": b.add, "-": b.sub, "&": b.and_, "|": b.or_, "^": b.xor}
                return operations[op](data.lanes(expr.left, width), data.lanes(expr.right, width))
            case _:
                raise AssertionError(f"not lane-wise: {expr}")

    def compare(self, expr: Compare, width: int) -> Value:
        """``==`` or ``!=`` of natural numbers below ``2**width``: an or over all lanes of their difference."""
        b = self._builder
        if expr.right == Const(0):
            difference = self._data.lanes(expr.left, width)
        else:
            difference = b.xor(self._data.lanes(expr.left, width), self._data.lanes(expr.right, width))
        name = f"llvm.vector.reduce.or.v{width // LANE_BITS}i32"
        return b.icmp_unsigned(expr.op, intrinsic(b, name, I32, [difference]), ir.Constant(I32, 0))

    def _bits(self, expr: DataExpr, width: int) -> Bits:
        return self._data.analysis.bits(expr, width)

    def _fit(self, vector: Value, width: int) -> Value:
        """Cuts leading lanes or fills with zero lanes."""
        have, want = vector.type.count, width // LANE_BITS
        return vector if have == want else pick_lanes(self._builder, vector, list(range(have - want, have)))

    def _left(self, operand: DataExpr, by: int, width: int) -> Value:
        b = self._builder
        lanes, bits = divmod(by, LANE_BITS)
        vector, count = self._data.lanes(operand, width), width // LANE_BITS
        near = pick_lanes(b, vector, [i + lanes for i in range(count)]) if lanes else vector
        if bits == 0:
            return near
        shifted = b.shl(near, _splat(count, bits))
        top = _splat_mask(width, ((1 << bits) - 1) << (LANE_BITS - bits))
        if self._bits(operand, width).may & top & ~_top_lanes(width, lanes + 1) == 0:
            return shifted
        far = pick_lanes(b, vector, [i + lanes + 1 for i in range(count)])
        return b.or_(shifted, b.lshr(far, _splat(count, LANE_BITS - bits)))

    def _right(self, operand: DataExpr, by: int, width: int) -> Value:
        b = self._builder
        bounds = self._data.analysis.bounds(operand)
        if not bounds.is_natural or (bounds.width() or 0) > width:
            # Bits above `width` move in: compute with as many lanes more, and cut.
            wider = width + -(-by // LANE_BITS) * LANE_BITS
        else:
            wider = width
        lanes, bits = divmod(by, LANE_BITS)
        vector, count = self._data.lanes(operand, wider), wider // LANE_BITS
        near = pick_lanes(b, vector, [i - lanes for i in range(count)]) if lanes else vector
        if bits:
            shifted = b.lshr(near, _splat(count, bits))
            low = _splat_mask(wider, (1 << bits) - 1)
            if self._bits(operand, wider).may & low & ~((1 << min(by - bits + LANE_BITS, wider)) - 1):
                far = pick_lanes(b, vector, [i - lanes - 1 for i in range(count)])
                shifted = b.or_(shifted, b.shl(far, _splat(count, LANE_BITS - bits)))
            near = shifted
        return self._fit(near, width)


def _splat(count: int, value: int) -> Value:
    return ir.Constant(ir.VectorType(I32, count), [value] * count)


def _splat_mask(width: int, lane: int) -> int:
    return sum(lane << at for at in range(0, width, LANE_BITS))


def _top_lanes(width: int, count: int) -> int:
    """Ones in the topmost lanes."""
    kept = max(width - LANE_BITS * count, 0)
    return ((1 << width) - 1) & ~((1 << kept) - 1)
