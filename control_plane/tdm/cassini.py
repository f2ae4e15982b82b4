"""Time shifts on the unified circle (CASSINI, NSDI 2024), for two jobs that share links and GPUs."""

from fractions import Fraction
from math import lcm
from typing import Final

import numpy as np

from p4reduce.control_plane.tdm.pairs import Alone

ANGLES: Final = 360
"""shifts that are tried"""
_MOST_TURNS: Final = 64
"""of the shorter job on the circle: longer common multiples are cut"""
_DENOMINATOR: Final = 16


def time_shift(a: Alone, b: Alone) -> float:
    """Seconds by which b should begin after a, so that they communicate, and train, together the least.

    The circle is as long as the least common multiple of both periods, their ratio rounded to sixteenths.
    """
    if a.period_s <= 0 or b.period_s <= 0:
        return 0.0
    ratio = Fraction(b.period_s / a.period_s).limit_denominator(_DENOMINATOR)
    if ratio == 0 or ratio > _MOST_TURNS:
        return 0.0
    turns = min(_MOST_TURNS, lcm(ratio.numerator, ratio.denominator))
    circle = a.period_s * max(turns, 1)
    at = (np.arange(16 * ANGLES) + 0.5) / (16 * ANGLES) * circle
    first = _communicates(a, at)
    shifts = np.arange(ANGLES) / ANGLES * min(b.period_s, circle)
    overlaps = [float((first == _communicates(b, at - shift)).mean()) for shift in shifts]
    return float(shifts[int(np.argmin(overlaps))])


def _communicates(job: Alone, at: "np.typing.NDArray[np.float64]") -> "np.typing.NDArray[np.bool_]":
    return np.mod(at, job.period_s) >= job.train_s
