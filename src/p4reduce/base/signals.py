"""Signals that end a run: turned into exceptions while something must be cleaned up, ignored while it is."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SEEN_S: Final = 0.05
"""A main thread waits in slices of at most this many seconds: a signal that comes just before a wait without end is not
seen until that wait ends."""

Handler = Callable[[int, FrameType | None], None] | signal.Handlers


def raise_exit(number: int, frame: FrameType | None) -> None:
    """End the process as a shell shows it: 128 + the signal's number."""
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
