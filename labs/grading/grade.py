"""Grading a folder of lab 01: three files of entries, three switches, four workers."""

from __future__ import annotations

import importlib.resources
import re
from pathlib import Path
from typing import Final

from p4reduce.dataplane.model import Program, load_program
from p4reduce.dataplane.trace.entries import Entries, load_entries
from p4reduce.dataplane.trace.entries_yaml import EntriesError
from p4reduce.dataplane.trace.glossary import of_folder
from p4reduce.dataplane.trace.to_text import TextFormat
from p4reduce.labs.grading.bench import Bench, Student
from p4reduce.labs.grading.network_checks import examine_network
from p4reduce.labs.grading.report import Check, Finding, LabError, Report
from p4reduce.labs.grading.switch_checks import examine
from p4reduce.labs.grading.tree import LANES, Role, roles
from p4reduce.topologies.files import load

LABS: Final = ("01-sum-in-a-switch",)
ROOT: Final = "root"
SKELETON: Final = "skeleton"
MOST_COPIES: Final = 64
"""of one multicast group: grading must not take for ever, whatever a file says"""


def lab_folder(name: str) -> Path:
    """A lab as it came with the package. Raises LabError."""
    for lab in LABS:
        if name in (lab, lab.partition("-")[0]):
            return _package() / "labs" / lab
    raise LabError(f"there is no lab {name!r}; there are {', '.join(LABS)}")


def answers_folder(folder: Path) -> Path:
    """Where the student's files are: the folder itself, or its ``skeleton``. Raises LabError."""
    for candidate in (folder, folder / SKELETON):
        if any(candidate.glob("*.yaml")) and (candidate / f"{ROOT}.yaml").exists():
            return candidate
    if not folder.is_dir():
        raise LabError(f"{folder}: there is no such folder; 'p4reduce lab copy {LABS[0]}' makes one")
    raise LabError(f"{folder}: holds neither leaf1.yaml, leaf2.yaml, root.yaml nor a folder {SKELETON!r} with them")


def grade(folder: Path) -> Report:
    """Everything that is checked, in the order in which one would repair it. Raises LabError."""
    answers = answers_folder(folder)
    topology = load(lab_folder(LABS[0]) / "network.yaml")
    tree = roles(topology, ROOT)
    program = load_program(_package() / "p4src" / "compiled" / f"p4reduce-{LANES}.json")
    text = TextFormat(program, glossary=of_folder(_package() / "p4src"))
    students: dict[str, Student] = {}
    checks: list[Check] = []

    def fresh(name: str) -> Bench:
        return Bench(name, program, students[name].entries, text)

    for role in tree.values():
        path = answers / f"{role.name}.yaml"
        finding = _read(path, program, text, students)
        checks.append(Check(role.name, f"{path.name} can be loaded into a switch", finding is None, finding))
        if finding is None:
            checks += _examine(role, students[role.name], program, text, folder)
    tried = all(check.passed for check in checks)
    checks += examine_network(topology, tree, fresh, tried=tried)
    return Report(LABS[0], str(answers), tuple(checks))


def _examine(role: Role, student: Student, program: Program, text: TextFormat, folder: Path) -> list[Check]:
    packets = packets_folder(folder) / f"{role.name}.txt"

    def look(number: int) -> str:
        return f"p4reduce trace --program {LANES} --entries {student.path} --packet {packets} --only {number}"

    return examine(role, student, lambda: Bench(role.name, program, student.entries, text), look)


def packets_folder(folder: Path) -> Path:
    """The packets beside a student's files, or those of the package."""
    for candidate in (folder / "packets", folder.parent / "packets"):
        if candidate.is_dir():
            return candidate
    return lab_folder(LABS[0]) / "packets"


def _read(path: Path, program: Program, text: TextFormat, students: dict[str, Student]) -> Finding | None:
    """Loads a file and tries it on a switch; what is wrong with it, or None."""
    todos = _todos(path)
    if todos:
        lines = ", ".join(str(line) for line in todos[:8]) + (", ..." if len(todos) > 8 else "")
        said = f"{len(todos)} lines still say TODO (that is how the lab begins): fill them in, see README.md"
        return Finding(said, f"{path}, line {lines}")
    try:
        entries: Entries = load_entries(path, program)
        Bench(path.stem, program, entries, text)
    except EntriesError as error:
        return Finding(str(error))
    for group, replicas in entries.groups.items():
        if len(replicas) > MOST_COPIES:
            said = f"multicast group {group} makes {len(replicas)} copies; one for each child is enough"
            return Finding(said, f"{path}: multicast")
    students[path.stem] = Student(path, entries)
    return None


def _todos(path: Path) -> list[int]:
    """Lines that still say TODO outside comments; none where the file cannot be read, which is told elsewhere."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [number for number, line in enumerate(lines, start=1) if re.search(r"\bTODO\b", line.partition("#")[0])]


def _package() -> Path:
    return Path(str(importlib.resources.files("p4reduce")))
