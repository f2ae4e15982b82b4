"""Solutions of the labs, the mistakes that their graders must explain, and READMEs as lists of commands."""

import shutil
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from p4reduce_course.catalogue import find
from p4reduce_course.frame.grading import copy_lab, grade
from p4reduce_course.frame.lab import EXAMPLE

SOLUTIONS = Path(__file__).parent / "solutions"


@dataclass(frozen=True)
class Mutant:
    """A mistake: a place of the solution changed, and the words that the grader must say.

    ``part``: where they are said; None: anywhere. ``also``: further places of the file.
    """

    name: str
    file: str
    old: str
    new: str
    words: tuple[str, ...]
    part: str | None = None
    also: tuple[tuple[str, str], ...] = ()


def solved(number: str, target: Path) -> Path:
    """A copy of a lab for the student of the published solutions, with the solution in its skeleton."""
    copy_lab(find(number), EXAMPLE, target)
    shutil.copytree(SOLUTIONS / number, target / "skeleton", dirs_exist_ok=True)
    return target


def mutants(number: str) -> list[Mutant]:
    """The mistakes of a lab."""
    found: list[Mutant] = import_module(f"tests.support.labs.mutants_{number}").MUTANTS
    return found


def spoilt(number: str, mutant: Mutant, target: Path) -> Path:
    """The solution with a mistake in it."""
    solved(number, target)
    path = target / "skeleton" / mutant.file
    text = path.read_text()
    assert mutant.old in text, f"{mutant.old!r} is not in {path.name}"
    text = text.replace(mutant.old, mutant.new, 1)
    for old, new in mutant.also:
        assert old in text, f"{old!r} is not in {path.name}"
        text = text.replace(old, new, 1)
    path.write_text(text)
    return target


def explained(number: str, mutant: Mutant, target: Path) -> None:
    """The grader does not pass the mistake, and says what it must say of it, in the part where it must."""
    report = grade(spoilt(number, mutant, target), only=() if mutant.part is None else [mutant.part])
    assert not report.passed, f"{mutant.name}: passed"
    findings = [c for c in report.checks if c.finding is not None and mutant.part in (None, c.subject)]
    texts = [check.finding.text for check in findings]
    assert any(all(word in text for word in mutant.words) for text in texts), f"{mutant.name}: {texts}"
