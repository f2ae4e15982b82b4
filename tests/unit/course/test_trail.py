"""The first deviation of a program: the student's lines, traced back from what is wrong with a frame."""

import re
from contextlib import suppress
from dataclasses import asdict
from itertools import pairwise

import pytest

from p4reduce_course.culprit import Origin, explained
from p4reduce_course.frame.report import Wrong
from p4reduce_course.python_trail import EntryPlace, WrongChange, WrongEntry, key_of, where_in_python
from p4reduce_course.sandbox.confine import ProcessLimits
from p4reduce_course.sandbox.messages import Remote, pack, unpack
from p4reduce_course.sandbox.process import StudentCode
from p4reduce_course.sandbox.program import SandboxSwitches
from p4reduce_course.sandbox.trail import TrailStep
from p4reduce_course.trail import Departure, Trail
from tests.support.labs import SOLUTIONS

DATA = bytes.fromhex("02aa00000001 02bb00000001".replace(" ", ""))
HEAVY = (SOLUTIONS / "14" / "heavy.p4").read_text()
TELEMETRY = (SOLUTIONS / "15" / "telemetry.p4").read_text()
TAKEN = "        packet.extract(hdr.hops.next);\n        meta.left = meta.left - 1;\n"
ROUTER = (SOLUTIONS / "11" / "router.p4").read_text()


def load(amount, kind=1, job=7):
    ether_type = re.search(r"LOAD_TYPE = (?:16w)?0x(\w{4})", HEAVY)[1]
    return (
        DATA + bytes.fromhex(ether_type) + bytes([kind, 0]) + b"".join(n.to_bytes(4, "big") for n in (job, amount, 0))
    )


def trail(text, *frames, entries="tables: []\n", given=""):
    switches = SandboxSwitches()
    assert switches.compile(text, "a.p4")["parts"] is not None
    switch = switches.switch()
    assert not switches.load(switch, entries)
    steps = switches.trails(switch, [[1, frame, 0] for frame in frames])
    names = [f"frame {number + 1}" for number in range(len(frames))]
    return Trail(text, [[TrailStep(**step) for step in each] for each in steps], names, given)


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


def test_a_cell_is_followed_to_what_wrote_it():
    write = "            row0.write(cell0, count0);\n"
    text = HEAVY.replace(write, f"{write}            row0.write(cell0 ^ 1, 5);\n", 1)
    cell = next(step.cell for step in trail(text, load(500)).frames[-1] if (step.kind, step.name) == ("write", "row0"))
    for wrong, code in ((cell, write.strip()), (cell ^ 1, "row0.write(cell0 ^ 1, 5);")):
        said = trail(text, load(500)).where(Departure("cell", "row0", cell=wrong))
        assert said.startswith(f"L{line(text, code)[1:]} sets cell {wrong} of row0")
    held = "            if (hdr.load.kind == ASK) { row0.write(cell0 ^ 1, 5); }\n"
    text = HEAVY.replace(write, f"{write}{held}", 1)
    said = trail(text, load(500)).where(Departure("cell", "row0", cell=cell ^ 1))
    assert said.startswith(f"L{line(text, held.strip())[1:]} would write row0, and does not run")
    text = HEAVY.replace("row0.write(cell0, count0);", "row0.write(cell0 ^ 1, count0);", 1)
    said = trail(text, load(500)).where(Departure("cell", "row0", cell=cell))
    assert f"sets cell {cell ^ 1} of row0" in said


def test_a_variable_that_nothing_sets_is_named():
    text = HEAVY.replace("            row2.read(count2, cell2);\n", "")
    said = trail(text, load(500), load(1)).where(Departure("field", "load.estimate"))
    assert "No line that ran sets count2 before" in said


