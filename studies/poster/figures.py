"""The figures, by matplotlib: PNG for reading, SVG for papers. The same result gives the same files."""

import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from p4reduce.base.units import parse_delay, parse_rate
from studies.frame import MANY, SelectionPoint, save_all, title, write_table
from studies.poster.experiment import PosterResult
from studies.poster.rings import RingRow
from studies.poster.sensitivity import ACCESS, DELAY, PACKETS, REAL, Point, SensitivityPoint
from studies.poster.settings import ECMP, POSTER_FLEXIBLE_MS, POSTER_SAVING, POSTER_SPFF_MS, ROUTES_ONLY, SPFF, Scenario
from studies.poster.swaps import OverlapPoint, OverlapRow, SwapRow, WeightRow, overlap_points
from studies.poster.units import MODELS, Row

# The figure of tasks that communicate at the same time.


_COLOURS = {"spff": "#4d4d4d", "overlay-mst": "#b65000", "steiner": "#0060a0"}
_OTHER = "#00785a"


def draw_overlapping(result: PosterResult) -> Figure | None:
    """For each network: communication alone (hollow), with all others at once (full), and of the slowest task."""
    points = overlap_points(result.overlapping)
    if not points:
        return None
    names = list(dict.fromkeys(point.scenario for point in points))
    policies = list(dict.fromkeys(point.policy for point in points))
    figure = Figure(figsize=(10, 4))
    axis = figure.add_subplot()
    width = 0.8 / len(policies)
    for number, policy in enumerate(policies):
        own = {point.scenario: point for point in points if point.policy == policy}
        places = [place + (number - (len(policies) - 1) / 2) * width for place in range(len(names))]
        _overlap_points(axis, places, [own[name] for name in names], policy)
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.set_ylabel("communication, ms, logarithmic")
    axis.set_xticks(range(len(names)), names, rotation=20 if len(names) > MANY else 0)
    most = max(row.together for row in result.overlapping)
    title(figure, f"Up to {most} tasks at once (full; line: the slowest) and each alone (hollow)")
    figure.legend(*axis.get_legend_handles_labels(), loc="lower center", ncols=len(policies))
    figure.subplots_adjust(bottom=0.28, top=0.9)
    return figure


def _overlap_points(axis: Any, places: list[float], points: list[OverlapPoint], policy: str) -> None:
    """Points, not bars: on a logarithmic axis the length of a bar says nothing."""
    colour = _COLOURS.get(policy, _OTHER)
    alone, together = [point.alone_ms for point in points], [point.overlapping_ms for point in points]
    worst = [point.worst_ms for point in points]
    axis.vlines(places, alone, worst, color=colour, linewidth=1)
    axis.plot(places, alone, linestyle="none", marker="o", markerfacecolor="white", color=colour)
    axis.plot(places, together, linestyle="none", marker="o", color=colour, label=policy)
    axis.plot(places, worst, linestyle="none", marker="_", markersize=12, color=colour)


# The figures of what depends on rates, delays, and lambda.


COLOURS: Final = {"spff": "#4d4d4d", "overlay-mst": "#b65000", "steiner": "#0060a0"}
_OTHERS: Final = ("#00785a", "#a0457e", "#4b3f9e", "#7a5c00", "#8c1d1d", "#000000")
_LINES: Final = ("-", "--", ":")


def draw_access(result: PosterResult) -> Figure | None:
    """Bytes and total latency saved over the rate of hosts' links, and the training time up to which it is enough."""
    own = [one for one in result.sensitivity if (one.study, one.source) == (ACCESS, PACKETS)]
    if not own:
        return None
    figure = Figure(figsize=(12, 4.2))
    axes = [figure.add_subplot(1, 3, place + 1) for place in range(3)]
    panels = (
        ("bytes on links saved, %", lambda one: 100 * (one.bytes_saving or 0.0)),
        ("total latency saved, % (training fills 2.3 ms)", lambda one: 100 * (one.saving or 0.0)),
        ("longest training with 17.4 % saved, ms", lambda one: one.longest_training_ms or float("nan")),
    )  # type: tuple[tuple[str, Any], ...]
    for axis, (heading, value) in zip(axes, panels, strict=True):
        _lines(axis, own, lambda one: parse_rate(one.value) / 1e9, value)
        axis.set_title(heading, fontsize=9)
        axis.set_xscale("log")
        axis.set_xlabel("hosts' links, Gb/s")
    for axis in axes[:2]:
        axis.set_ylim(0, 100)
    axes[1].axhline(100 * POSTER_SAVING, color="black", linewidth=0.8)
    axes[2].set_yscale("log")
    return _finish_sensitivity(
        figure, axes, f"Rate of hosts' links: {own[0].scenario}, {max(result.settings.sizes)} local models"
    )


