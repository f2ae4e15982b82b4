"""The figure of tasks that communicate at the same time."""

from typing import Any

from matplotlib.figure import Figure

from p4reduce.experiments.poster.experiment import PosterResult
from p4reduce.experiments.poster.overlapping import OverlapPoint, overlap_points

_COLOURS = {"spff": "#4d4d4d", "overlay-mst": "#b65000", "steiner": "#0060a0"}
_OTHER = "#00785a"


def draw_overlapping(result: PosterResult) -> Figure | None:
    """Bars for each network: communication alone (light), with all others at once (full), and of the slowest task."""
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
        _bars(axis, places, [own[name] for name in names], width, policy)
    axis.set_yscale("log")
    axis.set_ylabel("communication, ms, logarithmic")
    axis.set_xticks(range(len(names)), names)
    most = max(row.together for row in result.overlapping)
    figure.suptitle(f"Up to {most} tasks at once (full; line: the slowest) and each alone (light)")
    figure.legend(*axis.get_legend_handles_labels(), loc="lower center", ncols=len(policies))
    figure.subplots_adjust(bottom=0.18, top=0.9)
    return figure


def _bars(axis: Any, places: list[float], points: list[OverlapPoint], width: float, policy: str) -> None:
    colour = _COLOURS.get(policy, _OTHER)
    axis.bar(places, [point.overlapping_ms for point in points], width, color=colour, label=policy)
    axis.bar(places, [point.alone_ms for point in points], width, color="white", alpha=0.55)
    worst = [point.worst_ms for point in points]
    axis.plot(places, worst, linestyle="none", marker="_", markersize=12, color="black")
