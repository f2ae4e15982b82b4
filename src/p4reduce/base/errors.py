"""The root of p4reduce's errors, ``P4ReduceError``, for callers to catch; and the import of packages of extras."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

from p4switch.base.errors import ReportedError


class P4ReduceError(ReportedError):
    """Something failed: the network gave up, a prediction was missed, a number did not fit."""


class BadInput(P4ReduceError):
    """Input that cannot be used; the text names the file or the flag, the field and the fix."""

    exit_code: ClassVar[int] = 2


class Failed(P4ReduceError):
    """A run failed; the text says why."""


class PlanError(BadInput, ValueError):
    """A plan cannot be made; the text names the cause and the fix."""


class ControllerError(P4ReduceError, RuntimeError):
    """A switch could not be reached, programmed or read; the text names the switch, the table and the entry."""


class RealError(P4ReduceError, RuntimeError):
    """A failure of this machine, or something that it cannot do; the text says what, and what to do."""


class MissingPackageError(BadInput, ImportError):
    """A package that an extra of p4reduce would install is missing."""


def require(package: str, extra: str) -> None:
    """Raise `MissingPackageError` if a package cannot be imported; import nothing."""
    if find_spec(package) is None:
        raise MissingPackageError(f"{package} is not installed: pip install 'p4reduce[{extra}]'")


def load(package: str, extra: str) -> Any:
    """Import a package and return it. Raises `MissingPackageError` if it is not installed."""
    require(package, extra)
    return import_module(package)
