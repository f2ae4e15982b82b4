"""Amount of random testing: enough for every change, or more before a release (``make soak-tests``)."""

import os
from collections.abc import Sequence
from typing import Any, Final

import pytest

SOAK: Final = bool(os.environ.get("SOAK"))


def first_of(values: Sequence[Any], number: int = 1) -> list[Any]:
    """Return the parameters of a test; all but the first ``number`` are marked for soaks."""
    later = [
        pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.soak) for one in values[number:]
    ]
    return [*values[:number], *later]


def examples(few: int, many: int) -> int:
    """Return the number of random examples: ``many`` in a soak."""
    return many if SOAK else few
