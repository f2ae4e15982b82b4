"""Load that is predicted instead of measured: what links will carry of others when a decision has taken effect."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from p4reduce.base.safe_yaml import one_line
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.placement.forecast import Floats, forecast_named, learn
from p4reduce.topologies.model import Hop

KEPT: Final = 256
"""newest samples of a link that are learned from"""
LEARN_EVERY: Final = 16
"""samples after which a link's forecast is learned anew"""


class Foresight:
    """Forecasts of background traffic, by directed link, from equally spaced measurements.

    Parameters
    ----------
    name : str
        Of the forecast; '' for none: then what was measured is what is used.
    ahead : int
        Measurements from now that it is for.
    """

    def __init__(self, name: str, ahead: int) -> None:
        """`PlanError` for a forecast that is not known, or no time ahead."""
        if name:
            forecast_named(name)
            if ahead < 1:
                raise PlanError(f"forecast {name!r}: {ahead} samples ahead, must be at least 1")
        self._name, self._ahead = name, ahead
        self._samples = 0
        self._history: dict[Hop, deque[float]] = {}
        self._learned: dict[Hop, tuple[int, Callable[[Floats], float]]] = {}
        self.missing = ""
        """why the newest answer is what was measured; empty where it is a forecast"""

    def predict(self, measured: Mapping[Hop, int]) -> dict[Hop, int]:
        """What links will carry, bit/s, after one more measurement; what was measured where nothing can be learned."""
        if not self._name:
            return dict(measured)
        for hop in measured:
            self._history.setdefault(hop, deque([0.0] * min(self._samples, KEPT), maxlen=KEPT))
        self._samples += 1
        found: dict[Hop, int] = {}
        self.missing = ""
        for hop, history in self._history.items():
            history.append(float(measured.get(hop, 0)))
            try:
                found[hop] = max(0, round(self._of(hop, np.array(history))))
            except PlanError as error:
                self.missing = one_line(error)
                found[hop] = measured.get(hop, 0)
        return {hop: bps for hop, bps in found.items() if bps}

    def _of(self, hop: Hop, history: Floats) -> float:
        known = self._learned.get(hop)
        if known is None or self._samples - known[0] >= LEARN_EVERY:
            known = self._learned[hop] = self._samples, learn(self._name, history, self._ahead)
        return known[1](history)
