"""Machine code of expressions.

Data are unbounded integers (as in BMv2), but machine code holds residues. ``number(e, w)`` is ``e mod 2**w``; this is
the integer itself if w is the width that Analysis finds sufficient. Values of 256 bits and more are computed as vectors
of 32-bit lanes if each operation stays within its lanes, else as one LLVM integer.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from p4switch import abi
from p4switch.compiler.lanes import Analysis, Bounds, FunctionContext, KnownBits, LaneOps, ones
from p4switch.compiler.storage import (
    I1,
    Value,
    integer,
    integer_to_lanes,
    is_lanes,
    lane_constant,
    lanes_to_integer,
    number,
    resize,
    sign_resize,
)
from p4switch.program import program as model
from p4switch.program.errors import SHIFT_MASK, UnsupportedConstruct
from p4switch.state.layout import LANE_BITS, WIDE_BITS, cell_bytes, cell_kind

# Buffers: the fields that a packet keeps when it leaves the straight path, and the packet between ingress and egress.


_ALIGNMENT = 8


@dataclass(frozen=True)
class KeptLayout:
    """Byte offsets of the fields of field lists and digests in the buffer at KEPT_ADDRESS, and the buffer's size."""

    offsets: dict[model.FieldRef, int]
    bytes: int

    @classmethod
    def of(cls, program: model.Program) -> "KeptLayout":
        """Returns the layout for a program."""
        offsets, at = dict[model.FieldRef, int](), 0
        for field in program.kept_fields:
            offsets[field] = at
            at += -(-cell_bytes(field.width) // _ALIGNMENT) * _ALIGNMENT
        return cls(offsets, at)

    def values(self, kept: NDArray[np.uint8], learn_list: model.LearnList) -> tuple[int, ...]:
        """Returns the elements of a digest as unsigned numbers from the buffer's bytes."""
        return tuple(self._bits(kept, e) if isinstance(e, model.FieldRef) else e.value for e in learn_list.elements)

    def _bits(self, kept: NDArray[np.uint8], field: model.FieldRef) -> int:
        at, size = self.offsets[field], cell_bytes(field.width)
        cell = kept[at : at + size]
        if cell_kind(field.width) == "lanes":
            return int.from_bytes(cell.view(np.uint32).astype(">u4").tobytes(), "big")
        return int.from_bytes(cell.tobytes(), "little")


INGRESS_LENGTH: Final = 0
PACKET_LENGTH: Final = 8
PAYLOAD_LENGTH: Final = 16
RECIRCULATE: Final = 24
TRUNCATE: Final = 32
FIRST_FIELD: Final = 64
"""Byte offsets in the PHV buffer: int64 numbers (RECIRCULATE and TRUNCATE only in programs that leave the straight
path), then the first field; the payload follows the fields."""

ALIGNMENT: Final = 64


class FieldNeeds:
    """The fields and validity bits that a part of a program may read."""

    def __init__(self, program: model.Program) -> None:
        self._program = program
        self.fields: set[model.FieldRef] = set()
        self.headers: set[str] = set()

    def expression(self, expr: model.Expr | None) -> None:
        """Adds the fields that an expression reads."""
        for node in model.walk(expr) if expr is not None else ():
            match node:
                case model.FieldRef():
                    self.fields.add(node)
                case model.Valid(header):
                    self.headers.add(header)
                case model.HeaderEqual(left=header, right=other):
                    self.header(header)
                    self.header(other)

    def header(self, name: str) -> None:
        """Adds all fields of a header."""
        self.headers.add(name)
        self.fields.update(self._program.headers[name].refs)

    def _length(self, header: str) -> None:
        """Adds the length of a header's varbit field."""
        if model.LENGTH_FIELD in self._program.headers[header].type.by_name:
            self.fields.add(model.FieldRef(header, model.LENGTH_FIELD, model.LENGTH_WIDTH))

    def calculation(self, calculation: model.Calculation) -> None:
        """Adds the inputs of a hash."""
        for item in calculation.inputs:
            match item:
                case model.FieldInput(field):
                    self.fields.add(field)
                    self.headers.add(field.header)
                    self._length(field.header)
                case model.HeaderInput(header):
                    self.header(header)

    def primitive(self, primitive: model.Primitive) -> None:
        """Adds the fields that a primitive reads, and the targets that it may leave unchanged."""
        if isinstance(primitive, model.LogMessage):
            return  # machine code writes no log messages
        for expr in model.operands(primitive):
            self.expression(expr)
        match primitive:
            case model.AssignHeader(target=target, origin=origin):
                self.header(origin)
                self.header(target)
            case model.AddHeader(header=header) | model.RemoveHeader(header=header):
                self.headers.add(header)
                self._length(header)
            case model.Random(target=field) | model.RegisterRead(target=field) | model.ExecuteMeter(target=field):
                self.fields.add(field)
            case model.MoveHeaders(targets=targets):
                for header in targets:
                    self.header(header)
            case model.Several(primitives=steps):
                for step in steps:
                    self.primitive(step)
            case model.OneOf(cases=cases):
                for _, step in cases:
                    self.primitive(step)
            case model.Hash(calculation=name):
                self.calculation(self._program.calculations[name])
            case model.Clone(field_list=listed) | model.Recirculate(field_list=listed):
                self.fields.update(self._program.field_lists[listed].fields)

    def pipeline(self, pipeline: model.Pipeline) -> None:
        """Adds the fields that the conditions, keys and actions of a pipeline read."""
        for node in pipeline.nodes.values():
            if isinstance(node, model.Conditional):
                self.expression(node.condition)
                continue
            for key in node.keys:
                self.expression(key.target)
            selector = None if node.profile is None else self._program.profiles[node.profile].selector
            if selector is not None:
                self.calculation(selector)
            for primitive in primitives_of(self._program, node.actions):
                self.primitive(primitive)

    def checksum_updates(self) -> None:
        """Adds the fields that updates of checksums read; a target keeps its value if the condition fails."""
        for checksum in self._program.checksums:
            if checksum.update:
                self.expression(checksum.condition)
                self.calculation(self._program.calculations[checksum.calculation])
                self.fields.add(checksum.target)


def primitives_of(program: model.Program, actions: Iterable[int]) -> Iterator[model.Primitive]:
    """Yields the primitives of actions, which are given by id."""
    for ident in actions:
        for primitive in program.actions[ident].primitives:
            yield from _within(primitive)


def _within(primitive: model.Primitive) -> Iterator[model.Primitive]:
    match primitive:
        case model.Several(primitives=steps):
            for step in steps:
                yield from _within(step)
        case model.OneOf(cases=cases):
            yield primitive  # for its conditions
            for _, step in cases:
                yield from _within(step)
        case _:
            yield primitive


@dataclass(frozen=True)
class PhvLayout:
    """Byte offsets in the PHV buffer, which ingress fills for egress.

    Attributes:
        fields: offset of each field that egress or the deparser may read, laid out as by state.layout.
        valid: offset of the validity byte of each header whose validity egress or the deparser may read.
        payload: offset of the payload, after all fields.
        bytes: size for a frame of abi.MAX_FRAME_BYTES.
    """

    fields: dict[model.FieldRef, int]
    valid: dict[str, int]
    payload: int

    @property
    def bytes(self) -> int:
        """Size of the buffer."""
        return self.payload + abi.MAX_FRAME_BYTES

    @classmethod
    def of(cls, program: model.Program) -> "PhvLayout":
        """Returns a program's layout, with a place for every wide header field, because ingress keeps them there."""
        needs = FieldNeeds(program)
        needs.pipeline(program.egress)
        needs.checksum_updates()
        for header in program.deparser:
            needs.header(header)
        fields = needs.fields | set(wide_header_fields(program))
        at, placed, valid = FIRST_FIELD, dict[model.FieldRef, int](), dict[str, int]()
        for field in sorted(fields, key=lambda f: (-cell_bytes(f.width), f.header, f.name)):
            size = cell_bytes(field.width)
            align = min(ALIGNMENT, 1 << (size - 1).bit_length())
            at = -(-at // align) * align
            placed[field] = at
            at += size
        for header in sorted(needs.headers):
            if not program.headers[header].metadata:
                valid[header] = at
                at += 1
        return cls(placed, valid, -(-at // ALIGNMENT) * ALIGNMENT)


def wide_header_fields(program: model.Program) -> list[model.FieldRef]:
    """Returns the header fields that are kept as lanes, in memory."""
    return [
        field
        for header in program.headers.values()
        if not header.metadata
        for field in header.refs
        if cell_kind(field.width) == "lanes"
    ]


MAX_INTEGER_BITS: Final = 1 << 16
"""Widest number that is computed as one LLVM integer; no field is wider."""

MAX_PRODUCT_BITS: Final = 1 << 12
"""Widest product that is computed as one LLVM integer; its time and code size grow with the square of the width."""

SHIFT_BITS: Final = SHIFT_MASK.bit_length()

_BITWISE: Final = {"+": "add", "-": "sub", "*": "mul", "&": "and_", "|": "or_", "^": "xor"}


class DataLowering:
    """Lowers the expressions of one part of a program, such as an action, a condition or a parser state."""

    def __init__(
        self,
        context: FunctionContext,
        where: str,
        parameters: Mapping[int, Callable[[int], Value]] | None = None,
        lookahead: Callable[[model.Lookahead], Value] | None = None,
    ) -> None:
        """Args:
        context: the function under construction.
        where: name of the part, for messages.
        parameters: the action's arguments: functions from a width to the argument as an integer of that width.
        lookahead: reads ahead in the packet (parser only).
        """
        self._context = context
        self._builder = context.builder
        self._where = where
        self._parameters = parameters or {}
        self._lookahead = lookahead
        self._facts: dict[model.FieldRef, KnownBits] = {}
        self._analysis = Analysis()
        self._lanes = LaneOps(self)

    @property
    def analysis(self) -> Analysis:
        """Bounds and bits known at this point."""
        return self._analysis

    @property
    def context(self) -> FunctionContext:
        """The function under construction."""
        return self._context

    def stays(self, expr: model.DataExpr, width: int) -> bool:
        """Returns whether the lanes of an expression stay apart; see LaneOps.stays."""
        return self._lanes.stays(expr, width)

    # --- fields

    def assign(self, target: model.FieldRef, value: model.DataExpr) -> None:
        """Lowers ``target = value``; facts about the value hold for the field from here on."""
        bits = self._analysis.bits(value, target.width)
        self.store(target, self.lanes(value, target.width) if is_lanes(target) else self.number(value, target.width))
        self._know(target, bits)

    def learn(self, target: model.FieldRef, value: model.DataExpr) -> None:
        """Records the facts of ``target = value`` for a caller that stores the value itself."""
        bits = self._analysis.bits(value, target.width)
        self.forget(target)
        self._know(target, bits)

    def _know(self, target: model.FieldRef, bits: KnownBits) -> None:
        if not target.signed:
            self._facts[target] = bits
            self._analysis = Analysis(dict(self._facts))

    def store(self, target: model.FieldRef, value: Value) -> None:
        """Sets a field to a value in the field's form (lanes or an integer), and forgets the facts about it."""
        self._context.storage.store(target, value)
        self.forget(target)

    def store_integer(self, target: model.FieldRef, value: Value) -> None:
        """Sets a field to an integer of its width, and forgets the facts about it."""
        self._context.storage.store_integer(target, value)
        self.forget(target)

    def forget(self, *fields: model.FieldRef) -> None:
        """Forgets the facts about fields; about all fields if none is named."""
        for field in fields or tuple(self._facts):
            self._facts.pop(field, None)
        self._analysis = Analysis(dict(self._facts))

    # --- numbers

    def number(self, expr: model.DataExpr, width: int) -> Value:
        """Returns ``expr mod 2**width`` as an LLVM integer of that width."""
        bounds = self._analysis.bounds(expr)
        if bounds.low is not None and bounds.low == bounds.high:
            return number(width, bounds.low)
        enough = bounds.width() if bounds.is_natural else None
        if enough is not None and enough < width:
            return self._builder.zext(self.number(expr, enough), integer(width))
        if width >= WIDE_BITS:
            rounded = -(-width // LANE_BITS) * LANE_BITS
            if self._lanes.can(expr, rounded):
                return lanes_to_integer(self._builder, self.lanes(expr, rounded), width)
        return self.integer_number(expr, width)

    def lanes(self, expr: model.DataExpr, width: int) -> Value:
        """Returns ``expr mod 2**width`` as a vector of lanes; width is a multiple of 32."""
        bounds = self._analysis.bounds(expr)
        if bounds.low is not None and bounds.low == bounds.high:
            return lane_constant(width, bounds.low)
        enough = bounds.width() if bounds.is_natural else None
        if enough is not None and enough < WIDE_BITS and not (isinstance(expr, model.FieldRef) and is_lanes(expr)):
            return integer_to_lanes(self._builder, self.number(expr, enough), width)
        if self._lanes.can(expr, width):
            return self._lanes.lower(expr, width)
        return integer_to_lanes(self._builder, self.integer_number(expr, width), width)

    def exact(self, expr: model.DataExpr) -> tuple[Value, Bounds]:
        """Returns the exact value (unsigned if its bounds are natural, else two's complement), and its bounds."""
        bounds = self._analysis.bounds(expr)
        width = bounds.width()
        if width is None:
            raise UnsupportedConstruct("a left shift whose result has no bound", self._where)
        return self.number(expr, width), bounds

    def integer_number(self, expr: model.DataExpr, width: int) -> Value:
        """Returns ``expr mod 2**width``, as ``number`` does, by LLVM integer operations on the operands."""
        b = self._builder
        if width > MAX_INTEGER_BITS:
            raise UnsupportedConstruct(f"a number of more than {MAX_INTEGER_BITS} bits", self._where)
        match expr:
            case model.Const(value):
                return number(width, value)
            case model.FieldRef():
                value = self._context.storage.load(expr)
                value = lanes_to_integer(b, value, min(expr.width, width)) if is_lanes(expr) else value
                return sign_resize(b, value, width) if expr.signed else resize(b, value, width)
            case model.Valid(header):
                return resize(b, self._context.storage.valid(header), width)
            case model.Parameter(index=index, width=have):
                return resize(b, self._parameters[index](have), width)
            case model.Lookahead():
                return resize(b, self._look(expr), width)
            case model.ToData(operand):
                return resize(b, self.condition(operand), width)
            case model.Invert(operand):
                return b.not_(self.number(operand, width))
            case model.Select(condition, then, otherwise):
                return b.select(self.condition(condition), self.number(then, width), self.number(otherwise, width))
            case model.Cast():
                return self._cast(expr, width)
            case model.Arith():
                return self._arith(expr, width)

    def _look(self, expr: model.Lookahead) -> Value:
        if self._lookahead is None:
            raise UnsupportedConstruct("lookahead outside the parser", self._where)
        return self._lookahead(expr)

    def _arith(self, expr: model.Arith, width: int) -> Value:
        if expr.op == "*" and width > MAX_PRODUCT_BITS:
            raise UnsupportedConstruct(f"a product of more than {MAX_PRODUCT_BITS} bits", self._where)
        if expr.op in _BITWISE:
            operation = getattr(self._builder, _BITWISE[expr.op])
            return operation(self.number(expr.left, width), self.number(expr.right, width))
        if expr.op == "<<":
            return self._shift_left(expr, width)
        if expr.op == ">>":
            return self._shift_right(expr, width)
        return self._divide(expr, width)

    def _shift_left(self, expr: model.Arith, width: int) -> Value:
        b = self._builder
        if isinstance(expr.right, model.Const):
            by = expr.right.value
            if not 0 <= by < width:
                return number(width, 0)
            return b.shl(self.number(expr.left, width), number(width, by))
        amount, fits = self._shift_amount(expr.right, width)
        return b.select(fits, b.shl(self.number(expr.left, width), amount), number(width, 0))

    def _shift_right(self, expr: model.Arith, width: int) -> Value:
        b = self._builder
        if isinstance(expr.right, model.Const):
            by = expr.right.value
            bounds = self._analysis.bounds(expr.left)
            need = bounds.width()
            if need is not None and not bounds.is_natural:
                by = min(by, need)  # all bits from here on are copies of the sign
            # Bits `by` to `by + width` of the operand; above its own width they are zeros or copies of its sign.
            wide = by + width if need is None or not bounds.is_natural else min(by + width, max(need, by + 1))
            value = b.lshr(self.number(expr.left, wide), number(wide, by))
            return resize(b, value, width)
        value, bounds = self.exact(expr.left)
        have = value.type.width
        amount, fits = self._shift_amount(expr.right, have)
        if bounds.is_natural:
            return resize(b, b.select(fits, b.lshr(value, amount), number(have, 0)), width)
        amount = b.select(fits, amount, number(have, have - 1))
        return sign_resize(b, b.ashr(value, amount), width)

    def _shift_amount(self, expr: model.DataExpr, width: int) -> tuple[Value, Value]:
        """Returns a shift amount modulo 2**32 as an integer of ``width`` bits, and whether it is below ``width``."""
        b = self._builder
        bounds = self._analysis.bounds(expr)
        enough = bounds.width() if bounds.is_natural else None
        value = self.number(expr, SHIFT_BITS if enough is None else min(enough, SHIFT_BITS))
        have = max(value.type.width, width.bit_length())
        value = resize(b, value, have)
        fits = b.icmp_unsigned("<", value, number(have, width))
        # A shift by the width or more is undefined in LLVM, even if the result is not used.
        return resize(b, b.select(fits, value, number(have, 0)), width), fits

    def _divide(self, expr: model.Arith, width: int) -> Value:
        """Lowers ``/`` and ``%`` of natural numbers; gives 0 where BMv2 aborts (negative numbers, divisor 0)."""
        b = self._builder
        (left, left_bounds), (right, right_bounds) = self.exact(expr.left), self.exact(expr.right)
        have = max(left.type.width, right.type.width)
        if have > MAX_PRODUCT_BITS:
            raise UnsupportedConstruct(f"a division of more than {MAX_PRODUCT_BITS} bits", self._where)
        left, right = _extend(b, left, left_bounds, have), _extend(b, right, right_bounds, have)
        defined = b.icmp_unsigned("!=", right, number(have, 0))
        for value, bounds in ((left, left_bounds), (right, right_bounds)):
            if not bounds.is_natural:
                defined = b.and_(defined, b.icmp_signed(">=", value, number(have, 0)))
        divisor = b.select(defined, right, number(have, 1))
        result = b.udiv(left, divisor) if expr.op == "/" else b.urem(left, divisor)
        return resize(b, b.select(defined, result, number(have, 0)), width)

    def _cast(self, expr: model.Cast, width: int) -> Value:
        b = self._builder
        if expr.op == "two_comp_mod":
            return sign_resize(b, self.number(expr.operand, expr.width), width)
        value, bounds = self.exact(expr.operand)
        least, most = (0, ones(expr.width))
        if expr.op == "sat_cast":
            least, most = -(1 << (expr.width - 1)), ones(expr.width - 1)
        # Two's complement with more bits than either width holds the value and both limits.
        have = max(value.type.width, expr.width) + 2
        value = resize(b, value, have) if bounds.is_natural else sign_resize(b, value, have)
        low, high = number(have, least), number(have, most)
        value = b.select(b.icmp_signed("<", value, low), low, value)
        value = b.select(b.icmp_signed(">", value, high), high, value)
        return sign_resize(b, value, width)

    # --- conditions

    def condition(self, expr: model.BoolExpr) -> Value:
        """Returns a bool expression as i1."""
        b = self._builder
        match expr:
            case model.BoolConst(value):
                return ir.Constant(I1, int(value))
            case model.ToBool(operand):
                return self._compare(model.Compare("!=", operand, model.Const(0)))
            case model.Compare():
                return self._compare(expr)
            case model.Logic(op=op, left=left, right=right):
                p, q = self.condition(left), self.condition(right)
                operations = {"and": b.and_, "or": b.or_, "!=": b.xor}
                return operations[op](p, q) if op in operations else b.not_(b.xor(p, q))
            case model.Not(operand):
                return b.not_(self.condition(operand))
            case model.BoolSelect(condition, then, otherwise):
                return b.select(self.condition(condition), self.condition(then), self.condition(otherwise))
            case model.HeaderEqual(left=header, right=other):
                return self._headers_equal(header, other)

    def _compare(self, expr: model.Compare) -> Value:
        b = self._builder
        left, right = self._analysis.bounds(expr.left), self._analysis.bounds(expr.right)
        if left.is_natural and right.is_natural:
            width = max(left.width() or 1, right.width() or 1)
            if width >= WIDE_BITS and expr.op in ("==", "!="):
                return self._lanes.compare(expr, -(-width // LANE_BITS) * LANE_BITS)
            return b.icmp_unsigned(expr.op, self.number(expr.left, width), self.number(expr.right, width))
        widths = [_signed_width(bounds) for bounds in (left, right)]
        if None in widths:
            raise UnsupportedConstruct("comparison of a left shift whose result has no bound", self._where)
        width = max(w for w in widths if w is not None)
        return b.icmp_signed(expr.op, self.number(expr.left, width), self.number(expr.right, width))

    def _headers_equal(self, header: str, other: str) -> Value:
        b, storage = self._builder, self._context.storage
        if self._context.program.headers[header].type != self._context.program.headers[other].type:
            return ir.Constant(I1, 0)
        equal = b.and_(storage.valid(header), storage.valid(other))
        for left, right in zip(storage.fields_of(header), storage.fields_of(other), strict=True):
            if left.name == model.LENGTH_FIELD:
                continue  # a varbit field is compared as a number whatever its length, as in BMv2
            equal = b.and_(equal, self._compare(model.Compare("==", left, right)))
        return equal


def _signed_width(bounds: Bounds) -> int | None:
    """Returns how many bits hold every value in two's complement; None if there is no bound."""
    width = bounds.width()
    return None if width is None else width + int(bounds.is_natural)


def _extend(builder: Value, value: Value, bounds: Bounds, width: int) -> Value:
    return resize(builder, value, width) if bounds.is_natural else sign_resize(builder, value, width)
