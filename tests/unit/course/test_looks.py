"""Findings can be replayed, and graders agree with independent judges."""

import json
import mmap
import os
import py_compile
import random
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from p4reduce.cli.main import app
from p4reduce_course.catalogue import NAMES
from p4reduce_course.frame.grading import grade
from p4reduce_course.frame.report import Check, Finding, GradeReport, Wrong, write_looks
from p4reduce_course.sandbox.messages import Remote
from p4reduce_course.sandbox.process import StudentCode
from tests.support.effort import SOAK
from tests.support.labs import SOLUTIONS, Mutant, mutants, spoilt
from tests.support.labs.edits import WHOLE
from tests.support.labs.judged import JUDGES, MEMORY_BYTES, judged
from tests.support.labs.soak import by_hand, changed, prepared, soaked, styled, styles

GROUP = Mutant("a group that does not exist", "slot.p4", "std.mcast_grp = 1;", "std.mcast_grp = 2;", ())
NO_RESULT = Mutant("no RESULT", "loss.p4", "if (is_done == 1) {", "if (false) {", ())
REPLAYED = {
    ("03", GROUP): "group 2",
    ("05", NO_RESULT): "nothing left",
    ("06", next(one for one in mutants("06") if one.name == "no parent in table peer")): "refused",
}


def run(command: str, folder) -> str:
    """Run a command of p4reduce in a lab's folder, in this process."""
    words = shlex.split(command)
    assert words[0] == "p4reduce"
    done = CliRunner().invoke(app, words[1:])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(
    ("number", "mutant"),
    [pytest.param(*one, id=one[0], marks=pytest.mark.soak if one[0] == "05" else ()) for one in REPLAYED],
)
def test_what_a_finding_shows_can_be_replayed(number, mutant, tmp_path):
    folder = spoilt(number, mutant, tmp_path / "mine")
    report = grade(folder, only=[mutant.part] if mutant.part else [])
    assert write_looks(folder, report)
    failed = [check for check in report.checks if check.passed is False]
    assert failed
    assert all(check.finding.look for check in failed)
    text = run(failed[0].finding.look, folder)
    assert REPLAYED[number, mutant] in text
    frames = [dict(check.finding.files) for check in failed]
    if number != "06":  # small numbers, few frames
        listed = [text for files in frames for name, text in files.items() if name.endswith(".txt")]
        assert max(text.count("\n") for text in listed) <= 9


def test_a_worker_that_fails_can_be_run_for_the_ticks_that_show_it(tmp_path):
    mutant = next(one for one in mutants("05") if one.name == "never again")
    report = grade(spoilt("05", mutant, tmp_path / "mine"), only=["worker"])
    failed = next(check for check in report.checks if check.passed is False)
    folder, _, command = failed.finding.look.partition(" && ")
    assert folder == f"cd {tmp_path / 'mine/skeleton'}"
    program, flag, code = shlex.split(command)
    assert (program, flag) == ("python3", "-c")
    printed: dict[Path, list[tuple]] = {}
    for path in (tmp_path / "mine/skeleton/worker.py", SOLUTIONS / "05" / "worker.py"):
        source = path.read_text() + code.replace("from worker import Worker; ", "")
        lines = printed.setdefault(path, [])
        exec(source, {"print": lambda *words, lines=lines: lines.append(words)})  # noqa: S102  (our own programs)
    mine, right = printed.values()
    assert mine[:-1] == right[:-1]
    (at, sent), (_, wanted) = mine[-1], right[-1]
    assert at > 0
    assert sent == []
    assert wanted
    assert mine[0] == (0, list(range(len(mine[0][1]))))


def test_calls_of_the_grader_can_be_repeated_with_its_answers(tmp_path):
    home = tmp_path / "my labs"
    path = home / "skeleton" / "hook.py"
    path.parent.mkdir(parents=True)
    path.write_text("def step(network, given):\n    raise ValueError(len(network.wait(network.start(given))))\n")
    answers = iter([7, np.full(300, 1.5, np.float32)])
    network = Remote("network", rank=1)
    with StudentCode(path) as code, pytest.raises(Wrong) as raised:
        code.call("step", network, np.arange(3.0), services={"network": lambda *_: next(answers)})
    wrong = code.shown(raised.value, home, "calls")
    assert write_looks(home, GradeReport("lab", "folder", (Check("one", "first", False, wrong.finding),)))
    env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    ran = subprocess.run(["/bin/sh", "-c", wrong.finding.look], capture_output=True, text=True, env=env, check=True)
    shown = ["   network.start [0. 1. 2.]", "   network.wait 7", "step raised ValueError(300)"]
    assert ran.stdout.splitlines() == shown


