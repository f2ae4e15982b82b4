"""A deadline in virtual time: sums without stragglers, equal at all ranks; late parts are added later."""

import numpy as np
import pytest
from pydantic import ValidationError

from p4reduce.base.records import to_file, to_plain
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.runner import run_experiment
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.runs.virtual.incidents import Incident

ELEMENTS = 3000
LATE_S = 0.004


def experiment(**more):
    return Experiment(**{"topology": "leaf-spine-8", "lanes": 64, "deadline": "300us", **more})


def carry(given, *, steps=3, slow=(2,), at=(1,), scale=None):
    """Return each rank's inputs, results and reports step by step, and the run's result."""
    gave, got, counts, took = {}, {}, {}, {}

    def script(comm):
        rng = np.random.default_rng(comm.rank)
        for step in range(steps):
            if comm.rank in slow and step in at:
                comm.compute(LATE_S)
            array = rng.standard_normal(ELEMENTS).astype(np.float32) * np.float32((scale or {}).get(comm.rank, 1))
            gave[comm.rank, step], begin = array.astype(np.float64), comm.now
            comm.all_reduce(array, name="gradient")
            got[comm.rank, step], counts[comm.rank, step] = array, comm.counts
            took[comm.rank, step] = comm.now - begin

    result = run_experiment(given, script=script)
    return gave, got, counts, took, result


def same_for_all(got, counts, steps=3):
    for step in range(steps):
        assert len({got[rank, step].tobytes() for rank in range(8)}) == 1
        assert len({counts[rank, step].tobytes() for rank in range(8)}) == 1


@pytest.mark.parametrize("loss", [0.0, 0.02])
@pytest.mark.parametrize("slow", [(2,), (0, 5), (0, 1, 2, 3)], ids=str)
def test_what_comes_too_late_is_in_the_next_sum(slow, loss):
    gave, got, counts, took, result = carry(experiment(faults={"loss": loss}), slow=slow)
    same_for_all(got, counts)
    assert counts[0, 1].max() == 8 - len(slow)
    assert (counts[0, 2] == 8).all()
    assert all(took[rank, 1] < LATE_S for rank in range(8) if rank not in slow)
    total = sum(got[0, step].astype(np.float64) for step in range(3))
    wanted = sum(gave[rank, step] for rank in range(8) for step in range(3))
    np.testing.assert_allclose(total, wanted, atol=1e-5)
    (closed,) = result.network.closed
    assert (closed.iteration, closed.attempts) == (1, 1)
    assert all(closed.late[rank] == closed.chunks for rank in slow)
    assert result.network.collectives[1].max_error <= result.network.collectives[1].error_bound


@pytest.mark.parametrize("later", [2, 3], ids=["the same one", "another one"])
def test_who_was_late_and_has_caught_up_is_not_waited_for_the_next_time(later):
    """Step 4 is as far from step 1 as a switch's memory; all ranks took part in the steps between."""
    took = {}

    def script(comm):
        for step in range(6):
            if (comm.rank, step) in {(2, 1), (later, 4)}:
                comm.compute(LATE_S)
            array, begin = np.full(ELEMENTS, comm.rank + 1, np.float32), comm.now
            comm.all_reduce(array, name="gradient")
            took[comm.rank, step] = comm.now - begin

    result = run_experiment(experiment(), script=script)
    assert [one.iteration for one in result.network.closed] == [1, 4]
    assert all(one.late == {rank: one.chunks} for one, rank in zip(result.network.closed, (2, later), strict=True))
    assert all(took[rank, 4] < LATE_S for rank in range(8) if rank != later)


def test_with_nobody_late_nothing_is_closed_and_frames_are_as_predicted():
    _, got, counts, _, result = carry(experiment(), slow=())
    same_for_all(got, counts)
    assert result.network.closed == []
    assert result.network.prediction_differences == []
    assert "closed" not in to_plain(result)["network"]


def test_the_same_run_gives_the_same_bytes():
    first, second = (to_file(carry(experiment(faults={"loss": 0.02}, seed=3))[4]) for _ in range(2))
    assert first == second


def test_too_few_are_carried_again_until_they_are_enough():
    gave, got, counts, _, result = carry(experiment(quorum=7), slow=(1, 2))
    same_for_all(got, counts)
    (closed,) = result.network.closed
    assert closed.attempts == 2
    assert (counts[0, 1] == 8).all()
    np.testing.assert_allclose(got[0, 1], sum(gave[rank, 1] for rank in range(8)), atol=1e-5)


def begun(late_s):
    """Rank 2, with huge numbers, is late for a first sum; its remainder joins a second sum of zeros."""
    seen = {}

    def script(comm):
        rng = np.random.default_rng(comm.rank)
        if comm.rank == 2:
            comm.compute(late_s)
        array = rng.standard_normal(ELEMENTS).astype(np.float32) * np.float32(1e6 if comm.rank == 2 else 1)
        given = array.copy()
        comm.all_reduce(array, name="gradient")
        zeros = np.zeros(ELEMENTS, np.float32)
        comm.all_reduce(zeros, name="gradient")
        seen[comm.rank] = given, array, zeros

    return seen, run_experiment(experiment(), script=script)


def test_numbers_beyond_an_exponent_that_was_agreed_on_without_them_wait_for_the_next_sum():
    """The rank calls between exponents and lanes: too late for the exponents, in time for the lanes."""
    found = set()
    for microseconds in range(180, 800, 60):
        seen, result = begun(microseconds * 1e-6)
        exact = sum(given.astype(np.float64) for given, *_ in seen.values())
        _, first, second = seen[0]
        np.testing.assert_allclose(first.astype(np.float64) + second, exact, rtol=1e-5, atol=1.0)
        assert all(record.saturated == 0 for record in result.network.collectives)
        found.add(result.network.closed[0].late.get(2, 0) if result.network.closed else 0)
    assert len(found) > 1, "one of these times is between"


def test_an_operation_longer_than_slots_remember_waits_for_the_straggler_and_ends():
    def script(comm):
        array = np.full(64 * 700, comm.rank + 1, np.float32)
        if comm.rank == 7:
            comm.compute(LATE_S)
        comm.all_reduce(array, name="gradient")
        sums[comm.rank], counts[comm.rank] = array, comm.counts

    sums, counts = {}, {}
    result = run_experiment(experiment(window=8), script=script)
    assert result.network.slots == 64
    assert len({array.tobytes() for array in sums.values()}) == 1
    # Its switch gets ahead by a window of 8 chunks, the root by 8 more; then all wait.
    stretches = [(int(count), int((counts[0] == count).sum()) // 64) for count in (4, 7, 8)]
    assert stretches == [(4, 8), (7, 8), (8, 684)]
    for count, total in ((4, 10), (7, 28), (8, 36)):
        np.testing.assert_allclose(sums[0][counts[0] == count], total, rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"deadline": "1ns"}, "deadline: 1ns"),
        ({"deadline": "soon"}, "soon"),
        ({"deadline": None, "quorum": 3}, "quorum: "),
        ({"plan": "ring"}, "deadline: for all_reduce"),
        ({"collective": "push"}, "deadline: for all_reduce"),
        ({"on_failure": "shrink"}, "on_failure"),
        ({"quorum": 9, "workers": 8}, "quorum: 9 of 8"),
    ],
)
def test_what_cannot_be_is_said(given, said):
    with pytest.raises(ValidationError, match=said):
        experiment(**given)


def test_a_group_that_somebody_joins_waits_for_its_stragglers():
    with pytest.raises(ExperimentError, match="deadline: a group that members join or leave"):
        Cluster(experiment(), incidents=[Incident(1, "join", "h5")])
