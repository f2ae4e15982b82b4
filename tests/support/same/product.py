"""Where the product begins: the one place that changes with it. All else is its command line and its files."""

import importlib
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from runpy import run_path
from typing import Any, Final

import click
import typer
from tests.support.paths import ROOT

STUDIES: Final = {name: f"scripts/{name}.py" for name in ("poster", "tdm", "priorities", "placement")}
"""The programs of the studies, below the root."""
MAKE_P4: Final = "p4reduce.cli.p4_build"
"""The module of ``make p4``; its ``build`` and ``find_compiler`` take the repository's root."""
P4_PROGRAM: Final = "p4src"
"""The folder of the P4 program; ``compiled/`` is below it."""
P4_FOLDERS: Final = ("tests", "labs", "bench")
"""Where other P4 programs are."""


def command(words: Sequence[str]) -> Any:
    """``p4reduce words…`` in this process; ends with its exit code as ``SystemExit``, or returns."""
    sys.argv = ["p4reduce", *words]
    return _entry()()


def study(name: str, words: Sequence[str]) -> None:
    """A study's program, with its flags."""
    path = ROOT / STUDIES[name]
    sys.argv = [str(path), *words]
    run_path(str(path), run_name="__main__")


def make_p4(root: Path) -> None:
    """``make p4`` in another folder than the repository."""
    made = importlib.import_module(MAKE_P4)
    made.build(made.find_compiler(None, root), root)


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with the words that call it, the first without any."""
    top = _built([])
    yield (), top
    for name in sorted(top.commands):
        yield from _below((name,), _built([name]).commands[name])


def _below(words: tuple[str, ...], found: click.Command) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, found
    for name, inner in sorted(getattr(found, "commands", {}).items()):
        yield from _below((*words, name), inner)


def _entry() -> Callable[[], Any]:
    """What ``p4reduce`` calls, as the project's description says."""
    module, _, function = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"][
        "p4reduce"
    ].partition(":")
    found: Callable[[], Any] = getattr(importlib.import_module(module), function)
    return found


def _built(words: Sequence[str]) -> Any:
    """The command as it is built for these words, without running it."""
    built = []
    call = typer.Typer.__call__
    typer.Typer.__call__ = lambda self: built.append(self)  # type: ignore[method-assign]
    try:
        command(words)
    finally:
        typer.Typer.__call__ = call  # type: ignore[method-assign]
    return typer.main.get_command(built[0])
