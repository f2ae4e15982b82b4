"""Benchmarks of all parts, and what they share: a clock, and what machine it is."""

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")


def timed(run: Callable[[], Result]) -> tuple[float, Result]:
    """Seconds on one core, and what ``run`` returned.

    The lesser of wall-clock and processor time: the first contains what other processes took, the second some
    microseconds of asking the kernel, so each is too large at times and neither too small.
    """
    busy, begin = time.thread_time(), time.perf_counter()
    result = run()
    wall = time.perf_counter() - begin
    return min(wall, time.thread_time() - busy), result


def machine() -> dict[str, Any]:
    """Facts about the machine on which figures are measured."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu = models[0] if models else cpu
    return {"cpu": cpu, "cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
