"""Machine code of actions: each primitive in order, with jumps inside the action."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from llvmlite import ir

from p4switch import abi
from p4switch.abi import DROP_PORT
from p4switch.compiler import data as phv
from p4switch.compiler.data import DataLowering, KeptLayout
from p4switch.compiler.hashing import HashLowering
from p4switch.compiler.lanes import BlockWords, FunctionContext
from p4switch.compiler.storage import (
    I1,
    I64,
    POINTER,
    FieldStorage,
    LaneBlock,
    Value,
    blocks_of,
    byte_offset,
    copy_bytes,
    header_bytes,
    integer_to_lanes,
    is_lanes,
    lanes_to_integer,
    load_block,
    load_cell,
    number,
    resize,
    store_block,
    store_cell,
)
from p4switch.program import program as model
from p4switch.state import device_state
from p4switch.state.layout import cell_kind
from p4switch.tables.profile import (
    BURST,
    COMMITTED,
    GREEN,
    LAST,
    METER_WORDS,
    MOST_TOKENS,
    PEAK,
    RATE,
    RED,
    TOKENS,
    YELLOW,
)

# Meters in machine code; p4switch.tables.profile describes a meter's words and how its color is computed.


_DOUBLE = ir.DoubleType()
_WORD = 8


def meter_cell(context: FunctionContext, cells: Value, index: Value) -> Value:
    """Returns the address of a meter; ``index`` is an i64."""
    b = context.builder
    return byte_offset(b, cells, b.mul(index, number(64, _WORD * METER_WORDS)))


def execute_meter(context: FunctionContext, cell: Value, unit: Literal["packets", "bytes"]) -> Value:
    """Returns the color of the packet as i64, and takes its tokens."""
    b = context.builder
    before, metered, done = b.block, context.block("metered"), context.block("colored")
    need = number(64, 1) if unit == "packets" else context.ingress_length
    configured = b.load(cell, align=8, typ=I64)
    b.cbranch(b.icmp_unsigned("!=", configured, number(64, 0)), metered, done)
    b.position_at_end(metered)
    outcomes = [(number(64, GREEN), before)]
    for bucket, color in ((PEAK, RED), (COMMITTED, YELLOW)):
        enough = _take(context, byte_offset(b, cell, _WORD * bucket), need)
        outcomes.append((number(64, color), b.block))
        following = context.block("bucket_enough")
        b.cbranch(enough, following, done)
        b.position_at_end(following)
    outcomes.append((number(64, GREEN), b.block))
    b.branch(done)
    b.position_at_end(done)
    result = b.phi(I64)
    for value, block in outcomes:
        result.add_incoming(value, block)
    return result


def _take(context: FunctionContext, bucket: Value, need: Value) -> Value:
    """Fills a bucket and takes tokens if there are enough; returns whether there were enough."""
    b = context.builder

    def load(word: int) -> Value:
        return b.load(byte_offset(b, bucket, _WORD * word), align=8, typ=I64)

    rate = b.load(byte_offset(b, bucket, _WORD * RATE), align=8, typ=_DOUBLE)
    flow = b.fmul(b.sitofp(context.now, _DOUBLE), rate)
    most = ir.Constant(_DOUBLE, MOST_TOKENS)
    given = b.fptoui(b.select(b.fcmp_ordered("<", flow, most), flow, most), I64)
    last = load(LAST)
    fresh = b.select(b.icmp_unsigned(">", given, last), b.sub(given, last), number(64, 0))
    b.store(b.add(last, fresh), byte_offset(b, bucket, _WORD * LAST), align=8)
    filled, burst = b.add(load(TOKENS), fresh), load(BURST)
    tokens = b.select(b.icmp_unsigned("<", filled, burst), filled, burst)
    enough = b.icmp_unsigned(">=", tokens, need)
    left = b.select(enough, b.sub(tokens, need), tokens)
    b.store(left, byte_offset(b, bucket, _WORD * TOKENS), align=8)
    return enough


# Primitives that consist of other primitives, and shifts of header stacks.


def lower_one_of(
    context: FunctionContext, data: DataLowering, one_of: model.OneOf, run: Callable[[model.Primitive], None]
) -> None:
    """Emits code that runs the first case whose condition holds; forgets all facts about fields."""
    b, done = context.builder, context.block("chosen")
    for condition, primitive in one_of.cases:
        data.forget()
        chosen, following = context.block("choose"), context.block("choose_next")
        b.cbranch(data.condition(condition), chosen, following)
        b.position_at_end(chosen)
        run(primitive)
        b.branch(done)
        b.position_at_end(following)
    b.branch(done)
    b.position_at_end(done)
    data.forget()


def lower_random(context: FunctionContext, data: DataLowering, primitive: model.Random) -> None:
    """Emits ``random()`` as state.device_state computes it; the generator's state is a cell of the device."""
    b, target = context.builder, primitive.target
    low, high = data.number(primitive.low, 64), data.number(primitive.high, 64)
    with b.if_then(b.icmp_unsigned("<=", low, high)):
        cell = context.cell_address(context.layout.random_state)
        z = b.add(b.load(cell, align=8, typ=I64), number(64, device_state.STEP))
        b.store(z, cell, align=8)
        for shift, factor in device_state.MIX:
            z = b.mul(b.xor(z, b.lshr(z, number(64, shift))), number(64, factor))
        z = b.xor(z, b.lshr(z, number(64, device_state.LAST_SHIFT)))
        count = b.add(b.sub(high, low), number(64, 1))  # 0 if the range holds all 64-bit numbers
        every = b.icmp_unsigned("==", count, number(64, 0))
        remainder = b.urem(z, b.select(every, number(64, 1), count))
        value = resize(b, b.add(low, b.select(every, z, remainder)), target.width)
        data.store_integer(target, value)


