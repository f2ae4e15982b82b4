"""``--live``: the page of a command, from before its run until Ctrl-C."""

import os
import resource
import secrets
import select
import signal
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self, TypeVar

import typer

from p4reduce.base.errors import BadInput, require
from p4reduce.base.output import Output
from p4reduce.base.signals import SEEN_S, handling, raise_exit
from p4reduce.control_plane.plans import Plan
from p4reduce.network.jobs.network import JobNetwork
from p4reduce.topologies.model import Hop
from p4reduce.views.live.moments import History, Views, job_key, scene, take, window_ps

if TYPE_CHECKING:
    from p4reduce.network.real.net.state import Run
    from p4reduce.play.tasks.service import RemoteExecutor
    from p4reduce.views.live.application import Serving
    from p4reduce.views.live.look import RealSource


# What a live page shows, whatever it comes from: a run in virtual time, a recording, a network of the kernel.


NOT_STILL: Final = "Frames are shown while time stands still: pause the run, at its newest moment."
AFTERWARDS: Final = "Frames are shown while a run is paused, at its newest moment; this one has ended."
MOST_ROWS: Final = 400_000
"""slots of all moments of a recording together: some ten seconds"""
MOST_JOBS: Final = 64
"""jobs that the page can tell of"""


class NotOffered(ValueError):
    """What this page cannot do, and why."""


@dataclass(frozen=True)
class Wanted:
    """Which view: the latest moment up to a time (None: of all), or one so many further; whose slots."""

    time_ps: int | None = None
    offset: int = 0
    switch: str | None = None
    job: str | None = None


class Source(Protocol):
    """Called from the server's threads."""

    def tick(self) -> dict[str, Any]:
        """Where it stands, in few words; cheap.

        scene: changes when :meth:`scene` does; state: waiting, running, paused, ended; first_ps, last_ps, count: of the
        moments that have views; speed: picoseconds a second or None; controls: whether :meth:`control` does anything;
        says: more than the state, or nothing; frames: whether :meth:`frames` tells of the newest moment, why_no_frames:
        else.
        """

    def scene(self) -> dict[str, Any]:
        """See ``scene.py``."""

    def view(self, wanted: Wanted) -> dict[str, Any] | None:
        """See ``views.py``; None before there is anything."""

    def control(self, action: str, value: float | None) -> None:
        """pause, go, step (picoseconds; 0: an event) or speed (picoseconds a second; None: as fast as it goes)."""

    def frames(self, link: Hop) -> list[dict[str, Any]]:
        """Frames on a link now. Raises `NotOffered`."""

    def trace(self, link: Hop, frame: bytes) -> dict[str, Any]:
        """What the switch at the link's end would do with a frame. Raises `NotOffered`."""

    def looks(self, change: int) -> None:
        """One more looks, or one less."""


