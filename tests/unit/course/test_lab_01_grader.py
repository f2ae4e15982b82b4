"""Lab 01: the grader accepts the solution and rejects the skeleton and mistakes, each with a helpful message."""

import re
import shutil
from pathlib import Path

import pytest

from p4reduce.topologies.files import load
from p4reduce_course.catalogue import find, home
from p4reduce_course.frame.grading import copy_lab, grade
from p4reduce_course.frame.lab import EXAMPLE, personal
from p4reduce_course.frame.report import LabError
from p4reduce_course.lab01.bench import as_text, roles
from p4reduce_course.lab01.grade import MISTAKES as PLANTED
from p4reduce_course.lab01.grade import NAME, job_of, leaf2
from tests.support.labs import SOLUTIONS

LAB = home(find("01"))


@pytest.fixture
def answers(tmp_path):
    """The solution, to be modified."""
    for file in (SOLUTIONS / "01").glob("*.yaml"):
        shutil.copy(file, tmp_path)
    return tmp_path


def spoil(folder: Path, switch: str, old: str, new: str) -> None:
    file = folder / f"{switch}.yaml"
    text = file.read_text()
    assert old in text, f"{old!r} is not in {file.name}"
    file.write_text(text.replace(old, new, 1))


def failures(report):
    return [check for check in report.checks if check.passed is False]


@pytest.mark.soak  # also the end of tests/integration/course/test_readmes.py
def test_the_solution_passes():
    report = grade(SOLUTIONS / "01")
    assert failures(report) == []
    assert report.passed
    assert {check.subject for check in report.checks} == {"leaf1", "leaf2", "root", "network", "questions"}


def test_the_skeleton_fails_kindly(tmp_path):
    copy_lab(find("01"), EXAMPLE, tmp_path / "mine")
    report = grade(tmp_path / "mine")
    assert not report.passed
    found = [check for check in failures(report) if check.subject != "questions"]
    assert [check.subject for check in found] == ["leaf1", "leaf2", "root"]
    for check in (found[0], found[2]):
        assert "still say TODO (that is how the lab begins)" in check.finding.said
        assert "README.md" in check.finding.said
        assert re.search(rf"{check.subject}\.yaml, line \d+", check.finding.where)
    assert all(check.passed is None for check in report.checks if check.subject == "network")


ROOT_AS_INNER = """action: inner
    params:
      parent_port: 3
      parent_mac: 02:00:0a:80:00:09
      parent_ip: 10.128.0.9
      parent_udp: 9400
"""
LEAF_AS_ROOT = """action: root
    params: {generation: 1, base: 0, slots: 16, full: 0b11, group: 1, stats: 0}
"""
REPLICA_2 = re.compile(r"  - table: replica\n    match: \{egress_rid: 2\}\n.*\n.*\n")

MISTAKES = [
    # switch, old, new, table that is named, words of the message
    ("leaf1", "full: 0b11", "full: 0b01", "table job", ["leaf1 answered after h1", "full is 0b1", "h2 0b10"]),
    ("leaf1", "full: 0b11", "full: 0b111", "table job", ["waits for ever", "together 0b11", "full is 0b111"]),
    ("root", "full: 0b11", "full: 0b1", "table job", ["root answered after leaf1", "full must be all of the bits"]),
    ("leaf1", "bit_: 0b10", "bit_: 0b01", "table peer", ["h2 and h1 share the bit 0b1", "DUPLICATE"]),
    ("leaf2", "bit_: 0b01", "bit_: 0", "table peer", ["bit_ 0"]),
    ("leaf1", "ip: 10.0.0.2, udp", "ip: 10.0.0.1, udp", "table replica",
     ["copy for h2", "ip is 10.0.0.1, expected 10.0.0.2"]),
    ("root", "mac: 02:00:0a:80:00:02", "mac: 02:00:0a:80:00:03", "table replica",
     ["leaf2", "mac is 02:00:0a:80:00:03"]),
    ("leaf2", "parent_port: 3", "parent_port: 2", "table job",
     ["parent_port is 2, but root is behind port 3 of leaf2"]),
    ("leaf2", "parent_mac: 02:00:0a:80:00:03", "parent_mac: 02:00:0a:80:00:02", "table job",
     ["parent_mac is 02:00:0a:80:00:02"]),
    ("leaf2", "parent_udp: 9400", "parent_udp: 94", "table job", ["parent_udp is 94, expected 9400"]),
    ("leaf1", "hdr.ipv4.dst: 10.128.0.1", "hdr.ipv4.dst: 10.128.0.2", "table local_address", ["leaf1's own address"]),
    ("leaf1", "ingress_port: 2, hdr.ipv4.src: 10.0.0.2", "ingress_port: 3, hdr.ipv4.src: 10.0.0.2", "table peer",
     ["one for port 3, but h2 is behind port 2 of leaf1"]),
    ("leaf1", "hdr.ipv4.src: 10.0.0.2", "hdr.ipv4.src: 10.0.0.9", "table peer", ["one for 10.0.0.9 at port 2"]),
    ("leaf1", "hdr.ipv4.src: 10.128.0.3", "hdr.ipv4.src: 10.128.0.4", "table peer", ["no entry for root: port 3"]),
    ("leaf2", "lowest: 1", "lowest: 0", "table peer", ["no child has lowest: 1"]),
    ("leaf2", "lowest: 0", "lowest: 1", "table peer", ["h3 and h4 have lowest: 1"]),
    ("root", "{port: 2, rid: 2}", "{port: 3, rid: 2}", "multicast", ["group 1 has no copy for leaf2: add port 2"]),
    ("leaf1", "{port: 2, rid: 2}", "{port: 2, rid: 5}", "table replica", ["no entry for rid 5", "copy for h2"]),
    ("leaf2", "{port: 2, rid: 2}", "{port: 2, rid: 1}", "multicast", ["h4 (port 2) rid 1, which is that of h3"]),
    ("leaf1", "{port: 1, rid: 1}", "{port: 1, rid: 2}", "multicast", ["h1 (port 1) rid 2, which is that of h2"]),
    ("root", "- group: 1", "- group: 2", "multicast", ["group 1, but the file has no such group"]),
    ("root", "group: 1 ", "group: 0 ", "table job", ["group 0, which means no multicast"]),
    ("root", "slots: 16", "slots: 10", "table job", ["slots must be 16"]),
    ("leaf1", "base: 0 ", "base: 4090 ", "table job", ["base 4090", "at most 4096"]),
    ("leaf1", "job: 1, epoch: 0}\n    action: inner", "job: 2, epoch: 0}\n    action: inner", "table job",
     ["no entry for job 1, epoch 0"]),
]  # fmt: skip


