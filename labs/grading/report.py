"""What a grader says."""

from dataclasses import dataclass


class LabError(ValueError):
    """A lab or a folder that does not exist; the text says what to do."""


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


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        subject: a switch, or ``network``.
        title: what is checked.
        passed: None: not tried, because something before it failed.
        finding: where it failed.
    """

    subject: str
    title: str
    passed: bool | None
    finding: Finding | None = None


@dataclass(frozen=True)
class Report:
    """All checks of a folder."""

    lab: str
    folder: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether everything is right."""
        return all(check.passed for check in self.checks)
