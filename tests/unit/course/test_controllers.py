"""Requests of students' controllers to switches: the server's answers are returned, and nothing ends the grader."""

from types import SimpleNamespace

import finsy as fy
import numpy as np
import pytest
from finsy.p4entity import P4Replica

from p4reduce.base.errors import ControllerError
from p4reduce.control_plane.connection import Connection
from p4reduce_course.controllers.diagnose import Book, entry_key, replicas_of
from p4reduce_course.controllers.room import Held, Room, layout, told, wired
from p4reduce_course.frame.grading import grade
from p4reduce_course.frame.lab import LabStep, hidden, run_steps
from p4reduce_course.frame.report import TooSlow, Wrong
from p4reduce_course.lab06 import KINDS, draw
from p4reduce_course.sandbox.messages import Remote
from p4reduce_course.sandbox.process import StudentCode, Untold
from tests.support.labs import Mutant, mutants, spoilt

LINKS = [("h1", "s1"), ("h2", "s1"), ("h3", "s2"), ("s1", "s2"), ("s1", "s3"), ("s2", "s3")]
HELD = Held(election=9, first_group=3, first_rid=3)


@pytest.fixture(scope="module")
def topology():
    return wired("three", LINKS, np.random.default_rng(1))


@pytest.fixture
def room(topology):
    with Room(topology, HELD) as room:
        yield room


@pytest.fixture(scope="module")
def connected(topology):
    with Room(topology, HELD) as room:
        room.sessions.service("open", "s1", 10)
        yield room


def job_entry(**more):
    params = {"generation": 1, "base": 0, "slots": 4, "full": 3, "group": 3, "stats": 0} | more
    match = {"hdr.inc.job": 1, "hdr.inc.epoch": 1}
    return {"table": "job", "match": match, "action": "root", "params": params}


def test_a_tree_of_nearest_switches(topology):
    found = layout(topology, "s3", ["h1", "h3"])
    assert found.parent == {"h1": "s1", "s1": "s3", "h3": "s2", "s2": "s3"}
    assert layout(topology, "s3", ["h1"], frozenset({"s2"})).parent == {"h1": "s1", "s1": "s3"}
    assert set(told(topology)["switches"]["s1"]["ports"].values()) == {"h1", "h2", "s2", "s3"}


def test_drawn_networks_have_what_mistakes_need():
    """With any seed: a tree of several switches except in the first, an idle switch, and a name within another's."""
    for seed in range(20):
        idle = 0
        for number in range(len(KINDS)):
            topology, job = draw(hidden("06", "ana", bytes([seed])), number)
            tree = layout(topology, job["root"], job["workers"])
            assert number == 0 or len(tree.aggregators) > 1
            assert max(map(len, tree.children.values())) <= 32
            idle += len(topology.switches) - len(tree.aggregators)
        assert idle
        assert "s1" in tree.children
        assert [name for name in tree.children if name.startswith("s1") and name != "s1"]


def test_what_was_written_can_be_read(room):
    call = room.sessions.service
    call("open", "s1", 10)
    call("insert", "s1", [{"group": 3, "replicas": [(1, 3), (2, 4)]}, job_entry()])
    (found,) = call("read", "s1", "job")
    assert found == job_entry()
    edge = {"table": "edge", "match": {"std.ingress_port": 9}, "action": "host", "params": {"ip": 167772161}}
    call("insert", "s1", [edge])
    assert edge in call("read", "s1", "edge")
    assert {"group": 3, "replicas": [(1, 3), (2, 4)]} in call("read", "s1", "groups")
    assert call("slot", "s1", 0)["bitmap"] == 0
    call("delete", "s1", [job_entry()])
    assert call("read", "s1", "job") == []
    assert room.sessions.book.jobs("s1") == {}


def test_a_truth_value_is_a_number_as_in_python(room):
    call = room.sessions.service
    call("open", "s1", 10)
    call("insert", "s1", [job_entry(full=True, stats=False)])
    assert call("read", "s1", "job") == [job_entry(full=1)]


