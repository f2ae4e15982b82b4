"""Processor time of processes."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_USER_TIME: Final = 11
"""place of utime in /proc/PID/stat (proc(5)), counted from the state; stime follows"""


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU seconds that the processes, with all their threads, have used so far."""
    total = 0
    for pid in pids:
        behind_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(behind_name[_USER_TIME]) + int(behind_name[_USER_TIME + 1])
    return total / _TICKS
