"""The root of p4reduce's errors: whoever calls p4reduce catches ``P4ReduceError``."""

from typing import ClassVar

from p4switch.base.errors import ReportedError


class P4ReduceError(ReportedError):
    """Something failed: the network gave up, a prediction was missed, a number did not fit."""


class BadInput(P4ReduceError):
    """Input that cannot be used; the text names the file or the flag, the field and the fix."""

    exit_code: ClassVar[int] = 2


class Failed(P4ReduceError):
    """A run that failed; the text says why."""
