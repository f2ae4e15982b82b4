"""``--live``: the page of a command, from before its run until Ctrl-C."""

import os
import signal
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from p4reduce.base.errors import BadInput
from p4reduce.base.output import Output
from p4reduce.base.signals import SEEN_S, handling, raise_exit

if TYPE_CHECKING:
    from p4reduce.network.real.net.state import Run
    from p4reduce.play.tasks.client import RemoteExecutor
    from p4reduce.views.live.look import RealSource
    from p4reduce.views.live.source import VirtualSource

PANEL: Final = "Live page"
HELD: Final = "the run is held: press Go on the page"
SIGN_S: Final = 60.0
Live = Annotated[
    bool,
    typer.Option("--live", help="Serve a page that shows the run as it goes on; until Ctrl-C.", rich_help_panel=PANEL),
]
Hold = Annotated[
    bool, typer.Option("--hold", help="With --live: begin paused; the page's Go starts the run.", rich_help_panel=PANEL)
]
Open = Annotated[bool, typer.Option("--open", help="Open the page in a browser.", rich_help_panel=PANEL)]


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
    from p4reduce.views.live.player import Player  # noqa: PLC0415  (slow to import)
    from p4reduce.views.live.server import LiveServer  # noqa: PLC0415
    from p4reduce.views.live.source import VirtualSource  # noqa: PLC0415

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
    from p4reduce.views.live.server import LiveServer  # noqa: PLC0415

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
    from p4reduce.views.live.server import LiveServer  # noqa: PLC0415

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
