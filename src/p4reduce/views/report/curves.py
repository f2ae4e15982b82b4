"""Curves over time, one for each plan."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from p4reduce.base.output import time_text
from p4reduce.views.report.svg import SERIES, Markup, element, picture

# Horizontal bars: one for each plan, with its value written at the end.


BARS_WIDTH: Final = 400.0
NAME_WIDTH: Final = 74.0
VALUE_WIDTH: Final = 132.0
"""both at least; as much as the longest text needs"""
CHARACTER: Final = 7.2
ROW: Final = 32.0
BAR: Final = 20.0


@dataclass(frozen=True)
class Bar:
    """One bar; ``mark`` is drawn as a line across it, e.g. at a lower bound."""

    name: str
    value: float
    text: str
    mark: float | None = None
    series: int | None = None
    """whose colour it has; its place if absent"""


def bars(title: str, rows: Sequence[Bar], *, mark_says: str = "") -> Markup:
    """The chart. Bars begin at 0; their colours are those of the curves."""
    most = max((max(row.value, row.mark or 0.0) for row in rows), default=0.0) or 1.0
    names = max([NAME_WIDTH, *(CHARACTER * len(row.name) + 16 for row in rows)])
    values = max([VALUE_WIDTH, *(CHARACTER * len(row.text) + 12 for row in rows)])
    width = max(BARS_WIDTH, names + values + ROW)
    room = width - names - values
    height = ROW * len(rows) + (24.0 if mark_says else 6.0)
    parts: list[str] = []
    for number, row in enumerate(rows):
        y = ROW * number + 4.0
        long = room * row.value / most
        parts += [
            element("text", row.name, x=names - 10, y=y + 14.5, text_anchor="end", class_="strong"),
            element(
                "rect",
                element("title", f"{row.name}: {row.text}"),
                class_=f"bar{(number if row.series is None else row.series) % SERIES}",
                x=names,
                y=y,
                width=max(long, 1.0),
                height=BAR,
                rx=2,
            ),
            element("text", row.text, x=names + long + 8, y=y + 14.5),
        ]
        if row.mark is not None:
            x = names + room * row.mark / most
            parts.append(element("line", class_="bound", x1=x, x2=x, y1=y - 3, y2=y + BAR + 3))
    if mark_says:
        y = height - 8
        parts.append(element("line", class_="bound", x1=names, x2=names, y1=y - 11, y2=y + 3))
        parts.append(element("text", mark_says, x=names + 8, y=y, class_="small soft"))
    says = "; ".join(f"{row.name} {row.text}" for row in rows)
    return picture(width, height, *parts, title=title, description=says)


WIDTH: Final = 560.0
HEIGHT: Final = 300.0
LEFT, RIGHT, TOP, BOTTOM = 58.0, 18.0, 40.0, 46.0
COINCIDE: Final = 1.5
"""pixels between curves that look like one"""
Point = tuple[float, float]
LOG_FROM: Final = 3.0
"""ratio of the slowest plan's end to the fastest's from which time is drawn on a logarithmic scale"""


@dataclass(frozen=True)
class Curve:
    """Values over time (seconds), in order."""

    name: str
    points: Sequence[tuple[float, float]]
    series: int | None = None
    """whose colour it has; its place if absent"""


@dataclass(frozen=True)
class Axis:
    """Values from ``low`` to ``high`` on pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Pixels of a value."""
        low, high, here = self.low, self.high, min(max(value, self.low), self.high)
        if self.logarithmic:
            low, high, here = math.log10(low), math.log10(high), math.log10(here)
        return self.start + (here - low) / ((high - low) or 1.0) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values inside the axis."""
        if self.logarithmic:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            found = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
            return [value for value in found if self.low <= value <= self.high]
        span = self.high - self.low
        step = 10.0 ** math.floor(math.log10(span / 4 or 1.0))
        step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 6)
        first = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


