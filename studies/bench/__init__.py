"""Benchmarks of all parts, and what they share: a clock, and what machine it is."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

CHILD_DEADLINE_S: Final = 300.0
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


def in_own_process(
    module: str,
    *arguments: object,
    what: str,
    more: Mapping[str, str] | None = None,
    deadline_s: float = CHILD_DEADLINE_S,
) -> dict[str, Any]:
    """What ``python -m module arguments`` prints as JSON; ``more``: of its environment.

    Raises:
        RuntimeError: it failed; its last words stand in the error, after ``what``.
    """
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        env={**os.environ, **(more or {})}, capture_output=True, text=True, timeout=deadline_s, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{what} failed:\n{done.stderr[-3000:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def machine() -> dict[str, Any]:
    """Facts about the machine on which figures are measured."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu = models[0] if models else cpu
    return {"cpu": cpu, "cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
