"""Elements, colours and charts of the report: curves over time, bars and Gantt charts."""

import hashlib
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from p4reduce.base.output import time_text
from p4reduce.control_plane.tdm.schedule import Schedule

# Colours and type of the report, light and dark. All text keeps a contrast of at least 4.5 : 1 (WCAG 2.2 AA).


HALVINGS: Final = 5
"""Halvings from the full scale of loads down to the lightest colour; colours between them are continuous."""
SERIES: Final = 8
"""Number of classes ``series0`` .. ``series7``; colours after Okabe and Ito (2008), distinct for all colour vision."""

_LIGHT: Final = """
--paper:#ffffff;--card:#f7f8fa;--line:#d6dae1;--text:#1c2330;--soft:#566074;--accent:#1f5fbf;--on-accent:#ffffff;
--tree:#1f5fbf;--idle:#c9ced8;--bad:#b3261e;
--series0:#0060a0;--series1:#b65000;--series2:#00785a;--series3:#a0457e;--series4:#5b5b5b;--series5:#7a5c00;
--series6:#4b3f9e;--series7:#8c1d1d;"""
_DARK: Final = """
--paper:#12161d;--card:#1a2029;--line:#38414f;--text:#e8ecf2;--soft:#a7b0bf;--accent:#7db3ff;--on-accent:#0d1420;
--tree:#7db3ff;--idle:#434c5a;--bad:#ff8a80;
--series0:#6cb6ff;--series1:#ffab5e;--series2:#4fd0a5;--series3:#e796c8;--series4:#c5c9d0;--series5:#e0c34f;
--series6:#a99cff;--series7:#ff9a8f;"""

PALETTE: Final = f":root{{color-scheme:light dark;{_LIGHT}}}@media(prefers-color-scheme:dark){{:root{{{_DARK}}}}}"

_LOADS: Final = (
    ".loaded{stroke:var(--light)}.keyed{fill:var(--light)}"
    "@media(prefers-color-scheme:dark){.loaded{stroke:var(--dark)}.keyed{fill:var(--dark)}}"
)
_DASHES: Final = ("none", "7 3", "2 3", "9 3 2 3", "5 2 1 2 1 2", "12 4", "4 4", "1 2")
_SERIES: Final = "".join(
    f".series{n}{{stroke:var(--series{n});stroke-dasharray:{_DASHES[n]}}}.bar{n}{{fill:var(--series{n})}}.name{n}{{fill:var(--series{n})}}"
    for n in range(SERIES)
)

_LOAD_STOPS: Final = (
    ("#e3b23c", "#e3913a", "#dc6e2c", "#c34722", "#98261f", "#5c0f1c"),
    ("#7d5a22", "#a9701f", "#d38a26", "#f0a843", "#ffc974", "#fff0cf"),
)
"""Colours of loads, light and dark, one for each halving."""
_OF_PLAN: Final = {"steiner": 0, "mst": 1, "ring": 2, "spt": 3, "ps": 4, "overlay-mst": 1, "spff": 4, "exact": 2}
"""Series of known plans and policies: the same colour in every picture of every report."""


def load_colour(share: float) -> str:
    """Return the style of a ``share`` (above 0, at most 1) of a full scale: continuous in its logarithm."""
    place = max(0.0, HALVINGS + math.log2(min(1.0, max(share, 2.0**-HALVINGS))))
    return ";".join(
        f"--{theme}:{_between(stops, place)}" for theme, stops in zip(("light", "dark"), _LOAD_STOPS, strict=True)
    )


def _between(stops: tuple[str, ...], place: float) -> str:
    low = min(int(place), len(stops) - 2)
    first, second = (tuple(bytes.fromhex(stop[1:])) for stop in stops[low : low + 2])
    mixed = (round(a + (b - a) * (place - low)) for a, b in zip(first, second, strict=True))
    return "#" + bytes(mixed).hex()


def series_of(names: Sequence[str]) -> list[int]:
    """Return the series, and so the colour, of each plan: its fixed one if known and unique, otherwise a free one."""
    plans = [name.split(",")[0] for name in names]
    own = [_OF_PLAN.get(plan) if plans.count(plan) == 1 else None for plan in plans]
    for place, series in enumerate(own):
        if series is not None and series in own[:place]:
            own[place] = None
    free = itertools.chain([n for n in range(SERIES) if n not in own], itertools.count(SERIES))
    return [next(free) % SERIES if series is None else series for series in own]


