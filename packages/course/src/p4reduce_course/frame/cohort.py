"""Grading of a class: its roster, submissions, grades, feedback for each student, and a log of changes."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import yaml
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor

from p4reduce.base.signals import end_with
from p4reduce_course import __version__
from p4reduce_course.frame.grading import answers_folder, checked_student, grade, lab_of
from p4reduce_course.frame.report import GradeReport, LabError, counted, said_of, write_looks
from p4switch.base.files import read_text
from p4switch.base.safe_yaml import PlainNodes
from p4switch.base.values import one_line

# Grades of a class.


Told = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Graded:
    """The grade of a student.

    Attributes:
        student: the name in the roster, or the name of the folder.
        report: the report; None if the student could not be graded.
        problem: why there is no report.
        same_as: other students with the same submission.
        folder: name of the graded folder; empty if nothing was handed in.
        attempt: number of the submission that counts, if there are several: ``2 of 3``.
    """

    student: str
    report: GradeReport | None
    problem: str = ""
    same_as: tuple[str, ...] = ()
    folder: str = ""
    attempt: str = ""

    def row(self) -> dict[str, object]:
        """Returns the student's row in the table of a class."""
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
            "attempt": self.attempt,
            "digest": report.digest,
        }


# The roster of a class.


Roster = Mapping[str, str]
"""Students by every name that a platform may use for them, in lower case."""


def read_roster(path: Path) -> Roster:
    """Reads a CSV file with a column ``student``; other columns hold further names of a student: e-mail, GitHub, ids.

    Raises:
        LabError: the file cannot be read, or a name stands for two students.
    """
    try:
        rows = list(csv.DictReader(read_text(path).removeprefix("\ufeff").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise LabError(f"{path}: cannot be read: {error}") from None
    if not rows or "student" not in rows[0]:
        raise LabError(f"{path}: is no roster; it is a CSV file whose first line names a column 'student'")
    roster: dict[str, str] = {}
    for number, row in enumerate(rows, start=2):
        student = checked_student((row["student"] or "").strip())
        for value in row.values():
            name = value.strip().casefold() if isinstance(value, str) else ""
            if name and roster.setdefault(name, student) != student:
                raise LabError(
                    f"{path}, line {number}: {name!r} names {roster[name]} already; give each a name of its own"
                )
    return roster


# Submissions: folders and files as platforms name them.


_MOODLE: Final = re.compile(r"(.+?)_(\d+)_assignsubmission_\w+?_?")
"""a student's name, and the id of the submission"""
_CANVAS: Final = re.compile(r"([^_]+)_(?:LATE_)?(\d+)_(\d+)_(.+)")
"""a student's name in small letters, the student's id, the id of the file, and the file's name"""
_AGAIN: Final = re.compile(r"-\d+(?=\.\w+$)")
"""suffix that Canvas adds to the name of a file that is handed in again"""
_ATTEMPT: Final = re.compile(r"(?:attempt|submission|version|try)?[ _-]*\d[\dTZ:._ -]*", re.IGNORECASE)
_METADATA: Final = "submission_metadata.yml"
"""Gradescope's file of names and times"""
_MOST_METADATA: Final = 8 << 20
"""most bytes of the file `_METADATA`"""


class _Loader(PlainNodes, yaml.BaseLoader):
    """Loads texts only."""


@dataclass(frozen=True)
class HandedIn:
    """A folder that was handed in.

    Attributes:
        names: names by which a roster may know its student, the likeliest first.
        when: time, which orders the submissions of one student.
    """

    path: Path
    names: tuple[str, ...]
    when: str = ""


def submissions(folder: Path, scratch: Path) -> list[HandedIn]:
    """Returns a class's submissions: one folder per student, or the form of Moodle, Canvas, Gradescope or GitHub.

    Args:
        folder: the folder of all submissions.
        scratch: folder for submissions of separate files, as Canvas has them.

    Raises:
        LabError: there are no submissions.
    """
    if not folder.is_dir():
        raise LabError(f"{folder}: there is no such folder; it holds one folder for each student")
    told = _gradescope(folder / _METADATA)
    handed_in = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not path.is_dir():
            continue
        moodle = _MOODLE.fullmatch(path.name)
        names, when = told.get(path.name, (moodle.groups() if moodle else (path.name,), ""))
        handed_in.append(HandedIn(path, names, when))
    handed_in += _canvas(folder, scratch)
    if not handed_in:
        raise LabError(f"{folder}: holds no folder; it holds one for each student, named as the student")
    return handed_in


def _gradescope(path: Path) -> dict[str, tuple[tuple[str, ...], str]]:
    """Returns names and time of each submission, by folder name. Raises LabError."""
    if not path.is_file():
        return {}
    try:
        if path.stat().st_size > _MOST_METADATA:
            raise LabError(f"{path}: larger than {_MOST_METADATA} bytes; it is no list of a class's submissions")
        data = yaml.load(read_text(path), _Loader)  # noqa: S506  (texts only)
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"{path}: cannot be read: {error}") from None
    except yaml.YAMLError as error:
        raise LabError(f"{path}: is not YAML: {one_line(error)}") from None
    by_folder = {}
    for name, told in data.items() if isinstance(data, dict) else ():
        who = told.get(":submitters") if isinstance(told, dict) else None
        if isinstance(who, list) and who and isinstance(who[0], dict):
            names = [who[0].get(key) for key in (":email", ":name", ":sid")]
            given = tuple(text for text in names if isinstance(text, str) and text)
            by_folder[str(name)] = given or (str(name),), str(told.get(":created_at", ""))
    return by_folder


def _canvas(folder: Path, scratch: Path) -> list[HandedIn]:
    """Copies loose files into one folder for each submission; symbolic links are copied as links."""
    by_folder: dict[str, HandedIn] = {}
    for path in sorted(folder.iterdir()):
        told = None if path.is_dir() or path.name == _METADATA else _CANVAS.fullmatch(path.name)
        if told is not None and (path.is_file() or path.is_symlink()):
            target = scratch / "canvas" / f"{told[1]}_{told[2]}"
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target / _AGAIN.sub("", told[4]), follow_symlinks=False)
            by_folder[target.name] = HandedIn(target, (told[1], told[2]))
    return list(by_folder.values())


