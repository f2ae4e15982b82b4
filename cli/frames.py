"""Results as pandas' tables, and as Parquet: ``p4reduce.load("out/compare")``; needs the extra ``pandas``."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from p4reduce.base.html import table
from p4reduce.cli.failures import BadInput
from p4reduce.cli.files import RESULT, read_results, rows_of
from p4reduce.cli.summary import table_of

if TYPE_CHECKING:
    import pandas as pd

    from p4reduce.runs.result import RunResult

SWEEP: Final = "sweep.csv"
NEEDS: Final = "pip install 'p4reduce[pandas]'"


class MissingPackageError(ImportError):
    """pandas, or pyarrow, is not installed."""


@dataclass(frozen=True)
class Results:
    """What a folder of results holds.

    Attributes
    ----------
    results : tuple of RunResult
        The runs as they are in result.json.
    tables : mapping
        Rows by table, in raw units: ``runs``, ``links``, ``collectives``, after a training ``training``, of a sweep
        ``sweep``; the columns of the CSV file of that name. As pandas' tables they are attributes: ``results.links``.
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
        """Write ``<table>.parquet`` for each table; returns the paths. Raises ``MissingPackageError``."""
        _need("pyarrow")
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
    """The results in a folder that ``--out`` named, or of one file (result.json, sweep.csv).

    Raises ``ValueError`` where there are none, which names the file.
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
    """Whether a path is a sweep's CSV file, or a folder with one and without results."""
    return path.suffix == ".csv" or ((path / SWEEP).is_file() and not (path / RESULT).is_file())


def frame(rows: Sequence[Mapping[str, Any]]) -> "pd.DataFrame":
    """Rows as pandas' table. Raises ``MissingPackageError``."""
    _need("pandas")
    import pandas as pd  # noqa: PLC0415  (the extra)

    return pd.DataFrame(list(rows))


def read_sweep(path: Path) -> list[dict[str, Any]]:
    """The rows of a sweep's CSV file: numbers as numbers, empty cells as None. Raises ``BadInput``."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [{name: _cell(text) for name, text in row.items()} for row in csv.DictReader(file)]
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


def _need(package: str) -> None:
    import importlib.util  # noqa: PLC0415

    if importlib.util.find_spec(package) is None:
        raise MissingPackageError(f"{package} is not installed: {NEEDS}")
