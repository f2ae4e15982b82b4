"""Machine code of hash calculations over fields: csum16, CRCs, exclusive or, identity.

The algorithms are those of behavioral-model's calculations.cpp, which takes bytes: the inputs are concatenated, most
significant bit first, zero bits fill the last byte, and inputs of invalid headers are left out.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from llvmlite import ir

from p4switch.compiler.data import DataLowering
from p4switch.compiler.lanes import FunctionContext
from p4switch.compiler.storage import (
    I8,
    I64,
    Chunk,
    Value,
    byte_offset,
    byte_swap,
    chunks,
    gather,
    length_of,
    number,
    resize,
)
from p4switch.program import program as model

Step: TypeAlias = Callable[[Value, Value, Value], Value]
"""Returns the next accumulator from the accumulator, a byte, and the byte's position (i64)."""

_CRC16: Final = (16, 0xA001, 0, 0)
_CRC32: Final = (32, 0xEDB88320, 0xFFFFFFFF, 0xFFFFFFFF)
CRC_PARAMETERS: Final = {"crc16": _CRC16, "crc16_custom": _CRC16, "crc32": _CRC32, "crc32_custom": _CRC32}
"""Reflected CRCs: width, reversed polynomial, initial value, final exclusive or."""


class _Part(NamedTuple):
    """One field of the inputs: the header that must be valid (None: always there), its value, and its length in bits
    (i32; None: the width of the value).
    """

    needs: str | None
    value: Value
    length: Value | None = None


