"""How the fields of a table's key are packed into one number, and that number into 64-bit words."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from p4reduce.dataplane.model.control import MatchTable

WORD_BITS: Final = 64
WORD_MASK: Final = (1 << WORD_BITS) - 1
HASH_SEED: Final = 0x9E3779B97F4A7C15
HASH_MULTIPLIER: Final = 0xD6E8FEB86659FD93
"""An odd constant with about as many ones as zeros; the compiled lookup uses the same."""


@dataclass(frozen=True)
class KeyLayout:
    """The first field of the key stands in the least significant bits.

    Attributes:
        widths: of the fields, bits.
    """

    widths: tuple[int, ...]

    @classmethod
    def of(cls, table: MatchTable) -> "KeyLayout":
        """The layout of a table's key."""
        return cls(tuple(key.width for key in table.keys))

    @property
    def bits(self) -> int:
        """Width of the packed key."""
        return sum(self.widths)

    @property
    def words(self) -> int:
        """64-bit words of the packed key, at least one."""
        return max(1, -(-self.bits // WORD_BITS))

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The least significant bit of each field in the packed key."""
        offsets, at = [], 0
        for width in self.widths:
            offsets.append(at)
            at += width
        return tuple(offsets)

    def pack(self, values: Sequence[int]) -> int:
        """One number from the values of the fields."""
        packed = 0
        for value, offset in zip(values, self.offsets, strict=True):
            packed |= value << offset
        return packed


def split_words(number: int, count: int) -> list[int]:
    """A number as 64-bit words, least significant first."""
    return [(number >> (WORD_BITS * i)) & WORD_MASK for i in range(count)]


def hash_words(words: Sequence[int]) -> int:
    """The 64-bit hash of a packed key: multiply and fold, word by word."""
    h = HASH_SEED
    for word in words:
        h = ((h ^ word) * HASH_MULTIPLIER) & WORD_MASK
        h ^= h >> 32
    return h
