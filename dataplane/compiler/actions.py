"""Actions to machine code: each primitive in its order, with jumps inside the action."""

from collections.abc import Callable, Mapping

from llvmlite import ir

from p4reduce.dataplane.abi import DROP_PORT
from p4reduce.dataplane.compiler.compounds import lower_one_of, lower_random, move_headers
from p4reduce.dataplane.compiler.context import FunctionContext
from p4reduce.dataplane.compiler.data import DataLowering
from p4reduce.dataplane.compiler.hashing import HashLowering
from p4reduce.dataplane.compiler.llvm_types import (
    I1,
    I64,
    Value,
    byte_offset,
    integer_to_lanes,
    lanes_to_integer,
    number,
    resize,
)
from p4reduce.dataplane.compiler.meters import execute_meter, meter_cell
from p4reduce.dataplane.compiler.paths import note
from p4reduce.dataplane.compiler.storage import is_lanes, load_cell, store_cell
from p4reduce.dataplane.compiler.varbits import header_bytes
from p4reduce.dataplane.model.actions import (
    Action,
    AddHeader,
    Assertion,
    Assign,
    AssignHeader,
    Count,
    Exit,
    Hash,
    Jump,
    JumpIfZero,
    LogMessage,
    MarkToDrop,
    MoveHeaders,
    OneOf,
    Primitive,
    Random,
    RegisterRead,
    RegisterWrite,
    RemoveHeader,
    Several,
)
from p4reduce.dataplane.model.expressions import Const, DataExpr, FieldRef
from p4reduce.dataplane.model.headers import LENGTH_FIELD
from p4reduce.dataplane.model.packet_path import (
    Clone,
    ExecuteMeter,
    GenerateDigest,
    Recirculate,
    Resubmit,
    Truncate,
)
from p4reduce.dataplane.state.layout import cell_kind

INDEX_BITS = 32
"""BMv2 takes register and counter indices modulo 2**32."""


