"""When a job's next flow begins and how many bytes it has, from what switches count, without asking the application.

A training job computes for about as long in every iteration, while the time that its frames take depends on who else
sends. So the next start is the *end* of the last flow and the median of the last computing times; starts alone tell
less. The bytes of an iteration are those of the last one.
"""

import statistics
from collections import deque
from dataclasses import dataclass
from typing import Final

MEMORY: Final = 5
"""flows whose computing times count"""
PATIENCE: Final = 2
"""silence after which a flow that lacks bytes is over, in longest times from start to start"""


@dataclass(frozen=True)
class Observed:
    """A flow that has ended: first and last moment at which its bytes were counted, picoseconds; its bytes."""

    start_ps: int
    end_ps: int
    bytes: int


@dataclass(frozen=True)
class Forecast:
    """A job's next flow, and its rhythm."""

    start_ps: int
    bytes: int
    compute_ps: int
    communication_ps: int
    """the shortest of the last flows: what it takes alone, or nearly so"""

    @property
    def period_ps(self) -> int:
        """An iteration alone."""
        return self.compute_ps + self.communication_ps


class Predictor:
    """Forecasts of one job, from its flows; nothing before two of them have ended."""

    def __init__(self, memory: int = MEMORY) -> None:
        self._computes: deque[int] = deque(maxlen=memory)
        self._takes: deque[int] = deque(maxlen=memory)
        self._last: Observed | None = None

    def observe(self, flow: Observed) -> None:
        """A flow has ended; one that begins as the last one did is that one, which went on."""
        if self._last is not None and flow.start_ps == self._last.start_ps:
            self._takes.pop()
        elif self._last is not None:
            self._computes.append(max(0, flow.start_ps - self._last.end_ps))
        self._takes.append(flow.end_ps - flow.start_ps)
        self._last = flow

    @property
    def last(self) -> Observed | None:
        """The last flow that has ended."""
        return self._last

    def forecast(self) -> Forecast | None:
        """The next flow; None while nothing can be said."""
        if self._last is None or not self._computes:
            return None
        compute = round(statistics.median(self._computes))
        return Forecast(self._last.end_ps + compute, self._last.bytes, compute, min(self._takes))


class FlowDetector:
    """Flows of one job out of readings of its counter, which only grows.

    A flow begins with the first reading that is higher than the one before. It has ended when it has as many bytes as
    the flow before (an iteration's first transmissions are always the same), or when nothing came for ``quiet_ps``; of
    a flow that lacks bytes, for `PATIENCE` times as long as any two flows were apart: a job that others keep waiting in
    the middle of an iteration is not taken for one that computes. Where more comes within ``quiet_ps`` of an end, that
    was none, and the flow goes on.

    Between two readings bytes are taken to have come at the fastest rate seen: of an interval in which fewer came,
    only its beginning (at the end of a flow) or its end (at the start) belongs to the flow.
    """

    def __init__(self, quiet_ps: int) -> None:
        self._quiet_ps = quiet_ps
        self._time, self._total = 0, 0
        self._known = False
        self._rate = 0.0  # bytes a picosecond
        self._began: tuple[int, int] | None = None  # of the flow under way: its start, and the reading before it
        self._seen = 0  # last moment at which bytes came, as well as is known
        self._ended: Observed | None = None
        self._apart = 0  # the longest time from start to start
        self._size: int | None = None

    @property
    def active(self) -> bool:
        """Whether a flow is under way."""
        return self._began is not None

    @property
    def attained(self) -> int:
        """Bytes of the flow that is under way, 0 without one."""
        return 0 if self._began is None else self._total - self._began[1]

    def read(self, now_ps: int, total: int, *, waiting: bool = False) -> Observed | None:
        """Take a reading; the flow that has ended by it, if one has.

        ``waiting``: contributions have come that were not answered, so the job is in the middle of a flow, however long
        nothing is counted.
        """
        if not self._known:
            self._known, self._time, self._total = True, now_ps, total
            return None
        grew, interval, before = total - self._total, now_ps - self._time, self._total
        self._time, self._total = now_ps, total
        if grew > 0 and interval > 0:
            self._grow(now_ps, before, grew, interval)
            return self._end() if self.attained == self._size and not waiting else None
        lacking = self._size is not None and self.attained < self._size
        patience = max(self._quiet_ps, PATIENCE * self._apart) if lacking else self._quiet_ps
        if self.active and not waiting and now_ps - self._seen >= patience:
            return self._end()
        return None

    def _grow(self, now_ps: int, before: int, grew: int, interval: int) -> None:
        self._rate = max(self._rate, grew / interval)
        busy = min(interval, round(grew / self._rate))
        if self._began is not None:
            self._seen = now_ps - interval + busy
            return
        start = now_ps - busy
        self._seen = now_ps
        if self._ended is not None and start - self._ended.end_ps < self._quiet_ps:
            self._began = (self._ended.start_ps, before - self._ended.bytes)
            self._size = None
        else:
            self._apart = max(self._apart, 0 if self._ended is None else start - self._ended.start_ps)
            self._began = (start, before)

    def _end(self) -> Observed:
        assert self._began is not None  # noqa: S101
        flow = Observed(self._began[0], max(self._seen, self._began[0]), self.attained)
        self._size, self._began, self._ended = flow.bytes, None, flow
        return flow
