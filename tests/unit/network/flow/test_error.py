"""The flow model compared with packets in a few small random settings; ``make soak-flow`` has 200 of all sizes."""

from random import Random

import numpy as np

from tests.support.flow_error import MEAN, WORST, jobs_point, points, run_point
from tests.support.flow_settings import random_run


def test_the_model_is_near_packets(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.support.flow_settings.MOST_WORK", 100_000)
    found = [run_point(24, number, tmp_path) for number in range(8)]
    compared = [point for point in found if point is not None and not point.refused]
    assert len(compared) >= 6
    assert np.mean([abs(point.error) for point in compared]) <= MEAN
    assert max(abs(point.error) for point in compared) <= WORST
    assert all(point.same_bytes for point in compared)


def test_jobs_that_share_links_take_as_long_as_on_packets():
    """Settings of two to four jobs, in one class and in several."""
    found = [jobs_point(5, number) for number in range(6)]
    compared = [point for point in found if point is not None and not point.refused]
    assert len(compared) >= 5
    assert np.mean([abs(point.error) for point in compared]) <= MEAN
    assert max(abs(point.error) for point in compared) <= WORST


def test_settings_follow_from_the_seed(tmp_path):
    first, again, other = (random_run(Random(seed), tmp_path, 0) for seed in ("1:5", "1:5", "1:6"))
    assert first == again != other
    assert [*points(1, 0)] == []
