"""The index of a table: from a packed key to the row of the entry that wins."""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.dataplane.model.control import MatchTable
from p4reduce.dataplane.tables.entry import Exact, Lpm, Match, Range, TableEntry, Ternary
from p4reduce.dataplane.tables.hash_index import HashIndex
from p4reduce.dataplane.tables.key import KeyLayout, split_words

IMAGE_CELLS: Final = 4
"""int64 cells that describe an index to machine code; their meaning depends on the kind of table."""


def address_of(array: NDArray[np.uint64]) -> int:
    """The address of an array's first element."""
    return int(array.ctypes.data)


class MatchIndex(ABC):
    """What finds entries. References are rows of the table's entry store, from 1."""

    @abstractmethod
    def find(self, values: Sequence[int]) -> int:
        """The reference of the entry that matches best, 0 if none does."""

    @abstractmethod
    def insert(self, entry: TableEntry, ref: int) -> None:
        """Adds an entry; the caller has checked that it is valid and new."""

    @abstractmethod
    def remove(self, entry: TableEntry, ref: int) -> None:
        """Removes an entry that is there."""

    @abstractmethod
    def image(self) -> tuple[int, int, int, int]:
        """IMAGE_CELLS numbers for machine code; valid until the next insertion or removal."""


class ExactIndex(MatchIndex):
    """image: address of the buckets, capacity - 1, 0, 0."""

    def __init__(self, table: MatchTable) -> None:
        self._layout = KeyLayout.of(table)
        self._hash = HashIndex(self._layout.words)

    def find(self, values: Sequence[int]) -> int:
        """See MatchIndex."""
        return self._hash.find(self._layout.pack(values))

    def insert(self, entry: TableEntry, ref: int) -> None:
        """See MatchIndex."""
        self._hash.insert(self._key(entry), ref)

    def remove(self, entry: TableEntry, ref: int) -> None:
        """See MatchIndex."""
        self._hash.remove(self._key(entry))

    def image(self) -> tuple[int, int, int, int]:
        """See MatchIndex."""
        return address_of(self._hash.buckets), self._hash.capacity - 1, 0, 0

    def _key(self, entry: TableEntry) -> int:
        return self._layout.pack([m.value for m in entry.match if isinstance(m, Exact)])


class LpmIndex(MatchIndex):
    """One hash table over (masked key, prefix length), asked once for each length in use, longest first.

    image: address of the buckets, capacity - 1, address of the lengths, number of lengths. ``lengths`` has rows
    (prefix length, mask of the packed key).
    """

    def __init__(self, table: MatchTable) -> None:
        self._layout = KeyLayout.of(table)
        self._at = next(i for i, key in enumerate(table.keys) if key.kind == "lpm")
        self._width = table.keys[self._at].width
        self._hash = HashIndex(self._layout.words + 1)
        self._uses: dict[int, int] = {}
        self._lengths = np.zeros((self._width + 1, 1 + self._layout.words), dtype=np.uint64)

    def find(self, values: Sequence[int]) -> int:
        """See MatchIndex."""
        key = self._layout.pack(values)
        for prefix in sorted(self._uses, reverse=True):
            ref = self._hash.find(self._composite(key & self._mask(prefix), prefix))
            if ref:
                return ref
        return 0

    def insert(self, entry: TableEntry, ref: int) -> None:
        """See MatchIndex."""
        key, prefix = self._key(entry)
        self._hash.insert(self._composite(key, prefix), ref)
        self._uses[prefix] = self._uses.get(prefix, 0) + 1
        if self._uses[prefix] == 1:
            self._list_lengths()

    def remove(self, entry: TableEntry, ref: int) -> None:
        """See MatchIndex."""
        key, prefix = self._key(entry)
        self._hash.remove(self._composite(key, prefix))
        self._uses[prefix] -= 1
        if self._uses[prefix] == 0:
            del self._uses[prefix]
            self._list_lengths()

    def image(self) -> tuple[int, int, int, int]:
        """See MatchIndex."""
        return address_of(self._hash.buckets), self._hash.capacity - 1, address_of(self._lengths), len(self._uses)

    def _mask(self, prefix: int) -> int:
        free = ((1 << (self._width - prefix)) - 1) << self._layout.offsets[self._at]
        return ((1 << self._layout.bits) - 1) & ~free

    def _composite(self, key: int, prefix: int) -> int:
        return key | prefix << (64 * self._layout.words)

    def _key(self, entry: TableEntry) -> tuple[int, int]:
        prefix = 0
        values = []
        for match in entry.match:
            if isinstance(match, Lpm):
                prefix = match.prefix
            values.append(match.value if isinstance(match, Exact | Lpm) else 0)
        return self._layout.pack(values), prefix

    def _list_lengths(self) -> None:
        for row, prefix in enumerate(sorted(self._uses, reverse=True)):
            self._lengths[row] = [prefix, *split_words(self._mask(prefix), self._layout.words)]


