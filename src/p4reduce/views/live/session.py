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
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import typer

from p4reduce.base.errors import BadInput, require
from p4reduce.base.output import Output
from p4reduce.base.signals import SEEN_S, handling, raise_exit
from p4reduce.control_plane.plans import Plan
from p4reduce.network.jobs.network import JobNetwork
from p4reduce.topologies.model import Hop
from p4reduce.views.live.moments import MomentHistory, Views, job_key, scene, window_ps
from p4reduce.views.live.player import WATCH, LivePlayer
from p4switch.base.closing import Closable

if TYPE_CHECKING:
    from p4reduce.network.real.net.state import NetRun
    from p4reduce.play.tasks.service import RemoteExecutor
    from p4reduce.views.live.application import PageServer
    from p4reduce.views.live.film import Film
    from p4reduce.views.live.look import RealSource
    from p4reduce.views.live.play import PlaySource, TraceSource


# What a live page shows, whatever it comes from: a run in virtual time, a recording, a network of the kernel.


NOT_STILL: Final = "Frames are shown while time stands still: pause the run, at its newest moment."
AFTERWARDS: Final = "Frames are shown while a run is paused, at its newest moment; this one has ended."
MOST_ROWS: Final = 400_000
"""slots of all moments of a recording together: some ten seconds"""
MOST_JOBS: Final = 64
"""jobs that the page can tell of"""


class NotOffered(ValueError):
    """Something that a page does not offer; the text says why."""


@dataclass(frozen=True)
class WantedView:
    """Which view: the latest moment up to a time (None: of all), or one so many further; whose slots."""

    time_ps: int | None = None
    offset: int = 0
    switch: str | None = None
    job: str | None = None


class Source(Protocol):
    """Called from the server's threads."""

    def tick(self) -> dict[str, Any]:
        """The state of the run in few fields; cheap to ask for.

        scene: changes when :meth:`scene` does; state: waiting, running, paused, ended; first_ps, last_ps, count: of the
        moments that have views; speed: picoseconds a second or None; controls: whether :meth:`control` does anything;
        says: more than the state, or nothing; frames: whether :meth:`frames` tells of the newest moment, why_no_frames:
        else.
        """

    def scene(self) -> dict[str, Any]:
        """See `moments.scene`."""

    def view(self, wanted: WantedView) -> dict[str, Any] | None:
        """See `moments.Views`; None before there is anything."""

    def control(self, action: str, value: float | str | None) -> None:
        """pause, go, step (picoseconds; 0: an event) or speed (see ``LivePlayer.pace``)."""

    def frames(self, link: Hop, time_ps: int | None = None) -> list[dict[str, Any]]:
        """Frames on a link now; with ``time_ps`` those that arrived around it. Raises `NotOffered`."""

    def flights(self, from_ps: int, to_ps: int) -> dict[str, Any]:
        """Frames that arrived in a time: ``rows`` of (number, link, departed, arrived, kind), and ``kinds``.

        Where time stands still those that have yet to arrive, too, whose number is None. link: a place in the scene's
        links; kind: one in ``kinds``; ``all``: whether there were no more. Raises `NotOffered`.
        """

    def replay(self, number: int) -> dict[str, Any]:
        """The steps of a frame of the film (see ``Film.trace``). Raises `NotOffered`."""

    def trace(self, link: Hop, frame: bytes) -> dict[str, Any]:
        """The steps that the switch at the link's end would take with a frame. Raises `NotOffered`."""

    def looks(self, change: int) -> None:
        """Count one viewer more, or one less."""


