"""The pacer of a run with a live page: it records moments, and holds virtual time when the page requests it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from p4reduce.network.jobs.network import JobNetwork
from p4reduce.views.live.moments import MomentHistory, take

if TYPE_CHECKING:
    from p4reduce.views.live.film import Film

T = TypeVar("T")

WATCH: Final = "watch"
"""Speed at which people can follow the run."""
UNSEEN: Final = 0.004
"""Share of the run's CPU time that recording may cost while no page is open."""
SEEN: Final = 0.04
"""Share of the run's CPU time that recording may cost while a page is open."""
CREDIT_S: Final = 0.003
"""CPU time for moments in advance, so that a short run has some, too."""
FIRST_EVENTS: Final = 250
"""Events between the first moments."""
MOST_EVENTS: Final = 200_000
FRAME_S: Final = 0.05
"""Wall-clock time between moments of a run that is slowed down, s."""
LONGEST_S: Final = 1.0
"""Longest wall-clock wait, s, while nothing happens in virtual time."""
LATE_S: Final = 0.25
"""Wall-clock delay, s, that a slowed run may catch up."""
TICK_S: Final = 0.1
"""Seconds after which a wait checks again whether the run was ended."""


WATCH_S: Final = 30.0
"""Seconds for the first collective of a watched run; after it the run becomes faster and faster."""
TWICE_S: Final = 4.0
"""Seconds in which its speed then doubles."""
SLOWEST_PS: Final = 2e7
"""Picoseconds per second: initial and least speed of a watched run."""
KNOWN: Final = 0.05
"""Share of a collective after which its duration can be estimated."""
PACED_S: Final = 0.5
"""Seconds for which one speed of a watched run holds."""


class _Watched:
    """Speed control for viewers, based on the run's progress and the time for which it has run."""

    def __init__(self, network: JobNetwork) -> None:
        self._network = network
        self._first: tuple[int, float] | None = None  # time and share of the first useful progress
        self._passed_s = 0.0  # wall-clock time without holds
        self._tick: float | None = None
        self._whole_ps: float | None = None  # estimated duration of the first collective
        self._whole_s = 0.0

    def speed(self) -> float | None:
        """Return the speed from now on, picoseconds per second; None: unlimited."""
        now = time.perf_counter()
        if self._tick is not None:
            self._passed_s += min(now - self._tick, LONGEST_S)
        self._tick = now
        share = self._share()
        if self._whole_ps is None:
            if self._first is None and share >= KNOWN:  # first chunks may hold only exponents
                self._first = self._network.now, share
            elif self._first is not None and share >= self._first[1] + KNOWN:
                self._whole_ps = (self._network.now - self._first[0]) / (share - self._first[1])
                self._whole_s = self._passed_s
            return SLOWEST_PS * 2 ** min(self._passed_s, 40.0)
        more = max(self._passed_s - self._whole_s - WATCH_S, 0.0) / TWICE_S
        return None if more > FREE else max(self._whole_ps / WATCH_S, SLOWEST_PS) * 2**more

    def _share(self) -> float:
        """Return the share of the chunks of all endpoints that are done."""
        records = self._network.endpoints.records
        total = int((records["end"] - records["start"]).clip(0).sum())
        done = int((records["low"] - records["start"]).clip(0).sum())
        return min(done / total, 1.0) if total else 0.0


FREE: Final = 12
"""Doublings of a watched run's speed after which it is no longer slowed down."""


class _Step(NamedTuple):
    """End of a step: time stands still when both are reached."""

    time_ps: int
    events: int


