"""Members, links and switches that fail in virtual time; ``make soak-kills`` draws a thousand."""

import numpy as np
import pytest

from p4reduce.group.errors import ClusterError, GroupChanged
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.runs.virtual.incidents import Incident
from tests.support.effort import examples
from tests.support.kills import lossy
from tests.support.kills.virtual import run

AT = 1_200_000_000  # in the second all-reduce


# 74: only a broadcast's root waits for the dead member; 837: a lost frame that only it would have asked for;
# 830067: the dead member is a broadcast's root, for which only one member waits; 97: a member dies after it has called
# a broadcast, and before its lost question is repeated; 700374: both spines die, and no link between switches is left;
# 800293: a switch restarts, and is away before the controller has looked at it
@pytest.mark.parametrize("seed", [74, 837, 830067, 97, 700374, 800293, *range(1, 1 + examples(7, 100))])
def test_random_deaths(seed):
    run(seed)


@pytest.mark.parametrize("seed", range(1, 1 + examples(2, 100)))
def test_who_loses_frames_is_not_dead(seed):
    assert lossy.run(seed) > 0


def sums(comm):
    """Six all-reduces of powers of two: each sum identifies its contributors."""
    found, me = [], comm.members[comm.rank]
    while len(found) < 6:
        array = np.full(50_000, 2.0**me, np.float32)
        try:
            comm.all_reduce(array)
        except GroupChanged:
            continue
        assert (array == array[0]).all()
        found.append(int(array[0]))
    return found


@pytest.mark.parametrize(
    ("kind", "what", "gone"),
    [
        ("host", "h3", {2}),
        ("process", "h3", {2}),
        ("switch", "spine1", set()),
        ("switch", "leaf2", {4, 5, 6, 7}),
        ("link", "leaf1-spine1", set()),
        ("link", "h3-leaf1", {2}),
    ],
)
def test_what_ends_takes_along_who_cannot_do_without(kind, what, gone):
    with Cluster(Experiment(on_failure="shrink"), incidents=[Incident(AT, kind, what)]) as cluster:
        found = cluster.run_surviving(sums)
        assert set(found) == set(range(8)) - gone
        whole, left = 255, 255 - sum(2**rank for rank in gone)
        assert all(own == [whole] + 5 * [left] for own in found.values())
        (decision,) = cluster.decisions
        assert set(decision.lost) == gone
        assert decision.outcome == "redone"


def test_with_abort_all_end_and_hear_who_died():
    with (
        Cluster(Experiment(), incidents=[Incident(AT, "host", "h3")]) as cluster,
        pytest.raises(ClusterError, match="rank 2 said nothing for its lease, and others waited for it"),
    ):
        cluster.run_threads(sums)


def test_started_collectives_of_the_old_group_are_told_of_the_new_one():
    def script(comm):
        arrays = [np.full(20_000, 2.0**comm.rank, np.float32) for _ in range(4)]
        handles = [comm.all_reduce(array, start=comm.now) for array in arrays]
        said = []
        for handle in handles:
            try:
                said.append(float(handle.wait()[0]))
            except GroupChanged as change:
                said.append(change.members)
        again = np.ones(10, np.float32)
        comm.all_reduce(again)
        return said, float(again[0]), comm.size

    experiment = Experiment(topology="star:hosts=4", on_failure="shrink", rate="1G")
    with Cluster(experiment, incidents=[Incident(1_500_000_000, "process", "h2")]) as cluster:
        found = cluster.run_surviving(script)
        left = (0, 2, 3)
        assert set(found) == {*left}
        said, again, size = found[0]
        assert all(own == (said, again, size) for own in found.values())
        assert (again, size) == (3.0, 3)
        assert said[-1] == left
        assert all(one in (15.0, 13.0, left) for one in said)


def test_an_incident_that_cannot_happen_is_named():
    for kind, what in (("host", "h9"), ("switch", "h1"), ("link", "h1-spine1")):
        with pytest.raises(ClusterError, match=f"{what!r} is no {kind}"):
            Cluster(Experiment(), incidents=[Incident(AT, kind, what)])
