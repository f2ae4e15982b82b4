"""How long a function takes on one core."""

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def timed(run: Callable[[], Result]) -> tuple[float, Result]:
    """Seconds, and what ``run`` returned.

    The lesser of wall-clock and processor time: the first contains what other processes took, the second some
    microseconds of asking the kernel, so each is too large at times and neither too small.
    """
    busy, begin = time.thread_time(), time.perf_counter()
    result = run()
    wall = time.perf_counter() - begin
    return min(wall, time.thread_time() - busy), result