class VirtualSource:
    """Networks in virtual time, the newest that the player was given."""

    def __init__(self, title: str, player: "Player") -> None:
        self.title = title
        self.player = player
        self.end: str | None = None
        """What is said when nothing more will come."""
        self._plans: dict[str, Plan] = {}
        self._serial = 0

    def note(self) -> None:
        """Take the present moment down."""
        self.player.note()

    def finish(self, says: str) -> None:
        """Nothing more will come."""
        self.note()
        self.end = says

    def tick(self) -> dict[str, Any]:
        """As of `Source`."""
        player = self.player
        self._see()
        first, last = player.history.times()
        state = "ended" if self.end is not None else "paused" if player.paused else "running"
        if player.network is None or not len(player.history):
            state = "paused" if player.paused and self.end is None else "waiting" if self.end is None else "ended"
        return {
            "scene": f"{self._serial}:{','.join(self._plans)}",
            "state": state,
            "first_ps": first,
            "last_ps": last,
            "count": len(player.history),
            "speed": player.speed,
            "controls": self.end is None,
            "frames": self._stands(),
            "why_no_frames": NOT_STILL if self.end is None else AFTERWARDS,
            "says": self.end or "",
        }

    def _see(self) -> None:
        """Notice jobs that are new."""
        player = self.player
        if self._serial != player.serial:
            self._serial, self._plans = player.serial, {}
        found = player.history.at(None)
        for job in found[0].jobs if found else ():
            self._plans.setdefault(job_key(job.plan), job.plan)
        while len(self._plans) > MOST_JOBS:
            del self._plans[next(iter(self._plans))]

    def scene(self) -> dict[str, Any]:
        """The network as it is, with all jobs so far."""
        self._see()
        network = self.player.network
        if network is None:
            return {"title": self.title, "topology": "", "nodes": [], "links": [], "jobs": []}
        return scene(self.title, network.fabric.topology, list(self._plans.values()))

    def view(self, wanted: Wanted) -> dict[str, Any] | None:
        """As of `Source`."""
        network, history = self.player.network, self.player.history
        latest = history.at(None)
        if network is None or latest is None:
            return None
        found = history.at(wanted.time_ps, wanted.offset, window_ps(latest[0]))
        return None if found is None else _views(network).view(*found, switch=wanted.switch, job=wanted.job)

    def views(self, most: int) -> list[dict[str, Any]]:
        """Of at most so many moments, the first and the latest among them, with all slots: for a recording."""
        network, moments = self.player.network, self.player.history.all()
        if network is None or not moments:
            return []
        return whole_views(self.player.history, _views(network), window_ps(moments[-1]), most)

    def control(self, action: str, value: float | None) -> None:
        """As of `Source`. Raises `NotOffered` after the end."""
        if self.end is not None:
            raise NotOffered("the run has ended: only what was taken down can be looked at")
        match action:
            case "pause":
                self.player.pause()
            case "go":
                self.player.go()
            case "step":
                self.player.step(int(value or 0))
            case _:
                self.player.pace(value)

    def frames(self, link: Hop) -> list[dict[str, Any]]:
        """As of `Source`: while time stands still."""
        from p4reduce.views.live.recording import frames  # noqa: PLC0415  (slow to import)

        network = self._still()
        device = next((d for d in network.switches.devices().values()), None)
        program = None if device is None else device.program
        return self.player.ask(lambda: frames(network.fabric, link, program))

    def trace(self, link: Hop, frame: bytes) -> dict[str, Any]:
        """As of `Source`: while time stands still."""
        from p4reduce.views.live.recording import NoTrace, trace  # noqa: PLC0415  (slow to import)

        network = self._still()
        try:
            return self.player.ask(lambda: trace(network.fabric, link, frame))
        except NoTrace as error:
            raise NotOffered(str(error)) from None

    def _still(self) -> JobNetwork:
        network = self.player.network
        if network is None or not self._stands():
            raise NotOffered(NOT_STILL if self.end is None else AFTERWARDS)
        return network

    def _stands(self) -> bool:
        return self.player.stands and self.end is None

    def looks(self, change: int) -> None:
        """As of `Source`."""
        self.player.looks(change)


# The page's server: on loopback, at a port of the system's choice, for whoever has the token.


JOIN_S: Final = 5.0
DESCRIPTORS: Final = 128
"""more than its connections and files need: the limit of the process grows by them where it may"""


BACKLOG: Final = 1024
"""connections that wait in the system until they are taken"""


