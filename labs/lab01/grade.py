"""Grading a folder of lab 01: three files of entries, three switches, four workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from p4reduce.dataplane.model import Program, load_program
from p4reduce.dataplane.trace.entries import Entries, load_entries
from p4reduce.dataplane.trace.entries_yaml import EntriesError
from p4reduce.dataplane.trace.glossary import of_folder
from p4reduce.dataplane.trace.to_text import TextFormat
from p4reduce.labs import catalogue
from p4reduce.labs.frame.lab import Task
from p4reduce.labs.frame.report import Check, Finding
from p4reduce.labs.frame.text import counted, todo_lines
from p4reduce.labs.lab01.bench import Bench, Student
from p4reduce.labs.lab01.colleague import NAME, job_of
from p4reduce.labs.lab01.network_checks import examine_network
from p4reduce.labs.lab01.questions import ANSWERS, questions
from p4reduce.labs.lab01.switch_checks import examine, titles
from p4reduce.labs.lab01.tree import LANES, Role, roles
from p4reduce.topologies.files import load

__all__ = ["NAME", "ROOT", "grade", "job_of", "packets_folder"]

ROOT: Final = "root"
MOST_COPIES: Final = 64
"""of one multicast group: grading must not take for ever, whatever a file says"""


def grade(task: Task) -> Iterator[Check]:
    """Everything that is checked, in the order in which one would repair it."""
    topology = load(catalogue.home(task.lab) / "network.yaml")
    job, epoch = job_of(task.personal)
    tree = roles(topology, ROOT, job, epoch)
    program = load_program(catalogue.package() / "p4src" / "compiled" / f"p4reduce-{LANES}.json")
    text = TextFormat(program, glossary=of_folder(catalogue.package() / "p4src"))
    students: dict[str, Student] = {}
    right = True

    def fresh(name: str) -> Bench:
        return Bench(name, program, students[name].entries, text)

    for role in tree.values():
        if not task.only & {role.name, "network"}:
            continue
        path = task.answers / f"{role.name}.yaml"
        finding = _read(path, program, text, students, role)
        yield Check(role.name, f"{path.name} can be loaded into a switch", finding is None, finding)
        right = right and finding is None
        for check in _examine(role, students.get(role.name), program, text, task.folder):
            yield check
            right = right and check.passed is True
    if "network" in task.only:
        yield from examine_network(topology, tree, fresh, tried=right)
    if "questions" in task.only:
        yield from questions(task.answers / ANSWERS, task.personal)


def _examine(role: Role, student: Student | None, program: Program, text: TextFormat, folder: Path) -> list[Check]:
    if student is None:
        return [Check(role.name, title, None) for title in titles(role)]
    packets = packets_folder(folder) / f"{role.name}.txt"

    def look(number: int) -> str:
        return f"p4reduce trace --program {LANES} --entries {student.path} --packet {packets} --only {number}"

    return examine(role, student, lambda: Bench(role.name, program, student.entries, text), look)


def packets_folder(folder: Path) -> Path:
    """The packets beside a student's files."""
    return next((path for path in (folder / "packets", folder.parent / "packets") if path.is_dir()), Path("packets"))


def _read(path: Path, program: Program, text: TextFormat, students: dict[str, Student], role: Role) -> Finding | None:
    """Loads a file and tries it on a switch; what is wrong with it, or None."""
    todos = todo_lines(path)
    if todos:
        lines = ", ".join(str(line) for line in todos[:8]) + (", ..." if len(todos) > 8 else "")
        still = "still says" if len(todos) == 1 else "still say"
        said = f"{counted(len(todos), 'line')} {still} TODO (that is how the lab begins): fill them in, see README.md"
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
    students[path.stem] = Student(path, entries, role.job, role.epoch)
    return None
