"""Scripts whose messages another library carries take as long as the same messages on packets."""

from random import Random

import numpy as np
import pytest

from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import result_of_script
from p4reduce.runs.virtual.cluster import Cluster
from p4switch.base.values import PS_PER_US
from tests.support.schedules import (
    MOST,
    Schedule,
    experts,
    interleaved,
    of_packets,
    of_script,
    one_f_one_b,
    with_replicas,
)

ADDED = with_replicas(Random(5), 2, one_f_one_b(2, 4, 60_000, [20 * PS_PER_US] * 2), 240_000)
SCHEDULES = [
    Schedule("1F1B", "star:hosts=4", "10G", one_f_one_b(4, 5, 100_000, [50 * PS_PER_US] * 4)),
    Schedule("interleaved", "leaf-spine-8", "25G", interleaved(4, 2, 4, 100_000, [60 * PS_PER_US] * 4)),
    Schedule("experts", "star:hosts=4", "10G", experts(Random(3), 4, 2, 400_000, 40 * PS_PER_US, 0)),
    Schedule("experts", "leaf-spine-8", "10G", experts(Random(4), 6, 2, 300_000, 10 * PS_PER_US, 0)),
    Schedule("experts, sums beside", "leaf-spine-8", "10G", experts(Random(6), 4, 2, 200_000, 20 * PS_PER_US, 100_000)),
    Schedule("pipelines that add up", "leaf-spine-8", "10G", ADDED.ranks, ADDED.groups),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: f"{schedule.kind} on {schedule.topology}")
def test_a_script_takes_the_time_of_its_packets(schedule):
    (script, _), packets = of_script(schedule), of_packets(schedule)
    print(f"time over that of packets: {script / packets:.4f}")
    assert abs(script / packets - 1) < MOST
    assert of_script(schedule, Random(7))[0] == script  # the same in every run, however long ranks take


def test_what_no_trace_has_a_node_for_is_told_and_the_result_stands():
    def script(comm):
        comm.push_pull(np.ones(100, np.float32), 0.1)
        if comm.rank < 2:
            comm.sent(1 - comm.rank, 4000, sends=comm.rank == 0)()

    told = []
    with Cluster(Experiment(topology="star:hosts=2,servers=1", plan="ps")) as cluster:
        cluster.run_threads(script, server=True)
        result = result_of_script(cluster, told.append)
    assert result.replay is None
    assert len(result.network.collectives) == 1
    assert "a trace has no node for push_pull" in told[0]


def test_a_script_without_messages_is_not_played_once_more():
    told = []
    with Cluster(Experiment(topology="star:hosts=2")) as cluster:
        cluster.run_threads(lambda comm: comm.all_reduce(np.ones(100, np.float32)))
        assert result_of_script(cluster, told.append).replay is None
    assert told == []
