"""Grading one folder."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import yaml

from p4reduce_course import catalogue
from p4reduce_course.frame.lab import EXAMPLE, PRACTICE, SKELETON, GradingTask, Lab, failure, hidden, personal
from p4reduce_course.frame.likeness import digest
from p4reduce_course.frame.report import Check, Finding, GradeReport, LabError, shared_out
from p4reduce_course.sandbox.intake import Intake, taken_in
from p4switch.base.safe_yaml import PlainNodes
from p4switch.base.values import one_line

# Folders: copying a lab for a student, and finding the answers in a submission.


NOTE: Final = "lab.yaml"
"""The file that names the lab and the student of a folder."""
_LEFT_OUT: Final = frozenset({"__pycache__", "solution", "lab.py", "test_lab.py"})
_PLACE = re.compile(r"\{\{ *([a-z][a-z0-9_]*) *\}\}")
_STUDENT = re.compile(r"(?=.{1,100}$)[\w.@+'-]+(?: [\w.@+'-]+)*")
_NOT_STUDENTS: Final = frozenset({"__MACOSX", "__pycache__", "look"})
_DEEPEST: Final = 4
"""deepest nesting of folders in which answers are searched"""


class _Loader(PlainNodes, yaml.BaseLoader):
    """Loads texts only."""


def checked_student(student: str) -> str:
    """Returns the name unchanged. Raises LabError if it could not be a folder's name."""
    if not _STUDENT.fullmatch(student):
        raise LabError(
            f"{student!r}: a student is named by letters, digits, . _ @ + - ' and single spaces, at most 100"
        )
    return student


def copy_lab(lab: Lab, student: str, target: Path) -> None:
    """Copies README and skeleton, with the student's parameters filled in. Raises LabError."""
    checked_student(student)
    if target.exists():
        raise LabError(f"{target}: is there already; name another folder")
    draws = personal(lab.name, student)
    values = lab.parameters(draws)
    home = catalogue.home(lab)
    for source in sorted(home.rglob("*")):
        path = source.relative_to(home)
        if source.is_dir() or _LEFT_OUT & set(path.parts):
            continue
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        try:
            (target / path).write_text(filled(source.read_text("utf-8"), values), "utf-8")
        except UnicodeDecodeError:
            shutil.copyfile(source, target / path)
    for name, text in lab.made(draws).items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_text(text, "utf-8")
    named = student.replace("'", "''")
    (target / NOTE).write_text(
        f"# Which lab this is, and whose: 'p4reduce lab grade' reads it.\nlab: {lab.name}\nstudent: '{named}'\n"
    )


def new_lab(folder: Path, kind: str) -> None:
    """Creates a lab of the kind ``python`` or ``p4``. Raises LabError if the folder exists."""
    if folder.exists():
        raise LabError(f"{folder}: is there already; name another folder")
    texts = yaml.safe_load((catalogue.package() / "labs" / "new.yaml").read_text("utf-8"))[kind]
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    lab = catalogue.find(str(folder.resolve()))
    for path in (folder / "solution").iterdir():
        path.write_text(filled(path.read_text("utf-8"), lab.parameters(personal(lab.name, EXAMPLE))), "utf-8")


def skeleton_of(task: GradingTask, name: str) -> str:
    """Returns the text of a skeleton's file as the student received it."""
    path = catalogue.home(task.lab) / SKELETON / name
    return filled(path.read_text("utf-8"), task.parameters)


def filled(text: str, values: Mapping[str, str]) -> str:
    """Returns the text with each ``{{name}}`` filled in. Raises LabError for a name that the lab does not have."""

    def value(placeholder: re.Match[str]) -> str:
        if placeholder[1] not in values:
            raise LabError(f"{{{{{placeholder[1]}}}}}: the lab has no parameter of this name")
        return values[placeholder[1]]

    return _PLACE.sub(value, text)


def note_of(folder: Path) -> dict[str, str]:
    """Returns the contents of lab.yaml in a folder or the one above; empty if there is none. Raises LabError."""
    for candidate in (folder / NOTE, folder.parent / NOTE, *(place / NOTE for place in _places(folder))):
        if candidate.is_file():
            return _read(candidate)
    return {}


