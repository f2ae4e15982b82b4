"""The place that causes a failure: single-place changes, and the first of them that repairs everything."""

import ast
import re
from pathlib import Path

import pytest

from p4reduce_course.culprit import Hints, culprit, p4_edits, suspects, unlike
from p4reduce_course.frame.grading import grade
from p4reduce_course.python_change import Led, python_edits
from p4reduce_course.sandbox.process import StudentCode
from tests.support.effort import first_of
from tests.support.labs import SOLUTIONS, Mutant, spoilt

LINES = range(200)


def changed(text, right, *, given=""):
    """Return the lines of single changes that turn a P4 text into the right one."""
    edits = p4_edits(text, given, dict.fromkeys(LINES, 1.0), LINES, Hints((0x0800,)))
    return [edit.line for edit in edits if "".join(edit.text.split()) == "".join(right.split())]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("hdr.load.estimate >= LIMIT", "hdr.load.estimate > LIMIT"),
        ("row1.write(cell1, count1);", "row1.write(cell0, count1);"),
        ("row1.write(cell1, count1);", "row1.write(count1, cell1);"),
        ("hdr.load.heavy = 1;", "hdr.load.heavy = 2;"),
        ("if (before < LIMIT) {", "if (before < LIMIT && hdr.load.kind == ASK) {"),
        ("HashAlgorithm.crc32, 32w0, { hdr.load.job }, CELLS0", "HashAlgorithm.crc16, 32w0, { hdr.load.job }, CELLS0"),
        ("            std.egress_spec = UP;\n", "            std.egress_spec = UP;\n            mark_to_drop(std);\n"),
    ],
)
def test_a_change_of_one_place_is_among_the_changes(old, new):
    among_the_changes(SOLUTIONS / "14" / "heavy.p4", old, new)


def among_the_changes(path, old, new):
    """Check that a mistake's line is among the lines whose change restores the right text."""
    right = path.read_text()
    wrong = right.replace(old, new, 1)
    assert wrong != right
    differing = [n for n, (a, b) in enumerate(zip(wrong.splitlines(), right.splitlines(), strict=False), 1) if a != b]
    assert differing[0] in changed(wrong, right)


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("13/spread.p4", "{ hdr.job.src, hdr.job.dst }, FLOWS", "{ hdr.job.dst, hdr.job.src }, FLOWS"),
        ("14/heavy.p4", "if (before < LIMIT) {", "if (hdr.load.estimate == LIMIT) {"),  # two tokens
        ("14/heavy.p4", "found = count0;", "found = 0;"),
        ("13/spread.p4", "seen.write(flow, std", "seen.write(0, std"),
        ("05/loss.p4", "if ((bitmap & meta.bit_) == 0) {", "if (bitmap == 0) {"),
        ("03/slot.p4", "hdr.sum.lane0 + sum;", "hdr.sum.lane0 + (bit<32>)sum;"),
    ],
)
def test_changes_of_lists_casts_and_comparisons_are_among_them(path, old, new):
    among_the_changes(SOLUTIONS / path, old, new)


@pytest.mark.parametrize(
    ("path", "old", "new", "fields"),
    [
        ("15/telemetry.p4", "        hdr.hops[3].setInvalid();\n", "", set()),
        ("14/heavy.p4", "            row2.write(cell2, count2);\n", "", set()),
        ("12/learn.p4", "                meta.worker = hdr.hello.worker;\n", "", {"meta.worker"}),
        ("03/slot.p4", "bitmap);\n                    mark_to_drop(std);", "bitmap);", {"mark_to_drop"}),
    ],
)
def test_a_statement_that_is_missing_is_added_behind_a_line(path, old, new, fields):
    right = (SOLUTIONS / path).read_text()
    wrong = right.replace(old, new, 1)
    assert wrong != right
    hints = Hints((), frozenset(fields))
    edits = [edit for edit in p4_edits(wrong, "", dict.fromkeys(LINES, 1.0), LINES, hints) if edit.added]
    assert len([edit for edit in edits if "".join(edit.text.split()) == "".join(right.split())]) == 1


