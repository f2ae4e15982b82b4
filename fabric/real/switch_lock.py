"""The lock under which P4Runtime changes switches that carry frames."""

import threading
from types import TracebackType

from p4reduce.fabric.real.io.path import DataPath


class PausingLock:
    """A re-entrant lock for a P4RuntimeServer: while anyone holds it, the switches stand still.

    Give the same one to ``P4RuntimeServer(lock=...)`` and ``RealSwitches(lock=...)``.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._paths: list[DataPath] = []

    def attach(self, path: DataPath) -> None:
        """Have a data path pause with this lock."""
        with self._lock:
            self._paths.append(path)

    def detach(self, path: DataPath) -> None:
        """Let a data path go its own way."""
        with self._lock:
            if path in self._paths:
                self._paths.remove(path)
                path.resume()

    def __enter__(self) -> bool:
        self._lock.acquire()
        if self._depth == 0:
            try:
                for path in self._paths:
                    path.ask_pause()
                for path in self._paths:
                    path.await_pause()
            except BaseException:
                for path in self._paths:
                    path.resume()
                self._lock.release()
                raise
        self._depth += 1
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            for path in self._paths:
                path.resume()
        self._lock.release()