def draw_delays(result: PosterResult) -> Figure | None:
    """Communication over the delay of a link, and over its bounds."""
    own = [one for one in result.sensitivity if one.study == DELAY and one.value != REAL]
    if len({one.value for one in own}) < 2:
        return None
    figure = Figure(figsize=(9, 4.2))
    axes = [figure.add_subplot(1, 2, place + 1) for place in range(2)]
    panels = (
        ("communication, ms", lambda one: one.communication_ms),
        ("over the bound (a server answers chunk by chunk)", lambda one: one.ratio_to_ordered),
    )  # type: tuple[tuple[str, Any], ...]
    for axis, (heading, value) in zip(axes, panels, strict=True):
        _lines(axis, own, lambda one: parse_delay(one.value) / 1e6, value, fixed=True)
        axis.set_title(heading, fontsize=9)
        axis.set_xscale("log")
        axis.set_xlabel("delay of a link, us")
    axes[0].set_yscale("log")
    return _finish_sensitivity(
        figure, axes, f"Length of links: {own[0].scenario}, {max(result.settings.sizes)} local models"
    )


def draw_weights(result: PosterResult) -> Figure | None:
    """Admitted tasks, bytes, communication and the busiest link over lambda."""
    if not result.weights:
        return None
    figure = Figure(figsize=(12, 3.8))
    panels = (
        ("tasks admitted", lambda row: row.admitted),
        ("bytes on links, MB", lambda row: row.megabytes),
        ("communication, ms", lambda row: row.communication_ms),
        ("busiest link, %", lambda row: 100 * row.largest_utilisation),
    )  # type: tuple[tuple[str, Any], ...]
    axes = [figure.add_subplot(1, 4, place + 1) for place in range(4)]
    for axis, (heading, value) in zip(axes, panels, strict=True):
        for number, policy in enumerate(dict.fromkeys(row.policy for row in result.weights)):
            rows = [row for row in result.weights if row.policy == policy]
            colour = COLOURS.get(policy, _OTHERS[number % len(_OTHERS)])
            if rows[0].bandwidth is None:
                axis.axhline(sum(value(row) for row in rows) / len(rows), color=colour, label=policy)
                continue
            values = sorted({row.bandwidth for row in rows if row.bandwidth is not None})
            means = [[value(row) for row in rows if row.bandwidth == one] for one in values]
            axis.plot(values, [sum(one) / len(one) for one in means], color=colour, marker="o", label=policy)
        axis.set_title(heading, fontsize=9)
        axis.set_xlabel("lambda")
    return _finish_sensitivity(figure, axes, f"Bandwidth against latency in the weights: {result.weights[0].scenario}")


def _lines(axis: Any, points: list[SensitivityPoint], x: Any, y: Any, *, fixed: bool = False) -> None:
    sizes = list(dict.fromkeys(one.elements for one in points))
    for number, policy in enumerate(dict.fromkeys(one.policy for one in points)):
        if policy == SPFF and not fixed:
            continue
        colour = COLOURS.get(policy, _OTHERS[number % len(_OTHERS)])
        for size, line in zip(sizes, _LINES * len(sizes), strict=False):
            own = [one for one in points if (one.policy, one.elements) == (policy, size)]
            label = f"{policy}, {size:,} parameters"
            axis.plot([x(one) for one in own], [y(one) for one in own], line, color=colour, marker=".", label=label)


