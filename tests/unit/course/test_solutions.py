"""Every lab: its solution passes, its skeleton fails, and mistakes are explained."""

import json

import pytest

from p4reduce_course import catalogue
from p4reduce_course.catalogue import NAMES, find
from p4reduce_course.frame.grading import copy_lab, grade, published
from p4reduce_course.frame.likeness import digest
from tests.support.labs import SOLUTIONS, explained, mutants, solved, spoilt

MISTAKES = [
    pytest.param(number, mutant, id=f"{number}, {mutant.name}", marks=() if place == 0 else pytest.mark.soak)
    for number in NAMES
    for place, mutant in enumerate(mutants(number))
]


@pytest.mark.soak  # tests/integration/course/test_readmes.py ends with it
@pytest.mark.parametrize("number", NAMES)
def test_the_solution_passes_with_inputs_that_students_do_not_have(number, tmp_path):
    report = grade(solved(number, tmp_path / "mine"), seed=b"a secret of this test")
    assert report.passed, json.dumps(report.data(), indent=1)
    assert (report.points, report.most) == (100, 100)
    assert report.parts == [part.name for part in find(number).parts]


@pytest.mark.soak  # tests/integration/course/test_readmes.py begins with it
@pytest.mark.parametrize("number", NAMES)
def test_the_skeleton_does_not(number, tmp_path):
    copy_lab(find(number), "ana", tmp_path / "mine")
    report = grade(tmp_path / "mine")
    assert report.student == "ana"
    assert report.points <= 10
    said = [check.finding.said for check in report.checks if check.finding is not None]
    assert any("that is how the lab begins" in text for text in said), said


@pytest.mark.parametrize(("number", "mutant"), MISTAKES)
def test_a_mistake_is_explained(number, mutant, tmp_path):
    explained(number, mutant, tmp_path / "mine")


def swapped(folder):
    """Lab 01 with the bits of h1 and h2 swapped, h2's lowest, and the resulting answers."""
    path = folder / "skeleton/leaf1.yaml"
    text = path.read_text()
    one, two = "params: {bit_: 0b01, lowest: 1}", "params: {bit_: 0b10, lowest: 0}"
    assert one in text
    assert two in text
    path.write_text(text.replace(one, "@").replace(two, one).replace("@", two))
    sheet = folder / "skeleton/answers.yaml"
    answers = {line.partition(":")[0]: line.partition(": ")[2] for line in sheet.read_text().splitlines() if line}
    for key, answer in {"packet_3_leaves_by": "0", "packet_4_leaves_by": "0x3", "bitmap_before": "0b10"}.items():
        assert answers[key] != answer
    answers |= {"packet_3_leaves_by": "0", "packet_4_leaves_by": "0x3", "bitmap_before": "0b10"}
    answers |= {key: f"'{answers[key].upper()})'" for key in ("same_bit", "why_full", "four_slots")}
    sheet.write_text("".join(f"{key}: {answer}\n" for key, answer in answers.items() if not key.startswith("#")))


def sparse(folder):
    """Lab 06 with every second bit."""
    path = folder / "skeleton/controller.py"
    text = path.read_text()
    for old, new in (("bit_=1 << bit", "bit_=4 << 2 * bit"), ("(1 << len(children)) - 1", "sum(4 << 2 * b for b in")):
        assert text.count(old) == 1, old
        text = text.replace(old, new if "sum" not in new else f"{new} range(len(children)))")
    path.write_text(text)


@pytest.mark.parametrize(("number", "change"), [("01", swapped), ("06", sparse)])
def test_what_is_right_in_another_way_passes(number, change, tmp_path):
    folder = solved(number, tmp_path / "mine")
    change(folder)
    report = grade(folder)
    assert report.passed, json.dumps(report.data(), indent=1)


@pytest.mark.soak
@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("number", NAMES)
def test_the_same_submission_has_the_same_report_five_times(number, right, tmp_path):
    folder = solved(number, tmp_path / "mine") if right else spoilt(number, mutants(number)[-1], tmp_path / "mine")
    found = {json.dumps(grade(folder, seed=b"a secret").data()) for _ in range(5)}
    assert len(found) == 1, "\n".join(sorted(found))


@pytest.mark.parametrize("number", NAMES)
def test_nothing_of_the_solution_is_handed_out(number, tmp_path):
    copy_lab(find(number), "ana", tmp_path / "mine")
    assert not list(tmp_path.rglob("*solution*"))
    assert "{{" not in "".join(path.read_text() for path in tmp_path.rglob("*.*") if path.suffix != ".p4")


def test_digests_of_the_published_solutions():
    """Update after a change of a solution: python -m tests.support.labs.publish."""
    wanted = {
        lab.name: digest(SOLUTIONS / number, lab.files)
        for number, lab in ((number, find(number)) for number in NAMES)
        if not lab.alike
    }
    assert published() == wanted


def test_every_folder_of_a_lab_is_in_the_catalogue():
    folders = {path.parent.name for path in (catalogue.package() / "labs").glob("[0-9][0-9]-*/README.md")}
    assert folders == set(NAMES.values())
