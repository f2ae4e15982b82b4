"""Signals that end a run: turned into exceptions while something must be cleaned up, ignored while it is."""

import _thread
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

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


_AGAIN_S: Final = 0.01


@contextmanager
def raising_again() -> Iterator[None]:
    """Raise what a signal's handler raises once more, a moment later, where Python has swallowed it.

    The handler of a signal runs between any two instructions of the main thread. Where those are of a finalizer, or of
    the callback of a weak reference, Python prints what the handler raises and forgets it: Ctrl-C would do nothing.
    """
    before = sys.unraisablehook

    def hook(swallowed: Any) -> None:
        number = _signal_of(swallowed.exc_value)
        if number is None or threading.current_thread() is not threading.main_thread():
            before(swallowed)
            return
        # In this thread the handler would run within this very hook, and what it raises be swallowed, too.
        again = threading.Timer(_AGAIN_S, _thread.interrupt_main, (number,))
        again.daemon = True
        with suppress(RuntimeError):  # no thread can be started while the interpreter ends, which is what was wanted
            again.start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _signal_of(error: BaseException | None) -> int | None:
    """Whose handler has raised it: that of Ctrl-C, or ``raise_exit``."""
    if isinstance(error, KeyboardInterrupt):
        return signal.SIGINT
    if isinstance(error, SystemExit) and isinstance(error.code, int) and 128 < error.code < 128 + signal.NSIG:
        return error.code - 128
    return None


@contextmanager
def handling(handler: Handler, *numbers: signal.Signals) -> Iterator[None]:
    """Handle some signals differently for a while. Only the main thread can: elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        with raising_again():
            yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


def end_with(parent: int) -> None:
    """The kernel kills this process when its parent has ended, however that ended; at once if it has already.

    joblib's processes hold the ends of each other's pipes open: after a kill -9 of the one that started them none
    would see it go, and all would wait for ever. Nothing happens where the system is not Linux.
    """
    import ctypes  # noqa: PLC0415

    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
