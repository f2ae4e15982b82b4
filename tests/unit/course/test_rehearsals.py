"""Looks at changed code before it is graded: networks without packets, and ranks without a network."""

import numpy as np
import pytest

from p4reduce.group.errors import ClusterError
from p4reduce_course import lab07, lab09, lab10
from p4reduce_course.catalogue import find
from p4reduce_course.controllers.rehearsal import Rehearsal
from p4reduce_course.controllers.room import Held, taken, wired
from p4reduce_course.culprit import passes
from p4reduce_course.frame.lab import EXAMPLE, PRACTICE, GradingTask, LabStep, hidden, personal
from p4reduce_course.frame.report import Wrong
from p4reduce_course.python_trail import WrongEntry
from p4reduce_course.ranks import Ranks, Rehearsed
from p4reduce_course.sandbox.process import StudentCode, Untold
from tests.support.labs import Mutant, solved, spoilt

LABS = {"07": lab07, "10": lab10}
HELD = Held(election=9, first_group=3, first_rid=3)
LINKS = [("h1", "s1"), ("h2", "s2"), ("s1", "s2")]


def task_of(number, folder):
    lab = find(number)
    return GradingTask(
        lab, folder / "skeleton", folder, EXAMPLE, personal(lab.name, EXAMPLE), hidden(lab.name, EXAMPLE, PRACTICE),
        frozenset(part.name for part in lab.parts), explain=False,
    )  # fmt: skip


def steps_of(number, folder, code):
    return LABS[number]._Grader(task_of(number, folder), code, Rehearsal).steps()


@pytest.mark.parametrize("number", LABS)
def test_a_right_controller_passes_without_packets(number, tmp_path):
    folder = solved(number, tmp_path / "mine")
    with StudentCode(folder / "skeleton" / "controller.py") as code:
        for _ in range(2):  # a process is used for many texts
            assert passes(steps_of(number, folder, code))


@pytest.mark.parametrize(
    ("number", "old", "new", "words"),
    [
        ("07", 'fresh((switch, "rid"), FIRST_RID)', "FIRST_RID", "ALREADY_EXISTS"),
        ("07", "entries[::-1]", "entries[:0:-1]", "still there"),
        ("07", '"hdr.inc.epoch": numbers["epoch"]}', "}", "a key is missing"),
        ("07", "ELECTION + 1", "ELECTION", "older controller"),
        ("10", "if not dead & set(written):", "if dead & set(written):", "still waits"),
        ("10", "if not dead & set(written):", "if True:", "waiting for ever"),
        (
            "10",
            "    look(network, p4rt)\n    if not",
            "    dead.clear()\n    look(network, p4rt)\n    if not",
            "in 2 calls",
        ),
        ("10", "lost = {name for switch in dead for", "lost = {name for switch in () for", "no tree has workers of a"),
    ],
)
def test_a_mistake_in_entries_shows_without_packets(number, old, new, words, tmp_path):
    folder = spoilt(number, Mutant("", "controller.py", old, new, ()), tmp_path / "mine")
    texts = []
    with StudentCode(folder / "skeleton" / "controller.py") as code:
        for step in steps_of(number, folder, code):
            try:
                step.run()
            except Wrong as wrong:
                texts.append(wrong.finding.said)
    assert words in texts[0]


def test_a_switch_without_packets_keeps_entries_apart_and_refuses_what_is_there():
    topology = wired("two", LINKS, np.random.default_rng(1))
    room = Rehearsal(topology, HELD)
    with room:
        p4rt = room.sessions.service
        with pytest.raises(Untold, match="election id"):
            p4rt("open", "s1", 9)
        p4rt("open", "s1", 10)
        group = {"group": 7, "replicas": [(1, 3)]}
        p4rt("insert", "s1", [group])
        with pytest.raises(Untold, match="ALREADY_EXISTS"):
            p4rt("insert", "s1", [group])
        assert p4rt("read", "s1", "groups")[-1] == group
        assert len(p4rt("read", "s1", "replica")) == len(taken(topology, "s1", HELD)) - 2
        p4rt("delete", "s1", [group, group])
        p4rt("insert", "s1", [group])
        assert p4rt("slot", "s1", 0)["generation"] == 0
        assert isinstance(room.sessions.about(Wrong("no refusal")), Wrong)


ASKS = """\
def ask(times, p4rt):
    for _ in range(times):
        try:
            p4rt.slot("s1", 0)
        except RuntimeError:
            pass


def take_out(p4rt):
    try:
        p4rt.delete("s1", [])
    except RuntimeError:
        pass
"""


