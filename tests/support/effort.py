"""Amount of random testing: enough for every change, or more before a release (``make soak-tests``)."""

import os
from typing import Final

SOAK: Final = bool(os.environ.get("SOAK"))


def examples(few: int, many: int) -> int:
    """Return the number of random examples: ``many`` in a soak."""
    return many if SOAK else few
