"""The learned policy: its gradient is that of the log-probability of its actions; trainings are repeatable."""

import numpy as np
import pytest

from studies.placement import learned
from studies.placement.learned import (
    FEATURES,
    LayerWeights,
    LearnCell,
    Learned,
    LearnRow,
    learn,
    mean_jct,
    run_learning,
)
from studies.placement.settings import BACKGROUND_90, SMALL_HOSTS, ClusterScenario


def log_chance(weights, rows, chosen):
    scores = np.tanh(rows @ weights.inner) @ weights.outer + rows @ weights.linear
    return scores[chosen] - np.log(np.exp(scores).sum())


@pytest.mark.parametrize("part", [0, 1, 2])
def test_the_gradient_is_that_of_the_logarithm(part):
    random = np.random.default_rng(2)
    rows, weights = random.standard_normal((5, FEATURES)), LayerWeights.drawn(3)
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
    assert not np.array_equal(weights.linear, LayerWeights.drawn(1).linear)
    small = ClusterScenario("small", "small")
    assert 0 < mean_jct(small, Learned(weights), 5, 10, SMALL_HOSTS) < np.inf


def test_tests_are_told_apart_by_training():
    other, first = (list(run_learning(LearnCell(seed, 0, (BACKGROUND_90,), (6,), 3))) for seed in (2, 1))
    assert {(row.policy, row.training) for row in other if isinstance(row, LearnRow)} == {("learned", 2)}
    tested = {(row.policy, row.training) for row in first if isinstance(row, LearnRow)}
    assert tested == {("learned", 1), *((name, 0) for name in learned.HEURISTICS)}
