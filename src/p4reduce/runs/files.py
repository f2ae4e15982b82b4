"""Files of results: result.json, and CSV files with the provenance in every row."""

import csv
import io
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from p4reduce.base.errors import BadInput, require
from p4reduce.base.output import Output, bytes_text, rate_text, share_text, small_text, time_text
from p4reduce.base.records import RecordError, from_plain, to_file
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.perf import PerfRow
from p4reduce.runs.result import RunResult, TrainingResult
from p4switch.base.files import check_target, read_text, whole, write_text
from p4switch.base.values import PS_PER_US, table

if TYPE_CHECKING:
    import pandas as pd


# A run in one row: raw figures for CSV and JSON, and the printed table.


def largest_error(result: RunResult) -> tuple[float | None, float | None]:
    """Return the largest quantization error of the run, and its bound."""
    if result.training is not None and result.training.max_error is not None:
        return result.training.max_error, result.training.error_bound
    measured = [
        (record.max_error, record.error_bound) for record in result.network.collectives if record.max_error is not None
    ]
    return max(measured, key=lambda pair: pair[0]) if measured else (None, None)


def faults_of(result: RunResult) -> list[str]:
    """Return the reasons why a finished run must not be trusted; empty if it may."""
    network = result.network
    faults = []
    if network.prediction_differences:
        first = network.prediction_differences[0]
        more = len(network.prediction_differences) - 1
        faults.append(f"bytes counted differ from the prediction: {first}{f' (and {more} more)' if more else ''}")
    saturated = sum(record.saturated for record in network.collectives if record.failed is None)
    if saturated:
        faults.append(f"{saturated} chunks saturated: their sums are not exact; choose a smaller --scale")
    error, bound = largest_error(result)
    if error is not None and bound is not None and error > bound and not saturated:
        faults.append(f"quantization error {error:.3g} is above its bound {bound:.3g}")
    return faults


COLUMNS: Final = (
    "topology", "plan", "workers", "model", "collective", "elements", "lanes", "rate", "seed", "loss", "duplicate",
    "reorder", "corrupt", "collectives", "communication_us", "bound_us", "ratio_to_bound", "bound_link",
    "total_bytes", "busiest_bytes", "busiest_link", "bytes_per_iteration", "window", "slots", "slots_limited",
    "resends", "saturated", "max_error", "error_bound", "test_accuracy", "baseline_accuracy", "target_accuracy",
    "time_to_target_us", "prediction_differences", "result_sha256", "commit", "p4_json_sha256",
)  # fmt: skip
"""Columns of every run."""
FLOW_COLUMNS: Final = ("time", "model_error_mean", "model_error_worst")
"""additional columns for runs in the flow model"""
LOSSY_COLUMNS: Final = ("loss_bound_us", "ratio_to_loss_bound")
"""additional columns for runs whose links lose frames"""


def summarize(result: RunResult) -> dict[str, Any]:
    """Return the row of a run, by column: bytes, microseconds of virtual time, shares of 1.

    All runs have the same columns; those in real time, in the flow model, or with losses have some more.
    """
    network, training, settings = result.network, result.training, result.experiment
    faults = settings.get("faults") or {}
    error, bound = largest_error(result)
    to_target = training.time_to_target_s if training else None
    row: dict[str, Any] = {
        "topology": network.topology,
        "plan": network.plan,
        "workers": network.workers,
        "model": settings["model"],
        "collective": settings["collective"],
        "elements": network.elements,
        "lanes": network.lanes,
        "rate": settings.get("rate"),
        "seed": settings["seed"],
        "loss": faults.get("loss", 0.0),
        "duplicate": faults.get("duplicate", 0.0),
        "reorder": faults.get("reorder", 0.0),
        "corrupt": faults.get("corrupt", 0.0),
        "collectives": len(network.collectives),
        "communication_us": network.communication_ps / PS_PER_US,
        "bound_us": network.bound_ps / PS_PER_US,
        "ratio_to_bound": network.ratio_to_bound,
        "bound_link": network.bound_link,
        "total_bytes": network.total_bytes,
        "busiest_bytes": network.busiest_bytes,
        "busiest_link": network.busiest_link,
        "bytes_per_iteration": network.bytes_per_iteration,
        "window": network.window,
        "slots": network.slots,
        "slots_limited": network.slots_limited,
        "resends": sum(record.resends for record in network.collectives),
        "saturated": sum(record.saturated for record in network.collectives),
        "max_error": error,
        "error_bound": bound,
        "test_accuracy": training.test_accuracy if training else None,
        "baseline_accuracy": training.baseline_accuracy if training else None,
        "target_accuracy": training.target_accuracy if training else None,
        "time_to_target_us": None if to_target is None else to_target * 1e6,
        "prediction_differences": len(network.prediction_differences),
        "result_sha256": network.result_sha256,
        "commit": result.provenance.get("commit", "-"),
        "p4_json_sha256": result.provenance.get("p4_json_sha256", "-"),
    }
    if network.loss_bound_ps is not None:
        row |= dict(zip(LOSSY_COLUMNS, (network.loss_bound_ps / PS_PER_US, network.ratio_to_loss_bound), strict=True))
    if result.flow is not None:
        of_model = dict(zip(FLOW_COLUMNS, ("flow", result.flow.mean, result.flow.worst), strict=True))
        return {**row, **of_model}
    if result.real is None:
        return row
    real = result.real
    return {
        **row,
        "target": real.target,
        "links": real.links,
        "goodput_bps": real.goodput_bps,
        "packets_per_s": real.packets_per_s,
        "lost": real.lost,
        "kernel_drops": real.kernel_drops,
        **{f"cpu_{name}_s": used for name, used in real.cpu_s.items()},
    }


