"""Processes that grade a class end with the command, however that ends."""

import signal
import sys
from pathlib import Path

import pytest

from tests.support.labs import solved
from tests.support.pools import LISTED, end_at_work


@pytest.mark.skipif(not LISTED, reason="needs a Linux that lists children in /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_killed_at_work_it_leaves_no_process(tmp_path: Path, number: signal.Signals, code: int) -> None:
    for student in range(8):
        solved("05", tmp_path / f"s{student}")
    command = [
        sys.executable,
        "-m",
        "p4reduce.cli.entry",
        "lab",
        "grade-all",
        str(tmp_path),
        "--lab",
        "05",
        "--jobs",
        "2",
    ]
    assert end_at_work(command, number) == code
