"""Memory that grows between two runs of the loop: records, each with a cell of bytes, chained while free."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

CACHE_LINE = 64


def aligned_bytes(count: int) -> NDArray[np.uint8]:
    """Uninitialized bytes, beginning at a cache line. Pages that are never touched cost nothing."""
    memory = np.empty(count + CACHE_LINE, dtype=np.uint8)
    first = -memory.ctypes.data % CACHE_LINE
    return memory[first : first + count]


class Pool:
    """Records with a field ``next``, and for each of them ``cell_bytes`` bytes (a multiple of 64, or 0).

    ``records`` and ``cells`` are replaced when the pool grows.
    """

    def __init__(self, dtype: "np.dtype[Any]", size: int, cell_bytes: int = 0) -> None:
        self.cell_bytes = -(-cell_bytes // CACHE_LINE) * CACHE_LINE
        self.records: NDArray[Any] = np.zeros(0, dtype=dtype)
        self.cells: NDArray[np.uint8] = aligned_bytes(0)
        self._first_size = size

    def growth_bytes(self) -> int:
        """Bytes that growing once more would add."""
        return (self._next_size() - len(self.records)) * (self.cell_bytes + self.records.dtype.itemsize)

    def grow(self, head: int) -> tuple[int, int]:
        """Double the pool; ``head`` is the first free record or -1. Returns the new head and how many are new."""
        old, new = len(self.records), self._next_size()
        records = np.zeros(new, dtype=self.records.dtype)
        records[:old] = self.records
        records["next"][old:] = np.arange(old + 1, new + 1)
        records["next"][new - 1] = head
        cells = aligned_bytes(new * self.cell_bytes)
        cells[: len(self.cells)] = self.cells
        self.records, self.cells = records, cells
        return old, new - old

    def _next_size(self) -> int:
        return max(2 * len(self.records), self._first_size)
