"""The memory of indirect counters."""

import numpy as np
from numpy.typing import NDArray

from p4reduce.dataplane.model.externs import CounterArray


class Counter:
    """One indirect counter array of a device.

    ``cells``: uint64, shape (size, 2): packets, bytes. Bytes are those of the frame as it came in, as in BMv2.
    """

    def __init__(self, spec: CounterArray) -> None:
        self.spec = spec
        self.cells: NDArray[np.uint64] = np.zeros((max(spec.size, 1), 2), dtype=np.uint64)

    @property
    def name(self) -> str:
        """Full name."""
        return self.spec.name

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.spec.size

    def read(self, index: int) -> tuple[int, int]:
        """Packets and bytes of a cell. Raises IndexError."""
        packets, octets = self.cells[self._checked(index)].tolist()
        return packets, octets

    def write(self, index: int, packets: int, octets: int) -> None:
        """Sets a cell. Raises IndexError."""
        self.cells[self._checked(index)] = [packets, octets]

    def count(self, index: int, length: int) -> None:
        """Counts one packet of ``length`` bytes. Raises IndexError."""
        self.cells[self._checked(index)] += np.array([1, length], dtype=np.uint64)

    def reset(self) -> None:
        """Sets every cell to 0."""
        self.cells[:] = 0

    def _checked(self, index: int) -> int:
        if not 0 <= index < self.size:
            raise IndexError(f"counter {self.name}: index {index} is not in 0..{self.size - 1}")
        return index
