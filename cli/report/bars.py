"""Horizontal bars: one for each plan, with its value written at the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from p4reduce.cli.report.style import SERIES
from p4reduce.cli.report.svg import Markup, element, picture

WIDTH: Final = 400.0
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
    width = max(WIDTH, names + values + ROW)
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
