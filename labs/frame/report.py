"""What a grader says: checks with points, in parts that can be graded alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


class LabError(ValueError):
    """A lab or a folder that does not exist; the text says what to do."""


def _printable(text: str) -> str:
    """The text with control characters and lone surrogates as Python writes them."""
    return "".join(one if one.isprintable() or one in "\n\t" else ascii(one)[1:-1] for one in text)


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a check failed.

    Attributes:
        said: what happened and what would be right.
        where: file, line, table and entry.
        look: a command that shows it.
    """

    said: str
    where: str = ""
    look: str = ""

    def __post_init__(self) -> None:
        """What students' code says is in it: nothing that a terminal or an encoding would stumble over stays."""
        for name in ("said", "where", "look"):
            object.__setattr__(self, name, _printable(getattr(self, name)))

    @property
    def text(self) -> str:
        """All of it, a line for each part."""
        named = (("", self.said), ("where: ", self.where), ("look: ", self.look))
        return "\n".join(f"{label}{text}" for label, text in named if text)


class Wrong(Exception):
    """Raised by a check: what is wrong in the student's work."""

    def __init__(self, said: str, where: str = "", look: str = "") -> None:
        """The same three as of a Finding."""
        super().__init__(said)
        self.finding = Finding(said, where, look)


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        subject: the part of the lab that it belongs to.
        title: what is checked.
        passed: None: not tried, because something before it failed.
        finding: where it failed.
        points: what it is worth; the student has them where it passed.
    """

    subject: str
    title: str
    passed: bool | None
    finding: Finding | None = None
    points: int = 1

    @property
    def scored(self) -> int:
        """Points that the student has of it."""
        return self.points if self.passed else 0


@dataclass(frozen=True)
class Report:
    """All checks of a folder.

    Attributes:
        praise: what passing all of it means.
        notes: what a teacher should know: whose parameters, which digest.
        digest: of what was handed in, without comments, spaces and numbers; empty where all right answers are alike.
    """

    lab: str
    folder: str
    checks: tuple[Check, ...]
    student: str = ""
    praise: str = "all checks hold"
    notes: tuple[str, ...] = ()
    digest: str = ""
    sandbox: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether everything is right."""
        return all(check.passed for check in self.checks)

    @property
    def points(self) -> int:
        """What the student has."""
        return sum(check.scored for check in self.checks)

    @property
    def most(self) -> int:
        """What there was to have."""
        return sum(check.points for check in self.checks)

    @property
    def parts(self) -> list[str]:
        """Parts in the order of their checks."""
        return list(dict.fromkeys(check.subject for check in self.checks))

    def part(self, name: str) -> tuple[int, int]:
        """Points had and points to have of a part."""
        mine = [check for check in self.checks if check.subject == name]
        return sum(check.scored for check in mine), sum(check.points for check in mine)

    def data(self) -> dict[str, Any]:
        """The report for ``--json``."""
        checks = [
            {
                "subject": check.subject,
                "title": check.title,
                "passed": check.passed,
                "points": check.scored,
                "max_points": check.points,
                "finding": None
                if check.finding is None
                else {"said": check.finding.said, "where": check.finding.where, "look": check.finding.look},
            }
            for check in self.checks
        ]
        parts = {name: dict(zip(("points", "max_points"), self.part(name), strict=True)) for name in self.parts}
        return {
            "lab": self.lab,
            "folder": self.folder,
            "student": self.student,
            "passed": self.passed,
            "points": self.points,
            "max_points": self.most,
            "parts": parts,
            "checks": checks,
            "notes": list(self.notes),
            "digest": self.digest,
            "sandbox": list(self.sandbox),
        }


def shared_out(points: int, checks: Iterable[Check]) -> list[Check]:
    """The checks of a part with its points shared out between them, the earlier ones get what is left over."""
    listed = list(checks)
    each, over = divmod(points, max(1, len(listed)))
    return [Check(c.subject, c.title, c.passed, c.finding, each + (number < over)) for number, c in enumerate(listed)]
