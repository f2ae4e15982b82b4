"""One BLAS thread for each worker: sums then do not depend on how many cores a machine has."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Keeper:
    """Holds the limit while anyone wants it.

    BLAS's limit belongs to the whole process, and threadpoolctl lets only the thread that set it take it back.
    Workers come and go in threads of their own, so one thread is kept for setting and taking back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._release = threading.Event()
        self._thread: threading.Thread | None = None

    def enter(self) -> None:
        """Count a user in; returns when the limit is in force."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                limited = threading.Event()
                self._release.clear()
                self._thread = threading.Thread(target=self._hold, args=(limited,), name="blas-limit", daemon=True)
                self._thread.start()
                limited.wait()

    def leave(self) -> None:
        """Count a user out; the last one takes the limit back."""
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._thread is not None:
                self._release.set()
                self._thread.join()
                self._thread = None

    def _hold(self, limited: threading.Event) -> None:
        try:
            from threadpoolctl import threadpool_limits  # type: ignore[import-untyped] # noqa: PLC0415 (an extra)

            with threadpool_limits(limits=1, user_api="blas"):
                limited.set()
                self._release.wait()
        except ImportError:
            return
        finally:
            limited.set()


_keeper = _Keeper()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS to one thread while anyone is inside.

    Without threadpoolctl (it comes with scikit-learn, as the digits do) BLAS is left as it is.
    """
    _keeper.enter()
    try:
        yield
    finally:
        _keeper.leave()