def print_table(output: Output, results: Sequence[RunResult], title: str | None = None) -> None:
    """Print a table with a line for each run, without columns that are empty in all runs."""
    names, rows = table_of(results)
    output.table(names, rows, title=title)


def print_real(output: Output, results: Sequence[RunResult]) -> None:
    """Print the additional figures of runs in real time, and the error of the flow model."""
    if results[0].flow is not None:
        output.line(str(results[0].flow))
    rows = []
    for result in results:
        real = result.real
        if real is None:
            continue
        windows = [worker["window_mean"] for worker in real.workers.values()]
        cells = [result.network.plan, f"{real.target}, {real.links}", real.shaping, rate_text(real.goodput_bps)]
        cells += [f"{real.packets_per_s:,.0f}", f"{real.cpu_s['switches'] + real.cpu_s['session']:.2f} s"]
        cells += [f"{real.cpu_s['workers']:.2f} s", f"{real.lost:,}", f"{real.kernel_drops:,}"]
        rows.append([*cells, f"{min(windows)} to {max(windows)} of {result.network.window}"])
    if rows:
        names = ["plan", "ran on", "links shaped by", "goodput", "packets/s", "CPU switches", "CPU workers"]
        output.table([*names, "lost on purpose", "by the kernel", "mean window"], rows)
    note_clocks(output, results)
    for result in results:
        if result.real is not None and result.real.lost_switches:
            gone = ", ".join(result.real.lost_switches)
            output.note(
                f"{result.network.plan}: {gone} gave no counters, so frames were not compared with the prediction"
            )


def note_clocks(output: Output, results: Sequence[RunResult]) -> None:
    """Print the errors of the clocks of several machines."""
    for result in results:
        if result.real is not None and result.real.machines:
            errors = ", ".join(f"{name} {clock.error_ns / 1e3:,.0f} us" for name, clock in result.real.machines.items())
            output.note(f"{result.network.plan}: times are by clocks that were compared to within: {errors}")


def table_of(results: Sequence[RunResult]) -> tuple[list[str], list[list[str]]]:
    """Return the table of :func:`print_table` as text: column names and rows."""
    learned = [training for result in results if (training := _learned(result)) is not None]
    shares = {training.target_accuracy or 0.0 for training in learned}
    share = shares.pop() if len(shares) == 1 else None
    target = f"time to {100 * share:.0f} %" if share else "time to target"
    rows = [_cells(result, target) for result in results]
    names = [name for name in rows[0] if any(row[name] != "-" for row in rows)]
    return names, [[row[name] for name in names] for row in rows]


def _learned(result: RunResult) -> TrainingResult | None:
    """Return the training if it measured accuracy, else None; a script may have recorded other figures."""
    training = result.training
    return None if training is None or training.test_accuracy is None else training


def _cells(result: RunResult, target: str) -> dict[str, str]:
    network, training = result.network, _learned(result)
    error, bound = largest_error(result)
    to_target = training.time_to_target_s if training else None
    lossy = network.ratio_to_loss_bound
    return {
        "plan": network.plan,
        "network time / iteration": time_text(network.communication_ps),
        target: "-" if training is None else "never" if to_target is None else time_text(to_target * 1e12),
        "bytes on all links": bytes_text(network.total_bytes),
        "on the busiest link": bytes_text(network.busiest_bytes),
        "time / lower bound": f"{network.ratio_to_bound:.3f}",
        "time / bound with losses": "-" if lossy is None else f"{lossy:.3f}",
        "bound by": network.bound_link,
        "test accuracy": share_text(training.test_accuracy if training else None),
        "largest error": small_text(error),
        "error bound": small_text(bound),
        "limited by": "slots" if network.slots_limited else "-",
    }


