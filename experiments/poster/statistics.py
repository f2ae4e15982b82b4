"""From rows to points of figures: means, confidence, savings."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from p4reduce.base.units import PS_PER_MS
from p4reduce.comm.errors import ClusterError
from p4reduce.experiments.poster.settings import SPFF, PosterSettings
from p4reduce.experiments.poster.units import FINISHED, Row

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Point:
    """One policy at one size in one scenario."""

    scenario: str
    policy: str
    size: int
    tasks: int
    """that were finished"""
    rejected: int
    total_ms: float
    """mean of training and communication"""
    total_ci_ms: float
    """half of the 95 % confidence interval: of the seeds' means, or of the tasks where there is one seed"""
    communication_ms: float
    aggregation_ms: float
    """mean of what the global model's host takes to add up; not in the total"""
    bound_ms: float
    ratio_to_bound: float
    """mean over tasks of communication / bound"""
    megabytes: float
    """on all links, mean of a task"""
    megabytes_ci: float
    total_saving: float | None
    """1 - mean total / spff's mean total, over tasks that both finished; None: there are none"""
    bytes_saving: float | None
    over_exact: float | None
    """mean over tasks of bytes / exact's bytes; None where exact was not asked"""
    least_megabytes: float | None
    """mean of the certified lower bound over the same tasks"""
    over_least: float | None
    """mean over tasks of bytes / the certified lower bound"""


def calibrate(rows: Iterable[Row], settings: PosterSettings) -> int:
    """The training time: what is left of the target when spff has communicated, with the most local models.

    One number for every scenario, policy and size, picoseconds, at least 0.
    """
    scenario, size = settings.calibrated_in.name, max(settings.sizes)
    times = [
        row.communication_ps
        for row in rows
        if (row.scenario, row.size, row.policy, row.status) == (scenario, size, SPFF, FINISHED)
    ]
    if not times:
        raise ClusterError(f"no task of {size} local models was finished by {SPFF} on {scenario}: nothing to calibrate")
    return max(0, round(settings.target_ms * PS_PER_MS - statistics.fmean(times)))


def points(rows: Sequence[Row], training_ps: int) -> list[Point]:
    """A point for every scenario, policy and size, in the order of the rows."""
    groups: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.scenario, row.policy, row.size), []).append(row)
    return [
        _point(
            own,
            _finished(groups.get((scenario, SPFF, size), ())),
            _finished(groups.get((scenario, "exact", size), ())),
            training_ps,
        )
        for (scenario, _, size), own in groups.items()
    ]


def interval(rows: Sequence[Row], values: Sequence[float]) -> float:
    """Half of the confidence interval of a mean (Student's t), over seeds if there are several, else over tasks."""
    by_seed: dict[int, list[float]] = {}
    for row, value in zip(rows, values, strict=True):
        by_seed.setdefault(row.seed, []).append(value)
    sample = [statistics.fmean(own) for own in by_seed.values()] if len(by_seed) > 1 else list(values)
    if len(sample) < 2:
        return 0.0
    quantile = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(sample) - 1))
    return quantile * statistics.stdev(sample) / math.sqrt(len(sample))


Key = tuple[int, str]
"""seed and task"""


def _finished(rows: Iterable[Row]) -> dict[Key, Row]:
    return {(row.seed, row.task): row for row in rows if row.status == FINISHED}


def _point(own: Sequence[Row], spff: Mapping[Key, Row], exact: Mapping[Key, Row], training_ps: int) -> Point:
    done = list(_finished(own).values())
    first = own[0]
    totals = [(training_ps + row.communication_ps) / PS_PER_MS for row in done]
    sizes = [row.bytes / 1e6 for row in done]
    both = [(row, spff[row.seed, row.task]) for row in done if (row.seed, row.task) in spff]
    nearest = [(row, exact[row.seed, row.task]) for row in done if (row.seed, row.task) in exact]
    bounded = [row for row in done if row.least_bytes]
    return Point(
        scenario=first.scenario,
        policy=first.policy,
        size=first.size,
        tasks=len(done),
        rejected=len(own) - len(done),
        total_ms=_mean(totals),
        total_ci_ms=interval(done, totals),
        communication_ms=_mean([row.communication_ps / PS_PER_MS for row in done]),
        aggregation_ms=_mean([row.aggregation_ps / PS_PER_MS for row in done]),
        bound_ms=_mean([row.bound_ps / PS_PER_MS for row in done]),
        ratio_to_bound=_mean([row.communication_ps / row.bound_ps for row in done]),
        megabytes=_mean(sizes),
        megabytes_ci=interval(done, sizes),
        total_saving=_saving(
            [(training_ps + one.communication_ps, training_ps + other.communication_ps) for one, other in both]
        ),
        bytes_saving=_saving([(one.bytes, other.bytes) for one, other in both]),
        over_exact=_mean([one.bytes / other.bytes for one, other in nearest]) if nearest else None,
        least_megabytes=_mean([row.least_bytes / 1e6 for row in bounded]) if bounded else None,
        over_least=_mean([row.bytes / row.least_bytes for row in bounded]) if bounded else None,
    )


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else math.nan


def _saving(pairs: Sequence[tuple[int, int]]) -> float | None:
    if not pairs:
        return None
    ours, theirs = np.array(pairs, dtype=np.float64).mean(axis=0)
    return float(1 - ours / theirs)
