"""Packages that only an extra of p4reduce installs: a missing one is an error that names the extra."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from p4reduce.base.errors import BadInput


class MissingPackageError(BadInput, ImportError):
    """A package that an extra of p4reduce would install is not there."""


def require(package: str, extra: str) -> None:
    """Raise `MissingPackageError` where a package cannot be imported; nothing is imported."""
    if find_spec(package) is None:
        raise MissingPackageError(f"{package} is not installed: pip install 'p4reduce[{extra}]'")


def load(package: str, extra: str) -> Any:
    """Import a package; `MissingPackageError` where it is not installed."""
    require(package, extra)
    return import_module(package)