def _finish_sensitivity(figure: Figure, axes: list[Any], text: str) -> Figure:
    handles, labels = axes[0].get_legend_handles_labels()
    title(figure, text)
    figure.legend(handles, labels, loc="lower center", ncols=min(4, len(labels)), fontsize=8)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    return figure


# The figure of interruption against saving.


_STYLES: Final = (("#0060a0", "o"), ("#b65000", "s"), ("#00785a", "^"), ("#a0457e", "D"))
"""colour and marker of a network with a loss rate, in their order"""


def draw_swaps(result: PosterResult) -> Figure | None:
    """Each swap's interruption over its saving, in time and in packets; and what every threshold makes of them."""
    groups: dict[tuple[str, float], list[SwapRow]] = {}
    for row in result.swaps:
        if row.threshold is not None:
            groups.setdefault((row.scenario, row.loss), []).append(row)
    if not groups:
        return None
    figure = Figure(figsize=(11, 4.2))
    axes = [figure.add_subplot(1, 3, place + 1) for place in range(3)]
    for number, ((scenario, loss), rows) in enumerate(groups.items()):
        colour, marker = _STYLES[number % len(_STYLES)]
        look: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": "none", "markersize": 5, "alpha": 0.8}
        swapped = [row for row in rows if row.decision == "swap"]
        savings = [row.saving_bytes / 1e6 for row in swapped]
        label = f"{scenario}, loss {100 * loss:g} %"
        axes[0].plot(savings, [row.interruption_ps / 1e6 for row in swapped], label=label, **look)
        axes[1].plot(savings, [row.resent_frames for row in swapped], **look)
        axes[1].plot(savings, [row.late_frames for row in swapped], **look, fillstyle="none")
        _by_threshold(axes[2], rows, colour, marker)
    axes[0].set_ylabel("until all in flight had arrived, us")
    axes[0].set_title("interruption in time")
    axes[1].set_ylabel("frames: resent (filled), late (hollow)")
    axes[1].set_title("interruption in packets")
    for axis in axes[:2]:
        axis.set_xlabel("expected saving, MB on links")
        axis.set_yscale("symlog", linthresh=10)
        axis.set_ylim(bottom=0)
    axes[2].set_xlabel("mean interruption of a trial, us")
    axes[2].set_ylabel("mean counted saving of a trial, MB")
    axes[2].set_title("by threshold (written at the points)")
    title(figure, "Interruption against saving: a running task's tree is swapped in its second round")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="lower center", ncols=len(groups))
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    return figure


def _by_threshold(axis: Any, rows: list[SwapRow], colour: str, marker: str) -> None:
    points: list[tuple[float, float]] = []
    for threshold in sorted({row.threshold for row in rows if row.threshold is not None}):
        own = [row for row in rows if row.threshold == threshold]
        points.append(
            (
                statistics.fmean(row.interruption_ps / 1e6 for row in own),
                statistics.fmean(row.saved_bytes / 1e6 for row in own),
            )
        )
        axis.annotate(f"{threshold:g}", points[-1], textcoords="offset points", xytext=(5, 4), color=colour)
    axis.plot([x for x, _ in points], [y for _, y in points], color=colour, marker=marker, linestyle=":")


STYLES: Final = {
    SPFF: ("#4d4d4d", "s", "-"),
    ECMP: ("#7a5c00", "D", ":"),
    ROUTES_ONLY: ("#8c1d1d", "v", "--"),
    "spff-ina": ("#4b3f9e", "^", "--"),
    "spt": ("#a0457e", "P", ":"),
    "overlay-mst": ("#b65000", "o", "-"),
    "steiner": ("#0060a0", "X", "-"),
    "exact": ("#00785a", "*", ":"),
}
"""colour, marker, line: after Okabe and Ito, told apart without colour too"""
_UNKNOWN: Final = ("#000000", ".", "-")
_COLUMNS: Final = 3

Value = Callable[[Point], float]