DRAWINGS: Final = f"""
svg text{{font-family:system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;font-size:12px;fill:var(--text)}}
svg .soft{{fill:var(--soft)}}svg .small{{font-size:10.5px}}svg .strong{{font-weight:600}}
.background{{fill:var(--paper)}}
.halo{{stroke:var(--paper);stroke-width:3px;stroke-linejoin:round;paint-order:stroke}}
.link{{fill:none;stroke-linecap:round}}.unloaded{{stroke:var(--idle)}}{_LOADS}
.tree{{fill:none;stroke:var(--tree);stroke-width:15;stroke-linecap:round;stroke-linejoin:round}}
.trees{{opacity:.22}}
.node{{fill:var(--paper);stroke:var(--soft);stroke-width:1.4}}
.node.aggregates{{fill:var(--accent);stroke:var(--accent)}}.node.incapable{{stroke-dasharray:3 2.5}}
.node.idle{{stroke:var(--idle)}}
svg text.on-accent{{fill:var(--on-accent);font-weight:600}}
.grid{{stroke:var(--line);stroke-width:1}}.axis{{stroke:var(--soft);stroke-width:1}}
.series{{fill:none;stroke-linejoin:round}}{_SERIES}
.bound{{stroke:var(--text);stroke-width:2}}.target{{stroke:var(--soft);stroke-width:1.2;stroke-dasharray:4 3}}
"""

PAGE: Final = """
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--text);font:16px/1.5 system-ui,"Segoe UI",Roboto,sans-serif}
main{max-width:1180px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 .3rem}h2{font-size:1.25rem;margin:2.4rem 0 .5rem}
h3{font-size:1.02rem;margin:0 0 .1rem}p{margin:.35rem 0;max-width:75ch}.soft{color:var(--soft)}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.92rem;font-variant-numeric:tabular-nums}
th,td{padding:.38rem .8rem .38rem 0;text-align:right;border-bottom:1px solid var(--line);vertical-align:bottom}
th:first-child,td:first-child{text-align:left}td:first-child{font-weight:600}td{white-space:nowrap}
thead th{color:var(--soft);font-weight:600}
.cards{display:grid;gap:18px;grid-template-columns:repeat(auto-fill,minmax(min(100%,520px),1fr))}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 16px;min-width:0}
.card p{font-size:.9rem}
svg{display:block;width:100%;height:auto}
.cards.one{grid-template-columns:1fr}.cards.three{grid-template-columns:repeat(auto-fill,minmax(min(100%,330px),1fr))}
.fault{border-left:4px solid var(--bad);padding:.3rem .8rem;margin:.8rem 0}
details{margin:.6rem 0}summary{cursor:pointer;font-weight:600}
code,.hash{font-family:ui-monospace,"SF Mono",Menlo,Consolas,monospace;font-size:.85em;overflow-wrap:anywhere}
.plain th,.plain td{text-align:left;vertical-align:top;white-space:normal}.plain td:first-child{font-weight:400}
@media print{.card{break-inside:avoid}}
"""


class Markup(str):
    """Text that is already markup."""

    __slots__ = ()


def element(tag: str, *content: str, **attributes: object) -> Markup:
    """Return ``<tag attributes>content</tag>``; ``class_`` means class, ``stroke_width`` means stroke-width.

    Attributes that are None are left out; numbers are written with at most two decimals.
    """
    written = "".join(
        f' {_name(name)}="{escape(_attribute(value))}"' for name, value in attributes.items() if value is not None
    )
    inner = "".join(part if isinstance(part, Markup) else escape(part, quote=False) for part in content)
    return Markup(f"<{tag}{written}>{inner}</{tag}>")


def void(tag: str, **attributes: object) -> Markup:
    """Return ``<tag attributes>`` of HTML, without an end tag."""
    text = element(tag, **attributes)
    return Markup(text.removesuffix(f"</{tag}>"))


