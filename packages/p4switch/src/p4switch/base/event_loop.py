"""An event loop in a separate thread, for gRPC's asyncio interface."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from threading import Thread
from typing import Any, Final, TypeVar

R = TypeVar("R")

_JOIN_SECONDS: Final = 5.0


class EventLoopThread:
    """An event loop in its own thread, which runs coroutines for other threads and gives them the results.

    The loop is made inside its thread: a signal handler that raises in the main thread cannot leave half a loop.
    """

    def __init__(self, name: str) -> None:
        made: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = Thread(target=_serve, args=(made,), name=name, daemon=True)
        self._thread.start()
        self.loop: Final = made.result()

    def run(self, work: Coroutine[Any, Any, R], timeout: float | None = None) -> R:
        """Runs a coroutine and returns its result; blocks. Raises TimeoutError. Any error cancels the coroutine."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stops the loop, cancels the coroutines that still run, and ends the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_JOIN_SECONDS)


def _serve(made: "Future[asyncio.AbstractEventLoop]") -> None:
    """Makes a loop, hands it over and runs it until it is stopped."""
    try:
        loop = asyncio.new_event_loop()
    except BaseException as error:  # for instance no free descriptors: the thread that waits gets the error
        made.set_exception(error)
        return
    loop.set_exception_handler(ignore_closed_loops)
    asyncio.set_event_loop(loop)
    made.set_result(loop)
    try:
        loop.run_forever()
        loop.run_until_complete(_cancel_others())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def ignore_closed_loops(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """An exception handler that drops two harmless errors of gRPC and passes on all others.

    gRPC has one event queue for all loops of a process. A loop logs an error if it takes an event of another loop that
    has been closed since, or if another loop was faster.
    """
    error = context.get("exception")
    closed = isinstance(error, RuntimeError) and str(error) == "Event loop is closed"
    if not (closed or isinstance(error, BlockingIOError)) or "PollerCompletionQueue" not in context.get("message", ""):
        loop.default_exception_handler(context)