def draw_all(result: PosterResult, folder: Path) -> dict[str, Path]:
    """Draw every figure that the result has data for.

    Parameters
    ----------
    result : PosterResult
        What was found.
    folder : Path
        Where ``<name>.png`` and ``<name>.svg`` go; made if it is not there.

    Returns
    -------
    dict
        Name -> PNG file.
    """
    makers: dict[str, Callable[[PosterResult], Figure | None]] = {
        "fig3b-bandwidth": _bandwidth,
        "fig3a-latency": _latency,
        "access": draw_access,
        "delays": draw_delays,
        "weights": draw_weights,
        "components": _components,
        "communication": _communication,
        "ablation": _ablation,
        "optimum": _optimum,
        "capable": _capable,
        "flow-level": _flow,
        "selection": _selection,
        "swaps": draw_swaps,
        "overlapping": draw_overlapping,
    }
    return save_all(((name, make(result)) for name, make in makers.items()), folder)


def _latency(result: PosterResult) -> Figure:
    figure, axes = _panels(result.settings.scenarios)
    for axis, scenario in zip(axes, result.settings.scenarios, strict=False):
        _curves(axis, result, scenario, lambda point: point.total_ms, lambda point: point.total_ci_ms)
        most = max(result.settings.sizes)
        for policy in result.settings.policies:
            own = _points(result, scenario, policy)
            whole = [p.total_ms + p.aggregation_ms for p in own]
            colour = STYLES.get(policy, _UNKNOWN)[0]
            axis.plot([p.size for p in own], whole, color=colour, linewidth=0.6, linestyle=":")
        axis.plot([most], [POSTER_SPFF_MS], marker="_", markersize=14, color="black", linestyle="none")
        axis.plot([most], [POSTER_FLEXIBLE_MS], marker="_", markersize=14, color="black", linestyle="none")
        axis.set_ylim(bottom=0)
    return _finish(
        figure,
        axes,
        "Fig. 3a: total latency = training + communication (dotted: + adding up at G; bars: the poster's)",
        "ms",
    )


def _components(result: PosterResult) -> Figure:
    """Bars: training, communication, aggregation at the global model's host, with the most local models."""
    figure, axes = _panels(result.settings.scenarios)
    most, training = max(result.settings.sizes), result.training_ps / 1e9
    for axis, scenario in zip(axes, result.settings.scenarios, strict=False):
        found = [p for name in result.settings.policies for p in _points(result, scenario, name) if p.size == most]
        names = [point.policy for point in found]
        below = [0.0] * len(found)
        for label, colour, heights in (
            ("training", "#c9c9c9", [training] * len(found)),
            ("communication", "#0060a0", [point.communication_ms for point in found]),
            ("aggregation at G's host", "#b65000", [point.aggregation_ms for point in found]),
        ):
            axis.bar(names, heights, bottom=below, color=colour, label=label)
            below = [before + height for before, height in zip(below, heights, strict=True)]
        axis.set_xticks(range(len(names)), names, rotation=40, ha="right", fontsize=7)
        axis.set_title(scenario.name)
    return _finish(figure, axes, f"Training, communication, aggregation: {most} local models", "ms")


def _bandwidth(result: PosterResult) -> Figure:
    figure, axes = _panels(result.settings.scenarios)
    for axis, scenario in zip(axes, result.settings.scenarios, strict=False):
        _curves(axis, result, scenario, lambda point: point.megabytes, lambda point: point.megabytes_ci)
        axis.set_ylim(bottom=0)
    return _finish(figure, axes, "Fig. 3b: consumed bandwidth: bytes of a task's round on all links, counted", "MB")


def _communication(result: PosterResult) -> Figure:
    figure, axes = _panels(result.settings.scenarios)
    for axis, scenario in zip(axes, result.settings.scenarios, strict=False):
        _curves(axis, result, scenario, lambda point: point.communication_ms, None)
        for policy in result.settings.policies:
            own = _points(result, scenario, policy)
            axis.plot([p.size for p in own], [p.bound_ms for p in own], color="black", linewidth=0.6, linestyle=":")
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
    return _finish(figure, axes, "Communication alone (dotted: each policy's lower bound)", "ms, logarithmic")


