"""Machine code of a program's two functions, whose interface abi.py describes, and of the parser."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from llvmlite import ir

from p4switch import abi
from p4switch.abi import DROP_PORT
from p4switch.compiler import actions
from p4switch.compiler import data as phv
from p4switch.compiler.actions import ActionLowering
from p4switch.compiler.data import DataLowering, FieldNeeds, PhvLayout, wide_header_fields
from p4switch.compiler.hashing import HashLowering
from p4switch.compiler.lanes import FunctionContext
from p4switch.compiler.storage import (
    I1,
    I8,
    I64,
    POINTER,
    FieldStorage,
    Value,
    bits_of,
    byte_offset,
    chunks,
    copy_bytes,
    header_bytes,
    load_cell,
    number,
    read_chunk,
    read_header,
    read_varbit_header,
    resize,
    store_cell,
    write_header,
    write_varbit_header,
    zero_bytes,
)
from p4switch.compiler.tables import PipelineLowering
from p4switch.program import program as model
from p4switch.program.loader import key_width
from p4switch.state.layout import StateLayout, value_words


class ParserLowering:
    """Emits the parser at the builder's position; leaves the builder after it.

    Attributes:
        offset: slot (i64) of the number of extracted bytes.
        error: slot (i64) of the error code.
    """

    def __init__(self, context: FunctionContext, frame: Value, length: Value) -> None:
        self._context = context
        self._builder = context.builder
        self._frame = frame
        self._length = length
        self.offset = context.storage.slot(I64, number(64, 0))
        self.error = context.storage.slot(I64, number(64, context.program.error_code("NoError")))
        self._idle_steps = context.storage.slot(I64, number(64, 0))
        self._blocks: dict[str, Value] = {}
        self._end: Value = None

    def lower(self) -> None:
        """Lowers all states that can be reached."""
        b, parser = self._builder, self._context.program.parser
        self._end = self._context.block("parsed")
        b.branch(self._block(parser.start))
        done: set[str] = set()
        while remaining := [name for name in self._blocks if name not in done]:
            for name in remaining:
                done.add(name)
                b.position_at_end(self._blocks[name])
                self._state(parser.states[name])
        b.position_at_end(self._end)

    def _block(self, state: str | None) -> Value:
        if state is None:
            return self._end
        if state not in self._blocks:
            self._blocks[state] = self._context.block(f"parse_{state}")
        return self._blocks[state]

    def _watch(self) -> None:
        """Counts a visit to a state of a loop that may extract nothing; too many fail with ParserTimeout."""
        b = self._builder
        steps = b.add(b.load(self._idle_steps, typ=I64), number(64, 1))
        b.store(steps, self._idle_steps)
        few = b.icmp_unsigned("<=", steps, number(64, model.MOST_IDLE_STEPS))
        self._fail_unless(few, self._code("ParserTimeout"))

    def _state(self, state: model.ParserState) -> None:
        if state.name in self._context.program.parser.watched:
            self._watch()
        for operation in state.operations:
            self._operation(operation, state)
        self._select(state)

    def _operation(self, operation: model.ParserOp, state: model.ParserState) -> None:
        where = f"parser state {state.name!r}"
        match operation:
            case model.Extract(header, length):
                self._extract(header, length, where)
            case model.ExtractNext():
                self._extract_next(operation, where)
            case model.Set(target, value):
                if isinstance(value, model.Lookahead):
                    self._require(number(64, -(-value.width // 8)))
                self._data(where).assign(target, value)
            case model.Verify(condition, error):
                holds = self._data(where).condition(condition)
                self._fail_unless(holds, lambda: self._data(where).number(error, 64))
            case model.Advance(bits):
                self._advance(self._data(where).number(bits, 64))
            case model.Run(primitive):
                ActionLowering(self._context, where).primitive(primitive)

    def _data(self, where: str) -> DataLowering:
        return DataLowering(self._context, where, lookahead=self._look)

    def _extract_next(self, operation: model.ExtractNext, where: str) -> None:
        """Emits a case for each element of the stack."""
        b, storage = self._builder, self._context.storage
        at = storage.load(operation.next)
        full = b.icmp_unsigned(">=", at, number(at.type.width, len(operation.headers)))
        self._fail_unless(b.not_(full), self._code("StackOutOfBounds"))
        done = self._context.block("extracted")
        choice = b.switch(at, done)
        for i, header in enumerate(operation.headers):
            block = self._context.block(f"extract_{header}")
            choice.add_case(number(at.type.width, i), block)
            b.position_at_end(block)
            self._extract(header, operation.length, where)
            b.branch(done)
        b.position_at_end(done)
        storage.store(operation.next, b.add(at, number(at.type.width, 1)))

    def _extract_varbit(self, header: model.Header, length: model.DataExpr, where: str) -> None:
        """Extracts a header with a varbit field; the size check also counts its old varbit length, as in BMv2."""
        b, storage = self._builder, self._context.storage
        bits = self._data(where).number(length, 64)
        whole = b.icmp_unsigned("==", b.and_(bits, number(64, 7)), number(64, 0))
        right = b.and_(whole, b.icmp_unsigned("<=", bits, number(64, model.MAX_VARBIT)))
        self._fail_unless(right, self._code("ParserInvalidArgument"))
        octets = b.lshr(bits, number(64, 3))
        size = b.add(header_bytes(b, storage, header), octets)
        self._require(size)
        fits = b.icmp_unsigned("<=", size, number(64, header.most_bytes))
        self._fail_unless(fits, self._code("HeaderTooShort"))
        read_varbit_header(b, storage, byte_offset(b, self._frame, self._position()), header, octets)
        storage.mark_valid(header.name, ir.Constant(I1, 1))
        self._move(b.add(octets, number(64, header.bytes)))

    def _extract(self, header: str, length: model.DataExpr | None, where: str) -> None:
        context, kind = self._context, self._context.program.headers[header]
        if length is not None:
            self._extract_varbit(kind, length, where)
            return
        self._require(number(64, kind.bytes))
        at = self._position()

        def give(field: model.Field, value: Value) -> None:
            context.storage.store(kind.ref(field), value)

        read_header(self._builder, byte_offset(self._builder, self._frame, at), kind.type, give)
        if not kind.metadata:
            context.storage.mark_valid(header, ir.Constant(I1, 1))
        self._move(number(64, kind.bytes))

    def _advance(self, bits: Value) -> None:
        b = self._builder
        whole = b.icmp_unsigned("==", b.and_(bits, number(64, 7)), number(64, 0))
        self._fail_unless(whole, self._code("ParserInvalidArgument"))
        octets = b.lshr(bits, number(64, 3))
        self._require(octets)
        self._move(octets)

    def _position(self) -> Value:
        return self._builder.load(self.offset, typ=I64)

    def _move(self, octets: Value) -> None:
        self._builder.store(self._builder.add(self._position(), octets), self.offset)

    def _remaining(self) -> Value:
        return self._builder.sub(self._length, self._position())

    def _require(self, octets: Value) -> None:
        """Fails with PacketTooShort unless ``octets`` bytes are left."""
        enough = self._builder.icmp_unsigned("<=", octets, self._remaining())
        self._fail_unless(enough, self._code("PacketTooShort"))

    def _code(self, name: str) -> Callable[[], Value]:
        return lambda: number(64, self._context.program.error_code(name))

    def _fail_unless(self, condition: Value, code: Callable[[], Value]) -> None:
        """Ends parsing with an error if the condition is false."""
        b = self._builder
        with b.if_then(b.not_(condition), likely=False):
            b.store(code(), self.error)
            b.branch(self._end)

    # --- looking ahead

    def _look(self, ahead: model.Lookahead) -> Value:
        """Returns bits ahead of the position; bytes past the packet's end read as 0 (in BMv2 they are undefined)."""
        b = self._builder
        first, within = divmod(ahead.offset, 8)
        size = -(-(within + ahead.width) // 8)
        buffer_type = ir.ArrayType(I8, size)
        buffer = self._context.storage.slot(buffer_type, ir.Constant(buffer_type, None))
        zero_bytes(b, buffer, size)
        left = b.sub(self._remaining(), number(64, first))
        left = b.select(b.icmp_signed("<", left, number(64, 0)), number(64, 0), left)
        taken = b.select(b.icmp_unsigned("<", left, number(64, size)), left, number(64, size))
        at = b.add(self._position(), number(64, first))
        copy_bytes(b, buffer, byte_offset(b, self._frame, at), taken)
        pieces = [(chunk, read_chunk(b, buffer, chunk)) for chunk in chunks(0, 8 * size)]
        return bits_of(b, pieces, within, ahead.width)

    # --- select

    def _select(self, state: model.ParserState) -> None:
        b = self._builder
        data = self._data(f"parser state {state.name!r}")
        keys, widths = [], [key_width(key) for key in state.keys]
        for key in state.keys:
            width = 1 if isinstance(key, model.Valid) else key.width
            padded = 8 * -(-width // 8)
            # The key is a signed field's bits, not its value: the padding is zeros.
            value = data.number(key.value if isinstance(key, model.ChosenKey) else key, width)
            keys.append(resize(b, resize(b, value, width), padded))
        for transition in state.transitions:
            if transition.is_default and not any(transition.values):
                b.branch(self._block(transition.next_state))
                return
            following = self._context.block("next_case")
            b.cbranch(self._fits(keys, widths, transition), self._block(transition.next_state), following)
            b.position_at_end(following)
        b.branch(self._end)

    def _in_value_set(self, keys: list[Value], widths: list[int], transition: model.Transition, name: str) -> Value:
        """Returns whether a member of a value set equals the concatenated keys in the bits that the mask has set."""
        b, context = self._builder, self._context
        total, packed, mask = sum(widths), None, 0
        for key, width, bits in zip(keys, widths, transition.masks, strict=True):
            part = resize(b, resize(b, key, width), total)
            packed = part if packed is None else b.or_(b.shl(packed, number(total, width)), part)
            mask = mask << width | bits & ((1 << width) - 1)
        cell, words = context.layout.value_sets[name], value_words(total)
        # The load is invariant though a state may be visited again: value sets change only between packets.
        rows, count = context.state_pointer(cell), context.state_number(cell + 1)
        before, loop, compare, following = b.block, *(context.block(f"value_{n}") for n in ("loop", "compare", "next"))
        done = context.block("value_done")
        b.branch(loop)
        b.position_at_end(loop)
        at = b.phi(I64)
        at.add_incoming(number(64, 0), before)
        b.cbranch(b.icmp_unsigned("<", at, count), compare, done)
        b.position_at_end(compare)
        row = byte_offset(b, rows, b.mul(at, number(64, 8 * words)))
        value = number(64 * words, 0)
        for i in range(words):
            word = b.load(byte_offset(b, row, 8 * i), align=8, typ=I64)
            value = b.or_(value, b.shl(resize(b, word, 64 * words), number(64 * words, 64 * i)))
        differs = b.and_(b.xor(resize(b, value, total), packed), number(total, mask))
        equal = b.icmp_unsigned("==", differs, number(total, 0))
        b.cbranch(equal, done, following)
        b.position_at_end(following)
        at.add_incoming(b.add(at, number(64, 1)), following)
        b.branch(loop)
        b.position_at_end(done)
        matched = b.phi(I1)
        matched.add_incoming(ir.Constant(I1, 0), loop)
        matched.add_incoming(ir.Constant(I1, 1), compare)
        return matched

    def _fits(self, keys: list[Value], widths: list[int], transition: model.Transition) -> Value:
        if transition.value_set is not None:
            return self._in_value_set(keys, widths, transition, transition.value_set)
        b = self._builder
        fits = ir.Constant(I1, 1)
        for key, value, mask in zip(keys, transition.values, transition.masks, strict=True):
            width = key.type.width
            masked = b.and_(key, number(width, mask))
            fits = b.and_(fits, b.icmp_unsigned("==", masked, number(width, value)))
        return fits


# The common part of a program's two functions.


class FunctionBuilder(ABC):
    """Base of the builders of ingress and egress."""

    def __init__(self, program: model.Program, layout: StateLayout, buffer: PhvLayout, module: Value) -> None:
        self._program = program
        self._layout = layout
        self._buffer = buffer
        self._module = module

    def _function(self, name: str, arguments: list[tuple[str, Value]]) -> Value:
        """Makes a function of (name, type) arguments that returns i64; its pointers' targets do not overlap."""
        kind = ir.FunctionType(I64, [t for _, t in arguments])
        function = ir.Function(self._module, kind, name)
        function.attributes.add("nounwind")
        for argument, (label, argument_type) in zip(function.args, arguments, strict=True):
            argument.name = label
            if argument_type is POINTER:
                argument.add_attribute("noalias")
        return function

    @abstractmethod
    def _payload(self) -> tuple[Value, Value]:
        """Returns address and length (i64) of the bytes that the parser did not extract."""

    def _context(self, builder: Value, state: Value, ingress_length: Value, packet_length: Value) -> FunctionContext:
        storage = FieldStorage(self._program, builder)
        length = storage.slot(I64, number(64, 0))
        context = FunctionContext(
            program=self._program,
            layout=self._layout,
            builder=builder,
            storage=storage,
            state=state,
            ingress_length=ingress_length,
            packet_length=length,
            exit_flag=storage.slot(I1, number(1, 0)),
            payload=self._payload,
            notes=actions.PathSlots.make(storage) if self._program.leaves_path else None,
        )
        start = context.block("start")
        builder.branch(start)
        builder.position_at_end(start)
        builder.store(packet_length, length)
        return context

    def _finish_endless(self, context: FunctionContext, io: Value, cells: Mapping[int, int], result: int) -> None:
        """Fills the block for packets that take too many steps, if there is one: counts them and drops them."""
        if context.endless is None:
            return
        b = context.builder
        b.position_at_end(context.endless)
        context.add_to(context.cell_address(context.layout.endless_packets), number(64, 1))
        for cell, value in cells.items():
            if cell >= abi.OUT_CLONE and not self._program.leaves_path:
                continue
            b.store(number(64, value), byte_offset(b, io, 8 * cell), align=8)
        b.ret(number(64, result))

    def _set_intrinsic(self, context: FunctionContext, name: str, value: Value) -> None:
        """Sets a field that the target writes, if the program has it; ``value`` is an i64."""
        field = self._program.intrinsic(name)
        if field is not None:
            context.storage.store(field, resize(context.builder, value, field.width))


def checksum_applies(context: FunctionContext, checksum: model.Checksum, applies: Value) -> Value:
    """Returns the conjunction of a checksum's condition and ``applies``."""
    if checksum.condition is None:
        return applies
    data = DataLowering(context, f"checksum {checksum.name!r}")
    return context.builder.and_(applies, data.condition(checksum.condition))


class EgressBuilder(FunctionBuilder):
    """Builds ``egress(state, phv, io, out)``."""

    def build(self) -> None:
        """Adds the function to the module."""
        function = self._function(
            abi.EGRESS_NAME,
            [("state", POINTER), ("phv", POINTER), ("io", POINTER), ("out", POINTER)],
        )
        state, buffer, io, out = function.args
        self._phv = buffer
        b = self._builder = ir.IRBuilder(function.append_basic_block("entry"))
        lengths = [
            b.load(byte_offset(b, buffer, at), align=1, typ=I64) for at in (phv.INGRESS_LENGTH, phv.PACKET_LENGTH)
        ]
        context = self._context(b, state, lengths[0], lengths[1])
        if self._program.meters:
            context.now = actions.load_io(context, io, abi.EG_TIME_US)
        if self._program.leaves_path:
            self._recall_notes(context, io)
        self._recall_fields(context)
        self._set_intrinsics(context, io, lengths[1])
        PipelineLowering(context, self._program.egress).lower()
        if self._program.leaves_path:
            self._store_notes(context, io)
        self._drop(context)
        self._update_checksums(context)
        if self._program.leaves_path:
            actions.keep_fields(context, io, (context.notes.recirculate,))
        self._deparse(context, out)
        self._finish_endless(context, io, abi.NOTHING_NOTED, -1)

    def _recall_notes(self, context: FunctionContext, io: Value) -> None:
        """Restores the requests that ingress made for the time after egress; they do not apply to copies."""
        b, notes = context.builder, context.notes
        itself = b.icmp_unsigned("==", actions.load_io(context, io, abi.EG_INSTANCE), number(64, abi.INSTANCE_NORMAL))
        recirculate, truncate = (
            b.load(byte_offset(b, self._phv, at), align=1, typ=I64) for at in (phv.RECIRCULATE, phv.TRUNCATE)
        )
        unlimited = number(64, abi.NO_TRUNCATION)
        b.store(b.select(itself, recirculate, number(64, 0)), notes.recirculate)
        b.store(b.select(itself, truncate, unlimited), notes.truncate)

    def _store_notes(self, context: FunctionContext, io: Value) -> None:
        notes = context.notes
        for cell, slot in (
            (abi.EG_OUT_CLONE, notes.clone),
            (abi.EG_OUT_CLONE_LIST, notes.clone_list),
            (abi.EG_OUT_RECIRCULATE, notes.recirculate),
        ):
            actions.store_note(context, io, cell, slot)
        actions.store_egress_clone(context, io, self._buffer)

    def _recall_fields(self, context: FunctionContext) -> None:
        b, buffer = context.builder, self._phv
        in_place = set(wide_header_fields(self._program)) - self._written()
        for field, at in self._buffer.fields.items():
            pointer = byte_offset(b, buffer, at)
            if field in in_place:
                context.storage.place(field, pointer)
            else:
                context.storage.store(field, load_cell(b, pointer, field.width))
        for header, at in self._buffer.valid.items():
            valid = b.load(byte_offset(b, buffer, at), align=1, typ=I8)
            context.storage.set_valid(header, b.trunc(valid, I1))

    def _written(self) -> set[model.FieldRef]:
        """Returns the fields that egress or checksums may change; they are copied because copies share the buffer."""
        changed = {c.target for c in self._program.checksums if c.update}
        ids = [ident for table in self._program.egress.tables.values() for ident in table.actions]
        for primitive in phv.primitives_of(self._program, ids):
            target = model.target_of(primitive)
            if target is not None:
                changed.add(target)
            match primitive:
                case model.AssignHeader(target=header) | model.AddHeader(header=header):
                    changed.update(self._program.headers[header].refs)
                case model.MoveHeaders(targets=headers):
                    changed.update(*(self._program.headers[header].refs for header in headers))
        return changed

    def _set_intrinsics(self, context: FunctionContext, io: Value, packet_length: Value) -> None:
        cells = {
            "egress_port": abi.EG_PORT,
            "egress_rid": abi.EG_RID,
            "instance_type": abi.EG_INSTANCE,
            "egress_global_timestamp": abi.EG_TIME_US,
        }
        queueing = {
            "enq_timestamp": abi.EG_ENQ_TIME_US,
            "enq_qdepth": abi.EG_ENQ_QDEPTH,
            "deq_timedelta": abi.EG_DEQ_TIMEDELTA_US,
            "deq_qdepth": abi.EG_DEQ_QDEPTH,
        }
        if all(self._program.intrinsic(name) is not None for name in queueing):
            cells |= queueing  # simple_switch sets all of these fields or none
        for name, cell in cells.items():
            self._set_intrinsic(context, name, actions.load_io(context, io, cell))
        self._set_intrinsic(context, "packet_length", packet_length)
        # One more than the drop port, cut to 9 bits, as in simple_switch.cpp, egress_thread.
        self._set_intrinsic(context, "egress_spec", number(64, DROP_PORT + 1))

    def _drop(self, context: FunctionContext) -> None:
        b, field = context.builder, self._program.intrinsic("egress_spec")
        if field is not None:
            value = context.storage.load(field)
            with b.if_then(b.icmp_unsigned("==", value, number(field.width, DROP_PORT)), likely=False):
                b.ret(number(64, -1))

    def _update_checksums(self, context: FunctionContext) -> None:
        b = context.builder
        for checksum in self._program.checksums:
            if checksum.update:
                with b.if_then(checksum_applies(context, checksum, number(1, 1))):
                    computed = HashLowering(context, self._program.calculations[checksum.calculation]).result()
                    context.storage.store(checksum.target, resize(b, computed, checksum.target.width))

    def _deparse(self, context: FunctionContext, out: Value) -> None:
        b, storage = context.builder, context.storage
        offset = storage.slot(I64, number(64, 0))
        for name in self._program.deparser:
            header = self._program.headers[name]

            def take(field: model.Field, header: model.Header = header) -> Value:
                return storage.load(header.ref(field))

            with b.if_then(storage.valid(name)):
                at = b.load(offset, typ=I64)
                if header.type.varbit is None:
                    write_header(b, byte_offset(b, out, at), header.type, take)
                else:
                    write_varbit_header(b, storage, byte_offset(b, out, at), header)
                b.store(b.add(at, header_bytes(b, storage, header)), offset)
        at = b.load(offset, typ=I64)
        payload, length = self._payload()
        copy_bytes(b, byte_offset(b, out, at), payload, length)
        whole = b.add(at, length)
        if self._program.leaves_path:
            leaves = b.icmp_unsigned("==", b.load(context.notes.recirculate, typ=I64), number(64, 0))
            limit = b.load(context.notes.truncate, typ=I64)
            whole = b.select(b.and_(leaves, b.icmp_unsigned("<", limit, whole)), limit, whole)
        b.ret(whole)

    def _payload(self) -> tuple[Value, Value]:
        b = self._builder
        length = b.load(byte_offset(b, self._phv, phv.PAYLOAD_LENGTH), align=1, typ=I64)
        return byte_offset(b, self._phv, self._buffer.payload), length


class IngressBuilder(FunctionBuilder):
    """Builds ``ingress(state, frame, length, io, phv)``."""

    def build(self) -> None:
        """Adds the function to the module."""
        function = self._function(
            abi.INGRESS_NAME,
            [
                ("state", POINTER),
                ("frame", POINTER),
                ("length", I64),
                ("io", POINTER),
                ("phv", POINTER),
            ],
        )
        state, frame, length, io, buffer = function.args
        self._frame, self._length, self._io_array, self._phv = frame, length, io, buffer
        b = self._builder = ir.IRBuilder(function.append_basic_block("entry"))
        self._instance = b.load(byte_offset(b, io, 8 * abi.IN_INSTANCE), align=8, typ=I64)
        context = self._context(b, state, length, length)
        if self._program.meters:
            context.now = actions.load_io(context, io, abi.IN_TIME_US)
        with b.if_then(b.icmp_unsigned(">", length, number(64, abi.MAX_FRAME_BYTES)), likely=False):
            b.ret(number(64, -1))
        for field in wide_header_fields(self._program):
            context.storage.place(field, byte_offset(b, buffer, self._buffer.fields[field]))
        late = self._zero_wide_fields_early(context)
        self._set_intrinsics(context, io)
        parser = self._parser = ParserLowering(context, frame, length)
        parser.lower()
        self._zero_wide_fields_late(context, late)
        if self._program.leaves_path:
            self._finish_clone(context)
        self._set_intrinsic(context, "parser_error", b.load(parser.error, typ=I64))
        self._verify_checksums(context)
        PipelineLowering(context, self._program.ingress).lower()
        self._finish(context)
        self._finish_endless(context, io, abi.INGRESS_DROPS, 0)

    def _is(self, instance: int) -> Value:
        return self._builder.icmp_unsigned("==", self._instance, number(64, instance))

    def _set_intrinsics(self, context: FunctionContext, io: Value) -> None:
        values = {
            "ingress_port": actions.load_io(context, io, abi.IN_PORT),
            "ingress_global_timestamp": actions.load_io(context, io, abi.IN_TIME_US),
            "packet_length": self._length,
            "instance_type": self._instance,
        }
        if self._program.leaves_path:
            self._recall(context, values)
        for name, value in values.items():
            self._set_intrinsic(context, name, value)

    def _recall(self, context: FunctionContext, values: dict[str, Value]) -> None:
        """Sets the metadata of copies: a clone keeps its ingress port, other copies the fields of their list."""
        b, zero = context.builder, number(64, 0)
        normal, clone = self._is(abi.INSTANCE_NORMAL), self._is(abi.INSTANCE_INGRESS_CLONE)
        for name in ("packet_length", "instance_type"):
            values[name] = b.select(clone, zero, values[name])
        for name, known in (("ingress_port", b.or_(normal, clone)), ("ingress_global_timestamp", normal)):
            self._set_intrinsic(context, name, b.select(known, values.pop(name), zero))
        with b.if_then(b.not_(b.or_(normal, clone)), likely=False):
            actions.recall_fields(context, self._io_array)

    def _finish_clone(self, context: FunctionContext) -> None:
        """Ends an ingress clone after the parser; resets its metadata except the fields of its field list."""
        b = context.builder
        with b.if_then(self._is(abi.INSTANCE_INGRESS_CLONE), likely=False):
            actions.reset_metadata(context)
            actions.recall_fields(context, self._io_array)
            self._set_intrinsic(context, "instance_type", self._instance)
            self._store_outcome(context, "priority", abi.OUT_PRIORITY)
            self._keep(context)

    def _zero_wide_fields_early(self, context: FunctionContext) -> list[str]:
        """Zeroes wide fields that the parser may read before it extracts them; returns headers to zero afterwards."""
        needs = FieldNeeds(self._program)
        states = self._program.parser.states.values()
        plain = all(not isinstance(op, model.Run) for state in states for op in state.operations)
        for state in states:
            for key in state.keys:
                needs.expression(key.value if isinstance(key, model.ChosenKey) else key)
            for op in state.operations:
                for name in ("value", "condition", "error", "bits", "length"):
                    needs.expression(getattr(op, name, None))
        late = []
        for header in dict.fromkeys(f.header for f in wide_header_fields(self._program)):
            wide = [f for f in wide_header_fields(self._program) if f.header == header]
            alone = not self._program.headers[header].siblings
            if plain and alone and self._extracted(header) and not any(f in needs.fields for f in wide):
                late.append(header)
            else:
                self._zero(context, wide)
        return late

    def _extracted(self, header: str) -> bool:
        states = self._program.parser.states.values()
        return any(isinstance(op, model.Extract) and op.header == header for s in states for op in s.operations)

    def _zero_wide_fields_late(self, context: FunctionContext, headers: list[str]) -> None:
        """Zeroes the wide fields of those ``headers`` that were not extracted."""
        b = context.builder
        for header in headers:
            with b.if_then(b.not_(context.storage.valid(header))):
                self._zero(context, [f for f in wide_header_fields(self._program) if f.header == header])

    def _zero(self, context: FunctionContext, fields: list[model.FieldRef]) -> None:
        for field in fields:
            zero_bytes(context.builder, context.storage.address(field), field.width // 8)

    def _verify_checksums(self, context: FunctionContext) -> None:
        b = context.builder
        wrong = context.storage.slot(I1, number(1, 0))
        for checksum in self._program.checksums:
            # BMv2 does not verify checksums if the program has no start state.
            if not checksum.verify or self._program.parser.start is None:
                continue
            with b.if_then(checksum_applies(context, checksum, context.storage.valid(checksum.target.header))):
                data = DataLowering(context, f"checksum {checksum.name!r}")
                computed = HashLowering(context, self._program.calculations[checksum.calculation]).result()
                differs = b.icmp_unsigned("!=", computed, data.number(checksum.target, 64))
                b.store(b.or_(b.load(wrong, typ=I1), differs), wrong)
        self._set_intrinsic(context, "checksum_error", resize(b, b.load(wrong, typ=I1), 64))

    def _finish(self, context: FunctionContext) -> None:
        """Stores the outcome for the driver, and keeps the packet unless it is dropped."""
        b = context.builder
        outcome = {}
        for name, cell in (
            ("egress_spec", abi.OUT_EGRESS_SPEC),
            ("mcast_grp", abi.OUT_MCAST_GRP),
            ("priority", abi.OUT_PRIORITY),
        ):
            outcome[name] = self._store_outcome(context, name, cell)
        if self._program.leaves_path:
            self._store_notes(context)
        packet_length = b.load(context.packet_length, typ=I64)
        b.store(packet_length, byte_offset(b, self._io_array, 8 * abi.EG_LENGTH), align=8)
        no_group = b.icmp_unsigned("==", outcome["mcast_grp"], number(64, 0))
        dropped = b.and_(no_group, b.icmp_unsigned("==", outcome["egress_spec"], number(64, DROP_PORT)))
        with b.if_then(dropped):
            b.ret(number(64, 0))
        self._keep(context)

    def _store_outcome(self, context: FunctionContext, name: str, cell: int) -> Value:
        b, field = context.builder, self._program.intrinsic(name)
        value = number(64, 0) if field is None else resize(b, context.storage.load(field), 64)
        b.store(value, byte_offset(b, self._io_array, 8 * cell), align=8)
        return value

    def _store_notes(self, context: FunctionContext) -> None:
        notes, io = context.notes, self._io_array
        for cell, slot in (
            (abi.OUT_CLONE, notes.clone),
            (abi.OUT_CLONE_LIST, notes.clone_list),
            (abi.OUT_RESUBMIT, notes.resubmit),
            (abi.OUT_DIGEST, notes.digest),
        ):
            actions.store_note(context, io, cell, slot)
        actions.keep_fields(context, io, (notes.clone, notes.resubmit, notes.digest))

    def _keep(self, context: FunctionContext) -> None:
        """Stores the packet in the buffer for egress, and ends the function."""
        b, buffer = context.builder, self._phv
        self._keep_fields(context, b.load(context.packet_length, typ=I64))
        payload, payload_length = self._payload()
        b.store(payload_length, byte_offset(b, buffer, phv.PAYLOAD_LENGTH), align=1)
        copy_bytes(b, byte_offset(b, buffer, self._buffer.payload), payload, payload_length)
        b.ret(b.add(payload_length, number(64, self._buffer.payload)))

    def _payload(self) -> tuple[Value, Value]:
        b = self._builder
        parsed = b.load(self._parser.offset, typ=I64)
        return byte_offset(b, self._frame, parsed), b.sub(self._length, parsed)

    def _keep_fields(self, context: FunctionContext, packet_length: Value) -> None:
        b, buffer = context.builder, self._phv
        b.store(self._length, byte_offset(b, buffer, phv.INGRESS_LENGTH), align=1)
        if self._program.leaves_path:
            for slot, at in ((context.notes.recirculate, phv.RECIRCULATE), (context.notes.truncate, phv.TRUNCATE)):
                b.store(b.load(slot, typ=I64), byte_offset(b, buffer, at), align=1)
        b.store(packet_length, byte_offset(b, buffer, phv.PACKET_LENGTH), align=1)
        in_place = set(wide_header_fields(self._program))
        for field, at in self._buffer.fields.items():
            if field not in in_place:
                store_cell(b, byte_offset(b, buffer, at), context.storage.load(field), field.width)
        for header, at in self._buffer.valid.items():
            valid = resize(b, context.storage.valid(header), 8)
            b.store(valid, byte_offset(b, buffer, at), align=1)


# The LLVM module of a program, which holds its two functions.


def build_module(program: model.Program) -> Value:
    """Returns the LLVM module of a program, not optimized.

    Raises:
        UnsupportedConstruct: the compiler does not support a part of the program.
    """
    module = ir.Module(name="p4reduce")  # a fixed name: LLVM would read a name with line breaks as code
    layout, buffer = StateLayout(program), PhvLayout.of(program)
    IngressBuilder(program, layout, buffer, module).build()
    EgressBuilder(program, layout, buffer, module).build()
    return module
