"""A lab as its grader describes it, and one task of grading it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from p4reduce.labs.frame.draws import Draws
from p4reduce.labs.frame.report import Check, Finding, Wrong

SKELETON: Final = "skeleton"


@dataclass(frozen=True)
class Part:
    """A part that can be graded alone; ``points`` are shared out between its checks."""

    name: str
    title: str
    points: int


@dataclass(frozen=True)
class Task:
    """One folder to be graded.

    Attributes:
        answers: where the student's files are.
        folder: what was handed in.
        student: whose parameters hold.
        personal, hidden: draws that the student knows, and draws that only who has the seed knows.
        only: parts that are asked for; what the others need need not be done.
        seen: ways in which student code was confined, for the report.
    """

    lab: Lab
    answers: Path
    folder: Path
    student: str
    personal: Draws
    hidden: Draws
    only: frozenset[str]
    seen: dict[str, None] = field(default_factory=dict)

    @property
    def parameters(self) -> Mapping[str, str]:
        """What stands in this student's README, by name."""
        return self.lab.parameters(self.personal)


@dataclass(frozen=True)
class Step:
    """A check to be run.

    Attributes:
        run: raises Wrong where the work is wrong.
        gate: where it fails, what follows is not tried.
    """

    part: str
    title: str
    run: Callable[[], None]
    gate: bool = False


@dataclass(frozen=True)
class Lab:
    """A lab.

    Attributes:
        number, name: ``02`` and ``02-a-header-of-your-own``, the name of its folder.
        files: what a student hands in; the first names the folder's kind.
        grade: gives the checks, without points.
        parameters: what ``{{name}}`` in README and skeleton stands for.
        made: further files of a copy, by path, and what is in them.
        praise: what it means that all of it passes.
        alike: all right answers are the same text, so that equal ones say nothing.
        home: its folder; None: in this package.
    """

    number: str
    name: str
    title: str
    minutes: int
    parts: tuple[Part, ...]
    files: tuple[str, ...]
    grade: Callable[[Task], Iterable[Check]]
    praise: str
    parameters: Callable[[Draws], Mapping[str, str]] = lambda _: {}
    made: Callable[[Draws], Mapping[str, str]] = lambda _: {}
    alike: bool = False
    home: Path | None = None


def run_steps(task: Task, steps: Sequence[Step]) -> Iterator[Check]:
    """Runs checks one after the other; behind a gate that fails, and of parts nobody asked for, none."""
    shut = False
    for step in steps:
        if shut or (step.part not in task.only and not step.gate):
            yield Check(step.part, step.title, None)
            continue
        finding: Finding | None = None
        try:
            step.run()
        except Wrong as wrong:
            finding = wrong.finding
        shut = step.gate and finding is not None
        yield Check(step.part, step.title, finding is None, finding)
