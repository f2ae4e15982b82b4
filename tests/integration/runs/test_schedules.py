"""Scripts whose messages another library carries take the time of the same messages as packets."""

from random import Random

import pytest

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