def test_what_is_set_beside_a_line_is_not_missing_behind_it():
    text = (SOLUTIONS / "12" / "learn.p4").read_text()
    hints = Hints((), frozenset({"meta.worker"}))
    edits = [edit for edit in p4_edits(text, "", dict.fromkeys(LINES, 1.0), LINES, hints) if edit.added]
    there = next(n for n, code in enumerate(text.splitlines(), 1) if "meta.worker = hdr.hello.worker;" in code)
    assert edits
    assert not [edit for edit in edits if abs(edit.line - there) < 4]


@pytest.mark.parametrize(
    ("path", "old", "new", "most"),
    [
        ("11/router.p4", "update_checksum(hdr.ipv4.isValid()", "update_checksum(hdr.udp.isValid()", 20),
        ("13/spread.p4", "number }, meta.count)", "number }, 16w4)", 60),
        ("14/heavy.p4", "if (count2 < found)", "if (count2 < count1)", 60),
    ],
)
def test_a_name_of_the_same_width_in_a_line_of_the_trail_is_tried_soon(path, old, new, most):
    right = (SOLUTIONS / path).read_text()
    wrong = right.replace(old, new, 1)
    line = next(n for n, (a, b) in enumerate(zip(wrong.splitlines(), right.splitlines(), strict=True), 1) if a != b)
    first = line if "hash" not in wrong.splitlines()[line - 2] else line - 1  # the trail names a statement's first line
    edits = p4_edits(wrong, "", dict.fromkeys(LINES, 0.5), [n for n in LINES if n != line], Hints(led=[first]))
    same = [n for n, edit in enumerate(edits) if "".join(edit.text.split()) == "".join(right.split())]
    assert same[0] < most


def test_a_right_line_is_not_blamed_where_a_copy_of_it_is_missing(tmp_path):
    path = tmp_path / "a.p4"
    path.write_text("a = 1;\nb = 2;\nif (c == d) {\n    f(a);\n}\n")
    edits = [edit for edit in p4_edits(path.read_text(), "", dict.fromkeys(LINES, 1.0), LINES) if edit.copied]
    moved = next(edit for edit in edits if edit.line == 4 and edit.text.startswith("a = 1;\n    f(a);\nb = 2;"))
    assert culprit(path, [moved], lambda text: text.startswith("a = 1;\n    f(a);")) == (
        "One more statement after line 1, such as line 4, mends all of it: a = 1;"
    )
    assert culprit(path, [moved], lambda text: text == moved.text) == "Line 4 in another place mends all of it: f(a);"


WAY = """\
                hash(meta.way, HashAlgorithm.crc16, 16w0,
                     { hdr.job.src, hdr.job.dst, number }, meta.count);
"""
PAUSE = "                flowlets.read(number, flow);\n"
NEWS = "                down.read(is_down, (bit<32>)hdr.sum.port);\n"
DETOUR = "                    hdr.sum.detour = 1;\n                    std.egress_spec = meta.second;\n"


@pytest.mark.parametrize(
    ("path", "block", "before"),
    [
        ("13/spread.p4", WAY, PAUSE),  # a statement of two lines
        ("16/survive.p4", DETOUR, "                down.read(is_down, (bit<32>)meta.second);\n"),  # two statements
        ("16/survive.p4", NEWS, "                news = 0;\n"),
        (
            "16/survive.p4",
            "                if (hdr.sum.kind == DOWN) {\n                    news = 1;\n                }\n",
            "                news = 0;\n",
        ),
    ],
)
def test_lines_that_stand_in_another_place_are_named(path, block, before, tmp_path):
    right = (SOLUTIONS / path).read_text()
    assert block in right
    wrong = right.replace(block, "", 1).replace(before, block + before, 1)
    mine = tmp_path / "a.p4"
    mine.write_text(wrong)
    edits = p4_edits(wrong, "", dict.fromkeys(LINES, 1.0), LINES)
    said = culprit(mine, edits, lambda text: "".join(text.split()) == "".join(right.split()))
    found = re.fullmatch(r"Lines? (\d+)(?: to (\d+))? in another place mends? all of it: .*", said)
    first, last = (text[: text.index(block)].count("\n") + 1 for text in (wrong, right))
    assert found is not None, said
    assert first <= int(found[1]) <= int(found[2] or found[1]) < last + block.count("\n")


