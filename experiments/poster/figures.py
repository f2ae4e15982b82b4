"""The figures, by matplotlib: PNG for reading, SVG for papers. The same result gives the same files."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from p4reduce.experiments.drawing import save_all
from p4reduce.experiments.poster.experiment import PosterResult
from p4reduce.experiments.poster.flow_model import MODELS
from p4reduce.experiments.poster.overlap_figure import draw_overlapping
from p4reduce.experiments.poster.sensitivity_figure import draw_access, draw_delays, draw_weights
from p4reduce.experiments.poster.settings import (
    ECMP,
    POSTER_FLEXIBLE_MS,
    POSTER_SPFF_MS,
    ROUTES_ONLY,
    SPFF,
    Scenario,
)
from p4reduce.experiments.poster.statistics import Point
from p4reduce.experiments.poster.swap_figure import draw_swaps
from p4reduce.experiments.titles import MANY, title

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
