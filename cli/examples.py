"""Help texts: a command's docstring as flowing text, and examples under it."""

import inspect
from collections.abc import Callable

from rich.markup import escape
from typer import Typer


def epilog(*examples: str) -> str:
    """Text for typer's ``epilog``: one example a line (typer makes a line of each paragraph)."""
    return "\n\n".join(("Examples:", *(escape(example) for example in examples)))


def group_epilog(group: Typer) -> str:
    """The ``epilog`` of a group of commands: the first example of each of them."""
    own = [(command.epilog or "").split("\n\n") for command in group.registered_commands]
    return "\n\n".join(("Examples:", *(lines[1] for lines in own if len(lines) > 1)))


def help_of(command: Callable[..., None]) -> str:
    """Text for typer's ``help``: the docstring with each paragraph on one line, so that terminals wrap it."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(escape(" ".join(paragraph.split())) for paragraph in paragraphs)
