"""What a link will carry, from what it carried: plug-ins, compared by their error on times they have not seen."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from p4reduce.base.registry import Registry
from p4reduce.control_plane.errors import PlanError

Floats = NDArray[np.float64]
LAGS: Final = 16
"""samples that AR and boosted trees look back"""
WEIGHT: Final = 0.3
"""of the newest sample in EWMA"""


class Forecast(Protocol):
    """Learns from a history of equally spaced samples, and returns what predicts ``ahead`` samples ahead.

    Raises `PlanError` where the history is too short: what has none has no forecast.
    """

    def __call__(self, history: Floats, ahead: int) -> Callable[[Floats], float]:
        """Learn; the answer takes the newest samples, at least ``LAGS`` of them, oldest first."""


FORECASTS: Registry[Forecast] = Registry("forecast", PlanError)
"""Every known forecast by name; entry points of ``p4reduce.forecasts`` add to it."""


def forecast_named(name: str) -> Forecast:
    """The forecast of that name; `PlanError` lists the known ones."""
    return FORECASTS.named(name)


def learn(name: str, history: Sequence[float] | Floats, ahead: int) -> Callable[[Floats], float]:
    """What a forecast learned; `PlanError` for a history that is too short, or has what is no number."""
    given = np.asarray(history, np.float64)
    if ahead < 1:
        raise PlanError(f"forecast {name!r}: {ahead} samples ahead, must be at least 1")
    if given.ndim != 1 or not np.isfinite(given).all():
        raise PlanError(f"forecast {name!r}: the history must be numbers, one after the other")
    least = LAGS + ahead + 1
    if len(given) < least:
        raise PlanError(
            f"forecast {name!r}: the history has {len(given)} samples, {least} are needed: measure longer or more often"
        )
    return forecast_named(name)(given, ahead)


def nrmse(name: str, history: Sequence[float] | Floats, ahead: int, *, learned: float = 0.5) -> float:
    """Root mean square error on the later part of a history, over its standard deviation there: the mean has about 1.

    Parameters
    ----------
    name : str
        Of the forecast.
    history : float64 (samples,)
        Equally spaced.
    ahead : int
        Samples.
    learned : float
        Share of the history that it learns from, the first part.

    Raises
    ------
    PlanError
        One of the parts is too short, or the later one does not change.
    """
    given = np.asarray(history, np.float64)
    cut = round(len(given) * learned)
    predict = learn(name, given[:cut], ahead)
    ends = range(max(cut, LAGS), len(given) - ahead + 1)
    if not ends:
        raise PlanError(f"forecast {name!r}: no sample is left to compare with: measure longer or more often")
    truth = np.array([given[end + ahead - 1] for end in ends])
    if not (spread := float(np.std(truth))):
        raise PlanError(f"forecast {name!r}: the load does not change, so no error can be compared with it")
    found = np.array([predict(given[:end]) for end in ends])
    return float(np.sqrt(np.mean((found - truth) ** 2)) / spread)


def _mean(history: Floats, ahead: int) -> Callable[[Floats], float]:
    return lambda recent: float(np.mean(history))


def _ewma(history: Floats, ahead: int) -> Callable[[Floats], float]:
    """Exponentially weighted over the samples that matter: older ones weigh less than 0.1 %."""
    count = int(np.ceil(np.log(1e-3) / np.log(1 - WEIGHT)))
    weights = WEIGHT * (1 - WEIGHT) ** np.arange(count)[::-1]

    def predict(recent: Floats) -> float:
        own = recent[-count:]
        return float(np.average(own, weights=weights[-len(own) :]))

    return predict


def _windows(history: Floats, ahead: int) -> tuple[Floats, Floats]:
    ends = range(LAGS, len(history) - ahead + 1)
    rows = np.array([history[end - LAGS : end] for end in ends], np.float64)
    return rows, np.array([history[end + ahead - 1] for end in ends], np.float64)


def _autoregressive(history: Floats, ahead: int) -> Callable[[Floats], float]:
    """Least squares from the last `LAGS` samples straight to the one that is asked for."""
    rows, wanted = _windows(history, ahead)
    found = np.linalg.lstsq(np.column_stack([rows, np.ones(len(rows))]), wanted, rcond=None)[0]
    return lambda recent: float(np.append(recent[-LAGS:], 1.0) @ found)


def _boosted(history: Floats, ahead: int) -> Callable[[Floats], float]:
    """Gradient-boosted trees of scikit-learn over the same samples."""
    try:
        from sklearn.ensemble import GradientBoostingRegressor  # noqa: PLC0415  (an extra)
    except ImportError:
        raise PlanError(
            "forecast 'boosted-trees' needs scikit-learn: pip install 'p4reduce[demo]', or take 'ar'"
        ) from None
    rows, wanted = _windows(history, ahead)
    model: Any = GradientBoostingRegressor(random_state=0)
    model.fit(rows, wanted)
    return lambda recent: float(model.predict(recent[None, -LAGS:])[0])


for _name, _forecast in (("mean", _mean), ("ewma", _ewma), ("ar", _autoregressive), ("boosted-trees", _boosted)):
    FORECASTS.add(_name, _forecast)