class LivePlayer:
    """Controls the time of one network after the other, the newest given to :meth:`attach`.

    The thread in which time passes records moments; everything else may be called from any thread.
    """

    def __init__(self, *, paused: bool = False, speed: float | str | None = None) -> None:
        self.history = MomentHistory()
        self.network: JobNetwork | None = None
        self.serial = 0
        """Number of networks so far."""
        self.events = FIRST_EVENTS
        self.viewers = 0
        """Number of present viewers."""
        self.stands = False
        """Whether time stands still, and the latest moment is recorded."""
        self.paused = paused
        self.speed = speed
        """Argument of the last :meth:`pace`."""
        self.pace_ps: float | None = None if isinstance(speed, str) else speed
        """Present speed, picoseconds of virtual time per second; None: unlimited."""
        self.film: Film | None = None
        """Frames of the network, recorded while time is slowed down; None before."""
        self._watched: tuple[_Watched, float] | None = None  # with the time of its next update
        self.cost_s = 0.0
        """CPU time of the moments so far."""
        self._condition = threading.Condition()
        self._moving = threading.Lock()
        self._asking = 0
        self._step: _Step | None = None
        self._worked_s = 0.0  # CPU time of the latest slice
        self._spent_s = 0.0  # CPU time of all slices since the latest moment
        self._moment_s = 50e-6  # cost of a moment, smoothed
        self._before = (0, 0)  # events and time of the previous slice
        self._density = 1e-6  # events per picosecond, smoothed
        self._anchor: tuple[float, int] | None = None

    def attach(self, network: JobNetwork) -> None:
        """Control this network from now on."""
        self.history.clear()
        self.serial += 1
        self._before, self._anchor, self._watched = (0, 0), None, None
        self.network = network
        network.fabric.pacer = self
        self.film = None
        self._filmed()

    def _filmed(self) -> None:
        """Record frames while time is slowed down or held; at full speed that would cost more than the run."""
        wanted = self.paused or (self.speed is not None and (self.speed != WATCH or self.pace_ps is not None))
        if self.film is None and wanted and self.network is not None:
            from p4reduce.views.live.film import Film  # noqa: PLC0415  (slow to import)

            self.film = Film(self.network)
        if self.film is not None:
            self.film.record(wanted)

    def note(self) -> None:
        """Record the present moment, even if none is due: the first one, or the last of a run."""
        if self.network is not None:
            self.history.add(self.ask(partial(take, self.network)))

    # --- requests of the page

    def pause(self) -> None:
        """Stop time after the present slice."""
        with self._condition:
            self.paused, self._step = True, None
            self._condition.notify_all()

    def go(self) -> None:
        """Let time continue."""
        with self._condition:
            self.paused, self._step = False, None
            self._condition.notify_all()

    def step(self, time_ps: int) -> None:
        """Let time pass for ``time_ps``, or for one event if 0, and stop it again."""
        with self._condition:
            self.paused, self.stands = True, False
            events, now = (0, 0) if self.network is None else (self.network.fabric.events, self.network.now)
            self._step = _Step(now + time_ps, events + 1)
            self._condition.notify_all()

    def pace(self, speed: float | str | None) -> None:
        """Set the speed in picoseconds per second; None: as fast as possible; WATCH: slow enough for people."""
        with self._condition:
            self.speed, self._anchor, self._watched = speed, None, None
            self.pace_ps = None if isinstance(speed, str) else speed
            self._condition.notify_all()

    def looks(self, change: int) -> None:
        """Add ``change`` to the number of viewers."""
        with self._condition:
            self.viewers += change

    def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a condition that depends on this player; return whether it became true."""
        with self._condition:
            return self._condition.wait_for(condition, timeout_s)

    def ask(self, question: Callable[[], T]) -> T:
        """Answer a question about the network's memory, between two slices."""
        with self._condition:
            self._asking += 1
        try:
            with self._moving:
                return question()
        finally:
            with self._condition:
                self._asking -= 1
                self._condition.notify_all()

    # --- calls of the network

    def begin(self, check: Callable[[], None]) -> None:
        """Begin a run of the network; a held one waits, except for a first slice, which shows its jobs."""
        self._filmed()
        if self.film is not None:
            self.film.begin()
        if self.paused and len(self.history):
            self.passed(check)

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Hold the lock while events happen."""
        with self._moving:
            began = time.thread_time()
            yield
            self._worked_s = time.thread_time() - began
            self._spent_s += self._worked_s

    def passed(self, check: Callable[[], None]) -> None:
        """End a slice: record what there is to see, wait if the page requests it, and choose the next slice."""
        network = self.network
        if network is None:
            return
        if self._asking:
            with self._condition:
                self._condition.wait_for(lambda: not self._asking, TICK_S)
        self._choose(network)
        self._filmed()
        if self.film is not None:
            self.film.passed()
        free = not self.paused and self.pace_ps is None
        share = SEEN if self.viewers else UNSEEN
        self._measure(network)
        if not free or self._spent_s * share >= self._moment_s or self.cost_s < CREDIT_S:
            self._spent_s = 0.0
            cpu = time.thread_time()
            first = not len(self.history)
            self.history.add(take(network))
            with self._condition:
                self._condition.notify_all()
            cost = time.thread_time() - cpu
            if not first:  # the first moment has cold caches
                self.cost_s += cost
                self._moment_s += (cost - self._moment_s) / 8
        if free:
            self.events = self._free_slice(share)
        else:
            self._hold(network, check)

    def _choose(self, network: JobNetwork) -> None:
        """Update the speed of a watched run."""
        if self.speed != WATCH or self.paused:
            return
        now = time.perf_counter()
        if self._watched is None:
            self._watched = _Watched(network), now
        if now >= self._watched[1]:
            self._watched = self._watched[0], now + PACED_S
            with self._condition:
                self.pace_ps, self._anchor = self._watched[0].speed(), None

    def _measure(self, network: JobNetwork) -> None:
        events, now = network.fabric.events, network.now
        happened, passed = events - self._before[0], now - self._before[1]
        self._before = events, now
        if happened > 0 and passed > 0:
            self._density += (min(happened / passed, 1.0) - self._density) / 4

    def _free_slice(self, share: float) -> int:
        """Return the events until the next moment is affordable."""
        if self.cost_s < CREDIT_S:
            return FIRST_EVENTS
        wanted = self._moment_s / share
        grown = int(self.events * min(2.0, wanted / max(self._worked_s, 1e-6)))
        return min(max(grown, FIRST_EVENTS), MOST_EVENTS)

    def _hold(self, network: JobNetwork, check: Callable[[], None]) -> None:
        """Wait until the next slice may happen, and set its length."""
        while True:
            with self._condition:
                until = self._until(network)
                self.stands = until is None
                if until is not None:
                    break
                self._condition.notify_all()
                self._condition.wait(TICK_S)
            try:
                check()
            except BaseException:
                self.stands = False
                raise
        wait_s, aim_ps = until
        self.events = self._towards(aim_ps - network.now)
        deadline = time.perf_counter() + wait_s
        while (left := deadline - time.perf_counter()) > 0:
            with self._condition:
                if self.paused and self._step is None:
                    break
                self._condition.wait(min(left, TICK_S))
            check()
        if self.paused and self._step is None:
            self._hold(network, check)

    def _until(self, network: JobNetwork) -> tuple[float, int] | None:
        """Return the seconds to wait, and the time that the next slice should approach; None: not yet."""
        now = network.now
        step = self._step
        if step is not None and network.now >= step.time_ps and network.fabric.events >= step.events:
            self._step = step = None
        if step is not None:
            return 0.0, step.time_ps
        if self.paused:
            self._anchor = None
            return None
        if self.pace_ps is None:
            self.events = FIRST_EVENTS
            return 0.0, now + 1
        if self._anchor is None:
            self._anchor = time.perf_counter(), now
        wait_s = self._anchor[0] + (now - self._anchor[1]) / self.pace_ps - time.perf_counter()
        if not -LATE_S <= wait_s <= LONGEST_S:  # a long pause, or the run is slower than that: start a new reference
            self._anchor = None
        return min(max(wait_s, 0.0), LONGEST_S), now + max(int(self.pace_ps * FRAME_S), 1)

    def _towards(self, ahead_ps: int) -> int:
        """Return a number of events that comes close to a time so far ahead, without exceeding it by much."""
        return min(max(int(self._density * ahead_ps * 0.75), 1), MOST_EVENTS)
