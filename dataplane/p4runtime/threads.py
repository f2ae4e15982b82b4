"""Threads for calls that wait for locks: a bounded number, none of which keeps the process alive."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from threading import Lock, Semaphore, Thread, current_thread
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_JOIN_SECONDS: Final = 1.0
"""How long shutdown waits for threads. What still waits for a lock then ends when it has got it."""


class DaemonThreads(Executor):
    """Runs calls in at most ``limit`` threads, which start when they are needed; the other calls wait in line.

    A ThreadPoolExecutor's threads are joined when Python exits, so one call that waits for a lock would hang the
    process.
    """

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._lock = Lock()
        self._idle = Semaphore(0)
        self._calls: SimpleQueue[Callable[[bool], None] | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._closed = False

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """See Executor. Raises RuntimeError after shutdown."""
        future: Future[R] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("no calls are taken after shutdown")
            self._calls.put(lambda wanted: _run(future, fn, args, kwargs) if wanted else _drop(future))
            if not self._idle.acquire(blocking=False) and len(self._threads) < self._limit:
                thread = Thread(target=self._work, name=self._name, daemon=True)
                self._threads.append(thread)
                thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the threads when the calls taken so far are done, or, with ``cancel_futures``, those that run.

        With ``wait`` it waits for that, a second at most: a thread that waits for a lock is left to end by itself.
        """
        with self._lock:
            self._closed = True
            threads, self._threads = self._threads, []
        if cancel_futures:
            self._drop_waiting()
        for _ in threads:
            self._calls.put(None)
        until = time.monotonic() + _JOIN_SECONDS
        for thread in threads if wait else ():
            if thread is not current_thread():
                thread.join(max(0.0, until - time.monotonic()))

    def _drop_waiting(self) -> None:
        try:
            while True:
                call = self._calls.get_nowait()
                if call is not None:
                    call(False)
        except Empty:
            return

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call(True)
            del call
            self._idle.release()


def _drop(future: Future[R]) -> None:
    future.cancel()
    future.set_running_or_notify_cancel()


def _run(future: Future[R], fn: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = fn(*args, **kwargs)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
