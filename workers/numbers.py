"""Numbers on the wire: float32 to int32 lanes and back, by block floating point or by a fixed scale.

One interface, ``Numbers``, and three ways to fill it: ``BlockFloat`` and ``FixedScale`` for sums in the network,
``RawFloat`` for host-side baselines, which move float32 bits. The methods here are the NumPy reference;
``kernels.py`` holds the compiled loops, tested equal to them.

Block floating point
--------------------
All workers share one exponent e for a chunk: the smallest with |x| < 2**e for every element x of every worker,
but at least -126, so that it travels as ``e + 127`` in 8 bits (1..255; 0: all elements are zero). With n workers
and headroom h = ceil(log2 n)::

    q   = rint(x * 2**(30 - h - e))        ties to even, in float64: the product is exact
    sum = q_1 + ... + q_n                  int32
    y   = float32(sum * 2**(e + h - 30))   one rounding

No overflow: |x| < 2**e gives |q| <= 2**(30-h), and n <= 2**h of them add up to 2**30 at most.

Error: with the unit u = 2**(e+h-30), |q*u - x| <= u/2, since rint is at most 1/2 off. Summed over n workers the
integer part of the error is at most n*u/2 = n * 2**(e+h-31); the last step adds one float32 rounding of the result.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

EXPONENT_BIAS: Final = 127
MIN_EXPONENT: Final = -126
MAX_EXPONENT: Final = 128
UNANNOUNCED: Final = 255
"""in the place of the exponent of a chunk of the next operation: not posted yet. It is the largest, so one worker that
says so is heard by all; a chunk that has it (abs(x) >= 2**127) is agreed on like one that was not announced."""
MAX_BIASED: Final = 255
EXCESS: Final = 6
"""bits by which an exponent that is guessed may be larger than the one that is agreed on; each doubles the error's
bound"""
INT32_MAX: Final = 2**31 - 1
MAX_MEMBERS: Final = 65535
"""the ``count`` field has 16 bits"""


class NumberMode(IntEnum):
    """What the compiled core calls a way of carrying numbers."""

    RAW = 0
    FIXED = 1
    BLOCK = 2


class NonFiniteError(ValueError):
    """A tensor holds NaN or infinity; ``index`` is the first such element."""

    def __init__(self, index: int, value: float) -> None:
        super().__init__(
            f"element {index} is {value}: only finite numbers can be summed; look for a diverged loss or clip before"
        )
        self.index = index


def headroom(members: int) -> int:
    """H = ceil(log2 n), the bits that a sum of n may grow by."""
    if not 1 <= members <= MAX_MEMBERS:
        raise ValueError(f"members: {members}, must be 1..{MAX_MEMBERS}")
    return (members - 1).bit_length()


def local_exponent(values: NDArray[np.float32]) -> int:
    """The biased exponent of a chunk: 0 for all zero, else e + 127 with e the smallest >= -126 with |x| < 2**e.

    A float32 with exponent bits E lies below 2**(E - 126), so the answer is E + 1, for subnormals (E = 0) too.
    """
    words = np.ascontiguousarray(values, np.float32).view(np.uint32) & np.uint32(0x7FFFFFFF)
    largest = int(words.max(initial=0))
    if largest >= 0x7F800000:
        index = int(np.argmax(words >= 0x7F800000))
        raise NonFiniteError(index, float(values[index]))
    return 0 if largest == 0 else (largest >> 23) + 1


def float32_rounding(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Bound on the distance between a float32 and the real number that was rounded to it.

    Half a unit in the last place: 2**-24 of the magnitude for normal numbers, 2**-150 for subnormal ones.
    """
    return np.maximum(np.abs(values.astype(np.float64)) * 2.0**-24, 2.0**-150)


@dataclass(frozen=True)
class Scale:
    """What the compiled loops need: q = rint(x * up) within +-limit, y = float32(q * down)."""

    up: float
    down: float
    limit: float


