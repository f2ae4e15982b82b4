"""The figure of what distance costs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from p4reduce.base.units import PS_PER_US
from p4reduce.bench.loss.distance import LOSSES
from p4reduce.experiments.drawing import save_all
from p4reduce.topologies import parse_delay

_MARKS = "osD^"


def draw(rows: Sequence[dict[str, Any]], folder: Path) -> Path:
    """Write distance.svg and distance.png into ``folder``: a panel for each rate and plan. Returns the PNG."""
    return save_all([("distance", _panels(rows))], folder)["distance"]


def _panels(rows: Sequence[dict[str, Any]]) -> Figure:
    rates, plans = (list(dict.fromkeys(row[key] for row in rows)) for key in ("rate", "plan"))
    figure = Figure(figsize=(3 * len(plans) + 0.6, 2.7 * len(rates) + 0.5), layout="constrained")
    panels = figure.subplots(len(rates), len(plans), squeeze=False, sharex=True, sharey=True)
    for rate, line in zip(rates, panels, strict=True):
        for plan, axes in zip(plans, line, strict=True):
            own = [row for row in rows if (row["rate"], row["plan"]) == (rate, plan)]
            delays = [parse_delay(row["delay"]) / PS_PER_US for row in own]
            bounds = [row["bound_ms"] for row in own]
            for mark, loss in zip(_MARKS, LOSSES, strict=True):
                times = [row[f"ratio_{loss:g}"] * bound for row, bound in zip(own, bounds, strict=True)]
                axes.plot(delays, times, mark, ls="-", ms=3, label=f"{loss:.2%} lost")
            least = [row["least"] * bound for row, bound in zip(own, bounds, strict=True)]
            axes.plot(delays, least, "k--", linewidth=0.8, label="its limit alone")
            for delay, height, row in zip(delays, least, own, strict=True):
                place = {"xytext": (2, -4), "textcoords": "offset points", "va": "top", "ha": "right"}
                axes.annotate(row["limit"], (delay, height), fontsize=6, **place)
            axes.set(xscale="log", yscale="log", title=f"{plan}, {rate}")
    for axes in panels[-1]:
        axes.set_xlabel("delay of a link, us")
    for axes in panels[:, 0]:
        axes.set_ylabel("time, ms")
    panels[0][0].legend(fontsize=7, loc="upper left")
    return figure
