"""Every command's help has valid examples; misused flags give a single line."""

import re
import shlex

import pytest
import typer
from typer.testing import CliRunner

from p4reduce.cli.main import app

APP = app
ROOT = typer.main.get_command(APP)


def commands(command, path=()):
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


ALL = dict(commands(ROOT))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_help_has_examples_that_parse(path):
    shown = CliRunner().invoke(APP, [*path, "--help"]).stdout
    assert "Examples:" in shown
    examples = (ALL[path].epilog or "").replace("\\[", "[").split("\n\n")[1:]
    assert examples
    for example in examples:
        program, *words = shlex.split(re.split(r" [|>] ", example)[0], comments=True)
        assert program == "p4reduce"
        command = ROOT
        while getattr(command, "commands", None):
            name, words = words[0], words[1:]
            assert name in command.commands, example
            command = command.commands[name]
        command.make_context("p4reduce", words).close()  # raises for an unknown flag


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run --nope", "error: no such option: --nope"),
        ("run --plan", "error: option '--plan' requires an argument; see 'p4reduce"),
        ("run x", "error: got unexpected extra argument"),
        ("run --seed x", "error: --seed: 'x' is no whole number; give one"),
        ("join --ticket x", "error: missing argument 'command'; see 'p4reduce join --help'"),
        ("launch", "error: COMMAND: name a script to start, or --ticket FILE for ranks that other programs start"),
        ("lab grade", "error: missing argument 'folder'; see 'p4reduce lab grade --help'"),
        ("plan shwo", "Did you mean 'show'? See 'p4reduce plan --help'"),
        ("net exec h1", "error: missing argument"),
    ],
)
def test_a_misused_command_is_one_line(line, message):
    done = CliRunner().invoke(APP, line.split())
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout


def test_a_group_without_a_command_shows_its_help():
    done = CliRunner().invoke(APP, ["topo"])
    assert done.exit_code == 2
    assert "Usage:" in done.output
    assert "error" not in done.output