def _places(folder: Path) -> list[Path]:
    """Returns the folder and its subfolders, which a platform may have put around the answers; outer ones first."""
    folders = level = [folder]
    for _ in range(_DEEPEST):
        inner = (path for place in level if place.is_dir() for path in sorted(place.iterdir()) if path.is_dir())
        level = [path for path in inner if path.name not in _NOT_STUDENTS and not path.name.startswith(".")]
        folders = [*folders, *level]
    return folders


def _read(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            data = yaml.load(file.read(4096), _Loader)  # noqa: S506  (texts only)
    except yaml.YAMLError as error:
        raise LabError(f"{path}: is not YAML: {one_line(error)}; it says 'lab: …' and 'student: …'") from None
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}") from None
    if not isinstance(data, dict) or not all(isinstance(v, str) for v in data.values()):
        raise LabError(f"{path}: says 'lab: …' and 'student: …', nothing else")
    if "student" in data:
        checked_student(data["student"])
    return data


def lab_of(folder: Path, named: str | None) -> Lab:
    """Returns the named lab, or the lab that lab.yaml, the folder's name or its files indicate. Raises LabError."""
    if named is not None:
        return catalogue.find(named)
    if not folder.is_dir():
        raise LabError(f"{folder}: there is no such folder; 'p4reduce lab copy 01' makes one")
    noted = note_of(folder).get("lab")
    if noted is not None:
        if noted not in catalogue.NAMES.values():  # a student's file must not choose the code that runs
            raise LabError(f"{folder}: lab.yaml names no lab that there is: {noted!r}; name it with --lab")
        return catalogue.find(noted)
    for name in catalogue.NAMES.values():
        if folder.resolve().name == name:
            return catalogue.find(name)
    for number in catalogue.NAMES:
        lab = catalogue.find(number)
        if any((place / lab.files[0]).exists() for place in _places(folder)):
            return lab
    raise LabError(f"{folder}: which lab is this? There is no {NOTE}; name the lab with --lab")


def student_of(folder: Path) -> str:
    """Returns the student of a folder; without lab.yaml, the student of the published solutions."""
    return note_of(folder).get("student", EXAMPLE)


def answers_folder(lab: Lab, folder: Path) -> Path:
    """Returns the folder of the student's files: the folder itself, its ``skeleton``, or a subfolder. Raises LabError.

    If several hold files of the lab, it is the outermost of those with the most files.
    """
    if not folder.is_dir():
        raise LabError(f"{folder}: there is no such folder; 'p4reduce lab copy {lab.name}' makes one")
    places = [folder, folder / SKELETON, *_places(folder)]
    counts = [sum((place / name).exists() for name in lab.files) for place in places]
    if not any(counts):
        raise LabError(f"{folder}: holds neither {', '.join(lab.files)} nor a folder with them")
    return places[counts.index(max(counts))]


def grade(
    folder: Path,
    *,
    lab: str | None = None,
    student: str | None = None,
    seed: bytes = PRACTICE,
    only: Sequence[str] = (),
    follow: bool = True,
    explain: bool = True,
) -> GradeReport:
    """Grades a submission; checks are in the order in which a student would repair them.

    The submission is copied once, without links (also hard links), pipes and devices, and only the copy is read
    (`sandbox/intake.py`).

    Args:
        folder: the submission.
        lab: number or name; None: the lab that the folder indicates.
        student: the student whose parameters apply; None: the student that the folder names.
        seed: seed of the secret inputs.
        only: names of parts; none: all.
        follow: whether ``folder`` itself may be a symbolic link.
        explain: whether failures are explained; if not, grading ends with the first failure.

    Raises:
        LabError: there is nothing to grade, or no such part.
    """
    with taken_in(folder, follow=follow) as taken:
        try:
            report = replace(_grade(taken.folder, lab, student, seed, only, explain), handed_in=_contents(taken.folder))
        except LabError as error:
            raise LabError("; ".join([taken.as_named(str(error)), *_left_out(taken)])) from None
        return _as_named(report, taken)


def _contents(folder: Path) -> str:
    """Returns the SHA-256 digest of all files and their paths; it is equal for equal submissions."""
    sha256 = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            sha256.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode("utf-8", "surrogateescape"))
            sha256.update(path.read_bytes())
    return sha256.hexdigest()


