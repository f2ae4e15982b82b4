"""Table entries in canonical form."""

from dataclasses import dataclass
from typing import TypeAlias


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
