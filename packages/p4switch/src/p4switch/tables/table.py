"""A match-action table of a device."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from p4switch.program import program as model
from p4switch.tables.matching import (
    DEFAULT_ROW,
    IMAGE_CELLS,
    DefaultEntry,
    EntryExists,
    EntryStore,
    Exact,
    InvalidEntry,
    Lookup,
    Lpm,
    Match,
    NoSuchEntry,
    Range,
    TableEntry,
    TableFull,
    TableIsConst,
    Ternary,
    make_index,
)
from p4switch.tables.profile import (
    GROUP,
    INDIRECT_ROW_WORDS,
    MEMBER,
    METER_WORDS,
    NONE,
    MeterConfig,
    Profile,
    configure,
    execute,
)

# The contents of a table at one moment, for readers that run while packets are processed.


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """Entries with counters and meters; later changes of the table do not change it.

    Attributes:
        entries: (entry, row), oldest first.
        counters: uint64, shape (entries, 2): packets and bytes of each entry.
        meters: configurations by row, for the entries that have one.
    """

    entries: list[tuple[TableEntry, int]]
    counters: NDArray[np.uint64]
    meters: dict[int, MeterConfig]


TABLE_CELLS: Final = 3 + IMAGE_CELLS
"""int64 cells of a table in a device's state: address of the rows, address of the direct counters, the index, address
of the direct meters."""

METERS_CELL: Final = TABLE_CELLS - 1

CONST_PRIORITY_BASE: Final = 1 << 24
"""In BMv2's JSON the lowest priority wins; a constant entry gets this number minus its priority."""


