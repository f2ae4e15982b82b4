"""The poster's weights of links: bandwidth and latency."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.graph import Ints, SwitchGraph
from p4reduce.control_plane.plans.paths import unique_words

Floats = npt.NDArray[np.float64]
SCALE: Final = 1_000_000
"""weight 1.0 as an integer"""
_FULL: Final = 1000.0
"""the bandwidth term of a link that is full, for a task that reserves nothing: the most that it can be"""


@dataclass(frozen=True, slots=True)
class Weights:
    """w = lambda * b / residual + (1 - lambda) * delay / reference, for every directed link; integers of 1 / `SCALE`.

    Attributes
    ----------
    bandwidth : float
        lambda, 0 to 1: how much bandwidth counts against latency.
    reference_ps : int or None
        The delay that weighs as much as a whole free link; None: the mean delay of the links between switches.

    Raises
    ------
    PlanError
        When a value is out of range.
    """

    bandwidth: float = 0.9
    reference_ps: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.bandwidth <= 1:
            raise PlanError(f"weights: bandwidth (lambda): {self.bandwidth} is outside 0..1")
        if self.reference_ps is not None and self.reference_ps < 1:
            raise PlanError(f"weights: reference_ps: {self.reference_ps} is below 1")

    def words(self, graph: SwitchGraph, residual_bps: Ints, rate_bps: int, demand_bps: int) -> Ints:
        """Weights of all arcs with unique sums (:func:`~p4reduce.control_plane.plans.paths.unique_words`).

        Parameters
        ----------
        graph : SwitchGraph
            m arcs.
        residual_bps : int64 (m,)
            What every arc has left.
        rate_bps : int
            b: what the task sends with.
        demand_bps : int
            What it reserves: arcs with less are closed (weight -1), full ones always.
        """
        bandwidth = np.minimum(_FULL, rate_bps / np.maximum(residual_bps, 1))
        cost = SCALE * (self.bandwidth * bandwidth + self.latency(graph, graph.delay_ps))
        main = np.maximum(1, np.rint(cost)).astype(np.int64)
        main[residual_bps < max(1, demand_bps)] = -1
        return unique_words(graph, main, graph.rate_bps - residual_bps)

    def latency(self, graph: SwitchGraph, delay_ps: Ints) -> Floats:
        """The second term of w for links of these delays."""
        reference = self.reference_ps or (float(graph.delay_ps.mean()) if len(graph.delay_ps) else 1.0)
        return np.asarray((1 - self.bandwidth) * delay_ps / max(reference, 1.0), np.float64)


def hop_words(graph: SwitchGraph, residual_bps: Ints, demand_bps: int) -> Ints:
    """Weights of shortest-path routing: links crossed, then delay, then the order of links."""
    main = np.ones(len(graph.heads), np.int64)
    main[residual_bps < max(1, demand_bps)] = -1
    return unique_words(graph, main, np.zeros(len(graph.heads), np.int64))
