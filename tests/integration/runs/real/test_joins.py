"""Ranks that join a group in real time, on datagrams over loopback; ``make soak-kills-real`` mixes them with deaths."""

import json
import sys

import pytest

from p4reduce.runs.experiment import Experiment
from p4reduce.runs.real.run import run_script
from tests.support.kills.invariants import check
from tests.support.kills.played import read

OPERATIONS, ELEMENTS, SEED = 16, 300, 5


def play(folder, joins, *, ranks=3, awaits=None, faults=None, topology="star:hosts=4", plan="steiner", **more):
    """``awaits``: operation before which the initial ranks wait, and the joining ranks that must have asked by then."""
    given = {"topology": topology, "time": "real", "links": "udp", "lanes": 64, "plan": plan, "workers": ranks}
    command = [sys.executable, "-m", "tests.support.kills.played", str(folder), str(SEED), str(OPERATIONS)]
    lines = []
    done = run_script(
        Experiment(**{**given, "on_failure": "shrink", **more}),
        [*command, str(ELEMENTS)],
        emit=lambda *line: lines.append(line),
        timeout_s=200,
        joins=joins,
        FAULTS=json.dumps(faults or {}),
        AWAIT=json.dumps({"5": {"3": "held"}} if awaits is None else awaits),
    )
    assert done.result is not None, lines
    return done, read(folder, ranks + len(joins)), lines


@pytest.mark.soak
@pytest.mark.parametrize("more", [{}, {"plan": "ring", "on_failure": "abort"}], ids=str)
def test_one_more_joins_between_two_operations(tmp_path, more):
    done, got, _ = play(tmp_path, [(0.0, "h4")], **more)
    check(got, {0, 1, 2, 3}, SEED, OPERATIONS, ELEMENTS)
    (decision,) = done.result.network.membership
    assert (decision.joined, decision.outcome) == ((3,), "raised")
    assert decision.operation <= 6
    assert {own.ended for own in got.values()} == {"well"}
    assert got[3].results[-1][1] == (0, 1, 2, 3)
    assert (done.outside, done.result.network.workers) == ({}, 4)


def test_two_join_and_another_one_dies(tmp_path):
    more = {"topology": "star:hosts=5", "awaits": {"5": {"3": "knocked", "4": "held"}}, "faults": {"1": {"5": "kill"}}}
    done, got, _ = play(tmp_path, [(0.0, "h4"), (0.0, "h5")], **more)
    check(got, {0, 2, 3, 4}, SEED, OPERATIONS, ELEMENTS)
    decisions = done.result.network.membership
    assert sorted(rank for one in decisions for rank in one.joined) == [3, 4]
    assert [one.lost for one in decisions if one.lost] == [{1: "ended with signal SIGKILL"}]


@pytest.mark.soak
@pytest.mark.parametrize("moment", ["begun", "knocked", "admitted", "-1", "8"])
def test_one_that_is_killed_while_it_joins_holds_up_nobody(tmp_path, moment):
    awaits = {"begun": {}, "knocked": {"5": {"3": "knocked"}}}.get(moment)  # otherwise they are told of it
    done, got, _ = play(tmp_path, [(0.0, "h4")], awaits=awaits, faults={"3": {moment: "kill"}})
    check(got, {0, 1, 2}, SEED, OPERATIONS, ELEMENTS)
    lost = {rank: why for one in done.result.network.membership for rank, why in one.lost.items()}
    assert (lost or done.outside) == {3: "ended with signal SIGKILL"}
    assert bool(lost) == (moment not in {"begun", "knocked"})


@pytest.mark.soak
def test_a_host_that_begins_anew_has_ended_before(tmp_path):
    done, got, _ = play(tmp_path, [(0.0, "h1")])
    check(got, {1, 2, 3}, SEED, OPERATIONS, ELEMENTS)
    assert [one.lost for one in done.result.network.membership if one.lost] == [{0: "was started anew"}]


@pytest.mark.soak
def test_whom_no_tree_has_room_for_is_refused_and_the_others_go_on(tmp_path):
    done, got, _ = play(tmp_path, [(0.0, "h4")], awaits={"5": {"3": "refused"}}, window=1500)
    check(got, {0, 1, 2}, SEED, OPERATIONS, ELEMENTS)
    assert done.result.network.membership == []
    assert "slots" in done.outside[3]
