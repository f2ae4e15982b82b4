"""Figures of the placement experiment."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from studies.before import Claim, plain, save_all, write_table
from studies.placement.experiment import PlacementResult, Point, Row
from studies.placement.forecasts import ForecastRow, InferenceRow, forecast_points, inference_points
from studies.placement.knobs import KnobRow, knob_points
from studies.placement.learned import LearnRow
from studies.placement.telemetry import TelemetryRow, is_swept, telemetry_points

_MARKS = "sv^oDPX*<>hdp"


def figures(result: PlacementResult) -> Iterator[tuple[str, Figure | None]]:
    """Each with its name; None where nothing of it was run."""
    yield "policies", policies(result)
    yield "knobs", knobs(result)
    yield "forecasts", forecasts(result)
    yield "traces", traces(result)
    yield "inference", inference(result)
    yield "telemetry", telemetry(result)
    yield "learning", learning(result)


def policies(result: PlacementResult) -> Figure | None:
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


def knobs(result: PlacementResult) -> Figure | None:
    """Accuracy by bytes, a panel for each data set."""
    points = knob_points(result.knobs)
    names = list(dict.fromkeys(point.data for point in points))
    if not names:
        return None
    figure = Figure(figsize=(4.6 * len(names), 4.6), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for number, point in enumerate(point for point in points if point.data == name):
            axes.errorbar(
                point.bytes,
                100 * point.accuracy,
                100 * point.deviation,
                fmt=_MARKS[number % len(_MARKS)],
                capsize=2,
                label=point.knob,
            )
        axes.set_xscale("log")
        axes.set_xlabel("bytes on all links over those of float32")
        axes.set_ylabel(f"{name}: test accuracy, %")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=7)
    return figure


def forecasts(result: PlacementResult) -> Figure | None:
    """Error of each method by load, from the least to the most of the seeds."""
    points = forecast_points(result.forecasts)
    loads = list(dict.fromkeys(point.load for point in points))
    if not loads:
        return None
    figure = Figure(figsize=(7, 0.5 * len(loads) + 1.4), layout="constrained")
    axes = figure.subplots()
    methods = list(dict.fromkeys(point.method for point in points))
    for number, method in enumerate(methods):
        own = [point for point in points if point.method == method]
        axes.errorbar(
            [point.nrmse for point in own],
            [loads.index(point.load) + 0.14 * (number - 1.5) for point in own],
            xerr=[[point.nrmse - point.least for point in own], [point.most - point.nrmse for point in own]],
            fmt=_MARKS[number],
            capsize=2,
            label=method,
        )
    axes.set_yticks(range(len(loads)), loads)
    axes.invert_yaxis()
    axes.axvline(1, color="grey", linewidth=0.8)
    axes.set_xlabel("NRMSE on readings that were not learned from, 10 ahead")
    axes.legend(ncols=4, fontsize=7)
    return figure


def traces(result: PlacementResult) -> Figure | None:
    """Readings and forecasts of the first seed of each load."""
    shown = list({trace.load: trace for trace in reversed(result.traces)}.values())[::-1]
    if not shown:
        return None
    figure = Figure(figsize=(8, 1.5 * len(shown) + 0.6), layout="constrained")
    for axes, trace in zip(figure.subplots(len(shown), 1, squeeze=False)[:, 0], shown, strict=True):
        axes.plot(trace.readings, color="black", linewidth=1.2, label="measured")
        for name, said in trace.said:
            if name != "mean":
                axes.plot(said, linewidth=0.8, label=name)
        axes.set_title(trace.load, fontsize=8)
    axes.set_xlabel("reading")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=7)
    return figure


def inference(result: PlacementResult) -> Figure | None:
    """99th percentile of latency over that without training."""
    points = inference_points(result.inference)
    if not points:
        return None
    names = [f"{point.place}, {point.rate_hz:g}/s" for point in points if point.classes]
    figure = Figure(figsize=(7, 0.5 * len(names) + 1.4), layout="constrained")
    axes = figure.subplots()
    for number, (classes, label) in enumerate(((False, "one queue for all"), (True, "a class by DSCP"))):
        own = [point.ratio for point in points if point.classes is classes]
        axes.barh([place + 0.2 * (2 * number - 1) for place in range(len(own))], own, 0.38, label=label)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.axvline(1.2, color="grey", linewidth=0.8)
    axes.set_xlabel("99th percentile of latency over that without training")
    axes.legend(fontsize=7)
    return figure


def telemetry(result: PlacementResult) -> Figure | None:
    """Completion times over those with an oracle by what telemetry takes of a core, a line for each kind of bursts."""
    points = [point for point in telemetry_points(result.telemetry) if is_swept(point)]
    if not points:
        return None
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    lines = dict.fromkeys((point.burst_s, point.knows) for point in points)
    colors = {burst_s: f"C{number}" for number, burst_s in enumerate(dict.fromkeys(one for one, _ in lines))}
    for number, (burst_s, knows) in enumerate(lines):
        own = [point for point in points if (point.burst_s, point.knows) == (burst_s, knows)]
        style, label = f"{_MARKS[number]}{'-' if knows == 'counters' else '--'}", f"{knows}, bursts of {burst_s:g} s"
        shares, ratios = [100 * point.core for point in own], [point.ratio for point in own]
        axes.plot(shares, ratios, style, color=colors[burst_s], label=label)
        for point in own:
            axes.annotate(f"{point.interval_s:g} s", (100 * point.core, point.ratio), fontsize=6)
    axes.axhline(1.01, color="grey", linewidth=0.8)
    axes.axvline(5, color="grey", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("process time of readings or digests, % of a core")
    axes.set_ylabel("mean JCT over that with an oracle")
    axes.legend(fontsize=7)
    return figure


def learning(result: PlacementResult) -> Figure | None:
    """JCT of the rollouts of each training, update by update; each update has jobs and a cluster of its own."""
    if not result.learned:
        return None
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    for one in result.learned:
        axes.plot(one.curve, linewidth=0.9, label=f"seed {one.seed}")
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_xlabel("update")
    axes.set_ylabel("mean JCT over that of packed")
    axes.legend(fontsize=7)
    return figure


# What the experiment leaves behind: raw rows, points, calibration, the result, figures.


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