def _student(names: Sequence[str], roster: Roster) -> str | None:
    """Returns the student with one of these names, or whose ``-name`` ends one (GitHub Classroom); None if unknown."""
    for name in names:
        if (student := roster.get(name.casefold())) is not None:
            return student
    ends = [known for known in roster for name in names if name.casefold().endswith(f"-{known}")]
    return roster[max(ends, key=len)] if ends else None


def attempts(submission: HandedIn, lab: str | None) -> list[HandedIn]:
    """Returns the submission, or one for each numbered or dated subfolder if all of these hold answers."""
    try:
        what = lab_of(submission.path, lab)
        inner = [path for path in submission.path.iterdir() if path.is_dir() and _ATTEMPT.fullmatch(path.name)]
        inner = [path for path in inner if not path.is_symlink()]
        if len(inner) <= 1 or any((submission.path / name).exists() for name in what.files):
            return [submission]
        for path in inner:
            answers_folder(what, path)
    except (LabError, OSError):
        return [submission]
    return [replace(submission, path=path, when=f"{submission.when} {_natural(path.name)}") for path in inner]


def _natural(text: str) -> str:
    """Returns a sort key that orders the numbers in a text by value."""
    return re.sub(r"\d+", lambda digits: digits[0].zfill(20), text)


# Grading the submissions.


Several = Literal["last", "best", "first"]
NOTHING: Final = "nothing was handed in"


@dataclass(frozen=True)
class Terms:
    """How to grade a class.

    Attributes:
        lab: number or name; None: each folder says which.
        seed: seed of the secret inputs.
        only: names of parts; none: all.
        several: which submission of a student counts.
        roster: names of students; None: folders are named as students.
        students: the students to grade; none: all.
    """

    lab: str | None
    seed: bytes
    only: Sequence[str] = ()
    several: Several = "last"
    roster: Roster | None = None
    students: Sequence[str] = ()


