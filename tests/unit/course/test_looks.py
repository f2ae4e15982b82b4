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


def repeated(path, calls, service):
    """What a file prints that repeats calls of a student's file."""
    network = Remote("network")
    with StudentCode(path) as code:
        for call in calls:
            code.call("step", network, call, services={"network": service})
        wrong = code.shown(Wrong("it is wrong", ""), path.parent.parent, "calls")
    (_, text), *_ = wrong.finding.files
    env = {"PYTHONPATH": "."}
    ran = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, env=env, cwd=path.parent, check=True
    )
    return ran.stdout


def test_large_arrays_are_repeated_with_all_their_numbers(tmp_path):
    path = tmp_path / "lab" / "hook.py"
    path.parent.mkdir()
    path.write_text("def step(network, given):\n    return [given[::-1] + network.wait(3)]\n")
    random = np.random.default_rng(1)
    given, answer = (random.standard_normal((20, 30)).astype(np.float32) for _ in range(2))
    right = given[::-1] + answer
    said = repeated(path, [given], lambda *_: answer)
    assert f"step returned \n   0: 600 float32, sum {float(right.sum(dtype=float)):.9g}: {right.ravel()[:4]}..." in said
    many = [random.standard_normal(3000) for _ in range(20)]  # too long: by their first numbers, and no more
    said = repeated(path, many, lambda *_: 0.0)
    assert f"step returned \n   0: 3000 float64, sum {3000 * many[0][0]:.9g}: " in said


def test_another_question_than_in_the_grading_has_no_answer(tmp_path):
    path = tmp_path / "lab" / "hook.py"
    path.parent.mkdir()
    path.write_text("def step(network, given):\n    return [network.slot(name) for name in ('s1', 's2', 's3')]\n")
    assert "step returned [4, 4, 4]" in repeated(path, [0], lambda *_: 4)
    source = path.read_text()

    def answer(method, name):
        path.write_text(source.replace("'s2'", "'s9'"))  # the student repairs it, and repeats the calls
        return 4

    said = repeated(path, [0], answer)
    assert "step returned [4, None, None]" in said
    assert said.count("another question than in the grading: None") == 2


def test_after_the_end_of_a_process_the_command_is_that_of_the_finding_before(tmp_path):
    path = tmp_path / "lab" / "hook.py"
    path.parent.mkdir()
    path.write_text("def step(given):\n    import os\n    os._exit(given)\n")
    with StudentCode(path) as code:
        with pytest.raises(Wrong) as raised:
            code.call("step", 3)
        first = code.shown(raised.value, tmp_path, "first").finding
        code.begin()
        with pytest.raises(Wrong) as raised:
            code.call("step", 0)
        second = code.shown(raised.value, tmp_path, "second").finding
    assert first.look.endswith("look/first.py")
    assert (second.look, second.files) == (first.look, first.files)


def test_an_answer_to_a_question_is_shown_by_its_packet(tmp_path):
    folder = spoilt(
        "01", Mutant("", "answers.yaml", "packet_4_leaves_by: 0", "packet_4_leaves_by: 3", ()), tmp_path / "mine"
    )
    report = grade(folder, only=["questions"])
    (finding,) = [check.finding for check in report.checks if check.finding is not None]
    assert "packet_4_leaves_by: '3' is not right" in finding.said
    assert "outcome dropped" in run(finding.look, folder)


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