def test_a_line_that_does_not_run_is_named_with_its_condition():
    text = HEAVY.replace("if (before < LIMIT) {", "if (before > LIMIT) {")
    said = trail(text, load(100_000)).where(Departure("silent"))
    assert line(text, "if (before > LIMIT) {") in said
    assert "is false (before 0, LIMIT " in said


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


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            TAKEN,
            "",
            "The parser does not end: state parse_hop (select on 0x1) leads to itself",
        ),
        (
            f"{TAKEN}        transition select(meta.left) {{",
            "        transition more;\n    }\n    state more {\n        transition select(meta.left + 1) {",
            "The parser does not end: states parse_hop, more (select on 0x2) lead to each other",
        ),
        (
            f"{TAKEN}        transition select(meta.left) {{",
            "        meta.left = meta.left - 1;\n        transition select(meta.left ++ 8w1) {",
            "The parser does not end: state parse_hop leads to itself",
        ),
    ],
)
def test_a_parser_that_does_not_end_is_told_in_a_short_message(old, new, words):
    assert old in TELEMETRY
    ether_type = bytes.fromhex(re.search(r"TEL_TYPE = 0x(\w{4})", TELEMETRY)[1])
    frame = DATA + ether_type + bytes.fromhex("88b5 01 00000000 0000 0007 00000001")
    followed = trail(TELEMETRY.replace(old, new), frame)
    assert followed.endless
    said = followed.where(Departure("dropped"))
    assert f"{words} until the switch stops it after 32,768 visits, with error ParserTimeout" in said
    assert f"{words} until" in followed.where(Departure("silent"))
    assert "did not extract hops[0]; the parser does not end" in followed.where(Departure("field", "hops[0].time_us"))
    assert len(unpack(pack([asdict(step) for step in followed.frames[0]]))) == len(followed.frames[0]) <= 2000
    assert not trail(TELEMETRY, frame).endless


def test_headers_that_are_emitted_in_another_order_or_not_at_all():
    text = HEAVY.replace(
        "packet.emit(hdr.ethernet); packet.emit(hdr.load);", "packet.emit(hdr.load); packet.emit(hdr.ethernet);"
    )
    assert "the order differs" in trail(text, load(1)).where(Departure("field", "load.estimate"))
    text = HEAVY.replace(" packet.emit(hdr.load);", "")
    assert "load is valid at the end" in trail(text, load(1)).where(Departure("field", "load.estimate"))


def test_the_inputs_of_a_hash_are_followed():
    text = HEAVY.replace("32w0, { hdr.load.job }, CELLS0", "32w0, { hdr.load.kind, hdr.load.job }, CELLS0")
    said = trail(text, load(500), load(0, kind=2)).where(Departure("field", "load.estimate"))
    assert (
        f"{line(text, 'hash(cell0, HashAlgorithm.crc32, 32w0, { hdr.load.kind, hdr.load.job }, CELLS0);')} sets" in said
    )
    assert "(load.kind 2, load.job 7)" in said


def test_a_line_that_would_have_set_the_value_is_named_with_the_source_of_its_condition():
    text = HEAVY.replace("count1 = count1 |+|", "count1 = count0 |+| hdr.load.amount |+|")
    said = trail(text, load(500), load(1)).where(Departure("field", "load.estimate"))
    assert "would set found, and does not run" in said
    assert f"count1 is what {line(text, 'count1 = count0 |+| hdr.load.amount |+| hdr.load.amount;')} sets: 503" in said


def test_the_condition_of_a_source_is_told():
    text = HEAVY.replace("if (hdr.load.kind == PUSH) {", "if (hdr.load.kind != ASK + 1) {")
    said = trail(text, load(3, kind=2)).where(Departure("field", "load.estimate"))
    assert f"sets: 3 (count0 0, load.amount 3), since {line(text, 'if (hdr.load.kind != ASK + 1) {')} is true" in said


def test_constants_of_a_condition_are_told():
    said = trail(HEAVY.replace("LIMIT = ", "LIMIT = 1"), load(100_000)).where(Departure("silent"))
    assert "is false (load.estimate 0x186a0, LIMIT 166000)" in said


def test_what_the_skeleton_has_is_followed_and_not_told():
    given = "            row0.read(count0, cell0);\n"
    said = trail(HEAVY, load(500), load(1), given=given).where(Departure("field", "load.estimate"))
    assert "row0.read" not in said
    assert "row1.read" in said


def test_a_cell_beyond_the_end_of_a_register_is_told():
    text = HEAVY.replace("row0.read(count0, cell0);", "row0.read(count0, cell0 + 100);")
    said = trail(text, load(500), load(1)).where(Departure("field", "load.estimate"))
    assert re.search(
        r"'row0.read\(count0, cell0 \+ 100\);' reads from cell 1\d\d of row0, beyond its end: it stays 0", said
    )


ROUTE = "tables: [{table: route, match: {hdr.ipv4.dst: 10.1.0.0/16}, action: via, params: {mac: 2, port: 4}}]"


