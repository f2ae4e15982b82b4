"""Where a scenario's choices come from: hypothesis, which shrinks what it finds, or a plain seed, which is fast."""

import random
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Choices(Protocol):
    """A source of choices. The first of several, and the smallest number, are what a shrunk example shows."""

    def integer(self, low: int, high: int) -> int:
        """An integer in ``low..high``, both included."""

    def pick(self, options: Sequence[T]) -> T:
        """One of ``options``."""
        return options[self.integer(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        """True in ``percent`` of 100 cases."""
        return self.integer(0, 99) >= 100 - percent

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """``items`` in any order."""
        left = list(items)
        return [left.pop(self.integer(0, len(left) - 1)) for _ in items]


class SeededChoices(Choices):
    """Choices of a `random.Random`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return low + int(self.random.random() * (high - low + 1))


class DrawnChoices(Choices):
    """Choices that hypothesis draws. ``draw`` is `data.draw` or that of a composite strategy."""

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self.draw = draw

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))
