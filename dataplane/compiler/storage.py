"""Where fields live while a packet is processed."""

from llvmlite import ir

from p4reduce.dataplane.compiler.llvm_types import (
    I1,
    POINTER,
    Builder,
    Value,
    integer,
    lane_constant,
    lane_vector,
    number,
    resize,
)
from p4reduce.dataplane.model.expressions import FieldRef
from p4reduce.dataplane.model.program import Program
from p4reduce.dataplane.state.layout import cell_bytes, cell_kind


def is_lanes(field: FieldRef) -> bool:
    """Whether a field is kept as a vector of lanes."""
    return cell_kind(field.width) == "lanes"


def load_cell(builder: Builder, pointer: Value, width: int) -> Value:
    """A value from memory as StateLayout lays it out: a lane vector, or an integer of ``width`` bits."""
    if cell_kind(width) == "lanes":
        return builder.load(pointer, align=1, typ=lane_vector(width))
    return resize(builder, builder.load(pointer, align=1, typ=integer(8 * cell_bytes(width))), width)


def store_cell(builder: Builder, pointer: Value, value: Value, width: int) -> None:
    """Inverse of load_cell."""
    if cell_kind(width) != "lanes":
        value = resize(builder, value, 8 * cell_bytes(width))
    builder.store(value, pointer, align=1)


class FieldStorage:
    """Stack slots for the fields and validity bits that a function uses; LLVM turns most into registers.

    A field that ``place`` puts elsewhere (wide header fields lie in the PHV buffer) is read and written there.
    """

    def __init__(self, program: Program, builder: Builder) -> None:
        """Slots are made in the entry block at which ``builder`` stands."""
        self._program = program
        self._builder = builder
        self._entry = builder.block
        self._fields: dict[FieldRef, Value] = {}
        self._valid: dict[str, Value] = {}

    def place(self, field: FieldRef, pointer: Value) -> None:
        """Puts a field into memory that the caller gives, laid out as by store_cell."""
        self._fields[field] = pointer

    def address(self, field: FieldRef) -> Value:
        """Where a placed field lies."""
        return self._fields[field]

    def load(self, field: FieldRef) -> Value:
        """The value of a field: a lane vector, or an integer of its width."""
        pointer = self._pointer(field)
        kind = lane_vector(field.width) if is_lanes(field) else integer(field.width)
        return self._builder.load(pointer, align=1 if is_lanes(field) else None, typ=kind)

    def store(self, field: FieldRef, value: Value) -> None:
        """Sets a field; ``value`` is as load gives it."""
        self._builder.store(value, self._pointer(field), align=1 if is_lanes(field) else None)

    def zero(self, field: FieldRef) -> None:
        """Sets a field to 0."""
        self.store(field, lane_constant(field.width, 0) if is_lanes(field) else number(field.width, 0))

    def valid(self, header: str) -> Value:
        """Whether a header is valid; metadata always are."""
        if self._program.headers[header].metadata:
            return ir.Constant(I1, 1)
        return self._builder.load(self._valid_pointer(header), typ=I1)

    def set_valid(self, header: str, value: Value) -> None:
        """Sets a header's validity."""
        self._builder.store(value, self._valid_pointer(header))

    def mark_valid(self, header: str, value: Value) -> None:
        """Sets a header's validity; where it becomes valid, the others of its union become invalid."""
        self.set_valid(header, value)
        for sibling in self._program.headers[header].siblings:
            self.set_valid(sibling, self._builder.and_(self.valid(sibling), self._builder.not_(value)))

    def slot(self, kind: object, initial: Value) -> Value:
        """A further stack slot, initialized at the start of the function."""
        with self._builder.goto_block(self._entry):
            pointer = self._builder.alloca(kind)
            self._builder.store(initial, pointer)
        # llvmlite types the pointer that alloca gives and would insist on that type; LLVM's pointers have none.
        pointer.type = POINTER
        return pointer

    def fields_of(self, header: str) -> list[FieldRef]:
        """References to all fields of a header."""
        return [FieldRef(header, f.name, f.width, f.signed) for f in self._program.headers[header].type.fields]

    def _pointer(self, field: FieldRef) -> Value:
        if field not in self._fields:
            zero = lane_constant(field.width, 0) if is_lanes(field) else number(field.width, 0)
            self._fields[field] = self.slot(zero.type, zero)
        return self._fields[field]

    def _valid_pointer(self, header: str) -> Value:
        if header not in self._valid:
            self._valid[header] = self.slot(I1, ir.Constant(I1, 0))
        return self._valid[header]
