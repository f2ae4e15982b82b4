"""Folders: a lab copied out for a student, and the answers in what comes back."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from p4reduce.base.safe_yaml import PlainNodes, one_line
from p4reduce.labs import catalogue
from p4reduce.labs.frame.draws import EXAMPLE, personal
from p4reduce.labs.frame.lab import SKELETON, Lab, Task
from p4reduce.labs.frame.report import LabError

NOTE: Final = "lab.yaml"
"""Which lab a folder is, and whose."""
_LEFT_OUT: Final = frozenset({"__pycache__", "solution", "lab.py", "test_lab.py"})
_PLACE = re.compile(r"\{\{ *([a-z][a-z0-9_]*) *\}\}")
_STUDENT = re.compile(r"[\w.@+-]{1,100}")


class _Loader(PlainNodes, yaml.BaseLoader):
    """Texts only."""


def checked_student(student: str) -> str:
    """The name as it is. Raises LabError where it could not be a folder's."""
    if not _STUDENT.fullmatch(student):
        raise LabError(f"{student!r}: a student is named by letters, digits and . _ @ + -, at most 100")
    return student


def copy_lab(lab: Lab, student: str, target: Path) -> None:
    """README and skeleton with the student's parameters put in. Raises LabError."""
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
    (target / NOTE).write_text(
        f"# Which lab this is, and whose: 'p4reduce lab grade' reads it.\nlab: {lab.name}\nstudent: '{student}'\n"
    )


def skeleton_of(task: Task, name: str) -> str:
    """A file as its student got it."""
    path = catalogue.home(task.lab) / SKELETON / name
    return filled(path.read_text("utf-8"), task.parameters)


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with ``{{name}}`` put in. Raises LabError for a name that the lab does not have."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise LabError(f"{{{{{found[1]}}}}}: the lab has no parameter of this name")
        return values[found[1]]

    return _PLACE.sub(value, text)


def note_of(folder: Path) -> dict[str, str]:
    """What lab.yaml says of a folder or of the one above; empty where there is none. Raises LabError."""
    for candidate in (folder / NOTE, folder.parent / NOTE):
        if candidate.is_file():
            return _read(candidate)
    return {}


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
    """The lab that a folder is of: the named one, or that of lab.yaml, or by its files. Raises LabError."""
    if named is not None:
        return catalogue.find(named)
    if not folder.is_dir():
        raise LabError(f"{folder}: there is no such folder; 'p4reduce lab copy 01' makes one")
    said = note_of(folder).get("lab")
    if said is not None:
        if said not in catalogue.NAMES.values():  # a student's file does not choose what is run
            raise LabError(f"{folder}: lab.yaml names no lab that there is: {said!r}; name it with --lab")
        return catalogue.find(said)
    for name in catalogue.NAMES.values():
        if folder.resolve().name == name:
            return catalogue.find(name)
    for number in catalogue.NAMES:
        lab = catalogue.find(number)
        if any((place / lab.files[0]).exists() for place in (folder, folder / SKELETON)):
            return lab
    raise LabError(f"{folder}: which lab is this? There is no {NOTE}; name the lab with --lab")


def student_of(folder: Path) -> str:
    """Whose folder it is; without a lab.yaml that of the published solutions."""
    return note_of(folder).get("student", EXAMPLE)


def answers_folder(lab: Lab, folder: Path) -> Path:
    """Where the student's files are: the folder itself, or its ``skeleton``. Raises LabError."""
    for candidate in (folder, folder / SKELETON):
        if any((candidate / name).exists() for name in lab.files):
            return candidate
    if not folder.is_dir():
        raise LabError(f"{folder}: there is no such folder; 'p4reduce lab copy {lab.name}' makes one")
    raise LabError(f"{folder}: holds neither {', '.join(lab.files)} nor a folder {SKELETON!r} with them")
