"""The cost of chunks that are zero at all workers: time of an all-reduce by the share of dense chunks."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.group.communicator import Communicator
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.summary import network_result
from p4reduce.runs.virtual.cluster import Cluster

ELEMENTS: Final = 1 << 20
LANES: Final = 256
TOPOLOGIES: Final = ("star8", "leaf-spine-8")
WINDOWS: Final = (("10G", None), ("100G", None), ("100G", 512))
"""Rate of links, and chunks in flight (None: the plan's choice). At 100G, frames without lanes wait for slots: a round
trip holds more of them than a window of full frames."""
BARS: Final = {0.0: 0.1, 0.01: 0.12}
"""by share of dense chunks: highest allowed ratio to the time for a dense tensor"""


def sparse(rank: int, share: float) -> NDArray[np.float32]:
    """Return float32 (ELEMENTS,): integers in a ``share`` of the chunks, the same at every rank; zeros elsewhere."""
    array = np.zeros((ELEMENTS // LANES, LANES), np.float32)
    places = np.random.default_rng(1).random(len(array)) < share
    array[places] = np.random.default_rng([2, rank]).integers(-8, 9, (int(places.sum()), LANES))
    return array.reshape(-1)


def time_ps(topology: str, rate: str, window: int | None, share: float) -> tuple[int, int]:
    """Return the picoseconds of one all-reduce and the number of mispredicted counters. Raises if a sum is wrong."""
    experiment = Experiment(topology=topology, rate=rate, window=window, lanes=LANES, elements=ELEMENTS, plan="steiner")
    with Cluster(experiment) as cluster:

        def work(comm: Communicator) -> NDArray[np.float32]:
            array = sparse(comm.rank, share)
            comm.all_reduce(array)
            return array

        sums = cluster.run_threads(work)
        network = network_result(cluster.carrier)
        size = len(cluster.topology.workers)
    total = np.sum([sparse(rank, share) for rank in range(size)], axis=0)
    if not all(np.array_equal(array, total) for array in sums):
        raise AssertionError(f"{topology} at {rate}, {share:.0%} dense: a sum is wrong")
    return network.communication_ps, len(network.prediction_differences)


def rows(topology: str, rate: str, window: int | None) -> Iterator[dict[str, Any]]:
    """Yield a row for the dense tensor and for each share in ``BARS``."""
    dense = 0
    for share in (1.0, *sorted(BARS, reverse=True)):
        took, differences = time_ps(topology, rate, window, share)
        dense = dense or took
        row: dict[str, Any] = {"topology": topology, "rate": rate, "window": window or "chosen", "dense": share}
        row["us"] = round(took / 1e6, 1)
        yield {**row, "ratio": round(took / dense, 4), "bar": BARS.get(share), "differences": differences}
