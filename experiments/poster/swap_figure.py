"""The figure of interruption against saving."""

import statistics
from typing import Any, Final

from matplotlib.figure import Figure

from p4reduce.experiments.poster.experiment import PosterResult
from p4reduce.experiments.poster.swaps import SwapRow
from p4reduce.experiments.titles import title

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
