"""``p4reduce example``: files to begin with."""

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Annotated, Final

import typer

from p4reduce.base.errors import BadInput
from p4reduce.base.failures import guarded
from p4reduce.base.output import Output

KINDS: Final = {
    "settings": ("cli/example_files/settings.yaml", "run, compare, sweep, demo, launch, confirm, plan show --config"),
    "topology": ("topologies/two-racks.yaml", "topo show, and as --topology all commands"),
    "tasks": ("cli/example_files/tasks.yaml", "tasks submit, topo capable --tasks"),
    "tasks-csv": ("cli/example_files/tasks.csv", "the same as CSV"),
    "jobs": ("cli/example_files/jobs.yaml", "tdm plan, tdm run"),
    "jobs-csv": ("cli/example_files/jobs.csv", "the same as CSV"),
    "hosts": ("control_plane/orchestrator/hosts/leaf-spine-8.yaml", "orchestrate --hosts"),
    "priorities": ("cli/example_files/priorities.yaml", "priorities compare"),
    "entries": ("cli/example_files/entries.yaml", "trace --program 64 --entries"),
}
"""What there is: where it lies in the package, and which commands read such a file."""
EXAMPLES: Final = (
    "p4reduce example",
    "p4reduce example tasks > tasks.yaml",
    "p4reduce example settings > my.yaml",
)
Kind = Annotated[str | None, typer.Argument(help=f"One of {', '.join(KINDS)}.", show_default=False)]


@guarded
def example(kind: Kind = None) -> None:
    """Print a file to begin with, or list them all.

    Every command that reads a file names the kind in its examples.
    """
    if kind is None:
        output = Output()
        output.table(("kind", "is read by"), [(name, readers) for name, (_, readers) in KINDS.items()])
        output.line("p4reduce example KIND > my.yaml")
        return
    print(content(kind), end="")


def content(kind: str) -> str:
    """The text of an example. ``BadInput`` for a kind that there is not."""
    if kind not in KINDS:
        raise BadInput(f"{kind}: there is no such example; choose of {', '.join(KINDS)}")
    path: Traversable = files("p4reduce").joinpath(KINDS[kind][0])
    return path.read_text("utf-8")
