"""``make live-image``: draw docs/images/live.png and beside.png in a headless Chromium.

They show the page of a paused lossy run, and the networks of two recorded runs at the same time.
"""

import argparse
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from p4reduce.network.jobs.network import observing
from p4reduce.runs.experiment import Experiment, FaultOptions
from p4reduce.runs.runner import run_experiment
from p4reduce.views.live import recording
from p4reduce.views.live.player import LivePlayer
from p4reduce.views.live.session import LiveServer, VirtualSource
from tests.support.browser import Browser, browser, why_not
from tests.support.paths import ROOT

PICTURE: Final = ROOT / "docs" / "images" / "live.png"
RUN: Final = Experiment(topology="leaf-spine-8", elements=250_000, faults=FaultOptions(loss=0.002), seed=3)
MOMENT_PS: Final = 400_000_000
"""time after the start of the run, in ps, at which chunks are missing"""
PLANS: Final = ("steiner", "ps")
"""plans shown side by side"""
PATIENCE_S: Final = 300.0


@contextmanager
def held(experiment: Experiment) -> Iterator[LivePlayer]:
    """Yield a run that is paused at MOMENT_PS; afterwards it goes on to its end."""
    player = LivePlayer(paused=True)

    def run() -> None:
        with observing(player.attach):
            run_experiment(experiment)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        stands(player)
        player.step(MOMENT_PS)
        stands(player)
        yield player
    finally:
        player.pace(None)
        player.go()
        thread.join(PATIENCE_S)


def draw(seen: Browser, path: Path) -> Path:
    """Save a picture of the page of a paused run, at desktop width and in light colours; return the path."""
    with held(RUN) as player, LiveServer(VirtualSource(f"{RUN.plan} on {RUN.topology}, loss 0.2 %", player)) as server:
        seen.shape("desktop", "light", still=True)
        seen.driver.get(server.url)
        newest = str(player.history.times()[1])
        seen.until(lambda: seen.run("return document.body.dataset.key") == newest)
        seen.until(lambda: seen.all("#slots ul.slots li"))
        return seen.picture(path)


def draw_beside(seen: Browser, path: Path) -> Path:
    """Record a run of each plan up to MOMENT_PS, open both in one page, save a picture of them; return the path."""
    found = []
    for plan in PLANS:
        experiment = RUN.model_copy(update={"plan": plan, "faults": FaultOptions()})
        with held(experiment) as player, tempfile.TemporaryDirectory() as folder:
            found.append(recording.read(recording.write(Path(folder) / recording.FILE, VirtualSource(plan, player))))
    with LiveServer(recording.beside(list(zip(PLANS, found, strict=True)))) as server:
        seen.shape("desktop", "light", still=True)
        seen.driver.get(server.url)
        seen.until(lambda: seen.all("#slots ul.slots li"))
        seen.one("#network").screenshot(str(path))
    return path


def stands(player: LivePlayer) -> None:
    """Wait until the run is paused."""
    if not player.wait_until(lambda: player.stands, PATIENCE_S):
        raise TimeoutError("the run was not held in time")


def main() -> int:
    """Return 1 if no browser can be driven."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    if reason := why_not():
        print(reason, file=sys.stderr)
        return 1
    with browser() as seen:
        print(draw(seen, PICTURE))
        print(draw_beside(seen, PICTURE.with_name("beside.png")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
