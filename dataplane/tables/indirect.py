"""Tables whose entries name members or groups of an action profile."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from p4reduce.dataplane.model.control import MatchTable
from p4reduce.dataplane.model.program import Program
from p4reduce.dataplane.tables.entry import DefaultEntry, Lookup, TableEntry
from p4reduce.dataplane.tables.errors import InvalidEntry
from p4reduce.dataplane.tables.meter import METER_WORDS
from p4reduce.dataplane.tables.profile import GROUP, INDIRECT_ROW_WORDS, MEMBER, NONE, Profile
from p4reduce.dataplane.tables.store import DEFAULT_ROW, EntryStore
from p4reduce.dataplane.tables.table import Table


class IndirectStore(EntryStore):
    """Rows of (NONE, MEMBER or GROUP; reference in the profile)."""

    def __init__(self, meter_words: int) -> None:
        super().__init__((), meter_words, INDIRECT_ROW_WORDS)


class IndirectTable(Table):
    """A table with an action profile; its entries have ``member`` or ``group`` in place of an action."""

    def __init__(self, program: Program, spec: MatchTable, profile: Profile, cells: NDArray[np.int64]) -> None:
        self.profile = profile
        super().__init__(program, spec, cells)

    def lookup(self, values: Sequence[int], hashed: Callable[[], int] = lambda: 0) -> Lookup:
        """See Table; ``hashed`` gives the selector's hash of the packet."""
        ref = self.find(values)
        if ref == 0:
            return Lookup(False, DEFAULT_ROW, None, ())
        kind, ident = _named(self._by_ref[ref])
        member = self.profile.choose(kind, ident, hashed)
        if member is None:
            return Lookup(True, ref, None, ())
        return Lookup(True, ref, self._index_of[member.action], member.arguments)

    def reset(self) -> None:
        """See Table; what the entries named is no longer counted as used."""
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
