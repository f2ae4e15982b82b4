"""A class: who is in it, what each of them handed in, the grades, feedback for each, and a log of changes."""

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
from p4reduce_course.frame.report import LabError, Report, counted, said_of, write_looks
from p4switch.base.files import read_text
from p4switch.base.safe_yaml import PlainNodes, one_line

# What a class has.


Told = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Graded:
    """What a student has.

    Attributes:
        student: as the roster has it, or the name of the folder.
        report: None: it could not be graded.
        problem: why not.
        same_as: who handed in the same.
        folder: the name of what was graded; empty: nothing was handed in.
        attempt: which one counts, of several: ``2 of 3``.
    """

    student: str
    report: Report | None
    problem: str = ""
    same_as: tuple[str, ...] = ()
    folder: str = ""
    attempt: str = ""

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
            "attempt": self.attempt,
            "digest": report.digest,
        }


# Who is in the class.


Roster = Mapping[str, str]
"""The student of each name that a platform may use for one, in lower case."""


def read_roster(path: Path) -> Roster:
    """A CSV file with a column ``student``; the other columns hold further names of the same: e-mail, GitHub, ids.

    Raises:
        LabError: it cannot be read, or a name stands for two students.
    """
    try:
        rows = list(csv.DictReader(read_text(path).removeprefix("\ufeff").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise LabError(f"{path}: cannot be read: {error}") from None
    if not rows or "student" not in rows[0]:
        raise LabError(f"{path}: is no roster; it is a CSV file whose first line names a column 'student'")
    found: dict[str, str] = {}
    for number, row in enumerate(rows, start=2):
        student = checked_student((row["student"] or "").strip())
        for value in row.values():
            name = value.strip().casefold() if isinstance(value, str) else ""
            if name and found.setdefault(name, student) != student:
                raise LabError(
                    f"{path}, line {number}: {name!r} names {found[name]} already; give each a name of its own"
                )
    return found


# What was handed in: folders and files as platforms name them.


_MOODLE: Final = re.compile(r"(.+?)_(\d+)_assignsubmission_\w+?_?")
"""a student's name, the id of the submission"""
_CANVAS: Final = re.compile(r"([^_]+)_(?:LATE_)?(\d+)_(\d+)_(.+)")
"""a student's name in small letters, its id, the id of the file, the file's name"""
_AGAIN: Final = re.compile(r"-\d+(?=\.\w+$)")
"""what Canvas puts behind the name of a file that is handed in again"""
_ATTEMPT: Final = re.compile(r"(?:attempt|submission|version|try)?[ _-]*\d[\dTZ:._ -]*", re.IGNORECASE)
_METADATA: Final = "submission_metadata.yml"
"""Gradescope's"""
_MOST_METADATA: Final = 8 << 20
"""bytes"""


class _Loader(PlainNodes, yaml.BaseLoader):
    """Texts only."""


@dataclass(frozen=True)
class HandedIn:
    """A folder that was handed in.

    Attributes:
        names: by which a roster may know its student, the likeliest first.
        when: orders several of one student.
    """

    path: Path
    names: tuple[str, ...]
    when: str = ""


def submissions(folder: Path, scratch: Path) -> list[HandedIn]:
    """What a class handed in: a folder for each student, or as Moodle, Canvas, Gradescope or GitHub Classroom have it.

    Args:
        folder: of all of them.
        scratch: where files that lie beside each other, as Canvas has them, are put into folders.

    Raises:
        LabError: there is none.
    """
    if not folder.is_dir():
        raise LabError(f"{folder}: there is no such folder; it holds one folder for each student")
    told = _gradescope(folder / _METADATA)
    found = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not path.is_dir():
            continue
        moodle = _MOODLE.fullmatch(path.name)
        names, when = told.get(path.name, (moodle.groups() if moodle else (path.name,), ""))
        found.append(HandedIn(path, names, when))
    found += _canvas(folder, scratch)
    if not found:
        raise LabError(f"{folder}: holds no folder; it holds one for each student, named as the student")
    return found


def _gradescope(path: Path) -> dict[str, tuple[tuple[str, ...], str]]:
    """Names and time of each folder. Raises LabError."""
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
    found = {}
    for name, told in data.items() if isinstance(data, dict) else ():
        who = told.get(":submitters") if isinstance(told, dict) else None
        if isinstance(who, list) and who and isinstance(who[0], dict):
            names = [who[0].get(key) for key in (":email", ":name", ":sid")]
            given = tuple(one for one in names if isinstance(one, str) and one)
            found[str(name)] = given or (str(name),), str(told.get(":created_at", ""))
    return found


def _canvas(folder: Path, scratch: Path) -> list[HandedIn]:
    """Files beside each other, as folders; links stay links, which nothing follows."""
    found: dict[str, HandedIn] = {}
    for path in sorted(folder.iterdir()):
        told = None if path.is_dir() or path.name == _METADATA else _CANVAS.fullmatch(path.name)
        if told is not None and (path.is_file() or path.is_symlink()):
            target = scratch / "canvas" / f"{told[1]}_{told[2]}"
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target / _AGAIN.sub("", told[4]), follow_symlinks=False)
            found[target.name] = HandedIn(target, (told[1], told[2]))
    return list(found.values())


def _student(names: Sequence[str], roster: Roster) -> str | None:
    """Of the roster; the name of a repository may end in a student's, as GitHub Classroom has it."""
    for name in names:
        if (found := roster.get(name.casefold())) is not None:
            return found
    ends = [known for known in roster for name in names if name.casefold().endswith(f"-{known}")]
    return roster[max(ends, key=len)] if ends else None


def attempts(one: HandedIn, lab: str | None) -> list[HandedIn]:
    """A folder, or the numbered or dated folders in it that each hold answers, in their order."""
    try:
        what = lab_of(one.path, lab)
        inner = [path for path in one.path.iterdir() if path.is_dir() and _ATTEMPT.fullmatch(path.name)]
        inner = [path for path in inner if not path.is_symlink()]
        if len(inner) <= 1 or any((one.path / name).exists() for name in what.files):
            return [one]
        for path in inner:
            answers_folder(what, path)
    except (LabError, OSError):
        return [one]
    return [replace(one, path=path, when=f"{one.when} {_natural(path.name)}") for path in inner]


def _natural(text: str) -> str:
    """For sorting: numbers by their size."""
    return re.sub(r"\d+", lambda found: found[0].zfill(20), text)


# Grading it.


Several = Literal["last", "best", "first"]
NOTHING: Final = "nothing was handed in"


@dataclass(frozen=True)
class Terms:
    """How a class is graded.

    Attributes:
        lab: by number or name; None: as each folder says.
        seed: of the inputs that are tried.
        only: parts; none: all.
        several: which of a student's submissions counts.
        roster: None: folders are named as students.
        students: who is graded; none: all.
    """

    lab: str | None
    seed: bytes
    only: Sequence[str] = ()
    several: Several = "last"
    roster: Roster | None = None
    students: Sequence[str] = ()


@dataclass(frozen=True)
class _Work:
    """What of a student is to be graded; ``whose`` parameters hold, which may be those of another of the same name."""

    student: str
    whose: str
    path: Path
    attempt: str
    note: str


def grade_all(folder: Path, terms: Terms, *, jobs: int, told: Told) -> list[Graded]:
    """Every student, in the order of their names; whatever one of them does, the others are graded.

    Args:
        folder: what was handed in (`submissions`).
        terms: how it is graded.
        jobs: processes.
        told: called with (student, done, of how many).

    Raises:
        LabError: there is nothing to grade, or no such student.
    """
    found: dict[str, list[Graded]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="p4reduce-class-") as copies:
        works = _works(submissions(folder, Path(copies)), terms)
        processes = max(1, min(jobs, len(works)))
        run = Parallel(n_jobs=processes, return_as="generator_unordered", batch_size=1)
        try:
            for done, graded in enumerate(run(delayed(_graded)(one, terms, os.getpid(), copies) for one in works), 1):
                found[graded.student].append(graded)
                told(graded.student, done, len(works))
        except BaseException:  # the processes end before their copies are removed
            if processes > 1:
                get_reusable_executor().shutdown(wait=True, kill_workers=True)
            raise
    for student in _missing(terms, found):
        found[student].append(Graded(student, None, NOTHING))
    best = [max(several, key=lambda one: one.report.points if one.report else -1) for several in found.values()]
    return _compared(sorted(best, key=lambda one: one.student))


def _missing(terms: Terms, found: Mapping[str, object]) -> list[str]:
    wanted = set(terms.students or (terms.roster or {}).values())
    if strange := sorted(set(terms.students) - {*found, *(terms.roster or {}).values()}):
        raise LabError(f"--student {strange[0]}: is neither in the roster nor the name of a folder")
    return sorted(wanted - set(found))


def _works(handed_in: Sequence[HandedIn], terms: Terms) -> list[_Work]:
    """One for each student, or several where the best counts."""
    by_student: dict[str, list[HandedIn]] = defaultdict(list)
    notes: dict[str, str] = {}
    same = Counter(one.names for one in handed_in if not one.when)
    names = Counter(name for names in same for name in names[:1])
    for one in handed_in:
        student = _student(one.names, terms.roster or {})
        if student is None:
            student = one.names[0] if names[one.names[0]] <= 1 else one.path.name
            notes[student] = "is not in the roster" if terms.roster is not None else ""
            if student != one.names[0]:
                notes[student] = f"{names[one.names[0]]} folders are of a {one.names[0]}: tell them apart by --roster"
        by_student[student] += attempts(one, terms.lab)
    found = []
    for student, several in by_student.items():
        ordered = sorted(several, key=lambda one: (one.when, _natural(one.path.name)))
        chosen = {"last": ordered[-1:], "first": ordered[:1], "best": ordered}[terms.several]
        for one in chosen if not terms.students or student in terms.students else ():
            place = f"{ordered.index(one) + 1} of {len(ordered)}" if len(ordered) > 1 else ""
            whose = student if student not in notes else one.names[0]
            found.append(_Work(student, whose, one.path, place, notes.get(student, "")))
    return found


def _graded(work: _Work, terms: Terms, master: int, copies: str) -> Graded:
    """Grade one submission; ``master``: the process that this one must not outlive; ``copies``: for temporary files."""
    if master != os.getpid():
        end_with(master)
        tempfile.tempdir = copies
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    named = Graded(work.student, None, folder=work.path.name, attempt=work.attempt)
    try:
        report = grade(work.path, lab=terms.lab, student=work.whose, seed=terms.seed, only=terms.only, follow=False)
    except LabError as error:
        return replace(named, problem=str(error))
    except Exception as error:  # a bug of a grader costs one student's grade, which is told, not a night
        return replace(named, problem=f"the grader failed: {type(error).__name__}: {error}")
    return replace(named, report=replace(report, notes=(work.note, *report.notes)) if work.note else report)


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
        found.append(replace(graded, same_as=others))
    return found


# Feedback, and a log of what changed.


def write_feedback(target: Path, graded: Iterable[Graded]) -> None:
    """A folder for each student, named as what was handed in, with ``feedback.md`` and the files that it names."""
    for one in graded:
        mine = target / (one.folder if one.folder and not one.attempt else one.student)
        mine.mkdir(parents=True, exist_ok=True)
        (mine / "feedback.md").write_text(feedback(one), "utf-8")
        if one.report is not None:
            write_looks(mine, one.report)


def feedback(one: Graded) -> str:
    """What a student is told, in Markdown: points by part, and each check that failed, with its cause."""
    report = one.report
    if report is None:
        return f"# {one.student}\n\n0 points: {one.problem}.\n"
    lines = [f"# {report.lab}: {report.points} of {counted(report.most, 'point')}", "", f"For {one.student}."]
    if one.attempt:
        lines.append(f"Of your submissions, number {one.attempt} counts.")
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
    """Appends a line of JSON for each grade that is new or another than the latest of the log; says which, in words.

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
    said, new = [], []
    for one in graded:
        report, before = one.report, latest.get(one.student)
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "student": one.student,
            "lab": report.lab if report else "",
            "points": report.points if report else 0,
            "parts": {name: report.part(name)[0] for name in report.parts} if report else {},
            "problem": one.problem,
            "attempt": one.attempt,
            "handed_in": report.handed_in if report else "",
            "grader": __version__,
            "because": because,
        }
        if before is not None and before["lab"] and entry["lab"] not in ("", before["lab"]):
            raise LabError(f"{log}: is of lab {before['lab']}; keep one log for each lab")
        if before is None or any(before[name] != entry[name] for name in _COMPARED_FIELDS):
            new.append(json.dumps(entry, ensure_ascii=False))
            if before is not None:
                said.append(_change(before, entry))
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in new)
    except OSError as error:
        raise LabError(f"{log}: cannot be written: {error.strerror}") from None
    return said


def _change(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    had = before["parts"]
    parts = [f"{name} {had.get(name, 0)} -> {new}" for name, new in now["parts"].items() if had.get(name) != new]
    why = "handed in again" if before["handed_in"] != now["handed_in"] else "the same files"
    said = f"{now['student']}: {before['points']} -> {now['points']} points, {why}"
    return said + (f" ({', '.join(parts)})" if parts else "")
