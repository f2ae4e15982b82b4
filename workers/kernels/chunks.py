"""Compiled loops over the lanes of one chunk; ``numbers.py`` has them in NumPy, and tests compare the two.

Arguments are addresses (see ``memory.py``). Floats of callers are in this machine's order; lanes on the wire
are in network order, int32 when quantized, float32 when raw. Every loop vectorizes.
"""

from typing import Any, Final

import numpy as np

from p4reduce.workers.kernels import entry, kernel
from p4reduce.workers.numbers import EXCESS, EXPONENT_BIAS, NumberMode
from p4switch.native.memory import (
    as_double,
    as_float,
    as_word,
    carray,
    load_be32,
    load_f32,
    load_u8,
    pointer,
    store_be32,
    store_f32,
    store_u8,
)


@kernel
def quantize(source: int, count: int, scale: float, limit: float, lanes: int) -> Any:
    """lanes[k] := rint(source[k] * scale), ties to even, clamped to +-limit; return the number of clamped lanes."""
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
    """target[k] := source[k] + lanes[k] as int32, saturating as in switches; return the number of saturated lanes."""
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
    """The largest bit pattern without sign, 0..0x7fffffff: it orders magnitudes, NaN and Inf above all numbers."""
    largest = np.int32(0)
    for k in range(count):
        largest = max(largest, as_word(load_f32(source, k)) & np.int32(0x7FFFFFFF))
    return largest


@entry(np.dtype(np.float32), int, int, np.dtype(np.uint8), int)
def chunk_exponents(values: Any, length: int, lanes: int, exponents: Any, chunks: int) -> Any:
    """Compute the biased exponent of each chunk of a float32 array.

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


SPAN: Final = np.dtype([(name, np.int64) for name in ("values", "length", "lanes", "exponents")])
"""An array's address and length, the elements of a chunk, and the index of its first chunk's exponent."""


@entry(SPAN, int, np.dtype(np.uint8))
def all_chunk_exponents(spans: Any, count: int, exponents: Any) -> Any:
    """Compute the exponents of ``count`` arrays; return how many arrays precede the first with NaN or infinity."""
    for index in range(count):
        span = spans[index]
        for chunk in range((span.length + span.lanes - 1) // span.lanes):
            begin = chunk * span.lanes
            largest = largest_word(span.values + 4 * begin, min(span.lanes, span.length - begin))
            if largest >= 0x7F800000:
                return index
            exponents[span.exponents + chunk] = 0 if largest == 0 else (largest >> 23) + 1
    return count


@entry(np.dtype(np.float32), int, int, np.dtype(np.uint8), np.dtype(np.uint8), int)
def chunk_poison(values: Any, length: int, lanes: int, exponents: Any, poison: Any, chunks: int) -> Any:
    """As ``chunk_exponents`` for arrays with NaN or infinity: a chunk with such an element has exponent 0.

    poison: uint8 array, one cell for each chunk: 1 if it has such an element. Returns the number of such chunks.
    """
    source = values.ctypes.data
    poisoned = 0
    for chunk in range(chunks):
        begin = chunk * lanes
        largest = largest_word(source + 4 * begin, min(lanes, length - begin))
        poison[chunk] = largest >= 0x7F800000
        poisoned += largest >= 0x7F800000
        exponents[chunk] = 0 if largest == 0 or largest >= 0x7F800000 else (largest >> 23) + 1
    return poisoned


# Exponents that a worker guesses instead of waiting for them, compiled (docs/protocol.md, Speculation).
#
# An operation that guesses sends its frames without lanes as usual, but does not wait for their RESULTs: its first
# chunks follow at once, scaled by ``guesses``. The RESULTs bring the agreed exponents, ``truths``. When all are in,
# every worker knows the same wrong guesses; their chunks are repeated after the last chunk, scaled by their truths.


_FEW: Final = 64
"""a worker reports losses if it has lacked more than one chunk in this many"""
UNKNOWN: Final = -1
"""stands for an agreed exponent that is not known yet"""

# Values of an entry's ``guessed`` if its exponent is not announced by the RESULT ``lead`` chunks before it.
GUESSED: Final = 1
SETTLED: Final = 2


@kernel
def _truth(e: Any, chunk: int) -> Any:
    return carray(pointer(e.truths), (e.lead,), np.int16)[chunk]


@kernel
def set_truth(e: Any, chunk: int, exponent: int) -> Any:
    """Note the agreed exponent of one of the first chunks; return whether it was unknown (a new epoch repeats it)."""
    cells = carray(pointer(e.truths), (e.lead,), np.int16)
    first = cells[chunk] == UNKNOWN
    cells[chunk] = exponent
    return first


@kernel
def is_guessed(e: Any, chunk: int) -> Any:
    """Whether a data chunk of the operation leaves before its exponent is agreed on."""
    return e.guesses != 0 and e.known <= chunk < e.lead


@kernel
def is_missed(e: Any, chunk: int) -> Any:
    """Whether a guess is wrong, once all exponents are known: too small, or more than ``EXCESS`` bits too large."""
    truth = _truth(e, chunk)
    guess = load_u8(e.guesses, chunk)
    return truth > guess or 0 < truth < guess - EXCESS


@kernel
def repeated_chunk(e: Any, number: int) -> Any:
    """The ``number``-th data chunk that is repeated, in ascending order."""
    return carray(pointer(e.again), (e.lead,), np.int64)[number]


@kernel
def exponent_of_entry(e: Any, entry: Any, chunk: int, again: int) -> None:
    """Set the exponent of a chunk's lanes, if known or guessed when the chunk is opened. again: it is repeated."""
    if again:
        entry.guessed = SETTLED
        entry.agreed = _truth(e, chunk)
    elif is_guessed(e, chunk):
        entry.guessed = GUESSED
        entry.agreed = load_u8(e.guesses, chunk)


