"""Sums held against float64: what an all-reduce should have given, and how far off it may be."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from p4reduce.group.backend import FloatArray
from p4reduce.workers.numbers import EXCESS, BlockFloat, FixedScale, Numbers, float32_rounding, headroom

Doubles = npt.NDArray[np.float64]
UNIT_ROUNDOFF = 2.0**-24
"""of float32, round to nearest"""
BLOCK_CHUNKS = 2048
"""Chunks that are looked at together, so that temporaries stay small beside the tensors."""


@dataclass(frozen=True)
class Deviation:
    """How far a result is from the exact sum."""

    max_error: float
    """Largest of any element."""
    error_bound: float
    """Largest bound of any element."""
    worst_ratio: float
    """Largest error / bound of an element; at most 1 unless something saturated."""


@dataclass(frozen=True)
class ExpectedSum:
    """What inputs add up to, kept apart because results overwrite the inputs."""

    exact: Doubles
    """Shape (elements,): the sum over workers in float64."""
    magnitude: FloatArray
    """Shape (elements,): the largest |x| of any worker."""
    numbers: Numbers | None
    lanes: int
    members: int
    guessed: int = 0
    """First chunks whose exponents may be larger than they need to be, by ``EXCESS`` bits."""
    poisoned: npt.NDArray[np.bool_] | None = None
    """Shape (elements,): where the sum must not be finite; in the network all of a chunk that holds such a number."""

    def deviation(self, result: FloatArray) -> Deviation:
        """Distance of ``result`` (float32, shape (elements,)) from the exact sum.

        What is not finite, and may not be, has no error; where it must not be finite but is, the error is infinite.
        """
        if self.poisoned is not None:
            if np.isfinite(result[self.poisoned]).any():
                return Deviation(np.inf, 0.0, np.inf)
            result = np.where(self.poisoned, np.float32(0), result)
        step = BLOCK_CHUNKS * self.lanes
        parts = [self._deviation(result, slice(first, first + step)) for first in range(0, result.size, step)]
        return Deviation(
            max(part.max_error for part in parts),
            max(part.error_bound for part in parts),
            max(part.worst_ratio for part in parts),
        )

    def _deviation(self, result: FloatArray, part: slice) -> Deviation:
        error = np.abs(result[part].astype(np.float64) - self.exact[part])
        bound = self._bound(self.magnitude[part])
        bound[: max(0, self.guessed * self.lanes - part.start)] *= 2.0**EXCESS
        bound += float32_rounding(result[part])
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(bound > 0, error / bound, np.where(error > 0, np.inf, 0.0))
        return Deviation(float(error.max()), float(bound.max()), float(ratio.max()))

    def _bound(self, magnitude: FloatArray) -> Doubles:
        """Largest allowed error of each element, the rounding of the result itself not counted.

        Hosts add float32 in a fixed order: (n-1) u / (1 - (n-1) u) * sum |x| (Higham, Accuracy and Stability of
        Numerical Algorithms, 2nd ed., eq. 4.4), with n * max |x| for the sum.
        """
        total = self.members * magnitude.astype(np.float64)
        slack = self.members * 2.0**-53 * total  # of the float64 sum that this is held against
        if isinstance(self.numbers, BlockFloat):
            return _block_bound(magnitude, self.lanes, self.members) + slack
        if isinstance(self.numbers, FixedScale):
            return np.asarray(self.members / (2.0 * self.numbers.factor) + slack)
        steps = (self.members - 1) * UNIT_ROUNDOFF
        return np.asarray(steps / (1 - steps) * total + slack)


def expect_sum(inputs: list[FloatArray], numbers: Numbers | None, lanes: int, *, guessed: int = 0) -> ExpectedSum:
    """Add ``inputs`` (float32, shape (elements,) each); ``numbers``: how the network adds, None for hosts' float32.

    guessed: first chunks whose exponents are not necessarily those of these inputs, but guesses.
    """
    if not all(_all_finite(array) for array in inputs):
        poisoned = ~np.logical_and.reduce([np.isfinite(array) for array in inputs])
        if isinstance(numbers, BlockFloat):
            chunks = np.add.reduceat(poisoned, np.arange(0, poisoned.size, lanes)) > 0
            poisoned = np.repeat(chunks, lanes)[: poisoned.size]
        clean = [np.where(poisoned, np.float32(0), array) for array in inputs]
        return replace(expect_sum(clean, numbers, lanes, guessed=guessed), poisoned=poisoned)
    exact = np.zeros(inputs[0].size, np.float64)
    magnitude = np.zeros(inputs[0].size, np.float32)
    for array in inputs:
        exact += array
        step = BLOCK_CHUNKS * lanes
        for first in range(0, array.size, step):
            part = slice(first, first + step)
            np.maximum(magnitude[part], np.abs(array[part]), out=magnitude[part])
    return ExpectedSum(exact, magnitude, numbers, lanes, len(inputs), guessed)


def _all_finite(array: FloatArray) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.dot(array, array))) or bool(np.isfinite(array).all())


@dataclass(frozen=True)
class ExpectedWords:
    """What int32 add up to."""

    exact: npt.NDArray[np.int64]

    def deviation(self, result: FloatArray) -> Deviation:
        """None, or infinite: there is no error that integers may have."""
        same = bool(np.array_equal(result.view(np.int32), self.exact))
        return Deviation(0.0, 0.0, 0.0) if same else Deviation(np.inf, 0.0, np.inf)


def expect_words(inputs: list[FloatArray]) -> ExpectedWords:
    """Add ``inputs``: int32 in the place of float32, shape (elements,) each."""
    return ExpectedWords(np.sum([array.view(np.int32) for array in inputs], axis=0, dtype=np.int64))


def exchanged(inputs: Sequence[FloatArray]) -> list[FloatArray]:
    """What every rank must have after an all-to-all of float32 arrays, shape (elements,) each: a block of each."""
    size = len(inputs)
    return [np.concatenate([array.reshape(size, -1)[rank] for array in inputs]) for rank in range(size)]


def _block_bound(magnitude: FloatArray, lanes: int, members: int) -> Doubles:
    """n * 2**(e+h-31) with the exponent e of each chunk (workers/numbers.py)."""
    chunks = -(-magnitude.size // lanes)
    padded = np.zeros(chunks * lanes, np.float32)
    padded[: magnitude.size] = magnitude
    words = padded.view(np.uint32).reshape(chunks, lanes).max(axis=1).astype(np.int64)
    exponents = np.where(words == 0, 0, (words >> 23) + 1) - 127
    bound = np.where(words == 0, 0.0, members * np.exp2((exponents + headroom(members) - 31).astype(np.float64)))
    return np.asarray(np.repeat(bound, lanes)[: magnitude.size])