class LiveServer:
    """Serves a source until it is closed. Use as a context manager.

    Until somebody connects it is a socket and a thread that waits for it: what answers is imported then.

    Attributes
    ----------
    url : str
        With the token.
    token : str
        Of 128 bits; every request but those for styles and scripts must have it.
    """

    def __init__(self, source: "Source") -> None:
        require("uvicorn", "live")
        require("starlette", "live")
        self.source = source
        self.token = secrets.token_hex(16)
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}/?token={self.token}"
        self._end = os.eventfd(0)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._serving: Serving | None = None
        self._thread = threading.Thread(target=self._run, name=f"live page {self.port}", daemon=True)

    def _run(self) -> None:
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        ready.register(self._end, select.POLLIN)
        ready.poll()
        if self._closed.is_set():
            return
        from p4reduce.views.live.application import Serving  # noqa: PLC0415  (slow to import, and most often not needed)

        serving = Serving(self.source, self.token, self.port)
        with self._lock:
            if self._closed.is_set():
                return
            self._serving = serving
        serving.run(self._socket)

    def start(self) -> None:
        """Begin to serve; requests that come before it does wait in the socket.

        Its descriptors are its own: the process may have so many more, so that no connection takes one of the run's.
        """
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            most = soft + DESCRIPTORS
            resource.setrlimit(
                resource.RLIMIT_NOFILE, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
            )
        self._socket.listen(BACKLOG)
        self._thread.start()

    def close(self) -> None:
        """Stop; streams to pages that are open end. May be called again."""
        with self._lock:
            again = self._closed.is_set()
            self._closed.set()
            serving = self._serving
        if again:
            return
        os.eventfd_write(self._end, 1)
        if serving is not None:
            serving.end()
        if self._thread.is_alive():
            self._thread.join(JOIN_S)
        self._socket.close()
        if not self._thread.is_alive():
            os.close(self._end)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def whole_views(history: History, views: Views, span_ps: int, most: int) -> list[dict[str, Any]]:
    """Of at most so many of the moments, the first and the latest among them, with all slots."""
    moments = history.all()
    rows = sum(cells.size for job in moments[-1].jobs for cells in job.slots.values())
    most = min(most, max(MOST_ROWS // max(rows, 1), 2))
    step = max(1, -(-(len(moments) - 1) // max(most - 1, 1)))
    chosen = [*moments[:-1:step], moments[-1]]
    found = [history.at(moment.time_ps, 0, span_ps) for moment in chosen]
    return [views.whole(*pair) for pair in found if pair is not None]


def _views(network: JobNetwork) -> Views:
    return Views(network.fabric.topology, network.fabric.links)


# The pacer of a run that is looked at: it takes moments down, and holds virtual time when somebody asks it to.


T = TypeVar("T")

UNSEEN: Final = 0.004
"""share of the run's time that taking moments down may cost while nobody looks"""
SEEN: Final = 0.04
"""the same while somebody does"""
CREDIT_S: Final = 0.003
"""CPU time that is spent beforehand, so that a short run has moments, too"""
FIRST_EVENTS: Final = 250
"""events between the first moments"""
MOST_EVENTS: Final = 200_000
FRAME_S: Final = 0.05
"""wall-clock time between moments of a run that is slowed down"""
LONGEST_S: Final = 1.0
"""wall-clock time that is waited at most where nothing happens in virtual time"""
LATE_S: Final = 0.25
"""wall-clock time that a slowed run may be late, and catch up with"""
TICK_S: Final = 0.1
"""how often whoever waits looks whether the run was ended"""


class _Step(NamedTuple):
    """Time stands still when both are reached."""

    time_ps: int
    events: int


class Player:
    """Drives the time of one network after the other, the newest that :meth:`attach` was given.

    The thread in which time passes takes moments down; all else may be called from any thread.
    """

    def __init__(self, *, paused: bool = False) -> None:
        self.history = History()
        self.network: JobNetwork | None = None
        self.serial = 0
        """how many networks there have been"""
        self.events = FIRST_EVENTS
        self.viewers = 0
        """how many look now"""
        self.stands = False
        """whether time stands still, and the latest moment is taken down"""
        self.paused = paused
        self.speed: float | None = None
        """picoseconds of virtual time in a second; None: as fast as it goes"""
        self.cost_s = 0.0
        """CPU time that moments have cost so far"""
        self._condition = threading.Condition()
        self._moving = threading.Lock()
        self._asking = 0
        self._step: _Step | None = None
        self._worked_s = 0.0  # CPU time of the latest slice
        self._spent_s = 0.0  # the same of all since the latest moment
        self._moment_s = 50e-6  # what one costs, smoothed
        self._before = (0, 0)  # events and time of the slice before
        self._density = 1e-6  # events a picosecond, smoothed
        self._anchor: tuple[float, int] | None = None

    def attach(self, network: JobNetwork) -> None:
        """Look at this network from now on."""
        self.history.clear()
        self.serial += 1
        self._before, self._anchor = (0, 0), None
        self.network = network
        network.fabric.pacer = self

    def note(self) -> None:
        """Take the present moment down, which may not have been due: the first one, or the last of a run."""
        if self.network is not None:
            self.history.add(self.ask(partial(take, self.network)))

    # --- what the page asks for

    def pause(self) -> None:
        """Time stands still after the slice that is under way."""
        with self._condition:
            self.paused, self._step = True, None
            self._condition.notify_all()

    def go(self) -> None:
        """Time goes on."""
        with self._condition:
            self.paused, self._step = False, None
            self._condition.notify_all()

    def step(self, time_ps: int) -> None:
        """Time goes on by so much, or one event for 0, and stands still again."""
        with self._condition:
            self.paused, self.stands = True, False
            events, now = (0, 0) if self.network is None else (self.network.fabric.events, self.network.now)
            self._step = _Step(now + time_ps, events + 1)
            self._condition.notify_all()

    def pace(self, speed: float | None) -> None:
        """So many picoseconds in a second from now on; None: as fast as it goes."""
        with self._condition:
            self.speed, self._anchor = speed, None
            self._condition.notify_all()

    def looks(self, change: int) -> None:
        """One more looks, or one less."""
        with self._condition:
            self.viewers += change

    def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for what depends on this player; whether it came to be so."""
        with self._condition:
            return self._condition.wait_for(condition, timeout_s)

    def ask(self, question: Callable[[], T]) -> T:
        """The answer to a question about the network's memory, between two slices."""
        with self._condition:
            self._asking += 1
        try:
            with self._moving:
                return question()
        finally:
            with self._condition:
                self._asking -= 1
                self._condition.notify_all()

    # --- what the network asks for

    def begin(self, check: Callable[[], None]) -> None:
        """A run of the network begins: one that is held waits, but for a first glance, which shows its jobs."""
        if self.paused and len(self.history):
            self.passed(check)

    @contextmanager
    def moving(self) -> Iterator[None]:
        """While this is held events happen."""
        with self._moving:
            began = time.thread_time()
            yield
            self._worked_s = time.thread_time() - began
            self._spent_s += self._worked_s

    def passed(self, check: Callable[[], None]) -> None:
        """A slice is over: take down what there is to see, wait if somebody wants that, choose the next slice."""
        network = self.network
        if network is None:
            return
        if self._asking:
            with self._condition:
                self._condition.wait_for(lambda: not self._asking, TICK_S)
        free = not self.paused and self.speed is None
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
            if not first:  # which finds nothing in caches
                self.cost_s += cost
                self._moment_s += (cost - self._moment_s) / 8
        if free:
            self.events = self._free_slice(share)
        else:
            self._hold(network, check)

    def _measure(self, network: JobNetwork) -> None:
        events, now = network.fabric.events, network.now
        happened, passed = events - self._before[0], now - self._before[1]
        self._before = events, now
        if happened > 0 and passed > 0:
            self._density += (min(happened / passed, 1.0) - self._density) / 4

    def _free_slice(self, share: float) -> int:
        """Events until moments have earned the next one."""
        if self.cost_s < CREDIT_S:
            return FIRST_EVENTS
        wanted = self._moment_s / share
        grown = int(self.events * min(2.0, wanted / max(self._worked_s, 1e-6)))
        return min(max(grown, FIRST_EVENTS), MOST_EVENTS)

    def _hold(self, network: JobNetwork, check: Callable[[], None]) -> None:
        """Until the next slice may happen; its length."""
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
        """Seconds to wait, and the time that the next slice is to come near to; None: not yet."""
        now = network.now
        step = self._step
        if step is not None and network.now >= step.time_ps and network.fabric.events >= step.events:
            self._step = step = None
        if step is not None:
            return 0.0, step.time_ps
        if self.paused:
            self._anchor = None
            return None
        if self.speed is None:
            self.events = FIRST_EVENTS
            return 0.0, now + 1
        if self._anchor is None:
            self._anchor = time.perf_counter(), now
        wait_s = self._anchor[0] + (now - self._anchor[1]) / self.speed - time.perf_counter()
        if not -LATE_S <= wait_s <= LONGEST_S:  # nothing happened for long, or it does not go as fast: begin anew
            self._anchor = None
        return min(max(wait_s, 0.0), LONGEST_S), now + max(int(self.speed * FRAME_S), 1)

    def _towards(self, ahead_ps: int) -> int:
        """Events that come near to a time that is so far ahead, without going beyond it by much."""
        return min(max(int(self._density * ahead_ps * 0.75), 1), MOST_EVENTS)


HELD: Final = "the run is held: press Go on the page"
SIGN_S: Final = 60.0


@contextmanager
def live_page(
    output: Output, title: str, *, live: bool, hold: bool = False, browser: bool = False
) -> Iterator["VirtualSource | None"]:
    """Serve a page of every network in virtual time that is made inside; afterwards, until Ctrl-C, of what it was.

    Without ``live`` nothing is served, and None is given.
    """
    if not live:
        _alone(hold=hold, browser=browser)
        yield None
        return
    from p4reduce.network.jobs.network import observing  # noqa: PLC0415
    from p4reduce.runs.virtual import cluster  # noqa: F401, PLC0415  (what a run needs is there before its page is)
    from p4reduce.views.live.session import LiveServer  # noqa: PLC0415

    player = Player(paused=hold)
    source = VirtualSource(title, player)
    with (
        handling(raise_exit, signal.SIGTERM, signal.SIGHUP),
        LiveServer(source) as server,
        observing(player.attach),
    ):
        told(output, server.url, browser=browser)
        if hold:
            output.note(HELD)
        try:
            yield source
        except Exception as error:
            if player.network is None:
                raise
            said = "" if isinstance(error, typer.Exit) else f": {error}"  # what was said already
            source.finish(f"the run has failed{said}")
            stay(output, f"the run has failed{said}")
            raise
        source.finish("the run has ended")
        stay(output, "the run has ended")


@contextmanager
def real_page(
    output: Output, title: str, *, live: bool, hold: bool = False, browser: bool = False
) -> Iterator["RealSource | None"]:
    """Serve a page of the runs in real time that this process starts inside; afterwards, until Ctrl-C, of the last."""
    if hold and live:
        raise BadInput("--hold: real time cannot be held; leave it away, or --time real")
    if not live:
        _alone(hold=hold, browser=browser)
        yield None
        return
    from p4reduce.network.real.net import state  # noqa: PLC0415
    from p4reduce.views.live.look import RealSource  # noqa: PLC0415  (slow to import)
    from p4reduce.views.live.session import LiveServer  # noqa: PLC0415

    source = RealSource(title, lambda: state.view_of(lambda run: run.owner.pid == os.getpid()))
    with handling(raise_exit, signal.SIGTERM, signal.SIGHUP), closing(source), LiveServer(source) as server:
        told(output, server.url, browser=browser)
        try:
            yield source
        except Exception as error:
            said = "" if isinstance(error, typer.Exit) else f": {error}"  # what was said already
            source.finish(f"the run has failed{said}")
            if len(source.history):
                stay(output, f"the run has failed{said}")
            raise
        source.finish("the run has ended")
        stay(output, "the run has ended")


def watch_running(output: Output, run: "Run", *, browser: bool, data: bool = False) -> None:
    """Serve a page of a run or network that goes on now, until Ctrl-C; it is left alone. ``data``: its address, too."""
    from p4reduce.network.real.net import state  # noqa: PLC0415
    from p4reduce.views.live.look import RealSource  # noqa: PLC0415  (slow to import)
    from p4reduce.views.live.session import LiveServer  # noqa: PLC0415

    title = f"{run.name}: {run.info.get('what', run.kind)}"
    source = RealSource(title, lambda: state.view_of(lambda one: one.word == run.word), restarts=False)
    with handling(raise_exit, signal.SIGTERM, signal.SIGHUP), closing(source), LiveServer(source) as server:
        if data:
            output.data({"url": server.url})
        told(output, server.url, browser=browser)
        stay(output, f"{run.name} is shown")


@contextmanager
def tasks_page(
    output: Output, executor: "RemoteExecutor", database: Path, *, live: bool, hold: bool = False, browser: bool = False
) -> Iterator[None]:
    """Have the process of a network serve a page of its tasks; afterwards, until Ctrl-C, of what they were."""
    if not live:
        _alone(hold=hold, browser=browser)
        yield
        return
    page = executor.page(hold=hold, database=str(database.absolute()), title=f"tasks of {database.name}")
    told(output, page["url"], browser=browser)
    if hold:
        output.note(HELD)
    try:
        yield
    except Exception as error:
        executor.page(ended=f"the orchestrator has failed: {error}")
        stay(output, f"the orchestrator has failed: {error}", executor.now)
        raise
    executor.page(ended="all tasks have ended")
    stay(output, "all tasks have ended", executor.now)


def record(output: Output, source: "VirtualSource | RealSource | None", out: Path | None) -> None:
    """Write what the page showed beside a run's results, for 'p4reduce watch'; nothing without page or folder."""
    if source is None or out is None:
        return
    from p4reduce.views.live.recording import FILE, write  # noqa: PLC0415

    source.note()
    write(out / FILE, source)
    output.note(f"wrote {FILE} to {out}: p4reduce watch {out}")


def _alone(*, hold: bool, browser: bool) -> None:
    """``BadInput`` for flags that mean nothing without --live."""
    if hold or browser:
        raise BadInput(f"{'--hold' if hold else '--open'}: goes with --live")


def told(output: Output, url: str, *, browser: bool) -> None:
    """Say where the page is, and open it if that is wanted."""
    output.note(f"live page: {url}")
    if browser and not webbrowser.open(url):
        output.note("no browser could be opened: open the address yourself")


def stay(output: Output, why: str, sign: Callable[[], object] | None = None) -> None:
    """Until Ctrl-C. ``sign``: called once a minute, for others who would end when nobody asks for anything."""
    never, signed = threading.Event(), time.monotonic()
    try:
        output.note(f"{why}; the page stays until Ctrl-C")  # whoever has read it may press it at once
        while not never.wait(SEEN_S):
            if sign is not None and time.monotonic() - signed > SIGN_S:
                signed = time.monotonic()
                sign()
    except KeyboardInterrupt:
        output.note("the page is closed")
