"""Short names for LLVM types and constants."""

from typing import Any, Final, TypeAlias

from llvmlite import ir

Value: TypeAlias = Any
"""An llvmlite IR value; llvmlite has no type hints."""

Builder: TypeAlias = Any

POINTER: Final = ir.PointerType()
I1: Final = ir.IntType(1)
I8: Final = ir.IntType(8)
I32: Final = ir.IntType(32)
I64: Final = ir.IntType(64)


_FEW_LANES: Final = 4
"""Up to so many lanes are joined one by one."""


def integer(width: int) -> Any:
    """The type of integers of a width."""
    return ir.IntType(width)


def number(width: int, value: int) -> Value:
    """An integer constant, taken modulo ``2**width``."""
    return ir.Constant(ir.IntType(width), value & ((1 << width) - 1))


def lane_vector(width: int) -> Any:
    """The type of a value of ``width`` bits as 32-bit lanes, the most significant first."""
    return ir.VectorType(I32, width // 32)


def lane_constant(width: int, value: int) -> Value:
    """A constant vector of lanes."""
    lanes = [(value >> at) & 0xFFFFFFFF for at in range(width - 32, -1, -32)]
    return ir.Constant(lane_vector(width), lanes)


def pick_lanes(builder: Builder, vector: Value, picks: list[int]) -> Value:
    """Lanes by their numbers; a number that the vector does not have gives 0."""
    count = vector.type.count
    mask = [pick if 0 <= pick < count else count for pick in picks]
    zeros = ir.Constant(vector.type, [0] * count)
    return builder.shuffle_vector(vector, zeros, ir.Constant(ir.VectorType(I32, len(mask)), mask))


def lanes_to_integer(builder: Builder, vector: Value, width: int) -> Value:
    """The least significant bits of lanes as one integer, filled with zeros to ``width`` bits."""
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
    # Reversing the bytes of each lane and then all bytes reverses the lanes. A shuffle would do so too, but
    # LLVM 22 aborts on bitcasts of shuffles to odd widths (VectorCombine.cpp, foldBitcastShuffle).
    swapped = builder.bitcast(byte_swap_lanes(builder, vector), integer(32 * count))
    return resize(builder, byte_swap(builder, swapped), width)


def integer_to_lanes(builder: Builder, value: Value, width: int) -> Value:
    """Lanes from an integer, cut or filled with zeros to ``width`` bits, a multiple of 32."""
    count = min(-(-value.type.width // 32), width // 32)
    swapped = byte_swap(builder, resize(builder, value, 32 * count))
    vector = byte_swap_lanes(builder, builder.bitcast(swapped, ir.VectorType(I32, count)))
    return vector if 32 * count == width else pick_lanes(builder, vector, list(range(count - width // 32, count)))


def byte_offset(builder: Builder, pointer: Value, offset: Value | int) -> Value:
    """``pointer`` moved by bytes."""
    at = ir.Constant(I64, offset) if isinstance(offset, int) else offset
    return builder.gep(pointer, [at], source_etype=I8)


def resize(builder: Builder, value: Value, width: int) -> Value:
    """A value cut or filled with zeros to a width."""
    have = value.type.width
    if have == width:
        return value
    return builder.trunc(value, integer(width)) if have > width else builder.zext(value, integer(width))


def sign_resize(builder: Builder, value: Value, width: int) -> Value:
    """A value cut or filled with copies of its sign bit to a width."""
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
    """memcpy; the regions do not overlap."""
    arguments = [target, origin, length, ir.Constant(I1, 0)]
    intrinsic(builder, "llvm.memcpy.p0.p0.i64", ir.VoidType(), arguments)


def zero_bytes(builder: Builder, target: Value, length: int) -> None:
    """Memset to 0."""
    arguments = [target, ir.Constant(I8, 0), ir.Constant(I64, length), ir.Constant(I1, 0)]
    intrinsic(builder, "llvm.memset.p0.i64", ir.VoidType(), arguments)
