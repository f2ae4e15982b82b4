"""Building blocks of studies: parts with cells, rows and columns, and bars that are decided on held-out seeds."""

import dataclasses
import math
import statistics
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, dataclass_transform

from pydantic import TypeAdapter
from scipy.special import stdtrit  # the quantiles of stats.t; to import stats takes longer than most samples of studies

from p4reduce.base.errors import BadInput
from p4reduce.base.output import Progress
from p4reduce.network.jobs.network import bundled
from p4reduce.runs.parallel import Kept, code_version, in_parallel, piece_name, rarely_collecting
from p4reduce.runs.summary import provenance

# Columns: defined once, at the field of a record; used by the page, the terminal, figures and CSV.


Show = str | Callable[[Any], str]
CONFIDENCE: Final = 0.95
_LANES: Final = 256


@dataclass(frozen=True)
class Column:
    """A column: its heading, with the unit, and the format of its values (a format string, or a function)."""

    heading: str
    show: Show = "{}"

    def text(self, value: Any) -> str:
        """Return a value as text; '-' for None and NaN."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return "-"
        if isinstance(value, bool):
            return "yes" if value else "no"
        return self.show(value) if callable(self.show) else self.show.format(value)


def column(heading: str, show: Show = "{}", **default: Any) -> Any:
    """Return a field of a record that is shown in tables; fields without a column are only in the CSV file."""
    return field(metadata={"column": Column(heading, show)}, **default)


Record = TypeVar("Record")


@dataclass_transform(frozen_default=True, field_specifiers=(column, field))
def record(kind: type[Record]) -> type[Record]:
    """Make a class a frozen dataclass whose fields may be columns."""
    return dataclass(frozen=True)(kind)


def columns_of(record: type) -> dict[str, Column]:
    """Return the columns of a record by field name."""
    return {
        record_field.name: record_field.metadata["column"]
        for record_field in dataclasses.fields(record)
        if "column" in record_field.metadata
    }


def percent(digits: int = 1, *, sign: bool = False) -> Callable[[float], str]:
    """Return a function that formats a share in percent."""
    return lambda value: f"{100 * value:{'+' if sign else ''}.{digits}f} %"


def scaled(factor: float, show: str) -> Callable[[float], str]:
    """Return a function that formats a value in another unit."""
    return lambda value: show.format(factor * value)


# Points: rows that differ only in their seeds, and their means with intervals.


@dataclass(frozen=True)
class Estimate:
    """Mean over seeds with the ends of its 95 % confidence interval (Student's t), None for a single seed."""

    value: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate":
        """Return the estimate from at least one value; there is one value per seed."""
        mean, count = statistics.fmean(values), len(values)
        if count < 2:
            return cls(mean, None, None)
        half = float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2)) * statistics.stdev(values) / math.sqrt(count)
        return cls(mean, mean - half, mean + half)


Rows = Sequence[Any]


@dataclass(frozen=True)
class Measure:
    """A column of points.

    Attributes
    ----------
    name, column : str and Column
        Name in files, and column in tables.
    of : function
        Maps the rows of a seed, and the rows of the part's base in that seed, to a value, or None if there is none.
    over : function
        Combines the values of the seeds to the value of the point; only a mean has an interval.
    """

    name: str
    column: Column
    of: Callable[[Rows, Rows], float | None]
    over: Callable[[Iterable[float]], float] = statistics.fmean

    @property
    def has_interval(self) -> bool:
        """Whether the measure is a mean over seeds."""
        return self.over is statistics.fmean


def mean_of(name: str, shown: Column, source: str = "") -> Measure:
    """Return the measure that averages a field over the rows of a seed, then over seeds; None values do not count."""

    def of(rows: Rows, _base: Rows) -> float | None:
        known = [value for row in rows if (value := getattr(row, source or name)) is not None]
        return statistics.fmean(known) if known else None

    return Measure(name, shown, of)