def move_headers(context: FunctionContext, data: DataLowering, move: model.MoveHeaders) -> None:
    """Moves the elements of a stack; reads all values before it stores the first one."""
    storage = context.storage
    values, valid = [], []
    for target, origin in zip(move.targets, move.origins, strict=True):
        pairs = zip(storage.fields_of(target), storage.fields_of(origin), strict=True)
        values += [(to, storage.load(of)) for to, of in pairs if to != of]
        gone = ir.Constant(I1, 0) if target in move.cleared else storage.valid(origin)
        valid.append((target, gone))
    for field, value in values:
        storage.store(field, value)
        data.forget(field)
    for header, value in valid:
        storage.set_valid(header, value)


# Clone, resubmit, recirculate, truncate and digest in machine code; abi.py says how the driver reads them.


@dataclass(frozen=True)
class PathSlots:
    """Slots (i64) of the requests that primitives make and that are served after the pipeline."""

    clone: Value
    clone_list: Value
    resubmit: Value
    recirculate: Value
    digest: Value
    truncate: Value

    @classmethod
    def make(cls, storage: FieldStorage) -> "PathSlots":
        """Makes slots that hold no request."""
        zero = number(64, 0)
        clone, clone_list, resubmit, recirculate, digest = (storage.slot(I64, zero) for _ in range(5))
        truncate = storage.slot(I64, number(64, abi.NO_TRUNCATION))
        return cls(clone, clone_list, resubmit, recirculate, digest, truncate)


def note(context: FunctionContext, data: DataLowering, primitive: model.PathPrimitive) -> None:
    """Stores the request of a primitive."""
    b, notes = context.builder, context.notes
    match primitive:
        case model.Clone(session, field_list):
            b.store(b.or_(data.number(session, 64), number(64, abi.CLONE_VALID)), notes.clone)
            b.store(b.and_(b.load(notes.clone, typ=I64), number(64, 0xFFFF)), notes.clone)
            b.store(number(64, field_list), notes.clone_list)
        case model.Resubmit(field_list):
            b.store(number(64, field_list), notes.resubmit)
        case model.Recirculate(field_list):
            b.store(number(64, field_list), notes.recirculate)
        case model.GenerateDigest(learn_list):
            b.store(number(64, learn_list), notes.digest)
        case model.Truncate(length):
            wanted, before = data.number(length, 64), b.load(notes.truncate, typ=I64)
            b.store(b.select(b.icmp_unsigned("<", wanted, before), wanted, before), notes.truncate)


# --- the cells of io


def load_io(context: FunctionContext, io: Value, cell: int) -> Value:
    """Returns a cell of ``io`` as i64."""
    return context.builder.load(byte_offset(context.builder, io, 8 * cell), align=8, typ=I64)