class Table:
    """The entries of one table; the interpreter and machine code read the same memory.

    Changes may be made only between packets. A lookup takes constant time in exact tables, time proportional to the
    number of different prefix lengths in LPM tables, and time proportional to the number of entries in ternary and
    range tables.
    """

    def __init__(self, program: model.Program, spec: model.MatchTable, cells: NDArray[np.int64] | None = None) -> None:
        """Makes a table with the constant entries and the default of the program.

        Args:
            program: the program that the table belongs to.
            spec: the table's declaration.
            cells: TABLE_CELLS cells that machine code reads; the table keeps them up to date.
        """
        self.spec = spec
        self.actions: tuple[model.Action, ...] = tuple(program.actions[ident] for ident in spec.actions)
        self._index_of = {action.name: i for i, action in enumerate(self.actions)}
        self._cells = np.zeros(TABLE_CELLS, dtype=np.int64) if cells is None else cells
        self.reset()

    @property
    def name(self) -> str:
        """Full name, as in P4Info."""
        return self.spec.name

    def __len__(self) -> int:
        return len(self._entries)

    def reset(self) -> None:
        """Removes all entries but the program's own; restores the program's default; zeroes counters."""
        self._entries: dict[tuple[tuple[Match, ...], int], tuple[TableEntry, int]] = {}
        self._by_ref: dict[int, TableEntry] = {}
        self._store = self._new_store()
        self._meter_configs: dict[int, MeterConfig] = {}
        self._index = make_index(self.spec)
        self.reset_default()
        for entry in self.spec.entries or ():
            self._insert(self._from_const(entry))
        self._publish()

    # --- entries

    def insert(self, entry: TableEntry) -> None:
        """Adds an entry.

        Raises:
            InvalidEntry, EntryExists, TableFull, TableIsConst.
        """
        self._check_mutable()
        self._check(entry)
        if entry.identity in self._entries:
            raise EntryExists(f"table {self.name}: there is an entry for {describe(entry, self.spec)} already")
        if len(self._entries) >= self.spec.max_size:
            raise TableFull(f"table {self.name} is full: the program allows {self.spec.max_size} entries")
        self._insert(entry)
        self._publish()

    def modify(self, entry: TableEntry) -> None:
        """Gives an entry another action or other arguments; its direct counter keeps its value.

        Raises:
            InvalidEntry, NoSuchEntry, TableIsConst.
        """
        self._check_mutable()
        self._check(entry)
        before, ref = self._stored(entry)
        self._write_entry(ref, entry)
        self._uses(entry, 1)
        self._uses(before, -1)
        self._entries[entry.identity] = (entry, ref)
        self._by_ref[ref] = entry

    def delete(self, entry: TableEntry) -> None:
        """Removes the entry with the same match and priority; action and arguments of ``entry`` are ignored.

        Raises:
            InvalidEntry, NoSuchEntry, TableIsConst.
        """
        self._check_mutable()
        self._check_match(entry)
        stored, ref = self._stored(entry)
        self._index.remove(stored, ref)
        self._store.free(ref)
        self._uses(stored, -1)
        self._meter_configs.pop(ref, None)
        del self._entries[entry.identity], self._by_ref[ref]
        self._publish()

    def entries(self) -> Iterator[TableEntry]:
        """Yields all entries, oldest first."""
        return (entry for entry, _ in list(self._entries.values()))

    def get(self, entry: TableEntry) -> TableEntry:
        """Returns the entry with the same match and priority. Raises NoSuchEntry."""
        return self._stored(entry)[0]

    def snapshot(self, only: TableEntry | None = None) -> TableSnapshot:
        """Returns all entries, or the one with the same match and priority, with their present counters and meters.

        Raises NoSuchEntry if ``only`` has no entry.
        """
        entries = list(self._entries.values()) if only is None else [self._stored(only)]
        rows = np.array([row for _, row in entries], dtype=np.intp)
        meters = dict(self._meter_configs) if self._meter_configs else {}
        return TableSnapshot(entries, self._store.counters[rows], meters)

    def row(self, entry: TableEntry) -> int:
        """Returns the row of the entry with this match and priority, fixed while it exists. Raises NoSuchEntry."""
        return self._stored(entry)[1]

    def at(self, row: int) -> TableEntry:
        """Returns the entry in a row. Raises KeyError."""
        return self._by_ref[row]

    @property
    def packets(self) -> NDArray[np.uint64]:
        """Packets counted, by row; see ``hits``. A view that is valid until the next insertion."""
        return self._store.counters[:, 0]

    # --- default

    @property
    def default(self) -> DefaultEntry:
        """The default entry, which a miss runs."""
        return self._default

    def set_default(self, action: str, arguments: tuple[int, ...] = ()) -> None:
        """Sets the default entry. Raises InvalidEntry, TableIsConst."""
        if self.spec.const_default:
            raise TableIsConst(f"table {self.name}: the program fixes its default action")
        self._check_action(action, arguments)
        self._write_default(DefaultEntry(action, arguments))

    def reset_default(self) -> None:
        """Restores the default entry of the P4 program."""
        index = self.spec.default_action
        name = None if index is None else self.actions[index].name
        self._write_default(DefaultEntry(name, self.spec.default_arguments))

    # --- packets

    def lookup(self, values: Sequence[int], hashed: Callable[[], int] = lambda: 0) -> Lookup:
        """Returns what applies to a packet whose key fields have these values (one for each key, masked here).

        ``hashed`` computes the packet's hash; only tables with an action selector call it.
        """
        ref = self.find(values)
        if ref == 0:
            action = None if self._default.action is None else self._index_of[self._default.action]
            return Lookup(False, DEFAULT_ROW, action, self._default.arguments)
        entry = self._by_ref[ref]
        return Lookup(True, ref, self._index_of[entry.action], entry.arguments)

    def find(self, values: Sequence[int]) -> int:
        """Returns the row of the entry that matches; 0 if none matches."""
        masked = [value & key.mask for value, key in zip(values, self.spec.keys, strict=True)]
        return self._index.find(masked) if self.spec.keys else 0

    def count(self, ref: int, length: int) -> None:
        """Counts one packet of ``length`` bytes at an entry; BMv2 counts every hit, whichever action runs."""
        self._store.counters[ref] += np.array([1, length], dtype=np.uint64)

    # --- direct counters

    def read_counter(self, entry: TableEntry) -> tuple[int, int]:
        """Returns packets and bytes of the entry with this match and priority. Raises NoSuchEntry, InvalidEntry."""
        packets, octets = self._store.counters[self._counted(entry)].tolist()
        return packets, octets

    def write_counter(self, entry: TableEntry, packets: int, octets: int) -> None:
        """Sets the direct counter of an entry. Raises NoSuchEntry, InvalidEntry."""
        self._store.counters[self._counted(entry)] = [packets, octets]

    def hits(self, entry: TableEntry) -> int:
        """Returns the packets counted at an entry since its insertion; a write of its counter replaces the number.

        Only tables with a direct counter or idle time-outs count. Raises NoSuchEntry.
        """
        return int(self._store.counters[self._stored(entry)[1], 0])

    # --- direct meters

    def read_meter(self, entry: TableEntry) -> MeterConfig | None:
        """Returns the meter of an entry; None if it is not configured. Raises NoSuchEntry, InvalidEntry."""
        return self._meter_configs.get(self._metered(entry))

    def write_meter(self, entry: TableEntry, config: MeterConfig | None) -> None:
        """Configures the meter of an entry. Raises NoSuchEntry, InvalidEntry, MeterError."""
        ref = self._metered(entry)
        configure(self._store.meters[ref], config)
        self._meter_configs.pop(ref, None)
        if config is not None:
            self._meter_configs[ref] = config

    def execute_meter(self, ref: int, unit: Literal["packets", "bytes"], length: int, now: int) -> int:
        """Returns the color of a packet that hit the entry in row ``ref``."""
        return execute(self._store.meters[ref], unit, length, now)

    def _metered(self, entry: TableEntry) -> int:
        if self.spec.direct_meter is None:
            raise InvalidEntry(f"table {self.name} has no direct meter")
        return self._stored(entry)[1]

    # --- overridden by tables with action profiles

    def _new_store(self) -> EntryStore:
        return EntryStore(self.actions, METER_WORDS if self.spec.direct_meter is not None else 0)

    def _write_entry(self, ref: int, entry: TableEntry) -> None:
        self._store.write(ref, self._index_of[entry.action], entry.arguments)

    def _uses(self, entry: TableEntry, by: int) -> None:
        """Called when an entry is added (``by`` 1) or removed (-1)."""

    def _check_entry_action(self, entry: TableEntry) -> None:
        if entry.member is not None or entry.group is not None:
            raise InvalidEntry(f"table {self.name} has no action profile: entries take actions")
        self._check_action(entry.action, entry.arguments)

    # --- internal

    def _counted(self, entry: TableEntry) -> int:
        if self.spec.direct_counter is None:
            raise InvalidEntry(f"table {self.name} has no direct counter")
        return self._stored(entry)[1]

    def _stored(self, entry: TableEntry) -> tuple[TableEntry, int]:
        stored = self._entries.get(entry.identity)
        if stored is None:
            raise NoSuchEntry(f"table {self.name}: there is no entry for {describe(entry, self.spec)}")
        return stored

    def _insert(self, entry: TableEntry) -> None:
        ref = self._store.allocate()
        self._write_entry(ref, entry)
        self._uses(entry, 1)
        self._index.insert(entry, ref)
        self._entries[entry.identity] = (entry, ref)
        self._by_ref[ref] = entry

    def _write_default(self, default: DefaultEntry) -> None:
        self._default = default
        action = None if default.action is None else self._index_of[default.action]
        self._store.write(DEFAULT_ROW, action, default.arguments)

    def _publish(self) -> None:
        """Writes the present addresses to the cells that machine code reads."""
        rows, counters, meters = self._store.addresses
        self._cells[:] = (rows, counters, *self._index.image(), meters)

    def _from_const(self, entry: model.ConstEntry) -> TableEntry:
        match = tuple(_const_match(key, pair) for key, pair in zip(self.spec.keys, entry.match, strict=True))
        has_priority = self.spec.kind in ("ternary", "range")
        priority = CONST_PRIORITY_BASE - entry.priority if has_priority else 0
        return TableEntry(match, self.actions[entry.action].name, entry.arguments, priority)

    # --- checks

    def _check_mutable(self) -> None:
        if self.spec.entries is not None:
            raise TableIsConst(f"table {self.name}: the program fixes its entries")

    def _check(self, entry: TableEntry) -> None:
        self._check_match(entry)
        self._check_entry_action(entry)

    def _check_match(self, entry: TableEntry) -> None:
        if not self.spec.keys:
            raise InvalidEntry(f"table {self.name} has no key: only its default can be set")
        if len(entry.match) != len(self.spec.keys):
            raise InvalidEntry(f"table {self.name} has {len(self.spec.keys)} keys, the entry {len(entry.match)}")
        for match, key in zip(entry.match, self.spec.keys, strict=True):
            problem = _match_problem(match, key)
            if problem is not None:
                raise InvalidEntry(f"table {self.name}, key {key.name}: {problem}")
        if entry.priority != 0 and self.spec.kind not in ("ternary", "range"):
            raise InvalidEntry(f"table {self.name} is {self.spec.kind}: entries have no priority")

    def _check_action(self, name: str, arguments: tuple[int, ...]) -> None:
        index = self._index_of.get(name)
        if index is None:
            known = ", ".join(self._index_of)
            raise InvalidEntry(f"table {self.name} has no action {name!r}; it has {known}")
        parameters = self.actions[index].parameters
        if len(arguments) != len(parameters):
            raise InvalidEntry(f"table {self.name}, action {name}: {len(arguments)} arguments for {len(parameters)}")
        for value, parameter in zip(arguments, parameters, strict=True):
            if not 0 <= value < 1 << parameter.width:
                raise InvalidEntry(
                    f"table {self.name}, action {name}: {parameter.name} = {value} does not fit {parameter.width} bits"
                )