def _as_named(report: GradeReport, taken: Intake) -> GradeReport:
    """Returns a copy's report with the paths of the folder that the user named."""
    checks = []
    for check in report.checks:
        finding = check.finding
        if finding is not None:
            problem, where, look = map(taken.as_named, (finding.said, finding.where, finding.look))
            finding = Finding(problem, where, look, finding.files)
        checks.append(replace(check, finding=finding))
    notes = (*map(taken.as_named, report.notes), *_left_out(taken))
    return replace(report, folder=taken.as_named(report.folder), checks=tuple(checks), notes=notes)


def _left_out(taken: Intake) -> list[str]:
    return [f"{name} {why}" for name, why in sorted(taken.left_out.items())]


def _grade(
    folder: Path, lab: str | None, student: str | None, seed: bytes, only: Sequence[str], explain: bool
) -> GradeReport:
    what = lab_of(folder, lab)
    answers = answers_folder(what, folder)
    whose = checked_student(student) if student is not None else student_of(folder)
    wanted = _parts(what, only)
    task = GradingTask(
        what, answers, folder, whose, personal(what.name, whose), hidden(what.name, whose, seed), frozenset(wanted),
        explain,
    )  # fmt: skip
    checks = _checks(what, task)
    own_digest = digest(answers, what.files)
    return GradeReport(
        lab=what.name,
        folder=str(answers),
        checks=tuple(_with_points(what, wanted, checks)),
        student=whose,
        praise=what.praise if len(wanted) == len(what.parts) else "what was asked for holds",
        notes=(*_of_another(folder, whose), *_notes(what, whose, own_digest), *task.failures),
        digest="" if what.alike else own_digest,
        sandbox=tuple(task.seen),
    )


def _checks(lab: Lab, task: GradingTask) -> list[Check]:
    """Returns all checks; if the grader fails, the checks so far, and a failed check for each part without one."""
    checks: list[Check] = []
    try:
        for check in lab.grade(task):
            checks.append(check)
            if check.passed is False and not task.explain:
                break
    except Exception as error:  # the student keeps the other points, and the teacher sees the reason
        task.failures.append(f"the grader failed: {type(error).__name__}: {error}")
        begun = {check.subject for check in checks}
        missing = [part.name for part in lab.parts if part.name in task.only and part.name not in begun]
        last = [checks[-1].subject] if checks else []
        checks += [Check(name, "the other checks", False, failure(error)) for name in (missing or last)]
    return checks


def _parts(lab: Lab, only: Sequence[str]) -> list[str]:
    names = [part.name for part in lab.parts]
    for name in only:
        if name not in names:
            raise LabError(f"--only {name}: lab {lab.number} has the parts {', '.join(names)}")
    return [name for name in names if not only or name in only]


def _with_points(lab: Lab, wanted: Sequence[str], checks: Iterable[Check]) -> list[Check]:
    listed = list(checks)
    scored: list[Check] = []
    for part in lab.parts:
        mine = [check for check in listed if check.subject == part.name]
        if part.name in wanted:
            scored += shared_out(part.points, mine)
        else:  # another part's gate is shown if it fails
            scored += [Check(c.subject, c.title, c.passed, c.finding, 0) for c in mine if c.passed is False]
    return scored


def _of_another(folder: Path, student: str) -> list[str]:
    """Returns a note if a folder was copied for another student, whose numbers explain most failures."""
    try:
        noted = note_of(folder).get("student", student)
    except LabError:  # the student's name was given
        return []
    if noted == student:
        return []
    note = f"lab.yaml says that this is a copy for {noted}, and it is graded with the numbers of {student}"
    return [f"{note}, which are other ones: p4reduce lab copy --student {student}"]


def _notes(lab: Lab, student: str, own_digest: str) -> list[str]:
    if lab.alike or student == EXAMPLE or not own_digest:
        return []
    if own_digest == published().get(lab.name):
        return ["this is the published solution, but for comments, spaces, names and numbers"]
    return []


@functools.cache
def published() -> dict[str, str]:
    """Returns the digests of the solutions in the repository, by lab."""
    digests: dict[str, str] = json.loads((catalogue.package() / "labs" / "published.json").read_text("utf-8"))
    return digests
