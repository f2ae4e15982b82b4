"""Virtual time of one participant, which its groups share."""

import threading


class Clock:
    """A time that only grows, picoseconds. Safe to use from several threads."""

    def __init__(self, start_ps: int = 0) -> None:
        self._now_ps = start_ps
        self._lock = threading.Lock()

    @property
    def now_ps(self) -> int:
        """The time."""
        return self._now_ps

    def advance(self, by_ps: int) -> tuple[int, int]:
        """Let time pass; from when to when."""
        with self._lock:
            before = self._now_ps
            self._now_ps += by_ps
            return before, self._now_ps

    def reach(self, time_ps: int) -> None:
        """The time is at least this."""
        with self._lock:
            self._now_ps = max(self._now_ps, time_ps)
