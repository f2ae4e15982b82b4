"""Processor time of processes."""

import math
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PARENT: Final = 1
_USER_TIME: Final = 11
"""places of ppid and utime in /proc/PID/stat (proc(5)), counted from the state; stime follows"""


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU seconds that the processes, with all their threads, have used so far."""
    total = 0
    for pid in pids:
        behind_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(behind_name[_USER_TIME]) + int(behind_name[_USER_TIME + 1])
    return total / _TICKS


def descends(pid: int, ancestor: int) -> bool:
    """Whether a process is ``ancestor``, or was started by it, or by one that was, and so on."""
    while pid > 1 and pid != ancestor:
        try:
            behind_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return False
        pid = int(behind_name[_PARENT])
    return pid == ancestor


class Idle:
    """How long a process has used no processor time."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._used = -1.0
        self._since = 0.0

    def seconds(self) -> float:
        """Seconds since it was last seen to use any; 0 for a process that is gone, which others notice."""
        try:
            used = cpu_seconds([self._pid])
        except OSError:
            return 0.0
        now = time.monotonic()
        if used != self._used:
            self._used, self._since = used, now
        return now - self._since


class Signs:
    """Whether a process does anything, whatever it says: one that computes may have no turn to speak."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._used = math.inf

    def seen(self) -> bool:
        """Whether it is ready to run, or has used processor time since the last look. False for one that is gone."""
        try:
            behind_name = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return False
        before, self._used = self._used, int(behind_name[_USER_TIME]) + int(behind_name[_USER_TIME + 1])
        return behind_name[0] == "R" or self._used > before
