"""Storage of fields while machine code processes a packet."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from llvmlite import ir

from p4switch.program import program as model
from p4switch.state.layout import cell_bytes, cell_kind

# Short names for LLVM types and constants.


Value: TypeAlias = Any
"""An llvmlite IR value; llvmlite has no type hints."""

Builder: TypeAlias = Any

POINTER: Final = ir.PointerType()
I1: Final = ir.IntType(1)
I8: Final = ir.IntType(8)
I32: Final = ir.IntType(32)
I64: Final = ir.IntType(64)


_FEW_LANES: Final = 4
"""Largest number of lanes that are joined one by one."""


def integer(width: int) -> Any:
    """Returns the type of integers of a width."""
    return ir.IntType(width)


def number(width: int, value: int) -> Value:
    """Returns an integer constant, taken modulo ``2**width``."""
    return ir.Constant(ir.IntType(width), value & ((1 << width) - 1))


def lane_vector(width: int) -> Any:
    """Returns the type of a value of ``width`` bits as 32-bit lanes, the most significant first."""
    return ir.VectorType(I32, width // 32)


def lane_constant(width: int, value: int) -> Value:
    """Returns a constant vector of lanes."""
    lanes = [(value >> at) & 0xFFFFFFFF for at in range(width - 32, -1, -32)]
    return ir.Constant(lane_vector(width), lanes)


BLOCK_LANES: Final = 8
"""Lanes of a block: a register of 256 bits, as most processors have; others take two registers."""


@dataclass(frozen=True, slots=True)
class LaneBlock:
    """``count`` neighbouring lanes of a value from lane ``first`` on, above ``below`` less significant bits."""

    first: int
    count: int
    below: int


def blocks_of(width: int) -> list[LaneBlock]:
    """Returns the blocks of a value of ``width`` bits; only the last one may be smaller."""
    lanes = width // 32
    counts = [(first, min(BLOCK_LANES, lanes - first)) for first in range(0, lanes, BLOCK_LANES)]
    return [LaneBlock(first, count, 32 * (lanes - first - count)) for first, count in counts]


def block_type(count: int) -> Any:
    """Returns the type of a block of ``count`` lanes."""
    return ir.VectorType(I32, count)


def pick_lanes(builder: Builder, vector: Value, picks: list[int]) -> Value:
    """Returns lanes by their numbers; a number that the vector does not have gives 0."""
    count = vector.type.count
    mask = [pick if 0 <= pick < count else count for pick in picks]
    zeros = ir.Constant(vector.type, [0] * count)
    return builder.shuffle_vector(vector, zeros, ir.Constant(ir.VectorType(I32, len(mask)), mask))


def lanes_to_integer(builder: Builder, vector: Value, width: int) -> Value:
    """Returns the least significant bits of lanes as one integer, filled with zeros to ``width`` bits."""
    count = min(vector.type.count, -(-width // 32))
    if count <= _FEW_LANES:
        value = number(32 * count, 0)
        for i in range(count):
            lane = builder.extract_element(vector, ir.Constant(I32, vector.type.count - 1 - i))
            part = builder.shl(resize(builder, lane, 32 * count), number(32 * count, 32 * i))
            value = builder.or_(value, part)
        return resize(builder, value, width)
    if count < vector.type.count:
        vector = pick_lanes(builder, vector, list(range(vector.type.count - count, vector.type.count)))
    # Reversing the bytes of each lane and then all bytes reverses the lanes. A shuffle would do the same, but LLVM 22
    # aborts on bitcasts of shuffles to odd widths (VectorCombine.cpp, foldBitcastShuffle).
    swapped = builder.bitcast(byte_swap_lanes(builder, vector), integer(32 * count))
    return resize(builder, byte_swap(builder, swapped), width)


def integer_to_lanes(builder: Builder, value: Value, width: int) -> Value:
    """Returns lanes from an integer, cut or filled with zeros to ``width`` bits, a multiple of 32."""
    count = min(-(-value.type.width // 32), width // 32)
    swapped = byte_swap(builder, resize(builder, value, 32 * count))
    vector = byte_swap_lanes(builder, builder.bitcast(swapped, ir.VectorType(I32, count)))
    return vector if 32 * count == width else pick_lanes(builder, vector, list(range(count - width // 32, count)))


def byte_offset(builder: Builder, pointer: Value, offset: Value | int) -> Value:
    """Returns ``pointer`` plus ``offset`` bytes."""
    at = ir.Constant(I64, offset) if isinstance(offset, int) else offset
    return builder.gep(pointer, [at], source_etype=I8)


def resize(builder: Builder, value: Value, width: int) -> Value:
    """Returns a value cut or filled with zeros to a width."""
    have = value.type.width
    if have == width:
        return value
    return builder.trunc(value, integer(width)) if have > width else builder.zext(value, integer(width))


def sign_resize(builder: Builder, value: Value, width: int) -> Value:
    """Returns a value cut or filled with copies of its sign bit to a width."""
    have = value.type.width
    if have == width:
        return value
    return builder.trunc(value, integer(width)) if have > width else builder.sext(value, integer(width))


def intrinsic(builder: Builder, name: str, result: Any, arguments: list[Value]) -> Value:
    """Calls an LLVM intrinsic by its full name."""
    module = builder.module
    function = module.globals.get(name)
    if function is None:
        function = ir.Function(module, ir.FunctionType(result, [a.type for a in arguments]), name)
    return builder.call(function, arguments)


def byte_swap(builder: Builder, value: Value) -> Value:
    """Reverses the bytes of an integer of 8 or a multiple of 16 bits."""
    width = value.type.width
    return value if width == 8 else intrinsic(builder, f"llvm.bswap.i{width}", value.type, [value])


def byte_swap_lanes(builder: Builder, value: Value) -> Value:
    """Reverses the bytes of each lane."""
    return intrinsic(builder, f"llvm.bswap.v{value.type.count}i32", value.type, [value])


def copy_bytes(builder: Builder, target: Value, origin: Value, length: Value) -> None:
    """Emits memcpy; the regions do not overlap."""
    arguments = [target, origin, length, ir.Constant(I1, 0)]
    intrinsic(builder, "llvm.memcpy.p0.p0.i64", ir.VoidType(), arguments)


def zero_bytes(builder: Builder, target: Value, length: int) -> None:
    """Emits memset to 0."""
    arguments = [target, ir.Constant(I8, 0), ir.Constant(I64, length), ir.Constant(I1, 0)]
    intrinsic(builder, "llvm.memset.p0.i64", ir.VoidType(), arguments)


def is_lanes(field: model.FieldRef) -> bool:
    """Returns whether a field is kept as a vector of lanes."""
    return cell_kind(field.width) == "lanes"


def load_cell(builder: Builder, pointer: Value, width: int) -> Value:
    """Loads a value as StateLayout lays it out: a lane vector, or an integer of ``width`` bits."""
    if cell_kind(width) == "lanes":
        return builder.load(pointer, align=1, typ=lane_vector(width))
    return resize(builder, builder.load(pointer, align=1, typ=integer(8 * cell_bytes(width))), width)


def store_cell(builder: Builder, pointer: Value, value: Value, width: int) -> None:
    """Stores a value as StateLayout lays it out, the inverse of load_cell."""
    if cell_kind(width) != "lanes":
        value = resize(builder, value, 8 * cell_bytes(width))
    builder.store(value, pointer, align=1)


def load_block(builder: Builder, pointer: Value, block: LaneBlock) -> Value:
    """Loads a block of lanes that lie in memory from ``pointer`` on."""
    at = byte_offset(builder, pointer, 4 * block.first)
    return builder.load(at, align=1, typ=block_type(block.count))


def store_block(builder: Builder, pointer: Value, block: LaneBlock, value: Value) -> None:
    """Stores a block of lanes, the inverse of load_block."""
    builder.store(value, byte_offset(builder, pointer, 4 * block.first), align=1)


class FieldStorage:
    """Stack slots for the fields and validity bits that a function uses; LLVM turns most into registers.

    Fields that ``place`` puts elsewhere (wide header fields lie in the PHV buffer) are read and written there.
    """

    def __init__(self, program: model.Program, builder: Builder) -> None:
        """Makes slots in the builder's current block, the entry block."""
        self._program = program
        self._builder = builder
        self._entry = builder.block
        self._fields: dict[model.FieldRef, Value] = {}
        self._valid: dict[str, Value] = {}
        self._scratch: dict[int, Value] = {}

    def place(self, field: model.FieldRef, pointer: Value) -> None:
        """Puts a field into the caller's memory, laid out as by store_cell."""
        self._fields[field] = pointer

    def address(self, field: model.FieldRef) -> Value:
        """Returns the address of a placed field."""
        return self._fields[field]

    def load(self, field: model.FieldRef) -> Value:
        """Returns the value of a field: a lane vector, or an integer of its width."""
        pointer = self._pointer(field)
        kind = lane_vector(field.width) if is_lanes(field) else integer(field.width)
        return self._builder.load(pointer, align=1 if is_lanes(field) else None, typ=kind)

    def store(self, field: model.FieldRef, value: Value) -> None:
        """Sets a field; ``value`` has the form that ``load`` returns."""
        self._builder.store(value, self._pointer(field), align=1 if is_lanes(field) else None)

    def store_integer(self, field: model.FieldRef, value: Value) -> None:
        """Sets a field to an integer of its width."""
        self.store(field, integer_to_lanes(self._builder, value, field.width) if is_lanes(field) else value)

    def load_block(self, field: model.FieldRef, block: LaneBlock) -> Value:
        """Returns a block of a field that is kept as lanes."""
        return load_block(self._builder, self._pointer(field), block)

    def store_block(self, field: model.FieldRef, block: LaneBlock, value: Value) -> None:
        """Sets a block of a field that is kept as lanes."""
        store_block(self._builder, self._pointer(field), block, value)

    def zero(self, field: model.FieldRef) -> None:
        """Sets a field to 0."""
        self.store(field, lane_constant(field.width, 0) if is_lanes(field) else number(field.width, 0))

    def valid(self, header: str) -> Value:
        """Returns whether a header is valid; metadata always are."""
        if self._program.headers[header].metadata:
            return ir.Constant(I1, 1)
        return self._builder.load(self._valid_pointer(header), typ=I1)

    def set_valid(self, header: str, value: Value) -> None:
        """Sets a header's validity."""
        self._builder.store(value, self._valid_pointer(header))

    def mark_valid(self, header: str, value: Value) -> None:
        """Sets a header's validity; a valid header makes the other members of its union invalid."""
        self.set_valid(header, value)
        for sibling in self._program.headers[header].siblings:
            self.set_valid(sibling, self._builder.and_(self.valid(sibling), self._builder.not_(value)))

    def slot(self, kind: object, initial: Value) -> Value:
        """Makes another stack slot, set at the start of the function: lanes to 0, others to ``initial``."""
        with self._builder.goto_block(self._entry):
            pointer = self._builder.alloca(kind)
            # llvmlite gives the pointer an element type and would check it; LLVM's pointers are opaque.
            pointer.type = POINTER
            if isinstance(kind, ir.VectorType):  # LLVM keeps blocks apart if no access spans them
                for block in blocks_of(32 * kind.count):
                    zeros = ir.Constant(block_type(block.count), None)
                    store_block(self._builder, pointer, block, zeros)
            else:
                self._builder.store(initial, pointer)
        return pointer

    def scratch(self, size: int) -> Value:
        """Returns ``size`` bytes of memory, undefined at the start of the function; equal sizes share one slot."""
        if size not in self._scratch:
            kind = ir.ArrayType(I8, size)
            self._scratch[size] = self.slot(kind, ir.Constant(kind, ir.Undefined))
        return self._scratch[size]

    def fields_of(self, header: str) -> list[model.FieldRef]:
        """Returns references to all fields of a header."""
        return list(self._program.headers[header].refs)

    def _pointer(self, field: model.FieldRef) -> Value:
        if field not in self._fields:
            zero = lane_constant(field.width, 0) if is_lanes(field) else number(field.width, 0)
            self._fields[field] = self.slot(zero.type, zero)
        return self._fields[field]

    def _valid_pointer(self, header: str) -> Value:
        if header not in self._valid:
            self._valid[header] = self.slot(I1, ir.Constant(I1, 0))
        return self._valid[header]


