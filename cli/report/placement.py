"""report.html of the placement experiment: one page, nothing from outside."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from p4reduce.base.written import write_text
from p4reduce.cli.report.bars import Bar, bars
from p4reduce.cli.report.pieces import claims_table, figures_of, page_of, table
from p4reduce.cli.report.svg import element
from p4reduce.experiments.claim import Claim
from p4reduce.experiments.placement.experiment import PlacementResult
from p4reduce.experiments.placement.forecasts import forecast_points
from p4reduce.experiments.placement.inference import inference_points
from p4reduce.experiments.placement.knobs.study import knob_points
from p4reduce.experiments.placement.learned.training import learn_points
from p4reduce.experiments.placement.telemetry import telemetry_points

FIGURES: Final = {
    "policies": "Mean JCT of every policy over that of packed",
    "knobs": "Accuracy by bytes",
    "forecasts": "Errors of forecasts",
    "traces": "Readings and forecasts",
    "inference": "Inference beside training",
    "telemetry": "What reading counters or being told costs, and what tasks gain",
    "learning": "A policy that learns",
}
TITLE: Final = "Network-aware placement: completion times in a flow model held to packets"
CLAIM_COLUMNS: Final = ("bar", "found", "holds")
POINT_COLUMNS: Final = (
    "scenario", "load", "policy", "order", "back-filling", "mean JCT, s", "wait, s", "makespan, s", "slowdown",
    "in time", "racks",
)  # fmt: skip
KNOB_COLUMNS: Final = (
    "data", "knob", "accuracy, %", "bytes", "busiest link", "time", "gradients a round", "seeds",
)  # fmt: skip
FORECAST_COLUMNS: Final = ("load", "method", "NRMSE", "least", "most", "seeds")
INFERENCE_COLUMNS: Final = (
    "servers", "requests/s a client", "queue", "p50, us", "p99, us", "p99 without training, us", "ratio", "worst seed",
    "training",
)  # fmt: skip
LEARN_COLUMNS: Final = ("cluster", "policy", "mean JCT, s", "best training", "worst training", "trainings", "seeds")
TELEMETRY_COLUMNS: Final = (
    "bursts, s", "known by", "every, s", "threshold", "P4Runtime, B/s", "core, %", "links told/s", "age, s",
    "mean JCT, ms", "over oracle", "worst seed",
)  # fmt: skip
CALIBRATION_COLUMNS: Final = ("point", "packets, us", "model, us", "error, %")


def claim_rows(claims: Sequence[Claim]) -> list[tuple[str, ...]]:
    """In the order of ``CLAIM_COLUMNS``."""
    return [(claim.text, claim.measured, "yes" if claim.holds else "no") for claim in claims]


def point_rows(result: PlacementResult) -> list[tuple[str, ...]]:
    """In the order of ``POINT_COLUMNS``."""
    return [
        (
            point.scenario,
            f"{point.load:g}",
            point.policy,
            point.order,
            "yes" if point.backfill else "no",
            f"{point.jct_s:.0f} ± {point.deviation_s:.0f}",
            f"{point.wait_s:.0f}",
            f"{point.makespan_s:.0f}",
            f"{point.slowdown:.2f}",
            f"{100 * point.in_time:.1f} %",
            f"{point.racks:.2f}",
        )
        for point in result.points
    ]


def calibration_rows(result: PlacementResult) -> list[tuple[str, ...]]:
    """In the order of ``CALIBRATION_COLUMNS``."""
    return [
        (
            one.name,
            ", ".join(f"{1e6 * value:.1f}" for value in one.packets_s),
            ", ".join(f"{1e6 * value:.1f}" for value in one.model_s),
            ", ".join(f"{100 * value:+.1f}" for value in one.errors),
        )
        for one in result.calibrated
    ]


def knob_rows(result: PlacementResult) -> list[tuple[str, ...]]:
    """In the order of ``KNOB_COLUMNS``; bytes and time over those of float32."""
    return [
        (
            point.data,
            point.knob,
            f"{100 * point.accuracy:.2f} ± {100 * point.deviation:.2f}",
            f"{point.bytes:.3f}",
            f"{point.busiest:.3f}",
            f"{point.time:.3f}",
            f"{point.gradients:.2f}",
            str(point.seeds),
        )
        for point in knob_points(result.knobs)
    ]


def forecast_rows(result: PlacementResult) -> list[tuple[str, ...]]:
    """In the order of ``FORECAST_COLUMNS``."""
    return [
        (point.load, point.method, *(f"{x:.2f}" for x in (point.nrmse, point.least, point.most)), str(point.seeds))
        for point in forecast_points(result.forecasts)
    ]


def inference_rows(result: PlacementResult) -> list[tuple[str, ...]]:
    """In the order of ``INFERENCE_COLUMNS``."""
    return [
        (
            point.place,
            f"{point.rate_hz:g}",
            "by DSCP" if point.classes else "one for all",
            *(f"{value:.1f}" for value in (point.p50_us, point.p99_us, point.unloaded_p99_us)),
            *(f"{value:.3f}" for value in (point.ratio, point.worst, point.training)),
        )
        for point in inference_points(result.inference)
    ]


def telemetry_rows(result: PlacementResult) -> list[tuple[str, ...]]:
    """In the order of ``TELEMETRY_COLUMNS``; '-' where nothing is read, or not all readings are made."""
    return [
        (
            f"{point.burst_s:g}",
            point.knows,
            *(
                (
                    f"{point.interval_s:g}",
                    f"{point.threshold:g}",
                    f"{point.bytes_per_s:.0f}",
                    f"{100 * point.core:.1f}",
                    f"{point.told_per_s:.2f}" if point.told_per_s else "-",
                    f"{point.age_s:.3g}",
                )
                if point.knows in ("counters", "digests")
                else ("-",) * 6
            ),
            f"{1e3 * point.jct_s:.1f}",
            f"{point.ratio:.4f}",
            f"{point.worst:.4f}",
        )
        for point in telemetry_points(result.telemetry)
    ]


def learn_rows(result: PlacementResult) -> list[tuple[str, ...]]:
    """In the order of ``LEARN_COLUMNS``."""
    return [
        (
            point.scenario,
            point.policy,
            *(f"{value:.0f}" for value in (point.jct_s, point.best_s, point.worst_s)),
            str(point.trainings),
            str(point.seeds),
        )
        for point in learn_points(result.learned)
    ]


def tables(result: PlacementResult, claims: Sequence[Claim]) -> list[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
    """Title, columns and rows of everything that was run."""
    found = [
        ("Bars", CLAIM_COLUMNS, claim_rows(claims)),
        ("Flow model against packets", CALIBRATION_COLUMNS, calibration_rows(result)),
        ("Sending less: accuracy beside bytes", KNOB_COLUMNS, knob_rows(result)),
        ("Forecasts of links' loads", FORECAST_COLUMNS, forecast_rows(result)),
        ("Inference beside training", INFERENCE_COLUMNS, inference_rows(result)),
        ("Telemetry: its price, and what it is worth", TELEMETRY_COLUMNS, telemetry_rows(result)),
        ("A learned policy on seeds and clusters that it has not seen", LEARN_COLUMNS, learn_rows(result)),
        ("All points", POINT_COLUMNS, point_rows(result)),
    ]
    return [(title, columns, rows) for title, columns, rows in found if rows]


def write_placement_report(
    path: Path, result: PlacementResult, claims: Sequence[Claim], figures: Mapping[str, Path]
) -> Path:
    """Write the page; ``figures`` are PNG files by name. Returns ``path``."""
    load = result.settings.loads[0]
    own = [point for point in result.points if (point.load, point.order, point.backfill) == (load, "fifo", True)]
    charts = []
    for name in dict.fromkeys(point.scenario for point in own):
        rows = [Bar(point.policy, point.jct_s, f"{point.jct_s:.0f} s") for point in own if point.scenario == name]
        charts.append(element("figure", bars(name, rows), element("figcaption", f"{name}: mean JCT, load {load:g}")))
    rest = [one for one in tables(result, claims) if one[1] is not CLAIM_COLUMNS]
    page = page_of(
        TITLE,
        element("h2", "Bars"),
        claims_table(claims),
        *figures_of(figures, FIGURES),
        *(part for title, columns, rows in rest for part in (element("h2", title), table(columns, rows))),
        *([element("h2", "Policies")] if charts else []),
        *charts,
    )
    write_text(path, page)
    return path
