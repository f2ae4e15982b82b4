"""An event loop on a thread of its own, so that blocking code can use async clients."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_JOIN_S = 5.0


class BackgroundLoop:
    """Runs coroutines for threads that wait for them; each coroutine brings its own deadlines."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine; blocks. An interrupted wait cancels the work."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the thread; what still runs is cancelled."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result(_JOIN_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_JOIN_S)
        if not self._thread.is_alive():
            self._loop.close()


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
