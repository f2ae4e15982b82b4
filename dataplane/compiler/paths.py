"""Clone, resubmit, recirculate, truncate and digest in machine code; abi.py says what the driver finds where."""

from collections.abc import Iterable
from dataclasses import dataclass

from llvmlite import ir

from p4reduce.dataplane import abi
from p4reduce.dataplane.compiler import phv
from p4reduce.dataplane.compiler.context import FunctionContext
from p4reduce.dataplane.compiler.data import DataLowering
from p4reduce.dataplane.compiler.kept import KeptLayout
from p4reduce.dataplane.compiler.llvm_types import I64, POINTER, Value, byte_offset, copy_bytes, number, resize
from p4reduce.dataplane.compiler.storage import FieldStorage, load_cell, store_cell
from p4reduce.dataplane.model.expressions import FieldRef
from p4reduce.dataplane.model.packet_path import (
    Clone,
    GenerateDigest,
    PathPrimitive,
    Recirculate,
    Resubmit,
    Truncate,
)


@dataclass(frozen=True)
class PathNotes:
    """Slots (i64) of what the primitives leave for the time after the pipeline."""

    clone: Value
    clone_list: Value
    resubmit: Value
    recirculate: Value
    digest: Value
    truncate: Value

    @classmethod
    def make(cls, storage: FieldStorage) -> "PathNotes":
        """Slots in which nothing is noted."""
        zero = number(64, 0)
        clone, clone_list, resubmit, recirculate, digest = (storage.slot(I64, zero) for _ in range(5))
        truncate = storage.slot(I64, number(64, abi.NO_TRUNCATION))
        return cls(clone, clone_list, resubmit, recirculate, digest, truncate)


def note(context: FunctionContext, data: DataLowering, primitive: PathPrimitive) -> None:
    """Carries out a primitive."""
    b, notes = context.builder, context.notes
    match primitive:
        case Clone(session, field_list):
            b.store(b.or_(data.number(session, 64), number(64, abi.CLONE_VALID)), notes.clone)
            b.store(b.and_(b.load(notes.clone, typ=I64), number(64, 0xFFFF)), notes.clone)
            b.store(number(64, field_list), notes.clone_list)
        case Resubmit(field_list):
            b.store(number(64, field_list), notes.resubmit)
        case Recirculate(field_list):
            b.store(number(64, field_list), notes.recirculate)
        case GenerateDigest(learn_list):
            b.store(number(64, learn_list), notes.digest)
        case Truncate(length):
            wanted, before = data.number(length, 64), b.load(notes.truncate, typ=I64)
            b.store(b.select(b.icmp_unsigned("<", wanted, before), wanted, before), notes.truncate)


# --- the cells of io


def load_io(context: FunctionContext, io: Value, cell: int) -> Value:
    """A cell, i64."""
    return context.builder.load(byte_offset(context.builder, io, 8 * cell), align=8, typ=I64)


def store_io(context: FunctionContext, io: Value, cell: int, value: Value) -> None:
    """Sets a cell."""
    context.builder.store(value, byte_offset(context.builder, io, 8 * cell), align=8)


def store_note(context: FunctionContext, io: Value, cell: int, slot: Value) -> None:
    """Sets a cell to what a slot holds."""
    store_io(context, io, cell, context.builder.load(slot, typ=I64))


def _address(context: FunctionContext, io: Value, cell: int) -> Value:
    return context.builder.load(byte_offset(context.builder, io, 8 * cell), align=8, typ=POINTER)


# --- fields that copies keep


def keep_fields(context: FunctionContext, io: Value, slots: Iterable[Value]) -> None:
    """Stores the kept fields where one of the slots is not 0."""
    b, layout = context.builder, KeptLayout.of(context.program)
    wanted = number(64, 0)
    for slot in slots:
        wanted = b.or_(wanted, b.load(slot, typ=I64))
    with b.if_then(b.icmp_unsigned("!=", wanted, number(64, 0)), likely=False):
        buffer = _address(context, io, abi.KEPT_ADDRESS)
        for field, at in layout.offsets.items():
            store_cell(b, byte_offset(b, buffer, at), context.storage.load(field), field.width)


def recall_fields(context: FunctionContext, io: Value) -> None:
    """Sets the fields of the list that IN_FIELD_LIST names to what an earlier pass has kept."""
    b, layout = context.builder, KeptLayout.of(context.program)
    wanted = load_io(context, io, abi.IN_FIELD_LIST)
    for field_list in context.program.field_lists.values():
        if not field_list.fields or any(f not in layout.offsets for f in field_list.fields):
            continue  # nothing to set, or a list that no primitive names
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
    """Where egress cloned: the packet as it is, with metadata reset but for the field list, at CLONE_ADDRESS."""
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


def _cloned(context: FunctionContext, field: FieldRef) -> Value:
    """A header field as it is, a metadata field where the clone's list has it, else 0."""
    b, value = context.builder, context.storage.load(field)
    if not context.program.headers[field.header].metadata:
        return value
    listed = number(1, 0)
    for field_list in context.program.field_lists.values():
        if field in field_list.fields:
            chosen = b.load(context.notes.clone_list, typ=I64)
            listed = b.or_(listed, b.icmp_unsigned("==", chosen, number(64, field_list.id)))
    return b.select(listed, value, ir.Constant(value.type, None))
