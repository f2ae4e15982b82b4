"""Forecasts on loads with a known best prediction."""

import sys

import numpy as np
import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.placement.cluster import FORECASTS, LAGS, learn, nrmse

TIMES = np.arange(400)
WAVE = 5 + np.sin(2 * np.pi * TIMES / 25)
ON_OFF = np.where((TIMES // 10) % 2, 8.0, 1.0) + 0.1 * np.random.Generator(np.random.Philox(1)).standard_normal(400)


def test_ar_finds_a_wave_exactly_and_the_mean_has_an_error_of_one():
    assert nrmse("ar", WAVE, 10) < 1e-6
    assert nrmse("mean", WAVE, 10) == pytest.approx(1, abs=0.05)


def test_on_off_load_defeats_ewma_and_not_ar():
    assert nrmse("ewma", ON_OFF, 10) > nrmse("mean", ON_OFF, 10) > 0.9
    assert nrmse("ar", ON_OFF, 10) < 0.5


def test_boosted_trees_learn_what_is_not_linear():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    assert nrmse("boosted-trees", ON_OFF, 10) < 0.5


def test_without_scikit_learn_it_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(PlanError, match="needs scikit-learn: pip install"):
        learn("boosted-trees", ON_OFF, 1)


@pytest.mark.parametrize("name", ["mean", "ewma", "ar", "boosted-trees"])
def test_without_a_history_there_is_no_forecast(name):
    assert name in FORECASTS
    with pytest.raises(PlanError, match=rf"the history has 0 samples, {LAGS + 2} are needed"):
        learn(name, [], 1)
    with pytest.raises(PlanError, match="has 17 samples"):
        learn(name, np.ones(LAGS + 1), 1)
    with pytest.raises(PlanError, match="must be numbers"):
        learn(name, [float("nan")] * 100, 1)
    with pytest.raises(PlanError, match="0 samples ahead"):
        learn(name, WAVE, 0)


def test_a_load_that_does_not_change_and_a_name_that_is_not_known():
    with pytest.raises(PlanError, match="the load does not change"):
        nrmse("mean", np.ones(100), 1)
    with pytest.raises(PlanError, match="there is no forecast 'oracle'"):
        learn("oracle", WAVE, 1)
    assert learn("ewma", np.full(100, 3.0), 1)(np.full(40, 3.0)) == pytest.approx(3)
