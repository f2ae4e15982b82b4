"""The index of a table: from a packed key to the row of the entry that wins."""

import heapq
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from p4switch.program.actions import Action, ActionParameter, MatchTable

# Table entries in canonical form.


@dataclass(frozen=True, slots=True, order=True)
class Exact:
    """A match on one value of the key."""

    value: int


@dataclass(frozen=True, slots=True, order=True)
class Lpm:
    """A match on the first ``prefix`` bits of the key; the other bits of ``value`` are 0."""

    value: int
    prefix: int


@dataclass(frozen=True, slots=True, order=True)
class Ternary:
    """``key & mask == value``; bits of ``value`` outside ``mask`` are 0. P4's optional: mask 0 or all ones."""

    value: int
    mask: int


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """``low <= key <= high``."""

    low: int
    high: int


Match: TypeAlias = Exact | Lpm | Ternary | Range


@dataclass(frozen=True, slots=True)
class TableEntry:
    """An entry.

    Attributes:
        match: one match for each key of the table, in the table's order.
        action: full name of the action.
        arguments: its arguments, unsigned.
        member, group: in tables with an action profile, the id of the member or group; ``action`` is then empty.
        priority: in ternary and range tables, the highest number wins (as in P4Runtime); else 0.
    """

    match: tuple[Match, ...]
    action: str
    arguments: tuple[int, ...] = ()
    priority: int = 0
    member: int | None = None
    group: int | None = None

    @property
    def identity(self) -> tuple[tuple[Match, ...], int]:
        """The match and the priority, which identify an entry within its table."""
        return self.match, self.priority


@dataclass(frozen=True, slots=True)
class DefaultEntry:
    """The default entry, which a miss runs: an action with its arguments; ``action`` None runs nothing."""

    action: str | None
    arguments: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Lookup:
    """The result of a lookup.

    Attributes:
        hit: whether an entry matched; otherwise the default applies.
        ref: the row of the entry, for Table.count; 0 is the default's row.
        action: index into the table's actions; None: no action runs.
    """

    hit: bool
    ref: int
    action: int | None
    arguments: tuple[int, ...]


# Errors of changes to a table.


class TableError(ValueError):
    """A change that a table refuses. The message names the table."""


class InvalidEntry(TableError):
    """An entry with a wrong number or kind of match fields, a value too wide, an unknown action or wrong arguments."""


class EntryExists(TableError):
    """An entry with the same match (and priority, if the table has priorities) exists already."""


class NoSuchEntry(TableError):
    """There is no entry with this match (and priority)."""


class TableFull(TableError):
    """The table holds as many entries as the P4 program allows."""


class TableIsConst(TableError):
    """The P4 program fixes the entries, or the default action, of this table."""


class StillUsed(TableError):
    """A member or group cannot be removed, because a group or a table entry names it."""


# Packing of the fields of a table's key into one number, and of that number into 64-bit words.


WORD_BITS: Final = 64
WORD_MASK: Final = (1 << WORD_BITS) - 1
HASH_SEED: Final = 0x9E3779B97F4A7C15
HASH_MULTIPLIER: Final = 0xD6E8FEB86659FD93
"""An odd constant with about as many ones as zeros; machine code uses the same."""


@dataclass(frozen=True)
class KeyLayout:
    """The packing of a key's fields into one number: the first field is in the least significant bits.

    Attributes:
        widths: bits of each field.
    """

    widths: tuple[int, ...]

    @classmethod
    def of(cls, table: MatchTable) -> "KeyLayout":
        """Return the layout of a table's key."""
        return cls(tuple(key.width for key in table.keys))

    @property
    def bits(self) -> int:
        """Width of the packed key."""
        return sum(self.widths)

    @property
    def words(self) -> int:
        """Number of 64-bit words of the packed key, at least one."""
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
        """Return one number that holds the values of all fields."""
        packed = 0
        for value, offset in zip(values, self.offsets, strict=True):
            packed |= value << offset
        return packed


def split_words(number: int, count: int) -> list[int]:
    """Return a number as ``count`` 64-bit words, least significant first."""
    return [(number >> (WORD_BITS * i)) & WORD_MASK for i in range(count)]


