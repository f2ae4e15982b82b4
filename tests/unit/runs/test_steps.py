"""Iterations of a script: given by its marks, or by repetition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p4reduce.group.communicator import STEP
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.result import MOST_APART, _repeated, steps_of
from p4reduce.runs.runner import run_experiment

STAR = Experiment(topology="star:hosts=2", lanes=64)
SIZES = (6400, 640, 64)


def tensors(comm, *sizes):
    for size in sizes:
        comm.all_reduce(np.ones(size, np.float32))


def separate(comm, *, marks=False, compute=0.0):
    comm.broadcast(np.ones(500, np.float32))
    for _ in range(3):
        if compute:
            comm.compute(compute)
        tensors(comm, *SIZES)
        if marks:
            comm.step()


def bucketed(comm):
    comm.broadcast(np.ones(500, np.float32))
    for _ in range(3):
        tensors(comm, sum(SIZES))


def test_a_script_with_one_collective_an_iteration_is_not_slower_than_one_with_three():
    """The median of the largest collective would rank them the other way round."""
    three, one = (run_experiment(STAR, script=script).network for script in (separate, bucketed))
    largest = [record.communication_ps for record in three.collectives if record.elements == max(SIZES)]
    assert max(largest) < one.communication_ps < three.communication_ps
    assert three.elements == one.elements == sum(SIZES)
    assert (three.steps, three.steps_by) == (one.steps, one.steps_by) == (3, "repetition")
    assert three.bytes_per_iteration == three.total_bytes // 3


def test_the_time_is_that_from_step_to_step():
    def timed(comm):
        for _ in range(4):
            begin = comm.now
            tensors(comm, *SIZES)
            steps.append(comm.now - begin)

    steps = []
    network = run_experiment(STAR, script=timed).network
    assert network.communication_ps == pytest.approx(1e12 * sorted(steps)[len(steps) // 2], rel=1e-9)


@pytest.mark.parametrize("compute", [0.0, 1e-3])
def test_marks_give_the_same_steps_and_computation_is_none_of_the_networks(compute):
    marked = run_experiment(STAR, script=lambda comm: separate(comm, marks=True, compute=compute))
    found = run_experiment(STAR, script=separate).network
    assert (marked.network.steps, marked.network.steps_by) == (3, "marks")
    assert marked.network.elements == found.elements
    assert marked.network.communication_ps == found.communication_ps
    assert marked.network.bound_ps == found.bound_ps
    assert marked.training is None  # a mark is not a metric
    assert marked.experiment["elements"] == sum(SIZES)
    assert marked.experiment["repeat"] == 3


def test_what_never_repeats_is_one_iteration():
    network = run_experiment(STAR, script=lambda comm: tensors(comm, 64, 640, 128)).network
    assert (network.steps, network.steps_by, network.elements) == (1, "run", 832)


def test_a_script_that_sends_nothing_has_no_steps():
    steps = steps_of([], [], [])
    assert (steps.every, steps.median) == ((), None)


def test_the_mark_is_no_name_for_a_figure():
    with pytest.raises(ValueError, match=r"comm\.step\(\)"):
        run_experiment(STAR, script=lambda comm: comm.record(STEP, 1.0))


NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=5)


@given(before=st.lists(st.just("x"), max_size=MOST_APART), unit=NAMES, times=st.integers(4, 9))
def test_what_repeats_is_found(before, unit, times):
    sequence = [(name, 1) for name in (*before, *unit * times)]
    first, period, count = _repeated(sequence)
    shortest = next(p for p in range(1, len(unit) + 1) if unit * 9 == (unit[:p] * 99)[: 9 * len(unit)])
    if len(before) <= len(sequence) // 4:
        assert (period, count) == (shortest, len(unit) * times // shortest)
        assert first == len(before)


def test_many_collectives_of_which_half_repeat_are_no_steps():
    """Detection is linear in their number: trying all starts and lengths would take hours."""
    sequence = [("all_reduce", number % 1000 if number < 50_000 else number) for number in range(100_000)]
    assert _repeated(sequence) == (0, 100_000, 1)
