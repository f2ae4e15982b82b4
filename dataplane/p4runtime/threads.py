"""Threads for gRPC handlers that never keep the process alive."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_IDLE_KEPT: Final = 16
"""Threads without work that wait for more; others end."""


class DaemonThreads(Executor):
    """Runs every call at once, in an idle thread or a new one.

    A ThreadPoolExecutor's threads are joined when Python exits, so one open stream of a server that nobody stopped
    would hang the process; and with a fixed number of threads, enough open streams would block all other calls.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = Lock()
        self._idle: list[SimpleQueue[Callable[[], None] | None]] = []
        self._closed = False

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """See Executor. Raises RuntimeError after shutdown."""
        future: Future[R] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("no calls are taken after shutdown")
            inbox = self._idle.pop() if self._idle else self._start()
        inbox.put(lambda: _run(future, fn, args, kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends idle threads; busy ones end with their call, which is not waited for."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for inbox in idle:
            inbox.put(None)

    def _start(self) -> SimpleQueue[Callable[[], None] | None]:
        inbox: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        Thread(target=self._work, args=(inbox,), name=self._name, daemon=True).start()
        return inbox

    def _work(self, inbox: SimpleQueue[Callable[[], None] | None]) -> None:
        while (call := inbox.get()) is not None:
            call()
            del call
            with self._lock:
                if self._closed or len(self._idle) >= _IDLE_KEPT:
                    return
                self._idle.append(inbox)


def _run(future: Future[R], fn: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = fn(*args, **kwargs)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