@dataclass(frozen=True)
class _Work:
    """A submission to grade. ``whose``: the student whose parameters apply, even if ``student`` is a folder's name."""

    student: str
    whose: str
    path: Path
    attempt: str
    note: str


def grade_all(folder: Path, terms: Terms, *, jobs: int, told: Told) -> list[Graded]:
    """Grades every student, in the order of their names; an error with one student does not affect the others.

    Args:
        folder: the submissions (see `submissions`).
        terms: how to grade.
        jobs: number of processes.
        told: called with (student, number done, number of all).

    Raises:
        LabError: there is nothing to grade, or no such student.
    """
    by_student: dict[str, list[Graded]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="p4reduce-class-") as copies:
        works = _works(submissions(folder, Path(copies)), terms)
        processes = max(1, min(jobs, len(works)))
        run = Parallel(n_jobs=processes, return_as="generator_unordered", batch_size=1)
        try:
            for done, graded in enumerate(run(delayed(_graded)(work, terms, os.getpid(), copies) for work in works), 1):
                by_student[graded.student].append(graded)
                told(graded.student, done, len(works))
        except BaseException:  # processes must end before their copies are removed
            if processes > 1:
                get_reusable_executor().shutdown(wait=True, kill_workers=True)
            raise
    for student in _missing(terms, by_student):
        by_student[student].append(Graded(student, None, NOTHING))
    best = [
        max(several, key=lambda submission: submission.report.points if submission.report else -1)
        for several in by_student.values()
    ]
    return _compared(sorted(best, key=lambda submission: submission.student))


def _missing(terms: Terms, by_student: Mapping[str, object]) -> list[str]:
    wanted = set(terms.students or (terms.roster or {}).values())
    if strange := sorted(set(terms.students) - {*by_student, *(terms.roster or {}).values()}):
        raise LabError(f"--student {strange[0]}: is neither in the roster nor the name of a folder")
    return sorted(wanted - set(by_student))


def _works(handed_in: Sequence[HandedIn], terms: Terms) -> list[_Work]:
    """Returns one submission for each student, or several if the best counts."""
    by_student: dict[str, list[HandedIn]] = defaultdict(list)
    notes: dict[str, str] = {}
    same = Counter(submission.names for submission in handed_in if not submission.when)
    names = Counter(name for names in same for name in names[:1])
    for submission in handed_in:
        student = _student(submission.names, terms.roster or {})
        if student is None:
            student = submission.names[0] if names[submission.names[0]] <= 1 else submission.path.name
            notes[student] = "is not in the roster" if terms.roster is not None else ""
            if student != submission.names[0]:
                notes[student] = (
                    f"{names[submission.names[0]]} folders are of a {submission.names[0]}: tell them apart by --roster"
                )
        by_student[student] += attempts(submission, terms.lab)
    works = []
    for student, several in by_student.items():
        ordered = sorted(several, key=lambda submission: (submission.when, _natural(submission.path.name)))
        chosen = {"last": ordered[-1:], "first": ordered[:1], "best": ordered}[terms.several]
        for submission in chosen if not terms.students or student in terms.students else ():
            place = f"{ordered.index(submission) + 1} of {len(ordered)}" if len(ordered) > 1 else ""
            whose = student if student not in notes else submission.names[0]
            works.append(_Work(student, whose, submission.path, place, notes.get(student, "")))
    return works


def _graded(work: _Work, terms: Terms, master: int, copies: str) -> Graded:
    """Grades one submission. ``master``: id of the process to die with; ``copies``: folder for temporary files."""
    if master != os.getpid():
        end_with(master)
        tempfile.tempdir = copies
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    named = Graded(work.student, None, folder=work.path.name, attempt=work.attempt)
    try:
        report = grade(work.path, lab=terms.lab, student=work.whose, seed=terms.seed, only=terms.only, follow=False)
    except LabError as error:
        return replace(named, problem=str(error))
    except Exception as error:  # a grader's bug costs one student's grade and is reported; the others go on
        return replace(named, problem=f"the grader failed: {type(error).__name__}: {error}")
    return replace(named, report=replace(report, notes=(work.note, *report.notes)) if work.note else report)


