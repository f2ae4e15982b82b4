"""Who looks on while virtual time passes, and may hold it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol


class Pacer(Protocol):
    """Asked between slices of a network's run. What happens, and when in virtual time, does not depend on it."""

    @property
    def events(self) -> int:
        """Events after which it is asked again, at least 1."""

    def begin(self, check: Callable[[], None]) -> None:
        """A run begins, perhaps one of many: before its first slice it may wait as after every other."""

    def moving(self) -> AbstractContextManager[object]:
        """Entered while events happen: nobody else may read the network's memory then."""

    def passed(self, check: Callable[[], None]) -> None:
        """A slice is over. It may wait as long as it likes; meanwhile it calls ``check`` about ten times a second."""
