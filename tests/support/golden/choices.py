"""Sources of a scenario's choices: hypothesis, which shrinks a failing scenario, or a seed, which is fast."""

import random
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Choices(Protocol):
    """A source of choices. A shrunk example takes the first of several options, and the smallest number."""

    def integer(self, low: int, high: int) -> int:
        """Return an integer in ``low..high``, both included."""

    def pick(self, options: Sequence[T]) -> T:
        """Return one of ``options``."""
        return options[self.integer(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        """Return True in ``percent`` of 100 cases."""
        return self.integer(0, 99) >= 100 - percent

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return ``items`` in any order."""
        left = list(items)
        return [left.pop(self.integer(0, len(left) - 1)) for _ in items]


class SeededChoices(Choices):
    """Choices of a `random.Random` with the given seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return low + int(self.random.random() * (high - low + 1))


class DrawnChoices(Choices):
    """Choices that hypothesis draws. ``draw``: `data.draw`, or the function that a composite strategy receives."""

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self.draw = draw

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))
