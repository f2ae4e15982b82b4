"""The interpreter: runs a program packet by packet, exactly as it is written, and can tell what it does."""

from collections.abc import Mapping
from typing import Final, Literal

from p4reduce.dataplane import abi
from p4reduce.dataplane.abi import INGRESS_DROPS, NOTHING_NOTED
from p4reduce.dataplane.executor import Io
from p4reduce.dataplane.interpreter.checksums import update_checksums, verify_checksums
from p4reduce.dataplane.interpreter.control import run_pipeline
from p4reduce.dataplane.interpreter.headers import header_bits
from p4reduce.dataplane.interpreter.parse import ParserRun
from p4reduce.dataplane.interpreter.paths import PathNotes
from p4reduce.dataplane.interpreter.phv import Phv, TooManySteps
from p4reduce.dataplane.interpreter.primitives import Primitives
from p4reduce.dataplane.interpreter.trace import HeaderEmitted, Listener, StageStarted, Verdict
from p4reduce.dataplane.model import Program
from p4reduce.dataplane.model.expressions import FieldRef
from p4reduce.dataplane.model.packet_path import LearnList
from p4reduce.dataplane.state.device_state import DeviceState

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
"""Metadata that egress finds set, and where in ``io`` it comes from."""

_NOTE_CELLS: Final = (abi.OUT_CLONE, abi.OUT_CLONE_LIST, abi.OUT_RESUBMIT, abi.OUT_DIGEST)


def _noted(notes: PathNotes) -> tuple[int, ...]:
    """What goes into _NOTE_CELLS."""
    return notes.clone, notes.clone_list, notes.resubmit, notes.digest


def _copy_for_egress(phv: Phv, instance: int) -> Phv:
    """A packet for one egress. What ingress noted for the time after egress holds for the packet itself only."""
    copy = phv.copy()
    if instance == abi.INSTANCE_NORMAL:
        copy.notes.recirculate, copy.notes.truncate = phv.notes.recirculate, phv.notes.truncate
    return copy


class Interpreter:
    """Runs packets through a program on the state of a device (behavioral-model, simple_switch.cpp).

    Attributes:
        trace: called with what happens to each packet; None: nobody listens.
    """

    def __init__(self, program: Program, state: DeviceState, trace: Listener | None = None) -> None:
        """An executor on the state of a device, which it shares with the compiled one."""
        self._program = program
        self._state = state
        self.trace = trace
        self._latest: Phv | None = None
        self._cloned: Phv | None = None

    def ingress(self, frame: bytes, io: Io, kept: object = None) -> Phv:
        """Parser, checksum verification and ingress.

        Args:
            frame: Ethernet frame without FCS.
            io: int64 cells of abi.py; IN_* are read, OUT_* and EG_LENGTH written.
            kept: see Executor.

        Returns:
            what egress needs.
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
        """Egress, checksum update and deparser for one copy.

        Args:
            phv: from ingress; it is not changed.
            io: int64 cells of abi.py; EG_* are read.

        Returns:
            the frame, None where egress dropped it.
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

    # --- packets that leave the straight way

    def kept(self) -> object:
        """See Executor: bits by field."""
        phv = self._latest
        return {} if phv is None else {field: phv.bits(field) for field in self._program.kept_fields}

    def cloned(self) -> object:
        """See Executor."""
        return self._cloned

    def digest(self, learn_list: LearnList) -> tuple[int, ...]:
        """See Executor."""
        phv = self._latest
        if phv is None:
            raise AssertionError("no packet has come in yet")
        return tuple(phv.bits(e) if isinstance(e, FieldRef) else e.value for e in learn_list.elements)

    def _arrived(self, frame: bytes, io: Io, kept: object) -> Phv:
        """A packet at the parser. Copies of earlier packets have lost all metadata but those of their field list."""
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
        """An ingress clone: parsed again, with nothing but the ingress port known; then its metadata are reset."""
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
        """An egress clone: headers as they are, metadata reset but for those of the field list."""
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
        # BMv2 leaves the parser before it verifies where the program has no start state.
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
        """Drops a packet that went round too often, whatever it has left."""
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
        """Sets an intrinsic field, where the program has it."""
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
