"""The memory of register arrays."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from p4reduce.dataplane.model.externs import RegisterArray
from p4reduce.dataplane.state.layout import CACHE_LINE, RegisterGroup, cell_bytes, cell_kind


def allocate_group(group: RegisterGroup) -> NDArray[np.uint8]:
    """The rows of a group, shape (size, stride), aligned to a cache line.

    The operating system hands out zeroed pages on first touch, so rows that no packet touches cost nothing.
    """
    memory = np.zeros(group.bytes + CACHE_LINE, dtype=np.uint8)
    start = -int(memory.ctypes.data) % CACHE_LINE
    return memory[start : start + group.bytes].reshape(group.size, group.stride)


class Register:
    """One register array of a device: ``size`` unsigned cells of ``bitwidth`` bits."""

    def __init__(self, spec: RegisterArray, rows: NDArray[np.uint8], offset: int) -> None:
        """A view of the bytes from ``offset`` in each of ``rows``."""
        self.spec = spec
        self._cells = rows[:, offset : offset + cell_bytes(spec.width)]
        self._swap = cell_kind(spec.width) == "lanes"

    @property
    def name(self) -> str:
        """Full name."""
        return self.spec.name

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.spec.size

    @property
    def bitwidth(self) -> int:
        """Bits of a cell."""
        return self.spec.width

    def read(self, index: int) -> int:
        """The value of a cell. Raises IndexError."""
        raw = self._cell(index).tobytes()
        if self._swap:
            return int.from_bytes(np.frombuffer(raw, "<u4").astype(">u4").tobytes(), "big")
        return int.from_bytes(raw, "little")

    def copy(self, start: int, stop: int) -> "Register":
        """The cells ``start`` to ``stop - 1`` as they are now, apart from the device's and counted from 0."""
        return Register(replace(self.spec, size=stop - start), self._cells[start:stop].copy(), 0)

    def take(self, other: "Register") -> None:
        """Have every cell of another array of the same size and width."""
        self._cells[:] = other._cells

    def write(self, index: int, value: int) -> None:
        """Sets a cell to ``value`` mod 2**bitwidth. Raises IndexError."""
        value &= (1 << self.bitwidth) - 1
        cell = self._cell(index)
        if self._swap:
            raw = np.frombuffer(value.to_bytes(len(cell), "big"), ">u4").astype("<u4").tobytes()
        else:
            raw = value.to_bytes(len(cell), "little")
        cell[:] = np.frombuffer(raw, np.uint8)

    def reset(self) -> None:
        """Sets every cell to 0."""
        self._cells[:] = 0

    def _cell(self, index: int) -> NDArray[np.uint8]:
        if not 0 <= index < self.size:
            raise IndexError(f"register {self.name}: index {index} is not in 0..{self.size - 1}")
        cell: NDArray[np.uint8] = self._cells[index]
        return cell