def routed():
    header = bytes.fromhex("4500001c000000004006") + bytes(2) + bytes([10, 0, 0, 1, 10, 1, 2, 3])
    total = sum(int.from_bytes(header[at : at + 2], "big") for at in range(0, 20, 2))
    checksum = ~(total % 0xFFFF) & 0xFFFF
    return DATA + b"\x08\x00" + header[:10] + checksum.to_bytes(2, "big") + header[12:] + bytes(8)


def test_a_checksum_is_followed_to_the_statement_that_computes_it():
    text = ROUTER.replace("update_checksum(hdr.ipv4.isValid()", "update_checksum(hdr.udp.isValid()")
    assert text != ROUTER
    said = trail(text, routed(), entries=ROUTE).where(Departure("field", "ipv4.checksum"))
    assert re.match(r"Line \d+, 'update_checksum\(hdr.udp.isValid\(\), .*' would set ipv4.checksum", said)
    assert "and does not: udp is not valid" in said
    assert "No line" not in said
    text = ROUTER.replace("hdr.ipv4.src, hdr.ipv4.dst }", "hdr.ipv4.src }")
    said = trail(text, routed(), entries=ROUTE).where(Departure("field", "ipv4.checksum"))
    assert said.endswith("' sets ipv4.checksum")


def test_a_payload_is_told_by_the_headers_in_front_of_it():
    text = TELEMETRY.replace("        hdr.hops[3].setInvalid();\n", "")
    assert text != TELEMETRY
    tel_type = re.search(r"TEL_TYPE = (?:16w)?0x(\w{4})", TELEMETRY)[1]
    tel = bytes.fromhex(f"{tel_type} 0800 03 00000000 0000")
    entries = (
        "tables: [{table: way, match: {hdr.ethernet.dst: 0x02aa00000001}, action: to, params: {port: 2}},"
        "{table: sink, match: {std.egress_spec: 2}, action: end}]"
    )
    said = trail(text, DATA + tel + bytes(18) + b"sum", entries=entries).where(Departure("field", "payload"))
    assert said == (
        "ethernet, hops[3] are valid at the end and emitted in front of the payload; tel, hops[0], hops[1], hops[2] "
        f"were made invalid, the last in {line(text, 'hdr.hops[2].setInvalid();')}"
    )


def test_no_line_is_missed_for_a_field_whose_header_is_assigned_whole():
    text = HEAVY.replace("std.egress_spec = UP;", "std.egress_spec = UP; hdr.ethernet = hdr.ethernet;")
    assert "No line" not in trail(text, load(1)).where(Departure("field", "ethernet.src"))
    assert "No line" in trail(HEAVY, load(1)).where(Departure("field", "ethernet.src"))


def test_a_condition_in_an_action_that_kept_a_field_is_told_and_no_checksum():
    frame = routed()
    old = "        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;"
    text = ROUTER.replace(old, f"        if (hdr.udp.isValid()) {{ {old.strip()} }}")
    said = trail(text, frame, entries=ROUTE).where(Departure("field", "ipv4.ttl"))
    assert "hdr.ipv4.ttl - 1; }' would set ipv4.ttl, and does not run: false (hdr.udp.isValid 0)" in said
    assert "hdr.ipv4.id, hdr.ipv4.flags" not in said


MEAN = """\
class Hook:
    def __init__(self, workers):
        self.workers = workers
        self.sums = []

    def add(self, value):
        self.sums.append(twice(value) + 1)

    def mean(self):
        total = sum(self.sums)
        return total // self.workers


def twice(value):
    return value * 3


HOOKS = []


def create(workers):
    HOOKS[:] = [Hook(workers)]


def add(value):
    HOOKS[0].add(value)


def mean():
    return HOOKS[0].mean()
"""


def python_trail(tmp_path, text, *calls, given=""):
    path = tmp_path / "hook.py"
    path.write_text(text)
    with StudentCode(path) as code:
        for name, *arguments in calls:
            code.call(name, *arguments)
        return where_in_python(text, code.trail(anew=True), given)


