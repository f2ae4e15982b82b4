"""Signals that end a run: raised as exceptions while the run must still clean up, ignored during the cleanup."""

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

SEEN_S: Final = 0.05
"""Longest wait of a main thread, seconds, so that it waits in slices.

A signal that comes just before a wait without end is not seen until that wait ends.
"""

Handler = Callable[[int, FrameType | None], None] | signal.Handlers


_AGAIN_S: Final = 0.01
_WHOLE_S: Final = 5.0
"""seconds that a signal is delayed at most until a module is imported or a class is made"""
_WHOLE: Final = ("<frozen importlib", os.path.join(os.path.dirname(os.__file__), "tempfile.py"))  # noqa: PTH118, PTH120
"""beginnings of the paths of files whose code is not interrupted"""
_since: dict[int, float] = {}


def _waits(number: int, frame: FrameType | None) -> bool:
    """Send a signal again a moment later if it must not interrupt the program now; return whether it was delayed.

    It must not while a module is imported, a class's ``__set_name__`` runs, or a temporary file or folder is made or
    removed. An exception between two instructions of an import leaves half a module behind, which the cleanup may then
    use. Python 3.11 turns an exception that leaves ``__set_name__`` into a ``RuntimeError``, which no handler of
    ``KeyboardInterrupt`` sees. A temporary folder that exists before :mod:`tempfile` knows it would stay. After
    :data:`_WHOLE_S` the signal is handled anyway.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith(_WHOLE) or frame.f_code.co_name == "__set_name__":
            break
        frame = frame.f_back
    else:
        _since.pop(number, None)
        return False
    now = time.monotonic()
    if now - _since.setdefault(number, now) > _WHOLE_S:
        del _since[number]
        return False
    return _send_again(number)


def _send_again(number: int) -> bool:
    """Let the main thread handle a signal again after :data:`_AGAIN_S`; return False if no thread can be started."""

    def again() -> None:
        time.sleep(_AGAIN_S)
        _thread.interrupt_main(signal.Signals(number))

    try:
        # Not threading.Thread: the interrupted code may hold its locks.
        _thread.start_new_thread(again, ())
    except RuntimeError:
        return False
    return True


def raise_exit(number: int, frame: FrameType | None) -> None:
    """Raise ``SystemExit`` with the exit code of a shell: 128 + the signal's number."""
    if not _waits(number, frame):
        raise SystemExit(128 + number)


def raise_interrupt(number: int, frame: FrameType | None) -> None:
    """Raise ``KeyboardInterrupt`` as Python does at Ctrl-C, but not within an import or ``__set_name__``."""
    if not _waits(number, frame):
        raise KeyboardInterrupt


_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
ENDS_S: Final = 10.0
"""seconds for cleaning up, if another library's locks could block it for ever"""


def raise_exit_in_time(number: int, frame: FrameType | None) -> None:
    """Raise as ``raise_exit`` does, and at Ctrl-C ``KeyboardInterrupt``; the process ends after :data:`ENDS_S` anyway.

    For commands that have a pool of processes: a signal that arrives while the pool holds one of its locks can leave
    that lock held, and the end of the pool then waits for it.
    """
    if _waits(number, frame):
        return

    def end(*_: object) -> None:
        os._exit(128 + number)

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, ENDS_S)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


@contextmanager
def raising_again() -> Iterator[None]:
    """Raise a signal handler's exception again, a moment later, if Python has swallowed it.

    The handler of a signal runs between any two instructions of the main thread. In a finalizer, or in the callback of
    a weak reference, Python prints the handler's exception and drops it: Ctrl-C would do nothing.
    """
    before = sys.unraisablehook

    def hook(swallowed: Any) -> None:
        number = _signal_of(swallowed.exc_value)
        if number is None or threading.current_thread() is not threading.main_thread():
            before(swallowed)
            return
        # In this thread, the handler would run within this hook, and its exception be swallowed, too. If no thread can
        # be started, the interpreter is ending, as wanted.
        _send_again(number)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _signal_of(error: BaseException | None) -> int | None:
    """Return the signal whose handler (of Ctrl-C, or ``raise_exit``) has raised an error; None for another error."""
    if isinstance(error, KeyboardInterrupt):
        return signal.SIGINT
    if isinstance(error, SystemExit) and isinstance(error.code, int) and 128 < error.code < 128 + signal.NSIG:
        return error.code - 128
    return None


@contextmanager
def handling(handler: Handler, *numbers: signal.Signals) -> Iterator[None]:
    """Handle some signals differently for a while. Only the main thread can do that; elsewhere nothing changes."""
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
    """Have the kernel kill this process when its parent has ended for any reason; exit now if it has already.

    Processes of a pool hold the ends of each other's pipes open: if their parent is killed by SIGKILL, none would
    notice, and all would wait for ever. On systems other than Linux, only an ended parent is noticed.
    """
    import ctypes  # noqa: PLC0415

    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
