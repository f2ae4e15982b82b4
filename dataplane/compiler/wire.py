"""Headers as bytes: fields stand one behind the other, most significant bit first."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from llvmlite import ir

from p4reduce.dataplane.compiler.llvm_types import (
    Builder,
    Value,
    byte_offset,
    byte_swap,
    byte_swap_lanes,
    integer,
    integer_to_lanes,
    lane_vector,
    lanes_to_integer,
    number,
    resize,
)
from p4reduce.dataplane.model.headers import Field, HeaderType
from p4reduce.dataplane.state.layout import cell_kind


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bits of a header that are moved by one instruction: 1, 2, 4 or 8 bytes."""

    start: int
    end: int

    @property
    def width(self) -> int:
        """Bits."""
        return self.end - self.start


def is_vector(field: Field) -> bool:
    """Whether a field is moved as a vector of lanes: a wide one that starts at a byte."""
    return _is_wide(field) and field.offset % 8 == 0


def chunks(start: int, end: int) -> Iterator[Chunk]:
    """Chunks that cover the bits from ``start`` to ``end``, both whole bytes."""
    while start < end:
        size = next(s for s in (64, 32, 16, 8) if s <= end - start)
        yield Chunk(start, start + size)
        start += size


def segments(kind: HeaderType) -> Iterator[tuple[Field, ...]]:
    """Runs of fields that are moved by chunks, and vector fields, each by itself."""
    run: list[Field] = []
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


def read_header(builder: Builder, pointer: Value, kind: HeaderType, give: Callable[[Field, Value], None]) -> None:
    """Reads the fields of a header from memory; ``give`` takes each as FieldStorage stores it."""
    for segment in segments(kind):
        if len(segment) == 1 and is_vector(segment[0]):
            field = segment[0]
            at = byte_offset(builder, pointer, field.offset // 8)
            give(field, byte_swap_lanes(builder, builder.load(at, align=1, typ=lane_vector(field.width))))
        else:
            _read_run(builder, pointer, segment, give)


def _read_run(builder: Builder, pointer: Value, run: tuple[Field, ...], give: Callable[[Field, Value], None]) -> None:
    start, end = run[0].offset, run[-1].offset + run[-1].width
    pieces = [(chunk, read_chunk(builder, pointer, chunk)) for chunk in chunks(start, end)]
    for field in run:
        value = bits_of(builder, pieces, field.offset, field.width)
        give(field, integer_to_lanes(builder, value, field.width) if _is_wide(field) else value)


def read_chunk(builder: Builder, pointer: Value, chunk: Chunk) -> Value:
    """A chunk as an integer whose most significant bit came first."""
    at = byte_offset(builder, pointer, chunk.start // 8)
    return byte_swap(builder, builder.load(at, align=1, typ=integer(chunk.width)))


def bits_of(builder: Builder, pieces: list[tuple[Chunk, Value]], offset: int, width: int) -> Value:
    """``width`` bits from ``offset`` on, put together from chunks."""
    result = number(width, 0)
    for chunk, value in pieces:
        low, high = max(offset, chunk.start), min(offset + width, chunk.end)
        if low >= high:
            continue
        part = resize(builder, builder.lshr(value, number(chunk.width, chunk.end - high)), high - low)
        part = builder.shl(resize(builder, part, width), number(width, offset + width - high))
        result = part if high - low == width else builder.or_(result, part)
    return result


def write_header(builder: Builder, pointer: Value, kind: HeaderType, take: Callable[[Field], Value]) -> None:
    """Writes a header to memory; ``take`` gives each field as FieldStorage loads it."""
    for segment in segments(kind):
        if len(segment) == 1 and is_vector(segment[0]):
            field = segment[0]
            at = byte_offset(builder, pointer, field.offset // 8)
            builder.store(byte_swap_lanes(builder, take(field)), at, align=1)
        else:
            _write_run(builder, pointer, [(field.offset, _as_integer(builder, field, take)) for field in segment])


def _is_wide(field: Field) -> bool:
    return cell_kind(field.width) == "lanes"


def _as_integer(builder: Builder, field: Field, take: Callable[[Field], Value]) -> Value:
    return lanes_to_integer(builder, take(field), field.width) if _is_wide(field) else take(field)


def _write_run(builder: Builder, pointer: Value, run: list[tuple[int, Value]]) -> None:
    end = run[-1][0] + run[-1][1].type.width
    for chunk in chunks(run[0][0], end):
        value = gather(builder, chunk, run)
        at = byte_offset(builder, pointer, chunk.start // 8)
        builder.store(byte_swap(builder, value), at, align=1)


def gather(builder: Builder, chunk: Chunk, fields: list[tuple[int, Value]]) -> Value:
    """The bits of a chunk from the fields (offset, value) that overlap it."""
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
