"""Benchmarks of all parts; common code: a clock, child processes and facts about the machine."""

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
    """Return the seconds that ``run`` took on one core, and its result.

    The seconds are the smaller of wall-clock and processor time. Wall-clock time includes the time that other processes
    took, processor time some microseconds of system calls; each is too large at times and neither is too small.
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
    """Run ``python -m module arguments`` and return the JSON that it prints; ``more`` is added to its environment.

    Raises:
        RuntimeError: the process failed; the message has ``what`` and the end of its standard error.
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
    """Return facts about the machine on which the benchmarks run."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu = models[0] if models else cpu
    return {"cpu": cpu, "cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}
