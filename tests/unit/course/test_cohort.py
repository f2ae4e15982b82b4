"""Grading a class: rosters, platform layouts, several submissions, feedback files, and a log of changes."""

import json
from dataclasses import replace

import pytest

from p4reduce_course.catalogue import find
from p4reduce_course.frame import cohort
from p4reduce_course.frame.cohort import NOTHING, Terms, feedback, grade_all, logged, read_roster, write_feedback
from p4reduce_course.frame.grading import answers_folder
from p4reduce_course.frame.report import Check, Finding, GradeReport, LabError

FILE = "slot.p4"


@pytest.fixture(autouse=True)
def points_as_written(monkeypatch):
    """Stand-in for the graders: a file states its points."""

    def grade(path, *, lab, student, seed, only, follow):
        text = (answers_folder(find(lab), path) / FILE).read_text()
        wrong = Finding(f"of {student}", look="p4reduce trace look/a.txt", files=(("a.txt", "1 00\n"),))
        whole = int(text) == 100
        check = Check("sums", "all", whole, None if whole else wrong, 100)
        first = Check("sums", "some", True, None, int(text) if not whole else 0)
        return GradeReport("03-a-slot", str(path), (first, check), student, handed_in=text)

    monkeypatch.setattr(cohort, "grade", grade)


def hand_in(folder, points):
    folder.mkdir(parents=True)
    (folder / FILE).write_text(str(points))


def graded(folder, **terms):
    found = grade_all(folder, Terms("03", b"", **terms), jobs=1, told=lambda *_: None)
    return {one.student: one for one in found}


def points(found):
    return {name: one.report.points if one.report else one.problem for name, one in found.items()}


@pytest.fixture
def roster(tmp_path):
    path = tmp_path / "roster.csv"
    path.write_text(
        "\ufeffstudent,email,github,canvas\nana,Ana@uni.edu,ana-gh,amueller\nbob,bob@uni.edu,gh,bsmith\nGül Ay,,,\n"
    )
    return read_roster(path)


def test_folders_of_a_roster(tmp_path, roster):
    """Each student of the class has a row; a stranger is graded and reported."""
    hand_in(tmp_path / "in/ANA@uni.edu", 70)
    hand_in(tmp_path / "in/Gül Ay_77_assignsubmission_file_/deep/skeleton", 100)
    hand_in(tmp_path / "in/eve", 5)
    found = graded(tmp_path / "in", roster=roster)
    assert points(found) == {"ana": 70, "bob": NOTHING, "Gül Ay": 100, "eve": 5}
    assert found["eve"].report.notes == ("is not in the roster",)
    assert found["bob"].row()["points"] == 0


def test_files_as_canvas_has_them(tmp_path, roster):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/amueller_101_5001_slot-2.p4").write_text("60")
    (tmp_path / "in/bsmith_LATE_102_5002_slot.p4").write_text("80")
    (tmp_path / "in/evil_103_5003_slot.p4").symlink_to(tmp_path / "in/amueller_101_5001_slot-2.p4")
    found = graded(tmp_path / "in", roster=roster)
    assert {name: points(found)[name] for name in ("ana", "bob")} == {"ana": 60, "bob": 80}


def test_repositories_of_github_classroom(tmp_path, roster):
    """The longest matching name wins: ana-gh ends in gh, which is bob's."""
    hand_in(tmp_path / "in/lab-03-ana-gh", 10)
    hand_in(tmp_path / "in/lab-03-gh", 20)
    assert points(graded(tmp_path / "in", roster=roster)) == {"ana": 10, "bob": 20, "Gül Ay": NOTHING}


GRADESCOPE = """\
submission_11:
  :submitters:
  - :name: Ana M
    :email: ana@uni.edu
    :sid: '1'
  :created_at: 2026-11-02 10:00:00
submission_9:
  :submitters:
  - :name: Ana M
    :email: ana@uni.edu
    :sid: '1'
  :created_at: 2026-11-01 09:00:00
"""