class TernaryIndex(MatchIndex):
    """Rows in the order in which they win: priority, then the lower reference (as in BMv2). Linear.

    image: address of the rows, their number, 0, 0. A row: reference; value and mask of the packed key; for each
    range key its low and high end, each in as many words as that key takes.
    """

    def __init__(self, table: MatchTable) -> None:
        self._layout = KeyLayout.of(table)
        self._ranges = [i for i, key in enumerate(table.keys) if key.kind == "range"]
        self._widths = [key.width for key in table.keys]
        self._order: list[tuple[int, int]] = []
        self._rows = np.zeros((8, row_words(table)), dtype=np.uint64)

    def find(self, values: Sequence[int]) -> int:
        """See MatchIndex."""
        words = np.array(split_words(self._layout.pack(values), self._layout.words), dtype=np.uint64)
        count, n = len(self._order), self._layout.words
        rows = self._rows[:count]
        fits = np.all((rows[:, 1 + n : 1 + 2 * n] & words) == rows[:, 1 : 1 + n], axis=1)
        for row in rows[fits]:
            if self._in_ranges(row[1 + 2 * n :].tolist(), values):
                return int(row[0])
        return 0

    def insert(self, entry: TableEntry, ref: int) -> None:
        """See MatchIndex."""
        count = len(self._order)
        if count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        at = bisect_left(self._order, (-entry.priority, ref))
        self._rows[at + 1 : count + 1] = self._rows[at:count].copy()
        self._rows[at] = self._row(entry, ref)
        self._order.insert(at, (-entry.priority, ref))

    def remove(self, entry: TableEntry, ref: int) -> None:
        """See MatchIndex."""
        count = len(self._order)
        at = self._order.index((-entry.priority, ref))
        self._rows[at : count - 1] = self._rows[at + 1 : count].copy()
        del self._order[at]

    def image(self) -> tuple[int, int, int, int]:
        """See MatchIndex."""
        return address_of(self._rows), len(self._order), 0, 0

    def _in_ranges(self, bounds: list[int], values: Sequence[int]) -> bool:
        at = 0
        for i in self._ranges:
            n = -(-self._widths[i] // 64)
            low, high = _join(bounds[at : at + n]), _join(bounds[at + n : at + 2 * n])
            if not low <= values[i] <= high:
                return False
            at += 2 * n
        return True

    def _row(self, entry: TableEntry, ref: int) -> list[int]:
        values, masks, bounds = [], [], list[int]()
        for match, width in zip(entry.match, self._widths, strict=True):
            value, mask = _value_and_mask(match, width)
            values.append(value)
            masks.append(mask)
            if isinstance(match, Range):
                n = -(-width // 64)
                bounds += split_words(match.low, n) + split_words(match.high, n)
        n = self._layout.words
        return [ref, *split_words(self._layout.pack(values), n), *split_words(self._layout.pack(masks), n), *bounds]


def _join(words: list[int]) -> int:
    return sum(word << (64 * i) for i, word in enumerate(words))


def _value_and_mask(match: Match, width: int) -> tuple[int, int]:
    ones = (1 << width) - 1
    match match:
        case Exact(value):
            return value, ones
        case Lpm(value, prefix):
            return value, ones & ~((1 << (width - prefix)) - 1)
        case Ternary(value, mask):
            return value, mask
        case Range():
            return 0, 0


def row_words(table: MatchTable) -> int:
    """uint64 words of a row of a TernaryIndex."""
    bounds = sum(2 * -(-key.width // 64) for key in table.keys if key.kind == "range")
    return 1 + 2 * KeyLayout.of(table).words + bounds


def make_index(table: MatchTable) -> MatchIndex:
    """The index for a kind of table."""
    if table.kind in ("ternary", "range"):
        return TernaryIndex(table)
    if any(key.kind == "lpm" for key in table.keys):
        return LpmIndex(table)
    return ExactIndex(table)
