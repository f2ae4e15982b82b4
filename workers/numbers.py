"""Numbers on the wire: float32 to int32 lanes and back, by block floating point or by a fixed scale.

One interface, ``Numbers``, and three implementations: ``BlockFloat`` and ``FixedScale`` for sums in the network,
``RawFloat`` for host-side baselines, which move float32 bits. The methods here are the NumPy reference;
``kernels/chunks.py`` holds the compiled loops, tested equal to them.

Block floating point
--------------------
All workers share one exponent e for a chunk: the smallest with |x| < 2**e for every element x of every worker,
but at least -126, so that it travels as ``e + 127`` in 8 bits (1..255; 0: all elements are zero). With n workers
and headroom h = ceil(log2 n)::

    q   = rint(x * 2**(30 - h - e))        ties to even, in float64: the product is exact
    sum = q_1 + ... + q_n                  int32
    y   = float32(sum * 2**(e + h - 30))   one rounding

No overflow: |x| < 2**e gives |q| <= 2**(30-h), and n <= 2**h of them add up to 2**30 at most.

With lanes of B = 16 or 8 bits, 30 becomes B - 2. At 8 bits rounding is stochastic: q = floor(x * 2**(6-h-e) + r), with
0 <= r < 1 from sender, iteration, chunk and place (``chances``). So the mean of q is exact; its error is below u.

Error: with the unit u = 2**(e+h-30), |q*u - x| <= u/2, since rint is at most 1/2 off. Summed over n workers the
integer part of the error is at most n*u/2 = n * 2**(e+h-31); the last step adds one float32 rounding of the result.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from p4reduce.workers.wire import WORD_BITS

EXPONENT_BIAS: Final = 127
UNANNOUNCED: Final = 255
"""announced for a chunk of the next operation that is not posted yet. It is the largest value, so one such worker
overrides all others; a chunk that really has it (abs(x) >= 2**127) is treated as one that was not announced."""
MAX_BIASED: Final = 255
EXCESS: Final = 6
"""bits by which a guessed exponent may exceed the agreed one; each doubles the error bound"""
INT32_MAX: Final = 2**31 - 1
BY_CHANCE_BITS: Final = 8
"""lanes of this many bits are rounded stochastically"""
FEWEST_BITS: Final = 7
"""bits that lanes should leave for the number of one worker; a run with fewer must ask for coarse sums"""
MIX_A: Final = 0x85EBCA6B
MIX_B: Final = 0xC2B2AE35
"""odd multipliers of the 32-bit hash (Appleby's finalizer of MurmurHash3, public domain)"""
PLACE_STEP: Final = 0x9E3779B9
"""2**32 over the golden ratio: distance of the inputs of neighbouring elements to the 32-bit hash"""
MAX_MEMBERS: Final = 65535
"""most workers of a job: the ``count`` field has 16 bits"""


class NumberMode(IntEnum):
    """Codes of the ways of carrying numbers, for the compiled core."""

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
    """Bits by which a sum of n numbers may grow: ceil(log2 n)."""
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
    """Scale factors for the compiled loops: q = rint(x * up) within +-limit, y = float32(q * down)."""

    up: float
    down: float
    limit: float


def mixed(number: NDArray[np.uint64] | int) -> NDArray[np.uint64]:
    """Hash numbers to 32 bits each; every bit depends on all bits of the number."""
    value = np.atleast_1d(np.asarray(number, np.uint64)) & np.uint64(0xFFFFFFFF)
    value ^= value >> np.uint64(16)
    value = (value * np.uint64(MIX_A)) & np.uint64(0xFFFFFFFF)
    value ^= value >> np.uint64(13)
    value = (value * np.uint64(MIX_B)) & np.uint64(0xFFFFFFFF)
    return value ^ (value >> np.uint64(16))


def chance_key(ip: int, job: int, iteration: int, chunk: int) -> int:
    """The key of a chunk's random numbers, from the worker's IPv4 address, job, iteration and the chunk's number."""
    key = ip
    for more in (job, iteration, chunk):
        key = int(mixed(key)[0]) ^ more
    return int(mixed(key)[0])


def chances(key: int, count: int) -> NDArray[np.float64]:
    """``count`` pseudo-random numbers 0 <= r < 1 for the elements of a chunk, from its ``chance_key``."""
    places = np.arange(count, dtype=np.uint64) * np.uint64(PLACE_STEP)
    return mixed(np.uint64(key) + places).astype(np.float64) * 2.0**-32


def bits_left(bits: int, members: int) -> int:
    """Bits of a lane that one worker's number has with block floating point, its sign not counted: B - 2 - h."""
    return bits - 2 - headroom(members)


def check_bits(bits: int, members: int, *, coarse: bool = False) -> None:
    """Raise ``ValueError`` if block floating point leaves too few of ``bits`` bits for each worker's number.

    coarse: whether fewer than ``FEWEST_BITS`` bits are acceptable.
    """
    left = bits_left(bits, members)
    if left < 1:
        raise ValueError(
            f"lane_bits: {bits} leaves no bit for the number of each of {members} workers; choose wider lanes"
        )
    if left < FEWEST_BITS and not coarse:
        raise ValueError(
            f"lane_bits: {bits} leaves {left} bits for the number of each of {members} workers, fewer than "
            f"{FEWEST_BITS}: choose wider lanes, or accept coarse sums with --coarse"
        )


class Numbers(Protocol):
    """A way to carry float32 in lanes of 32 bits or fewer. Exponents are biased, as on the wire; chunks are 1-D."""

    @property
    def mode(self) -> NumberMode:
        """The compiled core's code of this mode."""

    def scale(self, exponent: int, members: int) -> Scale:
        """The factors for a chunk with this agreed exponent and this many workers."""

    def quantize(
        self, values: NDArray[np.float32], exponent: int, members: int, key: int = 0
    ) -> tuple[NDArray[np.int32], int]:
        """One worker's lanes, and the number of saturated elements. ``key``: a value of ``chance_key``."""

    def dequantize(self, sums: NDArray[np.int32], exponent: int, members: int) -> NDArray[np.float32]:
        """The sum as float32."""

    def error_bound(self, result: NDArray[np.float32], exponent: int, members: int) -> NDArray[np.float64]:
        """Bound on |result - exact sum| for each element, where nothing saturated."""


class _Scaled:
    """Quantization by a pair of factors, shared by both integer modes."""

    bits: int

    def scale(self, exponent: int, members: int) -> Scale:
        raise NotImplementedError

    @property
    def most_off(self) -> float:
        """Largest rounding error of a lane, in units of the lane."""
        return 1.0 if self.by_chance else 0.5

    @property
    def by_chance(self) -> bool:
        """Whether rounding is stochastic."""
        return self.bits == BY_CHANCE_BITS

    def quantize(
        self, values: NDArray[np.float32], exponent: int, members: int, key: int = 0
    ) -> tuple[NDArray[np.int32], int]:
        """One worker's lanes (int32), and the number of saturated elements. ``key``: a value of ``chance_key``."""
        scale = self.scale(exponent, members)
        product = values.astype(np.float64) * scale.up
        exact = np.floor(product + chances(key, values.size)) if self.by_chance else np.rint(product)
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
    bits: bits of a lane.
    """

    mode: NumberMode = NumberMode.BLOCK
    speculates: bool = False
    bits: int = WORD_BITS

    def scale(self, exponent: int, members: int) -> Scale:
        """2**(B-2-h-e), its inverse, and 2**(B-2-h), the largest lane of numbers within the exponent."""
        if not 0 <= exponent <= 255:
            raise ValueError(f"exponent: {exponent}, must be 0..255 (biased by {EXPONENT_BIAS})")
        free = bits_left(self.bits, members)
        shift = free - (exponent - EXPONENT_BIAS) if exponent else 0
        return Scale(2.0**shift, 2.0**-shift, 2.0**free)

    def error_bound(self, result: NDArray[np.float32], exponent: int, members: int) -> NDArray[np.float64]:
        """N * 2**(e+h-31) + the float32 rounding of the result; 0 for a chunk of zeros.

        With lanes of 16 bits 31 becomes 15, with lanes of 8 bits 6.
        """
        if exponent == 0:
            return np.zeros(result.shape)
        return members * self.scale(exponent, members).down * self.most_off + float32_rounding(result)


@dataclass(frozen=True)
class FixedScale(_Scaled):
    """q = rint(x * factor). Beyond (2**31 - 1) // n it saturates: the packet says so, and equality is not claimed.

    factor: lanes per unit, e.g. 2**20; finite and > 0. bits: bits of a lane; 31 above becomes bits - 1.
    """

    factor: float
    mode: NumberMode = NumberMode.FIXED
    bits: int = WORD_BITS

    def __post_init__(self) -> None:
        if not (np.isfinite(self.factor) and self.factor > 0 and np.isfinite(1 / self.factor)):
            raise ValueError(f"factor: {self.factor}, must be finite and above 0")

    def scale(self, exponent: int, members: int) -> Scale:
        """factor, 1 / factor, and each worker's share of a lane's range; the exponent plays no part."""
        headroom(members)
        return Scale(self.factor, 1.0 / self.factor, float((2 ** (self.bits - 1) - 1) // members))

    def error_bound(self, result: NDArray[np.float32], exponent: int, members: int) -> NDArray[np.float64]:
        """N / (2 * factor), the float32 rounding of the result, and 2**-52 of it for 1 / factor in float64."""
        relative = np.abs(result.astype(np.float64)) * 2.0**-52
        return members * self.most_off / self.factor + float32_rounding(result) + relative


def with_bits(numbers: BlockFloat | FixedScale | None, bits: int) -> BlockFloat | FixedScale | None:
    """The same numbers in lanes of ``bits`` bits; None, which means that hosts add float32, stays None."""
    return None if numbers is None else replace(numbers, bits=bits)


@dataclass(frozen=True)
class RawFloat:
    """The unchanged bits of float32, which the baselines without aggregation in the network send."""

    mode: NumberMode = NumberMode.RAW

    def scale(self, exponent: int, members: int) -> Scale:
        """Unused: nothing is scaled."""
        return Scale(1.0, 1.0, float(INT32_MAX))

    def quantize(
        self, values: NDArray[np.float32], exponent: int, members: int, key: int = 0
    ) -> tuple[NDArray[np.int32], int]:
        """The bits as int32."""
        return np.ascontiguousarray(values, np.float32).view(np.int32).copy(), 0

    def dequantize(self, sums: NDArray[np.int32], exponent: int, members: int) -> NDArray[np.float32]:
        """The float32 whose bits these are."""
        return np.ascontiguousarray(sums, np.int32).view(np.float32).copy()

    def error_bound(self, result: NDArray[np.float32], exponent: int, members: int) -> NDArray[np.float64]:
        """Infinite: the error of float32 sums depends on partial sums, and is not known from the result alone."""
        return np.full(result.shape, np.inf)


# Sums closed without some contributions: how many each chunk has, and the own contributions that came too late.


Floats = NDArray[np.float32]
Arrays = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Partial:
    """Arrays that an ALL_REDUCE of a job with a deadline fills in beside its target.

    counts: uint16, shape (chunks,): contributions in each chunk's sum. late: uint8, shape (chunks,): 1 if this
    worker's contribution is not in the sum. kept: float32, shape (elements,): its contribution to these chunks; in
    others the rounding error of narrow lanes, else 0.
    """

    counts: NDArray[np.uint16]
    late: NDArray[np.uint8]
    kept: Floats

    @classmethod
    def of(cls, elements: int, lanes: int) -> Self:
        """Arrays of zeros for ``elements`` elements in chunks of ``lanes`` elements."""
        chunks = -(-elements // lanes)
        return cls(np.zeros(chunks, np.uint16), np.zeros(chunks, np.uint8), np.zeros(elements, np.float32))

    def runs(self, lanes: int) -> tuple[tuple[int, int], ...]:
        """(elements, contributions) of each run of chunks with equal counts, in order."""
        edges = [0, *(np.flatnonzero(np.diff(self.counts)) + 1).tolist(), len(self.counts)]
        ends = [min(edge * lanes, len(self.kept)) for edge in edges]
        return tuple((b - a, int(self.counts[edge])) for a, b, edge in zip(ends, ends[1:], edges, strict=False))


class Residuals:
    """Numbers that one worker's operations left out; they are added to its next operation on the same tensor only.

    An operation calls ``add_to`` before, and ``keep`` with the same tensor after.
    """

    def __init__(self) -> None:
        self._of: dict[tuple[str, int], tuple[Floats, Arrays]] = {}
        self._added: dict[tuple[str, int], Arrays] = {}

    def add_to(self, array: Floats, tensor: str) -> None:
        """Add what was left out of ``tensor`` to ``array`` (float32, shape (elements,)), and forget it."""
        left = self._of.pop((tensor, array.size), None)
        if left is not None:
            array += left[0]
            self._added[tensor, array.size] = left[1]

    def keep(self, partial: Partial, tensor: str) -> int:
        """Keep what ``partial`` left out for the next operation on ``tensor``; nothing is kept if ``tensor`` is empty.

        Returns the number of late chunks; a chunk that came too late twice counts as two.
        """
        place = tensor, partial.kept.size
        arrays = np.where(partial.late, 1 + self._added.pop(place, 0), 0)
        if tensor and (partial.late.any() or partial.kept.any()):
            self._of[place] = partial.kept, arrays
        return int(arrays.sum())

    def keep_rounding(self, lost: Floats, tensor: str) -> None:
        """Keep the rounding errors (float32, shape (elements,)) of an operation without a deadline for the next."""
        if tensor:
            self._of[tensor, lost.size] = lost, np.zeros(1, np.int64)
