"""Pages of studies, and their charts."""

import argparse
import base64
import csv
import dataclasses
import inspect
import json
import re
import signal
import statistics
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, get_type_hints

import matplotlib as mpl
from matplotlib.figure import Figure

from p4reduce.base.errors import BadInput
from p4reduce.base.failures import EXIT_BAD_INPUT, EXIT_INTERRUPTED, exit_code
from p4reduce.base.output import Output, progress_bar
from p4reduce.base.signals import handling, raise_exit_in_time
from p4reduce.cli.lists import floats, folders, integers, shard_of, texts
from p4reduce.group.errors import ClusterError
from p4reduce.views.report.curves import DRAWINGS, PAGE, PALETTE, Markup, element, join, void
from p4switch.base.files import read_text, write_text
from studies.frame import (
    Column,
    Part,
    Point,
    Study,
    StudyResult,
    Table,
    Verdict,
    Work,
    columns_of,
    run_cells,
    run_study,
)

CHARACTERS_PER_INCH: Final = 12
SIZE: Final = 10
MANY: Final = 3
"""number of names under an axis above which they are slanted"""
TICKS: Final = 10
"""highest number of places on a logarithmic axis that are all labelled"""
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
"""colours after Okabe and Ito"""
MARKS: Final = "osv^DPX*<>dhp"
"""markers, which distinguish series without colour"""
_WIDE: Final = 4


def title(figure: Figure, text: str) -> None:
    """Set the title of a figure, wrapped to its width."""
    figure.suptitle("\n".join(textwrap.wrap(text, int(CHARACTERS_PER_INCH * figure.get_figwidth()))), fontsize=SIZE)


