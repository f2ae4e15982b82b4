"""Exit codes, and one line instead of a traceback for every error that a user can cause."""

import functools
import os
import sys
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

import typer

from p4reduce.base.output import Output
from p4switch.base.errors import ReportedError

EXIT_FAILED: Final = 1
"""The run failed: the network gave up, a prediction was missed, something saturated."""
EXIT_BAD_INPUT: Final = 2
EXIT_INTERRUPTED: Final = 130

P = ParamSpec("P")
R = TypeVar("R")


def guarded(command: Callable[P, R]) -> Callable[P, R]:
    """Decorate a command: errors become one line on stderr and an exit code.

    The codes are 2 for input that cannot be used, 1 for runs that fail, and 130 at Ctrl-C, without a message. Any other
    error is a bug of p4reduce and keeps its traceback.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt:
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # otherwise Python complains again at exit
            raise typer.Exit(EXIT_FAILED) from None
        except Exception as error:
            code = exit_code(error)
            if code is None:
                raise
            _say(f"error: {_text(error)}")
            raise typer.Exit(code) from None

    return run


def exit_code(error: Exception) -> int | None:
    """Return the exit code for an error that a user can cause; None for a bug."""
    if isinstance(error, ReportedError):
        return error.exit_code
    return EXIT_FAILED if isinstance(error, OSError | MemoryError) else None


def _text(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _say(text: str) -> None:
    Output().note(text)
