"""The figure of tasks that communicate at the same time."""

from typing import Any

from matplotlib.figure import Figure

from p4reduce.experiments.poster.experiment import PosterResult
from p4reduce.experiments.poster.overlapping import OverlapPoint, overlap_points
from p4reduce.experiments.titles import MANY, title

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
        _points(axis, places, [own[name] for name in names], policy)
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.set_ylabel("communication, ms, logarithmic")
    axis.set_xticks(range(len(names)), names, rotation=20 if len(names) > MANY else 0)
    most = max(row.together for row in result.overlapping)
    title(figure, f"Up to {most} tasks at once (full; line: the slowest) and each alone (hollow)")
    figure.legend(*axis.get_legend_handles_labels(), loc="lower center", ncols=len(policies))
    figure.subplots_adjust(bottom=0.28, top=0.9)
    return figure


def _points(axis: Any, places: list[float], points: list[OverlapPoint], policy: str) -> None:
    """Points, not bars: on a logarithmic axis the length of a bar says nothing."""
    colour = _COLOURS.get(policy, _OTHER)
    alone, together = [point.alone_ms for point in points], [point.overlapping_ms for point in points]
    worst = [point.worst_ms for point in points]
    axis.vlines(places, alone, worst, color=colour, linewidth=1)
    axis.plot(places, alone, linestyle="none", marker="o", markerfacecolor="white", color=colour)
    axis.plot(places, together, linestyle="none", marker="o", color=colour, label=policy)
    axis.plot(places, worst, linestyle="none", marker="_", markersize=12, color=colour)
