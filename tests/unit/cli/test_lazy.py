"""A wrong command line or --help imports no library of numbers, graphs, packets or switches."""

import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from p4reduce.base.flags import SPECS, flags
from p4reduce.cli.main import PANELS, app
from tests.support.fresh import in_a_fresh_process
from tests.support.imports import BAD_VALUES, every_command, imported_by

HEAVY = ("finsy", "grpc", "llvmlite", "matplotlib", "networkx", "numba", "numpy", "pyroute2", "rich.progress", "scapy",
         "scipy", "uvicorn")  # fmt: skip
QUICKER = (*HEAVY, "pydantic", "yaml")
"""Modules that the list of commands does not import either."""


COMMANDS = tuple(every_command())


def test_the_list_of_commands_imports_least():
    assert in_a_fresh_process(imported_by, [["--version"], ["--help"]], QUICKER) == [(0, [])] * 2


def test_what_is_wrong_or_asks_for_help_imports_no_library():
    helps = [["--help"], *([*words, "--help"] for words in COMMANDS)]
    wrong = [["swep"], ["topo", "shwo"], *([*words, "--no-such-flag"] for words in COMMANDS)]
    wrong += [line.split() for line in BAD_VALUES]
    found = in_a_fresh_process(imported_by, [*helps, *wrong], HEAVY)
    expected = [(0, [])] * len(helps) + [(2, [])] * len(wrong)
    pairs = zip([*helps, *wrong], found, expected, strict=True)
    assert {" ".join(line): one for line, one, due in pairs if one != due} == {}


def test_every_command_stands_under_one_heading():
    shown = CliRunner().invoke(app, ["--help"]).stdout
    within, found = "", {}
    for line in shown.splitlines():
        if line.startswith("╭─ "):
            within = line.split()[1]
        elif line.startswith("│ ") and line[2].isalpha():
            found.setdefault(within, []).append(line.split()[1])
    assert found == {**{panel: list(names) for panel, names in PANELS.values()}, "Lab": ["lab"]}


def test_every_command_is_in_a_panel():
    assert {words[0] for words in COMMANDS} == {path.split()[0] for path in SPECS}
    assert len(COMMANDS) == len(SPECS)


@pytest.mark.parametrize("path", SPECS)
def test_flags_of_a_command_have_names_of_their_own(path):
    command = typer.main.get_command(app)
    for word in path.split():
        command = command.commands[word]
    names = [name for parameter in command.params for name in parameter.opts]
    assert len(set(names)) == len(names)
    model, spec = SPECS[path]
    assert all(one.flag.help.endswith(".") or "=" in one.flag.help for one in flags(model))
    assert spec.examples


def test_objects_are_not_looked_through_at_the_end():
    code = "import atexit, gc, sys; sys.argv = ['p4reduce', '--version']\nfrom p4reduce.cli.entry import main\n"
    code += "atexit.register(lambda: print('spared:', gc.get_freeze_count() > 1000))\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("spared: True\n")


def test_a_misspelt_command_is_guessed():
    result = CliRunner().invoke(app, ["sweap"])
    assert result.exit_code == 2
    assert "sweep" in result.stderr
    assert result.stderr.count("\n") == 1
