"""Parts, points, seeds, digests and formats of the graders' frame."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from xml.etree import ElementTree as Xml

import pytest

from p4reduce_course import catalogue
from p4reduce_course.catalogue import NAMES, find
from p4reduce_course.frame.cohort import Terms, grade_all
from p4reduce_course.frame.grading import copy_lab, grade, new_lab
from p4reduce_course.frame.lab import LabStep, hidden, personal, run_steps
from p4reduce_course.frame.likeness import digest, plain
from p4reduce_course.frame.report import (
    Check,
    Finding,
    GradeReport,
    LabError,
    as_csv,
    checks_csv,
    gradescope,
    junit,
    shared_out,
)
from tests.support.effort import SOAK
from tests.support.labs import SOLUTIONS, solved
from tests.support.labs.classroom import right
from tests.support.labs.likeness import counted

REPORT = GradeReport(
    "a lab",
    "folder",
    (
        Check("one", "first", True, None, 3),
        Check("one", "second", False, Finding("wrong \x00", "line 1", "look here"), 7),
        Check("two", "third", None, None, 5),
    ),
    "ana",
)


def test_points():
    assert (REPORT.points, REPORT.most, REPORT.passed) == (3, 15, False)
    assert REPORT.part("one") == (3, 10)
    shared = shared_out(10, [Check("x", str(n), True) for n in range(4)])
    assert [check.points for check in shared] == [3, 3, 2, 2]
    assert shared_out(10, []) == []


def test_gradescope():
    """Fields and kinds follow Gradescope's specification."""
    found = json.loads(gradescope(REPORT))
    assert found["score"] == 3
    assert [test["number"] for test in found["tests"]] == ["1.1", "1.2", "2.1"]
    for test in found["tests"]:
        assert set(test) == {"name", "number", "score", "max_score", "status", "output", "visibility"}
        assert test["status"] in {"passed", "failed"}
        assert test["visibility"] in {"visible", "hidden", "after_due_date", "after_published"}
    assert "look here" in found["tests"][1]["output"]


def test_junit():
    root = Xml.fromstring(junit(REPORT))  # noqa: S314  (our own)
    assert root.attrib["tests"] == "3"
    assert [suite.attrib["name"] for suite in root] == ["one", "two"]
    assert len(root.findall(".//failure")) == len(root.findall(".//skipped")) == 1
    assert root.find("testsuite/properties/property").attrib == {"name": "points", "value": "3"}


def test_what_students_say_can_be_printed():
    assert Finding("\ud800 \x1b[2J\tü\n", "\x00").text == "\\ud800 \\x1b[2J\tü\n\nwhere: \\x00"


def test_csv_has_no_formulas():
    rows = list(csv.DictReader(io.StringIO(checks_csv(REPORT))))
    assert [row["state"] for row in rows] == ["passed", "failed", "not tried"]
    assert as_csv(["a"], [["=1+1"], ["-2"], [-2]]) == "a\n'=1+1\n'-2\n-2\n"


def test_draws():
    assert personal("lab", "ana") == personal("lab", "ana") != personal("lab", "bob")
    assert hidden("lab", "ana", b"one") != hidden("lab", "ana", b"two")
    draws = personal("lab", "ana")
    assert {draws.integer(f"n{number}", 3, 5) for number in range(50)} == {3, 4, 5}
    assert sorted(draws.shuffled("order", [1, 2, 3])) == [1, 2, 3]


def test_a_grade_is_the_same_every_time(tmp_path):
    copy_lab(find("01"), "ana", tmp_path / "mine")
    assert grade(tmp_path / "mine").data() == grade(tmp_path / "mine").data()


def test_only_some_parts(tmp_path):
    folder = solved("01", tmp_path / "mine")
    report = grade(folder, only=["questions", "root"])
    assert report.parts == ["root", "questions"]
    assert (report.points, report.most) == (30, 30)
    with pytest.raises(LabError, match="has the parts leaf1, leaf2"):
        grade(folder, only=["nothing"])


@pytest.mark.parametrize("student", ["", "../x", "a  b", " a", "a\n", "x" * 101, "{{"])
def test_names_that_are_none(student, tmp_path):
    with pytest.raises(LabError, match="a student is named"):
        copy_lab(find("01"), student, tmp_path / "mine")