class Point:
    """Rows with equal values of ``by``.

    Attributes
    ----------
    key : dict
        Values of ``by``, by field.
    values : dict
        Values by measure, then by seed; seeds in which the measure has no value are absent.
    """

    def __init__(self, key: dict[str, Any], groups: Mapping[int | None, tuple[Rows, Rows]], part: "Part") -> None:
        self.key = key
        self.seeds = len(groups)
        self.values: dict[str, dict[int | None, float]] = {}
        self._over = {measure.name: measure for measure in part.measures}
        for measure in part.measures:
            made = {seed: measure.of(rows, base) for seed, (rows, base) in groups.items()}
            self.values[measure.name] = {seed: value for seed, value in made.items() if value is not None}

    def __getitem__(self, name: str) -> Any:
        """Return a value of the key, or of a measure; None if the measure has no value."""
        if name in self.key:
            return self.key[name]
        values = self.values[name].values()
        return self._over[name].over(values) if values else None

    def estimate(self, name: str) -> Estimate | None:
        """Return a measure with its interval; None if it has no value, or is not a mean."""
        values = list(self.values[name].values())
        if not values or not self._over[name].has_interval:
            return None
        return Estimate.of(values)

    def is_of(self, **wanted: Any) -> bool:
        """Return whether the key has these values."""
        return all(self.key[name] == value for name, value in wanted.items())

    def as_data(self) -> dict[str, Any]:
        """Return plain data: the key, the number of seeds, measures, and the ends of their intervals."""
        data = {**self.key, "seeds": self.seeds}
        for name, measure in self._over.items():
            data[name] = self[name]
            if measure.has_interval:
                interval = self.estimate(name)
                data[f"{name}_low"] = interval and interval.low
                data[f"{name}_high"] = interval and interval.high
        return data


# Parts: cells to run, and the evaluation of their rows.


