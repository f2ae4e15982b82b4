"""Remnants in the text of a student's P4 program: TODO comments, notes, unfinished parts."""

import re

import pytest

from p4reduce_course.catalogue import find, home
from p4reduce_course.frame.grading import copy_lab, grade
from p4reduce_course.frame.likeness import digest, without_comments
from tests.support.labs import SOLUTIONS, solved

P4 = {"02": "header.p4", "03": "slot.p4", "05": "loss.p4"}


@pytest.mark.parametrize("number", P4)
def test_a_todo_that_is_left_in_a_comment_costs_nothing(number, tmp_path):
    """Students write below the comment, and leave it and the first line unchanged."""
    folder = solved(number, tmp_path / "mine")
    path = folder / "skeleton" / P4[number]
    first = (home(find(number)) / "skeleton" / P4[number]).read_text().splitlines()[0]
    lines = path.read_text().splitlines()
    assert lines[0].startswith("//")
    path.write_text("\n".join([first, "// TODO: done", *lines[1:]]) + "\n")
    report = grade(folder)
    assert report.passed, report.data()


@pytest.mark.parametrize("number", P4)
def test_a_skeleton_with_other_comments_is_still_one(number, tmp_path):
    folder = tmp_path / "mine"
    copy_lab(find(number), "ana", folder)
    path = folder / "skeleton" / P4[number]
    path.write_text(re.sub(r"// TODO", "// later:", path.read_text()) + "\n// ana\n")
    said = [check.finding.said for check in grade(folder).checks if check.finding is not None]
    assert any("that is how the lab begins" in text for text in said), said


def test_a_part_can_be_graded_while_others_are_to_be_written(tmp_path):
    """The fields of lab 02 alone are graded."""
    folder = tmp_path / "mine"
    copy_lab(find("02"), "example", folder)
    path = folder / "skeleton/header.p4"
    fields = re.search(r"header hop_t \{(.*?)\}", (SOLUTIONS / "02/header.p4").read_text(), re.DOTALL)[1]
    path.write_text(
        re.sub(r"(header hop_t \{).*?\}", lambda at: f"{at[1]}{fields}}}", path.read_text(), flags=re.DOTALL)
    )
    assert "TODO" in path.read_text()
    report = grade(folder, only=["header"])
    assert report.passed, report.data()


def test_a_program_that_does_not_compile_names_the_todos_that_are_left(tmp_path):
    folder = tmp_path / "mine"
    copy_lab(find("03"), "example", folder)
    path = folder / "skeleton/slot.p4"
    path.write_text(
        path.read_text().replace("// TODO steps 3 to 6", "// TODO steps 3 to 6\n bitmaps.read(bitmap slot);")
    )
    (found,) = [check.finding for check in grade(folder).checks if check.finding is not None]
    assert "does not compile" in found.said
    assert re.search(r"1 TODO left, line \d+$", found.said)


def test_the_worker_of_lab_05_is_graded_while_the_program_is_to_be_written(tmp_path):
    folder = solved("05", tmp_path / "mine")
    path = folder / "skeleton/loss.p4"
    path.write_text("this is no P4\n")
    report = grade(folder)
    assert report.part("worker") == (25, 25), report.data()
    assert report.part("network")[0] == 0


def test_texts_are_no_comments_and_comments_are_found_in_linear_time():
    assert without_comments('@name("/*") a; // "b\n/* "c */ d; @name("*/") "\\"//" e /* f') == (
        '@name("/*") a;  \n  d; @name("*/") "\\"//" e  '
    )
    assert without_comments("/* " * 1_000_000) == " "


def test_a_file_that_no_lab_asks_for_is_compared_with_no_other(tmp_path):
    (tmp_path / "slot.p4").write_text("a" * (1 << 18))
    assert digest(tmp_path, ["slot.p4"])
    (tmp_path / "slot.p4").write_text("a" * ((1 << 18) + 1))
    assert digest(tmp_path, ["slot.p4"]) == ""
