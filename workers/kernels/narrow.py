"""Lanes of 16 and 8 bits, compiled: two or four in each word on the wire; ``numbers.py`` has the same in NumPy.

Words, and lanes within them, are in network order, so a frame holds its lanes in ascending order. At 8 bits rounding
is stochastic: a number is rounded up with the probability of its fractional part, so that sums are unbiased. The
random number is a function of the sender, the iteration, the chunk and the place in it, so that resent frames are
identical, also in real time, and runs can be repeated exactly.
"""

from typing import Any, Final

import numpy as np

from p4reduce.workers import wire
from p4reduce.workers.kernels import kernel
from p4reduce.workers.kernels.chunks import power_of_two, scale_down, scale_up
from p4reduce.workers.kernels.frames import SEQ_MASK, WIDTH_SHIFT
from p4reduce.workers.numbers import BY_CHANCE_BITS, MIX_A, MIX_B, PLACE_STEP, NumberMode
from p4reduce.workers.wire import WORD_BITS
from p4switch.native.memory import load_be16, load_f32, load_u8, store_be16, store_f32, store_u8

_BLOCK: Final = int(NumberMode.BLOCK)
_UNIT: Final = 2.0**-32
_WIDTH_16: Final = wire.WIDTHS[16] << WIDTH_SHIFT
_WIDTH_8: Final = wire.WIDTHS[8] << WIDTH_SHIFT


@kernel
def width_flag(bits: int) -> Any:
    """The flags of a frame for the width of its lanes."""
    if bits == WORD_BITS:
        return 0
    return _WIDTH_16 if bits == 16 else _WIDTH_8


@kernel
def _mixed(number: int) -> Any:
    number ^= number >> 16
    number = (number * MIX_A) & SEQ_MASK
    number ^= number >> 13
    number = (number * MIX_B) & SEQ_MASK
    return number ^ (number >> 16)


@kernel
def chance_key(e: Any, chunk: int) -> Any:
    """The key of a chunk's random numbers (as ``numbers.chance_key``)."""
    return _mixed(_mixed(_mixed(_mixed(e.ip & SEQ_MASK) ^ e.job) ^ e.iteration) ^ (chunk & SEQ_MASK))


@kernel
def limit_of(e: Any, bits: int) -> Any:
    """The largest magnitude that one worker may put into a lane (numbers.Scale.limit)."""
    if e.mode == _BLOCK:
        return power_of_two(bits - 2 - e.headroom)
    return np.float64(((1 << (bits - 1)) - 1) // e.members)


@kernel
def quantize_narrow(source: int, count: int, scale: float, limit: float, bits: int, key: int, lanes: int) -> Any:
    """lanes[k] := source[k] * scale, rounded and clamped to +-limit; return the number of clamped lanes."""
    held = 0
    if bits == BY_CHANCE_BITS:
        for k in range(count):
            chance = np.float64(_mixed((key + k * PLACE_STEP) & SEQ_MASK)) * _UNIT
            exact = np.floor(np.float64(load_f32(source, k)) * scale + chance)
            value = min(max(exact, -limit), limit)
            held += value != exact
            store_u8(lanes, k, np.uint8(np.int64(value) & 255))
        return held
    for k in range(count):
        exact = np.rint(np.float64(load_f32(source, k)) * scale)
        value = min(max(exact, -limit), limit)
        held += value != exact
        store_be16(lanes, k, np.int16(value))
    return held


@kernel
def _lane(lanes: int, k: int, bits: int) -> Any:
    return np.float64(np.int8(load_u8(lanes, k))) if bits == BY_CHANCE_BITS else np.float64(load_be16(lanes, k))


@kernel
def dequantize_narrow(lanes: int, count: int, scale: float, bits: int, target: int) -> None:
    """target[k] := float32(lanes[k] * scale), one rounding."""
    if bits == BY_CHANCE_BITS:
        for k in range(count):
            store_f32(target, k, np.float32(np.float64(np.int8(load_u8(lanes, k))) * scale))
    else:
        for k in range(count):
            store_f32(target, k, np.float32(np.float64(load_be16(lanes, k)) * scale))


@kernel
def send_narrow(e: Any, entry: Any, source: int, lanes: int) -> Any:
    """Write a chunk's numbers into its frame's lanes; return the number of clamped lanes."""
    bits = entry.bits
    count = e.lanes * (WORD_BITS // bits)
    up = scale_up(e, entry.agreed, bits)
    return quantize_narrow(source, count, up, limit_of(e, bits), bits, entry.chance, lanes)


@kernel
def keep_rounding(e: Any, source: int, count: int, exponent: int, bits: int, lanes: int, target: int) -> None:
    """target[k] := source[k] minus the value of lanes[k], the rounding error; 0 if the lane was clamped."""
    up = scale_up(e, exponent, bits)
    down = scale_down(e, exponent, bits)
    limit = limit_of(e, bits)
    for k in range(count):
        number = np.float64(load_f32(source, k))
        left = number - _lane(lanes, k, bits) * down
        store_f32(target, k, np.float32(left if abs(number * up) <= limit else 0.0))