def test_a_result_is_followed_to_the_lines_of_earlier_calls(tmp_path):
    said = python_trail(tmp_path, MEAN, ("create", 4), ("add", 5), ("mean",), given="    return HOOKS[0].mean()\n")
    assert said == (
        f"{line(MEAN, 'return total // self.workers').capitalize()} returns 4 (total 16, self.workers 4). "
        f"total is what {line(MEAN, 'total = sum(self.sums)')} sets: 16 (self.sums [16]). "
        f"Hook.sums is what {line(MEAN, 'self.sums.append(twice(value) + 1)')} sets: [16] (self.sums [], value 5). "
        f"{line(MEAN, 'return value * 3').capitalize()} returns 15 (value 5). "
        f"Hook.sums is what {line(MEAN, 'self.sums = []')} sets: []"
    )


def test_a_line_that_raises_is_told_and_no_address_is(tmp_path):
    text = MEAN.replace("self.sums = []", "self.sums, self.other = None, object()")
    path = tmp_path / "hook.py"
    path.write_text(text)
    with StudentCode(path) as code:
        code.call("create", 4)
        with pytest.raises(Wrong):
            code.call("add", 5)
        said = where_in_python(text, code.trail(anew=True))
    assert "raises AttributeError" in said
    assert " at 0x" not in said


def test_an_exception_is_told_from_the_innermost_function_outwards(tmp_path):
    text = "def port(ports, to):\n    return ports[to]\n\n\n"
    text += "def ask(ports):\n    to = 'h' + '2'\n    return port(ports, to)\n"
    path = tmp_path / "ask.py"
    path.write_text(text)
    with StudentCode(path) as code:
        with pytest.raises(Wrong):
            code.call("ask", {"h1": 1})
        said = where_in_python(text, code.trail())
    assert said.index("'return ports[to]' raises KeyError") < said.index(
        "to is what line 6, 'to = 'h' + '2'' sets: 'h2'"
    )


def test_a_loop_that_leaves_out_what_is_dead_is_told(tmp_path):
    text = """dead = set()


def look(names):
    for name in names:
        dead.add(name)


def tick(names, p4rt):
    look(names[:1])
    root = next(name for name in names if name not in dead)
    p4rt.insert(root, [])
"""
    path = tmp_path / "controller.py"
    path.write_text(text)
    with StudentCode(path) as code:
        code.call("tick", ["s1", "s2"], Remote("p4rt"), services={"p4rt": lambda *_, **__: None})
        wrong = WrongEntry("wrong", "", EntryPlace("s2", "", how="asked"))
        said = where_in_python(text, code.trail(), "", wrong)
    assert "root is what line 11, " in said
    assert "'dead.add(name)' would change dead for 's2': line 5, 'for name in names:' took 's1'" in said


NEEDLESS = """dead = set()


def build(names):
    place = len(names) - 1
    return names[place]


def tick(names):
    dead.add(names[0])
    if not dead:
        return None
    return build(names)
"""


def test_what_decided_that_a_call_did_something_is_told(tmp_path):
    path = tmp_path / "controller.py"
    path.write_text(NEEDLESS)
    with StudentCode(path) as code:
        code.call("tick", ["s1", "s2"])
        said = where_in_python(NEEDLESS, code.trail(), "", WrongChange("a change that is not needed", ""))
        plain = where_in_python(NEEDLESS, code.trail())
    begin = "Line 13, 'return build(names)' returns 's2', since line 11, 'if not dead:' is false (dead {'s1'}). "
    assert said.startswith(f"{begin}module.dead is what line 10, 'dead.add(names[0])' sets: ")
    assert "place is what" not in said
    assert "Line 13" not in plain
    assert "lace is what" in plain


def test_a_trail_has_at_most_six_sentences(tmp_path):
    text = (
        "def f(a):\n" + "".join(f"    {new} = {old} + 1\n" for old, new in pairwise("abcdefghijk")) + "    return k\n"
    )
    path = tmp_path / "f.py"
    path.write_text(text)
    with StudentCode(path) as code:
        code.call("f", 1)
        said = where_in_python(text, code.trail())
    assert said.startswith("k is what line 11, 'k = j + 1' sets: 11 (j 10). ")
    assert said.count(" sets: ") == 5


def test_a_trail_of_a_long_call_ends_and_leaves_the_process_alone(tmp_path):
    text = "def count(n):\n    total = 0\n    for one in range(n):\n        total = total + one\n    return total\n"
    path = tmp_path / "count.py"
    path.write_text(text)
    with StudentCode(path, ProcessLimits(cpu_s=2)) as code:
        code.call("count", 3_000_000)
        assert code.trail() == []
        code.call("count", 20_000)
        assert "'total = total + one' sets: 199990000" in where_in_python(text, code.trail())
        assert code.call("count", 3) == 3