def test_looks_are_not_written_through_what_a_student_left(tmp_path):
    finding = Finding("x", "", "look", (("a.txt", "frames\n"),))
    report = GradeReport("lab", "folder", (Check("one", "first", False, finding),))
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.txt").write_text("mine")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/look").symlink_to(other)
    assert not write_looks(tmp_path / "linked", report)
    (tmp_path / "hard/look").mkdir(parents=True)
    os.link(other / "a.txt", tmp_path / "hard/look/a.txt")
    assert write_looks(tmp_path / "hard", report)
    assert (tmp_path / "hard/look/a.txt").read_text() == "frames\n"
    (tmp_path / "soft/look").mkdir(parents=True)
    (tmp_path / "soft/look/a.txt").symlink_to(other / "a.txt")
    assert write_looks(tmp_path / "soft", report)
    assert (other / "a.txt").read_text() == "mine"
    assert json.dumps(report.data()["checks"][0]["finding"]["files"]) == '{"a.txt": "frames\\n"}'


QUICK = ("11", "14", "15")
"""labs whose solutions are graded within a second"""
STYLES = [
    pytest.param(number, style, id=f"{number}, {style.name}", marks=() if number == "02" else pytest.mark.soak)
    for number in NAMES
    for style in styles(number)
]


@pytest.mark.parametrize(("number", "style"), STYLES)
def test_a_right_solution_in_another_style_passes(number, style):
    assert styled(number, style) == ""


@pytest.mark.parametrize("number", NAMES)
def test_each_lab_has_twenty_right_solutions_in_other_styles(number):
    assert len(styles(number)) + len(by_hand(number)) >= 20


CHANGES = [
    pytest.param(number, name, id=f"{number}, {name}", marks=() if one == 0 and number in QUICK else pytest.mark.soak)
    for number in NAMES
    for one, name in enumerate(WHOLE.get(number, {}))
]


@pytest.mark.parametrize(("number", "name"), CHANGES)
def test_a_right_solution_written_as_changes_of_ours_passes(number, name):
    assert changed(number, name) == ""


@pytest.mark.parametrize("number", JUDGES if SOAK else ["02", "05"])
def test_judges_take_the_solution(number, tmp_path):
    assert judged(number, prepared(number, tmp_path / "mine"), 1) == ""


def test_a_judge_has_its_memory_beside_that_of_its_parent(tmp_path):
    folder = prepared("02", tmp_path / "mine")
    unreserved = 0x4000  # Linux's MAP_NORESERVE, which Python 3.11 does not name
    with mmap.mmap(-1, MEMORY_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | unreserved):
        assert judged("02", folder, 1) == ""


@pytest.mark.parametrize(
    ("number", "mutant"),
    [
        pytest.param(
            number, one, id=f"{number}, {one.name}", marks=() if place == 0 and number in QUICK else pytest.mark.soak
        )
        for number in JUDGES
        for place, one in enumerate(mutants(number))
    ],
)
def test_judges_refuse_every_mistake(number, mutant, tmp_path):
    given = prepared(number, tmp_path / "mine") / "given"
    folder = spoilt(number, mutant, tmp_path / "spoilt")
    given.rename(folder / "given")
    assert judged(number, folder, 1) not in ("", "?")


def test_a_judge_reads_the_source_also_where_bytecode_of_another_edit_lies_beside_it(tmp_path):
    folder = prepared("08", tmp_path / "mine")
    path = folder / "skeleton" / "predict.py"
    right = path.read_text()
    wrong = right.replace("24 + 62", "24 + 63")
    assert right != wrong
    for text in (right, wrong, right):  # of equal size and age, by which Python finds its bytecode
        path.write_text(text)
        os.utime(path, (1e9, 1e9))
        assert (judged("08", folder, 1) == "") == (text == right)
        py_compile.compile(str(path))


@pytest.mark.parametrize(("number", "edits"), [("02", 6)])
def test_random_edits_get_the_verdict_that_a_judge_gives(number, edits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tried, problems = soaked(number, edits, random.Random(number).randrange(1 << 20), float("inf"))
    assert (tried, problems) == (edits, [])
