"""Grading one folder."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from p4reduce.labs import catalogue
from p4reduce.labs.frame.digest import digest
from p4reduce.labs.frame.draws import EXAMPLE, PRACTICE, hidden, personal
from p4reduce.labs.frame.folders import answers_folder, checked_student, lab_of, note_of, student_of
from p4reduce.labs.frame.lab import Lab, Task
from p4reduce.labs.frame.report import Check, Finding, LabError, Report, shared_out
from p4reduce.labs.sandbox.intake import Intake, taken_in


def grade(
    folder: Path,
    *,
    lab: str | None = None,
    student: str | None = None,
    seed: bytes = PRACTICE,
    only: Sequence[str] = (),
    follow: bool = True,
) -> Report:
    """Everything that is checked, in the order in which one would repair it.

    The submission is copied once, without links, pipes and devices, and only the copy is read (`sandbox/intake.py`).

    Args:
        folder: what was handed in.
        lab: by number or name; None: as the folder says.
        student: whose parameters hold; None: as the folder says.
        seed: of the inputs that are tried.
        only: parts; none: all.
        follow: whether ``folder`` itself may be a symbolic link.

    Raises:
        LabError: there is nothing to grade, or no such part.
    """
    with taken_in(folder, follow=follow) as taken:
        try:
            report = _grade(taken.folder, lab, student, seed, only)
        except LabError as error:
            raise LabError("; ".join([taken.as_named(str(error)), *_left_out(taken)])) from None
        return _as_named(report, taken)


def _as_named(report: Report, taken: Intake) -> Report:
    """The report on a copy as one on the folder that the user named."""
    checks = []
    for check in report.checks:
        found = check.finding
        if found is not None:
            found = Finding(taken.as_named(found.said), taken.as_named(found.where), taken.as_named(found.look))
        checks.append(replace(check, finding=found))
    notes = (*map(taken.as_named, report.notes), *_left_out(taken))
    return replace(report, folder=taken.as_named(report.folder), checks=tuple(checks), notes=notes)


def _left_out(taken: Intake) -> list[str]:
    return [f"{name} {why}" for name, why in sorted(taken.left_out.items())]


def _grade(folder: Path, lab: str | None, student: str | None, seed: bytes, only: Sequence[str]) -> Report:
    what = lab_of(folder, lab)
    answers = answers_folder(what, folder)
    whose = checked_student(student) if student is not None else student_of(folder)
    wanted = _parts(what, only)
    task = Task(
        what, answers, folder, whose, personal(what.name, whose), hidden(what.name, whose, seed), frozenset(wanted)
    )
    checks = list(what.grade(task))
    found = digest(answers, what.files)
    return Report(
        lab=what.name,
        folder=str(answers),
        checks=tuple(_with_points(what, wanted, checks)),
        student=whose,
        praise=what.praise if len(wanted) == len(what.parts) else "what was asked for holds",
        notes=(*_of_another(folder, whose), *_notes(what, whose, found)),
        digest="" if what.alike else found,
        sandbox=tuple(task.seen),
    )


def _parts(lab: Lab, only: Sequence[str]) -> list[str]:
    names = [part.name for part in lab.parts]
    for name in only:
        if name not in names:
            raise LabError(f"--only {name}: lab {lab.number} has the parts {', '.join(names)}")
    return [name for name in names if not only or name in only]


def _with_points(lab: Lab, wanted: Sequence[str], checks: Iterable[Check]) -> list[Check]:
    listed = list(checks)
    found: list[Check] = []
    for part in lab.parts:
        mine = [check for check in listed if check.subject == part.name]
        if part.name in wanted:
            found += shared_out(part.points, mine)
        else:  # what has to hold before the wanted parts can be tried is told where it fails
            found += [Check(c.subject, c.title, c.passed, c.finding, 0) for c in mine if c.passed is False]
    return found


def _of_another(folder: Path, student: str) -> list[str]:
    """What explains most of what follows: numbers of somebody else."""
    try:
        said = note_of(folder).get("student", student)
    except LabError:  # whose it is has been named
        return []
    if said == student:
        return []
    note = f"lab.yaml says that this is a copy for {said}, and it is graded with the numbers of {student}"
    return [f"{note}, which are other ones: p4reduce lab copy --student {student}"]


def _notes(lab: Lab, student: str, found: str) -> list[str]:
    if lab.alike or student == EXAMPLE or not found:
        return []
    if found == published().get(lab.name):
        return ["this is the published solution, but for comments, spaces, names and numbers"]
    return []


@functools.cache
def published() -> dict[str, str]:
    """Digests of the solutions in the repository, by lab."""
    found: dict[str, str] = json.loads((catalogue.package() / "labs" / "published.json").read_text("utf-8"))
    return found
