"""Entry points of the product: the only module that depends on them; all else uses command line and files."""

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
"""Folders with other P4 programs."""


def command(words: Sequence[str]) -> Any:
    """Run ``p4reduce words…`` in this process; raises ``SystemExit`` with its exit code, or returns."""
    sys.argv = ["p4reduce", *words]
    sys.modules["__main__"].__package__ = None  # otherwise messages would name this module
    return _entry()()


def study(name: str, words: Sequence[str]) -> None:
    """Run a study's program with its flags."""
    path = ROOT / "studies/__main__.py"
    sys.argv = [str(path), name, *words]
    run_path(str(path), run_name="__main__")


def make_p4(root: Path) -> None:
    """Run ``make p4`` for another root folder."""
    made = importlib.import_module(MAKE_P4)
    made.build(made.find_compiler(None, root), root)


def commands(*words: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every command below some words, with its help."""
    shown = help_of(words)
    yield words, shown
    for line in shown.splitlines():
        if name := re.match(r"│ ([a-z][\w-]*) ", line):
            yield from commands(*words, name[1])


def help_of(words: Sequence[str]) -> str:
    """Return the output of ``p4reduce words… --help``."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        command([*words, "--help"])
    return shown.getvalue()


def _entry() -> Callable[[], Any]:
    """Return the function behind ``p4reduce``, according to pyproject.toml."""
    module, _, function = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"][
        "p4reduce"
    ].partition(":")
    found: Callable[[], Any] = getattr(importlib.import_module(module), function)
    return found
