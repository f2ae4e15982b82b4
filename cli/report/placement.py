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

TITLE: Final = "Network-aware placement: completion times in a flow model held to packets"
CLAIM_COLUMNS: Final = ("bar", "found", "holds")
POINT_COLUMNS: Final = (
    "scenario", "load", "policy", "order", "back-filling", "mean JCT, s", "wait, s", "makespan, s", "slowdown",
    "in time", "racks",
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
    page = page_of(
        TITLE,
        element("h2", "Bars"),
        claims_table(claims),
        *figures_of(figures, {"policies": "Mean JCT of every policy over that of packed"}),
        element("h2", "Flow model against packets"),
        table(CALIBRATION_COLUMNS, calibration_rows(result)),
        element("h2", "Policies"),
        *charts,
        element("h2", "All points"),
        table(POINT_COLUMNS, point_rows(result)),
    )
    write_text(path, page)
    return path