@dataclass(frozen=True)
class Part:
    """A part of a study.

    Attributes
    ----------
    name : str
        Name for ``--parts`` and of its files.
    says : str
        Heading of the part.
    cells : function
        Maps the settings to cells, the units of work of a process: records of plain data that are equal if their work
        is.
    run : function
        Module-level function from a cell to its records.
    row : type
        Record type of the lines of its table.
    by : tuple of str
        Fields of rows that identify a point.
    mean : tuple
        Columns of points: fields of rows, which are averaged, and measures.
    base : mapping
        Fields of ``by`` with the values of the base rows, with which other rows of the same seed are compared.
    brief : tuple of str
        Columns that the terminal shows; empty: all.
    also : mapping
        Other record types that a cell may return, by the name of their file.
    lists : bool
        Whether its rows are shown as a table, and are in result.json.
    missing : function
        Maps the settings to the reason why this machine cannot run the part; None: it can.
    cost : function
        Relative run time of a cell; the longest cells start first.
    """

    name: str
    says: str
    cells: Callable[[Any], Iterable[Any]]
    run: Callable[[Any], Iterable[Any]]
    row: type
    by: tuple[str, ...] = ()
    mean: tuple[str | Measure, ...] = ()
    base: Mapping[str, Any] = field(default_factory=dict)
    brief: tuple[str, ...] = ()
    also: Mapping[str, type] = field(default_factory=dict)
    lists: bool = False
    missing: Callable[[Any], str | None] = lambda _settings: None
    cost: Callable[[Any], float] = lambda _cell: 1.0

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """All measures: the columns of points except those of the key."""
        shown = columns_of(self.row)
        return tuple(mean_of(measure, shown[measure]) if isinstance(measure, str) else measure for measure in self.mean)

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The columns of points (the key, then measures), or of the rows if the part lists them."""
        shown = columns_of(self.row)
        if self.lists:
            return shown
        return {name: shown[name] for name in self.by} | {measure.name: measure.column for measure in self.measures}

    def points(self, rows: Rows) -> list[Point]:
        """Return a point for every combination of ``by``, in the order of the rows."""
        groups: dict[tuple[Any, ...], dict[int | None, list[Any]]] = {}
        for row in rows:
            key = tuple(getattr(row, name) for name in self.by)
            groups.setdefault(key, {}).setdefault(getattr(row, "seed", None), []).append(row)
        all_points = []
        for key, seeds in groups.items():
            named = dict(zip(self.by, key, strict=True))
            base = groups.get(tuple((named | dict(self.base)).values()), {}) if self.base else {}
            all_points.append(Point(named, {seed: (own, base.get(seed, ())) for seed, own in seeds.items()}, self))
        return all_points


# Bars: requirements on a study's results, and the seeds that decide them.


@dataclass(frozen=True)
class Limit:
    """A limit of a value: an upper bound, a lower bound, or a bound of its absolute value ('+-')."""

    kind: Literal["<=", ">=", "+-"]
    value: float

    def allows(self, value: float) -> bool:
        """Return whether a value is within the limit, up to rounding."""
        match self.kind:
            case "<=":
                return value <= self.value + _ROUNDING
            case ">=":
                return value >= self.value - _ROUNDING
        return abs(value) <= self.value + _ROUNDING

    def worst(self, values: Iterable[float]) -> float:
        """Return the value that violates the limit most, or is closest to it."""
        match self.kind:
            case "<=":
                return max(values)
            case ">=":
                return min(values)
        return max(values, key=abs)


_ROUNDING: Final = 1e-9


def at_most(value: float) -> Limit:
    """Return a limit that larger values violate."""
    return Limit("<=", value)


def at_least(value: float) -> Limit:
    """Return a limit that smaller values violate."""
    return Limit(">=", value)


def within(value: float) -> Limit:
    """Return a limit that values further from 0 violate."""
    return Limit("+-", value)


@dataclass(frozen=True)
class Bar:
    """A requirement on a measured value.

    Attributes
    ----------
    name : str
        Description in words.
    limit : Limit or None
        The limit; None: the value is only reported.
    values : mapping
        Values by seed; the key None is for values without a seed. A bar without values is left out.
    show : str or function
        Format of values.
    every : bool
        Whether each seed must keep to the limit; otherwise the mean must, with its whole confidence interval.
    seeds : str
        'held-out': only seeds on which the study was not developed decide. 'any': all seeds do, because the result does
        not depend on chance.
    note : str
        Text after the value.
    """

    name: str
    limit: Limit | None
    values: Mapping[int | None, float]
    show: Show = "{:.3f}"
    every: bool = False
    seeds: Literal["held-out", "any"] = "held-out"
    note: str = ""


@record
class Verdict:
    """A bar beside the measured value."""

    bar: str = column("bar")
    limit: str = column("limit")
    value: str = column("value")
    interval: str = column("95 % interval")
    seeds: str = column("seeds")
    holds: bool | None = column("holds")
    """None: the value is only reported"""
    decided: bool = True
    """False if the seeds include one on which the study was developed, or if there is only one seed"""
    values: dict[int | None, float] = field(default_factory=dict)

    @property
    def word(self) -> str:
        """The verdict as text for tables, in parentheses if it is undecided."""
        if self.holds is None:
            return ""
        word = "yes" if self.holds else "NO"
        return word if self.decided else f"({word})"

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the cells, in the order of the columns."""
        return self.bar, self.limit, self.value, self.interval, self.seeds, self.word


def judge(bar: Bar, developed: Sequence[int]) -> Verdict:
    """Decide a bar on seeds on which the study was not developed.

    A mean holds if its whole interval does; if the bar is not decided, the mean alone gives a provisional verdict. If
    each of n seeds must hold and does, the interval bounds the share of all seeds that may violate the limit: at most 1
    - 0.05^(1/n), with 95 % confidence.
    """
    values, limit = list(bar.values.values()), bar.limit
    shown = Column("", bar.show).text
    seeds = [seed for seed in bar.values if seed is not None]
    chance = bar.seeds == "held-out" and bool(seeds)
    decided = not chance or (len(seeds) > 1 and not set(seeds) & set(developed))
    estimate = Estimate.of(values)
    interval, value = "-", estimate.value
    if limit is not None and bar.every:
        value = limit.worst(values)
        holds: bool | None = all(map(limit.allows, values))
        if chance and holds and len(values) > 1:
            interval = f"breaks in <= {100 * (1 - (1 - CONFIDENCE) ** (1 / len(values))):.0f} % of seeds"
    elif estimate.low is None or estimate.high is None or not chance:
        holds = None if limit is None else limit.allows(value)
    else:
        whole = decided and limit is not None and limit.allows(estimate.low) and limit.allows(estimate.high)
        holds = None if limit is None else whole if decided else limit.allows(value)
        interval = f"{shown(estimate.low)} to {shown(estimate.high)}"
    return Verdict(
        bar.name,
        "report" if limit is None else f"{limit.kind} {shown(limit.value).lstrip('+')}",
        shown(value) + (f" ({bar.note})" if bar.note else ""),
        interval,
        _seeds_text(seeds, developed),
        holds,
        decided,
        dict(bar.values),
    )