@kernel
def _settle(e: Any) -> None:
    """List the chunks to be repeated, now that all exponents are known."""
    missed = 0
    for chunk in range(e.known, e.lead):
        if is_missed(e, chunk):
            carray(pointer(e.again), (e.lead,), np.int64)[missed] = chunk
            missed += 1
        elif load_u8(e.doubtful, chunk) != 0:
            e.poisoned += 1
    e.redone = missed
    e.redone_total += missed
    e.end += missed


@kernel
def _note_truth(e: Any, chunk: int, exponent: int) -> None:
    """Note the agreed exponent of one of the first chunks, which a RESULT without lanes brought."""
    if set_truth(e, chunk, exponent):
        e.unknown -= 1
        if e.unknown == 0 and e.guesses != 0:
            _settle(e)


@kernel
def told_losses(e: Any) -> Any:
    """Return 1 if this worker has lacked many chunks since the last call, else 0."""
    lost = e.lost_by_order + e.lost_by_time
    many = (lost - e.lost_before) * _FEW > e.chunks
    e.lost_before = lost
    return 1 if many else 0


@kernel
def note_announced(e: Any, announced: int, exponent: int) -> None:
    """Note the exponent field of a RESULT: the exponent of chunk ``announced``, or, after the last chunk, losses."""
    if announced < e.lead:
        _note_truth(e, announced, exponent)
    elif announced == e.chunks:
        e.losing = exponent


@kernel
def is_to_be_taken(e: Any, chunk: int, flagged: int) -> Any:
    """Whether a guessed chunk's sum goes to the caller; flagged: lanes saturated, or a worker's are not finite."""
    if e.unknown != 0:
        if flagged:
            store_u8(e.doubtful, chunk, 1)
        return True  # if the guess was wrong, the repetition is still to come
    if is_missed(e, chunk):
        return False  # its repetition may be in already
    if flagged:
        e.poisoned += 1
    return True


# Lanes per unit and units per lane of a chunk, compiled; `numbers.py` has the same in NumPy.


_BLOCK: Final = int(NumberMode.BLOCK)


@kernel
def power_of_two(exponent: int) -> Any:
    """2**exponent as float64, for -1022..1023, made from its bits without ldexp."""
    return as_double((exponent + 1023) << 52)


@kernel
def scale_up(e: Any, exponent: int, bits: int) -> Any:
    """Lanes per unit: 2**(bits - 2 - h - e) with block floating point (numbers.BlockFloat.scale)."""
    if e.mode != _BLOCK:
        return e.scale
    if exponent == 0:
        return 1.0
    return power_of_two(bits - 2 - e.headroom - (exponent - EXPONENT_BIAS))


@kernel
def scale_down(e: Any, exponent: int, bits: int) -> Any:
    """The inverse of ``scale_up``: exact for powers of two."""
    return 1.0 / scale_up(e, exponent, bits)
