"""Idle time-outs: which entries no packet has hit for how long (P4Runtime specification, section "Idle-timeout").

Nothing here runs by itself: whoever drives the devices looks for idle entries as often as it likes, in its own time.
A hit counts from the moment at which somebody looks: the interval between looks is the resolution, as on other targets.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Clock: TypeAlias = Callable[[], int]
"""Nanoseconds of whatever time the devices live in; never goes back."""

_FIRST_ROWS: Final = 8
_NEVER: Final = np.iinfo(np.int64).max


class IdleTimers:
    """The timers of all entries of one table, by the entries' rows.

    A look at all of them is a few operations on arrays, however many there are. ``hits`` are the packets counted when
    it last looked, ``hit_at`` the time of the last hit or the insertion, ``since`` the start of the interval.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: NDArray[np.bool_] = np.zeros(_FIRST_ROWS, dtype=np.bool_)
        self._hits: NDArray[np.uint64] = np.zeros(_FIRST_ROWS, dtype=np.uint64)
        self._hit_at: NDArray[np.int64] = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self._since: NDArray[np.int64] = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self._timeout: NDArray[np.int64] = np.full(_FIRST_ROWS, _NEVER, dtype=np.int64)

    def start(self, row: int, hits: int, timeout: int) -> None:
        """An entry was inserted. ``hits``: what its counter shows; ``timeout``: nanoseconds, 0: none."""
        self._grow(row + 1)
        self._running[row] = True
        self._hits[row] = hits
        self._hit_at[row] = self._since[row] = self._clock()
        self._timeout[row] = timeout or _NEVER

    def restart(self, row: int, hits: int, timeout: int) -> None:
        """An entry was modified: its interval begins anew, its last hit stays."""
        self.elapsed([row], np.array([hits], dtype=np.uint64))
        self._since[row] = self._clock()
        self._timeout[row] = timeout or _NEVER

    def counter_set(self, row: int, hits: int) -> None:
        """A controller has set the counter, which is no hit."""
        if row < len(self._running) and self._running[row]:
            self._hits[row] = hits

    def stop(self, row: int) -> None:
        """Forgets an entry."""
        if row < len(self._running):
            self._running[row] = False
            self._timeout[row] = _NEVER

    def elapsed(self, rows: list[int], packets: NDArray[np.uint64]) -> list[int]:
        """Nanoseconds since the last hit of some entries, or since insertion where there was none.

        Args:
            rows: of the entries.
            packets: what is counted now at each of them.
        """
        if not rows:
            return []
        self._grow(max(rows) + 1)
        at, now = np.array(rows, dtype=np.intp), self._clock()
        new = ~self._running[at]  # entries of the program, which nobody has inserted
        self._running[at[new]], self._hits[at[new]], self._hit_at[at[new]] = True, packets[new], now
        hit = packets != self._hits[at]
        self._hits[at[hit]] = packets[hit]
        self._hit_at[at[hit]] = self._since[at[hit]] = now
        return [int(ns) for ns in now - self._hit_at[at]]

    def expired(self, packets: NDArray[np.uint64]) -> list[int]:
        """The rows of entries that were idle for their time-out; they are reported again after another one.

        Args:
            packets: what is counted now, by row.
        """
        known = min(len(packets), len(self._running))
        now, packets = self._clock(), packets[:known]
        hit = self._running[:known] & (packets != self._hits[:known])
        if hit.any():
            self._hits[:known][hit] = packets[hit]
            self._hit_at[:known][hit] = self._since[:known][hit] = now
        late = np.flatnonzero(now - self._since[:known] >= self._timeout[:known])
        self._since[late] = now
        return [int(row) for row in late]

    def _grow(self, rows: int) -> None:
        more = max(rows, 2 * len(self._running)) - len(self._running)
        if rows > len(self._running):
            self._running = np.concatenate([self._running, np.zeros(more, dtype=np.bool_)])
            self._hits = np.concatenate([self._hits, np.zeros(more, dtype=np.uint64)])
            self._hit_at = np.concatenate([self._hit_at, np.zeros(more, dtype=np.int64)])
            self._since = np.concatenate([self._since, np.zeros(more, dtype=np.int64)])
            self._timeout = np.concatenate([self._timeout, np.full(more, _NEVER, dtype=np.int64)])
