"""The function that runs egress, checksum update and the deparser; abi.py says what it takes and gives."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from llvmlite import ir

from p4switch import abi
from p4switch.abi import DROP_PORT
from p4switch.compiler import actions, phv
from p4switch.compiler.data import DataLowering
from p4switch.compiler.hashing import HashLowering
from p4switch.compiler.lanes import FunctionContext
from p4switch.compiler.phv import PhvLayout, wide_header_fields
from p4switch.compiler.storage import (
    I1,
    I8,
    I64,
    POINTER,
    FieldStorage,
    Value,
    byte_offset,
    copy_bytes,
    header_bytes,
    load_cell,
    number,
    resize,
    write_header,
    write_varbit_header,
)
from p4switch.compiler.tables import PipelineLowering
from p4switch.program.actions import (
    AddHeader,
    Assign,
    AssignHeader,
    Checksum,
    ExecuteMeter,
    Hash,
    MoveHeaders,
    Random,
    RegisterRead,
)
from p4switch.program.expressions import Field, FieldRef
from p4switch.program.program import Program
from p4switch.state.layout import StateLayout

# What the two functions of a program share.


class FunctionBuilder(ABC):
    """What both functions share."""

    def __init__(self, program: Program, layout: StateLayout, buffer: PhvLayout, module: Value) -> None:
        self._program = program
        self._layout = layout
        self._buffer = buffer
        self._module = module

    def _function(self, name: str, arguments: list[tuple[str, Value]]) -> Value:
        """A function of (name, type) arguments that returns i64; what its pointers point to does not overlap."""
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
        """Address and length (i64) of the bytes that the parser did not extract."""

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
            notes=actions.PathNotes.make(storage) if self._program.leaves_path else None,
        )
        start = context.block("start")
        builder.branch(start)
        builder.position_at_end(start)
        builder.store(packet_length, length)
        return context

    def _finish_endless(self, context: FunctionContext, io: Value, cells: Mapping[int, int], result: int) -> None:
        """Where packets go that take too many steps, if any can: they are counted, and nothing is left of them."""
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

    def _io(self, context: FunctionContext, io: Value, cell: int) -> Value:
        return context.builder.load(byte_offset(context.builder, io, 8 * cell), align=8, typ=I64)


def checksum_applies(context: FunctionContext, checksum: Checksum, unless: Value) -> Value:
    """Whether a checksum's condition holds, and ``unless``."""
    if checksum.condition is None:
        return unless
    data = DataLowering(context, f"checksum {checksum.name!r}")
    return context.builder.and_(unless, data.condition(checksum.condition))


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
            context.now = self._io(context, io, abi.EG_TIME_US)
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
        """What ingress noted for the time after egress holds for the packet itself only."""
        b, notes = context.builder, context.notes
        itself = b.icmp_unsigned("==", self._io(context, io, abi.EG_INSTANCE), number(64, abi.INSTANCE_NORMAL))
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

    def _written(self) -> set[FieldRef]:
        """Fields that egress or a checksum may change: copies of a multicast share the buffer, so they are copied."""
        changed = {c.target for c in self._program.checksums if c.update}
        ids = [ident for table in self._program.egress.tables.values() for ident in table.actions]
        for primitive in phv.primitives_of(self._program, ids):
            match primitive:
                case Assign(target=target) | RegisterRead(target=target) | Hash(target=target) | Random(target=target):
                    changed.add(target)
                case ExecuteMeter(target=target):
                    changed.add(target)
                case AssignHeader(target=header) | AddHeader(header=header):
                    kind = self._program.headers[header].type
                    changed |= {FieldRef(header, f.name, f.width, f.signed) for f in kind.fields}
                case MoveHeaders(targets=headers):
                    changed |= {
                        FieldRef(header, f.name, f.width, f.signed)
                        for header in headers
                        for f in self._program.headers[header].type.fields
                    }
                case _:
                    pass
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
            cells |= queueing  # simple_switch fills all of them or none
        for name, cell in cells.items():
            self._set_intrinsic(context, name, self._io(context, io, cell))
        self._set_intrinsic(context, "packet_length", packet_length)
        # One more than the drop port, cut to 9 bits: simple_switch.cpp, egress_thread.
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

            def take(field: Field, name: str = name) -> Value:
                return storage.load(FieldRef(name, field.name, field.width, field.signed))

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