@pytest.mark.parametrize("written", [False, True])
def test_a_dead_switch_may_be_asked_in_one_call_which_a_write_to_it_is_not(written, tmp_path):
    (tmp_path / "a.py").write_text(ASKS)
    with Rehearsal(wired("two", LINKS, np.random.default_rng(1)), HELD) as room, StudentCode(tmp_path / "a.py") as code:
        room.sessions.service("open", "s1", 10)
        for _ in range(4):
            room.call(code, "ask", 2)
        room.die("s1")
        if written:
            room.call(code, "take_out")
        room.call(code, "ask", 4)
        room.call(code, "ask", 0)
        calls = rf"s1, which is dead, in {3 if written else 2} calls .* do not ask it again"
        with pytest.raises(WrongEntry, match=calls) as refusal:
            room.call(code, "ask", 1)
        assert refusal.value.place.how == "asked"


def test_a_refused_entry_is_carried_with_the_finding():
    room = Rehearsal(wired("two", LINKS, np.random.default_rng(1)), HELD)
    with room:
        p4rt = room.sessions.service
        p4rt("open", "s1", 10)
        params = {"mac": 1, "ip": 1, "udp": 1}
        copy = {"table": "replica", "match": {"std.egress_rid": 5}, "action": "address", "params": params}
        with pytest.raises(Untold) as refusal:
            p4rt("insert", "s1", [copy, copy])
        wrong = room.sessions.about(Wrong(f"install: RuntimeError: {refusal.value}"))
        assert isinstance(wrong, WrongEntry)
        assert (wrong.place.switch, wrong.place.key, wrong.place.fields) == ("s1", "replica 5", ("std.egress_rid",))
        assert wrong.place.how == "twice"
        assert not isinstance(room.sessions.about(Wrong("install: KeyError: 1")), WrongEntry)
        p4rt("slot", "s1", 0)  # a later call succeeds: the refusal did not end the student's call
        assert not isinstance(room.sessions.about(Wrong(f"install: {refusal.value}")), WrongEntry)


def test_ranks_are_added_up_without_a_network():
    totals = {}

    def run(rank):
        handles = [rank.all_reduce(np.full(3, rank.rank + call, np.int32), start=0.0) for call in (0, 10)]
        totals[rank.rank] = [handle.wait().tolist() for handle in handles]

    Rehearsed(3).run(run)
    assert totals == {rank: [[3, 3, 3], [33, 33, 33]] for rank in range(3)}


@pytest.mark.parametrize(
    "given",
    [
        lambda rank: np.zeros(rank + 1, np.float32),
        lambda rank: np.zeros(2, np.int32 if rank else np.float32),
        lambda _: np.full(2, 2**30, np.int32),
        lambda rank: None if rank == 2 else np.zeros(2, np.float32),
        lambda rank: 1 / (rank - 1),
    ],
)
def test_ranks_that_differ_or_end_leave_no_rank_waiting(given):
    def run(rank):
        array = given(rank.rank)
        if array is not None:
            rank.all_reduce(array, start=0.0).wait()

    with pytest.raises(Wrong):
        Rehearsed(3).run(run)


def test_a_rank_that_is_done_does_not_end_the_sums_of_others():
    def run(rank):
        handle = rank.all_reduce(np.ones(1, np.float32), start=0.0)
        if rank.rank:
            assert handle.wait() == 3

    for _ in range(50):
        Rehearsed(3).run(run)


def test_a_sum_that_lacks_a_rank_is_an_error():
    group = Rehearsed(2)
    number = group.give(0, np.ones(1, np.float32))
    group.run(lambda _: None)
    with pytest.raises(ClusterError):
        group.sum(number)


def test_a_look_at_changed_ranks_takes_the_solution_and_no_change_that_passes_by_luck(tmp_path):
    """With twice the levels fields overflow, unless the scale is that of the sum of all ranks: half as fine."""
    folder = spoilt("09", Mutant("", "hook.py", "127 // net", "255 // net", ()), tmp_path / "mine")
    lucky = folder / "skeleton" / "lucky.py"
    lucky.write_text(
        (folder / "skeleton" / "hook.py").read_text().replace(".max() / self.levels", ".sum() / self.levels")
    )
    right = solved("09", tmp_path / "right") / "skeleton" / "hook.py"
    outcomes = {}
    for path in (right, lucky):
        with Ranks(path, {}) as ranks:
            ranks.rehearsed = True
            for hasty in (False, True):
                grader = lab09._Grader(task_of("09", folder), ranks, hasty=hasty)
                steps = [LabStep("int8", "", check) for check in (grader.headroom, grader.scale, grader.feedback)]
                outcomes[path.stem, hasty] = [passes([step]) for step in steps]
    assert outcomes["hook", False] == outcomes["hook", True] == [True, True, True]
    assert outcomes["lucky", False][0] is outcomes["lucky", True][0] is False
