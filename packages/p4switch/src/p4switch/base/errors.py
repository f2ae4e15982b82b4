"""The root of all errors that are reported to the user in one line."""

from typing import ClassVar


class ReportedError(Exception):
    """An error that a user can cause or must know of; its message says what is wrong, where, and what to do.

    Commands print it in one line and end with ``exit_code``: 1 for something that failed, 2 for input that cannot be
    used. Any other exception is a bug and keeps its traceback.
    """

    exit_code: ClassVar[int] = 1


class InputError(ReportedError):
    """Input that cannot be used."""

    exit_code: ClassVar[int] = 2
