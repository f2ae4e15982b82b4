"""Processes of the poster's experiment end with their parent."""

import signal
import sys
from pathlib import Path

import pytest

from tests.support.pools import LISTED, end_at_work


@pytest.mark.skipif(not LISTED, reason="needs a Linux that lists children in /proc")
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGKILL, -9),
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.soak),  # also in course/test_grade_all_ends.py
    ],
)
def test_killed_at_work_it_leaves_no_process(tmp_path: Path, number: signal.Signals, code: int) -> None:
    command = [sys.executable, "-m", "studies", "poster", "--quick", "--jobs", "2", "--out", str(tmp_path / "out")]
    assert end_at_work(command, number) == code
