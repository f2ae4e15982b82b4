"""Runs with guessed exponents: training, deaths, sequences of sums, groups, and refusals."""

import numpy as np
import pytest
from pydantic import ValidationError

from p4reduce.group.communicator import Communicator
from p4reduce.group.errors import GroupChanged
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import result_of
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.runs.virtual.incidents import Incident

STAR = "star:hosts=4"
FAST = {"topology": STAR, "rate": "100G", "speculate": True}
ELEMENTS = 100_000


def gradient(rank: int, step: int) -> np.ndarray:
    """Return gradients of similar magnitude in each step, with a spike in every third."""
    values = np.random.default_rng((rank, step)).standard_normal(ELEMENTS).astype(np.float32)
    if step % 3 == 2 and rank == 1:
        values[5000] = 1e6
    return values


def times(comm: Communicator, *, start: bool = False) -> list[float]:
    """Return the times of six sums."""
    found = []
    for step in range(6):
        array, began = gradient(comm.rank, step), comm.now
        exact = sum(gradient(rank, step).astype(np.float64) for rank in range(comm.size))
        if start:
            comm.all_reduce(array, start=comm.now, followed=False).wait()
        else:
            comm.all_reduce(array)
        # float64's error, and 2**6 times 4 * 2**(e + 2 - 31), where every number is below 2**e
        assert np.abs(array - exact).max() <= 2.0**6 * 4 * 2.0 ** ((20 if step % 3 == 2 else 3) + 2 - 31) + 1e-6
        found.append(comm.now - began)
    return found


@pytest.mark.parametrize("start", [False, True])
def test_all_but_the_first_save_a_round_trip(start: bool) -> None:
    taken = {}
    for speculate in (False, True):
        with Cluster(Experiment(**{**FAST, "speculate": speculate})) as cluster:
            taken[speculate] = cluster.run_threads(lambda comm: times(comm, start=start))[0]
            result = result_of(cluster)
            assert result.network.prediction_differences == []
            assert (cluster.carrier.main.repeated > 0) == speculate
    assert taken[True][0] == pytest.approx(taken[False][0], rel=1e-3)
    assert all(guessed < waited for guessed, waited in zip(taken[True][1:], taken[False][1:], strict=True))


def test_a_row_guesses_once_and_announces() -> None:
    def row(comm: Communicator) -> bool:
        arrays = [np.full(ELEMENTS, number + comm.rank, np.float32) for number in range(5)]
        comm.all_reduce(np.full(ELEMENTS, 3, np.float32))
        handles = [comm.all_reduce(array, start=comm.now, followed=array is not arrays[-1]) for array in arrays]
        return all((handle.wait() == 4 * number + 6).all() for number, handle in enumerate(handles))

    with Cluster(Experiment(**FAST)) as cluster:
        assert all(cluster.run_threads(row))
        job = cluster.carrier.main
        assert job.spared > 5 * (job.plan.lead - job.guessed), "known ahead, not only guessed"
        assert job.repeated == 0
        assert result_of(cluster).network.prediction_differences == []


def test_groups_barriers_and_what_is_not_finite() -> None:
    def work(comm: Communicator) -> None:
        half = comm.group([0, 1] if comm.rank < 2 else [2, 3])
        for step in range(4):
            ours, theirs = np.full(ELEMENTS, 2.0**step, np.float32), np.full(700, comm.rank, np.float32)
            half.all_reduce(ours)
            assert (ours == 2.0 ** (step + 1)).all()
            comm.barrier()
            if step == 2 and comm.rank == 3:
                theirs[300] = np.inf
            comm.all_reduce(theirs, not_finite="nan")
            assert np.isnan(theirs[256:512]).all() == (step == 2)
            assert (theirs[:256] == 6).all()

    with Cluster(Experiment(**FAST)) as cluster:
        cluster.run_threads(work)
        assert result_of(cluster).network.prediction_differences == []


@pytest.mark.parametrize("kind", ["host", "switch", "restart"])
def test_who_is_left_begins_without_a_history(kind: str) -> None:
    """Powers of two identify contributors; each member has another exponent."""

    def sums(comm: Communicator) -> list[int]:
        found, me = [], comm.members[comm.rank]
        while len(found) < 6:
            times = 256 if len(found) == 4 else 1
            array = np.full(50_000, times * 2.0**me, np.float32)
            try:
                comm.all_reduce(array)
            except GroupChanged:
                continue
            assert (array == array[0]).all()
            found.append(int(array[0]) // times)
        return found

    what = {"host": "h3", "switch": "spine1", "restart": "leaf1"}[kind]
    experiment = Experiment(on_failure="shrink", speculate=True)
    with Cluster(experiment, incidents=[Incident(1_200_000_000, kind, what)]) as cluster:
        found = cluster.run_surviving(sums)
        gone = {2} if kind == "host" else set()
        assert set(found) == set(range(8)) - gone
        left = 255 - sum(2**rank for rank in gone)
        assert all(own == [255] + 5 * [left] for own in found.values())


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"numbers": "fixed", "scale": 4.0}, "a fixed scale has no exponents"),
        ({"time": "real"}, "in virtual time only"),
        ({"target": "bmv2"}, "in virtual time only"),
        ({"deadline": "5ms"}, "what a deadline closes"),
    ],
)
def test_what_cannot_be_guessed_is_refused(other: dict[str, object], why: str) -> None:
    with pytest.raises(ValidationError, match=f"speculate: .*{why}"):
        Experiment(**{"speculate": True, **other})


def test_a_description_without_it_is_as_before() -> None:
    assert "speculate" not in Experiment().model_dump()
    assert Experiment(speculate=True).model_dump()["speculate"] is True
