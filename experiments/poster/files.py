"""What the experiment leaves behind: raw rows, points, the result with its provenance, figures."""

import csv
import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

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


def write_files(result: PosterResult, folder: Path) -> tuple[list[Path], dict[str, Path]]:
    """Write runs.csv, points.csv, what else was run as CSV, result.json and figures/ into a folder.

    Returns
    -------
    list of Path and dict
        The files, and the figures (PNG) by name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tables = [_table(folder / "runs.csv", Row, result.rows), _table(folder / "points.csv", Point, result.points)]
    if result.sensitivity:
        tables.append(_table(folder / "sensitivity.csv", SensitivityPoint, result.sensitivity))
    if result.weights:
        tables.append(_table(folder / "weights.csv", WeightRow, result.weights))
    if result.selection:
        tables.append(_table(folder / "selection.csv", SelectionPoint, result.selection))
    if result.swaps:
        tables.append(_table(folder / "swaps.csv", SwapRow, result.swaps))
    if result.overlapping:
        tables.append(_table(folder / "overlapping.csv", OverlapRow, result.overlapping))
    if result.rings:
        tables.append(_table(folder / "rings.csv", RingRow, result.rings))
    data = folder / "result.json"
    data.write_text(json.dumps(result.as_data(), indent=1, sort_keys=True, default=str) + "\n", "utf-8")
    drawn = draw_all(result, folder / "figures")
    return [*tables, data], drawn


def _table(path: Path, kind: type[Any], rows: Iterable[Any]) -> Path:
    fields = [field.name for field in dataclasses.fields(kind)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerow(fields)
        writer.writerows([_cell(getattr(row, name)) for name in fields] for row in rows)
    return path


def _cell(value: Any) -> Any:
    return "" if value is None else value