class VirtualSource:
    """Networks in virtual time, the newest that the player was given."""

    def __init__(self, title: str, player: "LivePlayer") -> None:
        self.title = title
        self.player = player
        self.end: str | None = None
        """text on the page when nothing more will come"""
        self._plans: dict[str, Plan] = {}
        self._serial = 0

    def note(self) -> None:
        """Take the present moment down."""
        self.player.note()

    def finish(self, says: str) -> None:
        """Note that nothing more will come."""
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
            "pace_ps": player.pace_ps,
            "film": player.film.times() if player.film is not None else None,
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
        newest = player.history.at(None)
        for job in newest[0].jobs if newest else ():
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

    def view(self, wanted: WantedView) -> dict[str, Any] | None:
        """As of `Source`."""
        network, history = self.player.network, self.player.history
        latest = history.at(None)
        if network is None or latest is None:
            return None
        pair = history.at(wanted.time_ps, wanted.offset, window_ps(latest[0]))
        return None if pair is None else _views(network).view(*pair, switch=wanted.switch, job=wanted.job)

    def views(self, most: int) -> list[dict[str, Any]]:
        """Views of at most ``most`` moments, with the first and the latest, with all slots: for a recording."""
        network, moments = self.player.network, self.player.history.all()
        if network is None or not moments:
            return []
        return whole_views(self.player.history, _views(network), window_ps(moments[-1]), most)

    def control(self, action: str, value: float | str | None) -> None:
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

    def frames(self, link: Hop, time_ps: int | None = None) -> list[dict[str, Any]]:
        """As of `Source`: those on the link now while time stands still."""
        from p4reduce.views.live.recording import filmed, frames  # noqa: PLC0415  (slow to import)

        network = self.player.network if time_ps is not None else self._still()
        if network is None:
            raise NotOffered(NOT_STILL)
        program = next((device.program for device in network.switches.devices().values()), None)
        if time_ps is not None:
            return filmed(self._film().near(link, time_ps), program)
        return self.player.ask(lambda: frames(network.fabric, link, program))

    def flights(self, from_ps: int, to_ps: int) -> dict[str, Any]:
        """As of `Source`."""
        from p4reduce.views.live.film import KINDS, MOST_FLIGHTS, kind_of  # noqa: PLC0415  (slow to import)

        film, network = self._film(), self.player.network
        shown = film.flights(from_ps, to_ps)
        whole = len(shown) < MOST_FLIGHTS
        if network is not None and self._stands() and to_ps >= network.now:
            shown += self.player.ask(film.pending)
        rows = [
            [flight.number, flight.link, flight.departs_ps, flight.arrives_ps, kind_of(flight.frame)]
            for flight in shown
        ]
        return {"kinds": KINDS, "rows": rows, "all": whole}

    def replay(self, number: int) -> dict[str, Any]:
        """As of `Source`."""
        return self._film().trace(number)

    def _film(self) -> "Film":
        from p4reduce.views.live.film import NO_FILM  # noqa: PLC0415  (slow to import)

        film = self.player.film
        if film is None:
            raise NotOffered(NO_FILM)
        return film

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


# The page's server: on loopback, at a port of the system's choice, for clients that have the token.


JOIN_S: Final = 5.0
DESCRIPTORS: Final = 128
"""more than its connections and files need: the limit of the process grows by them where it may"""


BACKLOG: Final = 1024
"""connections that wait in the system until they are taken"""


class LiveServer(Closable):
    """Serves a source until it is closed. Use as a context manager.

    Until a client connects it is a socket and a thread that waits for it: what answers is imported then.

    Attributes
    ----------
    url : str
        With the token.
    token : str
        Of 128 bits; every request but those for styles and scripts must have it.
    """

    def __init__(self, source: "Source | PlaySource | TraceSource") -> None:
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
        self._serving: PageServer | None = None
        self._thread = threading.Thread(target=self._run, name=f"live page {self.port}", daemon=True)

    def _run(self) -> None:
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        ready.register(self._end, select.POLLIN)
        ready.poll()
        if self._closed.is_set():
            return
        from p4reduce.views.live.application import PageServer  # noqa: PLC0415  (slow to import, and most often not needed)

        serving = PageServer(self.source, self.token, self.port)
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


