"""What figures depend on: the rate of hosts' links, the model's size, and how long links are.

The poster gives no capacities, so the saving in total latency rests on a rate that we chose. Here that rate varies, and
the training time is calibrated anew for each: what is left of the poster's 2.3 ms when spff has communicated. A second
column keeps the experiment's training time. The third needs none: with the communication times T of spff and t of
another policy, the saving 1 - (X + t) / (X + T) reaches s as long as training takes X <= (T - t) / s - T.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from p4reduce.base.units import PS_PER_MS
from p4reduce.control_plane.frames import chunks
from p4reduce.experiments.poster.flow_model import MODELS
from p4reduce.experiments.poster.settings import POSTER_SAVING, SPFF, PosterSettings, Scenario
from p4reduce.experiments.poster.units import FINISHED, Row, Unit
from p4reduce.topologies.units import parse_rate

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
    """As :mod:`~p4reduce.experiments.poster.flow_model`, calibrated on these rows."""
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
