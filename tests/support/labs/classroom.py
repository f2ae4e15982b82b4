"""Grade a class in parallel without a false verdict: ``python -m tests.support.labs.classroom``.

All ten labs, each submission with its student's numbers: correct ones, mistakes of the tables, skeletons, attacks. The
verdict of each is known beforehand. The class is graded again with another number of processes: the reports must be
identical, and student code may leave nothing behind.
"""

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from p4reduce_course.catalogue import NAMES, find
from p4reduce_course.frame.cohort import Graded, Terms, grade_all
from p4reduce_course.frame.grading import copy_lab
from p4reduce_course.frame.lab import EXAMPLE, Lab, personal, solved
from p4reduce_course.lab01.grade import QUESTIONS
from p4reduce_course.lab02 import Layout
from tests.support.labs import SOLUTIONS, Mutant, mutants

SEED = b"a seed of the class"
STOLEN = str(Path(tempfile.gettempdir()) / "p4reduce-stolen")
PYTHON = {
    "loops for ever": ("while True: pass", "processor time"),
    "prints for ever": ("while True: print('x' * 999)", "printed more than"),
    "forks": ("import os\nwhile True: os.fork()", "PermissionError"),
    "writes outside": (f"open({STOLEN!r}, 'w')", "PermissionError"),
    "imports what is not there": ("import tensorflou", "ModuleNotFoundError"),
    "asks the network": ("import socket\nsocket.create_connection(('127.0.0.1', 9))", "PermissionError"),
    "takes all memory": ("x = bytes(8 << 30)", "MemoryError"),
    "kills its parent": ("import os\nos.kill(os.getppid(), 9)", "PermissionError"),
    "reads the grader": ("import os\nopen(f'/proc/{os.getppid()}/environ').read()", "PermissionError"),
    "exits": ("import os\nos._exit(0)", "ended its process"),
}
P4 = {
    "includes a file": ('#include "/etc/passwd"\n', "include nothing but"),
    "is huge": ("// x\n" * 20_000, "has more than"),
}
YAML = {
    "a bomb of aliases": ("a: &a [x, x]\nb: [*a, *a]\n", "aliases"),
    "runs code": ("!!python/object/apply:os.system ['touch " + STOLEN + "']\n", ""),
}
ATTACKS = {".py": PYTHON, ".p4": P4, ".yaml": YAML}
_CONSTANT = re.compile(r"^(?:const\s+\S+\s+)?([A-Z][A-Z_]*) = .*$", re.MULTILINE)
_CHOSEN = {"BUCKET"}
"""constants that students choose"""


def for_student(text: str, name: str, lab: Lab, student: str, given: str) -> str:
    """A solution's file, or a wrong one, with a student's numbers in the place of the published ones.

    ``given``: the file as the student got it.
    """
    draws = personal(lab.name, student)
    mine = {found[1]: found[0] for found in _CONSTANT.finditer(given) if found[1] not in _CHOSEN}
    text = _CONSTANT.sub(lambda found: mine.get(found[1], found[0]), text)
    if name.endswith(".yaml"):
        numbers = lab.parameters(draws)
        return re.sub(r"\bjob: \d+, epoch: \d+", f"job: {numbers['job']}, epoch: {numbers['epoch']}", text)
    if lab.number == "02":
        there, here = (Layout.of(personal(lab.name, who)) for who in (EXAMPLE, student))
        fields = [f"    bit<{bits}> {field};\n" for field, bits in here.fields]
        listed = iter(fields)
        text = re.sub(r"    bit<\d+> (?:seq|hops|flags|kind|worker);\n", lambda at: next(listed, at[0]), text)
        ports = {there.other_port: here.other_port, there.hop_port: here.hop_port}
        text = re.sub(r"egress_spec = (\d+);", lambda at: f"egress_spec = {ports.get(int(at[1]), at[1])};", text)
    return text


@dataclass(frozen=True)
class Work:
    """What a student hands in.

    Attributes:
        kind: in a word.
        word: of the verdict; empty: any word.
        passes: whether all of it is right.
    """

    kind: str
    files: dict[str, str]
    word: str = ""
    passes: bool = False


def right(lab: Lab, student: str, folder: Path) -> dict[str, str]:
    """The solution for a student whose copy of the lab lies in a folder."""
    found = {}
    for name in lab.files:
        given = (folder / "skeleton" / name).read_text()
        if name == "answers.yaml":
            found[name] = solved(given, QUESTIONS, personal(lab.name, student))
        else:
            found[name] = for_student((SOLUTIONS / lab.number / name).read_text(), name, lab, student, given)
    return found


def spoilt(lab: Lab, student: str, folder: Path, mutant: Mutant) -> dict[str, str] | None:
    """The same with a mistake; None where the student's own numbers are in its place."""
    text = (SOLUTIONS / lab.number / mutant.file).read_text()
    for old, new in ((mutant.old, mutant.new), *mutant.also):
        text = text.replace(old, new, 1)
    found = right(lab, student, folder)
    given = (folder / "skeleton" / mutant.file).read_text()
    wrong = text if mutant.file == "answers.yaml" else for_student(text, mutant.file, lab, student, given)
    return None if wrong == found[mutant.file] else {**found, mutant.file: wrong}