def store_io(context: FunctionContext, io: Value, cell: int, value: Value) -> None:
    """Sets a cell of ``io``."""
    context.builder.store(value, byte_offset(context.builder, io, 8 * cell), align=8)


def store_note(context: FunctionContext, io: Value, cell: int, slot: Value) -> None:
    """Sets a cell of ``io`` to the value of a slot."""
    store_io(context, io, cell, context.builder.load(slot, typ=I64))


def _address(context: FunctionContext, io: Value, cell: int) -> Value:
    return context.builder.load(byte_offset(context.builder, io, 8 * cell), align=8, typ=POINTER)


# --- fields that copies keep


def keep_fields(context: FunctionContext, io: Value, slots: Iterable[Value]) -> None:
    """Stores the fields that copies keep, if one of the slots is not 0."""
    b, layout = context.builder, KeptLayout.of(context.program)
    wanted = number(64, 0)
    for slot in slots:
        wanted = b.or_(wanted, b.load(slot, typ=I64))
    with b.if_then(b.icmp_unsigned("!=", wanted, number(64, 0)), likely=False):
        buffer = _address(context, io, abi.KEPT_ADDRESS)
        for field, at in layout.offsets.items():
            store_cell(b, byte_offset(b, buffer, at), context.storage.load(field), field.width)


def recall_fields(context: FunctionContext, io: Value) -> None:
    """Sets the fields of the list that IN_FIELD_LIST names to the values that an earlier pass stored."""
    b, layout = context.builder, KeptLayout.of(context.program)
    wanted = load_io(context, io, abi.IN_FIELD_LIST)
    for field_list in context.program.field_lists.values():
        if not field_list.fields or any(f not in layout.offsets for f in field_list.fields):
            continue  # nothing to set, or no primitive names the list
        with b.if_then(b.icmp_unsigned("==", wanted, number(64, field_list.id)), likely=False):
            buffer = _address(context, io, abi.KEPT_ADDRESS)
            for field in field_list.fields:
                at = byte_offset(b, buffer, layout.offsets[field])
                context.storage.store(field, load_cell(b, at, field.width))


def reset_metadata(context: FunctionContext) -> None:
    """Zeroes every metadata field."""
    for header in context.program.headers.values():
        if header.metadata:
            for field in context.storage.fields_of(header.name):
                context.storage.zero(field)


# --- egress clones


def store_egress_clone(context: FunctionContext, io: Value, layout: phv.PhvLayout) -> None:
    """If egress cloned, stores the packet at CLONE_ADDRESS, with metadata reset except those in its field list."""
    b, notes = context.builder, context.notes
    with b.if_then(b.icmp_unsigned("!=", b.load(notes.clone, typ=I64), number(64, 0)), likely=False):
        buffer = _address(context, io, abi.CLONE_ADDRESS)
        priority = context.program.intrinsic("priority")
        kept = number(64, 0) if priority is None else resize(b, _cloned(context, priority), 64)
        store_io(context, io, abi.EG_OUT_CLONE_PRIORITY, kept)
        lengths = {
            phv.INGRESS_LENGTH: context.ingress_length,
            phv.PACKET_LENGTH: b.load(context.packet_length, typ=I64),
            phv.RECIRCULATE: number(64, 0),
            phv.TRUNCATE: number(64, abi.NO_TRUNCATION),
        }
        for at, value in lengths.items():
            b.store(value, byte_offset(b, buffer, at), align=1)
        for field, at in layout.fields.items():
            value = _cloned(context, field)
            store_cell(b, byte_offset(b, buffer, at), value, field.width)
        for header, at in layout.valid.items():
            b.store(resize(b, context.storage.valid(header), 8), byte_offset(b, buffer, at), align=1)
        payload, length = context.payload()
        b.store(length, byte_offset(b, buffer, phv.PAYLOAD_LENGTH), align=1)
        copy_bytes(b, byte_offset(b, buffer, layout.payload), payload, length)


def _cloned(context: FunctionContext, field: model.FieldRef) -> Value:
    """Returns a field's value in an egress clone: 0 for metadata that the clone's field list does not name."""
    b, value = context.builder, context.storage.load(field)
    if not context.program.headers[field.header].metadata:
        return value
    listed = number(1, 0)
    for field_list in context.program.field_lists.values():
        if field in field_list.fields:
            chosen = b.load(context.notes.clone_list, typ=I64)
            listed = b.or_(listed, b.icmp_unsigned("==", chosen, number(64, field_list.id)))
    return b.select(listed, value, ir.Constant(value.type, None))


