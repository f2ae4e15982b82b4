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
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import typer

from p4reduce.base.errors import BadInput, require
from p4reduce.base.output import Output
from p4reduce.base.signals import SEEN_S, handling, raise_exit
from p4reduce.control_plane.plans import Plan
from p4reduce.group.errors import ClusterError
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


# Sources of a live page: a run in virtual time, a recording, a network of the kernel.


NOT_STILL: Final = "Frames are shown while time stands still: pause the run, at its newest moment."
AFTERWARDS: Final = "Frames are shown while a run is paused, at its newest moment; this one has ended."
MOST_ROWS: Final = 400_000
"""Most slots of all moments of a recording together, whose views take about ten seconds to make."""
MOST_JOBS: Final = 64
"""Most jobs that the page can show."""


class NotOffered(ValueError):
    """Raised for a request that a page does not offer; the text gives the reason."""


@dataclass(frozen=True)
class WantedView:
    """A requested view: the latest moment up to a time (None: of all), moved by ``offset``; and whose slots."""

    time_ps: int | None = None
    offset: int = 0
    switch: str | None = None
    job: str | None = None


class Source(Protocol):
    """Source of a live page; called from the server's threads."""

    def tick(self) -> dict[str, Any]:
        """Return the state of the run in few fields; cheap.

        scene: changes when :meth:`scene` does; state: waiting, running, paused, ended; first_ps, last_ps, count: of the
        moments with views; speed: picoseconds per second or None; controls: whether :meth:`control` has an effect;
        says: text beyond the state, or ''; frames: whether :meth:`frames` works for the newest moment; why_no_frames:
        the reason otherwise.
        """

    def scene(self) -> dict[str, Any]:
        """Return the scene; see `moments.scene`."""

    def view(self, wanted: WantedView) -> dict[str, Any] | None:
        """Return a view; see `moments.Views`. None before there is a moment."""

    def control(self, action: str, value: float | str | None) -> None:
        """Control the run: pause, go, step (picoseconds; 0: one event) or speed (see ``LivePlayer.pace``)."""

    def frames(self, link: Hop, time_ps: int | None = None) -> list[dict[str, Any]]:
        """Return frames on a link now; with ``time_ps`` those that arrived around it. Raises `NotOffered`."""

    def flights(self, from_ps: int, to_ps: int) -> dict[str, Any]:
        """Return frames that arrived in an interval: ``rows`` (number, link, departed, arrived, kind), and ``kinds``.

        While time stands still also frames in flight, whose number is None. link: index in the scene's links; kind:
        index in ``kinds``; ``all``: whether there were no more. Raises `NotOffered`.
        """

    def replay(self, number: int) -> dict[str, Any]:
        """Return the steps of a frame of the film (see ``Film.trace``). Raises `NotOffered`."""

    def trace(self, link: Hop, frame: bytes) -> dict[str, Any]:
        """Return the steps that the switch at the link's end would take with a frame. Raises `NotOffered`."""

    def looks(self, change: int) -> None:
        """Add ``change`` to the number of viewers."""


class VirtualSource:
    """Source of networks in virtual time: the newest that was given to the player."""

    def __init__(self, title: str, player: "LivePlayer") -> None:
        self.title = title
        self.player = player
        self.end: str | None = None
        """Text on the page at the end; None before."""
        self._plans: dict[str, Plan] = {}
        self._serial = 0

    def note(self) -> None:
        """Record the present moment."""
        self.player.note()

    def begin(self, *, hold: bool) -> None:
        """Note that another run begins in this network: paused with ``hold``, else moving, also after a pause."""
        if hold:
            self.player.pause()
        else:
            self.player.go()
        self.end = None

    def finish(self, says: str) -> None:
        """Note that nothing more will come."""
        self.note()
        self.end = says

    def tick(self) -> dict[str, Any]:
        """Return the tick; as `Source`."""
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
        """Add new jobs."""
        player = self.player
        if self._serial != player.serial:
            self._serial, self._plans = player.serial, {}
        newest = player.history.at(None)
        for job in newest[0].jobs if newest else ():
            self._plans.setdefault(job_key(job.plan), job.plan)
        while len(self._plans) > MOST_JOBS:
            del self._plans[next(iter(self._plans))]

    def scene(self) -> dict[str, Any]:
        """Return the present network, with all jobs so far."""
        self._see()
        network = self.player.network
        if network is None:
            return {"title": self.title, "topology": "", "nodes": [], "links": [], "jobs": []}
        return scene(self.title, network.fabric.topology, list(self._plans.values()))

    def view(self, wanted: WantedView) -> dict[str, Any] | None:
        """Return a view; as `Source`."""
        network, history = self.player.network, self.player.history
        latest = history.at(None)
        if network is None or latest is None:
            return None
        pair = history.at(wanted.time_ps, wanted.offset, window_ps(latest[0]))
        return None if pair is None else _views(network).view(*pair, switch=wanted.switch, job=wanted.job)

    def views(self, most: int) -> list[dict[str, Any]]:
        """Return views of at most ``most`` moments, the first and the latest included, with all slots."""
        network, moments = self.player.network, self.player.history.all()
        if network is None or not moments:
            return []
        return whole_views(self.player.history, _views(network), window_ps(moments[-1]), most)

    def control(self, action: str, value: float | str | None) -> None:
        """Control the run; as `Source`. Raises `NotOffered` after the end."""
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
        """Return frames; as `Source`. Those on the link now only while time stands still."""
        from p4reduce.views.live.recording import filmed, frames  # noqa: PLC0415  (slow to import)

        network = self.player.network if time_ps is not None else self._still()
        if network is None:
            raise NotOffered(NOT_STILL)
        program = next((device.program for device in network.switches.devices().values()), None)
        if time_ps is not None:
            return filmed(self._film().near(link, time_ps), program)
        return self.player.ask(lambda: frames(network.fabric, link, program))

    def flights(self, from_ps: int, to_ps: int) -> dict[str, Any]:
        """Return flights; as `Source`."""
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
        """Return the steps of a filmed frame; as `Source`."""
        return self._film().trace(number)

    def _film(self) -> "Film":
        from p4reduce.views.live.film import NO_FILM  # noqa: PLC0415  (slow to import)

        film = self.player.film
        if film is None:
            raise NotOffered(NO_FILM)
        return film

    def trace(self, link: Hop, frame: bytes) -> dict[str, Any]:
        """Return the steps of a frame; as `Source`. Only while time stands still."""
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
        """Add ``change`` to the number of viewers."""
        self.player.looks(change)


