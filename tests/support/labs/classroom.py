"""A class graded beside each other without a false verdict: ``python -m tests.support.labs.classroom --students 100``.

Lab 04 of each student, with the student's own numbers: right ones, every mistake of the table, and attacks. The verdict
of each is known beforehand.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.support.labs import SOLUTIONS, mutants

from p4reduce.labs.catalogue import find
from p4reduce.labs.frame.batch import grade_all
from p4reduce.labs.frame.draws import EXAMPLE, personal
from p4reduce.labs.frame.folders import copy_lab

LAB = find("04")
RIGHT = (SOLUTIONS / "04/quantize.py").read_text()
ATTACKS = {
    "loops for ever": ("while True: pass", "processor time"),
    "prints for ever": ("while True: print('x' * 999)", "printed more than"),
    "forks": ("import os\nwhile True: os.fork()", "PermissionError"),
    "writes outside": ("open('/tmp/p4reduce-stolen', 'w')", "PermissionError"),
    "imports what is not there": ("import tensorflou", "ModuleNotFoundError"),
    "takes all memory": ("x = bytes(8 << 30)", "MemoryError"),
    "kills its parent": ("import os\nos.kill(os.getppid(), 9)", "PermissionError"),
    "reads the grader": ("import os\nopen(f'/proc/{os.getppid()}/environ').read()", "PermissionError"),
    "exits": ("import os\nos._exit(0)", "ended its process"),
}


def limit(student: str) -> str:
    """The student's number."""
    return LAB.parameters(personal(LAB.name, student))["limit"]


def work_of(number: int) -> tuple[str, str]:
    """What a student hands in, and a word of the verdict; empty: all right."""
    kinds = number % 10
    if kinds < 5:
        return RIGHT, ""
    if kinds < 8:
        wrong = [mutant for mutant in mutants("04") if "loops" not in mutant.name]
        mutant = wrong[(number // 10 * 3 + kinds - 5) % len(wrong)]
        text = RIGHT.replace(mutant.old, mutant.new, 1)
        for old, new in mutant.also:
            text = text.replace(old, new, 1)
        return text, mutant.words[0]
    attack, word = list(ATTACKS.values())[(number // 10 * 2 + kinds - 8) % len(ATTACKS)]
    return attack + "\n", word


def main() -> int:
    """Prints each false verdict; exit code 1 where there is one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--students", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    false = 0
    with tempfile.TemporaryDirectory() as held:
        folder = Path(held) / "submissions"
        words = {}
        for number in range(options.students):
            student = f"student{number:03}"
            copy_lab(LAB, student, folder / student)
            text, words[student] = work_of(number)
            text = text.replace(f"LIMIT = {limit(EXAMPLE)}", f"LIMIT = {limit(student)}")
            (folder / student / "skeleton/quantize.py").write_text(text)

        def told(student: str, done: int, total: int) -> None:
            print(f"\r{done}/{total}", end="", file=sys.stderr, flush=True)

        graded = grade_all(folder, lab=None, seed=b"a seed of the class", only=(), jobs=options.jobs, told=told)
        print(file=sys.stderr)
        for one in graded:
            word = words[one.student]
            said = (
                "no report"
                if one.report is None
                else " | ".join(check.finding.text for check in one.report.checks if check.finding is not None)
            )
            passed = one.report is not None and one.report.passed
            if passed != (not word) or word not in said:
                false += 1
                print(f"{one.student}: expected {word or 'a pass'!r}: {said or one.problem}")
            if one.report is not None and "published" in " ".join(one.report.notes) and word:
                false += 1
                print(f"{one.student}: taken for the published solution")
    print(f"{len(graded)} graded, {false} false verdicts")
    return 1 if false or len(graded) != options.students else 0


if __name__ == "__main__":
    sys.exit(main())