def hash_words(words: Sequence[int]) -> int:
    """Return the 64-bit hash of a packed key: multiply and fold, word by word."""
    h = HASH_SEED
    for word in words:
        h = ((h ^ word) * HASH_MULTIPLIER) & WORD_MASK
        h ^= h >> 32
    return h


# A hash table that Python writes and machine code reads.


_FIRST_CAPACITY: Final = 16
_MAX_LOAD: Final = 0.5


class HashIndex:
    """Maps numbers of a fixed width to positive references; open addressing with linear probing.

    ``buckets`` is a uint64 array of shape (capacity, 1 + words): reference (0: empty), then the key, least
    significant word first. The capacity is a power of two; at most half of it is used. A removal moves later entries
    forward, so there are no tombstones, and a search ends at the first empty bucket. The array is replaced when the
    index grows: read its address again after every insertion.
    """

    def __init__(self, words: int) -> None:
        self._words = words
        self._count = 0
        self._take(self._empty(_FIRST_CAPACITY))

    def __len__(self) -> int:
        return self._count

    @property
    def capacity(self) -> int:
        """Number of buckets."""
        return len(self.buckets)

    def find(self, key: int) -> int:
        """Return the reference stored under a key; 0 if there is none."""
        return int(self.buckets[self._locate(split_words(key, self._words)), 0])

    def insert(self, key: int, ref: int) -> None:
        """Store a reference under a key that is not present."""
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
        """Remove a key. Raises KeyError if it is not present."""
        at = self._locate(split_words(key, self._words))
        if self.buckets[at, 0] == 0:
            raise KeyError(key)
        self._close_gap(at)
        self._count -= 1

    def _take(self, buckets: NDArray[np.uint64]) -> None:
        self.buckets: NDArray[np.uint64] = buckets
        self.address = address_of(buckets)

    def _empty(self, capacity: int) -> NDArray[np.uint64]:
        return np.zeros((capacity, 1 + self._words), dtype=np.uint64)

    def _locate(self, words: list[int]) -> int:
        """Returns the bucket that holds a key, or the empty bucket where the key would go."""
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
            # An entry may move into the gap unless its home bucket lies cyclically behind the gap.
            if ((at - home) & mask) >= ((at - gap) & mask):
                self.buckets[gap] = self.buckets[at]
                gap = at
        self.buckets[gap] = 0

    def _grow(self) -> None:
        old = self.buckets
        self._take(self._empty(2 * len(old)))
        for bucket in old[old[:, 0] != 0]:
            self.buckets[self._locate(bucket[1:].tolist())] = bucket


IMAGE_CELLS: Final = 4
"""int64 cells that describe an index to machine code; their meaning depends on the kind of index."""


def address_of(array: NDArray[np.uint64]) -> int:
    """Return the address of an array's first element."""
    return int(array.ctypes.data)


class MatchIndex(ABC):
    """Finds the entry for a packet. References are rows of the table's entry store, from 1."""

    @abstractmethod
    def find(self, values: Sequence[int]) -> int:
        """Return the reference of the entry that matches best; 0 if none matches."""

    @abstractmethod
    def insert(self, entry: TableEntry, ref: int) -> None:
        """Add an entry; the caller has checked that it is valid and new."""

    @abstractmethod
    def remove(self, entry: TableEntry, ref: int) -> None:
        """Remove an entry that is present."""

    @abstractmethod
    def image(self) -> tuple[int, int, int, int]:
        """Return IMAGE_CELLS numbers that describe the index to machine code; valid until the next change."""


class ExactIndex(MatchIndex):
    """The index of an exact table. image: address of the buckets, capacity - 1, 0, 0."""

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
        return self._hash.address, self._hash.capacity - 1, 0, 0

    def _key(self, entry: TableEntry) -> int:
        return self._layout.pack([m.value for m in entry.match if isinstance(m, Exact)])


