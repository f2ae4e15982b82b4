"""Workers with bounded staleness: one script, in threads and in processes, in virtual time."""

import threading

import numpy as np
import pytest

from p4reduce.group.communicator import Communicator
from p4reduce.group.errors import ClusterError, CollectiveError
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.summary import network_result
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.workers.training.loops import ACCURACY, TrainingOptions, train_parameter_server
from tests.support.launched import launch

STAR = "star:hosts=3,servers=1,rate=10G"
ELEMENTS = 3000
SCRIPT = """
import numpy as np
from p4reduce import connect

comm = connect()
weights = np.zeros(500, np.float32)
for _ in range(3):
    if not comm.is_server:
        weights[:] = 1
        comm.compute(1e-4 * (1 + comm.rank))
    comm.push_pull(weights, 2.0, staleness=1)
if comm.is_server:
    assert (weights == -6).all(), weights[0]
comm.close()
"""


def cluster(**more) -> Cluster:
    return Cluster(Experiment(topology=STAR, plan="steiner", lanes=64, **more))


def steps(comm: Communicator, rounds: int, staleness: int | None, slow: float = 1.0) -> tuple[np.ndarray, list[float]]:
    """Every worker pushes ones, rank 2 computes longer; return the last array, and when each round ended."""
    array, ends = np.zeros(ELEMENTS, np.float32), []
    for _ in range(rounds):
        if not comm.is_server:
            array[:] = 1
            comm.compute(100e-6 * (slow if comm.rank == 2 else 1))
        comm.push_pull(array, 3.0, staleness=staleness)
        ends.append(comm.now)
    return array, ends


@pytest.mark.parametrize("staleness", [1, 3, None])
def test_every_gradient_counts_once_and_bounds_hold(staleness):
    with cluster() as running:
        found = running.run_threads(lambda comm: steps(comm, 6, staleness, slow=4.0), server=True)
        result = network_result(running.carrier)
    server, ends = found[-1]
    assert np.array_equal(server, np.full(ELEMENTS, -18, np.float32))
    assert ends == sorted(ends)
    assert result.prediction_differences == []
    fast, slow = found[0][1], found[2][1]
    # No worker ends round k + s + 1 before the slowest has ended round k.
    if staleness is not None:
        assert all(fast[k + staleness + 1] > slow[k] for k in range(5 - staleness))
    assert fast[-1] < slow[-1]


def test_looser_bounds_let_fast_workers_go_on():
    last = []
    for staleness in (0, 1, None):
        with cluster() as running:
            found = running.run_threads(lambda comm, s=staleness: steps(comm, 6, s, slow=4.0), server=True)
        last.append(found[0][1][-1])
    assert last[2] < last[1] < last[0]


def test_the_same_outcome_however_threads_are_scheduled():
    def shaken(comm: Communicator) -> list[float]:
        threading.Event().wait(0.002 * ((comm.rank * 7) % 3))
        return steps(comm, 5, 2, slow=2.5)[1]

    times = []
    for _ in range(2):
        with cluster(faults={"loss": 0.01}) as running:
            times.append(running.run_threads(shaken, server=True))
    assert times[0] == times[1]


@pytest.mark.parametrize(("staleness", "slowdown"), [(2, 2.0), (None, 1.0)])
def test_the_digits_are_learned(staleness, slowdown):
    options = TrainingOptions.for_parameter_server(epochs=2, staleness=staleness)

    def train(comm: Communicator):
        return train_parameter_server(comm, options, slowdown=slowdown if comm.rank == 2 else 1.0)

    with cluster() as running:
        trained = running.run_threads(train, server=True)
        accuracy = [figure for figure in running.figures() if figure.name == ACCURACY]
    assert trained[-1].test_accuracy > 0.85
    assert [figure.time_ps for figure in accuracy] == sorted(figure.time_ps for figure in accuracy)


def test_whoever_disagrees_leaves_or_fails_ends_it_for_all():
    def disagree(comm: Communicator) -> None:
        comm.push_pull(np.ones(10, np.float32), 1.0, staleness=1 + (comm.rank == 1))

    def no_server(comm: Communicator) -> None:
        if not comm.is_server:
            comm.push_pull(np.ones(10, np.float32), 1.0, staleness=1)

    def fail_later(comm: Communicator) -> None:
        comm.push_pull(np.ones(10, np.float32), 1.0, staleness=None)
        if comm.rank == 1:
            raise RuntimeError("worker 1 is gone")
        for _ in range(3):
            comm.push_pull(np.ones(10, np.float32), 1.0, staleness=None)

    for function, said in ((disagree, "disagree"), (no_server, "the server"), (fail_later, "worker 1 is gone")):
        with cluster() as running, pytest.raises((ClusterError, RuntimeError), match=said):
            running.run_threads(function, server=True)


@pytest.mark.parametrize("staleness", [-1, True])
def test_bounds_that_are_none(staleness):
    with cluster() as running, pytest.raises(ValueError, match="staleness"):
        running.run_threads(lambda comm: comm.push_pull(np.ones(1, np.float32), 1.0, staleness=staleness), server=True)


def test_a_group_of_some_workers_has_no_server():
    def inside(comm: Communicator) -> None:
        if not comm.is_server:
            comm.group([0, 1, 2]).push_pull(np.ones(1, np.float32), 1.0, staleness=1)

    with cluster() as running, pytest.raises(CollectiveError):
        running.run_threads(inside, server=True)


def test_processes_that_launch_started(tmp_path):
    """The script above, over the coordinator's sockets."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = launch("-n", 2, "--server", "-t", "star:hosts=2,servers=1", script)
    assert done.returncode == 0, done.stdout + done.stderr