def _compared(all_of: list[Graded]) -> list[Graded]:
    """Returns the grades with ``same_as`` filled in."""
    by_digest: dict[str, list[str]] = defaultdict(list)
    for graded in all_of:
        if graded.report is not None and graded.report.digest:
            by_digest[graded.report.digest].append(graded.student)
    compared = []
    for graded in all_of:
        alike = by_digest[graded.report.digest] if graded.report is not None and graded.report.digest else []
        others = tuple(name for name in alike if name != graded.student)
        compared.append(replace(graded, same_as=others))
    return compared


# Feedback, and a log of changed grades.


def write_feedback(target: Path, graded: Iterable[Graded]) -> None:
    """Writes ``feedback.md`` and the files that it names to a folder for each student, named as the submission."""
    for submission in graded:
        mine = target / (submission.folder if submission.folder and not submission.attempt else submission.student)
        mine.mkdir(parents=True, exist_ok=True)
        (mine / "feedback.md").write_text(feedback(submission), "utf-8")
        if submission.report is not None:
            write_looks(mine, submission.report)


def feedback(submission: Graded) -> str:
    """Returns a student's feedback in Markdown: points by part, and each check that failed, with its cause."""
    report = submission.report
    if report is None:
        return f"# {submission.student}\n\n0 points: {submission.problem}.\n"
    lines = [f"# {report.lab}: {report.points} of {counted(report.most, 'point')}", "", f"For {submission.student}."]
    if submission.attempt:
        lines.append(f"Of your submissions, number {submission.attempt} counts.")
    lines += ["", "| part | points |", "|---|---|"]
    lines += [f"| {name} | {had} of {most} |" for name in report.parts for had, most in [report.part(name)]]
    if report.passed:
        lines += ["", f"All of it is right: {report.praise}."]
    for check in report.checks:
        if not check.passed:
            text = said_of(check).replace("```", "` ` `")
            lines += ["", f"## {check.subject}: {check.title}", "", "```", text, "```"]
    return "\n".join(lines) + "\n"


_COMPARED_FIELDS: Final = ("points", "parts", "handed_in", "problem")


def logged(log: Path, graded: Iterable[Graded], because: str) -> list[str]:
    """Appends a JSON line to the log for each new or changed grade; returns these grades as texts.

    Raises:
        LabError: the log cannot be read or written.
    """
    latest: dict[str, dict[str, Any]] = {}
    try:
        lines = read_text(log).splitlines() if log.exists() else []
        for entry in map(json.loads, lines):
            latest[entry["student"]] = {name: entry[name] for name in (*_COMPARED_FIELDS, "lab")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(f"{log}: is no log of grades ({error}); name another file") from None
    changes, new = [], []
    for submission in graded:
        report, before = submission.report, latest.get(submission.student)
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "student": submission.student,
            "lab": report.lab if report else "",
            "points": report.points if report else 0,
            "parts": {name: report.part(name)[0] for name in report.parts} if report else {},
            "problem": submission.problem,
            "attempt": submission.attempt,
            "handed_in": report.handed_in if report else "",
            "grader": __version__,
            "because": because,
        }
        if before is not None and before["lab"] and entry["lab"] not in ("", before["lab"]):
            raise LabError(f"{log}: is of lab {before['lab']}; keep one log for each lab")
        if before is None or any(before[name] != entry[name] for name in _COMPARED_FIELDS):
            new.append(json.dumps(entry, ensure_ascii=False))
            if before is not None:
                changes.append(_change(before, entry))
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in new)
    except OSError as error:
        raise LabError(f"{log}: cannot be written: {error.strerror}") from None
    return changes


def _change(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    had = before["parts"]
    parts = [f"{name} {had.get(name, 0)} -> {new}" for name, new in now["parts"].items() if had.get(name) != new]
    why = "handed in again" if before["handed_in"] != now["handed_in"] else "the same files"
    change = f"{now['student']}: {before['points']} -> {now['points']} points, {why}"
    return change + (f" ({', '.join(parts)})" if parts else "")
