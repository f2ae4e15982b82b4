"""Answers of one word each, in a YAML file: read as texts, compared with what is right."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Final

import yaml

from p4reduce.base.safe_yaml import PlainNodes, one_line
from p4reduce.labs.frame.draws import Draws
from p4reduce.labs.frame.report import Check, Finding

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


def judge(part: str, path: Path, questions: Sequence[Question], draws: Draws) -> Iterator[Check]:
    """One check for each question."""
    found = read_answers(path)
    for question in questions:
        title = f"question {question.key}"
        if isinstance(found, Finding):
            yield Check(part, title, False, found)
            continue
        given = found.get(question.key, "")
        if given.lower() in {answer.lower() for answer in question.answers(draws)}:
            yield Check(part, title, True)
            continue
        said = "is not answered" if given in ("", "TODO") else f"{given[:40]!r} is not right"
        letters = _LETTERS[: len(question.options)]
        if question.options and given not in ("", "TODO") and given.lower() not in tuple(letters):
            said = f"{given[:40]!r} is no letter from {letters[0]} to {letters[-1]}"
        hint = question.hint[:1].upper() + question.hint[1:]
        yield Check(part, title, False, Finding(f"{question.key}: {said}. {hint}", str(path)))
