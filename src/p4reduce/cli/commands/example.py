"""``p4reduce example``: files to begin with."""

from importlib.resources import files
from importlib.resources.abc import Traversable

from p4reduce.base.output import Output
from p4reduce.cli.flags.look import KINDS, Example


def example(flags: Example) -> None:
    """Print one, or list them all."""
    if flags.kind is None:
        output = Output()
        output.table(("kind", "is read by"), [(name, readers) for name, (_, readers) in KINDS.items()])
        output.line("p4reduce example KIND > my.yaml")
        return
    print(content(flags.kind), end="")


def content(kind: str) -> str:
    """The text of an example."""
    path: Traversable = files("p4reduce").joinpath(KINDS[kind][0])
    return path.read_text("utf-8")