class LpmIndex(MatchIndex):
    """The index of an LPM table: one hash table over (masked key, prefix length), probed for each length in use.

    The longest prefix is probed first. image: address of the buckets, capacity - 1, address of the lengths, number
    of lengths. ``lengths`` has rows (prefix length, mask of the packed key).
    """

    def __init__(self, table: MatchTable) -> None:
        self._layout = KeyLayout.of(table)
        self._at = next(i for i, key in enumerate(table.keys) if key.kind == "lpm")
        self._width = table.keys[self._at].width
        self._hash = HashIndex(self._layout.words + 1)
        self._uses: dict[int, int] = {}
        self._lengths = np.zeros((self._width + 1, 1 + self._layout.words), dtype=np.uint64)
        self._lengths_at = address_of(self._lengths)

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
        return self._hash.address, self._hash.capacity - 1, self._lengths_at, len(self._uses)

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
    """The index of a ternary or range table: a linear search in the order of priority, then of row (as in BMv2).

    image: address of the rows, number of rows, 0, 0. A row: reference; value and mask of the packed key; for each
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
    """Return the number of uint64 words of a row of a TernaryIndex."""
    bounds = sum(2 * -(-key.width // 64) for key in table.keys if key.kind == "range")
    return 1 + 2 * KeyLayout.of(table).words + bounds


def make_index(table: MatchTable) -> MatchIndex:
    """Return an empty index of the kind that the table needs."""
    if table.kind in ("ternary", "range"):
        return TernaryIndex(table)
    if any(key.kind == "lpm" for key in table.keys):
        return LpmIndex(table)
    return ExactIndex(table)


# The rows of a table's entries (action and arguments, as machine code reads them), and direct counters.


_FIRST_ROWS: Final = 8
DEFAULT_ROW: Final = 0


@cache
def argument_places(parameters: tuple[ActionParameter, ...]) -> tuple[tuple[int, int], ...]:
    """Return where an entry's row holds each argument: its first word, and its words; word 0 is the action."""
    places, at = [], 1
    for parameter in parameters:
        words = -(-parameter.width // WORD_BITS)
        places.append((at, words))
        at += words
    return tuple(places)


def store_row_words(actions: tuple[Action, ...]) -> int:
    """Return the uint64 words of a row: one for the action, and those of the longest list of arguments."""
    return max((sum(places[-1]) for action in actions if (places := argument_places(action.parameters))), default=1)


class EntryStore:
    """The entries of a table in memory. Row 0 is the default; the lowest free row is given out first.

    ``rows``: uint64 (capacity, row_words): index of the action among the table's (the number of actions stands for no
    action), then the arguments, each from a new word, least significant word first. ``counters``: uint64 (capacity, 2):
    packets, bytes. ``meters``: uint64 (capacity, METER_WORDS) in a table with a direct meter. Growth replaces the three
    arrays; ``addresses`` are the current ones.
    """

    def __init__(self, actions: tuple[Action, ...], meter_words: int = 0, words: int | None = None) -> None:
        """Create an empty store; ``words``: size of a row that does not hold an action and its arguments."""
        self._actions = actions
        self._places = [argument_places(action.parameters) for action in actions]
        self._free: list[int] = []
        self._used = 1
        self.rows: NDArray[np.uint64] = np.zeros((_FIRST_ROWS, words or store_row_words(actions)), np.uint64)
        self.counters: NDArray[np.uint64] = np.zeros((_FIRST_ROWS, 2), dtype=np.uint64)
        self.meters: NDArray[np.uint64] = np.zeros((_FIRST_ROWS, meter_words), dtype=np.uint64)
        self.addresses = self._where()

    def allocate(self) -> int:
        """Return a free row with its counters set to zero."""
        ref = heapq.heappop(self._free) if self._free else self._used
        self._used = max(self._used, ref + 1)
        if ref == len(self.rows):
            grown = (self.rows, self.counters, self.meters)
            self.rows, self.counters, self.meters = (np.concatenate([array, np.zeros_like(array)]) for array in grown)
            self.addresses = self._where()
        self.counters[ref] = 0
        self.meters[ref] = 0
        return ref

    def _where(self) -> tuple[int, int, int]:
        return self.rows.ctypes.data, self.counters.ctypes.data, self.meters.ctypes.data

    def free(self, ref: int) -> None:
        """Give a row back."""
        heapq.heappush(self._free, ref)

    def write(self, ref: int, action: int | None, arguments: tuple[int, ...]) -> None:
        """Fill a row; ``action`` is an index into the table's actions."""
        row = [0] * self.rows.shape[1]
        row[0] = len(self._actions) if action is None else action
        if action is not None:
            for value, (at, words) in zip(arguments, self._places[action], strict=True):
                row[at : at + words] = split_words(value, words)
        self.rows[ref] = row
