"""Where a command prints: results for machines on stdout, everything for people on stderr when both are wanted."""

import json
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table


class Output:
    """With ``as_json`` stdout carries one JSON document and nothing else; tables and notes go to stderr."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.notes = Console(stderr=True, highlight=False)
        """For progress, notes and errors."""
        self.people = self.notes if as_json else Console(highlight=False)
        """For tables."""

    def data(self, value: Any) -> None:
        """The command's result as JSON on stdout; nothing without ``--json``."""
        if self.as_json:
            print(json.dumps(value, indent=1, sort_keys=True), flush=True)

    def line(self, text: str) -> None:
        """A line for people, as it is (no markup)."""
        self.people.print(escape(text), soft_wrap=True)

    def note(self, text: str) -> None:
        """A remark on stderr, as it is (no markup)."""
        self.notes.print(escape(text), soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None) -> None:
        """A table; columns whose cells are all numbers (or '-') are set flush right.

        Where the terminal is narrow, headings wrap between words; cells never do.
        """
        cells = [[row[number] for row in rows] for number in range(len(columns))]
        natural = [max(map(len, (column, *own))) for column, own in zip(columns, cells, strict=True)]
        fits = not self.people.is_terminal or sum(natural) + 3 * len(columns) + 2 <= self.people.width
        least = [max(map(len, (*column.split(" "), *own))) for column, own in zip(columns, cells, strict=True)]
        widths = natural if fits else least
        table = Table(
            title=title,
            title_justify="left",
            title_style="bold",
            header_style="bold",
            box=box.SIMPLE_HEAD,
            padding=(0, 1) if fits else (0, 0),
        )
        for column, own, width in zip(columns, cells, widths, strict=True):
            right = bool(own) and all(_numeric(cell) for cell in own)
            table.add_column(escape(column), justify="right" if right else "left", width=width)
        for row in rows:
            table.add_row(*(escape(cell) for cell in row))
        wide = max(self.people.width, sum(widths) + 3 * len(columns) + 2)  # a narrower terminal wraps whole lines
        Console(file=self.people.file, width=wide, highlight=False).print(table)


def _numeric(cell: str) -> bool:
    return cell[:1] in "-+" or cell[:1].isdigit() or not cell
