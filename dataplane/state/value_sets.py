"""Parser value sets: values that a select compares its keys with."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.dataplane.model.packet_path import ValueSet as Spec

VALUE_SET_CELLS: Final = 2
"""int64 cells in a device's state: address of the values, their number."""


class ValueSetError(ValueError):
    """A value that is too wide, or more values than the program allows."""


def value_words(width: int) -> int:
    """64-bit words of a value."""
    return -(-width // 64)


class ValueSet:
    """The members of one value set; each is the keys of the select one behind the other, without padding.

    ``rows``: uint64 (max_size, words), least significant word first.
    """

    def __init__(self, spec: Spec, cells: NDArray[np.int64]) -> None:
        self.spec = spec
        self._cells = cells
        self._words = value_words(spec.width)
        self.rows: NDArray[np.uint64] = np.zeros((max(spec.max_size, 1), self._words), dtype=np.uint64)
        self._values: tuple[int, ...] = ()
        self._publish()

    def __contains__(self, value: int) -> bool:
        return value in self._values

    def fits(self, value: int, mask: int) -> bool:
        """Whether a member equals ``value`` where ``mask`` has ones."""
        return any(member & mask == value & mask for member in self._values)

    @property
    def values(self) -> tuple[int, ...]:
        """The members."""
        return self._values

    def set(self, values: Iterable[int]) -> None:
        """Replaces all members. Raises ValueSetError; nothing is changed."""
        members = tuple(dict.fromkeys(values))
        name = self.spec.name
        if len(members) > self.spec.max_size:
            raise ValueSetError(f"value set {name}: {len(members)} members; the program allows {self.spec.max_size}")
        for value in members:
            if not 0 <= value < 1 << self.spec.width:
                raise ValueSetError(f"value set {name}: {value:#x} does not fit {self.spec.width} bits")
        self._values = members
        for row, value in enumerate(members):
            self.rows[row] = [value >> (64 * i) & ((1 << 64) - 1) for i in range(self._words)]
        self._publish()

    def reset(self) -> None:
        """Removes all members."""
        self.set(())

    def _publish(self) -> None:
        self._cells[:] = (self.rows.ctypes.data, len(self._values))
