"""Reports of graders: checks with points, in parts that can be graded alone."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as Xml

from p4reduce.base.errors import BadInput

# Texts of graders.


def counted(number: int, what: str) -> str:
    """Returns a number with its noun: ``1 check``, ``2 checks``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def todo_lines(path: Path) -> list[int]:
    """Returns the lines with TODO outside comments; none if the file cannot be read, which is reported elsewhere."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [number for number, line in enumerate(lines, start=1) if re.search(r"\bTODO\b", line.partition("#")[0])]


class LabError(BadInput, ValueError):
    """A lab or a folder cannot be used; the message says what to do."""


def printable(text: str) -> str:
    """Returns the text with control characters and lone surrogates escaped as in Python."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else ascii(character)[1:-1] for character in text
    )


LOOK: Final = "look"
"""the folder of a lab for the files that the commands of findings read"""
Files = tuple[tuple[str, str], ...]
"""Names and contents of files."""
_LONGEST: Final = 10_000
"""most characters of each part of a finding"""


@dataclass(frozen=True, slots=True)
class Finding:
    """The reason why a check failed.

    Attributes:
        said: what happened, and what would be right.
        where: file, line, table and entry.
        look: a command that shows it.
        files: files that the command reads, by their name in the folder ``look`` of the lab.
    """

    said: str
    where: str = ""
    look: str = ""
    files: Files = ()

    def __post_init__(self) -> None:
        """Limits texts, which may hold output of students' code, to a page and to characters that can be shown."""
        for name in ("said", "where", "look"):
            text = getattr(self, name)
            cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … ({len(text):,} characters)"
            object.__setattr__(self, name, printable(cut))

    @property
    def text(self) -> str:
        """Returns the whole finding, a line for each part."""
        named = (("", self.said), ("where: ", self.where), ("look: ", self.look))
        lines = [f"{label}{text}" for label, text in named if text]
        return "\n".join([*lines, *(f"{LOOK}/{name}:\n{text.rstrip()}" for name, text in self.files)])


class Wrong(Exception):
    """Raised by a check for a mistake in the student's work."""

    def __init__(self, said: str, where: str = "", look: str = "", files: Files = ()) -> None:
        """Takes the fields of a Finding."""
        super().__init__(said)
        self.finding = Finding(said, where, look, files)