def test_fields_are_exchanged_over_the_end_of_a_line():
    right = (SOLUTIONS / "11" / "router.p4").read_text()
    wrong = right.replace(
        "hdr.ipv4.ttl,\n              hdr.ipv4.protocol", "hdr.ipv4.protocol,\n              hdr.ipv4.ttl", 1
    )
    assert wrong != right
    assert changed(wrong, right)


def test_an_edit_of_several_lines_keeps_all_of_them():
    text = (SOLUTIONS / "16" / "survive.p4").read_text()
    for edit in p4_edits(text, "", dict.fromkeys(LINES, 1.0), LINES):
        if edit.moved:
            assert sorted(edit.text.splitlines()) == sorted(text.splitlines())


def test_the_same_change_in_all_alike_lines_is_among_them():
    right = (SOLUTIONS / "14" / "heavy.p4").read_text()
    assert changed(right.replace("|+|", "+"), right)
    right = (SOLUTIONS / "03" / "slot.p4").read_text()
    wrong = right.replace("+ sum;", "- sum;")
    assert changed(wrong, right) == [next(n for n, line in enumerate(right.splitlines(), 1) if "+ sum;" in line)]


def test_a_number_that_the_readme_names_is_tried():
    right = (SOLUTIONS / "11" / "router.p4").read_text().replace("0x0800", "2048")
    assert changed(right.replace("2048: parse_ipv4", "0x86dd: parse_ipv4"), right)


def test_lines_that_have_to_do_with_what_is_wrong_come_first():
    text = (SOLUTIONS / "14" / "heavy.p4").read_text()
    edits = list(p4_edits(text, "", dict.fromkeys(LINES, 1.0), LINES, Hints((), frozenset({"heavy"}))))
    edits = [edit for edit in edits if not edit.added]
    lines = text.splitlines()
    assert "heavy" in lines[edits[0].line - 1]
    near = [place for place, edit in enumerate(edits) if "heavy" in lines[edit.line - 1]]
    assert sum(near) / len(near) < len(edits) / 2


def test_a_line_of_the_skeleton_that_was_moved_is_the_students_own():
    right = (SOLUTIONS / "13" / "spread.p4").read_text()
    wrong = right.replace("            spread.apply();\n            if (hdr.job.kind != DATA) {\n",
                          "            if (hdr.job.kind != DATA) {\n                spread.apply();\n")  # fmt: skip
    edits = list(p4_edits(wrong, right, dict.fromkeys(LINES, 1.0), LINES))
    assert wrong.splitlines()[edits[0].line - 1] == "                spread.apply();"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return self.there", "return self.sent"),
        ("a = 1\n        b = 2", "b = 2\n        a = 1"),
        ("if one", "if not one"),
        ("while b", "if b"),
        ("given['x']", "given['y']"),
        ("[1:]", ""),
        ("        self.sent = []\n", ""),
    ],
)
def test_python_is_changed_in_statements_keys_and_attributes(old, new):
    text = """class A:
    def f(self, given):
        a = 1
        b = 2
        self.sent = []
        self.there = [one for one in given['x'] if one]
        while b:
            b -= given['y']
        return self.there[1:] + self.sent + [a]
"""
    right = text.replace(old, new, 1)
    assert right != text
    edits = list(python_edits(text))
    assert any(ast.dump(ast.parse(edit.text)) == ast.dump(ast.parse(right)) for edit in edits)


