"""The congestion window on compiled P4 switches in virtual time, driven by marks from queue depths."""

from p4reduce.runs.experiment import Experiment
from p4reduce.runs.result import NetworkResult
from p4reduce.runs.runner import move_tensors, result_of
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.workers.specs import FIXED, MAX_BRAKE, Congestion
from p4reduce.workers.status import WindowStatus

BY_MARKS = Congestion(adaptive=True, brake=MAX_BRAKE)
"""no brake: only marks and losses limit the window, not round-trip times"""


def moved(congestion: Congestion) -> tuple[NetworkResult, list[WindowStatus]]:
    """Six workers of the parameter-server baseline share the server's link."""
    experiment = Experiment(topology="leaf-spine-8", plan="ps", workers=6, window=64, elements=100_000, seed=2)
    with Cluster(experiment, congestion=congestion) as cluster:
        move_tensors(cluster, None)
        server = cluster.carrier.main.server
        statuses = [cluster.carrier.network.status(index) for index in cluster.carrier.main.members.values()]
        assert server is not None
        return result_of(cluster).network, [status.window for status in statuses]


def test_marks_of_a_standing_queue_shorten_it_and_cost_no_time() -> None:
    fixed, _ = moved(FIXED)
    adaptive, windows = moved(BY_MARKS)
    assert adaptive.result_sha256 == fixed.result_sha256
    deepest, before = (max(link.max_queue for link in one.links) for one in (adaptive, fixed))
    assert deepest < before / 2
    assert adaptive.communication_ps < 1.05 * fixed.communication_ps
    assert sum(link.queue_drops for link in adaptive.links) == 0
    assert all(window.cuts > 0 and window.congested > 0 for window in windows)
    means = [window.mean for window in windows]
    assert max(means) < 2 * min(means)
