"""What figures depend on: the rate of hosts' links, the model's size, and how long links are.

The poster gives no capacities, so the saving in total latency rests on a rate that we chose. Here that rate varies, and
the training time is calibrated anew for each: what is left of the poster's 2.3 ms when spff has communicated. A second
column keeps the experiment's training time. The third needs none: with the communication times T of spff and t of
another policy, the saving 1 - (X + t) / (X + T) reaches s as long as training takes X <= (T - t) / s - T.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
from scipy import stats

from p4reduce.base.units import parse_rate
from p4reduce.control_plane.plans.routes import chunks
from p4reduce.group.errors import ClusterError
from p4switch.base.values import PS_PER_MS
from studies.poster.settings import POSTER_SAVING, SPFF, PosterSettings, Scenario
from studies.poster.units import FINISHED, MODELS, Row, Unit

# From rows to points of figures: means, confidence, savings.


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


ACCESS: Final = "access"
DELAY: Final = "delay"
REAL: Final = "real"
"""instead of a delay: the distances of the graph"""
PACKETS: Final = "packets"
MODEL: Final = "flow-level model"
LEFT_OUT: Final = ("spff-ecmp", "mst-routes", "spff-ina", "spt", "exact")
"""policies that only explain, or take long"""


@dataclass(frozen=True)
class Variation:
    """A scenario with one parameter changed."""

    study: str
    value: str
    scenario: str
    """before the change"""
    unit: Unit


@dataclass(frozen=True)
class SensitivityPoint:
    """One policy with one value: a line of sensitivity.csv."""

    study: str
    scenario: str
    value: str
    elements: int
    policy: str
    source: str
    """counted on packets, or by the flow-level model that these packets calibrate"""
    tasks: int
    communication_ms: float
    ratio_to_bound: float | None
    """mean of communication / bound; None for the model"""
    ratio_to_ordered: float | None
    """the same against the bound of a host-side server that answers chunk by chunk"""
    megabytes: float | None
    """on all links, resends included"""
    bytes_saving: float | None
    """against spff"""
    saving: float | None
    """of total latency, with a training time that makes spff's total the poster's; None for the model"""
    held_saving: float | None
    """of total latency, with the experiment's training time; None for the model"""
    longest_training_ms: float | None
    """up to which total latency is the poster's 17.4 % below spff's; None: with no training time"""


def variations(settings: PosterSettings) -> list[Variation]:
    """Every rate and delay; those that a scenario's topology has no parameter for are left out."""
    reference = settings.calibrated_in
    made = []
    for rate in settings.access_rates:
        if "access_rate" in _parameters(reference):
            # Links between cities are as fast as hosts' links at least, or they would be what is measured.
            wide = max(parse_rate(rate), parse_rate(_parameters(reference).get("rate", "10G")))
            scenario = _with(reference, f"{rate} to hosts", access_rate=rate, rate=str(wide))
            made += _units(settings, ACCESS, rate, reference, scenario, settings.access_elements)
    for delay in settings.delays:
        if delay == REAL:
            for own in settings.scenarios:
                if own.topology.startswith("wan:"):
                    scenario = _with(own, f"{own.name}, real distances", delay=None)
                    made += _units(settings, DELAY, REAL, own, scenario, settings.delay_elements)
        elif "delay" in _parameters(reference):
            scenario = _with(reference, f"{delay} a link", delay=delay)
            made += _units(settings, DELAY, delay, reference, scenario, settings.delay_elements)
    return made


def sensitivity_points(
    settings: PosterSettings, varied: Sequence[Variation], rows: Sequence[Sequence[Row]], training_ps: int
) -> list[SensitivityPoint]:
    """A point for every variation and policy, and for each rate those of larger models by the flow-level model."""
    found: list[SensitivityPoint] = []
    for variation, own in zip(varied, rows, strict=True):
        compared = _compared(own)
        for policy, pairs in compared.items():
            times = [(row.communication_ps, base.communication_ps) for row, base in pairs]
            done = [row for row, _ in pairs]
            megabytes = statistics.fmean(row.bytes for row in done) / 1e6
            ours, theirs = _means(times)
            calibrated = max(0.0, settings.target_ms * PS_PER_MS - theirs)
            found.append(
                SensitivityPoint(
                    study=variation.study,
                    scenario=variation.scenario,
                    value=variation.value,
                    elements=variation.unit.settings.elements,
                    policy=policy,
                    source=PACKETS,
                    tasks=len(pairs),
                    communication_ms=ours / PS_PER_MS,
                    ratio_to_bound=statistics.fmean(row.communication_ps / row.bound_ps for row in done),
                    ratio_to_ordered=statistics.fmean(row.communication_ps / row.ordered_ps for row in done),
                    megabytes=megabytes,
                    bytes_saving=1 - megabytes * 1e6 / statistics.fmean(base.bytes for _, base in pairs),
                    saving=1 - (calibrated + ours) / (calibrated + theirs),
                    held_saving=1 - (training_ps + ours) / (training_ps + theirs),
                    longest_training_ms=longest_training_ms(ours, theirs),
                )
            )
        smallest = min(settings.access_elements, default=0)
        if variation.study == ACCESS and variation.unit.settings.elements == smallest:
            found += _modelled(variation, compared, max(settings.access_elements))
    return found