@pytest.mark.parametrize(("several", "had"), [("last", 40), ("first", 90), ("best", 90)])
def test_several_submissions(several, had, tmp_path, roster):
    """From Gradescope's list, or in numbered folders: the report says which one counts."""
    hand_in(tmp_path / "in/submission_9", 90)
    hand_in(tmp_path / "in/submission_11", 40)
    (tmp_path / "in/submission_metadata.yml").write_text(GRADESCOPE)
    for number, worth in ((2, 90), (10, 40)):
        hand_in(tmp_path / f"in/bob/attempt {number}", worth)
    found = graded(tmp_path / "in", roster=roster, several=several)
    first = {"last": "2 of 2"}.get(several, "1 of 2")
    assert [(found[name].report.points, found[name].attempt) for name in ("ana", "bob")] == [(had, first)] * 2
    assert f"number {first} counts" in feedback(found["bob"])


def test_two_of_one_name_are_two(tmp_path):
    for number in (1, 2):
        hand_in(tmp_path / f"in/Eva Li_{number}_assignsubmission_file_", 10 * number)
    found = graded(tmp_path / "in")
    assert sorted(one.report.points for one in found.values()) == [10, 20]
    assert all("--roster" in one.report.notes[0] and one.report.student == "Eva Li" for one in found.values())


def test_feedback_for_each(tmp_path):
    hand_in(tmp_path / "in/ana", 70)
    hand_in(tmp_path / "in/bob", 100)
    (tmp_path / "in/cem").mkdir()
    write_feedback(tmp_path / "out", graded(tmp_path / "in").values())
    said = {path.parent.name: path.read_text() for path in (tmp_path / "out").glob("*/feedback.md")}
    assert set(said) == {"ana", "bob", "cem"}
    assert "| sums | 70 of 170 |" in said["ana"]
    assert "of ana" in said["ana"]
    assert (tmp_path / "out/ana/look/a.txt").read_text() == "1 00\n"
    assert "All of it is right" in said["bob"]
    assert said["cem"].startswith("# cem\n\n0 points: ")


def test_a_log_of_what_changed(tmp_path):
    """Only new and changed grades are logged, with the change in words."""
    hand_in(tmp_path / "in/ana", 70)
    hand_in(tmp_path / "in/bob", 30)
    log = tmp_path / "logs/grades.jsonl"
    assert logged(log, graded(tmp_path / "in").values(), "") == []
    assert logged(log, graded(tmp_path / "in").values(), "") == []
    (tmp_path / f"in/ana/{FILE}").write_text("100")
    said = logged(log, graded(tmp_path / "in", students=["ana"]).values(), "an appeal")
    assert said == ["ana: 70 -> 100 points, handed in again (sums 70 -> 100)"]
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(one["student"], one["points"], one["because"]) for one in entries] == [
        ("ana", 70, ""), ("bob", 30, ""), ("ana", 100, "an appeal")]  # fmt: skip
    other = [replace(one, report=replace(one.report, lab="02-x")) for one in graded(tmp_path / "in").values()]
    with pytest.raises(LabError, match="one log for each lab"):
        logged(log, other, "")
    log.write_text("[]\n")
    with pytest.raises(LabError, match="is no log of grades"):
        logged(log, [], "")


@pytest.mark.parametrize(
    ("text", "said"),
    [("name\nana\n", "no roster"), ("", "no roster"), ("student,x\nana,1\nbob,1\n", "line 3: '1' names ana already"),
     ("student\n../x\n", "a student is named")],
)  # fmt: skip
def test_wrong_rosters(text, said, tmp_path):
    (tmp_path / "roster.csv").write_text(text)
    with pytest.raises(LabError, match=said):
        read_roster(tmp_path / "roster.csv")


def test_a_student_who_is_nowhere(tmp_path, roster):
    hand_in(tmp_path / "in/ana", 1)
    with pytest.raises(LabError, match="--student dan"):
        graded(tmp_path / "in", students=["dan"])