class ActionLowering:
    """Lowers the primitives of one action, or one in the parser, where the builder stands."""

    def __init__(
        self, context: FunctionContext, where: str, parameters: Mapping[int, Callable[[int], Value]] | None = None
    ) -> None:
        self._context = context
        self._builder = context.builder
        self._data = DataLowering(context, where, parameters)

    def lower(self, action: Action) -> None:
        """All primitives; the builder ends behind them."""
        primitives = action.primitives
        targets = {p.to for p in primitives if isinstance(p, Jump | JumpIfZero)}
        blocks = {at: self._context.block(f"step{at}") for at in sorted(targets)}
        for at, primitive in enumerate(primitives):
            if at in blocks:
                self._enter(blocks[at])
            match primitive:
                case Jump(to=to):
                    if to <= at:
                        self._context.step()
                    self._builder.branch(blocks[to])
                    self._builder.position_at_end(self._context.block("unreached"))
                case JumpIfZero(condition=condition, to=to):
                    following = self._context.block("goes_on")
                    zero = self._zero(condition)
                    if to <= at:
                        jumps = self._context.block("jumps_back")
                        self._builder.cbranch(zero, jumps, following)
                        self._builder.position_at_end(jumps)
                        self._context.step()
                        self._builder.branch(blocks[to])
                    else:
                        self._builder.cbranch(zero, blocks[to], following)
                    self._builder.position_at_end(following)
                case _:
                    self.primitive(primitive)
        if len(primitives) in blocks:
            self._enter(blocks[len(primitives)])

    def _enter(self, block: Value) -> None:
        if not self._builder.block.is_terminated:
            self._builder.branch(block)
        self._builder.position_at_end(block)
        self._data.forget()

    def _zero(self, condition: DataExpr) -> Value:
        value, _ = self._data.exact(condition)
        return self._builder.icmp_unsigned("==", value, number(value.type.width, 0))

    def primitive(self, primitive: Primitive) -> None:
        """One primitive that is no jump."""
        match primitive:
            case Assign(target=target, value=value):
                self._data.assign(target, value)
            case AssignHeader(target=target, origin=origin):
                self._assign_header(target, origin)
            case AddHeader(header=header):
                self._add_header(header)
            case RemoveHeader(header=header):
                self._remove_header(header)
            case MarkToDrop(header=header):
                self._mark_to_drop(header)
            case Count(counter=counter, index=index):
                self._count(counter, index)
            case RegisterRead(target=target, register=register, index=index):
                self._register_read(target, register, index)
            case RegisterWrite(register=register, index=index, value=value):
                self._register_write(register, index, value)
            case Hash():
                self._hash(primitive)
            case ExecuteMeter(target=target, meter=meter, index=index):
                self._execute_meter(target, meter, index)
            case Clone() | Resubmit() | Recirculate() | Truncate() | GenerateDigest():
                note(self._context, self._data, primitive)
            case Exit():
                self._builder.store(ir.Constant(I1, 1), self._context.exit_flag)
            case Assertion(condition=condition):
                failed = self._builder.not_(self._data.condition(condition))
                cell = self._context.cell_address(self._context.layout.failed_assertions)
                self._context.add_to(cell, resize(self._builder, failed, 64))
            case Random():
                lower_random(self._context, self._data, primitive)
            case MoveHeaders():
                move_headers(self._context, self._data, primitive)
            case Several(primitives=steps):
                for step in steps:
                    self.primitive(step)
            case OneOf():
                lower_one_of(self._context, self._data, primitive, self.primitive)
            case LogMessage():
                pass  # nobody reads logs of machine code
            case _:
                raise AssertionError(f"not a primitive that stands alone: {primitive}")

    # --- headers

    def _assign_header(self, target: str, origin: str) -> None:
        b, storage = self._builder, self._context.storage
        valid = storage.valid(origin)
        with b.if_then(valid):
            for to, source in zip(storage.fields_of(target), storage.fields_of(origin), strict=True):
                storage.store(to, storage.load(source))
        if not self._context.program.headers[target].metadata:
            storage.mark_valid(target, valid)
        self._data.forget(*storage.fields_of(target))

    def _add_header(self, header: str) -> None:
        b, storage = self._builder, self._context.storage
        if self._context.program.headers[header].metadata:
            return
        with b.if_then(b.not_(storage.valid(header))):
            for field in storage.fields_of(header):
                if field.name != LENGTH_FIELD:  # a varbit field keeps its length, as in BMv2
                    storage.zero(field)
            storage.mark_valid(header, ir.Constant(I1, 1))
            self._lengthen(header_bytes(b, storage, self._context.program.headers[header]))
        self._data.forget(*storage.fields_of(header))

    def _remove_header(self, header: str) -> None:
        b, storage = self._builder, self._context.storage
        if self._context.program.headers[header].metadata:
            return
        with b.if_then(storage.valid(header)):
            storage.set_valid(header, ir.Constant(I1, 0))
            self._lengthen(b.neg(header_bytes(b, storage, self._context.program.headers[header])))

    def _lengthen(self, by: Value) -> None:
        length = self._builder.load(self._context.packet_length, typ=I64)
        self._builder.store(self._builder.add(length, by), self._context.packet_length)

    def _mark_to_drop(self, header: str) -> None:
        fields = {f.name: f for f in self._context.storage.fields_of(header)}
        self._data.assign(fields["egress_spec"], Const(DROP_PORT))
        if "mcast_grp" in fields:
            self._data.assign(fields["mcast_grp"], Const(0))

    # --- externs

    def _count(self, counter: str, index: DataExpr) -> None:
        b, context = self._builder, self._context
        spec = context.program.counters[counter]
        if spec.size == 0:
            return
        at = self._data.number(index, INDEX_BITS)
        with b.if_then(b.icmp_unsigned("<", at, number(INDEX_BITS, spec.size)), likely=True):
            cells = context.state_pointer(context.layout.counters[counter])
            count_packet(context, byte_offset(b, cells, b.shl(resize(b, at, 64), number(64, 4))))

    def _execute_meter(self, target: FieldRef, meter: str, index: DataExpr) -> None:
        b, context = self._builder, self._context
        spec = context.program.meters[meter]
        at = self._data.number(index, INDEX_BITS)
        with b.if_then(b.icmp_unsigned("<", at, number(INDEX_BITS, spec.size)), likely=True):
            cell = meter_cell(context, context.state_pointer(context.layout.meters[meter]), resize(b, at, 64))
            color = resize(b, execute_meter(context, cell, spec.unit), target.width)
            self._data.store(target, integer_to_lanes(b, color, target.width) if is_lanes(target) else color)
        self._data.forget(target)

    def _register_read(self, target: FieldRef, register: str, index: DataExpr) -> None:
        b = self._builder
        spec = self._context.program.registers[register]
        inside, cell = self._register_cell(register, index)
        with b.if_then(inside, likely=True):
            value = load_cell(b, cell(), spec.width)
            self._data.store(target, self._converted(value, spec.width, target))
        self._data.forget(target)

    def _register_write(self, register: str, index: DataExpr, value: DataExpr) -> None:
        b = self._builder
        spec = self._context.program.registers[register]
        wide = cell_kind(spec.width) == "lanes"
        inside, cell = self._register_cell(register, index)
        with b.if_then(inside, likely=True):
            number_or_lanes = self._data.lanes(value, spec.width) if wide else self._data.number(value, spec.width)
            store_cell(b, cell(), number_or_lanes, spec.width)

    def _register_cell(self, register: str, index: DataExpr) -> tuple[Value, Callable[[], Value]]:
        """Whether the index is within the array, and what makes the cell's address."""
        b, context = self._builder, self._context
        place = context.layout.registers[register]
        group = context.layout.groups[place.group]
        at = self._data.number(index, INDEX_BITS)

        def address() -> Value:
            rows = context.state_pointer(context.layout.group_cell(place.group))
            row = b.mul(resize(b, at, 64), number(64, group.stride))
            return byte_offset(b, rows, b.add(row, number(64, place.offset)))

        return b.icmp_unsigned("<", at, number(INDEX_BITS, group.size)), address

    def _converted(self, value: Value, width: int, target: FieldRef) -> Value:
        """A register's value in the form in which a field of another width is kept."""
        from_lanes, to_lanes = cell_kind(width) == "lanes", is_lanes(target)
        if from_lanes and to_lanes and width == target.width:
            return value
        b = self._builder
        whole = lanes_to_integer(b, value, target.width) if from_lanes else resize(b, value, target.width)
        return integer_to_lanes(b, whole, target.width) if to_lanes else whole

    def _hash(self, primitive: Hash) -> None:
        b, data = self._builder, self._data
        base, size = data.number(primitive.base, 64), data.number(primitive.size, 64)
        divisor = b.select(b.icmp_unsigned("==", size, number(64, 0)), number(64, 1), size)
        hashed = HashLowering(self._context, self._context.program.calculations[primitive.calculation]).result()
        value = b.add(b.urem(hashed, divisor), base)
        target = primitive.target
        whole = resize(b, value, target.width)
        data.store(target, integer_to_lanes(b, whole, target.width) if is_lanes(target) else whole)


def count_packet(context: FunctionContext, cell: Value) -> None:
    """Adds a packet and its ingress length to a counter cell."""
    context.add_to(cell, number(64, 1))
    context.add_to(byte_offset(context.builder, cell, 8), context.ingress_length)