def test_entries_of_another_controller_that_are_deleted_are_noted(room):
    """Not those that are not there, which a controller may delete to be sure, and not its own."""
    call, copy = room.sessions.service, {"table": "replica", "match": {"std.egress_rid": 2}}
    call("open", "s1", 10)
    call("insert", "s1", [{"group": 3, "replicas": [(1, 3)]}])
    call("delete", "s1", [{"group": 3}, {"group": 4}, {"table": "replica", "match": {"std.egress_rid": 9}}])
    assert room.sessions.book.taken == []
    port = room.topology.neighbours("s1").index("h1") + 1
    call("delete", "s1", [{"group": 1}, copy, {"table": "edge", "match": {"std.ingress_port": port}}])
    assert [entry_key(entity) for _, entity in room.sessions.book.taken] == ["group 1", "replica 2", f"edge {port}"]


def test_a_copy_without_a_replication_id_can_be_read(room):
    """finsy decodes such a copy as its port alone: the grader once ended with an AttributeError."""
    call = room.sessions.service
    call("open", "s1", 10)
    call("insert", "s1", [{"group": 3, "replicas": [(1, 0), (2, 4)]}])
    assert {"group": 3, "replicas": [(1, 0), (2, 4)]} in call("read", "s1", "groups")
    assert room.sessions.book.group("s1", 3) == [(1, 0), (2, 4)]


def test_a_lower_election_id_writes_nothing(room):
    with pytest.raises(Untold, match="another controller is in charge"):
        room.sessions.service("open", "s1", 8)
    with pytest.raises(Untold, match="is not open"):
        room.sessions.service("insert", "s1", [job_entry()])


@pytest.mark.parametrize(
    ("method", "arguments", "said"),
    [
        ("insert", ("s1", [job_entry(group=1 << 17)]), "16"),
        ("insert", ("s1", [job_entry(generation=-1)]), "invalid value"),
        ("insert", ("s1", [job_entry(full="all")]), "'all' is no number"),
        ("insert", ("s1", [job_entry(full=1.0)]), "1.0 is no number"),
        ("insert", ("s1", [job_entry(), job_entry()]), "ALREADY_EXISTS"),
        ("insert", ("s1", [{"table": "job"}]), "match"),
        ("insert", ("s1", [{"table": ["job"], "match": {}, "action": "root"}]), "is no name"),
        ("insert", ("s1", [{"table": "job", "match": [1], "action": "root"}]), "job"),
        ("insert", ("s1", [{"group": 3, "replicas": [1, 2]}]), "multicast group 3"),
        ("insert", ("s1", [{"group": 1, "replicas": []}]), "ALREADY_EXISTS"),
        ("insert", ("s1", [{"group": 1 << 70}]), "multicast group"),
        ("insert", ("s1", [7]), "an entry is"),
        ("insert", ("s1", {}), "give a list"),
        ("insert", ("s1", [job_entry()] * 5000), "at most"),
        ("insert", ("s9", []), "there is no switch"),
        ("insert", (["s1"], []), "there is no switch"),
        ("open", ("s1", 11), "is open already"),
        ("open", ("s2", "high"), "election id"),
        ("open", ("s2", 1 << 128), "election id"),
        ("read", ("s1", "nothing"), "nothing"),
        ("read", ("s1", 3), "is no name"),
        ("slot", ("s1", -1), "slot"),
        ("slot", ("s1", 1 << 30), "OUT_OF_RANGE|INVALID|NOT_FOUND"),
        ("close", (), "p4rt has no close"),
    ],
)
def test_what_is_none_is_told(connected, method, arguments, said):
    with pytest.raises(Untold, match=said) as told:
        connected.sessions.service(method, *arguments)
    assert "127.0.0.1" not in str(told.value)
    assert connected.sessions.book.jobs("s1") == {}
    assert connected.sessions.service("read", "s1", "job") == []


def test_code_that_calls_for_ever_is_ended(room, tmp_path):
    (tmp_path / "a.py").write_text("def f(p4rt):\n while True:\n  try: p4rt.none()\n  except Exception: pass\n")
    with StudentCode(tmp_path / "a.py") as code, pytest.raises(Wrong, match="does a loop never end"):
        code.call("f", Remote("p4rt"), services={"p4rt": room.sessions.service})


def test_an_asker_that_asks_for_no_service_is_told(tmp_path):
    message = b'{"__items__": [["ask", ["x"]], ["method", 1], ["arguments", 2]]}\n'
    (tmp_path / "a.py").write_text(f"import os\ndef f():\n    os.write(4, {message!r})\n    return 1\n")
    with StudentCode(tmp_path / "a.py") as code:
        assert code.call("f", services={"p4rt": lambda *_: None}) == 1


