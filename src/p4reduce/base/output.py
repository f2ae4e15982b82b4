"""Output of commands: results for machines on stdout; texts for people on stderr if both are wanted."""

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

# Progress of a command, for a user who waits.


Progress = Callable[[str, int, int], None]
"""(current activity, amount done, total amount)"""


# Tables and lines that fit a number of columns.


LEAST_WORD: Final = 14
"""columns: a longer word in a text column is broken before the table is given up"""
HANGING: Final = 2
"""columns by which continuation lines are indented"""


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
        """Return the width of the column with its heading wrapped, but its cells whole."""
        return max(map(cell_len, (*self.heading.split(" "), *self.cells)))

    @property
    def worded(self) -> int:
        """Return the width of the column with text wrapped between words."""
        if self.numeric:
            return self.narrow
        longest = max((cell_len(word) for cell in self.cells for word in cell.split()), default=0)
        return max(longest, *map(cell_len, self.heading.split(" ")))

    @property
    def least(self) -> int:
        """Return the least width of the column, with long words of text broken too."""
        heading = max(map(cell_len, self.heading.split(" ")))
        return self.narrow if self.numeric else max(heading, min(self.worded, LEAST_WORD))


def table_that_fits(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, title: str | None = None
) -> Table | None:
    """Return the table in at most ``width`` columns; None if it does not fit."""
    shaped = [_Column(heading, [row[number] for row in rows]) for number, heading in enumerate(columns)]
    natural, narrow = [column.natural for column in shaped], [column.narrow for column in shaped]
    worded, least = [column.worded for column in shaped], [column.least for column in shaped]
    padding, widths = 1, _shrunk(natural, width - 3 * len(shaped) - 2, narrow)
    if not widths:
        padding, widths = 0, _shrunk(natural, width - len(shaped) - 1, narrow, worded, least)
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
    for column, own in zip(shaped, widths, strict=True):
        justify: Literal["right", "left"] = "right" if column.numeric else "left"
        table.add_column(escape(column.heading), justify=justify, width=own, overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    return table


def _shrunk(widths: Sequence[int], room: int, *floors: Sequence[int]) -> list[int]:
    """Return widths with a sum of at most ``room``; the widest shrink first, to the first floors, then to the next.

    Empty if that is impossible.
    """
    shrunk = list(widths)
    for floor in floors:
        while sum(shrunk) > room:
            spare = [number for number, width in enumerate(shrunk) if width > floor[number]]
            if not spare:
                break
            shrunk[max(spare, key=lambda number: shrunk[number])] -= 1
    return shrunk if sum(shrunk) <= room else []


def records(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[Text]:
    """Return a table as lines ``heading: cell``, row by row; empty cells are left out.

    If heading and cell together are wider than ``width``, the cell is on the next line.
    """
    blocks = []
    for row in rows:
        first, *others = zip(columns, row, strict=True)
        blocks.append(Text.assemble("\n", (f"{first[0]}: ", "bold"), (first[1], "bold")))
        for heading, cell in others:
            if cell not in {"", "-"}:
                line = Text(f"  {heading}: {cell}")
                blocks += [line] if line.cell_len <= width else [Text(f"  {heading}:"), Text(f"    {cell}")]
    return blocks


@functools.cache
def _console() -> Console:
    """Return a console for Rich's measurements; its width does not matter."""
    return Console(width=80)


def wrapped(text: Text, width: int) -> Iterator[Text]:
    """Yield ``text`` in lines of at most ``width`` columns; continuation lines are indented a little more."""
    for line in text.split("\n", allow_blank=True):
        if line.cell_len <= width:
            yield line
            continue
        indent = len(line.plain) - len(line.plain.lstrip(" "))
        parts = line[indent:].wrap(_console(), max(width - indent - HANGING, 10))
        for number, part in enumerate(parts):
            part.rstrip()
            yield Text(" " * (indent + (HANGING if number else 0))) + part


class Output:
    """The output of a command. With ``as_json``, stdout gets one JSON document only, stderr tables and notes.

    Tables and lines fit the terminal; without one, ``$COLUMNS`` or 80 columns.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.notes = Console(stderr=True, highlight=False)
        """Console for progress, notes and errors."""
        self.people = self.notes if as_json else Console(highlight=False)
        """Console for tables."""

    def data(self, value: Any) -> None:
        """Print the command's result as JSON to stdout; do nothing without ``--json``."""
        if self.as_json:
            print(json.dumps(value, indent=1, sort_keys=True), flush=True)

    def line(self, text: str | Text) -> None:
        """Print a line for people, literally (no markup), wrapped between words with continuation lines indented."""
        for part in wrapped(Text(text) if isinstance(text, str) else text, self.people.width):
            self.people.print(part, soft_wrap=True)

    def note(self, text: str) -> None:
        """Print a remark to stderr, literally (no markup) and never wrapped: an error is one line."""
        self.notes.print(escape(text), soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None) -> None:
        """Print a table; columns whose cells are all numbers (or '-') are aligned right, and never broken.

        On a narrow terminal, headings wrap between words, then text; a table that still does not fit is written row by
        row.
        """
        table = table_that_fits(columns, rows, self.people.width, title)
        if table is not None:
            self.people.print(table)
            return
        for text in ([Text(title, "bold")] if title else []) + records(columns, rows, self.people.width):
            self.line(text)


# Progress bars on stderr; none if stderr is not a terminal.


Report = Callable[[str, int, int], None]
"""``report(label, done, total)``; may be called from any thread."""


@contextmanager
def progress_bar(output: Output) -> Iterator[Callable[[str], Report]]:
    """Yield a function that opens a bar for a title and returns its ``Report``."""
    # Imported here: every command imports this module, even if it only prints a help text.
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415
    from rich.progress import Progress as Bars  # noqa: PLC0415

    from p4switch.native.objects import watched  # noqa: PLC0415

    columns = (
        TextColumn("{task.fields[title]}", style="bold", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=output.notes, disable=not output.notes.is_terminal, transient=True) as progress:

        def open_bar(title: str) -> Report:
            task = progress.add_task("", total=None, title=title)

            def report(label: str, done: int, total: int) -> None:
                progress.update(task, description=label, completed=done, total=total)

            return report

        @contextmanager
        def compiling() -> Iterator[Callable[[int, int], None]]:
            task = progress.add_task("", total=None, title="compiling machine code, once")
            yield lambda done, total: progress.update(task, completed=done, total=total or None, refresh=True)
            progress.remove_task(task)

        with watched(compiling) if output.notes.is_terminal else nullcontext():
            yield open_bar


# Figures as text for people.


def time_text(ps: float, micro: str = "us") -> str:
    """Return a virtual time with a fitting unit: '1.234 ms'. ``ps`` in picoseconds; ``micro``: 'µs' in pages."""
    for unit, size in (("s", 1e12), ("ms", 1e9), (micro, 1e6), ("ns", 1e3)):
        if abs(ps) >= size:
            return f"{ps / size:.4g} {unit}"
    return f"{ps:.0f} ps"


def bytes_text(count: float) -> str:
    """Return a number of bytes, with decimal prefixes as for link rates: '12.3 MB'."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count:.0f} B"


def rate_text(bits_per_second: float) -> str:
    """Return a link rate: '10 Gb/s'."""
    for unit, size in (("Tb/s", 1e12), ("Gb/s", 1e9), ("Mb/s", 1e6), ("kb/s", 1e3)):
        if abs(bits_per_second) >= size:
            return f"{bits_per_second / size:.4g} {unit}"
    return f"{bits_per_second:.0f} b/s"


def share_text(value: float | None) -> str:
    """Return a share as per cent with two digits: '97.22 %'; '-' for None."""
    return "-" if value is None else f"{100 * value:.2f} %"


def small_text(value: float | None) -> str:
    """Return a small number: '1.2e-09'; '-' for None."""
    return "-" if value is None else f"{value:.2g}"
