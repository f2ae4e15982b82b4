"""The first deviation of a program: the student's lines, traced back from what is wrong with a frame."""

import re

import pytest

from p4reduce_course.sandbox.program import SandboxSwitches
from p4reduce_course.sandbox.trail import TrailStep
from p4reduce_course.trail import Departure, Trail
from tests.support.labs import SOLUTIONS

DATA = bytes.fromhex("02aa00000001 02bb00000001".replace(" ", ""))
HEAVY = (SOLUTIONS / "14" / "heavy.p4").read_text()
ROUTER = (SOLUTIONS / "11" / "router.p4").read_text()


def load(amount, kind=1, job=7):
    ether_type = re.search(r"LOAD_TYPE = (?:16w)?0x(\w{4})", HEAVY)[1]
    return (
        DATA + bytes.fromhex(ether_type) + bytes([kind, 0]) + b"".join(n.to_bytes(4, "big") for n in (job, amount, 0))
    )


def trail(text, *frames, entries="tables: []\n"):
    switches = SandboxSwitches()
    assert switches.compile(text, "a.p4")["parts"] is not None
    switch = switches.switch()
    assert not switches.load(switch, entries)
    steps = switches.trails(switch, [[1, frame, 0] for frame in frames])
    names = [f"frame {number + 1}" for number in range(len(frames))]
    return Trail(text, [[TrailStep(**step) for step in each] for each in steps], names)


def line(text, code):
    return f"line {text[: text.index(code)].count(chr(10)) + 1}, '{code}'"


def test_a_field_is_followed_to_its_register_and_to_the_frame_that_wrote_it():
    said = trail(HEAVY, load(500), load(1)).where(Departure("field", "load.estimate"))
    assert "sets load.estimate from 0 to 501" in said
    assert line(HEAVY, "count0 = count0 |+| hdr.load.amount;") in said
    text = HEAVY.replace("count0 = count0 |+| hdr.load.amount;", "")
    said = trail(text, load(500), load(1)).where(Departure("field", "load.estimate"))
    assert "reads from cell" in said
    assert "written by frame 1 in line" in said


def test_a_variable_that_nothing_sets_is_named():
    text = HEAVY.replace("            row2.read(count2, cell2);\n", "")
    said = trail(text, load(500), load(1)).where(Departure("field", "load.estimate"))
    assert "No line that ran sets count2 before" in said


def test_a_line_that_does_not_run_is_named_with_its_condition():
    text = HEAVY.replace("if (before < LIMIT) {", "if (before > LIMIT) {")
    said = trail(text, load(100_000)).where(Departure("silent"))
    assert line(text, "if (before > LIMIT) {") in said
    assert "is false (before 0)" in said


def test_a_return_that_ends_the_control_is_named():
    text = HEAVY.replace(
        "            std.egress_spec = UP;\n", "            return;\n            std.egress_spec = UP;\n"
    )
    said = trail(text, load(1)).where(Departure("sent"))
    assert f"{line(text, 'return;')} ends the control before it" in said


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("0x0800: parse_ipv4;", "0x0806: parse_ipv4;", "state start (select on 0x800) went to accept"),
        ("hdr.ipv4.ttl < 2", "hdr.ipv4.ttl < 100", "is true (ipv4.ttl 64)"),
    ],
)
def test_a_drop_names_what_decided_it(old, new, words):
    header = bytes.fromhex("4500001c000000004006") + bytes(2) + bytes([10, 0, 0, 1, 10, 1, 2, 3])
    total = sum(int.from_bytes(header[at : at + 2], "big") for at in range(0, 20, 2))
    checksum = ~(total % 0xFFFF) & 0xFFFF
    frame = DATA + b"\x08\x00" + header[:10] + checksum.to_bytes(2, "big") + header[12:] + bytes(8)
    text = ROUTER.replace(old, new)
    said = trail(text, frame).where(Departure("dropped"))
    assert words in said


def test_headers_that_are_emitted_in_another_order_or_not_at_all():
    text = HEAVY.replace(
        "packet.emit(hdr.ethernet); packet.emit(hdr.load);", "packet.emit(hdr.load); packet.emit(hdr.ethernet);"
    )
    assert "the order differs" in trail(text, load(1)).where(Departure("field", "load.estimate"))
    text = HEAVY.replace(" packet.emit(hdr.load);", "")
    assert "load is valid at the end" in trail(text, load(1)).where(Departure("field", "load.estimate"))
