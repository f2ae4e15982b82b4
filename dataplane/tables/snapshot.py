"""What a table held at one moment, for those who read it while packets run on."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p4reduce.dataplane.tables.entry import TableEntry
from p4reduce.dataplane.tables.meter import MeterConfig


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """Entries with what belongs to them; no later change of the table is seen here.

    Attributes:
        entries: (entry, its row), oldest first.
        counters: uint64, shape (entries, 2): packets and bytes of each.
        meters: configurations by row, of those that have one.
    """

    entries: list[tuple[TableEntry, int]]
    counters: NDArray[np.uint64]
    meters: dict[int, MeterConfig]
