"""A line of the table of bars: what was demanded beside what was measured."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """A line of the table."""

    text: str
    demand: str
    measured: str
    holds: bool | None
    """None: to be reported"""


def at_least(text: str, values: Sequence[float], demanded: float | None) -> list[Bar]:
    """A mean that must not be lower; nothing where nothing was measured."""
    if not values:
        return []
    mean = statistics.fmean(values)
    said = f"mean {mean:.3g}, {min(values):.3g} to {max(values):.3g}"
    holds = None if demanded is None else mean >= demanded
    return [Bar(text, "report" if demanded is None else f">= {demanded:g}", said, holds)]


def at_most(text: str, values: Sequence[float], mean_most: float | None, worst_most: float | None = None) -> list[Bar]:
    """A mean, and a worst value, that must not be higher; nothing where nothing was measured."""
    if not values:
        return []
    mean, worst = statistics.fmean(values), max(values)
    holds = None
    if mean_most is not None:
        holds = mean <= mean_most + 1e-9 and (worst_most is None or worst <= worst_most + 1e-9)
    wanted = "report" if mean_most is None else f"mean <= {mean_most:g}"
    wanted += "" if worst_most is None else f", worst <= {worst_most:g}"
    return [Bar(text, wanted, f"mean {mean:.4g}, worst {worst:.4g}", holds)]
