"""The description of a lab for its grader, and one grading task."""

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

from p4reduce_course.frame.report import Check, Finding, TooSlow, Wrong
from p4switch.base.safe_yaml import PlainNodes
from p4switch.base.values import one_line

# Parameters that follow from a student's name, and inputs that follow from a seed that students do not know.


EXAMPLE: Final = "example"
"""The student of the published solutions."""
PRACTICE: Final = b"practice"
"""The public seed, with which students grade themselves."""

T = TypeVar("T")


@dataclass(frozen=True)
class Draws:
    """Named draws: a name always gives the same number, and no number reveals another.

    Attributes:
        key: the key of HMAC-SHA-256.
    """

    key: bytes

    def _digest(self, name: str) -> bytes:
        return hmac.new(self.key, name.encode(), hashlib.sha256).digest()

    def integer(self, name: str, low: int, high: int) -> int:
        """Returns a number in low..high, both included."""
        return low + int.from_bytes(self._digest(name), "big") % (high - low + 1)

    def choice(self, name: str, options: Sequence[T]) -> T:
        """Returns one of the options."""
        return options[self.integer(name, 0, len(options) - 1)]

    def shuffled(self, name: str, items: Sequence[T]) -> list[T]:
        """Returns the items in a drawn order."""
        return [items[int(number)] for number in self.generator(name).permutation(len(items))]

    def generator(self, name: str) -> np.random.Generator:
        """Returns a generator of random numbers."""
        return np.random.default_rng(int.from_bytes(self._digest(name), "big"))


def personal(lab: str, student: str) -> Draws:
    """Returns the draws of a student's parameters, which follow from the public names of lab and student."""
    return Draws(hashlib.sha256(f"p4reduce lab\0{lab}\0{student}".encode()).digest())


def hidden(lab: str, student: str, seed: bytes) -> Draws:
    """Returns the draws of the inputs that a grader tries, which cannot be computed without the seed."""
    return Draws(hmac.new(seed, f"{lab}\0{student}".encode(), hashlib.sha256).digest())


SKELETON: Final = "skeleton"


@dataclass(frozen=True)
class LabPart:
    """A part of a lab that can be graded alone; its checks share its ``points``."""

    name: str
    title: str
    points: int


@dataclass(frozen=True)
class GradingTask:
    """A folder to be graded.

    Attributes:
        answers: folder of the student's files.
        folder: the submission.
        student: the student whose parameters apply.
        personal, hidden: draws that students know, and draws that need the seed.
        only: the requested parts; parts that they do not need may be missing.
        explain: whether failures are explained; if not, grading ends with the first failure.
        seen: ways in which student code was confined, for the report.
        failures: checks in which the grader itself failed, for the notes.
    """

    lab: Lab
    answers: Path
    folder: Path
    student: str
    personal: Draws
    hidden: Draws
    only: frozenset[str]
    explain: bool = True
    seen: dict[str, None] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @property
    def parameters(self) -> Mapping[str, str]:
        """The parameters in this student's README, by name."""
        return self.lab.parameters(self.personal)


@dataclass(frozen=True)
class LabStep:
    """A check to run.

    Attributes:
        run: raises Wrong if the work is wrong.
        gate: if it fails, later checks are not tried.
    """

    part: str
    title: str
    run: Callable[[], None]
    gate: bool = False


@dataclass(frozen=True)
class Lab:
    """A lab.

    Attributes:
        number, name: ``02`` and ``02-a-header-of-your-own``, the name of the lab's folder.
        files: files that a student hands in; the first one identifies the lab of a folder.
        grade: yields the checks, without points.
        parameters: returns the values of ``{{name}}`` in README and skeleton.
        made: returns further files of a copy: texts by path.
        praise: text for a report in which all checks pass.
        alike: whether all correct answers are the same text, so that equal submissions mean nothing.
        home: folder of the lab; None: it is in this package.
    """

    number: str
    name: str
    title: str
    minutes: int
    parts: tuple[LabPart, ...]
    files: tuple[str, ...]
    grade: Callable[[GradingTask], Iterable[Check]]
    praise: str
    parameters: Callable[[Draws], Mapping[str, str]] = lambda _: {}
    made: Callable[[Draws], Mapping[str, str]] = lambda _: {}
    alike: bool = False
    home: Path | None = None