def _ablation(result: PosterResult) -> Figure | None:
    """Bars: neither, routing alone, aggregation alone, both."""
    wanted = (SPFF, ECMP, ROUTES_ONLY, "spff-ina", "overlay-mst", "steiner")
    policies = [name for name in wanted if name in result.settings.policies]
    figure = _figure(10, 3.6)
    most = max(result.settings.sizes)
    panels: tuple[tuple[str, Value], ...] = (
        ("communication, ms", lambda point: point.communication_ms),
        ("bytes on links, MB", lambda point: point.megabytes),
    )
    for place, (heading, value) in enumerate(panels):
        axis = figure.add_subplot(1, 2, place + 1)
        names = [scenario.name for scenario in result.settings.scenarios]
        for number, policy in enumerate(policies):
            by_name = {p.scenario: value(p) for p in result.points if p.policy == policy and p.size == most}
            width = 0.8 / len(policies)
            axis.bar(
                [position + (number - (len(policies) - 1) / 2) * width for position in range(len(names))],
                [by_name.get(name, 0.0) for name in names],
                width,
                label=_says(policy),
                color=STYLES[policy][0],
            )
        axis.set_xticks(range(len(names)), names, rotation=20 if len(names) > MANY else 0)
        axis.set_title(heading)
    title(figure, f"Routing alone, aggregation alone, both: {most} local models")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="lower center", ncols=3)
    figure.subplots_adjust(bottom=0.32, top=0.86)
    return figure


def _optimum(result: PosterResult) -> Figure | None:
    """Bytes over the certified lower bound; the exact policy's curve is the optimum."""
    if not any(point.over_least for point in result.points):
        return None
    fixed = (SPFF, ECMP, ROUTES_ONLY)
    figure, axes = _panels(result.settings.scenarios)
    for axis, scenario in zip(axes, result.settings.scenarios, strict=False):
        _curves(axis, result, scenario, lambda point: point.over_least or float("nan"), None, without=fixed)
        axis.axhline(1.0, color="black", linewidth=0.8)
    return _finish(
        figure, axes, "Distance to the certified lower bound (linear program) and to the optimum (exact)", "x"
    )


def _capable(result: PosterResult) -> Figure | None:
    if not result.shares:
        return None
    figure = _figure(9, 3.4)
    panels: tuple[tuple[str, Value], ...] = (
        ("total latency, ms", lambda point: point.total_ms),
        ("bytes on links, MB", lambda point: point.megabytes),
    )
    for place, (heading, value) in enumerate(panels):
        axis = figure.add_subplot(1, 2, place + 1)
        for policy in dict.fromkeys(one.point.policy for one in result.shares if one.point.policy != SPFF):
            for chooser, line in zip(result.settings.share_choosers, ("-", "--"), strict=False):
                own = [one for one in result.shares if one.point.policy in (policy, SPFF) and one.chooser == chooser]
                colour, marker, _ = STYLES.get(policy, _UNKNOWN)
                axis.plot(
                    [100 * one.share for one in own],
                    [value(one.point) for one in own],
                    color=colour,
                    marker=marker,
                    linestyle=line,
                    label=f"{policy}, {chooser}",
                )
        axis.set_xlabel("switches that can aggregate, % (0: spff)")
        axis.set_title(heading)
        axis.set_ylim(bottom=0)
        axis.legend()
    settings = result.settings
    title(figure, f"Share of capable switches: {settings.calibrated_in.name}, {max(settings.sizes)} local models")
    figure.subplots_adjust(bottom=0.16, top=0.84)
    return figure


