"""Wide values as vectors of 32-bit lanes, the most significant lane first, as in packets.

An operation is lane-wise if nothing crosses from one lane into the next; Analysis proves it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from llvmlite import ir

from p4switch.compiler.storage import (
    BLOCK_LANES,
    I32,
    I64,
    POINTER,
    Builder,
    FieldStorage,
    LaneBlock,
    Value,
    block_type,
    blocks_of,
    byte_offset,
    integer,
    intrinsic,
    is_lanes,
    lane_constant,
    number,
    pick_lanes,
)
from p4switch.program import program as model
from p4switch.program.errors import MAX_STEPS, SHIFT_MASK
from p4switch.state.layout import LANE_BITS, StateLayout

if TYPE_CHECKING:
    from p4switch.compiler.data import DataLowering


# Static facts about a value: bounds, and bits that are always or never set.
#
# Data are unbounded integers. ``Bounds`` describe the integer itself, ``KnownBits`` its residue modulo a power of two,
# which machine code holds. Both are sound: they may say less than is true, never more.


LANE: Final = 32
MAX_SHIFT: Final = 4096
"""Largest left shift whose result gets an upper bound; larger shifts can be compiled if the result is masked."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """An interval: ``low <= value <= high``; None means no bound on that side."""

    low: int | None
    high: int | None

    @property
    def is_natural(self) -> bool:
        """Whether the value is bounded and never negative."""
        return self.low is not None and self.low >= 0 and self.high is not None

    def width(self) -> int | None:
        """Returns how many bits hold every value, in two's complement if one may be negative; None if unbounded."""
        if self.low is None or self.high is None:
            return None
        if self.low >= 0:
            return max(1, self.high.bit_length())
        return max((-self.low - 1).bit_length(), self.high.bit_length() if self.high > 0 else 0) + 1


@dataclass(frozen=True, slots=True)
class KnownBits:
    """Masks of the bits that are set in every residue (``must``) and of those that may be set (``may``)."""

    must: int
    may: int


def ones(width: int) -> int:
    """Returns ``width`` one bits."""
    return (1 << width) - 1


def lanes_of(number: int, width: int) -> list[int]:
    """Returns the 32-bit lanes of a number, least significant first."""
    return [(number >> at) & 0xFFFFFFFF for at in range(0, width, LANE)]


def from_lanes(lanes: list[int]) -> int:
    """Returns the number with these lanes, the inverse of lanes_of."""
    return sum(lane << (LANE * i) for i, lane in enumerate(lanes))


def adds_in_lanes(left: KnownBits, right: KnownBits, width: int) -> bool:
    """Returns whether no carry leaves a lane of ``left + right``, except the topmost (modulo 2**width)."""
    pairs = zip(lanes_of(left.may, width)[:-1], lanes_of(right.may, width)[:-1], strict=True)
    return all(a + b < 1 << LANE for a, b in pairs)


def subtracts_in_lanes(left: KnownBits, right: KnownBits, width: int) -> bool:
    """Returns whether no lane of ``left - right`` borrows from the lane above it."""
    pairs = zip(lanes_of(left.must, width)[:-1], lanes_of(right.may, width)[:-1], strict=True)
    return all(a >= b for a, b in pairs)


