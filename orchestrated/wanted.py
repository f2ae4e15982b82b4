"""Leaving a network whose time stands still because somebody looks at it, as soon as something else is to be done."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _WantedError(Exception):
    """Somebody waits; never leaves :func:`wanted`."""


@contextmanager
def wanted(unless: Callable[[], bool] | None) -> Iterator[Callable[[], None] | None]:
    """What a network that is held calls now and then: it ends the block between two events if ``unless`` says so."""

    def check() -> None:
        if unless is not None and unless():
            raise _WantedError

    try:
        yield None if unless is None else check
    except _WantedError:
        return
