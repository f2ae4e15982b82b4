"""Tables of a device: canonical entries, lookups, and the memory images that machine code reads."""

from p4switch.tables.matching import (
    DefaultEntry,
    EntryExists,
    Exact,
    InvalidEntry,
    Lookup,
    Lpm,
    Match,
    NoSuchEntry,
    Range,
    TableEntry,
    TableError,
    TableFull,
    TableIsConst,
    Ternary,
)
from p4switch.tables.table import TABLE_CELLS, Table

__all__ = [
    "TABLE_CELLS", "DefaultEntry", "EntryExists", "Exact", "InvalidEntry", "Lookup", "Lpm", "Match", "NoSuchEntry",
    "Range", "Table", "TableEntry", "TableError", "TableFull", "TableIsConst", "Ternary",
]  # fmt: skip
