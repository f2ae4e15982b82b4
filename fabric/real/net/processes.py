"""Which process is which: a process identifier may be used again, its start time and the boot tell them apart."""

import contextlib
import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_START_TIME: Final = 22
"""Field of /proc/PID/stat, counted from 1 (proc_pid_stat(5)): clock ticks after boot."""
_KILL_DEADLINE_S: Final = 10.0


@dataclass(frozen=True)
class Process:
    """A process, for good."""

    pid: int
    started: int
    """clock ticks after boot"""
    boot: str
    """identity of that boot"""

    @property
    def alive(self) -> bool:
        """Whether it still runs; one that has ended and was not yet waited for does not."""
        return identify(self.pid) == self


def identify(pid: int) -> Process | None:
    """The process that has this identifier now; None when none runs."""
    try:
        text = (_PROC / str(pid) / "stat").read_text("utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name, in brackets, may hold anything
    if fields[0] in "ZX":
        return None
    return Process(pid, int(fields[_START_TIME - 3]), boot_id())


def boot_id() -> str:
    """What tells this boot of the machine from others."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def carrying(variable: str, value: str) -> list[Process]:
    """All processes that we may look at whose environment at their start held ``variable=value``."""
    wanted = f"{variable}={value}".encode()
    found = []
    for entry in _PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        process = identify(int(entry.name))
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0") and process is not None:
                found.append(process)
    return found


def terminate(process: Process, deadline_s: float) -> bool:
    """Ask exactly this process to end (SIGTERM) and wait for it; whether it has ended in time, or was not there."""
    return _signal(process, signal.SIGTERM, deadline_s) is not False


def kill(process: Process, deadline_s: float = _KILL_DEADLINE_S) -> bool:
    """Kill exactly this process and wait until it has ended; whether it was there."""
    return _signal(process, signal.SIGKILL, deadline_s) is not None


def _signal(process: Process, number: signal.Signals, deadline_s: float) -> bool | None:
    """Whether it ended in time; None when it was not there."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return None
    try:
        if not process.alive:  # asked after the handle was taken, so the handle is this very process
            return None
        signal.pidfd_send_signal(handle, number)
        return bool(select.select([handle], [], [], deadline_s)[0])
    except ProcessLookupError:
        return None
    finally:
        os.close(handle)
