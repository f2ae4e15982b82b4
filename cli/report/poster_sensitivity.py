"""Tables of what the poster's figures depend on: rates, model sizes, delays, lambda."""

from typing import Final

from p4reduce.experiments.poster.experiment import PosterResult
from p4reduce.experiments.poster.sensitivity import SensitivityPoint, failing_rate_bps
from p4reduce.experiments.poster.settings import POSTER_SAVING
from p4reduce.experiments.poster.weighing import WeightRow

SENSITIVITY_COLUMNS: Final = (
    "study",
    "network",
    "value",
    "parameters",
    "policy",
    "source",
    "communication, ms",
    "x bound",
    "x bound, chunk by chunk",
    "MB on links",
    "bytes",
    "total latency",
    "same training time",
    "longest training, ms",
)
WEIGHT_COLUMNS: Final = (
    "network",
    "seed",
    "policy",
    "lambda",
    "admitted",
    "other trees",
    "MB on links",
    "communication, ms",
    "busiest link",
)


def sensitivity_rows(result: PosterResult) -> list[tuple[str, ...]]:
    """In the order of ``SENSITIVITY_COLUMNS``; savings are against spff."""
    return [_sensitivity(point) for point in result.sensitivity]


def _sensitivity(point: SensitivityPoint) -> tuple[str, ...]:
    return (
        point.study,
        point.scenario,
        point.value,
        f"{point.elements:,}",
        point.policy,
        point.source,
        f"{point.communication_ms:,.3f}",
        _number(point.ratio_to_bound),
        _number(point.ratio_to_ordered),
        _number(point.megabytes),
        _share(point.bytes_saving),
        _share(point.saving),
        _share(point.held_saving),
        "never" if point.longest_training_ms is None else f"{point.longest_training_ms:,.2f}",
    )


def weight_rows(result: PosterResult) -> list[tuple[str, ...]]:
    """In the order of ``WEIGHT_COLUMNS``."""
    return [_weights(row) for row in result.weights]


def _weights(row: WeightRow) -> tuple[str, ...]:
    return (
        row.scenario,
        str(row.seed),
        row.policy,
        "-" if row.bandwidth is None else f"{row.bandwidth:g}",
        f"{row.admitted} of {row.asked}",
        str(row.others),
        f"{row.megabytes:.2f}",
        f"{row.communication_ms:.3f}",
        f"{100 * row.largest_utilisation:.0f} %",
    )


def failing_rates(result: PosterResult) -> list[str]:
    """Sentences: up to which rate of hosts' links the poster's saving of total latency is reached."""
    found = []
    for policy in dict.fromkeys(point.policy for point in result.sensitivity):
        for elements in result.settings.access_elements:
            rate = failing_rate_bps(result.sensitivity, policy, elements)
            if rate is not None:
                found.append(
                    f"{policy}, {elements:,} parameters: {100 * POSTER_SAVING:.1f} % of {result.settings.target_ms} ms "
                    f"are saved up to {rate / 1e9:.0f} Gb/s to hosts (interpolated), not above"
                )
    return found


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _share(saving: float | None) -> str:
    return "-" if saving is None else f"{-100 * saving:+.1f} %"
