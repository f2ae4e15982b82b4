"""Processes of the poster's experiment end with the one that started them."""

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PATIENCE_S = 120


def children(pid: int) -> list[int]:
    """Of all its threads; none when it has ended."""
    found = []
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        try:
            found += [int(text) for text in (thread / "children").read_text().split()]
        except OSError:
            continue
    return found


def workers(pid: int) -> list[int]:
    """Processes that carry out pieces, of a poster that works."""
    found = []
    for child in children(pid):
        try:
            command = Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            continue
        if b"popen_loky" in command:
            found.append(child)
    return found


def busy(pid: int) -> bool:
    """Whether it has been at work for a second: it has begun with a piece."""
    try:
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK") > 1


@pytest.mark.skipif(
    not Path(f"/proc/self/task/{os.getpid()}/children").exists(), reason="needs a Linux that lists children in /proc"
)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_at_work_it_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "studies.poster", "--quick", "--jobs", "2", "--out", str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT) as poster:
        deadline = time.monotonic() + PATIENCE_S
        found: list[int] = []
        while len(found) < 2 or not all(map(busy, found)):
            assert poster.poll() is None, "it ended before it had begun"
            assert time.monotonic() < deadline, f"no two workers: {found}"
            select.select([], [], [], 0.05)
            found = workers(poster.pid)
        handles = [os.pidfd_open(pid) for pid in found]
        poster.send_signal(number)
        assert poster.wait(PATIENCE_S) == (-number if number is signal.SIGKILL else 128 + number)
        for pid, handle in zip(found, handles, strict=True):
            ended, _, _ = select.select([handle], [], [], PATIENCE_S)
            os.close(handle)
            assert ended, f"worker {pid} outlived the poster"
