"""Hosts that join a group in virtual time; ``make soak-kills`` mixes them with deaths."""

import numpy as np
import pytest

from p4reduce.group.errors import ClusterError, GroupChanged
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.runs.virtual.incidents import Incident
from tests.support.kills.virtual import run

MS = 1_000_000_000
STEPS = 8


# 180: all die, one of them with its result; 1071: a host restarts while the members stop
@pytest.mark.parametrize("seed", [12, 180, 1071])
def test_random_joins_among_deaths(seed):
    run(seed)


def script(comm):
    """All-reduces of powers of two, which identify contributors; joining ranks get the step number as state."""
    sums, heard, step, news = {}, [], 0, comm.joined
    while step < STEPS:
        try:
            if news:
                state = np.array([step], np.int64)
                comm.broadcast(state)
                step, news = int(state[0]), False
            array = np.full(3_000, 2.0 ** comm.members[comm.rank], np.float32)
            comm.compute(0.001)
            comm.all_reduce(array)
        except GroupChanged as change:
            heard.append((change.joined, tuple(change.lost), change.members))
            news = news or bool(change.joined)
            continue
        assert (array == array[0]).all()
        assert {*comm.contributors} <= {*comm.members}
        sums[step] = int(array[0])
        step += 1
    return sums, heard, comm.rank, comm.size


def play(*incidents, **options):
    chosen = {"topology": "star:hosts=4", "lanes": 64, "on_failure": "shrink", "rate": "1G", **options}
    with Cluster(Experiment(**chosen), incidents=incidents) as cluster:
        return cluster.run_surviving(script), cluster.decisions, cluster.outside


@pytest.mark.parametrize("options", [{"plan": "steiner"}, {"plan": "ring"}, {"numbers": "fixed", "scale": 2.0**20}])
def test_one_more_joins_between_two_operations(options):
    found, (decision,), outside = play(Incident(2 * MS, "join", "h4"), workers=3, **options)
    sums, heard, _, _ = found[0]
    first = min(found[3][0])
    assert 0 < first < STEPS
    assert sums == {step: 7 if step < first else 15 for step in range(STEPS)}
    assert heard == [((3,), (), (0, 1, 2, 3))]
    assert all(own == (sums, heard, rank, 4) for rank, own in found.items() if rank < 3)
    assert found[3] == (dict.fromkeys(range(first, STEPS), 15), [], 3, 4)
    assert (decision.joined, decision.outcome, decision.operation) == ((3,), "raised", first)
    assert not outside


@pytest.mark.parametrize(("kind", "back_ms"), [("process", 7), ("host", 17), ("host", 4)])
def test_a_dead_one_comes_back_under_a_new_rank(kind, back_ms):
    found, decisions, _ = play(Incident(2 * MS, kind, "h1"), Incident(back_ms * MS, "join", "h1"))
    assert [(one.joined, tuple(one.lost)) for one in decisions] == [((), (0,)), ((4,), ())]
    assert decisions[-1].after == (1, 2, 3, 4)
    assert set(found) == {1, 2, 3, 4}
    assert found[1][0][STEPS - 1] == found[4][0][STEPS - 1] == 2 + 4 + 8 + 16


def test_a_host_that_begins_anew_has_ended_before():
    found, decisions, _ = play(Incident(2 * MS, "join", "h2"))
    assert [reason for one in decisions for reason in one.lost.items()] == [(1, "was started anew")]
    assert set(found) == {0, 2, 3, 4}
    assert found[4][0][STEPS - 1] == 1 + 4 + 8 + 16


def test_a_group_of_one_grows():
    found, _, _ = play(Incident(2 * MS, "join", "h2"), Incident(3 * MS, "join", "h3"), workers=1)
    assert [own[0][STEPS - 1] for _, own in sorted(found.items())] == [7, 7, 7]


def test_who_comes_too_late_or_cannot_be_reached_stays_outside():
    _, decisions, outside = play(Incident(10_000 * MS, "join", "h4"), workers=3)
    assert (len(decisions), outside) == (0, {3: "the others ended before"})
    _, decisions, outside = play(Incident(1, "link", "h4-s1"), Incident(2 * MS, "join", "h4"), workers=3)
    assert outside.keys() == {3}
    assert not any(one.joined for one in decisions)


def test_a_newcomer_whom_no_tree_has_room_for_does_not_end_the_others(monkeypatch):
    from p4reduce.base.errors import PlanError
    from p4reduce.control_plane.controller import Controller

    start = Controller.start_job

    def full(self, request, *more):
        if len(request.workers) > 3:
            raise PlanError("no slots are left")
        return start(self, request, *more)

    monkeypatch.setattr(Controller, "start_job", full)
    found, decisions, outside = play(Incident(2 * MS, "join", "h4"), workers=3)
    assert found[0][0] == dict.fromkeys(range(STEPS), 7)
    assert not any(one.joined for one in decisions)
    assert outside == {3: "4 ranks cannot go on: no slots are left"}


def test_a_host_that_cannot_join_is_named():
    for what in ("h9", "s1"):
        with pytest.raises(ClusterError, match=f"{what!r} is no host for workers"):
            play(Incident(MS, "join", what))
