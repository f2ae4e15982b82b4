"""Progress bars on stderr, and none when nobody looks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from p4reduce.cli.output import Output
from p4reduce.native.objects import watched

Report = Callable[[str, int, int], None]
"""``report(label, done, total)``; may be called from any thread."""


@contextmanager
def progress_bar(output: Output) -> Iterator[Callable[[str], Report]]:
    """Gives a function that opens a bar for a title and returns its ``Report``."""
    columns = (
        TextColumn("{task.fields[title]}", style="bold", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=output.notes, disable=not output.notes.is_terminal, transient=True) as progress:

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
