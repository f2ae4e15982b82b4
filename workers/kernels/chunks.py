"""Loops over the lanes of one chunk, compiled; ``numbers.py`` has the same in NumPy, tests hold them equal.

Arguments are addresses (see ``memory.py``). Floats of callers are in this machine's order; lanes on the wire
are in network order, int32 when quantized, float32 when raw. Every loop vectorizes.
"""

from typing import Any

import numpy as np

from p4reduce.native.memory import (
    as_float,
    as_word,
    load_be32,
    load_f32,
    store_be32,
    store_f32,
)
from p4reduce.workers.kernels.jit import entry, kernel


@kernel
def quantize(source: int, count: int, scale: float, limit: float, lanes: int) -> Any:
    """lanes[k] := rint(source[k] * scale), ties to even, held within +-limit; returns how many had to be held."""
    held = 0
    for k in range(count):
        exact = np.rint(np.float64(load_f32(source, k)) * scale)
        value = min(max(exact, -limit), limit)
        held += value != exact
        store_be32(lanes, k, np.int32(value))
    return held


@kernel
def dequantize(lanes: int, count: int, scale: float, target: int) -> Any:
    """target[k] := float32(lanes[k] * scale), one rounding."""
    for k in range(count):
        store_f32(target, k, np.float32(np.float64(load_be32(lanes, k)) * scale))


@kernel
def send_raw(source: int, count: int, lanes: int) -> Any:
    """lanes[k] := the bits of source[k]."""
    for k in range(count):
        store_be32(lanes, k, as_word(load_f32(source, k)))


@kernel
def take_raw(lanes: int, count: int, target: int) -> Any:
    """target[k] := the float32 whose bits are lanes[k]."""
    for k in range(count):
        store_f32(target, k, as_float(load_be32(lanes, k)))


@kernel
def add_raw(lanes: int, count: int, source: int, target: int) -> Any:
    """target[k] := source[k] + the float32 in lanes[k]; source and target may be one array."""
    for k in range(count):
        store_f32(target, k, load_f32(source, k) + as_float(load_be32(lanes, k)))


@kernel
def add_words(lanes: int, count: int, source: int, target: int) -> Any:
    """target[k] := source[k] + lanes[k] as int32, held at its ends as switches do; returns how many had to be held."""
    held = 0
    for k in range(count):
        exact = np.int64(as_word(load_f32(source, k))) + np.int64(load_be32(lanes, k))
        value = min(max(exact, np.int64(-(2**31))), np.int64(2**31 - 1))
        held += value != exact
        store_f32(target, k, as_float(np.int32(value)))
    return held


@kernel
def fill_nan(target: int, count: int) -> None:
    """target[:count] := NaN."""
    for k in range(count):
        store_f32(target, k, np.float32(np.nan))


@kernel
def clear_lanes(lanes: int, count: int) -> None:
    """lanes[:count] := 0."""
    for k in range(count):
        store_be32(lanes, k, np.int32(0))


@kernel
def descend(sums: int, count: int, step: float, weights: int) -> Any:
    """weights[k] -= step * sums[k], in float32, two roundings (no fused multiply-add)."""
    for k in range(count):
        store_f32(weights, k, load_f32(weights, k) - step * load_f32(sums, k))


@kernel
def clear_tail(target: int, begin: int, end: int) -> Any:
    """target[begin:end] := 0.0: the padding of a last chunk."""
    for k in range(begin, end):
        store_f32(target, k, np.float32(0.0))


@kernel
def largest_word(source: int, count: int) -> Any:
    """The largest bit pattern without sign, 0..0x7fffffff: orders magnitudes, and NaN and Inf above all numbers."""
    largest = np.int32(0)
    for k in range(count):
        largest = max(largest, as_word(load_f32(source, k)) & np.int32(0x7FFFFFFF))
    return largest


@entry(np.dtype(np.float32), int, int, np.dtype(np.uint8), int)
def chunk_exponents(values: Any, length: int, lanes: int, exponents: Any, chunks: int) -> Any:
    """The biased exponent of each chunk of a float32 array.

    values: ``length`` elements. exponents: uint8 array, one cell for each of the ``chunks`` chunks of ``lanes``
    elements. Returns -1, or the index of the first element that is NaN or infinite.
    """
    source = values.ctypes.data
    for chunk in range(chunks):
        begin = chunk * lanes
        count = min(lanes, length - begin)
        largest = largest_word(source + 4 * begin, count)
        if largest >= 0x7F800000:
            for k in range(begin, begin + count):
                if as_word(load_f32(source, k)) & np.int32(0x7FFFFFFF) >= 0x7F800000:
                    return k
        exponents[chunk] = 0 if largest == 0 else (largest >> 23) + 1
    return -1


@entry(np.dtype(np.float32), int, int, np.dtype(np.uint8), np.dtype(np.uint8), int)
def chunk_poison(values: Any, length: int, lanes: int, exponents: Any, poison: Any, chunks: int) -> Any:
    """As ``chunk_exponents`` where some elements are NaN or infinite: a chunk with one of them has exponent 0.

    poison: uint8 array, one cell for each chunk: 1 where it has such an element. Returns how many chunks have one.
    """
    source = values.ctypes.data
    found = 0
    for chunk in range(chunks):
        begin = chunk * lanes
        largest = largest_word(source + 4 * begin, min(lanes, length - begin))
        poison[chunk] = largest >= 0x7F800000
        found += largest >= 0x7F800000
        exponents[chunk] = 0 if largest == 0 or largest >= 0x7F800000 else (largest >> 23) + 1
    return found
