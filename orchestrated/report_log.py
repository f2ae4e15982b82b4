"""What an executor reports, numbered from 1 on, until whoever asks has kept it."""

from collections.abc import Mapping
from typing import Any, Final

from p4reduce.control_plane.orchestrator.executor import Report, ReportKind

_OFTEN: Final = ("round", "window")
"""kinds that nobody waits for"""


class ReportLog:
    """Reports in their order."""

    def __init__(self) -> None:
        self._kept: list[Report] = []  # from `_forgotten` + 1 on
        self._forgotten = 0
        self.news = 0
        """number of the last report that is not of a round or window"""

    def add(self, at_ps: int, kind: ReportKind, task: str | None, data: Mapping[str, Any]) -> None:
        """One more."""
        number = self._forgotten + len(self._kept) + 1
        self._kept.append(Report(number, at_ps, kind, task, dict(data)))
        if kind not in _OFTEN:
            self.news = number

    def after(self, number: int) -> list[Report]:
        """Those from ``number`` + 1 on; the others are forgotten."""
        known = max(0, number - self._forgotten)
        del self._kept[:known]
        self._forgotten += known
        return list(self._kept)