def join(parts: Iterable[str]) -> Markup:
    """Join several pieces."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part, quote=False) for part in parts))


def picture(
    width: float, height: float, *content: str, title: str, description: str, style: str = "", inline: bool = True
) -> Markup:
    """Return a whole SVG with title and description for screen readers. ``style`` makes it self-contained.

    inline: whether it may carry an inline style, which strict pages forbid.
    """
    # Derived from the content, so that the same page has the same bytes.
    number = hashlib.sha256(f"{title}\n{description}".encode()).hexdigest()[:12]
    labels = (
        element("title", title, id=f"title-{number}"),
        element("desc", description, id=f"desc-{number}"),
        *((element("style", Markup(style)),) if style else ()),
    )
    return element(
        "svg",
        *labels,
        *content,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_attribute(width)} {_attribute(height)}",
        width=width if style else None,
        height=height if style else None,
        role="img" if inline else "group",
        aria_labelledby=f"title-{number} desc-{number}",
        style=f"max-width:{_attribute(width)}px" if inline else None,
    )


def _name(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _attribute(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)


# Gantt charts of schedules: training and communication of jobs, lit circuits, dark ports.


_LEFT: Final = 120.0
_WIDTH: Final = 640.0
_ROW: Final = 22.0
_TOP: Final = 34.0
_STYLE: Final = (
    "text{font:12px sans-serif;fill:#333}.train{fill:#9db8d2}.send{fill:#d9822b}.lit{fill:#7fb77e}"
    ".dark{fill:#222}.grid{stroke:#ccc}"
)


def schedule_svg(schedule: Schedule) -> str:
    """Draw one round: a row for each job (training, communication) and each pair of pods that is ever joined."""
    longest = max([schedule.round_s, *(cycle.period_s for cycle in schedule.cycles), 1e-12])
    scale = _WIDTH / longest
    parts: list[Markup] = []
    row = 0
    for plan in schedule.jobs:
        period = schedule.cycles[plan.cycle].period_s
        y = _TOP + row * _ROW
        parts.append(element("text", plan.job[:16], x=4, y=y + 14))
        for start, length, kind, label in (
            (plan.train_start_s, plan.train_s, "train", "trains"),
            (plan.start_s, plan.duration_s, "send", "communicates"),
        ):
            for begin, width in _wrapped(start, length, period):
                parts.append(_bar(begin, width, y, kind, scale, f"{plan.job} {label} for {1e3 * length:.3g} ms"))
        row += 1
    row += 1
    lit = [configuration for process in schedule.processes for configuration in process.configurations]
    pods = range(schedule.network.pods)
    pairs = [(i, j) for i in pods for j in pods if i < j and any(laid.circuits[i][j] for laid in lit)]
    for i, j in pairs:
        y = _TOP + row * _ROW
        parts.append(element("text", f"tor{i + 1} - tor{j + 1}", x=4, y=y + 14))
        for place, laid in enumerate(lit):
            before = lit[place - 1].circuits if len(lit) > 1 else laid.circuits
            dark = schedule.network.delta_s if laid.circuits[i][j] != before[i][j] else 0.0
            if dark:
                parts.append(_bar(laid.start_s, dark, y, "dark", scale, "dark"))
            if laid.circuits[i][j]:
                label = f"{laid.circuits[i][j]} circuits"
                parts.append(_bar(laid.start_s + dark, laid.duration_s - dark, y, "lit", scale, label))
        row += 1
    height = _TOP + row * _ROW + 30
    for tick in range(6):
        at = _LEFT + _WIDTH * tick / 5
        parts.insert(0, element("line", x1=at, x2=at, y1=_TOP - 6, y2=height - 24, class_="grid"))
        parts.append(element("text", f"{1e3 * longest * tick / 5:.3g} ms", x=at - 14, y=height - 8))
    parts.append(element("text", f"{schedule.policy}: round of {1e3 * schedule.round_s:.4g} ms", x=4, y=18))
    description = "Rows are jobs (blue: training, orange: communication), then pairs of pods (green: lit, black: dark)."
    title = f"Schedule of {len(schedule.jobs)} jobs"
    return picture(_LEFT + _WIDTH + 40, height, *parts, title=title, description=description, style=_STYLE)


def _wrapped(start: float, length: float, period: float) -> list[tuple[float, float]]:
    """Return the parts of an interval within one period: the part beyond its end begins again at 0."""
    if period <= 0 or length <= 0:
        return []
    start, length = start % period, min(length, period)
    if start + length <= period * (1 + 1e-9):
        return [(start, length)]
    return [(start, period - start), (0.0, start + length - period)]


def _bar(start: float, length: float, y: float, kind: str, scale: float, label: str) -> Markup:
    width = max(0.75, length * scale)
    title = element("title", label)
    return element("rect", title, x=_LEFT + start * scale, y=y, width=width, height=_ROW - 6, class_=kind)


# Horizontal bars: one for each plan, with its value at the end.


BARS_WIDTH: Final = 400.0
NAME_WIDTH: Final = 74.0
VALUE_WIDTH: Final = 132.0
"""Least width of names and of values; longer texts get more."""
CHARACTER: Final = 7.2
ROW: Final = 32.0
BAR: Final = 20.0


@dataclass(frozen=True)
class DrawnBar:
    """One bar; ``mark`` is drawn as a line across it, e.g. at a lower bound."""

    name: str
    value: float
    text: str
    mark: float | None = None
    series: int | None = None
    """Series that sets its colour; None: its place."""


def bars(title: str, rows: Sequence[DrawnBar], *, mark_says: str = "") -> Markup:
    """Return the chart. Bars begin at 0; their colours are those of the curves."""
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
"""Most pixels between curves that look like one."""
Point = tuple[float, float]
LOG_FROM: Final = 3.0
"""Ratio of the slowest plan's end to the fastest's from which the time axis is logarithmic."""


@dataclass(frozen=True)
class Curve:
    """Values over time (seconds), in order."""

    name: str
    points: Sequence[tuple[float, float]]
    series: int | None = None
    """Series that sets its colour; None: its place."""


@dataclass(frozen=True)
class Axis:
    """Values from ``low`` to ``high`` on pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Return the pixel position of a value."""
        low, high, here = self.low, self.high, min(max(value, self.low), self.high)
        if self.logarithmic:
            low, high, here = math.log10(low), math.log10(high), math.log10(here)
        return self.start + (here - low) / ((high - low) or 1.0) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return round values inside the axis."""
        if self.logarithmic:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            steps = [step * 10.0**decade for decade in decades for step in (1, 2, 5)]
            return [value for value in steps if self.low <= value <= self.high]
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
    """Return the chart; ``share`` shows values as per cent, ``target`` is a dashed line, ``clock`` names the axis."""
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
    if same := coinciding([(curve.name, _pixels(curve, across, up)) for _, curve in drawn]):
        note = "; ".join(f"{names} coincide" for names in same)
        parts.append(element("text", note, x=LEFT, y=HEIGHT - 8, class_="small soft"))  # below: no text over curves
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
                     f"{page_time(curve.points[-1][0] * 1e12)}" for _, curve in drawn)  # fmt: skip
    return picture(WIDTH, HEIGHT, *parts, title=title, description=ends)