# Headers as bytes: fields are concatenated, most significant bit first.


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bits of a header that one instruction moves: 1, 2, 4 or 8 bytes."""

    start: int
    end: int

    @property
    def width(self) -> int:
        """Width in bits."""
        return self.end - self.start


def is_vector(field: model.Field) -> bool:
    """Returns whether a field is moved as a vector of lanes: a wide field that starts at a byte."""
    return _is_wide(field) and field.offset % 8 == 0


def chunks(start: int, end: int) -> Iterator[Chunk]:
    """Yields chunks that cover the bits from ``start`` to ``end``, both at whole bytes."""
    while start < end:
        size = next(s for s in (64, 32, 16, 8) if s <= end - start)
        yield Chunk(start, start + size)
        start += size


def segments(kind: model.HeaderType) -> Iterator[tuple[model.Field, ...]]:
    """Yields runs of fields that are moved by chunks, and each vector field by itself."""
    run: list[model.Field] = []
    for field in kind.fields:
        if is_vector(field):
            if run:
                yield tuple(run)
            run = []
            yield (field,)
        else:
            run.append(field)
    if run:
        yield tuple(run)


def read_header(
    builder: Builder, pointer: Value, kind: model.HeaderType, give: Callable[[model.Field, Value], None]
) -> None:
    """Reads the fields of a header from memory; ``give`` takes each in the form that FieldStorage stores."""
    for segment in segments(kind):
        if len(segment) == 1 and is_vector(segment[0]):
            field = segment[0]
            at = byte_offset(builder, pointer, field.offset // 8)
            give(field, byte_swap_lanes(builder, builder.load(at, align=1, typ=lane_vector(field.width))))
        else:
            _read_run(builder, pointer, segment, give)


def _read_run(
    builder: Builder, pointer: Value, run: tuple[model.Field, ...], give: Callable[[model.Field, Value], None]
) -> None:
    start, end = run[0].offset, run[-1].offset + run[-1].width
    pieces = [(chunk, read_chunk(builder, pointer, chunk)) for chunk in chunks(start, end)]
    for field in run:
        value = bits_of(builder, pieces, field.offset, field.width)
        give(field, integer_to_lanes(builder, value, field.width) if _is_wide(field) else value)


def read_chunk(builder: Builder, pointer: Value, chunk: Chunk) -> Value:
    """Returns a chunk as an integer whose most significant bit came first."""
    at = byte_offset(builder, pointer, chunk.start // 8)
    return byte_swap(builder, builder.load(at, align=1, typ=integer(chunk.width)))


def bits_of(builder: Builder, pieces: list[tuple[Chunk, Value]], offset: int, width: int) -> Value:
    """Returns ``width`` bits from ``offset`` on, combined from chunks."""
    result = number(width, 0)
    for chunk, value in pieces:
        low, high = max(offset, chunk.start), min(offset + width, chunk.end)
        if low >= high:
            continue
        part = resize(builder, builder.lshr(value, number(chunk.width, chunk.end - high)), high - low)
        part = builder.shl(resize(builder, part, width), number(width, offset + width - high))
        result = part if high - low == width else builder.or_(result, part)
    return result


def write_header(
    builder: Builder, pointer: Value, kind: model.HeaderType, take: Callable[[model.Field], Value]
) -> None:
    """Writes a header to memory; ``take`` returns each field in the form that FieldStorage loads."""
    for segment in segments(kind):
        if len(segment) == 1 and is_vector(segment[0]):
            field = segment[0]
            at = byte_offset(builder, pointer, field.offset // 8)
            builder.store(byte_swap_lanes(builder, take(field)), at, align=1)
        else:
            _write_run(builder, pointer, [(field.offset, _as_integer(builder, field, take)) for field in segment])


def _is_wide(field: model.Field) -> bool:
    return cell_kind(field.width) == "lanes"


def _as_integer(builder: Builder, field: model.Field, take: Callable[[model.Field], Value]) -> Value:
    return lanes_to_integer(builder, take(field), field.width) if _is_wide(field) else take(field)


def _write_run(builder: Builder, pointer: Value, run: list[tuple[int, Value]]) -> None:
    end = run[-1][0] + run[-1][1].type.width
    for chunk in chunks(run[0][0], end):
        value = gather(builder, chunk, run)
        at = byte_offset(builder, pointer, chunk.start // 8)
        builder.store(byte_swap(builder, value), at, align=1)


def gather(builder: Builder, chunk: Chunk, fields: list[tuple[int, Value]]) -> Value:
    """Returns the bits of a chunk from the fields (offset, value) that overlap it."""
    result = ir.Constant(integer(chunk.width), 0)
    for offset, value in fields:
        width = value.type.width
        low, high = max(offset, chunk.start), min(offset + width, chunk.end)
        if low >= high:
            continue
        part = resize(builder, builder.lshr(value, number(width, offset + width - high)), high - low)
        part = builder.shl(resize(builder, part, chunk.width), number(chunk.width, chunk.end - high))
        result = part if high - low == chunk.width else builder.or_(result, part)
    return result


# Headers with a field of variable length, between memory and fields.
#
# The field is kept as a number of its greatest width (an integer or lanes); a separate field holds its length in bits.
# On the wire it takes only that length. Its bytes are copied through the end of a buffer of the greatest width. If the
# field does not start at a byte, the whole header goes through the low bits of one integer.


def length_of(header: str) -> model.FieldRef:
    """Returns the field that holds the length of a header's varbit field."""
    return model.FieldRef(header, model.LENGTH_FIELD, model.LENGTH_WIDTH)