def works(lab: Lab) -> Iterator[Callable[[str, Path], Work]]:
    """One kind of submission after the other, for ever: four right ones, three mistakes, a skeleton, two attacks."""
    wrong = [one for one in mutants(lab.number) if "answers" not in one.file]
    target = {"01": "leaf1.yaml", "05": "worker.py"}.get(lab.number, lab.files[0])
    attacks = list(ATTACKS[Path(target).suffix].items())
    place = int(lab.number)

    def solution(student: str, folder: Path) -> Work:
        return Work("right", right(lab, student, folder), passes=True)

    def mistake(at: int) -> Callable[[str, Path], Work]:
        def make(student: str, folder: Path) -> Work:
            for number in range(at, at + len(wrong)):
                mutant = wrong[number % len(wrong)]
                files = spoilt(lab, student, folder, mutant)
                if files is not None:
                    # Words with numbers in them are of the published solution's.
                    word = next((word for word in mutant.words if not re.search(r"\d", word)), "")
                    return Work(f"mistake: {mutant.name}", files, word)
            raise AssertionError(lab.name)

        return make

    def skeleton(student: str, folder: Path) -> Work:
        return Work("skeleton", {}, "that is how the lab begins")

    def attack(at: int) -> Callable[[str, Path], Work]:
        def make(student: str, folder: Path) -> Work:
            name, (text, word) = attacks[at % len(attacks)]
            return Work(f"attack: {name}", {**right(lab, student, folder), target: text + "\n"}, word)

        return make

    while True:
        yield from (solution, mistake(3 * place), attack(2 * place), solution, mistake(3 * place + 1))
        yield from (solution, attack(2 * place + 1), mistake(3 * place + 2), solution, skeleton)
        place += 10


def hand_in(folder: Path, students: int) -> dict[str, Work]:
    """A class's submissions: a lab after the other."""
    labs = {number: find(number) for number in NAMES}
    kinds = {number: works(lab) for number, lab in labs.items()}
    found = {}
    for count in range(students):
        number = list(NAMES)[count % len(NAMES)]
        student = f"student{count:03}"
        copy_lab(labs[number], student, folder / student)
        found[student] = next(kinds[number])(student, folder / student)
        for name, text in found[student].files.items():
            (folder / student / "skeleton" / name).write_text(text)
    return found


def false_verdict(graded: Graded, work: Work) -> str:
    """What is wrong with a verdict; empty: nothing."""
    report = graded.report
    if report is None:
        return f"no report: {graded.problem}"
    said = " | ".join(check.finding.text for check in report.checks if check.finding is not None)
    if report.passed != work.passes or work.word not in said:
        wanted = "a pass" if work.passes else repr(work.word or "a finding")
        return f"{report.lab}, {work.kind}: expected {wanted}: {said or 'a pass'}"
    if any("published" in note for note in report.notes) and not work.passes:
        return f"{report.lab}, {work.kind}: taken for the published solution"
    return ""


def left_behind(folder: Path) -> list[str]:
    """Processes of students' code that run, files that it wrote, folders that stay."""
    found = [str(path) for path in (Path(STOLEN), *folder.glob("p4reduce-lab-*")) if path.exists()]
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if "p4reduce_course.sandbox.child" in command and str(folder) in command:
            found.append(command.replace("\0", " "))
    return found


def main() -> int:
    """Prints each false verdict; exit code 1 where there is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--students", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    Path(STOLEN).unlink(missing_ok=True)
    problems = []
    with tempfile.TemporaryDirectory() as held:
        temporary = Path(held) / "temporary"
        temporary.mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)  # of students' processes, too
        folder = Path(held) / "submissions"
        handed_in = hand_in(folder, options.students)
        runs = []
        for jobs in (options.jobs, options.jobs + 1):
            began = time.monotonic()

            def told(student: str, done: int, total: int) -> None:
                print(f"\r{done}/{total}", end="", file=sys.stderr, flush=True)

            runs.append(grade_all(folder, Terms(None, SEED), jobs=jobs, told=told))
            print(file=sys.stderr)
            took = time.monotonic() - began
            each = took * jobs / len(runs[-1])
            print(f"{len(runs[-1])} graded by {jobs} processes in {took:.0f} s: {each:.1f} s of a process for each")
        for one, again in zip(*runs, strict=True):
            if said := false_verdict(one, handed_in[one.student]):
                problems.append(f"{one.student}: {said}")
            if _json(one) != _json(again):
                pairs = zip(_json(one).splitlines(), _json(again).splitlines(), strict=False)
                differ = next((pair for pair in pairs if pair[0] != pair[1]), ("more", "lines"))
                problems.append(f"{one.student}: another report the second time: {differ[0]} | {differ[1]}")
        problems += [f"left behind: {what}" for what in left_behind(temporary)]
        if len(runs[0]) != options.students:
            problems.append(f"{len(runs[0])} of {options.students} were graded")
        shutil.rmtree(folder)
    print("\n".join(problems), end="\n" if problems else "")
    kinds = Counter(work.kind.partition(":")[0] for work in handed_in.values())
    print(", ".join(f"{count} x {kind}" for kind, count in kinds.items()))
    print(f"{options.students} submissions to {len(NAMES)} labs, twice: {len(problems)} false verdicts")
    return 1 if problems else 0


def _json(graded: Graded) -> str:
    """The report, a line for each value, without the process whose number an attack has read."""
    found = graded.row() if graded.report is None else graded.report.data()
    return re.sub(r"/proc/\d+/", "/proc/N/", json.dumps(found, sort_keys=True, indent=1))


if __name__ == "__main__":
    sys.exit(main())
