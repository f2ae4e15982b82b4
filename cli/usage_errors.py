"""Misused commands and flags: one line that says what is wrong and where the examples stand, exit code 2."""

import functools
import sys
from collections.abc import Sequence
from typing import Any, Final

import typer
from typer.core import TyperGroup

from p4reduce.cli.output import Output

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
            _say(error)
            sys.exit(getattr(error, "exit_code", 2))
        sys.exit(code if isinstance(code, int) else 0)


def _say(error: Any) -> None:
    text = " ".join(str(error.format_message()).split()).removesuffix(".")
    if not text:
        return  # a group without a command has shown its help already
    context = getattr(error, "ctx", None)
    where = "p4reduce" if context is None else context.command_path
    see = " See" if text.endswith("?") else "; see"
    Output().note(f"error: {text[0].lower()}{text[1:]}{see} '{where} --help'")
