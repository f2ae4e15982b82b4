"""Sums that were closed without some: how many contributions each chunk has, and what of one's own came too late."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


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
    """What one worker's operations left out: it goes into its next one of as many elements."""

    def __init__(self) -> None:
        self._of: dict[int, Floats] = {}

    def add_to(self, array: Floats) -> None:
        """``array`` (float32, shape (elements,)) gets what was left out, which is then kept no longer."""
        left = self._of.pop(array.size, None)
        if left is not None:
            array += left

    def keep(self, partial: Partial) -> None:
        """What ``partial`` left out is for the next operation."""
        if partial.late.any():
            self._of[partial.kept.size] = partial.kept