def _flow(result: PosterResult) -> Figure | None:
    if not result.flow:
        return None
    figure = _figure(7, 4)
    axis = figure.add_subplot()
    for model in result.flow:
        colour, marker, line = STYLES[model.policy]
        axis.plot(
            list(MODELS.values()),
            [model.predictions_ms[name] for name in MODELS],
            color=colour,
            marker=marker,
            linestyle=line,
            label=f"{model.policy} (error on packets: mean {100 * model.mean_error:.1f} %, "
            f"worst {100 * model.worst_error:.1f} %)",
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    for name, size in MODELS.items():
        axis.annotate(name, (size, axis.get_ylim()[0]), rotation=90, fontsize=7, va="bottom", ha="right")
    settings = result.settings
    axis.set_title(f"Flow-level model: {settings.calibrated_in.name}, {max(settings.sizes)} local models")
    axis.set_xlabel("parameters")
    axis.set_ylabel("communication of a round, ms")
    axis.legend()
    return figure


def _selection(result: PosterResult) -> Figure | None:
    if not result.selection:
        return None
    figure = _figure(9, 3.6)
    colours = ("#4d4d4d", "#a0457e", "#b65000", "#0060a0")
    for place, unit in enumerate(("round", "MB on links")):
        axis = figure.add_subplot(1, 2, place + 1)
        for colour, chooser in zip(colours, dict.fromkeys(point.chooser for point in result.selection), strict=False):
            rounds: dict[int, list[tuple[float, float]]] = {}
            for point in result.selection:
                if point.chooser == chooser:
                    rounds.setdefault(point.round, []).append((point.bytes / 1e6, point.accuracy))
            spent = [sum(megabytes for megabytes, _ in own) / len(own) for own in rounds.values()]
            up = [100 * sum(accuracy for _, accuracy in own) / len(own) for own in rounds.values()]
            axis.plot(list(rounds) if unit == "round" else spent, up, color=colour, label=chooser, marker=".")
        axis.set_xlabel(unit)
        axis.set_ylabel("test accuracy, %")
        axis.legend()
    title(figure, "Choosing local models under a bandwidth budget: non-IID digits, mean over seeds")
    figure.subplots_adjust(bottom=0.16, top=0.88)
    return figure


def _curves(
    axis: Any,
    result: PosterResult,
    scenario: Scenario,
    value: Value,
    spread: Value | None,
    *,
    without: Sequence[str] = (),
) -> None:
    for policy in result.settings.policies:
        own = _points(result, scenario, policy)
        if not own or policy in without:
            continue
        colour, marker, line = STYLES.get(policy, _UNKNOWN)
        axis.errorbar(
            [point.size for point in own],
            [value(point) for point in own],
            yerr=None if spread is None else [spread(point) for point in own],
            color=colour,
            marker=marker,
            markersize=4,
            linestyle=line,
            linewidth=1.2,
            capsize=2,
            label=_says(policy),
        )
    axis.set_title(scenario.name + (f" (background, load {scenario.load:g})" if scenario.load else ""))
    axis.set_xticks(result.settings.sizes)
    axis.set_xlabel("local models")


def _points(result: PosterResult, scenario: Scenario, policy: str) -> list[Point]:
    own = [one for one in result.points if one.scenario == scenario.name and one.policy == policy and one.tasks]
    return sorted(own, key=lambda point: point.size)


def _says(policy: str) -> str:
    return {
        SPFF: "spff (fixed: neither)",
        ECMP: "spff-ecmp",
        ROUTES_ONLY: "mst-routes (routing alone)",
        "spff-ina": "spff-ina (aggregation alone)",
        "overlay-mst": "overlay-mst (flexible: both)",
    }.get(policy, policy)


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height))


def _panels(scenarios: Sequence[Scenario]) -> tuple[Figure, list[Any]]:
    columns = min(_COLUMNS, len(scenarios))
    rows = -(-len(scenarios) // columns)
    figure = _figure(3.6 * columns, 2.9 * rows + 0.9)
    return figure, [figure.add_subplot(rows, columns, place + 1) for place in range(len(scenarios))]


def _finish(figure: Figure, axes: Sequence[Any], text: str, unit: str) -> Figure:
    for axis in axes:
        axis.set_ylabel(unit)
    handles, labels = axes[0].get_legend_handles_labels()
    title(figure, text)
    figure.legend(handles, labels, loc="lower center", ncols=min(4, len(labels)))
    figure.tight_layout(rect=(0, 0.5 / figure.get_figheight(), 1, 1))
    return figure


# What the experiment leaves behind: raw rows, points, the result with its provenance, figures.


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
