"""Several small whole numbers in one 32-bit lane, such that sums of lanes hold the sums of the numbers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
_WORD: int = 31
"""bits of a lane that a sum may use: it stays positive"""


@dataclass(frozen=True)
class Packing:
    """Numbers of ``-level..level`` (or ``0..level``) of so many workers, side by side in int32.

    Each number is sent as its distance from the least one, so a field never borrows from the next; n workers add up to
    n times the range, which decides the bits of a field.

    Attributes
    ----------
    workers : int
        Who add up.
    level : int
        The largest number of one of them, at least 1.
    signed : bool
        Whether -level is the least one; else 0.
    """

    workers: int
    level: int
    signed: bool = True

    def __post_init__(self) -> None:
        if self.workers < 1 or self.level < 1 or self.bits > _WORD:
            raise ValueError(f"{self.level} of {self.workers} workers: their sum has no room in a lane of 32 bits")

    @property
    def bits(self) -> int:
        """Of the field of a number."""
        return (self.workers * self.level * (2 if self.signed else 1)).bit_length()

    @property
    def in_word(self) -> int:
        """Numbers of a lane."""
        return _WORD // self.bits

    def pack(self, numbers: Ints) -> Ints:
        """Lanes, int32 (ceil(count / in_word),). ``ValueError`` for a number that is out of range."""
        least = -self.level if self.signed else 0
        if numbers.size and not (least <= int(numbers.min()) and int(numbers.max()) <= self.level):
            raise ValueError(f"numbers: must be {least}..{self.level}")
        fields = np.zeros((-(-numbers.size // self.in_word), self.in_word), np.int32)
        fields.reshape(-1)[: numbers.size] = numbers - least
        shifts = self.bits * np.arange(self.in_word, dtype=np.int32)
        return np.asarray((fields << shifts).sum(axis=1, dtype=np.int32), np.int32)

    def unpack(self, sums: Ints, count: int) -> Ints:
        """The sums of ``count`` numbers, int32, from sums of the lanes of all workers."""
        shifts = self.bits * np.arange(self.in_word, dtype=np.int32)
        fields = (sums[:, None] >> shifts & (1 << self.bits) - 1).reshape(-1)[:count]
        return np.asarray(fields - (self.workers * self.level if self.signed else 0), np.int32)