def whole_views(history: MomentHistory, views: Views, span_ps: int, most: int) -> list[dict[str, Any]]:
    """Views of at most ``most`` of the moments, with the first and the latest, with all slots."""
    moments = history.all()
    rows = sum(cells.size for job in moments[-1].jobs for cells in job.slots.values())
    most = min(most, max(MOST_ROWS // max(rows, 1), 2))
    step = max(1, -(-(len(moments) - 1) // max(most - 1, 1)))
    chosen = [*moments[:-1:step], moments[-1]]
    pairs = [history.at(moment.time_ps, 0, span_ps) for moment in chosen]
    return [views.whole(*pair) for pair in pairs if pair is not None]


def _views(network: JobNetwork) -> Views:
    return Views(network.fabric.topology, network.fabric.links)


HELD: Final = "the run is held: press Go on the page"
SLOWED: Final = (
    "time is slowed down to be watched, most often for half a minute: choose 'as fast as it goes', or --full-speed"
)
SIGN_S: Final = 60.0


@contextmanager
def live_page(
    output: Output, title: str, *, live: bool, hold: bool = False, browser: bool = False, fast: bool = False
) -> Iterator["VirtualSource | None"]:
    """Serve a page of every network in virtual time that is made inside; afterwards, until Ctrl-C, of what it was.

    Without ``live`` nothing is served, and None is given.
    """
    if not live:
        _alone(hold=hold, browser=browser, fast=fast)
        yield None
        return
    from p4reduce.network.jobs.network import observing  # noqa: PLC0415
    from p4reduce.runs.virtual import cluster  # noqa: F401, PLC0415  (what a run needs is there before its page is)
    from p4reduce.views.live.session import LiveServer  # noqa: PLC0415

    player = LivePlayer(paused=hold, speed=None if fast else WATCH)
    source = VirtualSource(title, player)
    with (
        handling(raise_exit, signal.SIGTERM, signal.SIGHUP),
        LiveServer(source) as server,
        observing(player.attach),
    ):
        told(output, server.url, browser=browser)
        if hold:
            output.note(HELD)
        elif not fast:
            output.note(SLOWED)
        try:
            yield source
        except Exception as error:
            if player.network is None:
                raise
            reason = "" if isinstance(error, typer.Exit) else f": {error}"  # what was said already
            source.finish(f"the run has failed{reason}")
            stay(output, f"the run has failed{reason}")
            raise
        source.finish("the run has ended")
        stay(output, "the run has ended")


@contextmanager
def real_page(
    output: Output, title: str, *, live: bool, hold: bool = False, browser: bool = False, fast: bool = False
) -> Iterator["RealSource | None"]:
    """Serve a page of the runs in real time that this process starts inside; afterwards, until Ctrl-C, of the last."""
    if (hold or fast) and live:
        flag = "--hold" if hold else "--full-speed"
        raise BadInput(f"{flag}: real time cannot be held or slowed down; leave it away, or --time real")
    if not live:
        _alone(hold=hold, browser=browser, fast=fast)
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
            reason = "" if isinstance(error, typer.Exit) else f": {error}"  # what was said already
            source.finish(f"the run has failed{reason}")
            if len(source.history):
                stay(output, f"the run has failed{reason}")
            raise
        source.finish("the run has ended")
        stay(output, "the run has ended")


def watch_running(output: Output, run: "NetRun", *, browser: bool, data: bool = False) -> None:
    """Serve a page of a run or network that goes on now, until Ctrl-C; it is left alone. ``data``: its address, too."""
    from p4reduce.network.real.net import state  # noqa: PLC0415
    from p4reduce.views.live.look import RealSource  # noqa: PLC0415  (slow to import)
    from p4reduce.views.live.session import LiveServer  # noqa: PLC0415

    title = f"{run.name}: {run.info.get('what', run.kind)}"
    source = RealSource(title, lambda: state.view_of(lambda other_run: other_run.word == run.word), restarts=False)
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


def serve_page(
    output: Output, source: "Source | PlaySource | TraceSource", why: str, *, browser: bool, data: bool = True
) -> None:
    """Serve a page of what runs no network here until Ctrl-C; ``data``: its address as JSON, too."""
    with handling(raise_exit, signal.SIGTERM, signal.SIGHUP), LiveServer(source) as server:
        if data:
            output.data({"url": server.url})
        told(output, server.url, browser=browser)
        stay(output, why)


def record(output: Output, source: "VirtualSource | RealSource | None", out: Path | None) -> None:
    """Write what the page showed beside a run's results, for 'p4reduce watch'; nothing without page or folder."""
    if source is None or out is None:
        return
    from p4reduce.views.live.recording import FILE, write  # noqa: PLC0415

    source.note()
    write(out / FILE, source)
    output.note(f"wrote {FILE} to {out}: p4reduce watch {out}")


def _alone(*, hold: bool, browser: bool, fast: bool = False) -> None:
    """``BadInput`` for flags that mean nothing without --live."""
    if flag := "--hold" if hold else "--open" if browser else "--full-speed" if fast else "":
        raise BadInput(f"{flag}: needs --live")


def told(output: Output, url: str, *, browser: bool) -> None:
    """Say where the page is, and open it if that is wanted."""
    output.note(f"live page: {url}")
    if browser and not webbrowser.open(url):
        output.note("no browser could be opened: open the address yourself")


def stay(output: Output, why: str, sign: Callable[[], object] | None = None) -> None:
    """Wait for Ctrl-C. ``sign``: called once a minute, for servers that would end when no request comes."""
    never, signed = threading.Event(), time.monotonic()
    try:
        output.note(f"{why}; the page stays until Ctrl-C")  # the user may press it as soon as the line is there
        while not never.wait(SEEN_S):
            if sign is not None and time.monotonic() - signed > SIGN_S:
                signed = time.monotonic()
                sign()
    except KeyboardInterrupt:
        output.note("the page is closed")