def failure(error: Exception) -> Finding:
    """Returns the finding of a check in which the grader itself failed."""
    problem = f"the grader failed at this check, which is not your fault: {type(error).__name__}: {error}"
    return Finding(f"{problem}. Tell your teacher")


def run_steps(task: GradingTask, steps: Sequence[LabStep]) -> Iterator[Check]:
    """Runs checks in order; checks after a failed gate or outside the requested parts are marked as not tried."""
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
            if isinstance(wrong, TooSlow):
                task.failures.append(f"'{step.title}' was not finished: {finding.said}")
        except Exception as error:  # a bug of the grader costs only this check, and is reported
            finding = failure(error)
            task.failures.append(f"the grader failed at '{step.title}': {type(error).__name__}: {error}")
        shut = step.gate and finding is not None
        yield Check(step.part, step.title, finding is None, finding)


# Answers of one word each, in a YAML file: read as texts, compared with the right ones.


_LIMIT: Final = 1 << 16
"""most bytes of a file of answers"""
_LONGEST: Final = 100
"""most characters of an answer that may be a number; Python refuses to convert thousands of digits"""
_COLUMNS: Final = 80
_LETTERS: Final = "abcdef"


class _Loader(PlainNodes, yaml.BaseLoader):
    """Loads texts only."""


@dataclass(frozen=True)
class Question:
    """A question with an answer of one word.

    Attributes:
        key: name of the answer in the file.
        asked: the question, in lines above the answer.
        right: the right answers, any of which counts.
        hint: where to find the answer; shown for a wrong one.
        options: answers to choose from, the right one first; ``right`` is not used then.
    """

    key: str
    asked: str
    right: Sequence[str] = ()
    hint: str = ""
    options: Sequence[str] = ()

    def in_order(self, draws: Draws) -> list[str]:
        """Returns the options in this student's order."""
        return draws.shuffled(f"question {self.key}", list(self.options))

    def answers(self, draws: Draws) -> set[str]:
        """Returns the right answers for this student."""
        if self.options:
            return {_LETTERS[self.in_order(draws).index(self.options[0])]}
        return set(self.right)


def sheet(head: str, questions: Sequence[Question], draws: Draws) -> str:
    """Returns the file that a student fills in."""
    lines = [f"# {head}"]
    for question in questions:
        lines += ["", *wrap(question.asked, _COLUMNS, initial_indent="# ", subsequent_indent="# ")]
        for letter, text in zip(_LETTERS, question.in_order(draws), strict=False):
            lines += wrap(f"{letter}) {text}", _COLUMNS, initial_indent="#   ", subsequent_indent="#      ")
        lines.append(f"{question.key}: TODO")
    return "\n".join(lines) + "\n"


def solved(text: str, questions: Sequence[Question], draws: Draws) -> str:
    """Returns a correctly filled-in file."""
    for question in questions:
        text = text.replace(f"{question.key}: TODO", f"{question.key}: {sorted(question.answers(draws))[0]}")
    return text


def read_answers(path: Path) -> Mapping[str, str] | Finding:
    """Returns texts by name, or what is wrong with the file."""
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
    """Returns an answer without additions, ``b)`` as ``b``; a number, in any notation, as a decimal."""
    word = answer.strip().strip("\"'`.()").strip().lower()
    if len(word) > _LONGEST:
        return word
    try:
        return str(int(word, 0))
    except ValueError:
        return str(int(word)) if word.isdecimal() else word


def judge(part: str, path: Path, questions: Sequence[Question], draws: Draws) -> Iterator[Check]:
    """Yields one check for each question."""
    answers = read_answers(path)
    for question in questions:
        title = f"question {question.key}"
        if isinstance(answers, Finding):
            yield Check(part, title, False, answers)
            continue
        given = answers.get(question.key, "")
        if _meant(given) in {_meant(answer) for answer in question.answers(draws)}:
            yield Check(part, title, True)
            continue
        problem = "is not answered" if given in ("", "TODO") else f"{given[:40]!r} is not right"
        letters = _LETTERS[: len(question.options)]
        if question.options and given not in ("", "TODO") and _meant(given) not in tuple(letters):
            problem = f"{given[:40]!r} is no letter from {letters[0]} to {letters[-1]}"
        hint = question.hint[:1].upper() + question.hint[1:]
        yield Check(part, title, False, Finding(f"{question.key}: {problem}. {hint}", str(path)))