def save_all(figures: Iterable[tuple[str, Figure | None]], folder: Path) -> dict[str, Path]:
    """Write ``<name>.png`` and ``<name>.svg`` of each figure that is not None into a folder, created if absent.

    ``figures`` are drawn one by one, with common settings. Returns the PNG files by name.
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
class StudyDrawing:
    """A figure other than points over a value; ``draw`` returns None if none of its parts was run."""

    name: str
    says: str
    draw: Callable[[StudyResult], Figure | None]


@dataclass(frozen=True)
class Chart:
    """A chart of points (or rows) of parts: ``y`` over ``x``, a line or a group of bars for each value of ``by``.

    Attributes
    ----------
    name, says : str
        Name of its files; title of the figure.
    parts : str or tuple of str
        Parts whose points are drawn.
    x : str
        Field or measure; texts are placed side by side in their order.
    y : str or tuple of str
        Field or measure; each has a panel.
    by : tuple of str
        Fields that identify a series.
    panel : str
        Field with a panel for each of its values; empty: none.
    kind : str
        'lines', 'bars', or 'dots'.
    where : mapping
        Fields with the only values that are drawn.
    rows : bool
        Whether rows are drawn instead of points: their means, with a band from least to most.
    xscale, yscale : str
        Scales of matplotlib.
    line : float or None
        Value of y with a horizontal line; None: no line.
    axes : mapping
        Axis names with units, for fields whose columns serve several charts.
    label : function
        Maps the values of ``by`` to the name of a series.
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
    axes: Mapping[str, str] = field(default_factory=dict)
    label: Callable[..., str] = lambda *values: ", ".join(map(_text, values))

    def draw(self, result: StudyResult) -> Figure | None:
        """Draw the figure; return None if none of its parts was run."""
        parts = (self.parts,) if isinstance(self.parts, str) else self.parts
        source = result.records if self.rows else result.points
        own = [datum for part in parts for datum in source.get(part, ()) if self._is_drawn(datum)]
        if not own:
            return None
        shown, ys = self._columns(result.study), (self.y,) if isinstance(self.y, str) else self.y
        values = list(dict.fromkeys(_get(datum, self.panel) for datum in own)) if self.panel else [None]
        panels = [(y, value) for value in values for y in ys]
        across = min(_WIDE, len(panels))
        down = -(-len(panels) // across)
        wide = max(3.4, 0.34 * len({_get(datum, self.x) for datum in own})) if self.kind == "bars" else 3.6
        figure = Figure(figsize=(max(6.0, wide * across), 3.2 * down + 0.8), layout="constrained")
        series = list(dict.fromkeys(self._series(datum) for datum in own))
        for number, (y, value) in enumerate(panels):
            axes = figure.add_subplot(down, across, number + 1)
            inside = [datum for datum in own if value is None or _get(datum, self.panel) == value]
            self._panel(axes, inside, y, series)
            axes.set_xlabel(self._heading(shown, self.x))
            axes.set_ylabel(self._heading(shown, y))
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

    def headings(self, study: Study) -> list[str]:
        """Return the titles of the axes: x, then each y."""
        shown = self._columns(study)
        return [self._heading(shown, name) for name in (self.x, *((self.y,) if isinstance(self.y, str) else self.y))]

    def _columns(self, study: Study) -> dict[str, Column]:
        parts = (self.parts,) if isinstance(self.parts, str) else self.parts
        shown: dict[str, Column] = {}
        for part in study.parts:
            if part.name in parts:
                shown |= columns_of(part.row) | part.columns
            for name, record in part.also.items():
                if name in parts:
                    shown |= columns_of(record)
        return shown

    def _heading(self, shown: Mapping[str, Column], name: str) -> str:
        return self.axes.get(name) or (shown[name].heading if name in shown else name.replace("_", " "))

    def _is_drawn(self, datum: Any) -> bool:
        for name, wanted in self.where.items():
            value = _get(datum, name)
            if value not in wanted if isinstance(wanted, tuple) else value != wanted:
                return False
        return True

    def _series(self, datum: Any) -> tuple[Any, ...]:
        return tuple(_get(datum, name) for name in self.by)

    def _panel(self, axes: Any, own: Sequence[Any], y: str, series: Sequence[tuple[Any, ...]]) -> None:
        places = list(dict.fromkeys(_get(datum, self.x) for datum in own))
        named = any(isinstance(place, str | tuple | bool) for place in places) or self.kind == "bars"
        if not named:  # points with value None have no position on a numeric axis
            places = sorted(place for place in places if place is not None)
        width = 0.8 / max(1, len(series))
        for number, key in enumerate(series):
            mine = [datum for datum in own if self._series(datum) == key]
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
            if self.xscale == "log" and len(places) <= TICKS:  # labels at powers of ten only would say less
                axes.set_xticks(places, [_text(place) for place in places], fontsize=7)
                axes.set_xticks([], minor=True)
        axes.set_yscale(self.yscale)
        if self.line is not None:
            axes.axhline(self.line, color="black", linewidth=0.6)


def _spread(own: Sequence[Any], x: str, y: str) -> dict[Any, tuple[float, float, float]]:
    """Return by place the value and the lower and upper length of its error bar (for rows: to least and most)."""
    by_place: dict[Any, list[tuple[float, float, float]]] = {}
    for datum in own:
        value = _get(datum, y)
        if value is None:
            continue
        low = high = 0.0
        if isinstance(datum, Point) and y in datum.values:
            interval = datum.estimate(y)
            if interval is not None and interval.low is not None:
                low = high = interval.value - interval.low
        by_place.setdefault(_get(datum, x), []).append((float(value), low, high))
    made = {}
    for place, values in by_place.items():
        if len(values) == 1:
            made[place] = values[0]
            continue
        middles = [value for value, _, _ in values]
        mean = statistics.fmean(middles)
        made[place] = (mean, mean - min(middles), max(middles) - mean)
    return made


def _get(datum: Any, name: str) -> Any:
    return datum[name] if isinstance(datum, Point) else getattr(datum, name)


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


# Tables of points and of verdicts, from their columns.


def points_table(part: Part, points: Sequence[Point], *, brief: bool = False) -> Table:
    """Return the points of a part as text; ``brief``: without columns that are constant or empty.

    Means over several seeds are followed by half of their 95 % confidence interval.
    """
    names = [name for name in part.columns if not brief or not part.brief or name in part.brief]
    if brief:
        names = [name for name in names if name not in part.by or len({repr(point.key[name]) for point in points}) > 1]
    rows = [[_cell(part, point, name) for name in names] for point in points]
    kept = [place for place in range(len(names)) if not brief or any(row[place] != "-" for row in rows)]
    headings = [part.columns[name].heading for name in names]
    return (
        part.says,
        [*(headings[place] for place in kept), "seeds"],
        [[*(row[place] for place in kept), str(point.seeds)] for row, point in zip(rows, points, strict=True)],
    )


def _cell(part: Part, point: Any, name: str) -> str:
    """Return the text of a cell of a point, or of a listed row."""
    shown = part.columns[name]
    estimate = point.estimate(name) if isinstance(point, Point) and name not in point.key else None
    if estimate is None or estimate.high is None:
        return shown.text(_get(point, name))
    return f"{shown.text(estimate.value)} ± {shown.text(estimate.high - estimate.value)}"


def bars_table(verdicts: Iterable[Verdict]) -> Table:
    """Return the table of bars, with limits and measured values."""
    return (
        "Bars",
        [column.heading for column in columns_of(Verdict).values()],
        [verdict.cells() for verdict in verdicts],
    )


def rows_table(text: str, rows: Sequence[Any]) -> Table:
    """Return records of one kind as a table of their columns."""
    shown = columns_of(type(rows[0])) if rows else {}
    cells = [[column.text(getattr(row, name)) for name, column in shown.items()] for row in rows]
    return text, [column.heading for column in shown.values()], cells


# Tables of pages in docs/: generated from a result, so that every figure on a page can be reproduced by a command.


_BLOCK: Final = re.compile(r"<!-- table: (?P<asked>[^>]*?) -->\n(?P<old>.*?)<!-- end of table -->", re.DOTALL)


def document_tables(text: str, result: StudyResult) -> tuple[str, list[str]]:
    """Regenerate a study's tables in a Markdown page; return the page, and the names of the parts in these tables.

    A table stands between ``<!-- table: PART; rows: FIELD, ..; cells: MEASURE, ..; across: FIELD; where: FIELD=VALUE,
    .. -->`` and ``<!-- end of table -->``. It has a line for each combination of ``rows`` and, with ``across``, a
    column for each value of that field. ``where`` keeps the points whose formatted field equals VALUE. A part that
    lists its rows is shown whole if neither rows nor cells are given. ``bars`` shows the bars with a limit, ``missed
    bars`` those that do not hold; the title of a further table of the study shows that table. Tables of parts that were
    not run stay unchanged.

    Raises
    ------
    BadInput
        A table asks for a field or measure that its part does not have.
    """
    shown: list[str] = []
    others = {table[0]: table for table in result.study.tables(result)}
    listed = [part.name for part in result.study.parts if part.lists]

    def made(block: re.Match[str]) -> str:
        part, asked = _asked(block["asked"])
        if part in ("bars", "missed bars") and result.verdicts:
            table = bars_table(verdict for verdict in result.verdicts if verdict.holds in (False, part == "bars"))
        elif points := result.points.get(part) or (result.rows(part) if part in listed else []):
            table = _chosen_points(
                next(listed_part for listed_part in result.study.parts if listed_part.name == part), points, asked
            )
        elif part in others:
            table = others[part]
        else:
            return block[0]
        shown.append(part)
        _, headings, rows = table
        lines = [headings, ["---"] * len(headings), *rows]
        body = "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
        return f"<!-- table: {block['asked']} -->\n{body}\n<!-- end of table -->"

    return _BLOCK.sub(made, text), shown


def _asked(text: str) -> tuple[str, dict[str, list[str]]]:
    part, *fields = (piece.strip() for piece in text.split(";"))
    choices = {name.strip(): texts(value, name) for name, _, value in (choice.partition(":") for choice in fields)}
    if unknown := [name for name in choices if name not in ("rows", "cells", "across", "where")]:
        raise BadInput(f"<!-- table: {text} -->: {unknown[0]!r} is none of rows, cells, across and where")
    return part, choices


def _chosen_points(part: Part, points: Sequence[Any], asked: Mapping[str, Sequence[str]]) -> Table:
    rows, cells, across = (asked.get(name, []) for name in ("rows", "cells", "across"))
    if part.lists and not (rows or cells):
        rows = list(part.columns)
    where = [condition.partition("=")[::2] for condition in asked.get("where", [])]

    def written(point: Any, name: str) -> str:
        return part.columns[name].text(_get(point, name))

    for name in (*rows, *cells, *across, *(name for name, _ in where)):
        if name not in part.columns:
            raise BadInput(f"table of {part.name}: {name!r} is none of {', '.join(part.columns)}")
    own = [point for point in points if all(written(point, name) == value for name, value in where)]
    texts_of: dict[tuple[str, ...], dict[str, str]] = {}
    for point in own:
        line = texts_of.setdefault(tuple(written(point, name) for name in rows), {})
        if across:
            line[written(point, across[0])] = ", ".join(_cell(part, point, name) for name in cells)
        else:
            line |= {part.columns[name].heading: _cell(part, point, name) for name in cells}
    columns = list(dict.fromkeys(name for line in texts_of.values() for name in line))
    title_ = f"{part.columns[across[0]].heading} " if across else ""
    return (
        part.says,
        [
            *(part.columns[name].heading for name in rows),
            *(title_ * (place == 0) + name for place, name in enumerate(columns)),
        ],
        [[*key, *(line.get(name, "-") for name in columns)] for key, line in texts_of.items()],
    )


# Rows and points as CSV (RFC 4180).


def write_rows(path: Path, record: type[Any], rows: Iterable[Any]) -> Path:
    """Write dataclasses of one kind, one per line below the names of their fields; None is an empty cell."""
    names = [record_field.name for record_field in dataclasses.fields(record)]
    return _write(path, names, ([getattr(row, name) for name in names] for row in rows))


def write_points(path: Path, points: Sequence[Point]) -> Path:
    """Write points with the ends of their intervals."""
    data = [point.as_data() for point in points]
    return _write(path, list(data[0]), (list(cells.values()) for cells in data))


def _write(path: Path, names: Sequence[str], lines: Iterable[Sequence[Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerow(names)
        writer.writerows(["" if cell is None else cell for cell in line] for line in lines)
    return path


# The page: it loads nothing from other servers.


POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
IMAGE_STYLE: Final = (
    "img{max-width:100%;height:auto;background:#fff;border-radius:6px}"
    "@media(prefers-color-scheme:dark){img{filter:invert(.93) hue-rotate(180deg)}}"  # dark paper, the same hues
)
INTERVALS: Final = (
    "± and intervals: 95 % confidence of a mean over seeds (Student's t). A bar holds where its whole interval keeps "
    "to the limit, on seeds that the study was not developed on."
)


def page_of(result: StudyResult, figures: Mapping[str, Path], files: Mapping[str, str]) -> str:
    """Return the page as text. The same result and figures give the same bytes."""
    study = result.study
    head = element(
        "head",
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=POLICY),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", study.title),
        element("style", Markup(PALETTE + DRAWINGS + PAGE + IMAGE_STYLE)),
    )
    says = {chart.name: chart.says for chart in study.charts}
    tables = [bars_table(result.verdicts)] if result.verdicts else []
    tables += study.tables(result)
    parts = [part for part in study.parts if result.points.get(part.name)]
    listed = [part for part in study.parts if part.lists and result.rows(part.name)]
    shown = [
        element("h1", study.title),
        element("p", f"{study.lead(result)} {INTERVALS}".strip(), class_="soft"),
        *(piece for table in tables for piece in _markup(table)),
        *(element("div", Markup(text), class_="card") for name, text in files.items() if name.endswith(".svg")),
        *(piece for name, path in figures.items() for piece in _figure(says[name], path)),
        *(piece for part in parts for piece in _markup(points_table(part, result.points[part.name]))),
        *(piece for part in listed for piece in _markup(rows_table(part.says, result.rows(part.name)))),
        *_markup(("Where the figures come from", ("what", "value"), _origin(result)), plain=True),
    ]
    return "<!doctype html>\n" + element("html", head, element("body", element("main", *shown)), lang="en") + "\n"


def _origin(result: StudyResult) -> list[tuple[str, str]]:
    return [*result.provenance.items(), *((name, str(value)) for name, value in vars(result.settings).items())]


def _figure(text: str, path: Path) -> list[Markup]:
    data = base64.b64encode(path.read_bytes()).decode()
    image = void("img", src=f"data:image/png;base64,{data}", alt=text)
    return [element("h2", text), element("div", image, class_="card")]


def _markup(table: Table, *, plain: bool = False) -> list[Markup]:
    text, columns, rows = table
    head = element("tr", *(element("th", column, scope="col") for column in columns))
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    made = element("table", element("thead", head), element("tbody", join(body)), class_="plain" if plain else None)
    return [element("h2", text), element("div", made, class_="scroll")]


def write_study(result: StudyResult, folder: Path) -> list[Path]:
    """Write tables as CSV, result.json, figures/ and report.html; return the files, without figures."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for part in result.study.parts:
        kinds = {part.name: part.row, **part.also}
        written += [
            write_rows(folder / f"{name}.csv", record, result.records[name])
            for name, record in kinds.items()
            if result.records.get(name)
        ]
        if points := result.points.get(part.name):
            written.append(write_points(folder / f"{part.name}-points.csv", points))
    data = json.dumps(result.as_data(), indent=1, sort_keys=True, default=str)
    written.append(write_text(folder / "result.json", data + "\n"))
    more = result.study.files(result)
    written += [write_text(folder / name, text) for name, text in more.items()]
    figures = save_all(((chart.name, chart.draw(result)) for chart in result.study.charts), folder / "figures")
    written.append(write_text(folder / "report.html", page_of(result, figures, more)))
    return written


def show_study(result: StudyResult, output: Output) -> None:
    """Print the points, other tables, and then the bars."""
    for part in result.study.parts:
        if reason := result.skipped.get(part.name):
            output.line(f"{part.name}: skipped: {reason}")
        if error := result.failed.get(part.name):
            output.line(f"{part.name}: failed: {error}")
        if points := result.points.get(part.name):
            text, columns, rows = points_table(part, points, brief=True)
            output.table(columns, rows, title=text)
        if part.lists and result.rows(part.name):
            text, columns, rows = rows_table(part.says, result.rows(part.name))
            output.table(columns, rows, title=text)
    for text, columns, rows in result.study.tables(result):
        output.table(columns, rows, title=text)
    if result.verdicts:
        _, columns, rows = bars_table(result.verdicts)
        output.table(columns, rows, title="Bars")
    if not all(verdict.decided for verdict in result.verdicts):
        seeds = result.study.held_out
        output.note(
            "(in brackets): undecided, since it is of one seed, or of seeds that the study was developed on (dev); "
            f"--seeds held-out ({seeds[0]}..{seeds[-1]}) decides"
        )


# Flags: one for each field of the settings.


_SCALARS: Final = (int, float, str)
_READERS: Final[dict[Any, tuple[Callable[[str, str], Any], str, str]]] = {
    tuple[int, ...]: (integers, "3,6,9 or 0..4", ""),
    tuple[float, ...]: (floats, "0,0.5", ""),
    tuple[str, ...]: (texts, "A,B", ""),
}
"""parsers of lists, by the type of the field; 'none' stands for an empty list"""


def flag(name: str) -> str:
    """Return the flag of a field: ``--share-seeds`` for ``share_seeds``."""
    return f"--{name.replace('_', '-')}"


def descriptions(settings: type) -> dict[str, str]:
    """Return argparse help texts by field, from the settings' docstring (numpydoc, Attributes)."""
    helps = {}
    for names, text in re.findall(r"^(\w[\w, ]*) : .*\n((?: {4}.*\n?)+)", inspect.getdoc(settings) or "", re.M):
        plain = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", " ".join(text.split())).replace("`", "")
        helps.update(dict.fromkeys(names.split(", "), plain.replace("%", "%%")))
    return helps


def parser(study: Study) -> argparse.ArgumentParser:
    """Return a parser with a flag for every field of the settings that has a parser, and the flags of every study."""
    parts = "\n".join(f"  {part.name:<16} {part.says}" for part in study.parts)
    made = argparse.ArgumentParser(
        prog=f"python -m studies {study.name}",
        description=f"{study.says}\n\nparts:\n{parts}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    ran = made.add_argument_group("execution")
    ran.add_argument("--quick", action="store_true", help="run a sample; its values are the defaults of all parameters")
    ran.add_argument("--parts", metavar="A,B", help="run only these parts")
    ran.add_argument("--json", action="store_true", help="print the result as JSON")
    kept = "" if study.timed else "; it keeps the results of finished cells, so that an interrupted study resumes"
    ran.add_argument("--out", type=Path, help=f"folder for the results, default out/{study.name}{kept}")
    ran.add_argument("--docs", type=Path, metavar="PAGE", help="Markdown page in which to rewrite the tables of this "
                     "study (<!-- table: PART; .. -->)")  # fmt: skip
    if study.timed:
        made.set_defaults(jobs=1, dask=None, ray=None, shard=None, merge=None)
    else:
        ran.add_argument("--jobs", type=int, default=-1, help="processes on this machine; -1: one for each core")
        ran.add_argument("--dask", metavar="ADDRESS", help="Dask scheduler to use instead of --jobs: tcp://host:8786")
        ran.add_argument("--ray", metavar="ADDRESS", help="Ray cluster to use instead of --jobs: auto, or host:6379")
        ran.add_argument("--shard", metavar="I/N", help="run only every Nth cell, from the Ith, and make no tables")
        ran.add_argument("--merge", metavar="DIR,..", help="folders of shards whose results to merge")
    own = made.add_argument_group("parameters", "Defaults: those of the whole study or, with --quick, of the sample.")
    told, readers = descriptions(study.settings), {**_READERS, **study.readers}
    for name, kind in get_type_hints(study.settings).items():
        if name == "seeds":
            first, last = study.developed, study.held_out
            own.add_argument("--seeds", metavar="0..4", help=f"{told[name]} developed: seeds on which the study "
                             f"was developed, {first[0]}..{first[-1]}; held-out: seeds that decide bars, {last[0]}.."
                             f"{last[-1]} (default of the whole study)")  # fmt: skip
        elif kind in _SCALARS:
            own.add_argument(flag(name), type=kind, help=told[name])
        elif kind in readers:
            _, form, more = readers[kind]
            own.add_argument(flag(name), metavar=form, help=" ".join([told[name], more.replace("%", "%%")]).strip())
    return made


def settings_of(study: Study, given: argparse.Namespace) -> Any:
    """Return the settings for these flags. Raises ``BadInput`` and ``ClusterError``, which name the flag or field."""
    changes: dict[str, Any] = {}
    readers = {**_READERS, **study.readers}
    for name, kind in get_type_hints(study.settings).items():
        value = getattr(given, name, None)
        if value is None:
            continue
        if name == "seeds" and value in ("developed", "held-out"):
            value = tuple(study.developed if value == "developed" else study.held_out)
        elif kind not in _SCALARS:
            value = () if value == "none" else tuple(readers[kind][0](value, flag(name)))
        changes[name] = value
    return replace(study.quick if given.quick else study.settings(), **changes)


def study_main(study: Study, arguments: Sequence[str] | None = None) -> int:
    """Run a study, write its results and print them.

    Returns
    -------
    int
        Exit code: 0; 1 if a part failed, or a bar is missed on seeds that decide it; 2 for bad input or unreachable
        machines; 130 after Ctrl-C.
    """
    given = parser(study).parse_args(arguments)
    output, began = Output(as_json=given.json), time.monotonic()
    out = given.out or Path("out") / (f"{study.name}-quick" if given.quick else study.name)
    try:
        ends = handling(raise_exit_in_time, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
        with ends, progress_bar(output) as open_bar:
            settings = settings_of(study, given)
            work = Work(
                given.jobs,
                given.dask,
                given.ray,
                texts(given.parts, "--parts") if given.parts else (),
                out,
                folders(given.merge, "--merge") if given.merge else (),
                shard_of(given.shard, "--shard") if given.shard else (1, 1),
                open_bar(study.name),
            )
            if work.shard[1] > 1:
                run_cells(study, settings, work)
                output.note(f"shard {given.shard} has run; its cells are below {out}, for --merge")
                return 0
            result = run_study(study, settings, work)
            if given.docs is not None:
                page, shown = document_tables(read_text(given.docs), result)
                write_text(given.docs, page)
                output.note(f"{given.docs}: {len(shown)} tables written: {', '.join(dict.fromkeys(shown)) or 'none'}")
    except KeyboardInterrupt:
        print(f"{study.name}: stopped" + ("" if study.timed else "; the same command goes on"), file=sys.stderr)
        return EXIT_INTERRUPTED
    except Exception as error:
        code = EXIT_BAD_INPUT if isinstance(error, ClusterError) else exit_code(error)
        if code is None:
            raise
        print(f"{study.name}: {error}", file=sys.stderr)
        return code
    written = write_study(result, out)
    show_study(result, output)
    output.data(result.as_data())
    output.note(f"wrote {', '.join(path.name for path in written)} and figures/ to {out}")
    missed = [verdict.bar for verdict in result.verdicts if verdict.decided and verdict.holds is False]
    output.note(f"{time.monotonic() - began:.0f} s; bars missed: {'; '.join(missed) or 'none'}")
    return 1 if result.failed or missed else 0
