"""The bench of P4 labs: short frames, causes, replayable inspections, and programs that send a controller nonsense."""

import shlex

from typer.testing import CliRunner

from p4reduce.cli.main import app
from p4reduce_course.bench import ETHERNET, Frame, Out, Scenario, Setup, difference, fields_of, shrunk
from p4reduce_course.frame.grading import grade
from p4reduce_course.frame.report import write_looks
from tests.support.labs import Mutant, mutants, spoilt


def test_frames_and_entries_that_do_not_matter_are_left_out():
    rows = tuple({"table": name, "match": number} for number in range(3) for name in ("a", "b"))
    frames = tuple(Frame(1, bytes([number]) * 9, str(number)) for number in range(40))

    def fails(one):
        sent = [frame.data[0] for frame in one.frames]
        return sent[-1] == 39 and {7, 21} <= set(sent) and rows[2] in one.setup.rows

    def smaller(frame):
        yield Frame(1, frame.data[:1], frame.what)

    found = shrunk(Scenario(Setup(rows), frames), fails, smaller, ("a",))
    assert [frame.data for frame in found.frames] == [b"\x07", b"\x15", b"\x27"]
    assert [row for row in found.setup.rows if row["table"] == "a"] == [rows[2]]
    assert len(found.setup.rows) == 4, "b's stay"


def test_differences_in_words():
    def said(wanted, got, *about):
        return difference(wanted, got, about, lambda data: fields_of(data, ETHERNET))

    frame, other = ETHERNET.pack(dst=1, type=0x800) + b"x", ETHERNET.pack(dst=2, type=0x800) + b"y"
    assert said(Out(), Out(((3, frame),)), "ports") == "left by port 3, and must be dropped"
    assert said(Out(((1, frame), (2, frame))), Out(), "frames") == "was dropped, and must leave by ports 1, 2"
    assert said(Out(((1, frame),)), Out(((1, other),)), "ethernet.type") == ""
    assert said(Out(((1, frame),)), Out(((1, other),)), "ethernet") == (
        "left by port 1: ethernet.dst is 2, expected 1; payload is 79, expected 78"
    )
    assert "payload is 79, expected 78" in said(Out(((1, frame),)), Out(((1, other),)), "frames")
    assert said(Out((), ((1, 2),)), Out(((5, frame),)), "digests") == "told the controller nothing, expected (1, 2)"


def test_a_look_replays_times(tmp_path):
    mutant = next(one for one in mutants("13") if one.name == "a pause of GAP")
    folder = spoilt("13", mutant, tmp_path / "mine")
    report = grade(folder, only=["flowlets"])
    assert write_looks(folder, report)
    finding = next(check.finding for check in report.checks if check.finding)
    wrong = finding.said.partition(" left by port ")[2].partition(",")[0]
    done = CliRunner().invoke(app, shlex.split(finding.look)[1:])
    assert done.exit_code == 0, done.output
    assert f"port {wrong}" in done.output


def test_a_right_checksum_is_right_whatever_else_is_wrong(tmp_path):
    mutant = next(one for one in mutants("11") if one.name == "all of UDP marked")
    report = grade(spoilt("11", mutant, tmp_path / "mine"))
    assert [check.title for check in report.checks if not check.passed] == ["and nothing else changes"]


def test_nonsense_for_the_controller_costs_the_student_only(tmp_path):
    """A 64-bit value is not an address."""
    field, long = "{ hdr.ethernet.src, std", "{ 64w0xffff000000000000 | (bit<64>)hdr.ethernet.src, std"
    nonsense = Mutant("", "learn.p4", "learn_t { bit<48> mac;", "learn_t { bit<64> mac;", (), also=((field, long),))
    report = grade(spoilt("12", nonsense, tmp_path / "mine"))
    assert not report.passed
    assert not [note for note in report.notes if "grader failed" in note]
    assert "told the controller" in next(check.finding.said for check in report.checks if check.subject == "learn")
