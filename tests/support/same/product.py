"""Where the product begins: the one place that changes with it. All else is its command line and its files."""

import contextlib
import importlib
import io
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from runpy import run_path
from typing import Any, Final

from tests.support.paths import ROOT

MAKE_P4: Final = "p4reduce.cli.p4_build"
"""The module of ``make p4``; its ``build`` and ``find_compiler`` take the repository's root."""
P4_PROGRAM: Final = "p4src"
"""The folder of the P4 program; ``compiled/`` is below it."""
P4_FOLDERS: Final = ("tests", "packages/course/src/p4reduce_course/labs", "studies/bench")
"""Where other P4 programs are."""


def command(words: Sequence[str]) -> Any:
    """``p4reduce words…`` in this process; ends with its exit code as ``SystemExit``, or returns."""
    sys.argv = ["p4reduce", *words]
    sys.modules["__main__"].__package__ = None  # else messages name this module and not the command
    return _entry()()


def study(name: str, words: Sequence[str]) -> None:
    """A study's program, with its flags."""
    path = ROOT / "studies/__main__.py"
    sys.argv = [str(path), name, *words]
    run_path(str(path), run_name="__main__")


def make_p4(root: Path) -> None:
    """``make p4`` in another folder than the repository."""
    made = importlib.import_module(MAKE_P4)
    made.build(made.find_compiler(None, root), root)


def commands(*words: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every command below some words, with its help."""
    shown = help_of(words)
    yield words, shown
    for line in shown.splitlines():
        if name := re.match(r"│ ([a-z][\w-]*) ", line):
            yield from commands(*words, name[1])


def help_of(words: Sequence[str]) -> str:
    """What ``p4reduce words… --help`` prints."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        command([*words, "--help"])
    return shown.getvalue()


def _entry() -> Callable[[], Any]:
    """What ``p4reduce`` calls, as the project's description says."""
    module, _, function = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"][
        "p4reduce"
    ].partition(":")
    found: Callable[[], Any] = getattr(importlib.import_module(module), function)
    return found