def page_time(ps: float) -> str:
    """Return a virtual time as pages show it, '1.234 µs'. ``ps`` in picoseconds."""
    return time_text(ps, "µs")


def series_number(number: int, curve: Curve) -> int:
    """Return the series whose colour a curve has."""
    return (number if curve.series is None else curve.series) % SERIES


def _pixels(curve: Curve, across: Axis, up: Axis) -> list[Point]:
    return [(across.at(time), up.at(value)) for time, value in curve.points]


def coinciding(drawn: Sequence[tuple[str, Sequence[Point]]]) -> list[str]:
    """Return the names of curves that are nowhere more than a pixel or so apart, as 'a, b and c'."""
    groups: list[tuple[list[str], Sequence[Point]]] = []
    for name, points in drawn:
        for names, others in groups:
            near = (math.dist(here, there) <= COINCIDE for here, there in zip(points, others, strict=False))
            if len(points) == len(others) and all(near):
                names.append(name)
                break
        else:
            groups.append(([name], points))
    return [f"{', '.join(names[:-1])} and {names[-1]}" for names, _ in groups if len(names) > 1]


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
                "text", page_time(time * 1e12), x=x, y=HEIGHT - BOTTOM + 17, text_anchor="middle", class_="small soft"
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
    """Return the line width: curves drawn first are broader, so that coinciding ones can all be seen."""
    return min(7.0, 2.0 + 1.1 * (count - 1 - number))


def _value(value: float, *, share: bool) -> str:
    return f"{100 * value:.4g} %" if share else f"{value:.3g}"