def curves(
    title: str,
    series: Sequence[Curve],
    *,
    share: bool = False,
    target: float | None = None,
    clock: str = "virtual time",
) -> Markup:
    """The chart; ``share`` writes values as per cent, ``target`` is a dashed line across, ``clock`` names the axis."""
    drawn = [(number, curve) for number, curve in enumerate(series) if curve.points]
    times = [time for _, curve in drawn for time, _ in curve.points]
    values = [value for _, curve in drawn for _, value in curve.points] + ([target] if target is not None else [])
    across = _time_axis(drawn, times)
    low = 0.0 if min(values) < 0.5 * max(values) or (min(values) >= 0 > -1 and not share) else min(values)
    top = 1.0 if share else max(values) * 1.02
    up = Axis(low if not share else _share_floor(values), top, HEIGHT - BOTTOM, TOP)
    parts: list[str] = [*_grid(across, up, share=share)]
    if target is not None:
        y = up.at(target)
        parts.append(element("line", class_="target", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y))
        parts.append(element("text", f"target {100 * target:.0f} %", x=LEFT + 6, y=y - 5, class_="small soft"))
    for names, (x, y) in coinciding([(curve.name, _pixels(curve, across, up)) for _, curve in drawn]):
        parts.append(
            element("text", f"{names} coincide", x=min(x, WIDTH - RIGHT), y=max(y - 9, TOP + 10), text_anchor="end",
                    class_="small halo")
        )  # fmt: skip
    for number, curve in drawn:
        path = " ".join(f"{across.at(time):.1f},{up.at(value):.1f}" for time, value in curve.points)
        parts.append(
            element(
                "polyline",
                element("title", curve.name),
                class_=f"series series{series_number(number, curve)}",
                stroke_width=line_width(number, len(series)),
                points=path,
            )
        )
    parts += _legend(drawn)
    axis = f"{clock}, logarithmic" if across.logarithmic else clock
    parts.append(element("text", axis, x=WIDTH - RIGHT, y=HEIGHT - 8, text_anchor="end", class_="small soft"))
    ends = "; ".join(f"{curve.name} ends at {_value(curve.points[-1][1], share=share)} after "
                     f"{time_text(curve.points[-1][0] * 1e12)}" for _, curve in drawn)  # fmt: skip
    return picture(WIDTH, HEIGHT, *parts, title=title, description=ends)


def series_number(number: int, curve: Curve) -> int:
    """The series whose colour a curve has."""
    return (number if curve.series is None else curve.series) % SERIES


def _pixels(curve: Curve, across: Axis, up: Axis) -> list[Point]:
    return [(across.at(time), up.at(value)) for time, value in curve.points]


def coinciding(drawn: Sequence[tuple[str, Sequence[Point]]]) -> list[tuple[str, Point]]:
    """Names of curves that nowhere are further apart than a pixel or so, as 'a, b and c', and where they end."""
    groups: list[tuple[list[str], Sequence[Point]]] = []
    for name, points in drawn:
        for names, others in groups:
            near = (math.dist(here, there) <= COINCIDE for here, there in zip(points, others, strict=False))
            if len(points) == len(others) and all(near):
                names.append(name)
                break
        else:
            groups.append(([name], points))
    return [(f"{', '.join(names[:-1])} and {names[-1]}", points[-1]) for names, points in groups if len(names) > 1]


def _time_axis(drawn: Sequence[tuple[int, Curve]], times: Sequence[float]) -> Axis:
    ends = [curve.points[-1][0] for _, curve in drawn]
    first = min((time for time in times if time > 0), default=1e-9)
    logarithmic = max(ends) > LOG_FROM * min(ends) and max(times) > first
    low = first if logarithmic else 0.0
    return Axis(low, max(times) or 1.0, LEFT, WIDTH - RIGHT, logarithmic)


def _share_floor(values: Sequence[float]) -> float:
    return max(0.0, math.floor(min(values) * 10) / 10)


def _grid(across: Axis, up: Axis, *, share: bool) -> list[Markup]:
    parts = []
    for value in up.ticks():
        y = up.at(value)
        parts.append(element("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y))
        parts.append(
            element("text", _value(value, share=share), x=LEFT - 8, y=y + 4, text_anchor="end", class_="small soft")
        )
    for time in across.ticks():
        x = across.at(time)
        parts.append(element("line", class_="grid", x1=x, x2=x, y1=TOP, y2=HEIGHT - BOTTOM))
        parts.append(
            element(
                "text", time_text(time * 1e12), x=x, y=HEIGHT - BOTTOM + 17, text_anchor="middle", class_="small soft"
            )
        )
    base = HEIGHT - BOTTOM
    parts.append(element("line", class_="axis", x1=LEFT, x2=WIDTH - RIGHT, y1=base, y2=base))
    return parts


def _legend(drawn: Sequence[tuple[int, Curve]]) -> list[Markup]:
    parts = []
    x = LEFT
    for number, curve in drawn:
        width = line_width(number, len(drawn))
        class_ = f"series series{series_number(number, curve)}"
        parts.append(element("line", class_=class_, stroke_width=width, x1=x, x2=x + 30, y1=16, y2=16))
        parts.append(element("text", curve.name, x=x + 36, y=20, class_="strong"))
        x += 36 + 7.5 * len(curve.name) + 26
    return parts


def line_width(number: int, count: int) -> float:
    """Curves that are drawn first are broader, so that those that coincide can all be seen."""
    return min(7.0, 2.0 + 1.1 * (count - 1 - number))


def _value(value: float, *, share: bool) -> str:
    return f"{100 * value:.4g} %" if share else f"{value:.3g}"
