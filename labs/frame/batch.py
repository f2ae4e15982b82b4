"""A folder of submissions, graded beside each other."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from joblib import Parallel, delayed

from p4reduce.labs.frame.grading import grade
from p4reduce.labs.frame.report import LabError, Report

Told = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Graded:
    """One submission.

    Attributes:
        student: the name of its folder.
        report: None: it could not be graded.
        problem: why not.
    """

    student: str
    report: Report | None
    problem: str = ""
    same_as: tuple[str, ...] = ()

    def row(self) -> dict[str, object]:
        """For the table of a class."""
        report = self.report
        if report is None:
            return {"student": self.student, "points": 0, "passed": "no", "first_failure": self.problem}
        first = next((c.finding.said for c in report.checks if c.finding is not None), "")
        parts = {name: report.part(name)[0] for name in report.parts}
        return {
            "student": self.student,
            "lab": report.lab,
            "points": report.points,
            "max_points": report.most,
            **parts,
            "passed": "yes" if report.passed else "no",
            "first_failure": first,
            "same_as": " ".join(self.same_as),
            "note": "; ".join(report.notes),
            "digest": report.digest,
        }


def submissions(folder: Path) -> list[Path]:
    """A folder for each student, named as the student. Raises LabError."""
    if not folder.is_dir():
        raise LabError(f"{folder}: there is no such folder; it holds one folder for each student")
    found = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not found:
        raise LabError(f"{folder}: holds no folder; it holds one for each student, named as the student")
    return found


def grade_all(
    folder: Path, *, lab: str | None, seed: bytes, only: Sequence[str], jobs: int, told: Told
) -> list[Graded]:
    """Every submission, in the order of the students' names; whatever one of them does, the others are graded.

    Args:
        folder: holds a folder for each student.
        lab: by number or name; None: as each folder says.
        seed: of the inputs that are tried.
        only: parts; none: all.
        jobs: processes.
        told: called with (student, done, of how many).
    """
    folders = submissions(folder)
    run = Parallel(n_jobs=max(1, min(jobs, len(folders))), return_as="generator_unordered", batch_size=1)
    found: dict[str, Graded] = {}
    for graded in run(delayed(_graded)(path, lab, seed, tuple(only)) for path in folders):
        found[graded.student] = graded
        told(graded.student, len(found), len(folders))
    return _compared([found[path.name] for path in folders])


def _graded(path: Path, lab: str | None, seed: bytes, only: tuple[str, ...]) -> Graded:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        report = grade(path, lab=lab, student=path.name, seed=seed, only=only, follow=False)
    except LabError as error:
        return Graded(path.name, None, str(error))
    except Exception as error:  # a bug of a grader costs one student's grade, which is told, not a night
        return Graded(path.name, None, f"the grader failed: {type(error).__name__}: {error}")
    return Graded(path.name, report)


def _compared(all_of: list[Graded]) -> list[Graded]:
    """Who handed in the same."""
    by_digest: dict[str, list[str]] = defaultdict(list)
    for graded in all_of:
        if graded.report is not None and graded.report.digest:
            by_digest[graded.report.digest].append(graded.student)
    found = []
    for graded in all_of:
        alike = by_digest[graded.report.digest] if graded.report is not None and graded.report.digest else []
        others = tuple(name for name in alike if name != graded.student)
        found.append(Graded(graded.student, graded.report, graded.problem, others))
    return found
