"""Tables and lines that fit a number of columns."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

LEAST_WORD: Final = 14
"""columns: a longer word in a column of text is broken rather than that the table is given up"""
HANGING: Final = 2
"""columns by which what follows the first part of a line is indented"""


@dataclass(frozen=True)
class _Column:
    heading: str
    cells: Sequence[str]

    @property
    def numeric(self) -> bool:
        return bool(self.cells) and all(cell[:1] in "-+" or cell[:1].isdigit() or not cell for cell in self.cells)

    @property
    def natural(self) -> int:
        return max(map(cell_len, (self.heading, *self.cells)))

    @property
    def narrow(self) -> int:
        """With its heading wrapped, but its cells whole."""
        return max(map(cell_len, (*self.heading.split(" "), *self.cells)))

    @property
    def worded(self) -> int:
        """With text wrapped between words."""
        if self.numeric:
            return self.narrow
        longest = max((cell_len(word) for cell in self.cells for word in cell.split()), default=0)
        return max(longest, *map(cell_len, self.heading.split(" ")))

    @property
    def least(self) -> int:
        """With long words of a text broken too."""
        heading = max(map(cell_len, self.heading.split(" ")))
        return self.narrow if self.numeric else max(heading, min(self.worded, LEAST_WORD))


def table_that_fits(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, title: str | None = None
) -> Table | None:
    """The table in at most ``width`` columns; None where it does not fit."""
    found = [_Column(heading, [row[number] for row in rows]) for number, heading in enumerate(columns)]
    natural, narrow = [column.natural for column in found], [column.narrow for column in found]
    worded, least = [column.worded for column in found], [column.least for column in found]
    padding, widths = 1, _shrunk(natural, width - 3 * len(found) - 2, narrow)
    if not widths:
        padding, widths = 0, _shrunk(natural, width - len(found) - 1, narrow, worded, least)
    if not widths:
        return None
    table = Table(
        title=title and escape(title),
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, padding),
    )
    for column, own in zip(found, widths, strict=True):
        justify: Literal["right", "left"] = "right" if column.numeric else "left"
        table.add_column(escape(column.heading), justify=justify, width=own, overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    return table


def _shrunk(widths: Sequence[int], room: int, *floors: Sequence[int]) -> list[int]:
    """Widths that take at most ``room`` in all, the widest giving way first: to the first floors, then to the next.

    Empty where there are none.
    """
    found = list(widths)
    for floor in floors:
        while sum(found) > room:
            spare = [number for number, width in enumerate(found) if width > floor[number]]
            if not spare:
                break
            found[max(spare, key=lambda number: found[number])] -= 1
    return found if sum(found) <= room else []


def records(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[Text]:
    """A table as lines ``heading: cell``, row by row; cells that say nothing are left out.

    Where heading and cell together are wider than ``width``, the cell stands on the next line.
    """
    found = []
    for row in rows:
        first, *others = zip(columns, row, strict=True)
        found.append(Text.assemble("\n", (f"{first[0]}: ", "bold"), (first[1], "bold")))
        for heading, cell in others:
            if cell not in {"", "-"}:
                line = Text(f"  {heading}: {cell}")
                found += [line] if line.cell_len <= width else [Text(f"  {heading}:"), Text(f"    {cell}")]
    return found


@functools.cache
def _console() -> Console:
    """What Rich asks for where it measures; its own width does not matter."""
    return Console(width=80)


def wrapped(text: Text, width: int) -> Iterator[Text]:
    """``text`` in lines of at most ``width`` columns; what follows the first of a line is indented a little more."""
    for line in text.split("\n", allow_blank=True):
        if line.cell_len <= width:
            yield line
            continue
        indent = len(line.plain) - len(line.plain.lstrip(" "))
        parts = line[indent:].wrap(_console(), max(width - indent - HANGING, 10))
        for number, part in enumerate(parts):
            part.rstrip()
            yield Text(" " * (indent + (HANGING if number else 0))) + part