RESULT: Final = "result.json"
PROVENANCE: Final = ("commit", "p4_json_sha256", "seed")
_FILE_LIMIT: Final = 1 << 30
"""bytes; far above any result"""


def claim(*, out: Path | None = None, pcap: Path | None = None) -> None:
    """Check that results can be written before a run that may take long; raise ``BadInput`` that names the flag."""
    for flag, path in (("--out", out), ("--pcap", pcap)):
        try:
            if path is None:
                continue
            if flag == "--out":
                path.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=path):
                    continue
            check_target(path)
            path.open("wb").close()
        except OSError as error:
            raise BadInput(f"{flag}: {path}: {error.strerror}") from None


def write_results(folder: Path, results: Sequence[RunResult]) -> list[Path]:
    """Write result.json, runs.csv, links.csv, collectives.csv and, after training, training.csv; return their paths.

    One run is written as a ``RunResult``, several as a list under ``runs``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = [write_text(folder / RESULT, results_json(results))]
    return written + [write_rows(folder / f"{name}.csv", rows) for name, rows in rows_of(results).items()]


def rows_of(results: Sequence[RunResult]) -> dict[str, list[dict[str, Any]]]:
    """Return results as rows by table: runs, links, collectives and, after training, training."""
    tables = {
        "runs": [summarize(result) for result in results],
        "links": _rows(results, lambda result: result.network.links),
        "collectives": _rows(results, lambda result: result.network.collectives),
    }
    if any(result.training for result in results):
        tables["training"] = _rows(results, lambda result: result.training.points if result.training else ())
    return tables


def results_json(results: Sequence[RunResult]) -> str:
    """Return stable JSON of one run or of several: the same runs give the same bytes."""
    if len(results) == 1:
        return to_file(results[0])
    return to_file({"runs": list(results)}, dict[str, list[RunResult]])


def read_results(path: Path) -> list[RunResult]:
    """Return the runs of a result file, or of the result.json in a folder. Raises ``BadInput``."""
    if path.is_dir():
        path = path / RESULT
    try:
        if path.stat().st_size > _FILE_LIMIT:
            raise BadInput(f"{path}: larger than {_FILE_LIMIT} bytes; this is no result file")
        text = read_text(path)
        data = json.loads(text)
        runs = data["runs"] if isinstance(data, dict) and "runs" in data else [data]
        results = [from_plain(RunResult, run, f"{path}: not a result file of p4reduce") for run in runs]
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except RecordError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise BadInput(f"{path}: not a result file of p4reduce: {error}") from None
    if not results:
        raise BadInput(f"{path}: there are no runs in it")
    return results


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write a CSV file (RFC 4180, UTF-8), empty without rows; return its path."""
    with whole(path) as aside, aside.open("w", newline="", encoding="utf-8") as file:
        if rows:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\r\n")
            writer.writeheader()
            writer.writerows(rows)
    return path


def _rows(results: Sequence[RunResult], parts: Any) -> list[dict[str, Any]]:
    """Return a row for each part of each run: the run's number and plan, the part's fields, provenance."""
    rows = []
    for number, result in enumerate(results):
        provenance = {name: result.provenance.get(name, "-") for name in PROVENANCE}
        items: Iterable[Any] = parts(result)
        rows += [{"run": number, "plan": result.network.plan, **asdict(item), **provenance} for item in items]
    return rows


# Results as pandas tables, and as Parquet: ``p4reduce.load("out/compare")``; needs the extra ``pandas``.


SWEEP: Final = "sweep.csv"


@dataclass(frozen=True)
class Results:
    """The contents of a folder of results.

    Attributes
    ----------
    results : tuple of RunResult
        The runs as they are in result.json.
    tables : mapping
        Rows by table, in raw units: ``runs``, ``links``, ``collectives``, after a training ``training``, of a sweep
        ``sweep``; the columns of the CSV file of that name. As pandas tables they are attributes: ``results.links``.
    """

    results: "tuple[RunResult, ...]"
    tables: Mapping[str, Sequence[Mapping[str, Any]]]

    def __getattr__(self, name: str) -> "pd.DataFrame":
        if name.startswith("_") or name not in self.tables:
            raise AttributeError(f"no table {name!r}; there are {', '.join(self.tables)}")
        return frame(self.tables[name])

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.tables]

    def to_parquet(self, folder: str | Path) -> list[Path]:
        """Write ``<table>.parquet`` for each table; return the paths. Raises ``MissingPackageError``."""
        require("pyarrow", "pandas")
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, rows in self.tables.items():
            paths.append(folder / f"{name}.parquet")
            frame(rows).to_parquet(paths[-1], engine="pyarrow", index=False)
        return paths

    def _repr_html_(self) -> str:
        if self.results:
            return table(f"{len(self.results)} runs", *table_of(self.results))
        rows = self.tables[SWEEP.removesuffix(".csv")]
        return table(f"a sweep of {len(rows)} runs", list(rows[0]), ([*row.values()] for row in rows))


