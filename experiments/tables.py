"""Rows of an experiment as CSV (RFC 4180), and its result as plain data."""

import csv
import dataclasses
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any


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
