"""A hash table that Python writes and machine code reads."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.dataplane.tables.key import hash_words, split_words

_FIRST_CAPACITY: Final = 16
_MAX_LOAD: Final = 0.5


class HashIndex:
    """Maps numbers of fixed width to positive references; open addressing with linear probing.

    ``buckets`` is a uint64 array of shape (capacity, 1 + words): reference (0: empty), then the key, least
    significant word first. The capacity is a power of two, at most half full. A removal moves the entries behind
    it forward, so there are no tombstones and a miss ends at the first empty bucket. The array is replaced when
    it grows: whoever holds its address must ask again after every insertion.
    """

    def __init__(self, words: int) -> None:
        self._words = words
        self._count = 0
        self.buckets: NDArray[np.uint64] = self._empty(_FIRST_CAPACITY)

    def __len__(self) -> int:
        return self._count

    @property
    def capacity(self) -> int:
        """Number of buckets."""
        return len(self.buckets)

    def find(self, key: int) -> int:
        """The reference stored under a key, 0 if none."""
        return int(self.buckets[self._locate(split_words(key, self._words)), 0])

    def insert(self, key: int, ref: int) -> None:
        """Stores a reference under a key that is not there yet."""
        if ref <= 0:
            raise ValueError(f"reference {ref} is not positive")
        if (self._count + 1) > self.capacity * _MAX_LOAD:
            self._grow()
        words = split_words(key, self._words)
        at = self._locate(words)
        if self.buckets[at, 0] != 0:
            raise KeyError(key)
        self.buckets[at, 1:] = words
        self.buckets[at, 0] = ref
        self._count += 1

    def remove(self, key: int) -> None:
        """Forgets a key. Raises KeyError."""
        at = self._locate(split_words(key, self._words))
        if self.buckets[at, 0] == 0:
            raise KeyError(key)
        self._close_gap(at)
        self._count -= 1

    def _empty(self, capacity: int) -> NDArray[np.uint64]:
        return np.zeros((capacity, 1 + self._words), dtype=np.uint64)

    def _locate(self, words: list[int]) -> int:
        """The bucket that holds a key, or the empty one where it would go."""
        mask = self.capacity - 1
        at = hash_words(words) & mask
        while self.buckets[at, 0] != 0 and self.buckets[at, 1:].tolist() != words:
            at = (at + 1) & mask
        return at

    def _close_gap(self, gap: int) -> None:
        """Empties a bucket (Knuth, The Art of Computer Programming 3, section 6.4, algorithm R)."""
        mask = self.capacity - 1
        at = gap
        while True:
            at = (at + 1) & mask
            if self.buckets[at, 0] == 0:
                break
            home = hash_words(self.buckets[at, 1:].tolist()) & mask
            # An entry may move into the gap unless its home lies cyclically behind the gap.
            if ((at - home) & mask) >= ((at - gap) & mask):
                self.buckets[gap] = self.buckets[at]
                gap = at
        self.buckets[gap] = 0

    def _grow(self) -> None:
        old = self.buckets
        self.buckets = self._empty(2 * len(old))
        for bucket in old[old[:, 0] != 0]:
            self.buckets[self._locate(bucket[1:].tolist())] = bucket
