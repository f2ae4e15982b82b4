"""What ``p4reduce perf`` leaves on disk: every row as CSV, and bus bandwidth over size as a figure."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from p4reduce.base.written import write_text
from p4reduce.cli.files import write_rows
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.perf import Row

NUMBERS: Final = ("time_us", "algbw", "busbw", "wrong")


def write_perf(folder: Path, rows: Sequence[Row], collective: str, experiment: Experiment) -> list[Path]:
    """Write perf.csv and perf.svg; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    table = [_flat(row, collective, experiment) for row in rows]
    return [write_rows(folder / "perf.csv", table), write_text(folder / "perf.svg", _figure(rows, collective))]


def _flat(row: Row, collective: str, experiment: Experiment) -> dict[str, Any]:
    found: dict[str, Any] = {
        "collective": collective,
        "engine": row.engine,
        "topology": experiment.topology,
        "rate": experiment.rate,
        "time": experiment.time,
        "size": row.size,
        "count": row.count,
        "type": row.type,
        "redop": row.redop,
        "root": row.root,
    }
    for name, figures in (("out_of_place", row.out_of_place), ("in_place", row.in_place)):
        found |= {f"{name}_{number}": getattr(figures, number, None) for number in NUMBERS}
    return found


def _figure(rows: Sequence[Row], collective: str) -> str:
    import matplotlib as mpl  # noqa: PLC0415  (slow to import)
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context({"svg.hashsalt": "p4reduce", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        axes = figure.subplots()
        for engine in dict.fromkeys(row.engine for row in rows):
            mine = [(row.size, row.in_place or row.out_of_place) for row in rows if row.engine == engine]
            points = [(size, one.busbw) for size, one in mine if one is not None]
            axes.plot(*zip(*points, strict=True), marker="o", label=engine)
        axes.set_xscale("log", base=2)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("size (bytes)")
        axes.set_ylabel("bus bandwidth (GB/s)")
        axes.set_title(collective)
        axes.grid(alpha=0.3)
        axes.legend()
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