# The page's server: on loopback, at a port that the system chooses, for clients with the token.


JOIN_S: Final = 5.0
DESCRIPTORS: Final = 128
"""Descriptors for its connections and files; the process's limit is raised by them if possible."""


BACKLOG: Final = 1024
"""Connections that wait in the system until they are accepted."""


class LiveServer(Closable):
    """Server of a source, until it is closed. Use as a context manager.

    Until a client connects it consists of a socket and a waiting thread; the application is imported then.

    Attributes
    ----------
    url : str
        Address with the token.
    token : str
        Token of 128 bits, required by every request except those for styles and scripts.
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
        """Begin to serve; earlier requests wait in the socket.

        The limit of descriptors is raised by those of the server, so that no connection takes one of the run's.
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
        """Stop; streams to open pages end. May be called again."""
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
    """Return views of at most ``most`` moments, the first and the latest included, with all slots."""
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
    """Serve a page of every network in virtual time that is made inside; afterwards its final state until Ctrl-C.

    Without ``live`` no page is served, and None is yielded.
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
            reason = "" if isinstance(error, typer.Exit) else f": {error}"  # reported already
            source.finish(f"the run has failed{reason}")
            stay(output, f"the run has failed{reason}")
            raise
        source.finish("the run has ended")
        stay(output, "the run has ended")


@contextmanager
def real_page(
    output: Output, title: str, *, live: bool, hold: bool = False, browser: bool = False, fast: bool = False
) -> Iterator["RealSource | None"]:
    """Serve a page of the real-time runs that this process starts inside; afterwards the last one until Ctrl-C."""
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
            reason = "" if isinstance(error, typer.Exit) else f": {error}"  # reported already
            source.finish(f"the run has failed{reason}")
            if len(source.history):
                stay(output, f"the run has failed{reason}")
            raise
        source.finish("the run has ended")
        stay(output, "the run has ended")


def watch_running(output: Output, run: "NetRun", *, browser: bool, data: bool = False) -> None:
    """Serve a page of a running run or network until Ctrl-C, without changing it. ``data``: print its URL as JSON."""
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


ALL_ENDED: Final = "all tasks have ended"


@contextmanager
def tasks_page(
    output: Output, executor: "RemoteExecutor", database: Path, *, live: bool, hold: bool = False, browser: bool = False
) -> Iterator[None]:
    """Have the process of a network serve a page of its tasks; afterwards their final state until Ctrl-C."""
    if not live:
        _alone(hold=hold, browser=browser)
        with suppress(ClusterError):  # a network that has no page
            executor.page(hold=False, open=False)  # an earlier orchestrator may have left it paused
        yield
        with suppress(ClusterError):
            executor.page(ended=ALL_ENDED, open=False)
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
    executor.page(ended=ALL_ENDED)
    stay(output, ALL_ENDED, executor.now)


def serve_page(
    output: Output, source: "Source | PlaySource | TraceSource", why: str, *, browser: bool, data: bool = True
) -> None:
    """Serve a page of a source without a network here until Ctrl-C; ``data``: print its address as JSON, too."""
    with handling(raise_exit, signal.SIGTERM, signal.SIGHUP), LiveServer(source) as server:
        if data:
            output.data({"url": server.url})
        told(output, server.url, browser=browser)
        stay(output, why)


def record(output: Output, source: "VirtualSource | RealSource | None", out: Path | None) -> None:
    """Write the page's moments beside a run's results, for 'p4reduce watch'; do nothing without page or folder."""
    if source is None or out is None:
        return
    from p4reduce.views.live.recording import FILE, write  # noqa: PLC0415

    source.note()
    write(out / FILE, source)
    output.note(f"wrote {FILE} to {out}: p4reduce watch {out}")


def _alone(*, hold: bool, browser: bool, fast: bool = False) -> None:
    """Raise ``BadInput`` for flags that have no meaning without --live."""
    if flag := "--hold" if hold else "--open" if browser else "--full-speed" if fast else "":
        raise BadInput(f"{flag}: needs --live")


def told(output: Output, url: str, *, browser: bool) -> None:
    """Print the page's address, and open the page on request."""
    output.note(f"live page: {url}")
    if browser and not webbrowser.open(url):
        output.note("no browser could be opened: open the address yourself")


def stay(output: Output, why: str, sign: Callable[[], object] | None = None) -> None:
    """Wait for Ctrl-C. ``sign``: called once a minute, for servers that would end without requests."""
    never, signed = threading.Event(), time.monotonic()
    try:
        output.note(f"{why}; the page stays until Ctrl-C")  # the user may press it as soon as the line is there
        while not never.wait(SEEN_S):
            if sign is not None and time.monotonic() - signed > SIGN_S:
                signed = time.monotonic()
                sign()
    except KeyboardInterrupt:
        output.note("the page is closed")
