"""What the experiment leaves behind: raw rows, points, calibration, the result, a figure."""

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from p4reduce.experiments.claim import Claim
from p4reduce.experiments.placement.experiment import PlacementResult


def write_files(result: PlacementResult, claims: Sequence[Claim], folder: Path) -> list[Path]:
    """Write runs.csv, points.csv, calibration.csv, result.json and policies.png/.svg; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    calibration = [
        {"point": one.name, "job": job, "packets_s": packets, "model_s": model, "error": error}
        for one in result.calibrated
        for job, (packets, model, error) in enumerate(zip(one.packets_s, one.model_s, one.errors, strict=True))
    ]
    written = [
        _table(folder / "runs.csv", map(asdict, result.rows)),
        _table(folder / "points.csv", map(asdict, result.points)),
        _table(folder / "calibration.csv", calibration),
    ]
    data = {**result.as_data(), "claims": [asdict(claim) for claim in claims]}
    (folder / "result.json").write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", "utf-8")
    return [*written, folder / "result.json", *_draw(result, folder)]


def _table(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    lines = list(rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]) if lines else [], lineterminator="\r\n")
        writer.writeheader()
        writer.writerows(lines)
    return path


def _draw(result: PlacementResult, folder: Path) -> list[Path]:
    """Mean JCT of every policy over that of 'packed', by scenario."""
    load = result.settings.loads[0]
    points = [point for point in result.points if (point.load, point.order, point.backfill) == (load, "fifo", True)]
    base = {point.scenario: point.jct_s for point in points if point.policy == "packed"}
    scenarios = list(base)
    with mpl.rc_context({"svg.hashsalt": "p4reduce", "svg.fonttype": "none", "font.size": 8}):
        figure = Figure(figsize=(8, 0.42 * len(scenarios) + 1.2), layout="constrained")
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
        axes.grid(visible=True, axis="x")
        axes.legend(ncols=4, fontsize=7)
        made = [folder / "policies.png", folder / "policies.svg"]
        figure.savefig(made[0], dpi=130, metadata={"Software": None})
        figure.savefig(made[1], metadata={"Date": None})
    return made
