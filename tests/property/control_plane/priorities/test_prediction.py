"""Forecasts from counters, compared with the flows behind the counters."""

import itertools
import random as drawn
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p4reduce.control_plane.priorities import FlowDetector, Forecast, ObservedFlow, Predictor
from tests.support.effort import examples

US = 1_000_000


def curve(flows: list[list[tuple[int, int, int]]]) -> tuple[list[tuple[int, int]], int]:
    """Return the corner points of a counter's curve, from bursts (start, end, bytes) of each flow, and its end."""
    corners, total = [(0, 0)], 0
    for bursts in flows:
        for start, end, size in bursts:
            corners += [(start, total), (end, total + size)]
            total += size
    return corners, corners[-1][0]


def count(corners: list[tuple[int, int]], now: int) -> int:
    for (t0, n0), (t1, n1) in itertools.pairwise(corners):
        if t0 <= now <= t1:
            return n0 + (n1 - n0) * (now - t0) // max(1, t1 - t0)
    return corners[-1][1]


def read(corners: list[tuple[int, int]], last: int, every: int, quiet: int) -> list[ObservedFlow]:
    detector, found = FlowDetector(quiet), []
    for now in range(0, last + 20 * quiet, every):
        flow = detector.read(now, count(corners, now))
        if flow is not None:
            found.append(flow)
    assert not detector.active
    return found


@settings(deadline=None, max_examples=examples(15, 40))
@given(st.integers(0, 2**32), st.integers(2, 8))
def test_flows_are_found_to_an_interval_however_the_readings_fall(seed: int, number: int) -> None:
    """Flows of one rate and size, with varying computing times."""
    random, every = drawn.Random(seed), 10 * US
    flows, now = [], 0
    for _ in range(number):
        now += random.randrange(300 * US, 800 * US)
        flows.append([(now, now + 200 * US, 247_000)])
        now += 200 * US
    found = read(*curve(flows), every, 3 * every)
    assert [flow.bytes for flow in found] == [247_000] * number
    for flow, ((start, end, _),) in zip(found, flows, strict=True):
        assert abs(flow.start_ps - start) <= every
        assert abs(flow.end_ps - end) <= every


def test_a_job_that_others_keep_waiting_does_not_compute() -> None:
    """After one whole flow, a silence inside the next one is not its end, even if longer than ``quiet``."""
    first = [(500 * US, 700 * US, 1000)]
    second = [(1500 * US, 1550 * US, 300), (1700 * US, 1800 * US, 700)]
    found = read(*curve([first, second]), 10 * US, 40 * US)
    assert [flow.bytes for flow in found] == [1000, 1000]
    assert abs(found[1].end_ps - 1800 * US) <= 10 * US


def test_a_flow_that_goes_on_after_its_end_is_one() -> None:
    """The second flow is larger than the first, so its predicted end by bytes was wrong."""
    found = read(*curve([[(500 * US, 700 * US, 1000)], [(1500 * US, 1800 * US, 1600)]]), 20 * US, 60 * US)
    predictor = Predictor()
    for flow in found:
        predictor.observe(flow)
    assert predictor.last is not None
    assert predictor.last.bytes == 1600
    assert abs(predictor.last.start_ps - 1500 * US) <= 20 * US
    forecast = predictor.forecast()
    assert forecast is not None
    assert abs(forecast.compute_ps - 800 * US) <= 40 * US


def test_nothing_is_said_before_two_flows_have_ended() -> None:
    predictor = Predictor()
    assert predictor.forecast() is None
    predictor.observe(ObservedFlow(0, 10, 5))
    assert predictor.forecast() is None
    predictor.observe(ObservedFlow(100, 115, 6))
    assert predictor.forecast() == Forecast(start_ps=205, bytes=6, compute_ps=90, communication_ps=10)


@pytest.mark.parametrize("jitter", [0.0, 0.02, 0.5])
def test_the_next_start_is_the_end_and_the_median_compute(jitter: float) -> None:
    """Others stretch communication up to four times at random: only computing times predict the start."""
    random, predictor, now, errors = drawn.Random(7), Predictor(), 0, []
    for _ in range(300):
        forecast = predictor.forecast()
        if forecast is not None:
            errors.append(abs(forecast.start_ps - now) / (1000 * US))
        end = now + random.randrange(200 * US, 800 * US)
        predictor.observe(ObservedFlow(now, end, 100))
        now = end + round(800 * US * random.gauss(1, jitter)) if jitter else end + 800 * US
    # Error of a median of five plus that of the time itself: about jitter * 0.8 * sqrt(1 + 1/5 * pi/2).
    assert statistics.median(errors) <= 1.1 * 0.8 * jitter
    assert jitter == 0 or statistics.median(errors) > 0.3 * jitter


def test_a_job_without_rhythm_is_forecast_wrong_but_forecast() -> None:
    predictor = Predictor()
    for start, end in ((0, 10), (10, 20), (1000, 1010), (1_000_000, 1_000_001)):
        predictor.observe(ObservedFlow(start, end, 1))
    forecast = predictor.forecast()
    assert forecast is not None
    assert forecast.start_ps >= 1_000_001
