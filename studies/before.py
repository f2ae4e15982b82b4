"""What studies that are not declared yet have in common."""

import csv
import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from p4reduce.base.output import Progress
from studies.charts import MANY, save_all, title
from studies.parallel import in_parallel as spread
from studies.parallel import rarely_collecting

__all__ = ["MANY", "Claim", "in_parallel", "plain", "rarely_collecting", "save_all", "title", "write_table"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_parallel(
    work: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    jobs: int = 1,
    dask: str | None = None,
    progress: Progress | None = None,
    label: str = "",
) -> list[Result]:
    """``[work(item) for item in items]``, in this order."""
    results: dict[int, Result] = {}
    spread(work, items, results.__setitem__, jobs=jobs, dask=dask, progress=progress, label=label)
    return [results[number] for number in range(len(items))]


# What an experiment must show, checked against its own figures.


@dataclass(frozen=True)
class Claim:
    """Something that must hold."""

    text: str
    measured: str
    holds: bool


# Rows of an experiment as CSV (RFC 4180), and its result as plain data.


def write_table(path: Path, kind: type[Any], rows: Iterable[Any]) -> Path:
    """Write dataclasses of one kind, a line each under the names of their fields; None is an empty cell."""
    fields = [field.name for field in dataclasses.fields(kind)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\r\n")
        writer.writerow(fields)
        writer.writerows([_cell(getattr(row, name)) for name in fields] for row in rows)
    return path


def plain(value: Any) -> Any:
    """Dataclasses, tuples and mappings as what JSON has; no number is None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value


def _cell(value: Any) -> Any:
    return "" if value is None else value
