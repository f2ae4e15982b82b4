"""What the experiment leaves behind: raw rows, points, calibration, the result, figures."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from p4reduce.experiments.claim import Claim
from p4reduce.experiments.drawing import save_all
from p4reduce.experiments.placement.experiment import PlacementResult, Point, Row
from p4reduce.experiments.placement.figures import figures
from p4reduce.experiments.placement.forecasts import ForecastRow
from p4reduce.experiments.placement.inference import InferenceRow
from p4reduce.experiments.placement.knobs.study import KnobRow
from p4reduce.experiments.placement.learned.training import LearnRow
from p4reduce.experiments.placement.telemetry import TelemetryRow
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
    """Write a table of rows for each part, result.json and figures/.

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
        write_table(folder / "knobs.csv", KnobRow, result.knobs),
        write_table(folder / "forecasts.csv", ForecastRow, result.forecasts),
        write_table(folder / "inference.csv", InferenceRow, result.inference),
        write_table(folder / "learned.csv", LearnRow, [row for one in result.learned for row in one.rows]),
        write_table(folder / "telemetry.csv", TelemetryRow, result.telemetry),
        folder / "result.json",
    ]
    data = plain({**result.as_data(), "claims": list(claims)})
    written[-1].write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", "utf-8")
    return written, save_all(figures(result), folder / "figures")