class Numbers(Protocol):
    """A way to carry float32 in 32-bit lanes. Exponents are biased, as on the wire; chunks are 1-D arrays."""

    @property
    def mode(self) -> NumberMode:
        """What the compiled core calls it."""

    def scale(self, exponent: int, members: int) -> Scale:
        """The factors for a chunk with this agreed exponent and this many workers."""

    def quantize(self, values: NDArray[np.float32], exponent: int, members: int) -> tuple[NDArray[np.int32], int]:
        """One worker's lanes, and how many elements had to be held back (saturated)."""

    def dequantize(self, sums: NDArray[np.int32], exponent: int, members: int) -> NDArray[np.float32]:
        """The sum as float32."""

    def error_bound(self, result: NDArray[np.float32], exponent: int, members: int) -> NDArray[np.float64]:
        """Bound on |result - exact sum| for each element, where nothing saturated."""


class _Scaled:
    """Quantization by a pair of factors, shared by both integer ways."""

    def scale(self, exponent: int, members: int) -> Scale:
        raise NotImplementedError

    def quantize(self, values: NDArray[np.float32], exponent: int, members: int) -> tuple[NDArray[np.int32], int]:
        """One worker's lanes (int32), and how many elements saturated."""
        scale = self.scale(exponent, members)
        exact = np.rint(values.astype(np.float64) * scale.up)
        held = np.clip(exact, -scale.limit, scale.limit)
        return held.astype(np.int32), int(np.count_nonzero(held != exact))

    def dequantize(self, sums: NDArray[np.int32], exponent: int, members: int) -> NDArray[np.float32]:
        """The sum as float32; infinite where it lies beyond float32, as a float32 sum would be."""
        with np.errstate(over="ignore"):
            return (sums.astype(np.float64) * self.scale(exponent, members).down).astype(np.float32)


@dataclass(frozen=True)
class BlockFloat(_Scaled):
    """Block floating point: the module's docstring has the formulas.

    speculates: an all-reduce does not wait for its first exponents where it can guess them (docs/protocol.md,
    Speculation); a guess may be larger than the exponent by ``EXCESS`` bits, each of which doubles the error's bound.
    """

    mode: NumberMode = NumberMode.BLOCK
    speculates: bool = False

    def scale(self, exponent: int, members: int) -> Scale:
        """2**(30-h-e), its inverse, and 2**(30-h), beyond which nobody who kept to the exponent comes."""
        if not 0 <= exponent <= 255:
            raise ValueError(f"exponent: {exponent}, must be 0..255 (biased by {EXPONENT_BIAS})")
        free = 30 - headroom(members)
        shift = free - (exponent - EXPONENT_BIAS) if exponent else 0
        return Scale(2.0**shift, 2.0**-shift, 2.0**free)

    def error_bound(self, result: NDArray[np.float32], exponent: int, members: int) -> NDArray[np.float64]:
        """N * 2**(e+h-31) + the float32 rounding of the result; 0 for a chunk of zeros."""
        if exponent == 0:
            return np.zeros(result.shape)
        return members * self.scale(exponent, members).down / 2 + float32_rounding(result)


