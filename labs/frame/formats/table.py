"""CSV: one row for each check of a report, or for each student of a class."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from p4reduce.labs.frame.formats.gradescope import said_of
from p4reduce.labs.frame.report import Report

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def checks_csv(report: Report) -> str:
    """One row for each check."""
    rows = [
        [report.lab, report.student, c.subject, c.title, _state(c.passed), c.scored, c.points, said_of(c)]
        for c in report.checks
    ]
    return as_csv(("lab", "student", "part", "check", "state", "points", "max_points", "said"), rows)


def as_csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; a text that a spreadsheet would take for a formula gets an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        writer.writerow([_harmless(cell) for cell in row])
    return out.getvalue()


def class_csv(parts: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """One row for each student."""
    head = ("student", "lab", "points", "max_points", *parts, "passed", "first_failure", "same_as", "note", "digest")
    return as_csv(head, [[row.get(name, "") for name in head] for row in rows])


def _harmless(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def _state(passed: bool | None) -> str:
    return {True: "passed", False: "failed", None: "not tried"}[passed]
