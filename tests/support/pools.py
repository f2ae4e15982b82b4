"""Worker processes of a process pool, found in /proc."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.paths import ROOT

PATIENCE_S = 120
LISTED = Path(f"/proc/self/task/{os.getpid()}/children").exists()
"""True if this Linux lists children in /proc"""


def children(pid: int) -> list[int]:
    """Return the children of all threads of a process; empty if it has ended."""
    found = []
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        try:
            found += [int(text) for text in (thread / "children").read_text().split()]
        except OSError:
            continue
    return found


def workers(pid: int) -> list[int]:
    """Return the pool's worker processes among the children of a process."""
    found = []
    for child in children(pid):
        try:
            command = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if b"popen_loky" in command or b"spawn_main" in command:
            found.append(child)
    return found


def busy(pid: int) -> bool:
    """Return whether a process has used over a second of CPU: then it has begun a piece."""
    try:
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK") > 1


def end_at_work(command: Sequence[str], number: signal.Signals, temporary: Path | None = None) -> int:
    """Start a command, signal it once two workers are busy, check that they end, and return its exit code.

    ``temporary`` is the folder of its temporary files.
    """
    environment = None if temporary is None else {**os.environ, "TMPDIR": str(temporary)}
    quiet = subprocess.DEVNULL
    started = subprocess.Popen(command, stdout=quiet, stderr=quiet, cwd=ROOT, env=environment)
    try:
        deadline = time.monotonic() + PATIENCE_S
        found: list[int] = []
        while len(found) < 2 or not all(map(busy, found)):
            assert started.poll() is None, "it ended before it had begun"
            assert time.monotonic() < deadline, f"no two workers: {found}"
            select.select([], [], [], 0.05)
            found = workers(started.pid)
        handles = [os.pidfd_open(pid) for pid in found]
        started.send_signal(number)
        code = started.wait(PATIENCE_S)
        for pid, handle in zip(found, handles, strict=True):
            ended, _, _ = select.select([handle], [], [], PATIENCE_S)
            os.close(handle)
            assert ended, f"worker {pid} outlived it"
        return code
    finally:
        started.kill()
        started.wait()
