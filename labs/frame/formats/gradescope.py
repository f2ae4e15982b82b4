"""Gradescope's ``results.json``: https://gradescope-autograders.readthedocs.io/en/latest/specs/."""

from __future__ import annotations

import json
from typing import Any

from p4reduce.labs.frame.report import Check, Report


def gradescope(report: Report) -> str:
    """One test for each check, numbered within its part."""
    counts: dict[str, int] = {}
    tests: list[dict[str, Any]] = []
    for check in report.checks:
        counts[check.subject] = counts.get(check.subject, 0) + 1
        number = f"{report.parts.index(check.subject) + 1}.{counts[check.subject]}"
        tests.append(
            {
                "name": f"{check.subject}: {check.title}",
                "number": number,
                "score": check.scored,
                "max_score": check.points,
                "status": "passed" if check.passed else "failed",
                "output": said_of(check),
                "visibility": "visible",
            }
        )
    found = {"score": report.points, "stdout_visibility": "hidden", "tests": tests}
    if of_another := [note for note in report.notes if "lab.yaml" in note]:  # the others are for teachers
        found["output"] = "\n".join(of_another)
    return json.dumps(found, indent=1) + "\n"


def said_of(check: Check) -> str:
    """Why a check failed or was not tried; empty where it passed."""
    if check.finding is not None:
        return check.finding.text
    return "not tried: something before it failed" if check.passed is None else ""
