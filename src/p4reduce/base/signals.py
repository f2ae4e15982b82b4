"""Signals that end a run: turned into exceptions while something must be cleaned up, ignored while it is."""

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

SEEN_S: Final = 0.05
"""A main thread waits in slices of at most this many seconds: a signal that comes just before a wait without end is not
seen until that wait ends."""

Handler = Callable[[int, FrameType | None], None] | signal.Handlers


def raise_exit(number: int, frame: FrameType | None) -> None:
    """End the process as a shell shows it: 128 + the signal's number."""
    raise SystemExit(128 + number)


_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
ENDS_S: Final = 10.0
"""seconds that cleaning up may take where another library's locks could keep it for ever"""


def raise_exit_in_time(number: int, frame: FrameType | None) -> None:
    """Raise as ``raise_exit`` does, and at Ctrl-C ``KeyboardInterrupt``; the process ends after :data:`ENDS_S` anyway.

    For commands that have a pool of processes: a signal that arrives while the pool holds one of its locks can leave
    that lock held, and the end of the pool then waits for it.
    """

    def end(*_: object) -> None:
        os._exit(128 + number)

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, ENDS_S)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


@contextmanager
def handling(handler: Handler, *numbers: signal.Signals) -> Iterator[None]:
    """Handle some signals differently for a while. Only the main thread can: elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def end_with(parent: int) -> None:
    """The kernel kills this process when its parent has ended, however that ended; at once if it has already.

    joblib's processes hold the ends of each other's pipes open: after a kill -9 of the one that started them none
    would see it go, and all would wait for ever. Nothing happens where the system is not Linux.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