_KINDS: Final[dict[str, type[Match]]] = {"exact": Exact, "lpm": Lpm, "ternary": Ternary, "range": Range}


def _match_problem(match: Match, key: model.MatchKey) -> str | None:
    """Returns what is wrong with a match field; None if it is valid."""
    if not isinstance(match, _KINDS[key.kind]):
        return f"{type(match).__name__} where the key is {key.kind}"
    numbers = (match.low, match.high) if isinstance(match, Range) else (match.value,)
    if any(not 0 <= n < 1 << key.width for n in numbers):
        return f"{match} does not fit {key.width} bits"
    match match:
        case Lpm(value, prefix):
            if not 0 <= prefix <= key.width:
                return f"prefix length {prefix} of {key.width} bits"
            if value & ((1 << (key.width - prefix)) - 1):
                return f"bits of {value:#x} behind its prefix of {prefix} bits are set"
        case Ternary(value, mask):
            if not 0 <= mask < 1 << key.width:
                return f"mask {mask:#x} does not fit {key.width} bits"
            if value & ~mask:
                return f"bits of {value:#x} outside the mask {mask:#x} are set"
        case Range(low, high):
            if low > high:
                return f"range {low}..{high} is empty"
    return None


def _const_match(key: model.MatchKey, pair: tuple[int, int]) -> Match:
    value, second = pair
    match key.kind:
        case "exact":
            return Exact(value)
        case "lpm":
            return Lpm(value & ~((1 << (key.width - second)) - 1), second)
        case "ternary":
            return Ternary(value & second, second)
        case _:
            return Range(value, second)