PLACES = [mistake[3] for mistake in MISTAKES]


@pytest.mark.parametrize(
    ("switch", "old", "new", "place", "words"),
    [
        pytest.param(*mistake, marks=() if PLACES.index(mistake[3]) == number else pytest.mark.soak)
        for number, mistake in enumerate(MISTAKES)
    ],
)
def test_a_mistake_is_explained(answers, switch, old, new, place, words):
    spoil(answers, switch, old, new)
    report = grade(answers)
    assert not report.passed
    found = failures(report)
    assert found[0].subject == switch
    finding = found[0].finding
    for word in words:
        assert word in finding.said
    assert place in finding.where
    assert f"{switch}.yaml" in finding.where
    assert f"{switch}.yaml" in finding.look or not finding.look
    assert all(check.passed is None for check in report.checks if check.subject == "network")


@pytest.mark.soak
def test_a_forgotten_replica_address(answers):
    file = answers / "leaf2.yaml"
    text, count = REPLICA_2.subn("", file.read_text())
    assert count == 1
    file.write_text(text)
    finding = failures(grade(answers))[0].finding
    assert "table replica has no entry for rid 2: the copy for h4 (port 2)" in finding.said
    assert "leaf2.yaml" in finding.where
    assert "p4reduce trace --program 64 --entries" in finding.look


@pytest.mark.soak
def test_the_root_as_inner_switch(answers):
    spoil(answers, "root", "action: root\n    params:\n", ROOT_AS_INNER)
    finding = failures(grade(answers))[0].finding
    assert "job is installed as inner" in finding.said
    assert "use action root" in finding.said
    assert "tables[1] (table job)" in finding.where


@pytest.mark.soak
def test_a_leaf_as_root(answers):
    file = answers / "leaf1.yaml"
    text = re.sub(r"action: inner\n    params:\n(?:      .*\n)+", LEAF_AS_ROOT, file.read_text())
    file.write_text(text)
    finding = failures(grade(answers))[0].finding
    assert "job is installed as root" in finding.said
    assert "inner switch needs action inner" in finding.said


@pytest.mark.soak
def test_generation_zero(answers):
    spoil(answers, "leaf1", "generation: 1 ", "generation: 0 ")
    assert "generation must be 1 or more" in failures(grade(answers))[0].finding.said


@pytest.mark.soak
def test_the_parent_as_child(answers):
    spoil(answers, "leaf1", "action: parent", "action: child\n    params: {bit_: 0b100, lowest: 0}")
    finding = failures(grade(answers))[0].finding
    assert "root is a child of leaf1, but it is its parent" in finding.said


def test_an_entry_too_many_lets_a_stranger_in(answers):
    extra = """  - table: peer
    match: {ingress_port: 2, hdr.ipv4.src: 10.0.0.1, job: 1, epoch: 0}
    action: child
    params: {bit_: 0b01, lowest: 0}
"""
    spoil(answers, "leaf1", "  # Whose addresses", extra + "  # Whose addresses")
    finding = failures(grade(answers))[0].finding
    assert "taken in" in finding.said
    assert "tables[" in finding.where


