"""What the study leaves behind: raw rows, points, the result with its provenance, figures."""

import json
from pathlib import Path

from p4reduce.experiments.priorities.study.figures import draw_all
from p4reduce.experiments.priorities.study.layered import LayerRow
from p4reduce.experiments.priorities.study.learned import LearningRow
from p4reduce.experiments.priorities.study.points import Point
from p4reduce.experiments.priorities.study.stale import StaleRow
from p4reduce.experiments.priorities.study.study import StudyResult
from p4reduce.experiments.priorities.study.units import RoundRow, Row
from p4reduce.experiments.tables import write_table


def write_files(result: StudyResult, folder: Path) -> tuple[list[Path], dict[str, Path]]:
    """Write tables as CSV, result.json and figures/ into a folder; the files, and figures (PNG) by name."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = [
        write_table(folder / "runs.csv", Row, result.rows),
        write_table(folder / "points.csv", Point, result.points),
        write_table(folder / "rounds.csv", RoundRow, result.rounds),
    ]
    if result.stale:
        tables.append(write_table(folder / "stale.csv", StaleRow, result.stale))
    if result.layers:
        tables.append(write_table(folder / "layers.csv", LayerRow, result.layers))
    if result.learning:
        tables.append(write_table(folder / "learning.csv", LearningRow, result.learning))
    data = folder / "result.json"
    data.write_text(json.dumps(result.as_data(), indent=1, sort_keys=True, default=str) + "\n", "utf-8")
    return [*tables, data], draw_all(result, folder / "figures")
