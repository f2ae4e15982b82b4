"""Each README followed to the letter in a fresh folder, with its commands as printed.

Commands run in this process, which saves a second of imports each; in a soak they run in a shell, too, as for a
student.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from typer.testing import CliRunner

from p4reduce.cli.main import app
from p4reduce_course.catalogue import NAMES, find, home
from tests.support.effort import SOAK
from tests.support.labs import SOLUTIONS
from tests.support.paths import ROOT

NOT_RUN = ("pip install",)
"""commands that need the network"""
GRADES = ("p4reduce lab grade .", "make grade")


OF_A_MAKE = ("MAKELEVEL", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES")
"""variables that make passes to its children; inside ``make test``, a student's make would print directories"""


def commands(text):
    """Return indented or fenced lines that begin with a program of the course."""
    found, fenced = [], False
    for line in re.sub(r"\\\n *", "", text).splitlines():
        fenced ^= line.startswith("```")
        words = line.strip().partition("  #")[0].strip()
        if (fenced or line.startswith("    ")) and words.startswith(("p4reduce ", "make ", "cd ", "pip ")):
            found.append(words)
    return found


@dataclass(frozen=True)
class Done:
    """The outcome of a command."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def environment(tmp_path):
    """Return the environment of a student whose PATH has ``p4reduce`` from these sources."""
    script = tmp_path / "bin/p4reduce"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m p4reduce.cli.entry "$@"\n')
    script.chmod(0o755)
    path = f"{ROOT / 'src'}:{os.environ.get('PYTHONPATH', '')}"
    kept = {name: value for name, value in os.environ.items() if name not in OF_A_MAKE}
    return {**kept, "PATH": f"{script.parent}:{os.environ['PATH']}", "PYTHONPATH": path, "COLUMNS": "80"}


@pytest.fixture(params=["here", pytest.param("by a shell", marks=pytest.mark.soak)])
def run(request, environment, monkeypatch):
    """Run a command in a folder."""

    def shell(command, folder):
        words = ["/bin/sh", "-c", command]
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    def here(command, folder):
        if command.startswith("make "):  # the target's recipe
            asked = shell(f"make -n {command.removeprefix('make ')}", folder)
            command = next(line for line in asked.stdout.splitlines() if line.startswith("p4reduce "))
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.chdir(folder)
        done = CliRunner().invoke(app, shlex.split(command, comments=True)[1:])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return Done(done.exit_code, done.stdout, done.stderr)

    return here if request.param == "here" else shell


@pytest.mark.parametrize("number", NAMES)
def test_an_editor_of_80_columns_shows_the_files_of_a_lab_whole(number, tmp_path):
    """Files as handed out, with a student's numbers; tables and entries that a table aligns are longer."""
    done = CliRunner().invoke(app, ["lab", "copy", number, str(tmp_path / "mine"), "--student", "example"])
    assert done.exit_code == 0, done.output
    installed = re.search(r"^    pip install (.*)$", (tmp_path / "mine" / "README.md").read_text(), re.MULTILINE)
    assert installed is not None
    assert {entry.dist.name for entry in entry_points(group="p4reduce.commands", name="lab")} == {installed[1]}
    handed_out = [tmp_path / "mine" / "README.md", *(tmp_path / "mine" / "skeleton").iterdir()]
    lines = [line for path in handed_out for line in path.read_text().splitlines() if not line.startswith("|")]
    assert [line for line in lines if len(line) > 80] == []


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("number", NAMES if SOAK else [*NAMES][::4])
def test_a_readme_letter_by_letter(number, run, tmp_path):
    """A student who follows it and writes the solution passes at the end, and fails without a traceback before.

    The last grading uses inputs that students do not have.
    """
    readme = (home(find(number)) / "README.md").read_text()
    listed = [command for command in commands(readme) if not command.startswith(NOT_RUN)]
    assert listed[0] == f"p4reduce lab copy {number} --student NAME"
    folder = tmp_path / "fresh"
    folder.mkdir()
    done = run(listed[0].replace("NAME", "example"), folder)
    assert done.returncode == 0, done.stderr
    (copied,) = folder.iterdir()
    assert listed[1] == f"cd {copied.name}"
    folder = copied
    text = (folder / "README.md").read_text()  # with this student's numbers
    here = [command for command in commands(text) if not command.startswith(NOT_RUN)][2:]
    assert here[-1].startswith(GRADES), "the README ends with the grade"
    (tmp_path / "secret").write_text("of this test")
    last = f"p4reduce lab grade . --seed-file {tmp_path / 'secret'}"
    if not SOAK:  # partial gradings, which the last one repeats
        here = here[:1] + [command for command in here[1:] if not re.search(r"--only [a-z]|ONLY=", command)]
    for place, command in enumerate([*here[:-1], last]):
        done = run(command, folder)
        said = f"{command}: {done.stdout}{done.stderr}"
        assert "Traceback" not in said, said
        if place == 0:  # first with the skeleton; then the student writes the solution
            assert "error:" not in done.stderr, said
            assert done.returncode == 0 or "that is how the lab begins" in said, said
            shutil.copytree(SOLUTIONS / number, folder / "skeleton", dirs_exist_ok=True)
        else:
            assert done.returncode == 0, said
    assert "PASS, 100 of 100 points" in done.stdout
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []
    assert not [path for path in Path(tmp_path / "fresh").iterdir() if path != copied]