def _seeds_text(seeds: Sequence[int], developed: Sequence[int]) -> str:
    if not seeds:
        return "-"
    runs: list[list[int]] = []
    for seed in sorted(seeds):
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    named = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}..{run[-1]}" for run in runs)
    inside = sum(seed in developed for seed in seeds)
    return f"{named} {'dev' if inside == len(seeds) else 'mixed' if inside else 'held out'}"


# A study, and its results.


Text = Sequence[str]
Table = tuple[str, Text, Sequence[Text]]
"""title, headings, rows"""


@dataclass(frozen=True)
class Study:
    """The declaration of a study.

    Attributes
    ----------
    name, title, says : str
        Name of its files; title of its page; description for the help text.
    settings, quick : type and object
        Type of the settings, whose defaults are the whole study; settings of the sample. They have ``seeds``.
    parts : tuple of Part
        The parts in the order of the page.
    developed, held_out : sequence of int
        Seeds on which the study was developed, and seeds that decide its bars.
    bars : function
        Maps the result to bars.
    charts : tuple
        Charts and drawings of :mod:`studies.pages`.
    lead : function
        Maps the result to the first paragraph of the page.
    derive : function
        Called with the settings and all records, which it may change, before points are made from them.
    tables : function
        Maps the result to further tables, which come before those of the parts.
    files : function
        Maps the result to the texts of further files by name; the page shows SVG files.
    more : function
        Maps the result to further data for result.json.
    readers : mapping
        Parsers of flags by the field's type, in addition to numbers, texts and lists of them: a function of the text
        and the flag, the form of the value, and an addition to its help.
    timed : bool
        Whether cells measure wall-clock time: they run one at a time in this process, and are not kept.
    """

    name: str
    title: str
    says: str
    settings: type
    quick: Any
    parts: tuple[Part, ...]
    developed: Sequence[int]
    held_out: Sequence[int]
    bars: Callable[["StudyResult"], Iterable[Bar]]
    charts: tuple[Any, ...] = ()
    lead: Callable[["StudyResult"], str] = lambda _result: ""
    derive: Callable[[Any, dict[str, list[Any]]], None] = lambda _settings, _records: None
    tables: Callable[["StudyResult"], Iterable[Table]] = lambda _result: ()
    files: Callable[["StudyResult"], dict[str, str]] = lambda _result: {}
    more: Callable[["StudyResult"], dict[str, Any]] = lambda _result: {}
    readers: Mapping[Any, tuple[Callable[[str, str], Any], str, str]] = field(default_factory=dict)
    timed: bool = False

    def chosen(self, names: Sequence[str]) -> tuple[Part, ...]:
        """Return parts by their names, all of them for an empty list. Raises ``BadInput``."""
        known = [part.name for part in self.parts]
        if unknown := [name for name in names if name not in known]:
            raise BadInput(f"--parts: {unknown[0]!r} is none of {', '.join(known)}")
        return tuple(part for part in self.parts if not names or part.name in names)


