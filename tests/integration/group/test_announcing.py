"""All-reduces started in sequence, each of which announces the next: on packets."""

import threading
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from p4reduce.group.communicator import Communicator
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import result_of
from p4reduce.runs.virtual.cluster import Cluster

STAR = "star:hosts=4"
ELEMENTS, COUNT = 30_000, 5


def in_a_row(
    comm: Communicator, followed: bool, gap_s: float = 0.0, before: Callable[[int], object] = lambda _: None
) -> list[float]:
    """Start five sums ``gap_s`` apart; return when each was done."""
    arrays = [np.full(ELEMENTS, number + comm.rank, np.float32) for number in range(COUNT)]
    handles = []
    for number, array in enumerate(arrays):
        before(number)
        told = followed and number + 1 < COUNT
        handles.append(comm.all_reduce(array, start=comm.now, followed=told))
        comm.compute(gap_s)
    for number, handle in enumerate(handles):
        assert (handle.wait() == 4 * number + 6).all()
    return [handle.done_s for handle in handles]


def carried(train: Callable[[Communicator], list[float]]) -> tuple[list[list[float]], int]:
    """Return when each rank finished each sum, and the number of exponent frames saved."""
    with Cluster(Experiment(topology=STAR, rate="10G")) as cluster:
        times = cluster.run_threads(train)
        assert result_of(cluster).network.prediction_differences == []
        return times, cluster.carrier.main.spared


def test_exponents_need_a_round_trip_only_for_the_first() -> None:
    alone, none = carried(lambda comm: in_a_row(comm, followed=False))
    told, spared = carried(lambda comm: in_a_row(comm, followed=True))
    assert none == 0
    assert spared > 0
    assert spared % (COUNT - 1) == 0, "as many for each but the first"
    for slow, fast in zip(alone, told, strict=True):
        assert fast[0] == slow[0], "what is announced travels in frames that are sent anyway"
        assert all(b < a for a, b in zip(slow[1:], fast[1:], strict=True))


def test_one_rank_that_does_not_say_so_is_waited_for_by_nobody() -> None:
    """One rank does not announce: all agree on exponents as usual, at the same times."""
    alone, _ = carried(lambda comm: in_a_row(comm, followed=False))
    mixed, spared = carried(lambda comm: in_a_row(comm, followed=comm.rank != 2))
    assert spared == 0
    assert mixed == alone


def test_the_same_times_however_threads_run() -> None:
    """Wall-clock time between two calls of a script has no influence."""
    waited = threading.Event()

    def dawdle(comm: Communicator) -> list[float]:
        return in_a_row(comm, True, before=lambda _: None if comm.rank else waited.wait(0.05))

    assert carried(dawdle) == carried(lambda comm: in_a_row(comm, True))


def test_one_that_starts_when_the_one_before_is_done_announces_nothing() -> None:
    times, spared = carried(lambda comm: in_a_row(comm, True, gap_s=1e-3))
    assert spared == 0
    assert all(b - a > 0.9e-3 for own in times for a, b in pairwise(own))


def test_waiting_for_one_that_was_to_be_followed_ends_well() -> None:
    """A broken promise costs only the announcement: with wait, with done, and when leaving."""

    def train(comm: Communicator) -> list[float]:
        array = np.ones(100, np.float32)
        handle = comm.all_reduce(array, start=comm.now, followed=True)
        assert (handle.wait() == 4).all()
        polled = comm.all_reduce(np.ones(100, np.float32), start=comm.now, followed=True).map(lambda one: one[0])
        while not polled.done:
            pass
        last = comm.all_reduce(np.ones(100, np.float32), start=comm.now, followed=True)
        comm.close()
        return [float(last.wait()[0]), float(polled.wait())]

    times, spared = carried(train)
    assert times == [[4.0, 4.0]] * 4
    assert spared == 0


def test_nan_that_is_announced_fails_its_own_call_alone() -> None:
    def train(comm: Communicator) -> list[float]:
        one = comm.all_reduce(np.ones(5000, np.float32), start=comm.now, followed=True)
        bad = comm.all_reduce(np.full(5000, np.nan, np.float32), start=comm.now)
        assert (one.wait() == 4).all()
        with pytest.raises(ValueError, match="nan at index 0"):
            bad.wait()
        return []

    carried(train)


def test_a_blocking_call_is_announced_too_and_other_types_are_not() -> None:
    def train(comm: Communicator) -> list[float]:
        first = comm.all_reduce(np.ones(ELEMENTS, np.float32), start=comm.now, followed=True)
        comm.all_reduce(np.ones(ELEMENTS, np.float32))
        words = comm.all_reduce(np.ones(ELEMENTS, np.int32), start=comm.now, followed=True)
        half = comm.all_reduce(np.ones(ELEMENTS, np.float16), start=comm.now, followed=True)
        comm.barrier()
        assert (first.wait() == 4).all()
        assert (words.wait() == 4).all()
        assert (half.wait() == 4).all()
        return []

    _, spared = carried(train)
    assert spared > 0
