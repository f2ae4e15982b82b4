"""The interpreter: executes the program model directly, packet by packet, and can report every step."""

from collections.abc import Mapping
from typing import Final, Literal

from p4switch import abi
from p4switch.abi import INGRESS_DROPS, NOTHING_NOTED
from p4switch.interpreter.evaluate import (
    PathRequests,
    Phv,
    TooManySteps,
    ValueScope,
    header_bits,
    header_bytes,
    make_valid,
    read_fields,
    update_checksums,
    verify_checksums,
)
from p4switch.interpreter.primitives import Primitives, run_pipeline
from p4switch.interpreter.trace import (
    HeaderEmitted,
    HeaderExtracted,
    Listener,
    ParserFailed,
    Selected,
    StageStarted,
    StateEntered,
    Verdict,
)
from p4switch.program import Program
from p4switch.program import program as model
from p4switch.program.loader import key_width
from p4switch.state.device_state import DeviceState
from p4switch.traffic import Io

# The parser (behavioral-model, src/bm_sim/parser.cpp).


class _ParserError(Exception):
    """A P4 error that ends parsing."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class ParserRun:
    """The run of one packet through the parser."""

    def __init__(self, program: Program, frame: bytes, phv: Phv, primitives: Primitives) -> None:
        self._program = program
        self._frame = frame
        self._phv = phv
        self._primitives = primitives
        self._listener: Listener | None = primitives.listener
        self._scope = ValueScope(phv, look=self._look)
        self._offset = 0
        self._idle_steps = 0

    def run(self) -> int:
        """Parses until a state accepts or an operation fails; leaves the rest of the frame as payload.

        Returns:
            the code of the P4 error; the code of NoError if there was none.
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

    def _enter(self, state: model.ParserState) -> str | None:
        if self._listener is not None:
            self._listener(StateEntered(state.name))
        if state.name in self._program.parser.watched:
            self._idle_steps += 1
            if self._idle_steps > model.MOST_IDLE_STEPS:
                raise _ParserError(self._program.error_code("ParserTimeout"))
        for operation in state.operations:
            self._operate(operation)
        keys = tuple(self._key(key) for key in state.keys)
        following = self._select(state, keys)
        if self._listener is not None:
            self._listener(Selected(state.name, keys, following))
        return following

    def _select(self, state: model.ParserState, keys: tuple[int, ...]) -> str | None:
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

    def _in_value_set(
        self, state: model.ParserState, transition: model.Transition, name: str, keys: tuple[int, ...]
    ) -> bool:
        value, mask = 0, 0
        for select, key, bits in zip(state.keys, keys, transition.masks, strict=True):
            width = key_width(select)
            ones = (1 << width) - 1
            value, mask = value << width | key & ones, mask << width | bits & ones
        return self._primitives.state.value_sets[name].fits(value, mask)

    def _key(self, key: model.SelectKey) -> int:
        if isinstance(key, model.ChosenKey):
            return self._scope.data(key.value) & ((1 << key.width) - 1)
        return self._phv.bits(key) if isinstance(key, model.FieldRef) else self._scope.data(key)

    def _operate(self, operation: model.ParserOp) -> None:
        match operation:
            case model.Extract(header, length):
                self._extract(header, length)
            case model.ExtractNext(_, headers, next_field, length):
                at = self._phv.bits(next_field)
                if at >= len(headers):
                    raise _ParserError(self._program.error_code("StackOutOfBounds"))
                self._extract(headers[at], length)
                self._phv.store(next_field, at + 1)
            case model.Set(target, value):
                if isinstance(value, model.Lookahead):
                    self._require((value.width + 7) // 8)
                self._phv.store(target, self._scope.data(value))
            case model.Verify(condition, error):
                if not self._scope.truth(condition):
                    raise _ParserError(self._scope.data(error))
            case model.Advance(bits):
                self._advance(self._scope.data(bits))
            case model.Run(primitive):
                self._primitives.run(primitive, self._scope)

    def _extract(self, name: str, length: model.DataExpr | None) -> None:
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
        """Checks a varbit length as BMv2 does, which also counts the header's old varbit length; returns ``bits``."""
        if bits % 8 != 0 or not 0 <= bits <= model.MAX_VARBIT:
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

    def _look(self, ahead: model.Lookahead) -> int:
        """Returns bits ahead; bytes past the packet's end read as 0 (in BMv2 they are undefined)."""
        size = (ahead.offset + ahead.width + 7) // 8
        window = self._frame[self._offset : self._offset + size].ljust(size, b"\0")
        return int.from_bytes(window, "big") >> (8 * size - ahead.offset - ahead.width) & ((1 << ahead.width) - 1)

    def _error_name(self, code: int) -> str:
        return next((name for name, number in self._program.errors.items() if number == code), str(code))


_EGRESS_FIELDS: Final = (
    ("egress_port", abi.EG_PORT),
    ("egress_rid", abi.EG_RID),
    ("instance_type", abi.EG_INSTANCE),
    ("enq_timestamp", abi.EG_ENQ_TIME_US),
    ("enq_qdepth", abi.EG_ENQ_QDEPTH),
    ("deq_timedelta", abi.EG_DEQ_TIMEDELTA_US),
    ("deq_qdepth", abi.EG_DEQ_QDEPTH),
    ("egress_global_timestamp", abi.EG_TIME_US),
)
"""Metadata that are set before egress runs, and the cells of ``io`` that hold them."""

_NOTE_CELLS: Final = (abi.OUT_CLONE, abi.OUT_CLONE_LIST, abi.OUT_RESUBMIT, abi.OUT_DIGEST)


def _noted(notes: PathRequests) -> tuple[int, ...]:
    """Returns the values of _NOTE_CELLS."""
    return notes.clone, notes.clone_list, notes.resubmit, notes.digest


def _copy_for_egress(phv: Phv, instance: int) -> Phv:
    """Copies a packet for one egress. Only the packet itself keeps ingress's requests for the time after egress."""
    copy = phv.copy()
    if instance == abi.INSTANCE_NORMAL:
        copy.notes.recirculate, copy.notes.truncate = phv.notes.recirculate, phv.notes.truncate
    return copy


class Interpreter:
    """Runs packets through a program on the state of a device (behavioral-model, simple_switch.cpp).

    Attributes:
        trace: called with each event of a packet; None: events are not reported.
    """

    def __init__(self, program: Program, state: DeviceState, trace: Listener | None = None) -> None:
        """Makes an executor on the state of a device; a compiled executor may use the same state."""
        self._program = program
        self._state = state
        self.trace = trace
        self._latest: Phv | None = None
        self._cloned: Phv | None = None

    def ingress(self, frame: bytes, io: Io, kept: object = None) -> Phv:
        """Runs parser, checksum verification and ingress.

        Args:
            frame: Ethernet frame without FCS.
            io: int64 cells of abi.py; IN_* are read, OUT_* and EG_LENGTH written.
            kept: see Executor.ingress.

        Returns:
            the packet header vector that egress needs.
        """
        instance = int(io[abi.IN_INSTANCE])
        if instance == abi.INSTANCE_INGRESS_CLONE:
            return self._parse_clone(frame, io, kept)
        phv = self._arrived(frame, io, kept)
        self._parse(phv, frame, io)
        self._start("ingress")
        self._latest = phv
        try:
            run_pipeline(self._program.ingress, phv, self._primitives(io[abi.IN_TIME_US]))
        except TooManySteps:
            self._cut_off("ingress", io, INGRESS_DROPS)
            return phv
        for cell, value in zip(_NOTE_CELLS, _noted(phv.notes), strict=True):
            io[cell] = value
        io[abi.OUT_EGRESS_SPEC] = self._get(phv, "egress_spec")
        io[abi.OUT_MCAST_GRP] = self._get(phv, "mcast_grp")
        io[abi.OUT_PRIORITY] = self._get(phv, "priority")
        io[abi.EG_LENGTH] = phv.packet_length
        if self.trace is not None:
            self.trace(_ingress_verdict(io))
        return phv

    def egress(self, phv: object, io: Io) -> bytes | None:
        """Runs egress, checksum update and deparser for one copy.

        Args:
            phv: the result of ingress; it is not changed.
            io: int64 cells of abi.py; EG_* are read.

        Returns:
            the frame; None if egress dropped it.
        """
        if not isinstance(phv, Phv):
            raise TypeError(f"egress takes what ingress returned, not a {type(phv).__name__}")
        phv = _copy_for_egress(phv, int(io[abi.EG_INSTANCE]))
        for name, cell in _EGRESS_FIELDS:
            self._set(phv, name, int(io[cell]))
        self._set(phv, "egress_spec", abi.DROP_PORT + 1)
        self._set(phv, "packet_length", phv.packet_length)
        self._start("egress")
        try:
            run_pipeline(self._program.egress, phv, self._primitives(io[abi.EG_TIME_US]))
        except TooManySteps:
            self._cut_off("egress", io, NOTHING_NOTED)
            return None
        io[abi.EG_OUT_CLONE], io[abi.EG_OUT_CLONE_LIST] = phv.notes.clone, phv.notes.clone_list
        io[abi.EG_OUT_RECIRCULATE] = phv.notes.recirculate
        self._latest = phv
        if phv.notes.clone:
            self._cloned = clone = self._clone(phv)
            io[abi.EG_OUT_CLONE_PRIORITY] = self._get(clone, "priority")
        dropped = self._get(phv, "egress_spec") == abi.DROP_PORT
        if self.trace is not None:
            port = int(io[abi.EG_PORT])
            self.trace(Verdict("egress", "drop") if dropped else Verdict("egress", "unicast", port))
        if dropped:
            return None
        out = self._deparse(phv)
        return out if phv.notes.recirculate else out[: phv.notes.truncate]

    # --- packets that leave the straight path

    def kept(self) -> object:
        """See Executor. Returns bits by field."""
        phv = self._latest
        return {} if phv is None else {field: phv.bits(field) for field in self._program.kept_fields}

    def cloned(self) -> object:
        """See Executor."""
        return self._cloned

    def digest(self, learn_list: model.LearnList) -> tuple[int, ...]:
        """See Executor."""
        phv = self._latest
        if phv is None:
            raise AssertionError("no packet has come in yet")
        return tuple(phv.bits(e) if isinstance(e, model.FieldRef) else e.value for e in learn_list.elements)

    def _arrived(self, frame: bytes, io: Io, kept: object) -> Phv:
        """Makes a packet that enters the parser; a copy of an earlier packet keeps only metadata of its field list."""
        instance = int(io[abi.IN_INSTANCE])
        phv = Phv.empty(self._program, len(frame))
        if instance == abi.INSTANCE_NORMAL:
            self._set(phv, "ingress_port", int(io[abi.IN_PORT]))
            self._set(phv, "ingress_global_timestamp", int(io[abi.IN_TIME_US]))
        else:
            self._recall(phv, int(io[abi.IN_FIELD_LIST]), kept)
        self._set(phv, "packet_length", len(frame))
        self._set(phv, "instance_type", instance)
        return phv

    def _parse_clone(self, frame: bytes, io: Io, kept: object) -> Phv:
        """Parses an ingress clone with only its ingress port set; then resets its metadata except its field list."""
        phv = Phv.empty(self._program, len(frame))
        self._set(phv, "ingress_port", int(io[abi.IN_PORT]))
        self._start("parser")
        ParserRun(self._program, frame, phv, self._primitives(io[abi.IN_TIME_US])).run()
        self._reset_metadata(phv)
        self._recall(phv, int(io[abi.IN_FIELD_LIST]), kept)
        self._set(phv, "instance_type", abi.INSTANCE_INGRESS_CLONE)
        io[abi.OUT_PRIORITY] = self._get(phv, "priority")
        return phv

    def _clone(self, phv: Phv) -> Phv:
        """Makes an egress clone: unchanged headers, metadata reset except those in the field list."""
        clone = phv.copy()
        self._reset_metadata(clone)
        self._recall(clone, phv.notes.clone_list, self.kept())
        return clone

    def _reset_metadata(self, phv: Phv) -> None:
        for header in self._program.headers.values():
            if header.metadata:
                for field in header.type.fields:
                    phv.values[header.name, field.name] = 0

    def _recall(self, phv: Phv, field_list: int, kept: object) -> None:
        if field_list and isinstance(kept, dict):
            for field in self._program.field_lists[field_list].fields:
                phv.store(field, kept[field])

    def _parse(self, phv: Phv, frame: bytes, io: Io) -> None:
        self._start("parser")
        error = ParserRun(self._program, frame, phv, self._primitives(io[abi.IN_TIME_US])).run()
        # BMv2 does not verify checksums if the program has no start state.
        right = self._program.parser.start is None or verify_checksums(self._program, phv, self.trace)
        self._set(phv, "parser_error", error)
        self._set(phv, "checksum_error", 0 if right else 1)

    def _deparse(self, phv: Phv) -> bytes:
        self._start("deparser")
        update_checksums(self._program, phv, self.trace)
        frame = b""
        for name in self._program.deparser:
            if name in phv.valid:
                number, bits = header_bits(self._program, name, phv)
                frame += number.to_bytes(bits // 8, "big")
                if self.trace is not None:
                    self.trace(HeaderEmitted(name))
        return frame + phv.payload

    def _cut_off(self, stage: Literal["ingress", "egress"], io: Io, cells: Mapping[int, int]) -> None:
        """Drops a packet that took too many steps, and its requests."""
        self._state.endless_packets += 1
        for cell, value in cells.items():
            io[cell] = value
        if self.trace is not None:
            self.trace(Verdict(stage, "drop"))

    def _primitives(self, now: int) -> Primitives:
        return Primitives(self._program, self._state, self.trace, int(now))

    def _start(self, stage: str) -> None:
        if self.trace is not None:
            self.trace(StageStarted(stage))  # type: ignore[arg-type]

    def _set(self, phv: Phv, name: str, value: int) -> None:
        """Sets an intrinsic field if the program has it."""
        field = self._program.intrinsic(name)
        if field is not None:
            phv.store(field, value)

    def _get(self, phv: Phv, name: str) -> int:
        field = self._program.intrinsic(name)
        return 0 if field is None else phv.bits(field)


def _ingress_verdict(io: Io) -> Verdict:
    group, port = int(io[abi.OUT_MCAST_GRP]), int(io[abi.OUT_EGRESS_SPEC])
    if group != 0:
        return Verdict("ingress", "multicast", group)
    return Verdict("ingress", "drop") if port == abi.DROP_PORT else Verdict("ingress", "unicast", port)