@dataclass(frozen=True)
class StudyResult:
    """The results of a study, from which its page and figures are made.

    Attributes
    ----------
    records : mapping
        Rows by part, and other records by the name of their file.
    points : mapping
        Points by part, for parts that have points.
    skipped : mapping
        Reasons why parts were not run, by part.
    failed : mapping
        Errors of parts that failed, by part.
    """

    study: Study
    settings: Any
    provenance: dict[str, str]
    records: Mapping[str, Rows]
    points: Mapping[str, Sequence[Point]]
    skipped: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)

    def rows(self, name: str, **wanted: Any) -> list[Any]:
        """Return records of a part, or of another file, with these values; empty if the part was not run."""
        own = self.records.get(name, ())
        return [row for row in own if all(getattr(row, key) == value for key, value in wanted.items())]

    def of(self, part: str, **wanted: Any) -> list[Point]:
        """Return points of a part with these values; empty if the part was not run."""
        return [point for point in self.points.get(part, ()) if point.is_of(**wanted)]

    def values(self, part: str, measure: str, **wanted: Any) -> dict[int | None, float]:
        """Return a measure by seed, averaged over the points with these values; empty if the part was not run."""
        seed_values: dict[int | None, list[float]] = {}
        for point in self.of(part, **wanted):
            for seed, value in point.values[measure].items():
                seed_values.setdefault(seed, []).append(value)
        return {seed: statistics.fmean(values) for seed, values in seed_values.items()}

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Verdicts on all bars that have values."""
        return tuple(judge(bar, self.study.developed) for bar in self.study.bars(self) if bar.values)

    def as_data(self) -> dict[str, Any]:
        """Return plain data for result.json: everything but the rows."""
        listed = [part.name for part in self.study.parts if part.lists and part.name in self.records]
        data = {
            "study": self.study.name,
            "settings": self.settings,
            "provenance": self.provenance,
            "points": {name: [point.as_data() for point in points] for name, points in self.points.items()},
            "bars": self.verdicts,
            **({"rows": {name: self.records[name] for name in listed}} if listed else {}),
            **({"skipped": self.skipped} if self.skipped else {}),
            **({"failed": self.failed} if self.failed else {}),
            **self.study.more(self),
        }
        made: dict[str, Any] = plain(data)
        return made


def plain(value: Any) -> Any:
    """Convert dataclasses, tuples and mappings to JSON values; NaN becomes None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            record_field.name: plain(getattr(value, record_field.name)) for record_field in dataclasses.fields(value)
        }
    if isinstance(value, tuple | list):
        return [plain(member) for member in value]
    if isinstance(value, dict):
        return {str(key): plain(member) for key, member in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value


# Finished cells are kept, so that a killed study can continue and several machines can share one.


class KeptCells:
    """Stores finished cells of a study in ``cells/`` of its results (:class:`~p4reduce.runs.parallel.Kept`)."""

    def __init__(self, out: Path, others: Sequence[Path] = ()) -> None:
        self._kept = Kept(out, code_version(Path(__file__).parent), others)

    def get(self, part: Part, cell: Any) -> list[Any] | None:
        """Return the records of a cell; None if it has not run, or its file cannot be read."""

        def read(data: Any) -> list[Any]:
            return [_adapter(_kinds(part)[kind]).validate_python(values) for kind, values in data["records"]]

        return self._kept.get(piece_name(part.name, cell), read)

    def put(self, part: Part, cell: Any, records: Rows) -> None:
        """Store the records of a finished cell atomically."""
        kinds = _kinds(part)
        data = [(kinds.index(type(entry)), dataclasses.asdict(entry)) for entry in records]
        self._kept.put(piece_name(part.name, cell), {"cell": repr(cell), "records": data})


def _kinds(part: Part) -> list[type]:
    return [part.row, *part.also.values()]


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


# Running.


@dataclass(frozen=True)
class Work:
    """Options of a study's run.

    Attributes
    ----------
    jobs, dask, ray : int and str or None
        Options of :func:`~p4reduce.runs.parallel.in_parallel`.
    parts : sequence of str
        Names of the parts to run; empty: all.
    out : Path or None
        Folder of results, in which cells are kept; None: cells are not kept.
    merged : sequence of Path
        Further folders of results whose cells are reused.
    shard : tuple of int
        Which cells to run: (1, 3) means every third cell, from the first one.
    progress : function or None
        Called as cells finish.
    """

    jobs: int = 1
    dask: str | None = None
    ray: str | None = None
    parts: Sequence[str] = ()
    out: Path | None = None
    merged: Sequence[Path] = ()
    shard: tuple[int, int] = (1, 1)
    progress: Progress | None = None


HERE: Final = Work()
"""run in this process, and keep no cells"""


def run_cells(study: Study, settings: Any, work: Work, failed: dict[str, str] | None = None) -> dict[str, list[Any]]:
    """Run the cells of a study, except those that are kept.

    The cells of a timed study are not kept, so the others go on if one of them fails: its part has no records, and
    ``failed`` gets the error by part.

    Returns
    -------
    dict
        Records by part, and other records by the name of their file, in the order of the cells.
    """
    parts = study.chosen(work.parts)
    every = [(part, cell) for part in parts if part.missing(settings) is None for cell in part.cells(settings)]
    place, count = work.shard
    cells = every[place - 1 :: count]
    kept = KeptCells(work.out, work.merged) if work.out is not None and not study.timed else None
    by_cell: dict[int, Rows] = {}
    for number, (part, cell) in enumerate(cells):
        if kept is not None and (known := kept.get(part, cell)) is not None:
            by_cell[number] = known
    waiting = [number for number in range(len(cells)) if number not in by_cell]
    if not study.timed:
        waiting.sort(key=lambda number: -cells[number][0].cost(cells[number][1]))

    def done(turn: int, records: Rows | Exception) -> None:
        if isinstance(records, Exception):
            if failed is None:
                raise records
            traceback.print_exception(records)
            failed[cells[waiting[turn]][0].name] = f"{type(records).__name__}: {records}"
            records = ()
        by_cell[waiting[turn]] = records
        if kept is not None:
            kept.put(*cells[waiting[turn]], records)

    todo = [(part.run, cell) for part, cell in (cells[number] for number in waiting)]
    if study.timed:
        in_parallel(_run_timed, todo, done, progress=work.progress, label="cells")
    else:
        in_parallel(
            _run, todo, done, jobs=work.jobs, dask=work.dask, ray=work.ray, progress=work.progress, label="cells"
        )
    records: dict[str, list[Any]] = {name: [] for part in parts for name in (part.name, *part.also)}
    for number, (part, _) in enumerate(cells):
        if failed and part.name in failed:
            continue
        names = [part.name, *part.also]
        for row in by_cell[number]:
            records[names[_kinds(part).index(type(row))]].append(row)
    return records


def run_study(study: Study, settings: Any, work: Work = HERE) -> StudyResult:
    """Run a study; the same settings give the same result on every machine, however the cells are distributed."""
    failed: dict[str, str] = {}
    records = run_cells(study, settings, work, failed)
    study.derive(settings, records)
    points = {part.name: part.points(records[part.name]) for part in study.chosen(work.parts) if part.by}
    lanes = getattr(settings, "lanes", _LANES)
    origin = provenance(bundled(lanes if isinstance(lanes, int) else _LANES), settings.seeds[0])
    reasons = {part.name: reason for part in study.chosen(work.parts) if (reason := part.missing(settings)) is not None}
    return StudyResult(study, settings, origin, records, points, reasons, failed)


def _run_timed(item: tuple[Callable[[Any], Iterable[Any]], Any]) -> list[Any] | Exception:
    run, cell = item
    try:
        return list(run(cell))
    except Exception as error:
        return error


def _run(item: tuple[Callable[[Any], Iterable[Any]], Any]) -> list[Any]:
    run, cell = item
    with rarely_collecting():
        return list(run(cell))


def by_seed(combine: Callable[..., float], *values: Mapping[int | None, float]) -> dict[int | None, float]:
    """Combine values of the same seed; empty if one of the mappings is."""
    common = [seed for seed in values[0] if all(seed in measured for measured in values)] if values else []
    return {seed: combine(*(measured[seed] for measured in values)) for seed in common}


def by_field(rows: Iterable[Any], *names: str) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    """Group rows by equal values of these fields, in their order."""
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        groups.setdefault(tuple(getattr(row, name) for name in names), []).append(row)
    yield from groups.items()