@dataclass(frozen=True)
class FixedScale(_Scaled):
    """q = rint(x * factor). Beyond (2**31 - 1) // n it saturates: the packet says so, and equality is not claimed.

    factor: lanes per unit, e.g. 2**20; finite and > 0.
    """

    factor: float
    mode: NumberMode = NumberMode.FIXED

    def __post_init__(self) -> None:
        if not (np.isfinite(self.factor) and self.factor > 0 and np.isfinite(1 / self.factor)):
            raise ValueError(f"factor: {self.factor}, must be finite and above 0")

    def scale(self, exponent: int, members: int) -> Scale:
        """factor, 1 / factor, and each worker's share of int32; the exponent plays no part."""
        headroom(members)
        return Scale(self.factor, 1.0 / self.factor, float(INT32_MAX // members))

    def error_bound(self, result: NDArray[np.float32], exponent: int, members: int) -> NDArray[np.float64]:
        """N / (2 * factor), the float32 rounding of the result, and 2**-52 of it for 1 / factor in float64."""
        relative = np.abs(result.astype(np.float64)) * 2.0**-52
        return members / (2 * self.factor) + float32_rounding(result) + relative


@dataclass(frozen=True)
class RawFloat:
    """float32 bits as they are: what the baselines without aggregation in the network send."""

    mode: NumberMode = NumberMode.RAW

    def scale(self, exponent: int, members: int) -> Scale:
        """Unused: nothing is scaled."""
        return Scale(1.0, 1.0, float(INT32_MAX))

    def quantize(self, values: NDArray[np.float32], exponent: int, members: int) -> tuple[NDArray[np.int32], int]:
        """The bits as int32."""
        return np.ascontiguousarray(values, np.float32).view(np.int32).copy(), 0

    def dequantize(self, sums: NDArray[np.int32], exponent: int, members: int) -> NDArray[np.float32]:
        """The float32 whose bits these are."""
        return np.ascontiguousarray(sums, np.int32).view(np.float32).copy()

    def error_bound(self, result: NDArray[np.float32], exponent: int, members: int) -> NDArray[np.float64]:
        """Not known from the result alone: float32 sums depend on their partial sums. Infinite."""
        return np.full(result.shape, np.inf)


# Sums that were closed without some: how many contributions each chunk has, and what of one's own came too late.


Floats = NDArray[np.float32]
Arrays = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Partial:
    """What an ALL_REDUCE of a job with a deadline fills in, beside its target.

    counts: uint16, shape (chunks,): contributions in each chunk's sum. late: uint8, shape (chunks,): 1 where this
    worker's own is not in it. kept: float32, shape (elements,): its own contribution to these chunks, else 0.
    """

    counts: NDArray[np.uint16]
    late: NDArray[np.uint8]
    kept: Floats

    @classmethod
    def of(cls, elements: int, lanes: int) -> Self:
        """For an array of ``elements`` in chunks of ``lanes``."""
        chunks = -(-elements // lanes)
        return cls(np.zeros(chunks, np.uint16), np.zeros(chunks, np.uint8), np.zeros(elements, np.float32))

    def runs(self, lanes: int) -> tuple[tuple[int, int], ...]:
        """(elements, contributions) of one stretch of equal counts after the other."""
        edges = [0, *(np.flatnonzero(np.diff(self.counts)) + 1).tolist(), len(self.counts)]
        ends = [min(edge * lanes, len(self.kept)) for edge in edges]
        return tuple((b - a, int(self.counts[edge])) for a, b, edge in zip(ends, ends[1:], edges, strict=False))


class Residuals:
    """What one worker's operations left out: it goes into its next one on the same tensor, and into no other.

    An operation calls ``add_to`` before, and ``keep`` with the same tensor after.
    """

    def __init__(self) -> None:
        self._of: dict[tuple[str, int], tuple[Floats, Arrays]] = {}
        self._added: dict[tuple[str, int], Arrays] = {}

    def add_to(self, array: Floats, tensor: str) -> None:
        """``array`` (float32, shape (elements,)) gets what was left out of ``tensor``, which is then kept no longer."""
        left = self._of.pop((tensor, array.size), None)
        if left is not None:
            array += left[0]
            self._added[tensor, array.size] = left[1]

    def keep(self, partial: Partial, tensor: str) -> int:
        """What ``partial`` left out is for the next operation on ``tensor``; where that is empty it is not kept.

        Returns how many chunks of arrays that is: of a chunk that came too late twice, two.
        """
        place = tensor, partial.kept.size
        arrays = np.where(partial.late, 1 + self._added.pop(place, 0), 0)
        if tensor and partial.late.any():
            self._of[place] = partial.kept, arrays
        return int(arrays.sum())