@dataclass
class Analysis:
    """Bounds and bits of expressions at one point of the program.

    Attributes:
        facts: known bits of fields at this point; of other fields only the width is known.
    """

    facts: Mapping[model.FieldRef, KnownBits] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._bounds: dict[int, tuple[model.DataExpr, Bounds]] = {}
        self._bits: dict[tuple[int, int], tuple[model.DataExpr, KnownBits]] = {}

    def bounds(self, expr: model.DataExpr) -> Bounds:
        """Returns bounds of an expression's value."""
        cached = self._bounds.get(id(expr))
        if cached is None:
            # The expression is kept beside its result, so that its id is not reused.
            cached = self._bounds[id(expr)] = (expr, self._compute_bounds(expr))
        return cached[1]

    def bits(self, expr: model.DataExpr, width: int) -> KnownBits:
        """Returns the known bits of an expression's value modulo ``2**width``."""
        key = (id(expr), width)
        cached = self._bits.get(key)
        if cached is None:
            cached = self._bits[key] = (expr, self._compute_bits(expr, width))
        return cached[1]

    # --- bounds

    def _compute_bounds(self, expr: model.DataExpr) -> Bounds:
        match expr:
            case model.Const(value):
                return Bounds(value, value)
            case model.FieldRef(width=width, signed=True):
                return _signed(width)
            case model.FieldRef():
                fact = self.facts.get(expr)
                return Bounds(0, ones(expr.width)) if fact is None else Bounds(fact.must, fact.may)
            case model.Valid() | model.ToData():
                return Bounds(0, 1)
            case model.Parameter(width=width) | model.Lookahead(width=width):
                return Bounds(0, ones(width))
            case model.Invert(operand):
                b = self.bounds(operand)
                return Bounds(None if b.high is None else -b.high - 1, None if b.low is None else -b.low - 1)
            case model.Select(then=then, otherwise=otherwise):
                return _hull(self.bounds(then), self.bounds(otherwise))
            case model.Cast():
                return self._cast_bounds(expr)
            case model.Arith(op="&" | "|" | "^"):
                return self._bitwise_bounds(expr)
            case model.Arith(op=op, left=left, right=right):
                return _arith_bounds(op, self.bounds(left), self.bounds(right))

    def _cast_bounds(self, expr: model.Cast) -> Bounds:
        inner = self.bounds(expr.operand)
        limit = Bounds(0, ones(expr.width)) if expr.op == "usat_cast" else _signed(expr.width)
        if expr.op == "two_comp_mod":
            return inner if _within(inner, limit) else limit
        return Bounds(_clamp(inner.low, limit, limit.low), _clamp(inner.high, limit, limit.high))

    def _bitwise_bounds(self, expr: model.Arith) -> Bounds:
        left, right = self.bounds(expr.left), self.bounds(expr.right)
        if left.is_natural and right.is_natural:
            width = max(left.width() or 1, right.width() or 1)
            bits = self._combine(expr, width)
            return Bounds(bits.must, bits.may)
        if expr.op == "&" and (left.is_natural or right.is_natural):
            width = (left.width() if left.is_natural else right.width()) or 1
            bits = self._combine(expr, width)
            return Bounds(bits.must, bits.may)
        widths = (left.width(), right.width())
        if widths[0] is None or widths[1] is None:
            return Bounds(None, None)
        return _signed(max(widths[0], widths[1]) + 1)

    # --- bits

    def _compute_bits(self, expr: model.DataExpr, width: int) -> KnownBits:
        all_ones = ones(width)
        match expr:
            case model.Const(value):
                return KnownBits(value & all_ones, value & all_ones)
            case model.FieldRef(signed=False):
                fact = self.facts.get(expr, KnownBits(0, ones(expr.width)))
                return KnownBits(fact.must & all_ones, fact.may & all_ones)
            case model.Invert(operand):
                b = self.bits(operand, width)
                return KnownBits(all_ones & ~b.may, all_ones & ~b.must)
            case model.Select(then=then, otherwise=otherwise):
                a, b = self.bits(then, width), self.bits(otherwise, width)
                return KnownBits(a.must & b.must, a.may | b.may)
            case model.Cast(op="two_comp_mod", operand=operand, width=to) if to >= width:
                return self.bits(operand, width)
            case model.Arith(op="&" | "|" | "^"):
                return self._combine(expr, width)
            case model.Arith(op="<<", left=left, right=model.Const(by)) if by >= 0:
                b = self.bits(left, max(width - by, 1))
                return KnownBits((b.must << by) & all_ones, (b.may << by) & all_ones)
            case model.Arith(op=">>", left=left, right=model.Const(by)) if by >= 0:
                b = self.bits(left, width + by)
                return KnownBits(b.must >> by, b.may >> by)
            case model.Arith(op="+" | "-"):
                return self._sum_bits(expr, width)
            case _:
                return self._bounded(expr, width)

    def _combine(self, expr: model.Arith, width: int) -> KnownBits:
        """Returns the known bits of ``&``, ``|`` or ``^``, bit by bit."""
        a, b = self.bits(expr.left, width), self.bits(expr.right, width)
        if expr.op == "&":
            return KnownBits(a.must & b.must, a.may & b.may)
        if expr.op == "|":
            return KnownBits(a.must | b.must, a.may | b.may)
        surely_equal = (a.must & b.must) | ~(a.may | b.may)
        return KnownBits((a.must & ~b.may) | (b.must & ~a.may), ones(width) & ~surely_equal)

    def _sum_bits(self, expr: model.Arith, width: int) -> KnownBits:
        """Returns the known bits of ``+`` or ``-``: lane by lane if nothing crosses lanes, else from the bounds."""
        rounded = -(-width // LANE) * LANE
        a, b = self.bits(expr.left, rounded), self.bits(expr.right, rounded)
        within = adds_in_lanes(a, b, rounded) if expr.op == "+" else subtracts_in_lanes(a, b, rounded)
        if not within:
            return self._bounded(expr, width)
        must, may = [], []
        for a_low, a_high, b_low, b_high in zip(
            *(lanes_of(n, rounded) for n in (a.must, a.may, b.must, b.may)), strict=True
        ):
            low, high = (a_low + b_low, a_high + b_high) if expr.op == "+" else (a_low - b_high, a_high - b_low)
            sure, possible = _interval_bits(low, high)
            must.append(sure)
            may.append(possible)
        bounded = self._bounded(expr, width)
        return KnownBits(from_lanes(must) & ones(width), from_lanes(may) & bounded.may)

    def _bounded(self, expr: model.DataExpr, width: int) -> KnownBits:
        bounds = self.bounds(expr)
        if bounds.is_natural:
            return KnownBits(0, ones(width) & ones(bounds.width() or 1))
        return KnownBits(0, ones(width))


def _interval_bits(low: int, high: int) -> tuple[int, int]:
    """Returns the known bits (must, may) of the numbers in an interval, modulo 2**32."""
    if low < 0 or high >= 1 << LANE:
        return 0, ones(LANE)
    differing = ones((low ^ high).bit_length())
    return low & ~differing, high | differing


def _signed(width: int) -> Bounds:
    return Bounds(-(1 << (width - 1)), ones(width - 1))


def _hull(a: Bounds, b: Bounds) -> Bounds:
    low = None if a.low is None or b.low is None else min(a.low, b.low)
    high = None if a.high is None or b.high is None else max(a.high, b.high)
    return Bounds(low, high)


def _within(inner: Bounds, outer: Bounds) -> bool:
    if inner.low is None or inner.high is None or outer.low is None or outer.high is None:
        return False
    return outer.low <= inner.low and inner.high <= outer.high


def _clamp(value: int | None, limit: Bounds, unbounded: int | None) -> int | None:
    if value is None or limit.low is None or limit.high is None:
        return unbounded
    return min(max(value, limit.low), limit.high)


def _arith_bounds(op: str, a: Bounds, b: Bounds) -> Bounds:
    if a.low is None or a.high is None or b.low is None or b.high is None:
        natural = all(x.low is not None and x.low >= 0 for x in (a, b)) and op != "-"
        return Bounds(0 if natural else None, None)
    if op == "+":
        return Bounds(a.low + b.low, a.high + b.high)
    if op == "-":
        return Bounds(a.low - b.high, a.high - b.low)
    if op == "*":
        corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        return Bounds(min(corners), max(corners))
    if op == "/":
        return Bounds(0, max(a.high, 0))
    if op == "%":
        return Bounds(0, max(min(a.high, b.high), 0))
    least, most = (b.low, b.high) if b.low >= 0 and b.high <= SHIFT_MASK else (0, SHIFT_MASK)
    return _shift_bounds(op, a.low, a.high, least, most)


def _shift_bounds(op: str, low: int, high: int, least: int, most: int) -> Bounds:
    if op == ">>":
        least, most = min(least, 1 << 16), min(most, 1 << 16)
        corners = [low >> least, low >> most, high >> least, high >> most]
    elif most > MAX_SHIFT:
        return Bounds(0 if low >= 0 else None, 0 if high <= 0 else None)
    else:
        corners = [low << least, low << most, high << least, high << most]
    return Bounds(min(corners), max(corners))


# The state that all lowering of one function shares.


@dataclass
class FunctionContext:
    """A function under construction.

    Attributes:
        state: the function's pointer to the device's cells.
        ingress_length: bytes of the frame as it came in, i64; counters add this number.
        packet_length: slot (i64) of BMv2's packet length, which setValid and setInvalid change.
        exit_flag: slot (i1), set by ``exit``.
        notes: the actions.PathSlots; None in programs that do not leave the straight path.
        now: time of the packet in microseconds, i64; None in programs without meters.
        steps: slot (i64) that counts steps that may be repeated; None until the first such step is lowered.
        endless: the block for packets that take too many steps; the builder of the function fills it.
        payload: returns address and length (i64) of the bytes that the parser did not extract.
    """

    program: model.Program
    layout: StateLayout
    builder: Builder
    storage: FieldStorage
    state: Value
    ingress_length: Value
    packet_length: Value
    exit_flag: Value
    payload: Callable[[], tuple[Value, Value]]
    notes: Any = None
    now: Value = None
    steps: Value = None
    endless: Value = None

    def step(self) -> None:
        """Emits a count of a step that may be repeated for one packet; after MAX_STEPS, control goes to ``endless``."""
        b = self.builder
        if self.steps is None:
            self.steps, self.endless = self.storage.slot(I64, number(64, 0)), self.block("endless")
        taken = b.add(b.load(self.steps, typ=I64), number(64, 1))
        b.store(taken, self.steps)
        goes_on = self.block("few_steps")
        b.cbranch(b.icmp_unsigned(">", taken, number(64, MAX_STEPS)), self.endless, goes_on)
        b.position_at_end(goes_on)

    def block(self, name: str) -> Value:
        """Appends a new block to the function."""
        return self.builder.append_basic_block(name)

    def cell_address(self, cell: int) -> Value:
        """Returns the address of a cell of the device's state."""
        return byte_offset(self.builder, self.state, 8 * cell)

    def state_number(self, cell: int) -> Value:
        """Loads a cell that does not change while a packet is processed, as i64."""
        return self._invariant(self.builder.load(self.cell_address(cell), align=8, typ=I64))

    def state_pointer(self, cell: int) -> Value:
        """Loads a cell that does not change while a packet is processed, as a pointer."""
        return self._invariant(self.builder.load(self.cell_address(cell), align=8, typ=POINTER))

    def _invariant(self, load: Value) -> Value:
        load.set_metadata("invariant.load", self.builder.module.add_metadata([]))
        return load

    def add_to(self, pointer: Value, amount: Value) -> None:
        """Emits ``*pointer += amount``, 64 bits."""
        old = self.builder.load(pointer, align=8, typ=I64)
        self.builder.store(self.builder.add(old, amount), pointer, align=8)


class LaneOps:
    """Emits vector code for wide expressions."""

    def __init__(self, data: DataLowering) -> None:
        self._data = data
        self._builder = data.context.builder

    def can(self, expr: model.DataExpr, width: int) -> bool:
        """Returns whether the operation at the root of an expression is lane-wise modulo ``2**width``."""
        match expr:
            case model.Const() | model.Invert() | model.Select():
                return True
            case model.FieldRef():
                return is_lanes(expr) and (not expr.signed or width <= expr.width)
            case model.Cast(op="two_comp_mod", width=to):
                return to >= width
            case model.Arith(op="&" | "|" | "^"):
                return True
            case model.Arith(op="<<" | ">>", right=model.Const(by)):
                return by >= 0
            case model.Arith(op="+" | "-"):
                left, right = self._bits(expr.left, width), self._bits(expr.right, width)
                within = adds_in_lanes if expr.op == "+" else subtracts_in_lanes
                return within(left, right, width)
            case _:
                return False

    def lower(self, expr: model.DataExpr, width: int) -> Value:
        """Returns the vector for an expression that ``can`` accepts."""
        b, data = self._builder, self._data
        match expr:
            case model.Const(value):
                return lane_constant(width, value)
            case model.FieldRef():
                return self._fit(data.context.storage.load(expr), width)
            case model.Invert(operand):
                return b.not_(data.lanes(operand, width))
            case model.Select(condition, then, otherwise):
                return b.select(data.condition(condition), data.lanes(then, width), data.lanes(otherwise, width))
            case model.Cast(operand=operand):
                return data.lanes(operand, width)
            case model.Arith(op="<<", left=left, right=model.Const(by)):
                return self._left(left, by, width)
            case model.Arith(op=">>", left=left, right=model.Const(by)):
                return self._right(left, by, width)
            case model.Arith(op=op):
                operations = {"+": b.add, "-": b.sub, "&": b.and_, "|": b.or_, "^": b.xor}
                return operations[op](data.lanes(expr.left, width), data.lanes(expr.right, width))
            case _:
                raise AssertionError(f"not lane-wise: {expr}")

    def compare(self, expr: model.Compare, width: int) -> Value:
        """Lowers ``==`` or ``!=`` of natural numbers below ``2**width``: an or over all lanes of their difference."""
        b = self._builder
        if self.stays(expr.left, width) and self.stays(expr.right, width):
            return self._compare_blocks(expr, width)
        if expr.right == model.Const(0):
            difference = self._data.lanes(expr.left, width)
        else:
            difference = b.xor(self._data.lanes(expr.left, width), self._data.lanes(expr.right, width))
        name = f"llvm.vector.reduce.or.v{width // LANE_BITS}i32"
        return b.icmp_unsigned(expr.op, intrinsic(b, name, I32, [difference]), ir.Constant(I32, 0))

    def _compare_blocks(self, expr: model.Compare, width: int) -> Value:
        b, storage, some = self._builder, self._data.context.storage, None
        for block in blocks_of(width):
            words = BlockWords(b, block, partial(storage.load_block, block=block))
            difference = words.of(model.Arith("^", expr.left, expr.right)).value
            if difference.type != block_type(BLOCK_LANES):  # the lanes after the last whole block
                difference = pick_lanes(b, difference, list(range(BLOCK_LANES)))
            some = difference if some is None else b.or_(some, difference)
        name = f"llvm.vector.reduce.or.v{BLOCK_LANES}i32"
        return b.icmp_unsigned(expr.op, intrinsic(b, name, I32, [some]), ir.Constant(I32, 0))

    def stays(self, expr: model.DataExpr, width: int) -> bool:
        """Returns whether each lane of an expression modulo ``2**width`` depends only on that lane of its fields."""
        match expr:
            case model.Const():
                return True
            case model.FieldRef():
                return is_lanes(expr) and expr.width == width and not expr.signed
            case model.Invert(operand):
                return self.stays(operand, width)
            case model.Cast(op="two_comp_mod", operand=operand, width=to):
                return to >= width and self.stays(operand, width)
            case model.Arith(op="<<", left=left, right=model.Const(by)):
                return 0 <= by < LANE and self._left_stays(left, by, width) and self.stays(left, width)
            case model.Arith(op=">>", left=left, right=model.Const(by)):
                within = 0 <= by < LANE and self._is_within(left, width) and self._right_stays(left, by, width)
                return within and self.stays(left, width)
            case model.Arith(op="&" | "|" | "^" | "+" | "-", left=left, right=right):
                return self.stays(left, width) and self.stays(right, width) and self.can(expr, width)
            case _:
                return False

    def _bits(self, expr: model.DataExpr, width: int) -> KnownBits:
        return self._data.analysis.bits(expr, width)

    def _is_within(self, operand: model.DataExpr, width: int) -> bool:
        bounds = self._data.analysis.bounds(operand)
        return bounds.is_natural and (bounds.width() or 0) <= width

    def _left_stays(self, operand: model.DataExpr, by: int, width: int) -> bool:
        """Returns whether a shift to the left moves no bit into another lane, except into lanes that fall off."""
        lanes, bits = divmod(by, LANE_BITS)
        top = _splat_mask(width, ((1 << bits) - 1) << (LANE_BITS - bits))
        return self._bits(operand, width).may & top & ~_top_lanes(width, lanes + 1) == 0

    def _right_stays(self, operand: model.DataExpr, by: int, width: int) -> bool:
        """Returns whether a shift to the right moves no bit into another lane, except into lanes that fall off."""
        bits = by % LANE_BITS
        low = _splat_mask(width, (1 << bits) - 1)
        return self._bits(operand, width).may & low & ~((1 << min(by - bits + LANE_BITS, width)) - 1) == 0

    def _fit(self, vector: Value, width: int) -> Value:
        """Cuts leading lanes, or adds lanes that are zero."""
        have, want = vector.type.count, width // LANE_BITS
        return vector if have == want else pick_lanes(self._builder, vector, list(range(have - want, have)))

    def _left(self, operand: model.DataExpr, by: int, width: int) -> Value:
        b = self._builder
        lanes, bits = divmod(by, LANE_BITS)
        vector, count = self._data.lanes(operand, width), width // LANE_BITS
        near = pick_lanes(b, vector, [i + lanes for i in range(count)]) if lanes else vector
        if bits == 0:
            return near
        shifted = b.shl(near, _splat(count, bits))
        if self._left_stays(operand, by, width):
            return shifted
        far = pick_lanes(b, vector, [i + lanes + 1 for i in range(count)])
        return b.or_(shifted, b.lshr(far, _splat(count, LANE_BITS - bits)))

    def _right(self, operand: model.DataExpr, by: int, width: int) -> Value:
        b = self._builder
        # Bits above `width` may move in: compute with additional lanes, and cut them afterwards.
        wider = width if self._is_within(operand, width) else width + -(-by // LANE_BITS) * LANE_BITS
        lanes, bits = divmod(by, LANE_BITS)
        vector, count = self._data.lanes(operand, wider), wider // LANE_BITS
        near = pick_lanes(b, vector, [i - lanes for i in range(count)]) if lanes else vector
        if bits:
            shifted = b.lshr(near, _splat(count, bits))
            if not self._right_stays(operand, by, wider):
                far = pick_lanes(b, vector, [i - lanes - 1 for i in range(count)])
                shifted = b.or_(shifted, b.shl(far, _splat(count, LANE_BITS - bits)))
            near = shifted
        return self._fit(near, width)


# Computation block by block, in a processor's registers.
#
# A word of 64 lanes takes eight registers of 256 bits. Statement by statement, a few such words need more registers
# than there are; block by block, each value stays in one register from its load to its store.


class LaneWord:
    """The value of an expression in one block; its code is emitted at the first access to ``value``.

    Attributes:
        op: "&", "|", "^", "+", "-", ">>", "<<"; empty: a constant, the value of a field, or the code of an idiom.
        lanes: the lanes of a constant.
        sum: for ``(a & REST) + (b & REST)``: the word ``a + b`` of separate lanes; None until it is needed.
    """

    def __init__(
        self,
        make: Callable[[], Value],
        op: str = "",
        parts: tuple[LaneWord, ...] = (),
        lanes: tuple[int, ...] | None = None,
    ) -> None:
        self._make = make
        self.op: Final = op
        self.parts: Final = parts
        self.lanes: Final = lanes
        self.sum: LaneWord | None = None

    @cached_property
    def value(self) -> Value:
        """The block as an LLVM value."""
        return self._make()


_OPERATIONS: Final = {"+": "add", "-": "sub", "&": "and_", "|": "or_", "^": "xor", "<<": "shl", ">>": "lshr"}
NARROW_LANES: Final = (32, 16, 8)
_SIGNS: Final = {bits: sum(1 << at for at in range(bits - 1, LANE, bits)) for bits in NARROW_LANES}


class BlockWords:
    """Computes one block of expressions whose lanes stay apart (``LaneOps.stays``).

    Lanes of 32, 16 or 8 bits that a program adds without carries from one into the next (Warren, Hacker's Delight,
    2nd ed., section 2-18) are added by one instruction. With SIGN the top bit of every lane and REST the others, and
    t = (a & REST) + (b & REST):

        t ^ ((a ^ b) & SIGN)               is a + b in separate lanes;
        (t ^ a) & (t ^ b) & SIGN           is (s ^ a) & (s ^ b) & SIGN with s = a + b: if a and b have one sign, t has
                                           the sign of s; else both are 0;
        SIGN - ((x & SIGN) >> (bits - 1))  is SIGN ^ (x >> (bits - 1)), the shift with copies of the sign.

    Each value is computed once, and operands are compared by identity, so another expression is never taken for one of
    these idioms.
    """

    def __init__(self, builder: Builder, block: LaneBlock, load: Callable[[model.FieldRef], Value]) -> None:
        """Makes a block; ``load`` returns a field's value in this block before anything is assigned."""
        self._builder = builder
        self._block = block
        self._load = load
        self._fields: dict[model.FieldRef, LaneWord] = {}
        self._made: dict[tuple[str, frozenset[LaneWord] | tuple[LaneWord, ...]], LaneWord] = {}
        self._constants: dict[tuple[int, ...], LaneWord] = {}

    def hold(self, field: model.FieldRef, value: LaneWord | Value) -> None:
        """Records the current value of a field."""
        self._fields[field] = value if isinstance(value, LaneWord) else LaneWord(lambda: value)

    def of(self, expr: model.DataExpr) -> LaneWord:
        """Returns the word of an expression in this block."""
        match expr:
            case model.Const(value):
                return self._constant(value)
            case model.FieldRef():
                if expr not in self._fields:
                    self.hold(expr, self._load(expr))
                return self._fields[expr]
            case model.Invert(operand):
                return self._plain("^", self.of(operand), self._constant(-1))
            case model.Cast(operand=operand):
                return self.of(operand)
            case model.Arith(op="<<" | ">>" as op, left=left, right=model.Const(by)):
                return self._plain(op, self.of(left), self._of_lanes(*(by,) * self._block.count))
            case model.Arith(op=op, left=left, right=right):
                return self._binary(op, self.of(left), self.of(right))
            case _:
                raise AssertionError(f"lanes do not stay apart: {expr}")

    def _constant(self, value: int) -> LaneWord:
        # Lane 0 of a field is its most significant lane; a constant has as many lanes as the field.
        return self._of_lanes(*lanes_of(value >> self._block.below, LANE * self._block.count)[::-1])

    def _of_lanes(self, *lanes: int) -> LaneWord:
        if lanes not in self._constants:
            self._constants[lanes] = LaneWord(lambda: ir.Constant(block_type(len(lanes)), lanes), lanes=lanes)
        return self._constants[lanes]

    def _plain(self, op: str, left: LaneWord, right: LaneWord) -> LaneWord:
        def value() -> Value:
            return getattr(self._builder, _OPERATIONS[op])(left.value, right.value)

        return self._once(op, left, right, lambda: LaneWord(value, op, (left, right)))

    def _once(self, what: str, left: LaneWord, right: LaneWord, make: Callable[[], LaneWord]) -> LaneWord:
        key = (what, frozenset((left, right)) if what[0] in "+&|^" else (left, right))
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _binary(self, op: str, left: LaneWord, right: LaneWord) -> LaneWord:
        if op == "&":
            for word, other in ((left, right), (right, left)):
                if _is_splat(other, ones(LANE)):
                    return word  # p4c cuts every result to its width
        idiom = {"^": self._as_sum, "&": self._as_overflow, "-": self._as_end}.get(op)
        if idiom is None:
            return self._plain(op, left, right)
        return self._once(f"{op} or more", left, right, lambda: idiom(left, right) or self._plain(op, left, right))

    def _as_sum(self, left: LaneWord, right: LaneWord) -> LaneWord | None:
        for t, signs in ((left, right), (right, left)):
            addends = _addends(t)
            if addends is None:
                continue
            a, b, bits = addends
            x = _masked(signs, _SIGNS[bits])
            if x is not None and x.op == "^" and _same(x.parts, (a, b)):
                return self._sum(t, a, b, bits)
        return None

    def _sum(self, t: LaneWord, a: LaneWord, b: LaneWord, bits: int) -> LaneWord:
        if t.sum is None:
            t.sum = self._in_lanes("add", bits, a, b)
        return t.sum

    def _as_overflow(self, left: LaneWord, right: LaneWord) -> LaneWord | None:
        factors = [*_factors(left), *_factors(right)]
        masks = [factor for factor in factors if factor.lanes is not None]
        if len(factors) != 3 or len(masks) != 1:
            return None
        first, other = (factor for factor in factors if factor.lanes is None)
        if first.op != "^" or other.op != "^":
            return None
        for t in first.parts:
            addends = _addends(t)
            if addends is None:
                continue
            a, b, bits = addends
            if not _is_splat(masks[0], _SIGNS[bits]):
                continue
            if _same(first.parts, (t, a)) and _same(other.parts, (t, b)):
                pass
            elif not (_same(first.parts, (t, b)) and _same(other.parts, (t, a))):
                continue
            total = self._sum(t, a, b, bits)
            differs = self._plain("&", self._plain("^", total, a), self._plain("^", total, b))
            overflow = self._plain("&", differs, masks[0])
            return self._whole(overflow)
        return None

    def _whole(self, word: LaneWord) -> LaneWord:
        """Hides a word's expression from LLVM, which would keep the unmasked bits in additional registers."""

        def value() -> Value:
            b, kind = self._builder, ir.VectorType(ir.FloatType(), self._block.count)
            name = f"llvm.arithmetic.fence.v{self._block.count}f32"
            return b.bitcast(intrinsic(b, name, kind, [b.bitcast(word.value, kind)]), word.value.type)

        return LaneWord(value)

    def _as_end(self, left: LaneWord, right: LaneWord) -> LaneWord | None:
        for bits, sign in _SIGNS.items():
            if not _is_splat(left, sign) or right.op != ">>" or not _is_splat(right.parts[1], bits - 1):
                continue
            x = _masked(right.parts[0], sign)
            if x is not None:
                amount = sum((bits - 1) << at for at in range(0, LANE, bits))
                amounts = self._of_lanes(*(amount,) * self._block.count)
                return self._plain("^", left, self._in_lanes("ashr", bits, x, amounts))
        return None

    def _in_lanes(self, operation: str, bits: int, left: LaneWord, right: LaneWord) -> LaneWord:
        """Returns an operation on lanes of ``bits`` bits; their order within a lane of 32 bits does not matter."""

        def value() -> Value:
            b, narrow = self._builder, ir.VectorType(integer(bits), self._block.count * LANE // bits)
            operands = [b.bitcast(word.value, narrow) if bits < LANE else word.value for word in (left, right)]
            result = getattr(b, operation)(*operands)
            return b.bitcast(result, block_type(self._block.count)) if bits < LANE else result

        return LaneWord(value)


def _is_splat(word: LaneWord, lane: int) -> bool:
    return word.lanes is not None and all(value == lane for value in word.lanes)


def _masked(word: LaneWord, lane: int) -> LaneWord | None:
    """Returns x of ``x & mask`` with a mask of equal lanes; None for other words."""
    if word.op == "&":
        for part, other in (word.parts, word.parts[::-1]):
            if _is_splat(other, lane):
                return part
    return None


def _addends(word: LaneWord) -> tuple[LaneWord, LaneWord, int] | None:
    """Returns a, b and the width of a lane from ``(a & REST) + (b & REST)``; None for other words."""
    if word.op == "+":
        for bits, sign in _SIGNS.items():
            a, b = (_masked(part, ones(LANE) & ~sign) for part in word.parts)
            if a is not None and b is not None:
                return a, b, bits
    return None


def _factors(word: LaneWord) -> tuple[LaneWord, ...]:
    return word.parts if word.op == "&" else (word,)


def _same(some: tuple[LaneWord, ...], others: tuple[LaneWord, LaneWord]) -> bool:
    """Returns whether two pairs hold the same words, in any order."""
    return (some[0] is others[0] and some[1] is others[1]) or (some[0] is others[1] and some[1] is others[0])


def _splat(count: int, value: int) -> Value:
    return ir.Constant(ir.VectorType(I32, count), [value] * count)


def _splat_mask(width: int, lane: int) -> int:
    return sum(lane << at for at in range(0, width, LANE_BITS))


def _top_lanes(width: int, count: int) -> int:
    """Returns ones in the topmost lanes."""
    kept = max(width - LANE_BITS * count, 0)
    return ((1 << width) - 1) & ~((1 << kept) - 1)
