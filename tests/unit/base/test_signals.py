"""Signals that end a run, and what must not keep it from ending."""

import signal
import subprocess
import sys

import pytest

HELD = """
import os, signal, threading
from p4reduce.base import signals
signals.ENDS_S = 0.2
lock = threading.Lock()
lock.acquire()
with signals.handling(signals.raise_exit_in_time, signal.SIGTERM, signal.SIGINT):
    try:
        os.kill(os.getpid(), {number})
        print("went on")
    finally:
        {cleaning_up}
"""


def end(number: signal.Signals, cleaning_up: str) -> tuple[int, str]:
    code = HELD.format(number=int(number), cleaning_up=cleaning_up)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_lock_that_is_never_released_holds_no_process(number):
    assert end(number, "lock.acquire()") == (128 + number, "")


def test_what_cleans_up_in_time_ends_as_always():
    assert end(signal.SIGTERM, "pass") == (128 + signal.SIGTERM, "")
    assert end(signal.SIGINT, "pass") == (-signal.SIGINT, "")
