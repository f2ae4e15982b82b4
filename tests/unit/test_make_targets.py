"""Programs started by the Makefile's targets exist, and answer ``--help``, whatever PATH is."""

import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from studies.__main__ import load
from tests.support.paths import ROOT

RECIPES = (ROOT / "Makefile").read_text().replace("\\\n", " ").split("\nLINKS")[1]
MODULES = set(re.findall(r"\$\(BIN\)/python -m ([\w.]+)", RECIPES))
COMMANDS = {tuple(words.split()) for words in re.findall(r"\$\(BIN\)/p4reduce ((?:[a-z]+ )+)", RECIPES)}
OURS = ("p4reduce.", "studies", "tests.")

ASK = """import contextlib, io, json, runpy, sys
sys.path.insert(0, "")
wrong = {}
for name, more in json.load(sys.stdin):
    sys.argv, said, code = [name, *more, "--help"], io.StringIO(), None
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_module(name, run_name="__main__")
    except SystemExit as end:
        code = end.code
    except BaseException as error:
        code = repr(error)
    if code not in (0, None) or not said.getvalue().strip().lower().startswith("usage: "):
        wrong[" ".join([name, *more])] = [code, said.getvalue()[:200]]
print(json.dumps(wrong))
"""
"""Script that runs ``--help`` of all in one process, which shares the cost of imports."""


def test_modules_scripts_and_commands_are_there_and_say_what_they_are_for(tmp_path):
    ours = {module for module in MODULES if module.startswith(OURS)}
    assert len(ours) > 20
    assert {("demo",), ("confirm",), ("slurm", "demo")} <= COMMANDS
    for module in MODULES - ours:
        assert find_spec(module), module
    asked = [(module, []) for module in sorted(ours)]
    asked += [("p4reduce.cli.entry", words) for words in sorted(COMMANDS)]
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {}


def dry_run(*targets):
    """Return the lines that make would run, in a shell that finds only the system's programs."""
    here = Path(sys.executable).parent
    command = ["make", "-n", "--no-print-directory", f"PYTHON={sys.executable}", f"VENV={here.parent}", *targets]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env={"PATH": "/usr/bin:/bin"}, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.replace("\\\n", " ")


def test_every_part_of_the_benchmarks_has_a_target():
    named = re.findall(r"PARTS = ([a-z0-9,-]+)|studies bench --parts ([a-z0-9,-]+) --topology", RECIPES)
    parts = [part for words in named for part in "".join(words).split(",")]
    assert sorted(parts) == sorted(part.name for part in load("bench").parts)


@pytest.mark.skipif(shutil.which("make", path="/usr/bin:/bin") is None, reason="make is not where systems have it")
def test_each_target_starts_what_there_is():
    """Programs, files and folders in commands must exist; ``test`` is ``checks``, with its CPU time."""
    targets = re.findall(r"(?m)^([a-z0-9-]+):", (ROOT / "Makefile").read_text())
    assert len(targets) > 55
    text = dry_run(*sorted({*targets} - {"test"}))
    here = Path(sys.executable).parent
    programs = set(re.findall(rf"{re.escape(str(here))}/([\w.-]+)", text))
    assert {"python", "pytest", "p4reduce", "ruff", "mypy", "lint-imports"} <= programs
    brought = {"mkdocs"}  # installed by pip in the line before
    assert [name for name in sorted(programs - brought) if not (here / name).exists()] == []
    named = set(re.findall(r"(?<![\w./-])((?:tests|studies|docs|packages|scripts)/[\w./-]+)", text))
    assert "tests/integration/docs" in named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_nothing_that_tests_and_benchmarks_start_is_looked_for_as_python_on_path():
    folders = (
        "tests/support",
        "src/p4reduce",
        "control_plane",
        "topologies",
        "workers",
        "packages",
        "studies",
        "scripts",
    )
    command = re.compile(r"""[\[(]\s*["']python3?["']\s*,\s*["']-""")
    every = {folder: list((ROOT / folder).rglob("*.py")) for folder in folders}
    assert all(every.values()), every
    found = [
        str(path.relative_to(ROOT)) for paths in every.values() for path in paths if command.search(path.read_text())
    ]
    assert found == []


def test_targets_that_need_pytorch_install_it():
    """As in a fresh clone without PyTorch."""
    targets = re.findall(r"^([a-z0-9-]+): (.*?)(?:  ##.*)?\n((?:\t.*\n)+)", RECIPES, re.MULTILINE)
    need = {name: needs for name, needs, recipe in targets if re.search(r"torch_scripts|TORCH_TESTS", recipe)}
    assert {"torch-test", "torch-own", "soak-restarts", "soak-torch"} <= need.keys()
    assert set(need.values()) == {"$(TORCH)", "$(FRAMEWORKS)"}
    assert "\n$(FRAMEWORKS): $(TORCH)\n" in RECIPES
