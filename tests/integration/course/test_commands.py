"""Labs from the command line: copy a lab, fail with its skeleton, pass with its solution, read the messages."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from p4reduce.cli.main import app
from tests.support.labs import SOLUTIONS


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def lab(tmp_path):
    done = call("lab", "copy", "01", tmp_path / "mine")
    assert done.exit_code == 0, done.output
    assert "README.md" in done.stdout
    return tmp_path / "mine"


def test_a_copy_is_all_that_a_student_needs(lab):
    assert {file.name for file in lab.iterdir()} == {
        "README.md",
        "Makefile",
        "skeleton",
        "packets",
        "network.yaml",
        "lab.yaml",
    }
    begin = call("lab", "grade", lab)
    assert begin.exit_code == 1
    assert "that is how the lab begins" in begin.stdout
    assert "of 100 points: 10 checks failed" in begin.stdout
    shutil.copytree(SOLUTIONS / "01", lab / "skeleton", dirs_exist_ok=True)
    done = call("lab", "grade", lab, "--only", "leaf1")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1].startswith("PASS")
    assert "\x1b" not in done.stdout


def test_a_lab_is_not_copied_over_another(lab):
    done = call("lab", "copy", "01", lab)
    assert done.exit_code == 2
    assert "is there already" in done.output


def test_the_report_as_json(lab):
    shutil.copytree(SOLUTIONS / "01", lab / "skeleton", dirs_exist_ok=True)
    report = json.loads(call("lab", "grade", lab, "--json", "--only", "questions").stdout)
    assert report["passed"]
    assert {check["passed"] for check in report["checks"]} == {True}
    assert report["points"] == report["max_points"] > 0


def test_the_command_that_the_grader_names_shows_the_mistake(lab):
    shutil.copytree(SOLUTIONS / "01", lab / "skeleton", dirs_exist_ok=True)
    file = lab / "skeleton" / "leaf1.yaml"
    file.write_text(file.read_text().replace("ingress_port: 2,", "ingress_port: 3,", 1))
    report = json.loads(call("lab", "grade", lab, "--json").stdout)
    look = next(check["finding"]["look"] for check in report["checks"] if check["finding"])
    command = shlex.split(look)
    assert command[0] == "p4reduce"
    done = call(*command[1:])
    assert done.exit_code == 0, done.output
    assert "packet 2: port 2" in done.stdout
    assert "packet 1:" not in done.stdout
    assert "table IncIngress.aggregate.peer (std.ingress_port=2, hdr.ipv4.src=10.0.0.2" in done.stdout
    assert "miss -> IncIngress.aggregate.stranger()" in done.stdout
    assert "refused 8, PEER" in done.stdout


def test_unknown_folders_and_labs(tmp_path):
    for arguments in (("grade", tmp_path / "nothing"), ("grade", tmp_path), ("copy", "77")):
        done = call("lab", *arguments)
        assert done.exit_code == 2
        assert done.output.startswith("error: ")


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize(
    ("folder", "code", "said"),
    [("skeleton", 1, "not yet"), pytest.param(SOLUTIONS / "01", 0, "PASS", marks=pytest.mark.soak)],
)
def test_make_grade(lab, folder, code, said):
    program = Path(sys.executable).with_name("p4reduce")
    if not program.exists():
        pytest.skip("p4reduce is not installed beside this Python")
    command = ["make", "grade", f"FOLDER={folder}", f"P4REDUCE={program}"]
    done = subprocess.run(command, cwd=lab, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode != 0) == bool(code), done.stderr
    assert said in done.stdout


def test_what_is_wrong_in_many_checks_is_told_once(tmp_path):
    call("lab", "copy", "09", tmp_path / "mine")
    lines = call("lab", "grade", tmp_path / "mine").stdout.splitlines()
    assert sum("that is how the lab begins" in line for line in lines) == 1
    assert sum(line.strip() == "the same as above, in 'the mean of two tensors'" for line in lines) == 10
    assert not any("step was right" in line for line in lines), "no step was right"
    found = json.loads(call("lab", "grade", tmp_path / "mine", "--json").stdout)
    assert all("how the lab begins" in check["finding"]["said"] for check in found["checks"])


def test_a_part_that_passes_is_not_praised_for_all(lab):
    shutil.copytree(SOLUTIONS / "01", lab / "skeleton", dirs_exist_ok=True)
    done = call("lab", "grade", lab, "--only", "leaf1")
    assert done.stdout.splitlines()[-1] == "PASS, 30 of 30 points: what was asked for holds"


def test_a_copy_says_a_command_that_can_be_copied(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    done = call("lab", "copy", "07", "--student", "ana")
    assert "    p4reduce lab grade 07-two-jobs-and-a-forger" in done.stdout.splitlines()
