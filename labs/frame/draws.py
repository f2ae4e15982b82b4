"""Parameters that follow from a student's name, and inputs that follow from a seed which students do not have."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

EXAMPLE: Final = "example"
"""The student for whom the published solutions are."""
PRACTICE: Final = b"practice"
"""The seed that everybody knows: students grade themselves with it."""

T = TypeVar("T")


@dataclass(frozen=True)
class Draws:
    """Named draws: the same name gives the same number, and no number tells another one.

    Attributes:
        key: HMAC-SHA-256's.
    """

    key: bytes

    def _digest(self, name: str) -> bytes:
        return hmac.new(self.key, name.encode(), hashlib.sha256).digest()

    def integer(self, name: str, low: int, high: int) -> int:
        """A number in low..high, both included."""
        return low + int.from_bytes(self._digest(name), "big") % (high - low + 1)

    def choice(self, name: str, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.integer(name, 0, len(options) - 1)]

    def shuffled(self, name: str, items: Sequence[T]) -> list[T]:
        """The items in another order."""
        return [items[int(number)] for number in self.generator(name).permutation(len(items))]

    def generator(self, name: str) -> np.random.Generator:
        """A generator of random numbers."""
        return np.random.default_rng(int.from_bytes(self._digest(name), "big"))


def personal(lab: str, student: str) -> Draws:
    """What a student's lab looks like: everybody can work it out, nobody can choose it."""
    return Draws(hashlib.sha256(f"p4reduce lab\0{lab}\0{student}".encode()).digest())


def hidden(lab: str, student: str, seed: bytes) -> Draws:
    """What a grader tries: nobody can work it out without the seed."""
    return Draws(hmac.new(seed, f"{lab}\0{student}".encode(), hashlib.sha256).digest())
