"""Each README done letter by letter in a fresh folder: its commands as they stand there, by a shell."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.labs import SOLUTIONS
from tests.support.paths import ROOT

from p4reduce.labs.catalogue import NAMES, find, home

NOT_RUN = ("pip install",)
"""it needs the network"""
GRADES = ("p4reduce lab grade .", "make grade")


OF_A_MAKE = ("MAKELEVEL", "MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES")
"""what a make hands to its children: inside of ``make test``, a student's make would print directories, too"""


def commands(text):
    """Indented or fenced lines that begin with a program of the course."""
    found, fenced = [], False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        words = line.strip().partition("  #")[0].strip()
        if (fenced or line.startswith("    ")) and words.startswith(("p4reduce ", "make ", "cd ", "pip ")):
            found.append(words)
    return found


@pytest.fixture
def program(tmp_path):
    """``p4reduce`` of these sources on the PATH."""
    script = tmp_path / "bin/p4reduce"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m p4reduce.cli.entry "$@"\n')
    script.chmod(0o755)
    path = f"{ROOT / 'src'}:{os.environ.get('PYTHONPATH', '')}"
    kept = {name: value for name, value in os.environ.items() if name not in OF_A_MAKE}
    return {**kept, "PATH": f"{script.parent}:{os.environ['PATH']}", "PYTHONPATH": path, "COLUMNS": "80"}


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("number", NAMES)
def test_a_readme_letter_by_letter(number, program, tmp_path):
    """A student who follows it and writes what the solution has ends with a pass; before that, with a plain no."""
    readme = (home(find(number)) / "README.md").read_text()
    listed = [command for command in commands(readme) if not command.startswith(NOT_RUN)]
    assert listed[0] == f"p4reduce lab copy {number} --student NAME"
    folder = tmp_path / "fresh"
    folder.mkdir()

    def run(command):
        shell = ["/bin/sh", "-c", command]
        return subprocess.run(shell, cwd=folder, env=program, capture_output=True, text=True, check=False)

    done = run(listed[0].replace("NAME", "example"))
    assert done.returncode == 0, done.stderr
    (copied,) = folder.iterdir()
    assert listed[1] == f"cd {copied.name}"
    folder = copied
    text = (folder / "README.md").read_text()  # with this student's numbers put in
    assert max(len(line) for line in text.splitlines() if not line.startswith(("|", "    "))) <= 80
    here = [command for command in commands(text) if not command.startswith(NOT_RUN)][2:]
    assert here[-1].startswith(GRADES), "the README ends with the grade"
    for place, command in enumerate(here):
        done = run(command)
        said = f"{command}: {done.stdout}{done.stderr}"
        assert "Traceback" not in said, said
        if place == 0:  # a look at the skeleton; then the student works
            assert "error:" not in done.stderr, said
            shutil.copytree(SOLUTIONS / number, folder / "skeleton", dirs_exist_ok=True)
        else:
            assert done.returncode == 0, said
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []
    assert not [path for path in Path(tmp_path / "fresh").iterdir() if path != copied]
