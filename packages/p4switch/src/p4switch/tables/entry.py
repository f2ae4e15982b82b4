"""Table entries in canonical form."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

from p4switch.program.actions import MatchTable


@dataclass(frozen=True, slots=True, order=True)
class Exact:
    """The key's value."""

    value: int


@dataclass(frozen=True, slots=True, order=True)
class Lpm:
    """The first ``prefix`` bits of the key; the other bits of ``value`` are 0."""

    value: int
    prefix: int


@dataclass(frozen=True, slots=True, order=True)
class Ternary:
    """``key & mask == value``; bits of ``value`` outside ``mask`` are 0. Mask 0 or all ones where P4 says optional."""

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
        match: one for each key of the table, in its order.
        action: full name of the action.
        arguments: its arguments, unsigned.
        member, group: in tables with an action profile, the id of what runs; ``action`` is then empty.
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
        """What tells entries of one table apart."""
        return self.match, self.priority


@dataclass(frozen=True, slots=True)
class DefaultEntry:
    """What a miss runs: an action with its arguments; ``action`` None runs nothing."""

    action: str | None
    arguments: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Lookup:
    """The outcome of a lookup.

    Attributes:
        hit: whether an entry matched; else the default applies.
        ref: the entry's row, for Table.count; 0 is the default.
        action: index into the table's actions, None: nothing runs.
    """

    hit: bool
    ref: int
    action: int | None
    arguments: tuple[int, ...]


# What can be wrong with a change to a table.


class TableError(ValueError):
    """A table refuses a change. The message names the table."""


class InvalidEntry(TableError):
    """Wrong number or kind of match fields, a value that is too wide, an unknown action, wrong arguments."""


class EntryExists(TableError):
    """An entry with the same match (and priority, where the table has priorities) is there already."""


class NoSuchEntry(TableError):
    """There is no entry with this match (and priority)."""


class TableFull(TableError):
    """The table holds as many entries as the P4 program allows."""


class TableIsConst(TableError):
    """The P4 program fixes the entries, or the default action, of this table."""


class StillUsed(TableError):
    """A member or group that a group or table entry names cannot be removed."""


# How the fields of a table's key are packed into one number, and that number into 64-bit words.


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