@pytest.mark.soak  # test_solutions.py has the mistake
def test_slots_that_are_not_cleared_show_on_packets(tmp_path, monkeypatch):
    """Packets confirm the check of entries: if members change, old contributions block new ones."""
    monkeypatch.setattr("p4reduce_course.lab10.check_cleared", lambda *_: None)
    mutant = next(mutant for mutant in mutants("10") if mutant.name == "slots not cleared")
    report = grade(spoilt("10", mutant, tmp_path / "mine"), only=["leaf"])
    said = [check.finding.said for check in report.checks if check.finding]
    assert len(said) == 4
    assert all("reason 11: wrong seq" in text for text in said), said


DELETED = """\
    started = start(network, new, p4rt)
    for switch, entries in given["written", old["job"]].items():
        p4rt.delete(switch, entries[::-1])
    return started
"""
PEER = '"hdr.ipv4.src": to["ip"], **key}'
INSTALL = "for switch in set(parents.values())"
CHANGE = DELETED.partition("\n")[2].partition("    return")[0] + "    return start(network, new, p4rt)\n"
MISSING = [
    ("06", f"port, {PEER}", f"bit + 1, {PEER}", "There is one with its address for port "),
    ("06", PEER, PEER.replace("to[", 'network["switches"][switch]['), "There is one for its port with the address 10."),
    ("06", f"{INSTALL}:", f'{INSTALL} - {{network["root"]}}:', "is the job's root, and has no entries"),
    ("07", CHANGE, DELETED, "it was written, and was deleted or replaced later"),
]


@pytest.mark.parametrize(("number", "old", "new", "words"), MISSING)
def test_an_entry_that_is_missing_is_told_with_what_stands_there(number, old, new, words, tmp_path):
    report = grade(spoilt(number, Mutant("missing", "controller.py", old, new, ()), tmp_path / "mine"))
    assert words in next(check.finding.said for check in report.checks if check.finding is not None)


@pytest.mark.parametrize("reason", ["CANCELLED: no reason given", "no answer within 300 s; is the switch running?"])
def test_a_switch_that_has_no_time_to_answer_is_not_the_students_mistake(connected, monkeypatch, reason):
    async def insert(_, __):
        raise ControllerError(f"switch s1: adding 1 entries: {reason}")

    monkeypatch.setattr(Connection, "insert", insert)
    with pytest.raises(TooSlow, match="the machine was too busy"):
        connected.sessions.service("insert", "s1", [job_entry()])


def test_what_a_busy_machine_left_undone_is_in_the_notes():
    def late():
        raise TooSlow("a call was not answered")

    task = SimpleNamespace(only={"sums"}, failures=[])
    (check,) = run_steps(task, [LabStep("sums", "both", late)])
    assert check.passed is False
    assert "not finished" in task.failures[0]


def test_what_a_switch_holds_is_found_by_table_as_in_all_its_entries():
    random, book = np.random.default_rng(3), Book()
    named = {"job": ("job", "epoch"), "peer": ("ingress_port", "job", "epoch"), "replica": ("egress_rid",)}
    for _ in range(400):
        table = str(random.choice(["group", *named]))
        numbers = [int(number) for number in random.integers(1, 4, 5)]
        if table == "group":
            copies = [P4Replica(port, instance=rid) for port, rid in zip(numbers[:2], numbers[2:4], strict=True)]
            entity = fy.P4MulticastGroupEntry(numbers[0], replicas=copies)
        else:
            match = fy.P4TableMatch(zip(named[table], numbers, strict=False))
            action = fy.P4TableAction("a.act", group=numbers[3], base=numbers[4])
            entity = fy.P4TableEntry(f"a.{table}", match=match, action=action if random.random() < 0.9 else None)
        (book.add if random.random() < 0.6 else book.remove)("s1", [entity])
        held = list(book.held.get("s1", {}).values())
        for name in named:
            mine = [
                entry
                for entry in held
                if isinstance(entry, fy.P4TableEntry) and entry.table_id == f"a.{name}" and entry.action
            ]
            wanted = sorted((str(dict(entry.match)), str(dict(entry.action.args))) for entry in mine)
            assert sorted((str(row.match), str(row.params)) for row in book.rows("s1", name)) == wanted
        groups = [entry for entry in held if isinstance(entry, fy.P4MulticastGroupEntry)]
        assert book.groups("s1") == {entry.multicast_group_id: replicas_of(entry) for entry in groups}
    assert book.behind
    assert book.undermined
