"""Tables of a device: canonical entries, lookup, and the images that machine code reads."""

from p4reduce.dataplane.tables.entry import DefaultEntry, Exact, Lookup, Lpm, Match, Range, TableEntry, Ternary
from p4reduce.dataplane.tables.errors import (
    EntryExists,
    InvalidEntry,
    NoSuchEntry,
    TableError,
    TableFull,
    TableIsConst,
)
from p4reduce.dataplane.tables.table import TABLE_CELLS, Table

__all__ = [
    "TABLE_CELLS",
    "DefaultEntry",
    "EntryExists",
    "Exact",
    "InvalidEntry",
    "Lookup",
    "Lpm",
    "Match",
    "NoSuchEntry",
    "Range",
    "Table",
    "TableEntry",
    "TableError",
    "TableFull",
    "TableIsConst",
    "Ternary",
]
