"""A lab as its grader describes it, and one task of grading it."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import Final, TypeVar

import numpy as np
import yaml

from p4reduce_course.frame.report import Check, Finding, Wrong
from p4switch.base.safe_yaml import PlainNodes, one_line

# Parameters that follow from a student's name, and inputs that follow from a seed which students do not have.


EXAMPLE: Final = "example"
"""The student for whom the published solutions are."""
PRACTICE: Final = b"practice"
"""The seed that everybody knows: students grade themselves with it."""

T = TypeVar("T")


@dataclass(frozen=True)
class Draws:
    """Named draws: the same name gives the same number, and no number tells another one.

    Attributes:
        key: HMAC-SHA-256's.
    """

    key: bytes

    def _digest(self, name: str) -> bytes:
        return hmac.new(self.key, name.encode(), hashlib.sha256).digest()

    def integer(self, name: str, low: int, high: int) -> int:
        """A number in low..high, both included."""
        return low + int.from_bytes(self._digest(name), "big") % (high - low + 1)

    def choice(self, name: str, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.integer(name, 0, len(options) - 1)]

    def shuffled(self, name: str, items: Sequence[T]) -> list[T]:
        """The items in another order."""
        return [items[int(number)] for number in self.generator(name).permutation(len(items))]

    def generator(self, name: str) -> np.random.Generator:
        """A generator of random numbers."""
        return np.random.default_rng(int.from_bytes(self._digest(name), "big"))


def personal(lab: str, student: str) -> Draws:
    """What a student's lab looks like: everybody can work it out, nobody can choose it."""
    return Draws(hashlib.sha256(f"p4reduce lab\0{lab}\0{student}".encode()).digest())


def hidden(lab: str, student: str, seed: bytes) -> Draws:
    """What a grader tries: nobody can work it out without the seed."""
    return Draws(hmac.new(seed, f"{lab}\0{student}".encode(), hashlib.sha256).digest())


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
        failures: checks at which the grader itself failed, for the notes.
    """

    lab: Lab
    answers: Path
    folder: Path
    student: str
    personal: Draws
    hidden: Draws
    only: frozenset[str]
    seen: dict[str, None] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

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


def failure(error: Exception) -> Finding:
    """What is said of a check at which the grader itself failed."""
    said = f"the grader failed at this check, which is not your fault: {type(error).__name__}: {error}"
    return Finding(f"{said}. Tell your teacher")


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
        except Exception as error:  # of the grader: it costs this check, which is told, and nothing else
            finding = failure(error)
            task.failures.append(f"the grader failed at '{step.title}': {type(error).__name__}: {error}")
        shut = step.gate and finding is not None
        yield Check(step.part, step.title, finding is None, finding)


# Answers of one word each, in a YAML file: read as texts, compared with what is right.


_LIMIT: Final = 1 << 16
"""bytes"""
_COLUMNS: Final = 80
_LETTERS: Final = "abcdef"


class _Loader(PlainNodes, yaml.BaseLoader):
    """Texts only."""


@dataclass(frozen=True)
class Question:
    """A question.

    Attributes:
        key: of the answer in the file.
        asked: what stands above it, in lines.
        right: any of them.
        hint: where the answer is to be found; what is said to a wrong one.
        options: to choose from, the right one first; then ``right`` is not looked at.
    """

    key: str
    asked: str
    right: Sequence[str] = ()
    hint: str = ""
    options: Sequence[str] = ()

    def in_order(self, draws: Draws) -> list[str]:
        """The options as this student sees them."""
        return draws.shuffled(f"question {self.key}", list(self.options))

    def answers(self, draws: Draws) -> set[str]:
        """What is right for this student."""
        if self.options:
            return {_LETTERS[self.in_order(draws).index(self.options[0])]}
        return set(self.right)


def sheet(head: str, questions: Sequence[Question], draws: Draws) -> str:
    """The file that a student fills in."""
    lines = [f"# {head}"]
    for question in questions:
        lines += ["", *wrap(question.asked, _COLUMNS, initial_indent="# ", subsequent_indent="# ")]
        for letter, text in zip(_LETTERS, question.in_order(draws), strict=False):
            lines += wrap(f"{letter}) {text}", _COLUMNS, initial_indent="#   ", subsequent_indent="#      ")
        lines.append(f"{question.key}: TODO")
    return "\n".join(lines) + "\n"


def solved(text: str, questions: Sequence[Question], draws: Draws) -> str:
    """The same, filled in right."""
    for question in questions:
        text = text.replace(f"{question.key}: TODO", f"{question.key}: {sorted(question.answers(draws))[0]}")
    return text


def read_answers(path: Path) -> Mapping[str, str] | Finding:
    """Texts by name, or what is wrong with the file."""
    try:
        if path.stat().st_size > _LIMIT:
            return Finding(f"{path.name} has more than {_LIMIT} bytes: this is no sheet of answers", str(path))
        data = yaml.load(path.read_text("utf-8"), _Loader)  # noqa: S506  (texts only)
    except yaml.YAMLError as error:
        return Finding(f"{path.name} is not YAML: {one_line(error)}", str(path))
    except (OSError, UnicodeDecodeError) as error:
        return Finding(f"{path.name} cannot be read: {error}", str(path))
    if not isinstance(data, dict):
        return Finding(f"{path.name}: expected 'name: answer' on each line", str(path))
    return {str(k): v.strip() if isinstance(v, str) else str(v) for k, v in data.items()}


def _meant(answer: str) -> str:
    """An answer without what may be written around it, ``b)`` for ``b``; a number, in any notation, as a decimal."""
    word = answer.strip().strip("\"'`.()").strip().lower()
    try:
        return str(int(word, 0))
    except ValueError:
        return str(int(word)) if word.isdecimal() else word


def judge(part: str, path: Path, questions: Sequence[Question], draws: Draws) -> Iterator[Check]:
    """One check for each question."""
    found = read_answers(path)
    for question in questions:
        title = f"question {question.key}"
        if isinstance(found, Finding):
            yield Check(part, title, False, found)
            continue
        given = found.get(question.key, "")
        if _meant(given) in {_meant(answer) for answer in question.answers(draws)}:
            yield Check(part, title, True)
            continue
        said = "is not answered" if given in ("", "TODO") else f"{given[:40]!r} is not right"
        letters = _LETTERS[: len(question.options)]
        if question.options and given not in ("", "TODO") and _meant(given) not in tuple(letters):
            said = f"{given[:40]!r} is no letter from {letters[0]} to {letters[-1]}"
        hint = question.hint[:1].upper() + question.hint[1:]
        yield Check(part, title, False, Finding(f"{question.key}: {said}. {hint}", str(path)))
