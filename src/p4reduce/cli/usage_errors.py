"""Misused commands and flags: one line that says what is wrong and where the examples stand, exit code 2."""

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import typer
from rich.markup import escape
from typer import Typer
from typer.core import TyperGroup

from p4reduce.base.output import Output

# Help texts: a command's docstring as flowing text, and examples under it.


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


_MISUSED: Final = typer.BadParameter.__mro__[2]
"""``ClickException``, of which everything is that Typer says of a command line; a Typer may have its own Click."""


class OneLineGroup(TyperGroup):
    """The root of all commands. Typer would print usage, a hint and a box of lines; scripts and people want one."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """As Typer's own, but for what it prints of errors."""
        run = functools.partial(super().main, args, prog_name, complete_var, False, windows_expand_args, **extra)
        if not standalone_mode:
            return run()
        try:
            code = run()
        except typer.Abort:
            Output().note("interrupted")
            sys.exit(1)
        except Exception as error:
            if not isinstance(error, _MISUSED):
                raise
            _say_usage(error)
            sys.exit(getattr(error, "exit_code", 2))
        sys.exit(code if isinstance(code, int) else 0)


def _say_usage(error: Any) -> None:
    text = " ".join(str(error.format_message()).split()).removesuffix(".")
    if not text:
        return  # a group without a command has shown its help already
    context = getattr(error, "ctx", None)
    where = "p4reduce" if context is None else context.command_path
    see = " See" if text.endswith("?") else "; see"
    Output().note(f"error: {text[0].lower()}{text[1:]}{see} '{where} --help'")
