"""A sweep as a page: time, time over the lower bound and algorithm bandwidth against size, a curve for each setting."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from p4reduce.base.written import write_text
from p4reduce.cli.report.curves import (
    BOTTOM,
    HEIGHT,
    LEFT,
    LOG_FROM,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    Curve,
    line_width,
    series_number,
)
from p4reduce.cli.report.page import card, document
from p4reduce.cli.report.style import series_of
from p4reduce.cli.report.svg import Markup, element, picture
from p4reduce.cli.units import bytes_text, rate_text, time_text

Row = Mapping[str, Any]
AXES: Final = ("plan", "topology", "collective", "workers", "lanes", "rate", "loss", "duplicate", "reorder", "corrupt")
"""settings that make a curve of their own where they differ; over seeds stands the median"""
LEGEND_ROW: Final = 20.0
Value = Callable[[Row], float]
FIGURES: Final[tuple[tuple[str, Value, Callable[[float], str]], ...]] = (
    ("Network time", lambda row: row["communication_us"] * 1e6, time_text),
    ("Time over the lower bound", lambda row: row["ratio_to_bound"], lambda value: f"{value:.3g}"),
    ("Algorithm bandwidth: size over time", lambda row: 32e6 * row["elements"] / row["communication_us"], rate_text),
)
"""title, value of a row, its text"""


def sweep_cards(rows: Sequence[Row]) -> list[tuple[str, Markup]]:
    """The pictures, with their titles. Rows of runs that failed are left out."""
    good = [row for row in rows if not row["error"] and row["communication_us"]]
    if not good:
        return []
    return [(title, _chart(title, _curves(good, value), text)) for title, value, text in FIGURES]


def _curves(rows: Sequence[Row], value: Value) -> list[Curve]:
    differing = [name for name in AXES if name == "plan" or len({row.get(name) for row in rows}) > 1]
    grouped: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        others = [f"{name} {row[name]}" if isinstance(row[name], int | float) else str(row[name]) for name in differing]
        sizes = grouped.setdefault(", ".join(others), {})
        sizes.setdefault(4 * row["elements"], []).append(value(row))
    return [
        Curve(name, [(float(size), statistics.median(found)) for size, found in sorted(sizes.items())], number)
        for (name, sizes), number in zip(grouped.items(), series_of(list(grouped)), strict=True)
    ]


def _chart(title: str, drawn: Sequence[Curve], text: Callable[[float], str]) -> Markup:
    sizes = [size for curve in drawn for size, _ in curve.points]
    values = [value for curve in drawn for _, value in curve.points]
    extra = LEGEND_ROW * len(drawn)
    across = _axis(sizes, LEFT + 14, WIDTH - RIGHT - 14)
    up = _axis(values, HEIGHT - BOTTOM, TOP - 16, from_zero=True)
    parts = [*_grid(across, up, text)]
    for number, curve in enumerate(drawn):
        places = [(across.at(size), up.at(value)) for size, value in curve.points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        own = series_number(number, curve)
        width = line_width(number, len(drawn))
        says = element("title", curve.name)
        parts.append(element("polyline", says, class_=f"series series{own}", stroke_width=width, points=line))
        for (x, y), (size, value) in zip(places, curve.points, strict=True):
            label = element("title", f"{curve.name}, {bytes_text(size)}: {text(value)}")
            parts.append(element("circle", label, class_=f"bar{own}", cx=x, cy=y, r=3.5))
        y = HEIGHT + LEGEND_ROW * number
        parts.append(
            element("line", class_=f"series series{own}", stroke_width=width, x1=LEFT, x2=LEFT + 30, y1=y, y2=y)
        )
        parts.append(element("text", curve.name, x=LEFT + 38, y=y + 4))
    parts.append(element("text", "size of the tensor", x=WIDTH - RIGHT, y=HEIGHT - 12, text_anchor="end",
                         class_="small soft"))  # fmt: skip
    ends = "; ".join(
        f"{curve.name}: {text(curve.points[-1][1])} at {bytes_text(curve.points[-1][0])}" for curve in drawn
    )
    return picture(WIDTH, HEIGHT + extra, *parts, title=f"{title} against size", description=ends)


def _axis(values: Sequence[float], start: float, end: float, *, from_zero: bool = False) -> Axis:
    low, high = min(values), max(values)
    if high > LOG_FROM * low:
        return Axis(low, high, start, end, logarithmic=True)
    if from_zero:
        return Axis(0.0, high * 1.05, start, end)
    return Axis(low - (low == high) * low / 2, high + (low == high) * high / 2, start, end)


def _grid(across: Axis, up: Axis, text: Callable[[float], str]) -> list[Markup]:
    parts = []
    for value in _thinned(up):
        y = up.at(value)
        parts.append(element("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y))
        parts.append(element("text", text(value), x=LEFT - 6, y=y + 4, text_anchor="end", class_="small soft"))
    for size in _thinned(across):
        x = across.at(size)
        parts.append(element("line", class_="grid", x1=x, x2=x, y1=TOP - 16, y2=HEIGHT - BOTTOM))
        parts.append(
            element("text", bytes_text(size), x=x, y=HEIGHT - BOTTOM + 17, text_anchor="middle", class_="small soft")
        )
    base = HEIGHT - BOTTOM
    parts.append(element("line", class_="axis", x1=LEFT, x2=WIDTH - RIGHT, y1=base, y2=base))
    return parts


def _thinned(axis: Axis) -> list[float]:
    """Ticks of which no two are too near: whole decades when there are many."""
    ticks: list[float] = axis.ticks()
    if len(ticks) <= 8:
        return ticks
    return [value for value in ticks if math.isclose(math.log10(value) % 1, 0, abs_tol=1e-9)] or ticks[::3]


def write_sweep(path: Path, rows: Sequence[Row], *, title: str) -> Path:
    """Write the page of a sweep; returns ``path``."""
    failed = [row for row in rows if row["error"]]
    columns = [name for name in rows[0] if any(row.get(name) is not None for row in rows)]
    head = element("tr", *(element("th", name.replace("_", " "), scope="col") for name in columns))
    body = [element("tr", *(element("td", _cell(row.get(name))) for name in columns)) for row in rows]
    table = element("table", element("thead", head), element("tbody", *body))
    text = document(
        title,
        element("p", f"A sweep of {len(rows)} runs; medians over seeds. Hover over a point to read it.", class_="soft"),
        *(element("p", f"{_name(row)}: {row['error']}", class_="fault", role="alert") for row in failed),
        element("div", *(card(heading, drawn) for heading, drawn in sweep_cards(rows)), class_="cards"),
        element("h2", "All runs"),
        element("div", table, class_="scroll"),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return path


def _name(row: Row) -> str:
    return f"{row['plan']}, {row['elements']} elements"


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
