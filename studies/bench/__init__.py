"""Benchmarks, each ``python -m studies.bench.NAME`` and a make target; what they share: a report, a clock."""

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

# Where benchmarks print: a table for people, or one JSON document; progress on stderr if somebody looks.


# How long a function takes on one core.


Result = TypeVar("Result")


def timed(run: Callable[[], Result]) -> tuple[float, Result]:
    """Seconds, and what ``run`` returned.

    The lesser of wall-clock and processor time: the first contains what other processes took, the second some
    microseconds of asking the kernel, so each is too large at times and neither too small.
    """
    busy, begin = time.thread_time(), time.perf_counter()
    result = run()
    wall = time.perf_counter() - begin
    return min(wall, time.thread_time() - busy), result


Step = Callable[[str], None]
"""Called with what is measured next."""


class Report:
    """Collects results by name; ``as_json`` prints them together at the end, else each is a table at once."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._notes = Console(stderr=True, highlight=False)
        self._people = Console(highlight=False)
        self.results: dict[str, Any] = {"machine": machine()}

    def rows(self, name: str, title: str, columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> None:
        """A result of several rows; ``columns``: heading by key."""
        self.results[name] = list(rows)
        if self._as_json:
            return
        table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
        for key, heading in columns.items():
            numbers = all(isinstance(row.get(key), int | float | None) for row in rows)
            table.add_column(escape(heading), justify="right" if numbers else "left", no_wrap=True)
        for row in rows:
            table.add_row(*(_cell(row.get(key)) for key in columns))
        wide = max(self._people.width, 150)
        Console(file=self._people.file, width=wide, highlight=False).print(table)

    def skipped(self, name: str, reason: str) -> None:
        """A result that this machine cannot give."""
        self.results[name] = {"skipped": reason}
        if not self._as_json:
            self._people.print(escape(f"{name}: skipped: {reason}"), soft_wrap=True)

    def finish(self) -> None:
        """Prints the JSON document, where that was asked for."""
        if self._as_json:
            sys.stdout.write(json.dumps(self.results, indent=1) + "\n")

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Step]:
        """A bar of ``total`` steps."""
        columns = (TextColumn(escape(title)), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=self._notes, disable=not self._notes.is_terminal, transient=True) as progress:
            task = progress.add_task("", total=total)

            def step(what: str) -> None:
                progress.update(task, description=escape(what), advance=1)

            yield step


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu = models[0] if models else cpu
    load = os.getloadavg()[0]
    return {"cpu": cpu, "cpus": os.cpu_count(), "python": platform.python_version(), "load_at_start": load}


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        digits = 3 if abs(value) < 2 else 2 if abs(value) < 100 else 0  # ratios near 1 are told apart
        return f"{value:,.{digits}f}"
    return f"{value:,}" if isinstance(value, int) else escape(str(value))
