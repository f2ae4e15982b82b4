"""A RESULT is repeated only for a worker that lost it, over the P4 program: no self-sustaining storms."""

import numpy as np
import pytest

from p4reduce.group.communicator import Communicator
from p4reduce.runs.experiment import Experiment, FaultOptions
from p4reduce.runs.result import NetworkResult
from p4reduce.runs.summary import network_result
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.workers.wire import HEADER_BYTES

LANES = 256


def all_reduce(elements: int, **more: object) -> NetworkResult:
    """Return the network's result; the sums of all ranks are checked."""
    with Cluster(Experiment(**{"lanes": LANES, "plan": "steiner", **more})) as cluster:

        def work(comm: Communicator) -> np.ndarray:
            array = np.full(elements, comm.rank + 1, np.float32)
            comm.all_reduce(array)
            return array

        sums = cluster.run_threads(work)
        for array in sums:
            assert (array == len(sums) * (len(sums) + 1) / 2).all()
        return network_result(cluster.carrier)


@pytest.mark.parametrize(
    ("topology", "rate", "loss", "window"),
    [("fat-tree-4", "10G", 0.01, 64), ("leaf-spine-8", "100G", 0.05, None), ("two-racks", "25G", 0.02, 16)],
)
def test_no_link_of_a_worker_carries_more_repeated_results_than_it_lost(
    topology: str, rate: str, loss: float, window: int | None
) -> None:
    faults = FaultOptions(loss=loss)
    network = all_reduce(200_000, topology=topology, rate=rate, window=window, faults=faults, seed=3)
    assert network.prediction_differences == []
    repeated = 0
    for link in network.links:
        if link.peer.startswith("h"):
            full = (link.resend_bytes - HEADER_BYTES * link.resend_frames) // (4 * LANES)
            assert full <= link.lost, f"{link.node} -> {link.peer}"
            repeated += full
    assert repeated > 0
