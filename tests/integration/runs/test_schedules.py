"""Scripts whose messages another library carries take as long as the same messages on packets."""

from random import Random

import pytest

from p4switch.base.values import PS_PER_US
from tests.support.schedules import MOST, Schedule, experts, interleaved, of_packets, of_script, one_f_one_b

SCHEDULES = [
    Schedule("1F1B", "star:hosts=4", "10G", one_f_one_b(4, 5, 100_000, [50 * PS_PER_US] * 4)),
    Schedule("interleaved", "leaf-spine-8", "25G", interleaved(4, 2, 4, 100_000, [60 * PS_PER_US] * 4)),
    Schedule("experts", "star:hosts=4", "10G", experts(Random(3), 4, 2, 400_000, 40 * PS_PER_US, 0)),
    Schedule("experts", "leaf-spine-8", "10G", experts(Random(4), 6, 2, 300_000, 10 * PS_PER_US, 0)),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: f"{schedule.kind} on {schedule.topology}")
def test_a_script_takes_the_time_of_its_packets(schedule):
    script, packets = of_script(schedule), of_packets(schedule)
    print(f"time over that of packets: {script / packets:.4f}")
    assert abs(script / packets - 1) < MOST
    assert of_script(schedule) == script  # repeatable
