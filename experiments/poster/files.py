"""What the experiment leaves behind: raw rows, points, the result with its provenance, figures."""

import json
from pathlib import Path

from p4reduce.experiments.poster.experiment import PosterResult
from p4reduce.experiments.poster.figures import draw_all
from p4reduce.experiments.poster.overlapping import OverlapRow
from p4reduce.experiments.poster.rings import RingRow
from p4reduce.experiments.poster.sensitivity import SensitivityPoint
from p4reduce.experiments.poster.statistics import Point
from p4reduce.experiments.poster.swaps import SwapRow
from p4reduce.experiments.poster.units import Row
from p4reduce.experiments.poster.weighing import WeightRow
from p4reduce.experiments.selection.experiment import SelectionPoint
from p4reduce.experiments.tables import write_table


def write_files(result: PosterResult, folder: Path) -> tuple[list[Path], dict[str, Path]]:
    """Write runs.csv, points.csv, what else was run as CSV, result.json and figures/ into a folder.

    Returns
    -------
    list of Path and dict
        The files, and the figures (PNG) by name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tables = [
        write_table(folder / "runs.csv", Row, result.rows),
        write_table(folder / "points.csv", Point, result.points),
    ]
    if result.sensitivity:
        tables.append(write_table(folder / "sensitivity.csv", SensitivityPoint, result.sensitivity))
    if result.weights:
        tables.append(write_table(folder / "weights.csv", WeightRow, result.weights))
    if result.selection:
        tables.append(write_table(folder / "selection.csv", SelectionPoint, result.selection))
    if result.swaps:
        tables.append(write_table(folder / "swaps.csv", SwapRow, result.swaps))
    if result.overlapping:
        tables.append(write_table(folder / "overlapping.csv", OverlapRow, result.overlapping))
    if result.rings:
        tables.append(write_table(folder / "rings.csv", RingRow, result.rings))
    data = folder / "result.json"
    data.write_text(json.dumps(result.as_data(), indent=1, sort_keys=True, default=str) + "\n", "utf-8")
    drawn = draw_all(result, folder / "figures")
    return [*tables, data], drawn