class TooSlow(Wrong):
    """Raised by a check that could not be finished because the machine was too busy; the work is not to blame."""

    def __init__(self, problem: str) -> None:
        """Takes what was not finished, as a sentence without its end."""
        super().__init__(f"the machine was too busy: {problem}. This tells nothing about your work. Grade it again")


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        subject: the part of the lab to which it belongs.
        title: what is checked.
        passed: whether it passed; None: not tried, because an earlier check failed.
        finding: the reason for a failure; None if there is none.
        points: the points of a check that passes.
    """

    subject: str
    title: str
    passed: bool | None
    finding: Finding | None = None
    points: int = 1

    @property
    def scored(self) -> int:
        """The points that the student gets for the check."""
        return self.points if self.passed else 0


@dataclass(frozen=True)
class GradeReport:
    """All checks of a folder.

    Attributes:
        praise: text that is shown if all checks pass.
        notes: remarks for the teacher: a copy for another student, ignored files, failures of the grader.
        digest: digest of the submission as `likeness.plain` reduces it; empty if all right answers are alike.
        handed_in: digest of the submission as it is.
    """

    lab: str
    folder: str
    checks: tuple[Check, ...]
    student: str = ""
    praise: str = "all checks hold"
    notes: tuple[str, ...] = ()
    digest: str = ""
    sandbox: tuple[str, ...] = field(default=())
    handed_in: str = ""

    @property
    def passed(self) -> bool:
        """Whether all checks passed."""
        return all(check.passed for check in self.checks)

    @property
    def points(self) -> int:
        """The student's points."""
        return sum(check.scored for check in self.checks)

    @property
    def most(self) -> int:
        """The points of a submission that passes all checks."""
        return sum(check.points for check in self.checks)

    @property
    def parts(self) -> list[str]:
        """Names of the parts, in the order of their checks."""
        return list(dict.fromkeys(check.subject for check in self.checks))

    def part(self, name: str) -> tuple[int, int]:
        """Returns the student's points and the most points of a part."""
        mine = [check for check in self.checks if check.subject == name]
        return sum(check.scored for check in mine), sum(check.points for check in mine)

    def data(self) -> dict[str, Any]:
        """Returns the report for ``--json``."""
        checks = [
            {
                "subject": check.subject,
                "title": check.title,
                "passed": check.passed,
                "points": check.scored,
                "max_points": check.points,
                "finding": None
                if check.finding is None
                else {
                    "said": check.finding.said,
                    "where": check.finding.where,
                    "look": check.finding.look,
                    "files": dict(check.finding.files),
                },
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


def write_looks(folder: Path, report: GradeReport) -> bool:
    """Writes the files of a report's commands into the folder ``look``; returns whether this was possible.

    Submissions are hostile: links are not followed, and existing files are replaced, not written to.
    """
    files = {name: text for check in report.checks if check.finding is not None for name, text in check.finding.files}
    if not files:
        return True
    try:
        with suppress(FileExistsError):
            (folder / LOOK).mkdir()
        within = os.open(folder / LOOK, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        for name, text in files.items():
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=within)
            created = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=within)
            with os.fdopen(created, "w", encoding="utf-8") as file:
                file.write(text)
    except OSError:
        return False
    finally:
        os.close(within)
    return True


def shared_out(points: int, checks: Iterable[Check]) -> list[Check]:
    """Returns the checks of a part with its points shared out; earlier checks get the remainder."""
    listed = list(checks)
    each, over = divmod(points, max(1, len(listed)))
    return [Check(c.subject, c.title, c.passed, c.finding, each + (number < over)) for number, c in enumerate(listed)]


# Gradescope's ``results.json``: https://gradescope-autograders.readthedocs.io/en/latest/specs/.


def gradescope(report: GradeReport) -> str:
    """Returns JSON with one test for each check, numbered within its part."""
    counts: dict[str, int] = {}
    tests: list[dict[str, Any]] = []
    for check in report.checks:
        counts[check.subject] = counts.get(check.subject, 0) + 1
        number = f"{report.parts.index(check.subject) + 1}.{counts[check.subject]}"
        tests.append(
            {
                "name": f"{check.subject}: {check.title}",
                "number": number,
                "score": check.scored,
                "max_score": check.points,
                "status": "passed" if check.passed else "failed",
                "output": said_of(check),
                "visibility": "visible",
            }
        )
    results = {"score": report.points, "stdout_visibility": "hidden", "tests": tests}
    if of_another := [note for note in report.notes if "lab.yaml" in note]:  # the other notes are for teachers
        results["output"] = "\n".join(of_another)
    return json.dumps(results, indent=1) + "\n"


def said_of(check: Check) -> str:
    """Returns why a check failed or was not tried; empty if it passed."""
    if check.finding is not None:
        return check.finding.text
    return "not tried: something before it failed" if check.passed is None else ""


# JUnit's XML: a test suite for each part, a test case for each check.


_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: GradeReport) -> str:
    """Returns JUnit's XML; points are properties of the suites."""
    failed = sum(check.passed is False for check in report.checks)
    root = Xml.Element("testsuites", name=report.lab, tests=str(len(report.checks)), failures=str(failed))
    for part in report.parts:
        mine = [check for check in report.checks if check.subject == part]
        suite = Xml.SubElement(
            root,
            "testsuite",
            name=part,
            tests=str(len(mine)),
            failures=str(sum(c.passed is False for c in mine)),
            skipped=str(sum(c.passed is None for c in mine)),
        )
        properties = Xml.SubElement(suite, "properties")
        for name, value in zip(("points", "max_points"), report.part(part), strict=True):
            Xml.SubElement(properties, "property", name=name, value=str(value))
        for check in mine:
            case = Xml.SubElement(suite, "testcase", classname=f"{report.lab}.{part}", name=check.title)
            text = _NOT_XML.sub("?", said_of(check))
            if check.passed is False:
                Xml.SubElement(case, "failure", message=text.partition("\n")[0]).text = text
            elif check.passed is None:
                Xml.SubElement(case, "skipped", message=text)
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


# CSV: one row for each check of a report, or for each student of a class.


_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def checks_csv(report: GradeReport) -> str:
    """Returns one row for each check."""
    rows = [
        [report.lab, report.student, c.subject, c.title, _state(c.passed), c.scored, c.points, said_of(c)]
        for c in report.checks
    ]
    return as_csv(("lab", "student", "part", "check", "state", "points", "max_points", "said"), rows)


def as_csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a table as CSV; a text that a spreadsheet would take for a formula gets an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        writer.writerow([_harmless(cell) for cell in row])
    return out.getvalue()


def class_csv(parts: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Returns one row for each student."""
    head = ("student", "lab", "points", "max_points", *parts, "passed", "first_failure", "same_as", "note", "attempt")
    head = (*head, "digest")
    return as_csv(head, [[row.get(name, "") for name in head] for row in rows])


def _harmless(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def _state(passed: bool | None) -> str:
    return {True: "passed", False: "failed", None: "not tried"}[passed]
