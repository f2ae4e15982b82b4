"""The learned policy: its gradient is that of the logarithm of what it did; trainings repeat themselves."""

import numpy as np
import pytest

from studies.placement import learned
from studies.placement.learned import FEATURES, Learned, LearnUnit, Weights, learn, learn_points, mean_jct, run_learning
from studies.placement.settings import BACKGROUND_90, SMALL_HOSTS, Scenario


def log_chance(weights, rows, chosen):
    scores = np.tanh(rows @ weights.inner) @ weights.outer + rows @ weights.linear
    return scores[chosen] - np.log(np.exp(scores).sum())


@pytest.mark.parametrize("part", [0, 1, 2])
def test_the_gradient_is_that_of_the_logarithm(part):
    random = np.random.default_rng(2)
    rows, weights = random.standard_normal((5, FEATURES)), Weights.drawn(3)
    weights.linear[:] = random.standard_normal(FEATURES)
    policy = Learned(weights, np.random.Generator(np.random.Philox(1)))
    chosen = policy._choose(rows)
    array, found = weights.parts()[part], policy.gradient.parts()[part]
    for place in list(np.ndindex(array.shape))[::7]:
        kept, step = array[place], 1e-6
        array[place] = kept + step
        above = log_chance(weights, rows, chosen)
        array[place] = kept - step
        below = log_chance(weights, rows, chosen)
        array[place] = kept
        assert found[place] == pytest.approx((above - below) / (2 * step), rel=1e-4, abs=1e-7)


def test_a_training_repeats_itself_and_its_policy_ends_every_job(monkeypatch):
    monkeypatch.setattr(learned, "JOBS", 12)
    monkeypatch.setattr(learned, "ROLLOUTS", 3)
    weights, curve = learn(1, 1)
    again, same = learn(1, 1)
    assert curve == same
    assert all((a == b).all() for a, b in zip(weights.parts(), again.parts(), strict=True))
    assert not np.array_equal(weights.linear, Weights.drawn(1).linear)
    small = Scenario("small", "small")
    assert 0 < mean_jct(small, Learned(weights), 5, 10, SMALL_HOSTS) < np.inf


def test_tests_are_told_apart_by_training():
    unit = LearnUnit(2, 0, (BACKGROUND_90,), (6,), 3)
    one, other = run_learning(unit), run_learning(LearnUnit(1, 0, (BACKGROUND_90,), (6,), 3))
    assert {row.policy for row in one.rows} == {"learned"}
    points = {point.policy: point for point in learn_points([one, other])}
    assert points["learned"].trainings == 2
    assert points["packed"].trainings == 1
    assert points["learned"].best_s <= points["learned"].jct_s <= points["learned"].worst_s