def test_lines_that_the_student_wrote_come_first_and_comments_are_left_alone():
    text = (SOLUTIONS / "14" / "heavy.p4").read_text().replace("std.egress_spec = UP;", "std.egress_spec = 1; // == 0")
    given = "\n".join(line for line in text.splitlines() if "= 1; //" not in line)
    edits = list(p4_edits(text, given, dict.fromkeys(LINES, 1.0), LINES))
    own = next(number for number, line in enumerate(text.splitlines(), 1) if "= 1; //" in line)
    assert edits[0].line == own
    assert not [edit for edit in edits if "//" in edit.text and "// == 0" not in edit.text and edit.line != own]


def test_python_is_changed_in_one_place_and_loops_last():
    text = "def f(a, b):\n    while a > b:\n        a -= 1\n    return a + 2\n"
    edits = list(python_edits(text))
    assert any("return a + 1" in edit.text for edit in edits)
    assert any("return b + 2" in edit.text for edit in edits)
    loops = [edit.line in (2, 3) for edit in edits]
    assert loops == sorted(loops)


def test_lines_of_the_trail_are_changed_first():
    text = "def f(a, b):\n    c = a + 1\n    d = b + 1\n    return c + d\n"
    assert next(python_edits(text, "", Led([3, 4]))).line == 3
    assert {edit.line for edit in python_edits(text, "", Led([3]))} == {2, 3, 4}


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("seen = set(new)", "seen |= set(new)"),
        ("for a in b:\n    f(a)", "for a in reversed(list(b)):\n    f(a)"),
        ("x = {**new, 'root': 1}", "x = {**new}"),
        ("f(a, b, c)", "f(b, a, c)"),
        ("x = a in b", "x = a not in b"),
        ("for a in b:\n    f(a)\ng(a)", "for a in b:\n    f(a)\n    g(a)"),
        ("for a in b:\n    f(a)\n    g(a)", "for a in b:\n    f(a)\ng(a)"),
        ("if n > 3:\n    n -= 1", "while n > 3:\n    n -= 1"),
        ("x += y", "x = y"),
        ("x = a and b and c", "x = a and c"),
        ("if a:\n    f(a)\ng(a)", "f(a)\ng(a)"),
        ("for a in b:\n    break", "for a in b:\n    continue"),
        ("x = y.max()", "x = abs(y).max()"),
        ("x = y.clip(0, 1)", "x = y"),
        ("x = sorted(y, key=z)", "x = sorted(y)"),
        ("x = y[0]", "x = max(y)"),
        ("x = y[:a]", "x = y[a:]"),
        ("x = y.astype(int16)", "x = y.astype(int64)"),
        ("x[a] = b + c", "x[a] = x.get(a, b) + c"),
        ("for a in b:\n    f(a)\nfor c in d(b):\n    g(c)", "for a in d(b):\n    f(a)\nfor c in d(b):\n    g(c)"),
        (
            "def f(a, b):\n    for c in a:\n        g(c)\n    return b + a",
            "def f(a, b):\n    for c in b + a:\n        g(c)\n    return b + a",
        ),
        ("A = 1\nB = 2\n\ndef f():\n    return A", "A = 1\nB = 2\n\ndef f():\n    return B"),
    ],
)
def test_what_is_replaced_left_in_exchanged_or_in_another_block_is_changed(wrong, right):
    assert any(edit.text == f"{right}\n" for edit in python_edits(wrong))


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("x[0] = a", "x[b] = a"),
        ("x[len(x)] = a", "x[a] = a"),
        ("x[a] = b", "x[a - 1] = b"),
        ("x = f(0)", "x = f(a)"),
        ("x = f((a, 'c'))", "x = f((a, 'c', b))"),
        ("x = given[a, b, c]", "x = given[b, c]"),
        ("x = fresh((a, b, 'c'))", "x = fresh((a, 'c'))"),
        ("x = a - b", "x = a - b * c"),
        ("x = a >= b", "x = a - c >= b"),
        ("x = f(a, b) > LIMIT", "x = c * f(a, b) > LIMIT"),
        ("while f(a) < b:\n        a -= 1", "while f(a) < c * b:\n        a -= 1"),
    ],
)
def test_names_in_scope_are_put_in_the_place_of_something_or_beside_it(wrong, right):
    texts = {edit.text for edit in python_edits(f"def g(a, b, c):\n    {wrong}")}
    assert f"def g(a, b, c):\n    {right}\n" in texts


