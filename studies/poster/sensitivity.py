"""Sensitivity of the results to the rate of hosts' links, the model's size, and the length of links.

The poster gives no capacities, so the saving in total latency depends on a rate that we chose. This part varies that
rate, and calibrates the training time for each rate: the poster's 2.3 ms minus the communication time of spff. A second
column keeps the experiment's training time. The third is independent of it: with the communication times T of spff and
t of another policy, the saving 1 - (X + t) / (X + T) reaches s as long as the training time X is at most (T - t) / s -
T.
"""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from p4reduce.control_plane.plans.routes import chunks
from p4switch.base.values import PS_PER_MS, parse_rate
from studies.frame import by_field, column, record
from studies.poster.cells import FINISHED, MODELS, Difference, PolicyCell, PolicyRow, run_policies
from studies.poster.settings import POSTER_SAVING, SPFF, PosterSettings, TrafficScenario

ACCESS: Final = "access"
DELAY: Final = "delay"
REAL: Final = "real"
"""value instead of a delay: the distances of the graph"""
LEFT_OUT: Final = ("spff-ecmp", "mst-routes", "spff-ina", "spt", "exact")
"""policies that only explain results, or take long"""


@dataclass(frozen=True)
class Variation:
    """A scenario with one changed parameter."""

    study: str
    value: str
    scenario: str
    """name of the scenario before the change"""
    cell: PolicyCell


def variations(settings: PosterSettings) -> list[Variation]:
    """Return all rates and delays, except those for which a scenario's topology has no parameter."""
    reference = settings.calibrated_in
    made = []
    for rate in settings.access_rates:
        if "access_rate" in _parameters(reference):
            # Links between cities are at least as fast as hosts' links, which would otherwise not be the bottleneck.
            wide = max(parse_rate(rate), parse_rate(_parameters(reference).get("rate", "10G")))
            scenario = _with(reference, f"{rate} to hosts", access_rate=rate, rate=str(wide))
            made += _cells(settings, ACCESS, rate, reference, scenario, settings.access_elements)
    for delay in settings.delays:
        if delay == REAL:
            for own in settings.scenarios:
                if own.topology.startswith("wan:"):
                    scenario = _with(own, f"{own.name}, real distances", delay=None)
                    made += _cells(settings, DELAY, REAL, own, scenario, settings.delay_elements)
        elif "delay" in _parameters(reference):
            scenario = _with(reference, f"{delay} a link", delay=delay)
            made += _cells(settings, DELAY, delay, reference, scenario, settings.delay_elements)
    return made


def run_variation(variation: Variation) -> Iterator[PolicyRow | Difference]:
    """Run the tasks of a variation's cell; rows name the changed parameter."""
    outcome = run_policies(variation.cell)
    elements = variation.cell.settings.elements
    for row in outcome.rows:
        study, value = variation.study, variation.value
        yield replace(row, study=study, scenario=variation.scenario, value=value, elements=elements)
    yield from map(Difference, outcome.differences)


def longest_training_ms(ours_ps: float, theirs_ps: float, saving: float = POSTER_SAVING) -> float | None:
    """Return the longest training time for which a round is this share shorter; None if no training time suffices."""
    longest = (theirs_ps - ours_ps) / saving - theirs_ps
    return longest / PS_PER_MS if longest >= 0 else None


def failing_rate_bps(savings: Iterable[tuple[str, float | None]]) -> float | None:
    """Return the rate of hosts' links above which the poster's saving of total latency is not reached.

    ``savings``: rates as text, each with its saving. The result is interpolated between the rates on either side,
    linear in the time of a bit; None if all rates reach the saving, or none does.
    """
    own = sorted((parse_rate(rate), saving) for rate, saving in savings if saving is not None)
    for (slow, enough), (fast, little) in pairwise(own):
        if enough >= POSTER_SAVING > little:
            share = (enough - POSTER_SAVING) / (enough - little)
            return 1 / (1 / slow + share * (1 / fast - 1 / slow))
    return None


@record
class LargerModel:
    """A model too large for packets, in the flow-level model, calibrated on packets at its rate."""

    value: str = column("hosts' links")
    model: str = column("model")
    elements: int = column("parameters", "{:,}")
    policy: str = column("policy")
    communication_ms: float = column("communication, ms", "{:,.3f}")
    longest_training_ms: float | None = column("longest training, ms", "{:,.2f}")
    """longest training time with a total latency the poster's 17.4 % below spff's; None: not reached even at 0"""


def larger_models(settings: PosterSettings, rows: Sequence[PolicyRow]) -> Iterator[LargerModel]:
    """Yield all models larger than those on packets, at every rate of hosts' links."""
    if not settings.access_elements:
        return
    least, carried = min(settings.access_elements), max(settings.access_elements)
    own = [row for row in rows if (row.study, row.elements, row.status) == (ACCESS, least, FINISHED)]
    for (value,), at_rate in by_field(own, "value"):
        fixed = {(row.seed, row.task): row for row in at_rate if row.policy == SPFF}
        for name, elements in MODELS.items():
            if elements <= carried:
                continue
            more = chunks(elements, settings.lanes) - chunks(least, settings.lanes)
            for (policy,), of_policy in by_field(at_rate, "policy"):
                both = [row for row in of_policy if (row.seed, row.task) in fixed]
                if both:
                    ours = _predicted(both, more)
                    theirs = _predicted([fixed[row.seed, row.task] for row in both], more)
                    longest = longest_training_ms(ours, theirs)
                    yield LargerModel(value, name, elements, policy, ours / PS_PER_MS, longest)


def _predicted(rows: Sequence[PolicyRow], more_chunks: int) -> float:
    """Predict a time as :mod:`~studies.poster.cells` does, calibrated on these rows."""
    factor = statistics.fmean(row.communication_ps / row.bound_ps for row in rows)
    return statistics.fmean(factor * (row.bound_ps + more_chunks * row.chunk_ps) for row in rows)


def _cells(
    settings: PosterSettings,
    study: str,
    value: str,
    before: TrafficScenario,
    scenario: TrafficScenario,
    sizes: Iterable[int],
) -> list[Variation]:
    policies = tuple(name for name in settings.policies if name not in LEFT_OUT)
    most = (max(settings.sizes),)
    return [
        Variation(
            study,
            value,
            before.name,
            PolicyCell(
                replace(settings, elements=elements, tasks=settings.sensitivity_tasks), scenario, seed, most, policies
            ),
        )
        for elements in sizes
        for seed in settings.seeds[: settings.sensitivity_seeds]
    ]


def _parameters(scenario: TrafficScenario) -> dict[str, str]:
    _, _, text = scenario.topology.partition(":")
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def _with(scenario: TrafficScenario, name: str, **changes: str | None) -> TrafficScenario:
    kind = scenario.topology.partition(":")[0]
    changed = {key: value for key, value in (_parameters(scenario) | changes).items() if value is not None}
    text = ",".join(f"{key}={value}" for key, value in changed.items())
    return replace(scenario, name=name, topology=f"{kind}:{text}" if text else kind)
