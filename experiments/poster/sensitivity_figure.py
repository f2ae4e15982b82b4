"""The figures of what depends on rates, delays, and lambda."""

from typing import Any, Final

from matplotlib.figure import Figure

from p4reduce.experiments.poster.experiment import PosterResult
from p4reduce.experiments.poster.sensitivity import ACCESS, DELAY, PACKETS, REAL, SensitivityPoint
from p4reduce.experiments.poster.settings import POSTER_SAVING, SPFF
from p4reduce.experiments.titles import title
from p4reduce.topologies.units import parse_delay, parse_rate

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
    return _finish(figure, axes, f"Rate of hosts' links: {own[0].scenario}, {max(result.settings.sizes)} local models")


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
    return _finish(figure, axes, f"Length of links: {own[0].scenario}, {max(result.settings.sizes)} local models")


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
    return _finish(figure, axes, f"Bandwidth against latency in the weights: {result.weights[0].scenario}")


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


def _finish(figure: Figure, axes: list[Any], text: str) -> Figure:
    handles, labels = axes[0].get_legend_handles_labels()
    title(figure, text)
    figure.legend(handles, labels, loc="lower center", ncols=min(4, len(labels)), fontsize=8)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    return figure