def varbit_bytes(builder: Value, storage: FieldStorage, header: str) -> Value:
    """Returns the current length in bytes (i64) of a header's varbit field."""
    return resize(builder, builder.lshr(storage.load(length_of(header)), number(model.LENGTH_WIDTH, 3)), 64)


def header_bytes(builder: Value, storage: FieldStorage, header: model.Header) -> Value:
    """Returns the current length in bytes (i64) of a header on the wire."""
    if header.type.varbit is None:
        return number(64, header.bytes)
    return builder.add(varbit_bytes(builder, storage, header.name), number(64, header.bytes))


def read_varbit_header(
    builder: Value, storage: FieldStorage, pointer: Value, header: model.Header, octets: Value
) -> None:
    """Reads the fields of a header from memory; its varbit field has ``octets`` (i64) bytes."""
    before, field, behind = _parts(header.type)
    if field.offset % 8:
        _read_unaligned(builder, storage, pointer, header, octets)
        return
    size = field.width // 8

    def give(read: model.Field, value: Value) -> None:
        storage.store(header.ref(read), value)

    read_header(builder, pointer, before, give)
    buffer = _buffer(storage, size)
    zero_bytes(builder, buffer, size)
    start = byte_offset(builder, pointer, field.offset // 8)
    copy_bytes(builder, byte_offset(builder, buffer, builder.sub(number(64, size), octets)), start, octets)
    pieces = [(chunk, read_chunk(builder, buffer, chunk)) for chunk in chunks(0, field.width)]
    storage.store_integer(header.ref(field), bits_of(builder, pieces, 0, field.width))
    bits = builder.shl(octets, number(64, 3))
    storage.store(length_of(header.name), resize(builder, bits, model.LENGTH_WIDTH))
    read_header(builder, byte_offset(builder, start, octets), behind, give)


def write_varbit_header(builder: Value, storage: FieldStorage, pointer: Value, header: model.Header) -> None:
    """Writes a header to memory."""
    before, field, behind = _parts(header.type)
    if field.offset % 8:
        _write_unaligned(builder, storage, pointer, header)
        return

    def take(wanted: model.Field) -> Value:
        return storage.load(header.ref(wanted))

    write_header(builder, pointer, before, take)
    size, octets = field.width // 8, varbit_bytes(builder, storage, header.name)
    buffer = _buffer(storage, size)
    value = varbit_number(builder, storage, header.ref(field))
    for chunk in chunks(0, field.width):
        part = byte_swap(builder, gather(builder, chunk, [(0, value)]))
        builder.store(part, byte_offset(builder, buffer, chunk.start // 8), align=1)
    start = byte_offset(builder, pointer, field.offset // 8)
    copy_bytes(builder, start, byte_offset(builder, buffer, builder.sub(number(64, size), octets)), octets)
    write_header(builder, byte_offset(builder, start, octets), behind, take)


def _read_unaligned(builder: Value, storage: FieldStorage, pointer: Value, header: model.Header, octets: Value) -> None:
    size = header.most_bytes
    buffer = _buffer(storage, size)
    zero_bytes(builder, buffer, size)
    length = builder.add(octets, number(64, header.bytes))
    copy_bytes(builder, byte_offset(builder, buffer, builder.sub(number(64, size), length)), pointer, length)
    pieces = [(chunk, read_chunk(builder, buffer, chunk)) for chunk in chunks(0, 8 * size)]
    rest = bits_of(builder, pieces, 0, 8 * size)
    bits = builder.shl(octets, number(64, 3))
    for field in reversed(header.type.wire_fields):
        value = resize(builder, rest, field.width)
        width = resize(builder, bits, rest.type.width) if field.kind == "varbit" else number(8 * size, field.width)
        if field.kind == "varbit":
            value = builder.and_(value, _ones(builder, field.width, bits))
        storage.store_integer(header.ref(field), value)
        rest = _shifted_right(builder, rest, width)
    storage.store(length_of(header.name), resize(builder, bits, model.LENGTH_WIDTH))


def _write_unaligned(builder: Value, storage: FieldStorage, pointer: Value, header: model.Header) -> None:
    size = header.most_bytes
    bits = resize(builder, storage.load(length_of(header.name)), 64)
    whole, behind = number(8 * size, 0), number(8 * size, 0)
    for field in reversed(header.type.wire_fields):
        value = resize(builder, varbit_number(builder, storage, header.ref(field)), 8 * size)
        whole = builder.or_(whole, builder.shl(value, behind))
        width = resize(builder, bits, 8 * size) if field.kind == "varbit" else number(8 * size, field.width)
        behind = builder.add(behind, width)
    buffer = _buffer(storage, size)
    for chunk in chunks(0, 8 * size):
        part = byte_swap(builder, gather(builder, chunk, [(0, whole)]))
        builder.store(part, byte_offset(builder, buffer, chunk.start // 8), align=1)
    length = builder.add(builder.lshr(bits, number(64, 3)), number(64, header.bytes))
    copy_bytes(builder, pointer, byte_offset(builder, buffer, builder.sub(number(64, size), length)), length)


def _ones(builder: Value, width: int, count: Value) -> Value:
    """Returns an integer whose ``count`` (i64, at most ``width``) lowest bits are one."""
    wide = width + 1  # so that a shift by all bits is defined
    power = builder.shl(number(wide, 1), resize(builder, count, wide))
    return resize(builder, builder.sub(power, number(wide, 1)), width)


def _shifted_right(builder: Value, value: Value, count: Value) -> Value:
    """Returns ``value >> count``; 0 if all bits are shifted out."""
    width = value.type.width
    everything = builder.icmp_unsigned(">=", count, number(width, width))
    return builder.select(everything, number(width, 0), builder.lshr(value, count))


def varbit_number(builder: Value, storage: FieldStorage, field: model.FieldRef) -> Value:
    """Returns the value of a varbit field as one integer."""
    value = storage.load(field)
    return lanes_to_integer(builder, value, field.width) if is_lanes(field) else value


def _parts(kind: model.HeaderType) -> tuple[model.HeaderType, model.Field, model.HeaderType]:
    """Returns the fields before the varbit field, that field, and the fields after it with offsets from its end."""
    at = next(i for i, f in enumerate(kind.fields) if f.kind == "varbit")
    field = kind.fields[at]
    behind = tuple(model.Field(f.name, f.width, f.signed, f.offset - field.offset) for f in kind.wire_fields[at + 1 :])
    return model.HeaderType(kind.name, kind.fields[:at]), field, model.HeaderType(kind.name, behind)


def _buffer(storage: FieldStorage, size: int) -> Value:
    kind = ir.ArrayType(I8, size)
    return storage.slot(kind, ir.Constant(kind, None))
