"""Idle time-outs: which entries no packet has hit for how long (P4Runtime specification, section "Idle-timeout").

Nothing here runs by itself: whoever drives the devices looks for idle entries as often as it likes, in its own time.
A hit counts from the moment at which somebody looks: the interval between looks is the resolution, as on other targets.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

Clock: TypeAlias = Callable[[], int]
"""Nanoseconds of whatever time the devices live in; never goes back."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True)
class _Timer:
    """``hits`` when it last looked; ``hit_at``: of the last hit, or the insertion; ``since``: start of the interval."""

    hits: int
    hit_at: int
    since: int


class IdleTimers(Generic[Key]):
    """The timers of all entries of one table."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: dict[Key, _Timer] = {}

    def start(self, key: Key, hits: int) -> None:
        """An entry was inserted. ``hits``: what its counter shows."""
        now = self._clock()
        self._timers[key] = _Timer(hits, now, now)

    def restart(self, key: Key, hits: int) -> None:
        """An entry was modified: its interval begins anew, its last hit stays."""
        self._look(key, hits).since = self._clock()

    def counter_set(self, key: Key, hits: int) -> None:
        """A controller has set the counter, which is no hit."""
        if key in self._timers:
            self._timers[key].hits = hits

    def stop(self, key: Key) -> None:
        """Forgets an entry."""
        self._timers.pop(key, None)

    def elapsed(self, key: Key, hits: int) -> int:
        """Nanoseconds since the last hit, or since insertion where there was none."""
        return self._clock() - self._look(key, hits).hit_at

    def expired(self, entries: Iterable[tuple[Key, int, int]]) -> Iterator[Key]:
        """The entries that were idle for their time-out; they are reported again after another one.

        Args:
            entries: (key, hits, time-out in nanoseconds; 0: none) of every entry.
        """
        now = self._clock()
        for key, hits, timeout in entries:
            timer = self._look(key, hits)
            if 0 < timeout <= now - timer.since:
                timer.since = now
                yield key

    def _look(self, key: Key, hits: int) -> _Timer:
        now = self._clock()
        timer = self._timers.setdefault(key, _Timer(hits, now, now))
        if timer.hits != hits:
            timer.hits, timer.hit_at, timer.since = hits, now, now
        return timer