MOST_ROW_BYTES = 1 << 14
"""Longest row of registers, in bytes, that is processed block by block; this takes as many bytes of stack."""


@dataclass(frozen=True)
class LaneRun:
    """Consecutive statements in which no lane depends on another, on fields of one width and registers of one row.

    Attributes:
        primitives: Assign, RegisterRead, RegisterWrite; no register is read twice, or read after it is written.
        width: bits of all fields and of the registers.
        group, index: the row of registers; ``group`` is None if the run uses no register.
        reads: maps each register that is read to the field that receives its value; no earlier statement assigns to
            that field.
    """

    primitives: tuple[model.Primitive, ...]
    width: int
    group: int | None
    index: model.DataExpr
    reads: Mapping[str, model.FieldRef]

    @classmethod
    def of(cls, data: DataLowering, primitives: Sequence[model.Primitive]) -> "LaneRun | None":
        """Returns the longest run at the start of ``primitives``, or None; records its effect on fields in ``data``."""
        layout = data.context.layout
        width, run, assigned, reads, touched = (
            0,
            list[model.Primitive](),
            set[model.FieldRef](),
            dict[str, model.FieldRef](),
            set[str](),
        )
        group: int | None = None
        index: model.DataExpr = model.Const(0)
        for primitive in primitives:
            register: str | None = None
            at, size = index, width
            match primitive:
                case model.Assign() if is_lanes(primitive.target) and not primitive.target.signed:
                    size = primitive.target.width
                    fits = data.stays(primitive.value, size)
                case model.RegisterRead() if is_lanes(primitive.target) and not primitive.target.signed:
                    register, at, size = primitive.register, primitive.index, primitive.target.width
                    fits = register not in touched and primitive.target not in assigned
                case model.RegisterWrite() if run:
                    register, at = primitive.register, primitive.index
                    fits = data.stays(primitive.value, size)
                case _:
                    break
            if register is not None:
                place = layout.registers[register].group
                fits = fits and size == data.context.program.registers[register].width
                fits = fits and (group is None or (group == place and index == at))
                fits = fits and layout.groups[place].stride <= MOST_ROW_BYTES
            if not fits or width not in (0, size) or not (assigned | set(reads.values())).isdisjoint(model.walk(at)):
                break
            width = size
            run.append(primitive)
            if register is not None:
                group, index = layout.registers[register].group, at
                touched.add(register)
            if isinstance(primitive, model.Assign):
                assigned.add(primitive.target)
                data.learn(primitive.target, primitive.value)
            elif isinstance(primitive, model.RegisterRead):
                reads[primitive.register] = primitive.target
                data.forget(primitive.target)
        if not any(isinstance(primitive, model.Assign) for primitive in run):
            return None  # a copy between a cell and a field is a single move already
        return cls(tuple(run), width, group, index, reads)


INDEX_BITS = 32
"""BMv2 takes register and counter indices modulo 2**32."""