CONTROLLER = """\
written = {}


def entry(table, match, action, **params):
    return {"table": table, "match": match, "action": action, "params": params}


def group(number, replicas):
    return {"group": number, "replicas": replicas}


def entries_of(network, switch):
    made = []
    for bit, port in enumerate(network[switch]):
        match = {"std.ingress_port": port, "hdr.ipv4.src": 10 + port, "hdr.inc.job": 7, "hdr.inc.epoch": 2}
        made.append(entry("peer", match, "child", bit_=1 << port, lowest=int(bit == 0)))
    made.append(group(3, [(port, port) for port in network[switch]]))
    if switch == "s1":
        made.append(entry("job", {"hdr.inc.job": 7, "hdr.inc.epoch": 2}, "root", full=3))
    return made


def install(network, p4rt):
    for switch in list(network)[:2]:
        entries = entries_of(network, switch)
        p4rt.insert(switch, entries)
        written[switch] = entries


def change(network, p4rt):
    for switch, entries in written.items():
        p4rt.delete(switch, entries[1:])
"""
NETWORK = {"s1": [1, 4], "s2": [2], "s3": [5]}


def controller_trail(tmp_path, place, *, ends=100, says="wrong"):
    """The text about an entry, from a controller of which so many calls of p4rt get an answer."""
    path, asked = tmp_path / "controller.py", []
    path.write_text(CONTROLLER)

    def service(*_, **__):
        asked.append(1)
        if len(asked) > ends:
            raise Wrong("no more")

    with StudentCode(path) as code:
        for name in ("install", "change"):
            with suppress(Wrong):
                code.call(name, NETWORK, Remote("p4rt"), services={"p4rt": service})
        wrong = Wrong(says) if place is None else WrongEntry(says, "", place)
        return where_in_python(CONTROLLER, code.trail(anew=True), "", wrong)


def test_a_wrong_parameter_of_an_entry_is_followed_to_its_line(tmp_path):
    said = controller_trail(tmp_path, EntryPlace("s1", key_of("peer", 4, 14, 7, 2), ("bit_",)))
    made = line(CONTROLLER, 'made.append(entry("peer", match, "child", bit_=1 << port, lowest=int(bit == 0)))')
    assert said.startswith(f"{made.capitalize()} makes that entry (port 4)")
    assert 'entry("job"' not in said


def test_a_wrong_key_of_an_entry_is_followed_to_its_line(tmp_path):
    said = controller_trail(tmp_path, EntryPlace("s2", key_of("peer", 2, 12, 7, 2), ("hdr.ipv4.src",)))
    assert "match is what" in said
    assert "'hdr.ipv4.src': 12" in said


def test_an_entry_that_is_missing_is_told_with_the_condition_that_kept_it(tmp_path):
    said = controller_trail(tmp_path, EntryPlace("s2", "job", action="root"))
    assert "would make it, and makes none for s2: line 18, 'if switch == \"s1\":' is false (switch 's2')" in said


def test_a_switch_that_gets_nothing_is_told_with_the_loop_that_leaves_it_out(tmp_path):
    said = controller_trail(tmp_path, EntryPlace("s3", "job", action="root"))
    assert said.startswith("p4rt.insert was called for s1, s2, never for s3. ")
    assert "takes 's1', 's2'" in said


def test_an_entry_that_stays_is_told_with_what_was_deleted(tmp_path):
    said = controller_trail(tmp_path, EntryPlace("s1", key_of("peer", 1, 11, 7, 2)))
    assert "'p4rt.delete(switch, entries[1:])' deletes 3 entries of s1, not that one" in said


def test_an_entry_that_is_gone_is_told_with_who_deleted_it(tmp_path):
    said = controller_trail(tmp_path, EntryPlace("s1", key_of("peer", 4, 14, 7, 2), how="deleted"))
    assert "'p4rt.delete(switch, entries[1:])' deletes it (switch 's1')" in said
    assert "Before that, line 26, 'p4rt.insert(switch, entries)' inserts it" in said


def test_a_call_that_the_grader_ended_is_told_to_its_last_question(tmp_path):
    said = controller_trail(tmp_path, EntryPlace("s2", "", how="asked"), ends=1)
    assert said.startswith("Line 26, 'p4rt.insert(switch, entries)' asks it")


