"""Figures by matplotlib: PNG for reading, SVG for papers. The same result gives the same files."""

import statistics
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import matplotlib as mpl
from matplotlib.figure import Figure

from studies.frame import Column, Point, StudyResult, columns_of

CHARACTERS_PER_INCH: Final = 12
SIZE: Final = 10
MANY: Final = 3
"""names under an axis from which on they are slanted"""
DPI: Final = 130
SETTINGS: Final[Any] = {
    "svg.hashsalt": "p4reduce",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.grid": True,
    "axes.axisbelow": True,
}
COLOURS: Final = (
    "#0060a0", "#b65000", "#00785a", "#8c1d1d", "#4b3f9e", "#7a5c00", "#a0457e", "#4d4d4d", "#2f6f8f", "#c07000",
)  # fmt: skip
"""after Okabe and Ito"""
MARKS: Final = "osv^DPX*<>dhp"
"""series are told apart without colour, too"""
_WIDE: Final = 4


def title(figure: Figure, text: str) -> None:
    """The title of a figure, in as many lines as it takes."""
    figure.suptitle("\n".join(textwrap.wrap(text, int(CHARACTERS_PER_INCH * figure.get_figwidth()))), fontsize=SIZE)


def save_all(figures: Iterable[tuple[str, Figure | None]], folder: Path) -> dict[str, Path]:
    """Write ``<name>.png`` and ``<name>.svg`` of each figure that there is into a folder, made if it is not there.

    ``figures`` are drawn one by one, with the settings of all. Returns the PNG files by name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn = {}
    with mpl.rc_context(SETTINGS):
        for name, figure in figures:
            if figure is not None:
                drawn[name] = folder / f"{name}.png"
                figure.savefig(drawn[name], dpi=DPI, metadata={"Software": None})
                figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})
    return drawn


@dataclass(frozen=True)
class Drawing:
    """A figure that is none of points over a value: ``draw`` makes it, or gives None where nothing of it was run."""

    name: str
    says: str
    draw: Callable[[StudyResult], Figure | None]


@dataclass(frozen=True)
class Chart:
    """Points (or rows) of parts: ``y`` over ``x``, a line or a group of bars for each value of ``by``.

    Attributes
    ----------
    name, says : str
        Of its files; above it.
    parts : str or tuple of str
        Whose points are drawn.
    x : str
        Field or measure; texts stand beside each other in their order.
    y : str or tuple of str
        Field or measure; a panel for each.
    by : tuple of str
        Fields that tell series apart.
    panel : str
        A field: a panel for each of its values.
    kind : str
        'lines', 'bars', or 'dots'.
    where : mapping
        Fields with the only values that are drawn.
    rows : bool
        Rows instead of points: their means, with a band from the least to the most.
    xscale, yscale : str
        Of matplotlib.
    line : float or None
        A value of y that is marked.
    label : function
        From the values of ``by`` to the name of a series.
    """

    name: str
    says: str
    parts: str | tuple[str, ...]
    x: str
    y: str | tuple[str, ...]
    by: tuple[str, ...] = ()
    panel: str = ""
    kind: Literal["lines", "bars", "dots"] = "lines"
    where: Mapping[str, Any] = field(default_factory=dict)
    rows: bool = False
    xscale: str = "linear"
    yscale: str = "linear"
    line: float | None = None
    label: Callable[..., str] = lambda *values: ", ".join(map(_text, values))

    def draw(self, result: StudyResult) -> Figure | None:
        """The figure; None where nothing of it was run."""
        parts = (self.parts,) if isinstance(self.parts, str) else self.parts
        source = result.records if self.rows else result.points
        own = [one for part in parts for one in source.get(part, ()) if self._is_drawn(one)]
        if not own:
            return None
        shown: dict[str, Column] = {}
        for part in result.study.parts:
            if part.name in parts:
                shown |= columns_of(part.row) | part.columns
            for name, record in part.also.items():
                if name in parts:
                    shown |= columns_of(record)
        ys = (self.y,) if isinstance(self.y, str) else self.y
        values = list(dict.fromkeys(_get(one, self.panel) for one in own)) if self.panel else [None]
        panels = [(y, value) for value in values for y in ys]
        across = min(_WIDE, len(panels))
        down = -(-len(panels) // across)
        wide = max(3.4, 0.34 * len({_get(one, self.x) for one in own})) if self.kind == "bars" else 3.6
        figure = Figure(figsize=(max(6.0, wide * across), 3.2 * down + 0.8), layout="constrained")
        series = list(dict.fromkeys(self._series(one) for one in own))
        for number, (y, value) in enumerate(panels):
            axes = figure.add_subplot(down, across, number + 1)
            inside = [one for one in own if value is None or _get(one, self.panel) == value]
            self._panel(axes, inside, y, series)
            axes.set_xlabel(_heading(shown, self.x))
            axes.set_ylabel(_heading(shown, y))
            if value is not None:
                axes.set_title(shown[self.panel].text(value) if self.panel in shown else _text(value), fontsize=9)
        title(figure, self.says)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        for axes in figure.axes[1:]:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                if label not in labels:
                    handles, labels = [*handles, handle], [*labels, label]
        if any(labels):
            figure.legend(handles, labels, loc="outside lower center", ncols=min(_WIDE, len(labels)), fontsize=7)
        return figure

    def _is_drawn(self, one: Any) -> bool:
        for name, wanted in self.where.items():
            value = _get(one, name)
            if value not in wanted if isinstance(wanted, tuple) else value != wanted:
                return False
        return True

    def _series(self, one: Any) -> tuple[Any, ...]:
        return tuple(_get(one, name) for name in self.by)

    def _panel(self, axes: Any, own: Sequence[Any], y: str, series: Sequence[tuple[Any, ...]]) -> None:
        places = list(dict.fromkeys(_get(one, self.x) for one in own))
        named = any(isinstance(place, str | tuple | bool) for place in places) or self.kind == "bars"
        if not named:
            places.sort()
        width = 0.8 / max(1, len(series))
        for number, key in enumerate(series):
            mine = [one for one in own if self._series(one) == key]
            spread = _spread(mine, self.x, y)
            at = [place for place in places if place in spread]
            if not at:
                continue
            xs = [places.index(place) for place in at] if named else at
            middles = [spread[place][0] for place in at]
            errors = [[spread[place][side] for place in at] for side in (1, 2)]
            look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "label": self.label(*key)}
            if self.kind == "bars":
                shifted = [x + (number - (len(series) - 1) / 2) * width for x in xs]
                axes.bar(shifted, middles, width, yerr=errors if any(map(any, errors)) else None, capsize=2, **look)
                continue
            line = "none" if self.kind == "dots" or (named and len(at) > 1 and isinstance(at[0], bool)) else "-"
            mark = MARKS[number % len(MARKS)]
            axes.errorbar(
                xs, middles, errors, marker=mark, markersize=4, linewidth=1.2, linestyle=line, capsize=2, **look
            )
        if named:
            slanted = {"rotation": 30, "ha": "right"} if len(places) > MANY else {}
            axes.set_xticks(range(len(places)), [_text(place) for place in places], fontsize=7, **slanted)
        else:
            axes.set_xscale(self.xscale, **({"linthresh": 0.02} if self.xscale == "symlog" else {}))
        axes.set_yscale(self.yscale)
        if self.line is not None:
            axes.axhline(self.line, color="black", linewidth=0.6)


def _spread(own: Sequence[Any], x: str, y: str) -> dict[Any, tuple[float, float, float]]:
    """By place the value, and how far the ends of its interval are below and above: of rows, the least and the most."""
    found: dict[Any, list[tuple[float, float, float]]] = {}
    for one in own:
        value = _get(one, y)
        if value is None:
            continue
        low = high = 0.0
        if isinstance(one, Point) and y in one.values:
            interval = one.estimate(y)
            if interval is not None and interval.low is not None:
                low = high = interval.value - interval.low
        found.setdefault(_get(one, x), []).append((float(value), low, high))
    made = {}
    for place, values in found.items():
        if len(values) == 1:
            made[place] = values[0]
            continue
        middles = [value for value, _, _ in values]
        mean = statistics.fmean(middles)
        made[place] = (mean, mean - min(middles), max(middles) - mean)
    return made


def _get(one: Any, name: str) -> Any:
    return one[name] if isinstance(one, Point) else getattr(one, name)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _heading(shown: Mapping[str, Column], name: str) -> str:
    return shown[name].heading if name in shown else name.replace("_", " ")
