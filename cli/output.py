"""Where a command prints: results for machines on stdout, everything for people on stderr when both are wanted."""

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from p4reduce.cli.fitting import records, table_that_fits, wrapped


class Output:
    """With ``as_json`` stdout carries one JSON document and nothing else; tables and notes go to stderr.

    Tables and lines fit the terminal; where there is none, ``$COLUMNS`` or 80 columns.
    """

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

    def line(self, text: str | Text) -> None:
        """A line for people, as it is (no markup), wrapped between words; what follows is indented."""
        for part in wrapped(Text(text) if isinstance(text, str) else text, self.people.width):
            self.people.print(part, soft_wrap=True)

    def note(self, text: str) -> None:
        """A remark on stderr, as it is (no markup) and never wrapped: an error is one line."""
        self.notes.print(escape(text), soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None) -> None:
        """A table; columns whose cells are all numbers (or '-') are set flush right, and never broken.

        Where the terminal is narrow, headings wrap between words, then text; a table that does not fit even so is
        written row by row.
        """
        table = table_that_fits(columns, rows, self.people.width, title)
        if table is not None:
            self.people.print(table)
            return
        for text in ([Text(title, "bold")] if title else []) + records(columns, rows, self.people.width):
            self.line(text)