@pytest.mark.parametrize("answer", ["7" * 5000, "0x" + "7" * 50_000, "3" + 200 * " " + "4", "٣" * 5000])
def test_an_answer_of_thousands_of_digits_is_wrong_and_costs_no_other(answer, answers):
    path = answers / "answers.yaml"
    path.write_text(path.read_text().replace("packet_3_leaves_by: 3", f"packet_3_leaves_by: {answer}"))
    (found,) = failures(grade(answers, only=["questions"]))
    assert "packet_3_leaves_by" in found.title
    assert "is not right" in found.finding.said


def test_a_group_with_far_too_many_copies(answers):
    many = "".join(f"      - {{port: 1, rid: {rid}}}\n" for rid in range(3, 100))
    spoil(answers, "root", "      - {port: 2, rid: 2}\n", "      - {port: 2, rid: 2}\n" + many)
    assert "makes 99 copies" in failures(grade(answers))[0].finding.said


def test_a_file_that_is_missing_or_broken(answers):
    (answers / "leaf2.yaml").unlink()
    (answers / "leaf1.yaml").write_text("tables: [")
    first, second = failures(grade(answers))
    assert "leaf1.yaml: is not YAML" in first.finding.said
    assert "leaf2.yaml: No such file" in second.finding.said


@pytest.mark.parametrize("text", ["!!python/object/apply:os.system ['touch hacked']", "a: &x [1]\nb: *x", "[" * 5000])
def test_a_file_is_data(answers, text, monkeypatch, tmp_path_factory):
    folder = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(folder)
    (answers / "root.yaml").write_text(text)
    assert "root.yaml" in failures(grade(answers, only=["root"]))[0].finding.said
    assert list(folder.iterdir()) == []


def test_folders_that_are_no_lab(tmp_path):
    with pytest.raises(LabError, match="lab copy"):
        grade(tmp_path / "nowhere")
    with pytest.raises(LabError, match="which lab is this"):
        grade(tmp_path)
    with pytest.raises(LabError, match="01-sum-in-a-switch"):
        find("99")


@pytest.mark.parametrize("student", [EXAMPLE, "ana"])
def test_the_packets_of_a_copy_are_those_of_the_grader(student, tmp_path):
    copy_lab(find("01"), student, tmp_path / "mine")
    job = job_of(personal(NAME, student))
    assert (job == (1, 0)) == (student == EXAMPLE)
    for role in roles(load(LAB / "network.yaml"), "root", *job).values():
        assert (tmp_path / "mine/packets" / f"{role.name}.txt").read_text() == as_text(role), role.name


@pytest.mark.parametrize("name", ["leaf1", "root"])
def test_skeleton_and_solution_differ_in_what_is_to_do_only(name, tmp_path):
    copy_lab(find("01"), EXAMPLE, tmp_path / "mine")
    open_lines = (tmp_path / f"mine/skeleton/{name}.yaml").read_text().splitlines()[1:]
    solved_lines = (SOLUTIONS / f"01/{name}.yaml").read_text().splitlines()
    for given, right in zip(open_lines, solved_lines, strict=True):
        assert given == right or "TODO" in given


@pytest.mark.parametrize(
    "student", ["student0", *(pytest.param(f"student{number}", marks=pytest.mark.soak) for number in (1, 2))]
)
def test_three_mistakes_of_a_colleague_are_found_one_after_the_other(student, tmp_path):
    """The mistakes are repaired in the order in which the grader names them; each is named."""
    draws = personal(NAME, student)
    copy_lab(find("01"), student, tmp_path / "mine")
    path = tmp_path / "mine/skeleton/leaf2.yaml"
    wrong, right = path.read_text().splitlines(), leaf2(draws, 0).splitlines()
    places = [number for number, (one, other) in enumerate(zip(wrong, right, strict=True)) if one != other]
    assert 2 <= len(places) <= PLANTED  # two may be in one line
    assert not grade(tmp_path / "mine", only=["leaf2"]).passed
    for spared in places:
        lines = [
            one if number == spared else other for number, (one, other) in enumerate(zip(wrong, right, strict=True))
        ]
        path.write_text("\n".join(lines) + "\n")
        assert not grade(tmp_path / "mine", only=["leaf2"]).passed, lines[spared]
    path.write_text("\n".join(right) + "\n")
    assert grade(tmp_path / "mine", only=["leaf2"]).passed


def test_the_solution_of_one_student_is_not_that_of_another(tmp_path):
    copy_lab(find("01"), "ana", tmp_path / "mine")
    shutil.copytree(SOLUTIONS / "01", tmp_path / "mine/skeleton", dirs_exist_ok=True)
    said = failures(grade(tmp_path / "mine"))[0].finding.said
    assert re.search(r"no entry for job \d+, epoch \d+", said)