def test_a_name_that_is_made_of_a_variable_takes_its_place_before_other_names_do():
    text = "def f(a, b):\n    c = a + b\n    d = 1\n    g(a)\n    return d\n"
    edits = [edit.text for edit in python_edits(text, "", Led([4]))]
    assert edits.index(text.replace("g(a)", "g(c)")) < edits.index(text.replace("g(a)", "g(b)"))


def test_a_return_too_much_is_left_out_before_lines_off_the_trail_are_changed():
    text = "def f(a):\n    try:\n        g(a, 1)\n    except E:\n        h(2)\n        return None\n    return 3\n"
    edits = list(python_edits(text, "", Led([7])))
    lines = [edit.line for edit in edits]
    assert lines[lines.count(7)] == 6
    given = "def f(a):\n    return None\n"
    assert any(edit.line == 6 for edit in python_edits(text, given)), "the same line elsewhere is the skeleton's"
    assert edits[lines.count(7)].text == text.replace("        return None\n", "")


def test_no_change_is_tried_twice_and_each_is_python():
    text = (SOLUTIONS / "09" / "hook.py").read_text()
    texts = [edit.text for edit in python_edits(text)]
    assert len(set(texts)) == len(texts)
    assert all(ast.parse(edit) for edit in texts)
    assert text not in texts


def test_a_change_leaves_other_functions_as_they_are():
    text = "@f  # first\ndef g(a):\n    return (a)\n\n\ndef h(a):  # second\n    return a + 1\n"
    edits = list(python_edits(text))
    assert any(edit.text == text.replace("):  # second", "):").replace("+ 1", "+ 2") for edit in edits)
    assert {edit.line for edit in edits} <= {1, 2, 3, 6, 7}


def test_lines_that_run_where_it_fails_are_suspicious():
    found = suspects([((1, 2), True), ((1,), False), ((1, 3), False)])
    assert found[2] == 1.0
    assert found[1] == pytest.approx(3**-0.5)
    assert 3 not in found


def test_no_place_is_told_where_nothing_mends_it(tmp_path: Path):
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    assert culprit(path, python_edits("x = 1\n"), lambda _: False) == ""
    assert culprit(path, python_edits("x = 1\n"), lambda text: text == "x = 2\n") == (
        "A change in line 1 alone, at '1', mends all of it: x = 1"
    )


def test_a_text_is_loaded_in_the_place_of_a_file(tmp_path: Path):
    path = tmp_path / "a.py"
    path.write_text("def f():\n    return 1\n")
    with StudentCode(path) as code:
        assert code.call("f") == 1
        code.load("def f():\n    return 2\n")
        assert code.call("f") == 2


