"""Headers with a field of variable length, between memory and fields.

The field lies as a number in an integer (or lanes) of its greatest width, its length in bits in a field of its own. On
the wire it takes only its length. Bytes go through a buffer of the greatest width, where they are at the end. Where the
field does not start at a byte, the whole header goes through one integer, at whose end the header is.
"""

from llvmlite import ir

from p4reduce.dataplane.compiler.llvm_types import (
    I8,
    Value,
    byte_offset,
    byte_swap,
    copy_bytes,
    integer_to_lanes,
    lanes_to_integer,
    number,
    resize,
    zero_bytes,
)
from p4reduce.dataplane.compiler.storage import FieldStorage, is_lanes
from p4reduce.dataplane.compiler.wire import bits_of, chunks, gather, read_chunk, read_header, write_header
from p4reduce.dataplane.model.expressions import FieldRef
from p4reduce.dataplane.model.headers import LENGTH_FIELD, LENGTH_WIDTH, Field, Header, HeaderType


def length_of(header: str) -> FieldRef:
    """The field with the length of a header's varbit field."""
    return FieldRef(header, LENGTH_FIELD, LENGTH_WIDTH)


def varbit_bytes(builder: Value, storage: FieldStorage, header: str) -> Value:
    """Bytes (i64) that a header's varbit field takes now."""
    return resize(builder, builder.lshr(storage.load(length_of(header)), number(LENGTH_WIDTH, 3)), 64)


def header_bytes(builder: Value, storage: FieldStorage, header: Header) -> Value:
    """Bytes (i64) that a header takes on the wire."""
    if header.type.varbit is None:
        return number(64, header.bytes)
    return builder.add(varbit_bytes(builder, storage, header.name), number(64, header.bytes))


def read_varbit_header(builder: Value, storage: FieldStorage, pointer: Value, header: Header, octets: Value) -> None:
    """Sets the fields of a header from memory, its varbit field of ``octets`` (i64) bytes."""
    before, field, behind = _parts(header.type)
    if field.offset % 8:
        _read_unaligned(builder, storage, pointer, header, octets)
        return
    size = field.width // 8

    def give(read: Field, value: Value) -> None:
        storage.store(FieldRef(header.name, read.name, read.width, read.signed), value)

    read_header(builder, pointer, before, give)
    buffer = _buffer(storage, size)
    zero_bytes(builder, buffer, size)
    start = byte_offset(builder, pointer, field.offset // 8)
    copy_bytes(builder, byte_offset(builder, buffer, builder.sub(number(64, size), octets)), start, octets)
    pieces = [(chunk, read_chunk(builder, buffer, chunk)) for chunk in chunks(0, field.width)]
    ref = FieldRef(header.name, field.name, field.width)
    value = bits_of(builder, pieces, 0, field.width)
    storage.store(ref, integer_to_lanes(builder, value, field.width) if is_lanes(ref) else value)
    bits = builder.shl(octets, number(64, 3))
    storage.store(length_of(header.name), resize(builder, bits, LENGTH_WIDTH))
    read_header(builder, byte_offset(builder, start, octets), behind, give)


def write_varbit_header(builder: Value, storage: FieldStorage, pointer: Value, header: Header) -> None:
    """Writes a header to memory."""
    before, field, behind = _parts(header.type)
    if field.offset % 8:
        _write_unaligned(builder, storage, pointer, header)
        return

    def take(wanted: Field) -> Value:
        return storage.load(FieldRef(header.name, wanted.name, wanted.width, wanted.signed))

    write_header(builder, pointer, before, take)
    size, octets = field.width // 8, varbit_bytes(builder, storage, header.name)
    buffer = _buffer(storage, size)
    value = varbit_number(builder, storage, FieldRef(header.name, field.name, field.width))
    for chunk in chunks(0, field.width):
        part = byte_swap(builder, gather(builder, chunk, [(0, value)]))
        builder.store(part, byte_offset(builder, buffer, chunk.start // 8), align=1)
    start = byte_offset(builder, pointer, field.offset // 8)
    copy_bytes(builder, start, byte_offset(builder, buffer, builder.sub(number(64, size), octets)), octets)
    write_header(builder, byte_offset(builder, start, octets), behind, take)


def _read_unaligned(builder: Value, storage: FieldStorage, pointer: Value, header: Header, octets: Value) -> None:
    size = header.most_bytes
    buffer = _buffer(storage, size)
    zero_bytes(builder, buffer, size)
    length = builder.add(octets, number(64, header.bytes))
    copy_bytes(builder, byte_offset(builder, buffer, builder.sub(number(64, size), length)), pointer, length)
    pieces = [(chunk, read_chunk(builder, buffer, chunk)) for chunk in chunks(0, 8 * size)]
    rest = bits_of(builder, pieces, 0, 8 * size)
    bits = builder.shl(octets, number(64, 3))
    for field in reversed(header.type.wire_fields):
        ref = FieldRef(header.name, field.name, field.width, field.signed)
        value = resize(builder, rest, field.width)
        width = resize(builder, bits, rest.type.width) if field.kind == "varbit" else number(8 * size, field.width)
        if field.kind == "varbit":
            value = builder.and_(value, _ones(builder, field.width, bits))
        storage.store(ref, integer_to_lanes(builder, value, field.width) if is_lanes(ref) else value)
        rest = _shifted_right(builder, rest, width)
    storage.store(length_of(header.name), resize(builder, bits, LENGTH_WIDTH))


def _write_unaligned(builder: Value, storage: FieldStorage, pointer: Value, header: Header) -> None:
    size = header.most_bytes
    bits = resize(builder, storage.load(length_of(header.name)), 64)
    whole, behind = number(8 * size, 0), number(8 * size, 0)
    for field in reversed(header.type.wire_fields):
        ref = FieldRef(header.name, field.name, field.width, field.signed)
        value = resize(builder, varbit_number(builder, storage, ref), 8 * size)
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
    """An integer with ``count`` (i64, at most ``width``) ones at its end."""
    wide = width + 1  # so that a shift by all bits is defined
    one = builder.shl(number(wide, 1), resize(builder, count, wide))
    return resize(builder, builder.sub(one, number(wide, 1)), width)


def _shifted_right(builder: Value, value: Value, count: Value) -> Value:
    """``value >> count``, 0 where that shifts out everything."""
    width = value.type.width
    everything = builder.icmp_unsigned(">=", count, number(width, width))
    return builder.select(everything, number(width, 0), builder.lshr(value, count))


def varbit_number(builder: Value, storage: FieldStorage, field: FieldRef) -> Value:
    """The value of a varbit field as one integer."""
    value = storage.load(field)
    return lanes_to_integer(builder, value, field.width) if is_lanes(field) else value


def _parts(kind: HeaderType) -> tuple[HeaderType, Field, HeaderType]:
    """The fields in front of the varbit field, itself, and those behind it with offsets from its end."""
    at = next(i for i, f in enumerate(kind.fields) if f.kind == "varbit")
    field = kind.fields[at]
    behind = tuple(Field(f.name, f.width, f.signed, f.offset - field.offset) for f in kind.wire_fields[at + 1 :])
    return HeaderType(kind.name, kind.fields[:at]), field, HeaderType(kind.name, behind)


def _buffer(storage: FieldStorage, size: int) -> Value:
    kind = ir.ArrayType(I8, size)
    return storage.slot(kind, ir.Constant(kind, None))
