"""The parser in machine code: a block for each state."""

from collections.abc import Callable

from llvmlite import ir

from p4switch.compiler.actions import ActionLowering
from p4switch.compiler.data import DataLowering
from p4switch.compiler.lanes import FunctionContext
from p4switch.compiler.storage import (
    I1,
    I8,
    I64,
    Value,
    bits_of,
    byte_offset,
    chunks,
    copy_bytes,
    header_bytes,
    number,
    read_chunk,
    read_header,
    read_varbit_header,
    resize,
    zero_bytes,
)
from p4switch.program import model
from p4switch.program.loader import key_width
from p4switch.state.layout import value_words


class ParserLowering:
    """Emits the parser where the builder stands; it ends behind it.

    Attributes:
        offset: slot (i64) of the bytes that were extracted.
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
        """All states that can be reached."""
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
        """Counts a visit to a state of a loop that may take nothing."""
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
        """A case for each element of the stack."""
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
        """Checks as BMv2 does, which counts the length that the header has so far."""
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
        """PacketTooShort unless so many bytes are left."""
        enough = self._builder.icmp_unsigned("<=", octets, self._remaining())
        self._fail_unless(enough, self._code("PacketTooShort"))

    def _code(self, name: str) -> Callable[[], Value]:
        return lambda: number(64, self._context.program.error_code(name))

    def _fail_unless(self, condition: Value, code: Callable[[], Value]) -> None:
        """Ends parsing with an error where the condition is false."""
        b = self._builder
        with b.if_then(b.not_(condition), likely=False):
            b.store(code(), self.error)
            b.branch(self._end)

    # --- looking ahead

    def _look(self, ahead: model.Lookahead) -> Value:
        """Bits ahead of the position; bytes behind the packet's end read as 0 (BMv2: whatever lies there)."""
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
            # A signed field's bits, not its number: the padding is zeros.
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
        """Whether a member of a value set equals the keys, one behind the other, where the mask has ones."""
        b, context = self._builder, self._context
        total, packed, mask = sum(widths), None, 0
        for key, width, bits in zip(keys, widths, transition.masks, strict=True):
            part = resize(b, resize(b, key, width), total)
            packed = part if packed is None else b.or_(b.shl(packed, number(total, width)), part)
            mask = mask << width | bits & ((1 << width) - 1)
        cell, words = context.layout.value_sets[name], value_words(total)
        # A parser may visit the state again: a value set changes only between packets, as everything does.
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
        found = b.phi(I1)
        found.add_incoming(ir.Constant(I1, 0), loop)
        found.add_incoming(ir.Constant(I1, 1), compare)
        return found

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
