"""Late contributions are added to their tensor, by its name or its position in a step, or are reported."""

import numpy as np
import pytest

from p4reduce.base.records import to_plain
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.result import LeftOutRecord
from p4reduce.runs.runner import run_experiment
from tests.support.effort import examples
from tests.support.late_tensors import Program


def carry(script):
    """Sum tensors A (1000s) and B (1s) in two steps of two ranks; rank 1 is late for the first A."""
    sums = []

    def rank(comm):
        for step in range(2):
            for tensor, value in (("A", 1000), ("B", 1)):
                if (comm.rank, step, tensor) == (1, 0, "A"):
                    comm.compute(0.004)
                array = np.full(100, value, np.float32)
                script(comm, array, tensor)
                if comm.rank == 0:
                    sums.append(float(array[0]))
            if script is by_place:
                comm.step()

    given = Experiment(topology="star:hosts=2", lanes=64, deadline="300us")
    network = run_experiment(given, script=rank).network
    return sums, network.left_out


def by_name(comm, array, tensor):
    comm.all_reduce(array, name=tensor)


def by_place(comm, array, _tensor):
    comm.all_reduce(array)


def by_nothing(comm, array, _tensor):
    comm.all_reduce(array)


def test_a_late_array_is_in_the_next_sum_of_its_name():
    assert carry(by_name) == ([1000, 2, 3000, 2], [])


@pytest.mark.parametrize("script", [by_place, by_nothing])
def test_what_is_late_before_it_is_known_what_a_step_is_is_reported(script):
    assert carry(script) == ([1000, 2, 2000, 2], [LeftOutRecord(1, "", 100, 2)])


def test_after_a_step_places_tell_tensors_apart():
    got = []

    def script(comm):
        for step in range(4):
            for tensor, value in (("A", 1000), ("B", 1)):
                if (comm.rank, step, tensor) == (1, 2, "A"):
                    comm.compute(0.004)
                array = np.full(100, value, np.float32)
                comm.all_reduce(array)
                if comm.rank == 0:
                    got.append(float(array[0]))
            comm.step()

    result = run_experiment(Experiment(topology="star:hosts=2", lanes=64, deadline="300us"), script=script)
    assert got == [2000, 2, 2000, 2, 1000, 2, 3000, 2]
    assert "left_out" not in to_plain(result)["network"]


def test_participants_that_name_a_tensor_differently_are_told_so():
    def script(comm):
        with pytest.raises(Exception, match="disagree"):
            comm.all_reduce(np.ones(4, np.float32), name=f"layer {comm.rank}")
        raise RuntimeError("seen")

    with pytest.raises(RuntimeError, match="seen"):
        run_experiment(Experiment(topology="star:hosts=2"), script=script)


@pytest.mark.parametrize("name", [3, "x" * 201])
def test_a_name_is_a_short_text(name):
    def script(comm):
        comm.all_reduce(np.ones(4, np.float32), name=name)

    with pytest.raises(ValueError, match="name: a text of at most 200 characters"):
        run_experiment(Experiment(topology="star:hosts=2"), script=script)


def test_random_scripts():
    for seed in range(examples(10, 300)):
        assert Program.draw(seed).play()[0] == []