def test_a_line_of_the_part_that_the_grader_calls_is_told_if_it_is_gone(tmp_path):
    given = "# How the grader calls it: leave this as it is.\nNAMES = {}\n\n\n"
    given += "def create(a):\n    NAMES[a] = object()\n\n\ndef step(a):\n    return NAMES[a]\n"
    path = tmp_path / "worker.py"
    path.write_text(given.replace("NAMES[a] = o", "NAMES[0] = o"))
    with StudentCode(path) as code:
        code.call("create", 1)
        with pytest.raises(Wrong):
            code.call("step", 1)
        said = where_in_python(path.read_text(), code.trail(anew=True), given)
    assert said.startswith("The line 'NAMES[a] = object()' of the skeleton is not there")


STALE = """written = {}


def install(network, p4rt):
    for switch in network:
        written[switch] = [{"table": "job", "match": {"job": 7}}]
        p4rt.insert(switch, written[switch])


def change(network, p4rt):
    for switch in written:
        if switch != "s2":
            p4rt.delete(switch, written[switch])
"""


def stale_trail(tmp_path, text, wrong):
    path = tmp_path / "stale.py"
    path.write_text(text)
    with StudentCode(path) as code:
        for name in ("install", "change"):
            code.call(name, ["s1", "s2"], Remote("p4rt"), services={"p4rt": lambda *_, **__: None})
        return where_in_python(text, code.trail(anew=True), "", wrong)


def test_an_entry_that_nothing_deletes_is_told_with_the_condition_that_kept_it(tmp_path):
    said = stale_trail(tmp_path, STALE, WrongEntry("wrong", "", EntryPlace("s2", key_of("job", 7))))
    assert said.startswith(
        "Nothing deletes an entry of s2 after that. "
        "Line 13, 'p4rt.delete(switch, written[switch])' does not run for s2: "
        "line 12, 'if switch != \"s2\":' is false (switch 's2')"
    )


def test_an_entry_that_nothing_deletes_is_told_with_the_loop_that_leaves_it_out(tmp_path):
    text = STALE.replace("in written:", "in list(written)[:1]:")
    said = stale_trail(tmp_path, text, WrongEntry("wrong", "", EntryPlace("s2", key_of("job", 7))))
    assert "Line 11, 'for switch in list(written)[:1]:' takes 's1', not s2" in said


def test_an_entry_that_is_there_already_is_told_with_the_line_that_inserted_it_before(tmp_path):
    text = STALE.replace("for switch in network", "for switch in ['s1', 's1']")
    said = stale_trail(
        tmp_path, text, WrongEntry("", "", EntryPlace("s1", key_of("job", 7), ("hdr.job",), "", "twice"))
    )
    assert said.startswith("Line 7, 'p4rt.insert(switch, written[switch])' has inserted it before")


def test_what_mends_it_stands_before_advice_and_what_led_there_behind():
    said = explained("it is 3. Divide by 2. Once.", Origin("A change in line 4 mends it", "Line 5 sets it"))
    assert said == "it is 3. A change in line 4 mends it. Divide by 2. Once. Traced back: Line 5 sets it"
    assert explained("it is 3", Origin(steps="Line 5 sets it")) == "it is 3. Traced back: Line 5 sets it"
    assert explained("it is 3.", Origin()) == "it is 3."


def test_a_drop_that_a_later_line_undoes_is_told():
    drop = "            mark_to_drop(std);\n        } else if (route.apply().hit) {"
    wrong = ROUTER.replace(drop, drop.replace("} else if (", "}\n        if (hdr.ipv4.isValid() && "))
    assert wrong != ROUTER
    sent, old = Departure("sent", drop=True), bytearray(routed())
    old[22] = 1  # ttl
    said = trail(wrong, bytes(old), entries=ROUTE).undone(sent)
    assert re.match(r"line 6\d, 'mark_to_drop\(std\);' drops it, and line", said)
    assert "'std.egress_spec = port;', which runs after it, sends the frame all the same" in said
    assert not trail(wrong, routed(), entries=ROUTE).undone(sent)  # nothing dropped it
    assert not trail(ROUTER, bytes(old), entries=ROUTE).undone(sent)
    assert not trail(wrong, bytes(old), entries=ROUTE).undone(Departure("sent"))