@pytest.mark.parametrize(
    ("number", "file", "old", "new", "line"),
    first_of(
        [
            ("16", "survive.p4", "hdr.sum.detour = 1;", "hdr.sum.detour = 2;", "hdr.sum.detour = 2;"),
            ("02", "header.p4", "!hdr.hop.isValid()", "!hdr.value.isValid()", "} else if (!hdr.value.isValid()) {"),
            (
                "11",
                "router.p4",
                "update_checksum(hdr.ipv4",
                "update_checksum(hdr.udp",
                "update_checksum(hdr.udp.isValid(),",
            ),
            ("15", "telemetry.p4", "        hdr.hops[3].setInvalid();\n", "", "hdr.hops[2].setInvalid();"),
            (
                "12",
                "learn.p4",
                "                meta.worker = hdr.hello.worker;\n",
                "",
                "if (hdr.hello.isValid() && hdr.hello.worker != meta.worker) {",
            ),
            (
                "05",
                "worker.py",
                "oldest + self.slots)",
                "oldest - self.slots)",
                "fresh = list(range(self.next, min(self.chunks, oldest - self.slots)))",
            ),
            (
                "04",
                "quantize.py",
                "while workers",
                "if workers",
                "if workers * np.rint(np.ldexp(most, guess)) > LIMIT:",
            ),
            ("05", "worker.py", "WORKERS[rank] = ", "WORKERS[0] = ", "WORKERS[0] = Worker(chunks, slots, timeout)"),
            (
                "13",
                "spread.p4",
                "number }, meta.count)",
                "number }, 16w4)",
                "{ hdr.job.src, hdr.job.dst, number }, 16w4);",
            ),
            ("14", "heavy.p4", "count2 < found)", "count2 < count1)", "if (count2 < count1) { found = count2; }"),
            (
                "03",
                "slot.p4",
                "bitmap);\n                    mark_to_drop(std);",
                "bitmap);",
                "bitmaps.write(slot, bitmap);",
            ),
            (
                "07",
                "controller.py",
                '((switch, "rid"), F',
                '((job["job"], switch, "rid"), F',
                'rid = fresh((job["job"], switch, "rid"), FIRST_RID)',
            ),
        ],
        5,
    ),
)
def test_the_first_text_names_the_line(number, file, old, new, line, tmp_path):
    report = grade(spoilt(number, Mutant("", file, old, new, ()), tmp_path / "mine"))
    first = next(check.finding.said for check in report.checks if check.finding is not None)
    assert f"mends all of it: {line}" in first


@pytest.mark.soak  # a part of the text alone is another
def test_the_first_text_names_the_line_that_mends_all_but_a_part(tmp_path):
    mutant = Mutant("", "hook.py", "self.gradients[index] = g", "self.gradients[len(self.gradients)] = g", ())
    report = grade(spoilt("09", mutant, tmp_path / "mine"), only=["mean"])
    first = next(check.finding.said for check in report.checks if check.finding is not None)
    mended = "mends all but part int8, which was not tried: self.gradients[len(self.gradients)] = gradient. "
    assert f"at 'len(self.gradients)', {mended}" in first


def test_nothing_is_told_of_changes_where_none_mends_it(tmp_path):
    mutant = Mutant("", "controller.py", "given.clear()", "raise ValueError(network)", ())
    report = grade(spoilt("07", mutant, tmp_path / "mine"), only=["jobs"])
    texts = [check.finding.said for check in report.checks if check.finding is not None]
    assert texts
    assert not [text for text in texts if "A change in line" in text]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("a0 = b0 + 4;", "a1 = b1 + 4;", "a2 = b2 + 4;"), ""),
        (("a0 = b0 + 4;", "a1 = b1 + 4;", "a2 = b1 + 4;"), "is not like lines 1 and 2: it has 1 in place of 2"),
        (("a0 = b0 + 4;", "a1 = b1 + 5;", "a2 = b2 + 4;"), "is not like lines 1 and 3: it has 5 in place of 4"),
        (("a0 = b1;", "a1 = b2;", "a2 = b3;"), ""),
        (("a0 = b0;", "a1 = b0;"), ""),
    ],
)
def test_a_line_that_breaks_the_pattern_of_its_copies(lines, said):
    found = unlike("\n".join(lines))
    assert found.endswith(said)
    assert bool(found) == bool(said)