def describe(entry: TableEntry, spec: model.MatchTable) -> str:
    """Returns the match of an entry as text for people."""
    parts = [f"{key.name}={_show(match)}" for match, key in zip(entry.match, spec.keys, strict=False)]
    return ", ".join(parts) + (f" (priority {entry.priority})" if spec.kind in ("ternary", "range") else "")


def _show(match: Match) -> str:
    match match:
        case Exact(value):
            return f"{value:#x}"
        case Lpm(value, prefix):
            return f"{value:#x}/{prefix}"
        case Ternary(value, mask):
            return f"{value:#x}&&&{mask:#x}"
        case Range(low, high):
            return f"{low:#x}..{high:#x}"


# Tables whose entries name members or groups of an action profile.


class IndirectStore(EntryStore):
    """Rows of two words: NONE, MEMBER or GROUP, and the reference in the profile."""

    def __init__(self, meter_words: int) -> None:
        super().__init__((), meter_words, INDIRECT_ROW_WORDS)


class IndirectTable(Table):
    """A table with an action profile; its entries have ``member`` or ``group`` in place of an action."""

    def __init__(
        self, program: model.Program, spec: model.MatchTable, profile: Profile, cells: NDArray[np.int64]
    ) -> None:
        self.profile = profile
        super().__init__(program, spec, cells)

    def lookup(self, values: Sequence[int], hashed: Callable[[], int] = lambda: 0) -> Lookup:
        """See Table; ``hashed`` computes the selector's hash of the packet."""
        ref = self.find(values)
        if ref == 0:
            return Lookup(False, DEFAULT_ROW, None, ())
        kind, ident = _named(self._by_ref[ref])
        member = self.profile.choose(kind, ident, hashed)
        if member is None:
            return Lookup(True, ref, None, ())
        return Lookup(True, ref, self._index_of[member.action], member.arguments)

    def reset(self) -> None:
        """See Table; also releases the members and groups that the entries named."""
        for entry, _ in getattr(self, "_entries", {}).values():
            self._uses(entry, -1)
        super().reset()

    def _new_store(self) -> EntryStore:
        return IndirectStore(METER_WORDS if self.spec.direct_meter is not None else 0)

    def _write_entry(self, ref: int, entry: TableEntry) -> None:
        kind, ident = _named(entry)
        self._store.rows[ref] = [kind, self.profile.reference(kind, ident)]

    def _uses(self, entry: TableEntry, by: int) -> None:
        self.profile.use(*_named(entry), by)

    def _write_default(self, default: DefaultEntry) -> None:
        if default.action is not None:
            raise InvalidEntry(f"table {self.name} has an action profile: BMv2 gives it no default action")
        self._default = default
        self._store.rows[DEFAULT_ROW] = [NONE, 0]

    def _check_entry_action(self, entry: TableEntry) -> None:
        if (entry.member is None) == (entry.group is None):
            raise InvalidEntry(f"table {self.name} has an action profile: an entry names one member or one group")
        kind, ident = _named(entry)
        self.profile.reference(kind, ident)


def _named(entry: TableEntry) -> tuple[int, int]:
    if entry.group is not None:
        return GROUP, entry.group
    return MEMBER, -1 if entry.member is None else entry.member
