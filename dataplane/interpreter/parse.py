"""The parser (behavioral-model, src/bm_sim/parser.cpp)."""

from p4reduce.dataplane.interpreter.evaluate import Scope
from p4reduce.dataplane.interpreter.headers import header_bytes, make_valid, read_fields
from p4reduce.dataplane.interpreter.phv import Phv
from p4reduce.dataplane.interpreter.primitives import Primitives
from p4reduce.dataplane.interpreter.trace import HeaderExtracted, Listener, ParserFailed, Selected, StateEntered
from p4reduce.dataplane.model import Program
from p4reduce.dataplane.model.expressions import DataExpr, FieldRef, Lookahead
from p4reduce.dataplane.model.load_parser import key_width
from p4reduce.dataplane.model.parser import (
    MAX_VARBIT,
    MOST_IDLE_STEPS,
    Advance,
    ChosenKey,
    Extract,
    ExtractNext,
    ParserOp,
    ParserState,
    Run,
    SelectKey,
    Set,
    Transition,
    Verify,
)


class _ParserError(Exception):
    """Parsing ends with a P4 error."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class ParserRun:
    """One packet's way through the parser."""

    def __init__(self, program: Program, frame: bytes, phv: Phv, primitives: Primitives) -> None:
        self._program = program
        self._frame = frame
        self._phv = phv
        self._primitives = primitives
        self._listener: Listener | None = primitives.listener
        self._scope = Scope(phv, look=self._look)
        self._offset = 0
        self._idle_steps = 0

    def run(self) -> int:
        """Parses until a state accepts or an operation fails; leaves the rest of the frame as payload.

        Returns:
            the code of the P4 error, that of NoError where there was none.
        """
        code = self._program.error_code("NoError")
        following = self._program.parser.start
        while following is not None:
            state = following
            try:
                following = self._enter(self._program.parser.states[state])
            except _ParserError as error:
                code = error.code
                if self._listener is not None:
                    self._listener(ParserFailed(state, self._error_name(code)))
                break
        self._phv.payload = self._frame[self._offset :]
        return code

    def _enter(self, state: ParserState) -> str | None:
        if self._listener is not None:
            self._listener(StateEntered(state.name))
        if state.name in self._program.parser.watched:
            self._idle_steps += 1
            if self._idle_steps > MOST_IDLE_STEPS:
                raise _ParserError(self._program.error_code("ParserTimeout"))
        for operation in state.operations:
            self._operate(operation)
        keys = tuple(self._key(key) for key in state.keys)
        following = self._select(state, keys)
        if self._listener is not None:
            self._listener(Selected(state.name, keys, following))
        return following

    def _select(self, state: ParserState, keys: tuple[int, ...]) -> str | None:
        for transition in state.transitions:
            if not transition.masks:
                return transition.next_state
            if transition.value_set is not None:
                if self._in_value_set(state, transition, transition.value_set, keys):
                    return transition.next_state
                continue
            masked = tuple(key & mask for key, mask in zip(keys, transition.masks, strict=True))
            if masked == transition.values:
                return transition.next_state
        return None

    def _in_value_set(self, state: ParserState, transition: Transition, name: str, keys: tuple[int, ...]) -> bool:
        value, mask = 0, 0
        for select, key, bits in zip(state.keys, keys, transition.masks, strict=True):
            width = key_width(select)
            ones = (1 << width) - 1
            value, mask = value << width | key & ones, mask << width | bits & ones
        return self._primitives.state.value_sets[name].fits(value, mask)

    def _key(self, key: SelectKey) -> int:
        if isinstance(key, ChosenKey):
            return self._scope.data(key.value) & ((1 << key.width) - 1)
        return self._phv.bits(key) if isinstance(key, FieldRef) else self._scope.data(key)

    def _operate(self, operation: ParserOp) -> None:
        match operation:
            case Extract(header, length):
                self._extract(header, length)
            case ExtractNext(_, headers, next_field, length):
                at = self._phv.bits(next_field)
                if at >= len(headers):
                    raise _ParserError(self._program.error_code("StackOutOfBounds"))
                self._extract(headers[at], length)
                self._phv.store(next_field, at + 1)
            case Set(target, value):
                if isinstance(value, Lookahead):
                    self._require((value.width + 7) // 8)
                self._phv.store(target, self._scope.data(value))
            case Verify(condition, error):
                if not self._scope.truth(condition):
                    raise _ParserError(self._scope.data(error))
            case Advance(bits):
                self._advance(self._scope.data(bits))
            case Run(primitive):
                self._primitives.run(primitive, self._scope)

    def _extract(self, name: str, length: DataExpr | None) -> None:
        header, bits = self._program.headers[name], 0
        if length is not None:
            bits = self._varbit_length(name, self._scope.data(length))
        else:
            self._require(header.bytes)
        start, size = self._offset, header.bytes + bits // 8
        read_fields(self._program, name, self._frame[start : start + size], bits, self._phv)
        make_valid(self._program, name, self._phv)
        self._offset += size
        if self._listener is not None:
            fields = tuple((f.name, self._phv.values[name, f.name]) for f in header.type.wire_fields)
            self._listener(HeaderExtracted(name, start, fields))

    def _varbit_length(self, name: str, bits: int) -> int:
        """Checks as BMv2 does, which counts the length that the header has so far."""
        if bits % 8 != 0 or not 0 <= bits <= MAX_VARBIT:
            raise _ParserError(self._program.error_code("ParserInvalidArgument"))
        octets = header_bytes(self._program, name, self._phv) + bits // 8
        self._require(octets)
        if octets > self._program.headers[name].most_bytes:
            raise _ParserError(self._program.error_code("HeaderTooShort"))
        return bits

    def _advance(self, bits: int) -> None:
        if bits % 8 != 0:
            raise _ParserError(self._program.error_code("ParserInvalidArgument"))
        self._require(bits // 8)
        self._offset += bits // 8

    def _require(self, octets: int) -> None:
        if len(self._frame) - self._offset < octets:
            raise _ParserError(self._program.error_code("PacketTooShort"))

    def _look(self, ahead: Lookahead) -> int:
        """Bits ahead; bytes behind the packet's end read as 0 (BMv2: whatever lies there)."""
        size = (ahead.offset + ahead.width + 7) // 8
        window = self._frame[self._offset : self._offset + size].ljust(size, b"\0")
        return int.from_bytes(window, "big") >> (8 * size - ahead.offset - ahead.width) & ((1 << ahead.width) - 1)

    def _error_name(self, code: int) -> str:
        return next((name for name, number in self._program.errors.items() if number == code), str(code))