def test_a_note_in_a_folder_names_no_program(tmp_path):
    """The program comes from the command line, never from the submission."""
    new_lab(tmp_path / "evil", "python")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/lab.yaml").write_text(f"lab: {tmp_path / 'evil'}\n")
    with pytest.raises(LabError, match="names no lab that there is"):
        grade(tmp_path / "mine")


def test_digests(tmp_path):
    def of(text, name="a.py"):
        (tmp_path / name).write_text(text)
        return digest(tmp_path, [name])

    one = of('def f(x):\n    """Says."""\n    return x * 2  # twice\n')
    assert one == of("def f(value):\n    return value * 4\n")
    assert one != of("def f(value):\n    return value + 4\n")
    assert of("x = 1w4; // comment\n", "a.p4") == of("x=0x7;/* other */", "a.p4")
    assert of("const bit<16> E = 16w0x8a9f;", "a.p4") == of("const bit<16> E = 16w0x8b01;", "a.p4")
    assert of("const bit<16> E = 0X8A9F;", "a.p4") == of("const bit<16> E = 35487;", "a.p4")
    assert of("x = slot0;", "a.p4") == of("x = slot1;", "a.p4")
    assert of("x = x0 + x1; y = x0;", "a.p4") != of("x = x0 + x1; y = x0 - x1;", "a.p4")
    assert of("a: 1 # x\n", "a.yaml") == of("a:   2\n", "a.yaml")
    assert of("def (") != of("def )")
    assert digest(tmp_path, ["missing"]) == ""


def test_a_copy_with_other_names_and_orders_is_the_same():
    p4 = (SOLUTIONS / "03/slot.p4").read_text()
    python = (SOLUTIONS / "06/controller.py").read_text()
    copies = {
        "renamed": ("bitmap;", "who;"),
        "operands": ("(bitmap & meta.bit_)", "(meta.bit_ & bitmap)"),
        "sum": ("hdr.sum.lane0 + sum", "sum + hdr.sum.lane0"),
        "declared": ("    bit<32> sum;", "    bit<32> sum;\n    bit<8> unused = 5;"),
        "itself": ("bitmap = bitmap | meta.bit_;", "bitmap = bitmap | meta.bit_;\nbitmap = bitmap;"),
    }
    for name, (old, new) in copies.items():
        assert old in p4
        copy = re.sub(r"\bbitmap\b", "who", p4) if name == "renamed" else p4.replace(old, new)
        assert plain("a.p4", copy) == plain("a.p4", p4), name
    assert plain("a.p4", p4.replace("bitmap | meta", "bitmap ^ meta")) != plain("a.p4", p4)
    for old, new in (
        ("found[switch] + 1", "1 + found[switch]"),
        ("    made, copies", "    idle = 3\n    made, copies"),
    ):
        assert old in python
        assert plain("a.py", python.replace(old, new)) == plain("a.py", python)


@pytest.mark.parametrize("number", ["03", "04", "15"] if not SOAK else [*NAMES][1:])
def test_copies_are_found_and_others_are_not(number):
    found, planted, taken, _ = counted(number, 1, 11)
    assert (found, taken) == (planted, 0)


def test_likeness_takes_time_that_grows_with_the_length():
    began = time.process_time()
    for name, text in (
        ("a.p4", "a=a;" * 16_000),
        ("a.p4", "(" * 50_000 + "a" + ")" * 50_000),
        ("a.p4", "a&b|" * 20_000 + ";" + "if(a){}" * 9000),
        ("a.p4", "".join(f"bit<8> x{n} = 0;" for n in range(4000))),
        ("a.py", ("x = " + "1 + " * 900 + "1\n") * 17),
    ):
        plain(name, text)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "inside", ["", "skeleton", "02-a-header-of-your-own/skeleton", "a/b/c", "__MACOSX/../Lab 2 (final)/skeleton"]
)
def test_answers_in_folders_that_a_platform_made(inside, tmp_path):
    """Moodle: 'Ana Müller_4711_assignsubmission_file_', with the archive's extra folders around the files."""
    lab, student = find("02"), "Ana Müller"
    copy_lab(lab, student, tmp_path / "copy")
    for number, name in enumerate((f"{student}_4711_assignsubmission_file_", "José O'Neil_12_assignsubmission_file_")):
        target = tmp_path / "class" / name / inside
        target.mkdir(parents=True)
        if number == 0:
            (target / "header.p4").write_text(right(lab, student, tmp_path / "copy")["header.p4"])
        else:
            shutil.copy(SOLUTIONS / "02/header.p4", target)
    one, other = grade_all(tmp_path / "class", Terms("02", b""), jobs=1, told=lambda *_: None)
    assert (one.report.points, one.report.student) == (100, student)
    assert (other.report.passed, other.report.student, bool(other.report.digest)) == (False, "José O'Neil", True)


