"""What the experiment leaves behind: raw rows, points, calibration, the result, a figure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from p4reduce.experiments.claim import Claim
from p4reduce.experiments.drawing import save_all
from p4reduce.experiments.placement.experiment import PlacementResult, Point, Row
from p4reduce.experiments.tables import plain, write_table


@dataclass(frozen=True)
class CalibrationRow:
    """A job of a point of the calibration: a line of calibration.csv."""

    point: str
    job: int
    packets_s: float
    model_s: float
    error: float


def write_files(result: PlacementResult, claims: Sequence[Claim], folder: Path) -> tuple[list[Path], dict[str, Path]]:
    """Write runs.csv, points.csv, calibration.csv, result.json and figures/.

    Returns
    -------
    list of Path and dict
        The files, and the figures (PNG) by name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    calibration = [
        CalibrationRow(one.name, job, packets, model, error)
        for one in result.calibrated
        for job, (packets, model, error) in enumerate(zip(one.packets_s, one.model_s, one.errors, strict=True))
    ]
    written = [
        write_table(folder / "runs.csv", Row, result.rows),
        write_table(folder / "points.csv", Point, result.points),
        write_table(folder / "calibration.csv", CalibrationRow, calibration),
        folder / "result.json",
    ]
    data = plain({**result.as_data(), "claims": list(claims)})
    written[-1].write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", "utf-8")
    return written, save_all([("policies", _policies(result))], folder / "figures")


def _policies(result: PlacementResult) -> Figure | None:
    """Mean JCT of every policy over that of 'packed', by scenario; None without that."""
    load = result.settings.loads[0]
    points = [point for point in result.points if (point.load, point.order, point.backfill) == (load, "fifo", True)]
    base = {point.scenario: point.jct_s for point in points if point.policy == "packed"}
    scenarios = list(base)
    if not scenarios:
        return None
    figure = Figure(figsize=(8, 0.42 * len(scenarios) + 1.4), layout="constrained")
    axes = figure.subplots()
    for number, policy in enumerate(result.settings.policies):
        own = {point.scenario: point for point in points if point.policy == policy}
        axes.plot(
            [own[name].jct_s / base[name] for name in scenarios if name in own],
            [place for place, name in enumerate(scenarios) if name in own],
            "sv^oDPX*"[number % 8],
            label=policy,
        )
    axes.set_yticks(range(len(scenarios)), scenarios)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1, color="grey", linewidth=0.8)
    axes.set_xlabel(f"mean JCT over that of packed, load {load:g}")
    axes.legend(ncols=4, fontsize=7)
    return figure