class ActionLowering:
    """Lowers the primitives of one action, or one primitive of the parser, at the builder's position."""

    def __init__(
        self, context: FunctionContext, where: str, parameters: Mapping[int, Callable[[int], Value]] | None = None
    ) -> None:
        self._context = context
        self._builder = context.builder
        self._data = DataLowering(context, where, parameters)

    def lower(self, action: model.Action) -> None:
        """Lowers all primitives; leaves the builder after them."""
        primitives = action.primitives
        targets = {p.to for p in primitives if isinstance(p, model.Jump | model.JumpIfZero)}
        blocks = {at: self._context.block(f"step{at}") for at in sorted(targets)}
        done = 0  # number of lowered primitives
        for at, primitive in enumerate(primitives):
            if at in blocks:
                self._enter(blocks[at])
            if at < done:
                continue
            end = min((target for target in blocks if target > at), default=len(primitives))
            run = LaneRun.of(self._data, primitives[at:end])
            if run is not None:
                self._run(run)
                done = at + len(run.primitives)
                continue
            match primitive:
                case model.Jump(to=to):
                    if to <= at:
                        self._context.step()
                    self._builder.branch(blocks[to])
                    self._builder.position_at_end(self._context.block("unreached"))
                case model.JumpIfZero(condition=condition, to=to):
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

    def _zero(self, condition: model.DataExpr) -> Value:
        value, _ = self._data.exact(condition)
        return self._builder.icmp_unsigned("==", value, number(value.type.width, 0))

    def primitive(self, primitive: model.Primitive) -> None:
        """Lowers one primitive that is not a jump."""
        match primitive:
            case model.Assign(target=target, value=value):
                self._data.assign(target, value)
            case model.AssignHeader(target=target, origin=origin):
                self._assign_header(target, origin)
            case model.AddHeader(header=header):
                self._add_header(header)
            case model.RemoveHeader(header=header):
                self._remove_header(header)
            case model.MarkToDrop(header=header):
                self._mark_to_drop(header)
            case model.Count(counter=counter, index=index):
                self._count(counter, index)
            case model.RegisterRead(target=target, register=register, index=index):
                self._register_read(target, register, index)
            case model.RegisterWrite(register=register, index=index, value=value):
                self._register_write(register, index, value)
            case model.Hash():
                self._hash(primitive)
            case model.ExecuteMeter(target=target, meter=meter, index=index):
                self._execute_meter(target, meter, index)
            case model.Clone() | model.Resubmit() | model.Recirculate() | model.Truncate() | model.GenerateDigest():
                note(self._context, self._data, primitive)
            case model.Exit():
                self._builder.store(ir.Constant(I1, 1), self._context.exit_flag)
            case model.Assertion(condition=condition):
                failed = self._builder.not_(self._data.condition(condition))
                cell = self._context.cell_address(self._context.layout.failed_assertions)
                self._context.add_to(cell, resize(self._builder, failed, 64))
            case model.Random():
                lower_random(self._context, self._data, primitive)
            case model.MoveHeaders():
                move_headers(self._context, self._data, primitive)
            case model.Several(primitives=steps):
                for step in steps:
                    self.primitive(step)
            case model.OneOf():
                lower_one_of(self._context, self._data, primitive, self.primitive)
            case model.LogMessage():
                pass  # machine code writes no log messages
            case _:
                raise AssertionError(f"not a primitive that stands alone: {primitive}")

    # --- lanes, block by block

    def _run(self, run: LaneRun) -> None:
        """Runs all primitives on each block in turn. An index out of range uses a scratch row in place of a cell."""
        b, storage, context = self._builder, self._context.storage, self._context
        row = None
        if run.group is not None:
            inside, address = self._register_row(run.group, run.index)
            within, beyond, ready = (context.block(f"lanes_{name}") for name in ("within", "beyond", "ready"))
            b.cbranch(inside, within, beyond)
            b.position_at_end(within)
            true_row = address()
            b.branch(ready)
            b.position_at_end(beyond)
            false_row = storage.scratch(context.layout.groups[run.group].stride)
            for register, target in run.reads.items():  # so that the field keeps its value
                cell = byte_offset(b, false_row, context.layout.registers[register].offset)
                for block in blocks_of(run.width):
                    store_block(b, cell, block, storage.load_block(target, block))
            b.branch(ready)
            b.position_at_end(ready)
            row = b.phi(POINTER)
            row.add_incoming(true_row, within)
            row.add_incoming(false_row, beyond)
        for block in blocks_of(run.width):
            self._run_block(run, block, row)

    def _run_block(self, run: LaneRun, block: LaneBlock, row: Value) -> None:
        b, storage, places = self._builder, self._context.storage, self._context.layout.registers
        words = BlockWords(b, block, lambda field: storage.load_block(field, block))
        for primitive in run.primitives:
            match primitive:
                case model.Assign(target=target, value=value):
                    word = words.of(value)
                    storage.store_block(target, block, word.value)
                    words.hold(target, word)
                case model.RegisterRead(target=target, register=register):
                    held = load_block(b, byte_offset(b, row, places[register].offset), block)
                    storage.store_block(target, block, held)
                    words.hold(target, held)
                case model.RegisterWrite(register=register, value=value):
                    store_block(b, byte_offset(b, row, places[register].offset), block, words.of(value).value)

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
                if field.name != model.LENGTH_FIELD:  # a varbit field keeps its length, as in BMv2
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
        self._data.assign(fields["egress_spec"], model.Const(DROP_PORT))
        if "mcast_grp" in fields:
            self._data.assign(fields["mcast_grp"], model.Const(0))

    # --- externs

    def _count(self, counter: str, index: model.DataExpr) -> None:
        b, context = self._builder, self._context
        spec = context.program.counters[counter]
        if spec.size == 0:
            return
        at = self._data.number(index, INDEX_BITS)
        with b.if_then(b.icmp_unsigned("<", at, number(INDEX_BITS, spec.size)), likely=True):
            cells = context.state_pointer(context.layout.counters[counter])
            count_packet(context, byte_offset(b, cells, b.shl(resize(b, at, 64), number(64, 4))))

    def _execute_meter(self, target: model.FieldRef, meter: str, index: model.DataExpr) -> None:
        b, context = self._builder, self._context
        spec = context.program.meters[meter]
        at = self._data.number(index, INDEX_BITS)
        with b.if_then(b.icmp_unsigned("<", at, number(INDEX_BITS, spec.size)), likely=True):
            cell = meter_cell(context, context.state_pointer(context.layout.meters[meter]), resize(b, at, 64))
            self._data.store_integer(target, resize(b, execute_meter(context, cell, spec.unit), target.width))

    def _register_read(self, target: model.FieldRef, register: str, index: model.DataExpr) -> None:
        b = self._builder
        spec = self._context.program.registers[register]
        inside, cell = self._register_cell(register, index)
        with b.if_then(inside, likely=True):
            value = load_cell(b, cell(), spec.width)
            self._data.store(target, self._converted(value, spec.width, target))

    def _register_write(self, register: str, index: model.DataExpr, value: model.DataExpr) -> None:
        b = self._builder
        spec = self._context.program.registers[register]
        wide = cell_kind(spec.width) == "lanes"
        inside, cell = self._register_cell(register, index)
        with b.if_then(inside, likely=True):
            number_or_lanes = self._data.lanes(value, spec.width) if wide else self._data.number(value, spec.width)
            store_cell(b, cell(), number_or_lanes, spec.width)

    def _register_cell(self, register: str, index: model.DataExpr) -> tuple[Value, Callable[[], Value]]:
        """Returns whether the index is within the array, and a function that makes the cell's address."""
        place = self._context.layout.registers[register]
        inside, row = self._register_row(place.group, index)
        return inside, lambda: byte_offset(self._builder, row(), place.offset)

    def _register_row(self, number_of_group: int, index: model.DataExpr) -> tuple[Value, Callable[[], Value]]:
        """Returns whether the index is within a group of registers, and a function that makes the row's address."""
        b, context = self._builder, self._context
        group = context.layout.groups[number_of_group]
        at = self._data.number(index, INDEX_BITS)

        def address() -> Value:
            rows = context.state_pointer(context.layout.group_cell(number_of_group))
            return byte_offset(b, rows, b.mul(resize(b, at, 64), number(64, group.stride)))

        return b.icmp_unsigned("<", at, number(INDEX_BITS, group.size)), address

    def _converted(self, value: Value, width: int, target: model.FieldRef) -> Value:
        """Converts a register's value to the form in which a field of another width is kept."""
        from_lanes, to_lanes = cell_kind(width) == "lanes", is_lanes(target)
        if from_lanes and to_lanes and width == target.width:
            return value
        b = self._builder
        whole = lanes_to_integer(b, value, target.width) if from_lanes else resize(b, value, target.width)
        return integer_to_lanes(b, whole, target.width) if to_lanes else whole

    def _hash(self, primitive: model.Hash) -> None:
        b, data = self._builder, self._data
        base, size = data.number(primitive.base, 64), data.number(primitive.size, 64)
        divisor = b.select(b.icmp_unsigned("==", size, number(64, 0)), number(64, 1), size)
        hashed = HashLowering(self._context, self._context.program.calculations[primitive.calculation]).result()
        value = b.add(b.urem(hashed, divisor), base)
        data.store_integer(primitive.target, resize(b, value, primitive.target.width))


def count_packet(context: FunctionContext, cell: Value) -> None:
    """Adds a packet and its ingress length to a counter cell."""
    context.add_to(cell, number(64, 1))
    context.add_to(byte_offset(context.builder, cell, 8), context.ingress_length)