def test_a_class(tmp_path):
    """Every student has other parameters; copies are named; ungradable submissions are reported."""
    new_lab(tmp_path / "lab", "python")
    lab = find(str(tmp_path / "lab"))
    for student in ("ana", "bob", "cem", "dan"):
        folder = tmp_path / "all" / student
        copy_lab(lab, student, folder)
        factor = lab.parameters(personal(lab.name, student))["factor"]
        text = f"def scale(value):\n    return value * {factor}\n"
        text = (
            "def scale(n):\n    total = 0\n    for _ in range(FACTOR):\n        total += n\n    return total\n".replace(
                "FACTOR", factor
            )
            if student == "cem"
            else text
        )
        (folder / "skeleton/scale.py").write_text(text)
    (tmp_path / "all/dan/skeleton/scale.py").write_text("import os\nos._exit(1)\n")
    (tmp_path / "all/eve").mkdir()
    told = []
    found = grade_all(tmp_path / "all", Terms(str(tmp_path / "lab"), b"secret"), jobs=2, told=lambda *a: told.append(a))
    rows = {one.student: one.row() for one in found}
    assert {name: row["points"] for name, row in rows.items()} == {"ana": 10, "bob": 10, "cem": 10, "dan": 0, "eve": 0}
    assert (rows["ana"]["same_as"], rows["bob"]["same_as"], rows["cem"]["same_as"]) == ("bob", "ana", "")
    assert "ended its process" in rows["dan"]["first_failure"]
    assert "holds neither scale.py" in rows["eve"]["first_failure"]
    assert sorted(done for _, done, _ in told) == [1, 2, 3, 4, 5]


def test_a_copy_for_another_student_is_told(tmp_path):
    """The copy's numbers differ, and so do the checks' messages."""
    new_lab(tmp_path / "lab", "python")
    copy_lab(find(str(tmp_path / "lab")), "bob", tmp_path / "mine")
    report = grade(tmp_path / "mine", lab=str(tmp_path / "lab"), student="ana")
    assert ["this is a copy for bob" in note and "--student ana" in note for note in report.notes] == [True]
    assert "this is a copy for bob" in json.loads(gradescope(report))["output"]
    assert grade(tmp_path / "mine", lab=str(tmp_path / "lab")).notes == ()
    (tmp_path / "mine/lab.yaml").write_text("student: [\n")  # a student's damage is harmless if both are named
    assert grade(tmp_path / "mine", lab=str(tmp_path / "lab"), student="ana").notes == ()


def test_new_labs_are_whole(tmp_path):
    folders = [tmp_path / kind for kind in ("python", "p4")]
    for folder in folders:
        new_lab(folder, folder.name)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", *folders]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 passed" in done.stdout
    with pytest.raises(LabError, match="is there already"):
        new_lab(folders[0], "python")


def test_the_published_solution_handed_in_by_another(tmp_path):
    (tmp_path / "x").mkdir()
    assert grade(SOLUTIONS / "01", only=["questions"]).notes == ()


def raising(task):
    """A grader with a bug: in a check, and then between two checks."""

    def fails() -> None:
        raise IndexError("list index out of range")

    parts = task.lab.parts
    yield from run_steps(task, [LabStep(parts[0].name, "one", fails), LabStep(parts[0].name, "two", lambda: None)])
    raise KeyError(parts[1].name)


def test_a_grader_that_fails_keeps_the_report(tmp_path, monkeypatch):
    lab = replace(catalogue.find("03"), grade=raising)
    monkeypatch.setattr(catalogue, "find", lambda _: lab)
    copy_lab(lab, "ana", tmp_path / "mine")
    report = grade(tmp_path / "mine")
    assert report.digest
    assert [check.passed for check in report.checks if check.subject == lab.parts[0].name] == [False, True]
    assert all(report.part(part.name)[0] == 0 for part in lab.parts[1:])
    assert "not your fault" in report.checks[0].finding.said
    assert [note for note in report.notes if "the grader failed" in note] == [
        "the grader failed at 'one': IndexError: list index out of range",
        f"the grader failed: KeyError: '{lab.parts[1].name}'",
    ]