class HashLowering:
    """Computes one calculation at the builder's position."""

    def __init__(self, context: FunctionContext, calculation: model.Calculation) -> None:
        self._context = context
        self._builder = context.builder
        self._calculation = calculation

    def result(self) -> Value:
        """Returns the hash as i64."""
        parts = self._parts()
        headers = {part.needs for part in parts if part.needs is not None}
        fixed = all(part.length is None for part in parts)
        one_header = len(headers) <= 1 and fixed and not self._calculation.payload
        if not one_header or self._calculation.algorithm not in ("csum16", "cksum16"):
            return self._over_bytes()
        return self._csum16_of_one_header(next(iter(headers), None))

    def _parts(self) -> list[_Part]:
        """Returns the input fields in order."""
        data, storage = DataLowering(self._context, f"calculation {self._calculation.name!r}"), self._context.storage
        metadata = {h.name for h in self._context.program.headers.values() if h.metadata}
        fields: list[model.FieldRef] = []
        parts: list[_Part] = []
        for item in self._calculation.inputs:
            match item:
                case model.ConstInput(value, width):
                    parts.append(_Part(None, number(width, value)))
                case model.FieldInput(field):
                    fields = [field]
                case model.HeaderInput(header):
                    fields = [f for f in storage.fields_of(header) if f.name != model.LENGTH_FIELD]
            if not isinstance(item, model.ConstInput):
                for ref in fields:
                    needs = None if ref.header in metadata else ref.header
                    parts.append(_Part(needs, data.number(ref, ref.width), self._length(ref)))
        return parts

    def _length(self, field: model.FieldRef) -> Value | None:
        """Returns the current length in bits (i32) of a varbit field; None for other fields."""
        varbit = self._context.program.headers[field.header].type.varbit
        if varbit is None or varbit.name != field.name:
            return None
        return self._context.storage.load(length_of(field.header))

    # --- the common case: a checksum over one header

    def _csum16_of_one_header(self, header: str | None) -> Value:
        """Chooses between two sums, because inputs of an invalid header are left out."""
        parts = self._parts()
        present = self._csum16_static([part.value for part in parts])
        if header is None:
            return present
        absent = self._csum16_static([part.value for part in parts if part.needs is None])
        return self._builder.select(self._context.storage.valid(header), present, absent)

    def _csum16_static(self, values: list[Value]) -> Value:
        b = self._builder
        placed, at = [], 0
        for value in values:
            placed.append((at, value))
            at += value.type.width
        total = ir.Constant(I64, 0)
        for start in range(0, at, 16):
            word = gather(b, Chunk(start, start + 16), placed)
            total = b.add(total, resize(b, word, 64))
        return self._fold(total)

    def _fold(self, total: Value) -> Value:
        """Returns the one's complement of a sum of 16-bit words (RFC 1071)."""
        b = self._builder
        for _ in range(4):
            total = b.add(b.and_(total, number(64, 0xFFFF)), b.lshr(total, number(64, 16)))
        return b.xor(total, number(64, 0xFFFF))

    # --- the general case: bytes in memory

    def _over_bytes(self) -> Value:
        match self._calculation.algorithm:
            case "csum16" | "cksum16":
                return self._fold(self._fold_bytes(64, 0, self._word_step(2, add=True)))
            case "xor16":
                return self._fold_bytes(64, 0, self._word_step(2, add=False))
            case "xor32":
                return self._fold_bytes(64, 0, self._word_step(4, add=False))
            case "crcCCITT":
                return resize(self._builder, self._fold_bytes(16, 0xFFFF, self._ccitt_step), 64)
            case "identity":
                return self._fold_bytes(64, 0, self._identity_step)
            case algorithm:
                width, polynomial, initial, final = CRC_PARAMETERS[algorithm]
                crc = self._fold_bytes(width, initial, self._crc_step(polynomial))
                return resize(self._builder, self._builder.xor(crc, number(width, final)), 64)

    def _bytes(self) -> tuple[Value, Value]:
        """Writes the inputs to memory; returns address and length in bytes.

        The inputs are shifted into one integer with room for all of them; then they are moved to its top bits.
        """
        b = self._builder
        parts = self._parts()
        total = 8 * -(-max(sum(part.value.type.width for part in parts), 1) // 8)
        if any(part.length is not None for part in parts):
            total += 8  # so that a shift by all bits of a single varbit field is defined
        joined, used = number(total, 0), number(32, 0)
        for part in parts:
            width = part.value.type.width
            if part.length is not None:
                shifted = b.shl(joined, resize(b, part.length, total))
            else:
                shifted = number(total, 0) if width >= total else b.shl(joined, number(total, width))
            longer = b.or_(shifted, resize(b, part.value, total))
            more = b.add(used, number(32, width) if part.length is None else part.length)
            if part.needs is not None:
                valid = self._context.storage.valid(part.needs)
                longer, more = b.select(valid, longer, joined), b.select(valid, more, used)
            joined, used = longer, more
        free = b.sub(number(32, total), used)
        # A shift by the whole width (no input at all) is undefined; the bytes are not used then.
        free = b.select(b.icmp_unsigned("<", free, number(32, total)), free, number(32, 0))
        joined = b.shl(joined, resize(b, free, total))
        pointer = self._context.storage.slot(
            ir.ArrayType(I8, total // 8), ir.Constant(ir.ArrayType(I8, total // 8), None)
        )
        for chunk in chunks(0, total):
            piece = resize(b, b.lshr(joined, number(total, total - chunk.end)), chunk.width)
            b.store(byte_swap(b, piece), byte_offset(b, pointer, chunk.start // 8), align=1)
        length = b.lshr(b.add(used, number(32, 7)), number(32, 3))
        return pointer, resize(b, length, 64)

    def _fold_bytes(self, width: int, initial: int, step: Step) -> Value:
        """Folds ``step(accumulator, byte, position)`` over the inputs, and over the payload if the hash covers it."""
        pointer, length = self._bytes()
        result = self._each_byte((pointer, length), number(64, 0), number(width, initial), step)
        if self._calculation.payload:
            result = self._each_byte(self._context.payload(), length, result, step)
        return result

    def _each_byte(self, data: tuple[Value, Value], position: Value, initial: Value, step: Step) -> Value:
        """Folds over the bytes at (address, length); the first byte has index ``position`` in the whole input."""
        b, context = self._builder, self._context
        pointer, length = data
        before = b.block
        loop, done = context.block("hash"), context.block("hashed")
        b.cbranch(b.icmp_unsigned("==", length, number(64, 0)), done, loop)
        b.position_at_end(loop)
        at, accumulator = b.phi(I64), b.phi(initial.type)
        byte = b.load(byte_offset(b, pointer, at), align=1, typ=I8)
        following = step(accumulator, byte, b.add(at, position))
        next_at = b.add(at, number(64, 1))
        for phi, first, later in ((at, number(64, 0), next_at), (accumulator, initial, following)):
            phi.add_incoming(first, before)
            phi.add_incoming(later, loop)
        b.cbranch(b.icmp_unsigned("==", next_at, length), done, loop)
        b.position_at_end(done)
        result = b.phi(initial.type)
        result.add_incoming(initial, before)
        result.add_incoming(following, loop)
        return result

    def _word_step(self, size: int, *, add: bool) -> Step:
        """Returns a step that adds or xors big-endian words of ``size`` bytes; zeros fill the last word."""

        def step(accumulator: Value, byte: Value, at: Value) -> Value:
            b = self._builder
            place = b.sub(number(64, size - 1), b.and_(at, number(64, size - 1)))
            part = b.shl(resize(b, byte, 64), b.shl(place, number(64, 3)))
            return b.add(accumulator, part) if add else b.xor(accumulator, part)

        return step

    def _identity_step(self, accumulator: Value, byte: Value, at: Value) -> Value:
        b = self._builder
        longer = b.or_(b.shl(accumulator, number(64, 8)), resize(b, byte, 64))
        return b.select(b.icmp_unsigned("<", at, number(64, 8)), longer, accumulator)

    def _crc_step(self, polynomial: int) -> Step:
        def step(crc: Value, byte: Value, at: Value) -> Value:
            _ = at
            b, width = self._builder, crc.type.width
            crc = b.xor(crc, resize(b, byte, width))
            for _bit in range(8):
                mask = b.sub(number(width, 0), b.and_(crc, number(width, 1)))
                crc = b.xor(b.lshr(crc, number(width, 1)), b.and_(mask, number(width, polynomial)))
            return crc

        return step

    def _ccitt_step(self, crc: Value, byte: Value, at: Value) -> Value:
        _ = at
        b = self._builder
        crc = b.xor(crc, b.shl(resize(b, byte, 16), number(16, 8)))
        for _bit in range(8):
            mask = b.ashr(crc, number(16, 15))
            crc = b.xor(b.shl(crc, number(16, 1)), b.and_(mask, number(16, 0x1021)))
        return crc
