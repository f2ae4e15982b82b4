"""Switches that restart in virtual time without entries and registers; ``make soak-kills`` draws more."""

import numpy as np
import pytest

from p4reduce.group.errors import ClusterError
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.runs.virtual.incidents import Incident

MS = 1_000_000_000
AT = 1_300_000_000  # in an all-reduce
STEPS = 30


def script(comm):
    """All-reduces of numbers whose sums are exact, back to back."""
    found = []
    for step in range(STEPS):
        array = np.arange(20_000, dtype=np.float32) + comm.rank + step
        comm.all_reduce(array)
        exact = comm.size * (np.arange(20_000) + step) + sum(range(comm.size))
        assert np.array_equal(array, exact.astype(np.float32))
        found.append(comm.contributors)
    return found


def play(*incidents, **options):
    with Cluster(Experiment(**{"on_failure": "shrink", "lanes": 64, **options}), incidents=incidents) as cluster:
        found = cluster.run_surviving(script)
        epochs = [(job.plan.job, job.plan.epoch) for job in cluster.carrier.jobs]
        used = {name for job in cluster.carrier.jobs for path in job.plan.paths.values() for name in path}
        return found, cluster.decisions, cluster.carrier.restored, epochs, used


@pytest.mark.parametrize(
    ("switch", "options"),
    [
        ("leaf1", {}),
        ("spine1", {"on_failure": "raise"}),
        ("leaf2", {"plan": "ring"}),
        ("leaf2", {"plan": "ps", "faults": {"loss": 0.01}}),
        ("s1", {"topology": "star:hosts=2"}),
    ],
)
def test_a_switch_that_begins_anew_costs_nobody(switch, options):
    found, (decision,), (restored,), epochs, _ = play(Incident(AT, "restart", switch), **options)
    everybody = tuple(range(len(found)))
    assert all(own == [everybody] * STEPS for own in found.values())
    assert (decision.outcome, decision.cause, decision.lost) == ("redone", f"switch {switch} began anew", {})
    assert epochs == [(1, 1)]  # slots are never trusted, so the epoch is always new
    assert AT < restored.noticed_ps <= AT + 3.5 * MS
    assert restored.resumed_ps - restored.noticed_ps <= 4 * MS


def test_one_that_is_away_for_less_than_a_lease_is_waited_for():
    found, (decision,), (restored,), _, used = play(Incident(AT, "restart", "leaf1", away_ps=6 * MS))
    assert len(found) == 8
    assert decision.cause == "switch leaf1 began anew"
    assert restored.noticed_ps == AT + 7 * MS
    assert "leaf1" in used


def test_one_that_is_away_for_longer_has_another_tree_and_may_be_used_again():
    first = play(Incident(AT, "restart", "spine1", away_ps=40 * MS))
    assert [one.cause for one in first[1]] == ["switch spine1 has ended"]
    assert "spine1" not in first[4]
    assert len(first[0]) == 8
    # The switch is back before the other one fails.
    away = Incident(AT, "restart", "spine1", away_ps=13 * MS)
    found, decisions, _, _, used = play(away, Incident(17 * MS, "switch", "spine2"))
    assert [one.cause for one in decisions] == ["switch spine1 has ended", "switch spine2 has ended"]
    assert len(found) == 8
    assert "spine1" in used


def test_one_that_begins_anew_while_the_next_tree_is_made():
    noticed = 3_500_000_000
    two = [Incident(AT, "restart", "leaf1"), Incident(noticed + 3_200_000_000, "restart", "leaf2")]
    found, decisions, _, _, _ = play(*two)
    assert len(found) == 8
    assert {one.outcome for one in decisions} == {"redone"}


def test_with_abort_all_end_and_hear_why():
    with pytest.raises(ClusterError, match="its tree is lost: switch leaf1 began anew"):
        play(Incident(AT, "restart", "leaf1"), on_failure="abort")


def test_a_switch_that_is_not_there_is_named():
    with pytest.raises(ClusterError, match="'h1' is no switch of this run"):
        play(Incident(AT, "restart", "h1"))
