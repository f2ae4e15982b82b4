"""Snippets printed in README and docs/ run as printed: commands, Python, files.

``DOCS=long`` (make docs-test) includes slow ones.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import MutableMapping

import click
import pytest
import typer
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap
from typer.testing import CliRunner

from p4reduce.cli.main import app
from p4reduce.control_plane.plans import PLANS
from p4reduce.control_plane.priorities import PRIORITY_POLICIES
from p4reduce.control_plane.scheduling import POLICIES
from tests.support.docs.snippets import read, words
from tests.support.launched import launch
from tests.support.paths import ROOT

PATHS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")])
PAGES = [read(path) for path in PATHS]
LONG = os.environ.get("DOCS") == "long"
STAND_INS = {
    "my.p4": "p4src/p4reduce.p4",
    "prog.json": "tests/data/ten_lines.json",
    "train.py": "scripts/all_reduce.py",
}
"""files that the reader is expected to have"""
LINKS = ("scripts", "tests", "topologies", "p4src", "labs")
"""folders of the repository that commands use"""
CELLS = "registers:\n  - {register: Count.seen, index: 3, value: 10}\n"


def name(page):
    return str(page.path.relative_to(ROOT))


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A function that makes a folder as a page's reader has it, and changes to it."""

    def prepare(page):
        home = tmp_path / "page"
        (home / "docs/images").mkdir(parents=True)
        for link in LINKS:
            (home / link).symlink_to(ROOT / link)
        for stand_in, path in STAND_INS.items():
            shutil.copy(ROOT / path, home / stand_in)
        for included in ROOT.glob("p4src/*.p4"):
            shutil.copy(included, home)
        (home / "entries.yaml").write_text(CELLS if "ten_lines" in page.path.read_text() else "tables: []\n")
        wrpcap(str(home / "capture.pcap"), [Ether() / IP(dst="10.0.0.1") / UDP()])
        for file, text in page.files.items():
            (home / file).parent.mkdir(parents=True, exist_ok=True)
            (home / file).write_text(text)
        monkeypatch.chdir(home)
        monkeypatch.setenv("HOME", str(tmp_path))
        return home

    return prepare


def run(command):
    program, *arguments = words(command)
    if program == "make":
        done = subprocess.run(["make", "-n", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return
    assert program == "p4reduce", f"{command}: say that it is not run, and why"
    if arguments[0] == "launch":
        done = launch(*arguments[1:])
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return
    if command_is_long(arguments):
        done = subprocess.run(
            [sys.executable, "-m", "p4reduce.cli.entry", *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, f"{command}: {result.output}{result.stderr}"


def command_is_long(arguments):
    """Return whether a command needs a separate process: it starts processes or threads that stay."""
    return arguments[0] in {"confirm", "lab"}


@pytest.mark.parametrize("page", [page for page in PAGES if page.commands], ids=name)
def test_commands(page, reader):
    reader(page)
    for command in page.commands:
        if not page.is_never_run(command) and (LONG or not page.is_long(command)):
            run(command)


@pytest.fixture
def registered():
    """Undo registrations by a page's code."""
    registries: tuple[MutableMapping, ...] = (PLANS, POLICIES, PRIORITY_POLICIES)
    before = [set(registry) for registry in registries]
    yield
    for registry, names in zip(registries, before, strict=True):
        for added in set(registry) - names:
            del registry[added]


@pytest.mark.parametrize("page", [page for page in PAGES if page.python], ids=name)
@pytest.mark.usefixtures("registered")
def test_python(page, reader, capsys):
    """Blocks of a page run in order. Printed values must exist: an empty list is none of the page's results."""
    home = reader(page)
    namespace = {}
    for number, code in enumerate(page.python):
        if "connect()" in code:
            script = home / f"script{number}.py"
            script.write_text(code)
            run(f"p4reduce launch -n 2 {script}")
        else:
            exec(compile(code, f"{name(page)}, block {number}", "exec"), namespace)  # noqa: S102  (our own pages)
    assert "[]" not in capsys.readouterr().out.splitlines()


def not_run_here(page):
    """Return a page's commands that do not run here, up to the part that belongs to a script or another program."""
    for command in page.commands:
        whole = words(command)
        if whole[0] == "p4reduce" and (page.is_long(command) or page.is_never_run(command)):
            ends = (number for number, word in enumerate(whole) if word == "--" or word.endswith(".py"))
            yield " ".join(whole[: next(ends, None)])


@pytest.mark.parametrize("page", [page for page in PAGES if page.mentions or page.long or page.not_run], ids=name)
def test_commands_that_are_mentioned(page):
    """Mentioned commands, flags, make targets and variables must exist."""
    root = typer.main.get_command(app)
    makefile = (ROOT / "Makefile").read_text()
    for mention in (*page.mentions, *not_run_here(page)):
        program, *arguments = words(mention.replace("…", ""))
        if program == "make":
            for argument in arguments:
                known = f"$({argument.split('=')[0]})" if "=" in argument else f"\n{argument}:"
                assert known in makefile, mention
                if "=" in argument:
                    break
            continue
        command = root
        while arguments and arguments[0][0] != "-" and isinstance(command, click.Group | typer.core.TyperGroup):
            command = command.commands[arguments.pop(0)]
        flags = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        assert {word.split("=")[0] for word in arguments if word.startswith("--")} <= {*flags, "--help"}, mention


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_a_page_says_of_its_commands_is_of_one_of_them(page):
    for said in (*page.long, *page.not_run):
        assert any(command.startswith(said) for command in page.commands), said