def longest_training_ms(ours_ps: float, theirs_ps: float, saving: float = POSTER_SAVING) -> float | None:
    """Up to which training time a round is this share shorter; None when it is not even without training."""
    longest = (theirs_ps - ours_ps) / saving - theirs_ps
    return longest / PS_PER_MS if longest >= 0 else None


def failing_rate_bps(found: Iterable[SensitivityPoint], policy: str, elements: int) -> float | None:
    """Rate of hosts' links above which the poster's saving of total latency is not reached.

    Interpolated between the two rates on either side, linear in the time that a bit takes; None when all reach it, or
    none does.
    """
    own = sorted(
        (parse_rate(point.value), point.saving)
        for point in found
        if (point.study, point.policy, point.elements, point.source) == (ACCESS, policy, elements, PACKETS)
        and point.saving is not None
    )
    for (slow, enough), (fast, little) in pairwise(own):
        if enough >= POSTER_SAVING > little:
            share = (enough - POSTER_SAVING) / (enough - little)
            return 1 / (1 / slow + share * (1 / fast - 1 / slow))
    return None


def _modelled(variation: Variation, compared: dict[str, list[tuple[Row, Row]]], carried: int) -> list[SensitivityPoint]:
    settings = variation.unit.settings
    found = []
    for name, elements in MODELS.items():
        if elements <= carried:
            continue
        more = chunks(elements, settings.lanes) - chunks(settings.elements, settings.lanes)
        theirs = _predicted([base for _, base in compared[SPFF]], more) if SPFF in compared else None
        for policy, pairs in compared.items():
            ours = _predicted([row for row, _ in pairs], more)
            found.append(
                SensitivityPoint(
                    study=variation.study,
                    scenario=variation.scenario,
                    value=variation.value,
                    elements=elements,
                    policy=policy,
                    source=f"{MODEL}: {name}",
                    tasks=len(pairs),
                    communication_ms=ours / PS_PER_MS,
                    ratio_to_bound=None,
                    ratio_to_ordered=None,
                    megabytes=None,
                    bytes_saving=None,
                    saving=None,
                    held_saving=None,
                    longest_training_ms=None if theirs is None else longest_training_ms(ours, theirs),
                )
            )
    return found


def _predicted(rows: Sequence[Row], more_chunks: int) -> float:
    """As :mod:`~studies.poster.units`, calibrated on these rows."""
    factor = statistics.fmean(row.communication_ps / row.bound_ps for row in rows)
    return statistics.fmean(factor * (row.bound_ps + more_chunks * row.chunk_ps) for row in rows)


def _compared(rows: Iterable[Row]) -> dict[str, list[tuple[Row, Row]]]:
    """By policy every task with spff's row of it, where both finished."""
    done = [row for row in rows if row.status == FINISHED]
    fixed = {row.task: row for row in done if row.policy == SPFF}
    found: dict[str, list[tuple[Row, Row]]] = {}
    for row in done:
        if row.task in fixed:
            found.setdefault(row.policy, []).append((row, fixed[row.task]))
    return found


def _means(pairs: Sequence[tuple[int, int]]) -> tuple[float, float]:
    return statistics.fmean(one for one, _ in pairs), statistics.fmean(other for _, other in pairs)


def _units(
    settings: PosterSettings, study: str, value: str, before: Scenario, scenario: Scenario, sizes: Iterable[int]
) -> list[Variation]:
    policies = tuple(name for name in settings.policies if name not in LEFT_OUT)
    most = (max(settings.sizes),)
    return [
        Variation(
            study,
            value,
            before.name,
            Unit(
                replace(settings, elements=elements, tasks=settings.sensitivity_tasks),
                scenario,
                settings.seeds[0],
                most,
                policies,
            ),
        )
        for elements in sizes
    ]


def _parameters(scenario: Scenario) -> dict[str, str]:
    _, _, text = scenario.topology.partition(":")
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def _with(scenario: Scenario, name: str, **changes: str | None) -> Scenario:
    kind = scenario.topology.partition(":")[0]
    changed = {key: value for key, value in (_parameters(scenario) | changes).items() if value is not None}
    text = ",".join(f"{key}={value}" for key, value in changed.items())
    return replace(scenario, name=name, topology=f"{kind}:{text}" if text else kind)
