"""The list of commands knows each without importing it, and says the same as its own help."""

import importlib
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from p4reduce.cli import main
from p4reduce.cli.main import help_of

HEAVY = ("numpy", "numba", "scipy", "grpc", "finsy", "networkx", "matplotlib", "pyroute2", "pydantic", "yaml")


@pytest.mark.parametrize("name", main.COMMANDS)
def test_what_the_list_says_is_what_the_command_says(name):
    module = importlib.import_module(f"p4reduce.cli.commands.{name}")
    own = module.app.info.help if hasattr(module, "app") else help_of(getattr(module, name))
    assert main.COMMANDS[name] == own.split("\n\n")[0]


def test_the_list_is_the_same_with_and_without_the_commands():
    runner = CliRunner()
    shown = [runner.invoke(main.build(wanted), ["--help"]).stdout for wanted in (None, "")]
    assert shown[0] == shown[1]
    assert "orchestrate" in shown[0]


def test_help_imports_none_of_the_libraries():
    code = "import sys; sys.argv = ['p4reduce', '--help']\nfrom p4reduce.cli.entry import main\n"
    code += f"try: main()\nfinally: print('imported:', [name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("imported: []\n"), done.stdout + done.stderr


def test_objects_are_not_looked_through_at_the_end():
    code = "import atexit, gc, sys; sys.argv = ['p4reduce', '--version']\nfrom p4reduce.cli.entry import main\n"
    code += "atexit.register(lambda: print('spared:', gc.get_freeze_count() > 1000))\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("spared: True\n")


def test_a_misspelt_command_is_guessed():
    result = CliRunner().invoke(main.build("sweap"), ["sweap"])
    assert result.exit_code == 2
    assert "sweep" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "word"), [(["run", "-e", "5"], "run"), (["--version"], ""), (["-h", "plan"], "plan"), ([], "")]
)
def test_the_first_word(arguments, word):
    assert main.first_word(arguments) == word
