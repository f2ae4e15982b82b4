"""The grader's processes and copies of submissions end with its command, however that ends."""

import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.labs import solved
from tests.support.pools import LISTED, PATIENCE_S, end_at_work


@pytest.mark.skipif(not LISTED, reason="needs a Linux that lists children in /proc")
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGKILL, -9),
        (signal.SIGTERM, 143),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.soak),  # also in studies/poster/test_processes.py
    ],
)
def test_ended_at_work_it_leaves_no_process_and_no_copy(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """A killed grader cannot remove copies of submissions itself."""
    submissions, temporary = tmp_path / "class", tmp_path / "temporary"
    temporary.mkdir()
    for student in range(40):  # each takes 0.1 s
        solved("05", submissions / f"s{student}")
    command = [
        sys.executable,
        "-m",
        "p4reduce.cli.entry",
        "lab",
        "grade-all",
        str(submissions),
        "--lab",
        "05",
        "--jobs",
        "2",
    ]
    assert end_at_work(command, number, temporary) == code
    left = [path.name for path in temporary.glob("p4reduce-*")]
    assert number == signal.SIGKILL or not left


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_grader_that_is_ended_leaves_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    command = [sys.executable, "-m", "p4reduce.cli.entry", "lab", "grade", str(solved("05", tmp_path / "s"))]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as started:
        deadline = time.monotonic() + PATIENCE_S
        while not list(temporary.glob("p4reduce-taken-*")):
            assert started.poll() is None, "it ended before it had begun"
            assert time.monotonic() < deadline, "it takes nothing in"
            select.select([], [], [], 0.01)
        started.send_signal(number)
        assert started.wait(PATIENCE_S) == 128 + number
    assert not list(temporary.glob("p4reduce-*"))
