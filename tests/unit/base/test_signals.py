"""Signals that end a run, and conditions that must not prevent that."""

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


SWALLOWED = """
import os, signal, sys, time
from p4reduce.base import signals
class Finalized:
    def __del__(self):
        os.kill(os.getpid(), {number})
        for _ in range(1000):
            pass
with signals.handling(signals.raise_exit, signal.SIGTERM):
    try:
        one = Finalized()
        del one
        print("swallowed", flush=True)
        for _ in range(600):
            time.sleep(0.1)
    finally:
        print("cleaned up")
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, -2)])
def test_what_python_swallows_in_a_finalizer_is_raised_again(number, code):
    command = [sys.executable, "-c", SWALLOWED.format(number=int(number))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (done.returncode, done.stdout) == (code, "swallowed\ncleaned up\n"), done.stderr
    assert "Exception ignored" not in done.stderr


def test_other_errors_of_finalizers_are_told_as_always():
    code = (
        "from p4reduce.base.signals import raising_again\n"
        "class A:\n    def __del__(self): raise ValueError('of a finalizer')\n"
        "with raising_again():\n    A()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0
    assert "ValueError: of a finalizer" in done.stderr


AN_IMPORT = """
import os
os.kill(os.getpid(), {number})
sum(range(1000))
print("imported", flush=True)
"""
IMPORTS = """
import sys, time
from p4reduce.base import signals
with signals.handling(signals.{handler}, {number}):
    try:
        import held
        for _ in range(600):
            time.sleep(0.1)
    finally:
        print("whole" if hasattr(sys.modules.get("held"), "END") else "half")
"""


def imported(tmp_path, number: int, handler: str, text: str) -> tuple[int, str]:
    (tmp_path / "held.py").write_text(text.format(number=number) + "END = True\n")
    command = [sys.executable, "-c", IMPORTS.format(number=number, handler=handler)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False, cwd=tmp_path)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("number", "handler", "code"),
    [
        (signal.SIGTERM, "raise_exit", 143),
        (signal.SIGINT, "raise_interrupt", -2),
        (signal.SIGINT, "raise_exit_in_time", -2),
    ],
)
def test_a_signal_waits_until_a_module_is_imported(tmp_path, number, handler, code):
    assert imported(tmp_path, int(number), handler, AN_IMPORT) == (code, "imported\nwhole\n")


NAMED = """
import os
class Named:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), {number})
        sum(range(1000))
"""
A_CLASS = """
import time
from p4reduce.base import signals
from named import Named
with signals.handling(signals.raise_interrupt, {number}):
    class Owner:
        one = Named()
    for _ in range(600):
        time.sleep(0.1)
"""


def test_a_signal_in_set_name_is_no_runtime_error(tmp_path):
    number = int(signal.SIGINT)
    (tmp_path / "named.py").write_text(NAMED.format(number=number))
    command = [sys.executable, "-c", A_CLASS.format(number=number)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False, cwd=tmp_path)
    assert done.returncode == -signal.SIGINT
    assert "RuntimeError" not in done.stderr


ENDLESS = """
import os, time
os.kill(os.getpid(), {number})
for _ in range(600):
    time.sleep(0.1)
"""


def test_an_import_without_end_is_left_all_the_same(tmp_path):
    assert imported(tmp_path, int(signal.SIGTERM), "raise_exit", ENDLESS) == (143, "half\n")