def load(path: str | Path) -> Results:
    """Return the results in a folder that ``--out`` named, or of one file (result.json, sweep.csv).

    Raises ``ValueError`` that names the file if there are none.
    """
    path = Path(path)
    file = path / (SWEEP if is_sweep(path) else RESULT) if path.is_dir() else path
    try:
        if file.suffix == ".csv":
            return Results((), {"sweep": read_sweep(file)})
        results = read_results(file)
    except BadInput as error:
        raise ValueError(str(error)) from None
    return Results(tuple(results), rows_of(results))


def is_sweep(path: Path) -> bool:
    """Return whether a path is a sweep's CSV file, or a folder with one and without results."""
    return path.suffix == ".csv" or ((path / SWEEP).is_file() and not (path / RESULT).is_file())


def frame(rows: Sequence[Mapping[str, Any]]) -> "pd.DataFrame":
    """Return rows as a pandas table. Raises ``MissingPackageError``."""
    require("pandas", "pandas")
    import pandas as pd  # noqa: PLC0415  (the extra)

    return pd.DataFrame(list(rows))


def read_sweep(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a sweep's CSV file: numbers as numbers, empty cells as None. Raises ``BadInput``."""
    try:
        lines = io.StringIO(read_text(path))
        rows = [{name: _cell(text) for name, text in row.items()} for row in csv.DictReader(lines)]
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except (ValueError, csv.Error, AttributeError) as error:
        raise BadInput(f"{path}: not a file of 'p4reduce sweep': {error}") from None
    needed = ("plan", "elements", "communication_us", "ratio_to_bound", "error")
    if not rows:
        raise BadInput(f"{path}: not a file of 'p4reduce sweep': it has no rows")
    missing = [name for name in needed if name not in rows[0]]
    if missing:
        raise BadInput(f"{path}: not a file of 'p4reduce sweep': column {missing[0]} is missing")
    return rows


def _cell(text: str) -> Any:
    if text == "":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


# Files of ``p4reduce perf``: every row as CSV, and a figure of bus bandwidth over size.


NUMBERS: Final = ("time_us", "algbw", "busbw", "wrong")


def write_perf(folder: Path, rows: Sequence[PerfRow], collective: str, experiment: Experiment) -> list[Path]:
    """Write perf.csv and perf.svg; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    table = [_flat(row, collective, experiment) for row in rows]
    return [write_rows(folder / "perf.csv", table), write_text(folder / "perf.svg", _figure(rows, collective))]


def _flat(row: PerfRow, collective: str, experiment: Experiment) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "collective": collective,
        "engine": row.engine,
        "topology": experiment.topology,
        "rate": experiment.rate,
        "time": experiment.time,
        "size": row.size,
        "count": row.count,
        "type": row.type,
        "redop": row.redop,
        "root": row.root,
    }
    for name, figures in (("out_of_place", row.out_of_place), ("in_place", row.in_place)):
        columns |= {f"{name}_{number}": getattr(figures, number, None) for number in NUMBERS}
    return columns


def _figure(rows: Sequence[PerfRow], collective: str) -> str:
    require("matplotlib", "figures")
    import matplotlib as mpl  # noqa: PLC0415  (slow to import)
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context({"svg.hashsalt": "p4reduce", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7, 4.2), layout="constrained")
        axes = figure.subplots()
        for engine in dict.fromkeys(row.engine for row in rows):
            mine = [(row.size, row.in_place or row.out_of_place) for row in rows if row.engine == engine]
            points = [(size, figures.busbw) for size, figures in mine if figures is not None]
            axes.plot(*zip(*points, strict=True), marker="o", label=engine)
        axes.set_xscale("log", base=2)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("size (bytes)")
        axes.set_ylabel("bus bandwidth (GB/s)")
        axes.set_title(collective)
        axes.grid(alpha=0.3)
        axes.legend()
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
