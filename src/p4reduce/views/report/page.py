"""report.html: one self-contained page without scripts."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from p4reduce.base.output import bytes_text, rate_text
from p4reduce.runs.files import faults_of, table_of
from p4reduce.runs.result import RunResult
from p4reduce.views.report.curves import (
    BOTTOM,
    DRAWINGS,
    HEIGHT,
    LEFT,
    LOG_FROM,
    PAGE,
    PALETTE,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    Curve,
    DrawnBar,
    Markup,
    bars,
    curves,
    element,
    join,
    line_width,
    page_time,
    picture,
    series_number,
    series_of,
    void,
)
from p4reduce.views.report.network import NetworkDrawing, draw_inline
from p4reduce.workers.training.loops import ACCURACY, LOSS
from p4switch.base.files import write_text

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Content policy: nothing is fetched, even if a name in a file tried to."""
BELOW_BOUND = (
    "A time below its bound: participants do not begin an iteration at the same moment. Those that finish early "
    "already send while others still compute, and what they sent by then is not in the others' time."
)
MAX_HALF = 12
"""Most hosts in one row that are legible on half the page."""
MAX_DRAWN = 400
"""Most nodes of a topology that is drawn."""


def write_report(path: Path, results: Sequence[RunResult], *, title: str) -> Path:
    """Write the page for one or more runs; return ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page(results, title))
    return path


def page(results: Sequence[RunResult], title: str) -> str:
    """Return the page as text. The same results give the same bytes."""
    names = labels(results)
    return document(
        title,
        element("p", _lead(results), class_="soft"),
        *_faults(results, names),
        _table(results),
        *_sections(results, names),
        *_provenance(results, names),
    )


def document(title: str, *content: str) -> str:
    """Return a whole page with its heading and styles."""
    head = element(
        "head",
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=POLICY),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Markup(PALETTE + DRAWINGS + PAGE)),
    )
    body = element("main", element("h1", title), *content)
    return "<!doctype html>\n" + element("html", head, element("body", body), lang="en") + "\n"


def labels(results: Sequence[RunResult]) -> list[str]:
    """Return a name for each run: its plan, with topology or number if plans alone do not distinguish the runs."""
    plans = [result.network.plan for result in results]
    if len(set(plans)) == len(plans):
        return plans
    longer = [f"{result.network.plan}, {result.network.topology}" for result in results]
    if len(set(longer)) == len(longer):
        return longer
    return [f"{name} #{number + 1}" for number, name in enumerate(longer)]


def _lead(results: Sequence[RunResult]) -> str:
    first = results[0]
    network = first.network
    what = f"{first.experiment['collective']} of a tensor"
    if first.training:
        what = (
            "Training the digits classifier" if first.experiment["model"] == "digits" else "A script's own collectives"
        )
    return (
        f"{what}: {network.workers} workers on {network.topology}, {network.elements:,} float32 "
        f"({bytes_text(4 * network.elements)}) for each worker and iteration, {network.lanes} lanes a packet. "
        "Every figure comes from frames that passed the P4 program; times are "
        + ("of the wall clock of one machine." if first.real else "virtual and exact.")
    )


def _faults(results: Sequence[RunResult], names: Sequence[str]) -> list[Markup]:
    return [
        element("p", element("strong", f"{name}: "), fault, class_="fault", role="alert")
        for name, result in zip(names, results, strict=True)
        for fault in faults_of(result)
    ]


def _table(results: Sequence[RunResult]) -> Markup:
    columns, rows = table_of(results)
    head = element("tr", *(element("th", column.replace(" %", "\u00a0%"), scope="col") for column in columns))
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    return element("div", element("table", element("thead", head), element("tbody", *body)), class_="scroll")


def _sections(results: Sequence[RunResult], names: Sequence[str]) -> list[Markup]:
    parts = [
        element("h2", "Bytes and time"),
        element("div", *_bar_cards(results, names), class_="cards three"),
    ]
    if any(result.network.ratio_to_bound < 1 for result in results):
        parts.append(element("p", BELOW_BOUND, class_="soft"))
    trained = [(name, result) for name, result in zip(names, results, strict=True) if result.training]
    if trained:
        parts += [
            element("h2", f"Training over {_clock(trained[0][1])}"),
            element("div", *_curve_cards(trained, dict(zip(names, series_of(names), strict=True))), class_="cards"),
        ]
    parts += [
        element("h2", "Trees and loads"),
        element(
            "p",
            "Each link is two lines, one for each direction, on the right as seen from the sender. Colour and width "
            "say how many bytes it carried, on one continuous scale for all plans, logarithmic. The broad band is the "
            "plan's tree; filled switches aggregate, dashed ones cannot. Hover over a link to read its bytes, or open "
            "the table below the picture.",
            class_="soft",
        ),
        element("div", *_network_cards(results, names), class_="cards one" if _is_wide(results) else "cards"),
    ]
    return parts


def card(heading: str, *content: str) -> Markup:
    """Return a card with a heading and a picture."""
    return element("section", element("h3", heading), *content, class_="card")


def _bar_cards(results: Sequence[RunResult], names: Sequence[str]) -> list[Markup]:
    pairs = list(zip(names, (result.network for result in results), series_of(names), strict=True))
    total = [
        DrawnBar(name, network.total_bytes, bytes_text(network.total_bytes), series=own) for name, network, own in pairs
    ]
    busiest = [
        DrawnBar(name, network.busiest_bytes, bytes_text(network.busiest_bytes), series=own)
        for name, network, own in pairs
    ]
    times = [
        DrawnBar(
            name,
            network.communication_ps,
            f"{page_time(network.communication_ps)} ({network.ratio_to_bound:.4g} x)",
            network.bound_ps,
            own,
        )
        for name, network, own in pairs
    ]
    return [
        card("Bytes on all links", bars("Bytes on all links, by plan", total)),
        card("Bytes on the busiest link", bars("Bytes on the busiest link, by plan", busiest)),
        card(
            "Communication time of an iteration",
            bars(
                "Communication time of an iteration, by plan",
                times,
                mark_says="the plan's lower bound, headers included",
            ),
        ),
    ]


def _curve_cards(trained: Sequence[tuple[str, RunResult]], series_by: Mapping[str, int]) -> list[Markup]:
    cards = []
    target = next((result.training.target_accuracy for _, result in trained if result.training), None)
    clock = _clock(trained[0][1])
    for heading, figure in (("Test accuracy", ACCURACY), ("Loss of worker 0's batch", LOSS)):
        series = [Curve(name, _points(result, figure), series_by[name]) for name, result in trained]
        if any(curve.points for curve in series):
            share = figure == ACCURACY
            cards.append(
                card(
                    heading,
                    curves(
                        f"{heading} over {clock}", series, share=share, target=target if share else None, clock=clock
                    ),
                )
            )
    return cards


def _clock(result: RunResult) -> str:
    return "virtual time" if result.real is None else "real time"


def _points(result: RunResult, figure: str) -> list[tuple[float, float]]:
    points = result.training.points if result.training else []
    return [(point.time_s, point.value) for point in points if point.name == figure]


def _network_cards(results: Sequence[RunResult], names: Sequence[str]) -> list[Markup]:
    full_scale = max((load.bytes for result in results for load in result.network.links), default=0) or None
    cards = []
    for name, result in zip(names, results, strict=True):
        network = result.network
        says = f"busiest: {network.busiest_link}, {bytes_text(network.busiest_bytes)}"
        if len(result.topology["nodes"]) > MAX_DRAWN:
            drawn = element("p", f"{len(result.topology['nodes'])} nodes are too many to draw.")
        else:
            drawn = draw_inline(_drawing(result, f"{name} on {network.topology}", full_scale))
        cards.append(card(name, element("p", says, class_="soft"), drawn, _link_table(result)))
    return cards


def _link_table(result: RunResult) -> Markup:
    """Return a collapsed table with the bytes of every link that carried any, most first."""
    loads = sorted((load for load in result.network.links if load.bytes), key=lambda load: -load.bytes)
    head = element("tr", *(element("th", name, scope="col") for name in ("link", "bytes", "of them sent again")))
    body = [
        element(
            "tr",
            *(element("td", cell) for cell in (f"{x.node} to {x.peer}", f"{x.bytes:,}", f"{x.resend_bytes:,}")),
        )
        for x in loads
    ]
    table = element("table", element("thead", head), element("tbody", *body))
    return element("details", element("summary", "bytes of every link"), element("div", table, class_="scroll"))


def _is_wide(results: Sequence[RunResult]) -> bool:
    """Return whether a drawing has rows too long for half a page."""
    hosts = (sum(node["kind"] == "host" for node in result.topology["nodes"]) for result in results)
    maps = (any(node["kind"] == "host" and node.get("position") is None for node in result.topology["nodes"])
            for result in results)  # fmt: skip
    return any(count > MAX_HALF and not is_map for count, is_map in zip(hosts, maps, strict=True))


def _drawing(result: RunResult, title: str, full_scale: int | None) -> NetworkDrawing:
    kinds = {str(node["name"]): str(node["kind"]) for node in result.topology["nodes"]}
    paths = list(dict.fromkeys(edge.path for edge in result.network.tree))
    ends = {end for edge in result.network.tree for end in (edge.child, edge.parent)}
    return NetworkDrawing.of_result(
        result.topology,
        title=title,
        loads={(load.node, load.peer): load.bytes for load in result.network.links},
        paths=paths,
        aggregators={end for end in ends if kinds.get(end) == "switch"},
        participants={end for end in ends if kinds.get(end) == "host"},
        full_scale=full_scale,
    )


def _provenance(results: Sequence[RunResult], names: Sequence[str]) -> list[Markup]:
    parts = [
        element("h2", "Where the figures come from"),
        element(
            "p",
            "First transmissions counted on links and by the P4 program were compared with the plan's prediction on "
            "every link, for every run. The same settings give the same result file, byte for byte."
            if results[0].flow is None
            else f"Bytes are the plans' predictions, and times are of a model: {results[0].flow}.",
        ),
    ]
    for name, result in zip(names, results, strict=True):
        rows = [*result.provenance.items(), *_flat(result.experiment)]
        body = [element("tr", element("td", key), element("td", value, class_="hash")) for key, value in rows]
        table = element("table", element("tbody", *body), class_="plain")
        parts.append(element("details", element("summary", name), element("div", table, class_="scroll")))
    return [join(parts)]


def _flat(settings: dict[str, object]) -> list[tuple[str, str]]:
    rows = []
    for key, value in settings.items():
        if isinstance(value, dict):
            rows += [(f"{key}.{inner}", str(part)) for inner, part in value.items()]
        elif value is not None:
            rows.append((key, str(value)))
    return rows


# Page of a sweep: time, time over the lower bound and algorithm bandwidth against size, a curve for each setting.


Row = Mapping[str, Any]
AXES: Final = ("plan", "topology", "collective", "workers", "lanes", "rate", "loss", "duplicate", "reorder", "corrupt")
"""Settings that give separate curves if they differ; a point is the median over seeds."""
LEGEND_ROW: Final = 20.0
Value = Callable[[Row], float]
FIGURES: Final[tuple[tuple[str, Value, Callable[[float], str]], ...]] = (
    ("Network time", lambda row: row["communication_us"] * 1e6, page_time),
    ("Time over the lower bound", lambda row: row["ratio_to_bound"], lambda value: f"{value:.3g}"),
    ("Algorithm bandwidth: size over time", lambda row: 32e6 * row["elements"] / row["communication_us"], rate_text),
)
"""Title, value of a row, and its text."""


def sweep_cards(rows: Sequence[Row]) -> list[tuple[str, Markup]]:
    """Return the pictures with their titles. Rows of failed runs are left out."""
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
        Curve(name, [(float(size), statistics.median(values)) for size, values in sorted(sizes.items())], number)
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
    """Return ticks that are not too close: only whole decades if there are many."""
    ticks: list[float] = axis.ticks()
    if len(ticks) <= 8:
        return ticks
    return [value for value in ticks if math.isclose(math.log10(value) % 1, 0, abs_tol=1e-9)] or ticks[::3]


def write_sweep(path: Path, rows: Sequence[Row], *, title: str) -> Path:
    """Write the page of a sweep; return ``path``."""
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
