"""``make soak-live``: a live page next to 10,000 idle connections, and 1,000 pauses whose answers overtake each other.

The run with connections must end like the run without them: the same standard output, exit code, standard error (except
for the page's address) and files. After each pause, the page must soon show the state of the run.
"""

import argparse
import http.client
import json
import random
import re
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

from rich.progress import Progress

from p4reduce.network.jobs.network import observing
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4reduce.views.live.application import IDLE_S, TICK_S
from p4reduce.views.live.player import LivePlayer
from p4reduce.views.live.session import LiveServer, VirtualSource
from tests.support.idle_connections import Strangers
from tests.support.live import ask, ended, started, stayed

RUN: Final = ("run", "-t", "star:hosts=3,servers=1", "-e", "20000", "--live", "--full-speed")
ALLOWED_S: Final = 1.0
"""tolerance beyond the idle time-out, for a busy machine"""
SETTLED_S: Final = 5 * TICK_S


def main() -> int:
    """Return 1 if anything differed."""
    parser = argparse.ArgumentParser(prog="make soak-live", description=__doc__)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--pauses", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    wrong = connections(given.connections, given.seed) if given.connections else []
    wrong += pauses(given.pauses, given.seed) if given.pauses else []
    for line in wrong:
        print(line, file=sys.stderr)
    return bool(wrong)


def connections(count: int, seed: int) -> list[str]:
    """Return the differences between a run with ``count`` idle connections and one without."""
    with tempfile.TemporaryDirectory() as folder:
        quiet, _ = _run(Path(folder) / "quiet", 0, seed)
        loud, theirs = _run(Path(folder) / "loud", count, seed)
    longest = max(theirs.lives_s)
    wrong = [f"{name}: {loud[name]!r}, alone {quiet[name]!r}" for name in quiet if loud[name] != quiet[name]]
    if longest > IDLE_S + ALLOWED_S:
        wrong.append(f"a connection lived for {longest:.1f} s")
    print(
        f"{theirs.made} connections of strangers: {len(wrong)} differences, the longest lived for {longest:.1f} s, "
        f"{theirs.refused} were not taken in"
    )
    return wrong


def _run(folder: Path, count: int, seed: int) -> tuple[dict[str, Any], Strangers]:
    process, port, token = started(*RUN, "--out", str(folder))
    with Strangers(port, count, seed=seed) as theirs:
        stayed(process)
        files = {one.name: one.read_bytes() for one in sorted(folder.iterdir())}
        assert ask(port, token, "/api/scene")["nodes"]
        theirs.join(600)
    code, printed, error = ended(process, signal.SIGINT)
    error = re.sub(r"127\.0\.0\.1:\d+/\?token=\S+", "ADDRESS", error.replace(str(folder), "FOLDER"))
    shown = {"exit code": code, "standard output": printed, "standard error": error}
    results = {name: text for name, text in files.items() if not name.startswith("live")}  # wall clock
    return {**shown, **{name: hash(text) for name, text in results.items()}, "files": sorted(files)}, theirs


class _Page:
    """Model of a page by the rule of ``page.js``: updates older than the shown one are dropped."""

    def __init__(self, server: LiveServer) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._tick: dict[str, Any] | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def state(self) -> str:
        """The state that the page shows; empty before the first update."""
        return "" if self._tick is None else str(self._tick["state"])

    def update(self, tick: dict[str, Any]) -> None:
        """Apply an update, like ``update`` of page.js."""
        with self._lock:
            if self._tick is None or tick["number"] >= self._tick["number"]:
                self._tick = tick

    def tell(self, action: str, late_s: float) -> threading.Thread:
        """Send an action; its answer is applied ``late_s`` seconds later."""
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60)
        headers = {"X-Live-Token": self._server.token}
        connection.request("POST", "/api/run", json.dumps({"action": action}), headers)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        thread = threading.Timer(late_s, self.update, [answer])
        thread.start()
        return thread

    def _listen(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60)
        connection.request("GET", f"/api/stream?token={self._server.token}")
        answer = connection.getresponse()
        while not self._end.is_set() and (line := answer.readline()):
            if line.startswith(b"data:"):
                self.update(json.loads(line[5:]))
        connection.close()

    def close(self) -> None:
        """Stop listening."""
        self._end.set()


def pauses(count: int, seed: int) -> list[str]:
    """Pause and resume a run ``count`` times; return the cases in which two pages showed a wrong state."""
    player, end = LivePlayer(paused=True), threading.Event()
    source = VirtualSource("pauses", player)

    def run() -> None:
        with observing(player.attach):
            while not end.is_set():
                run_experiment(Experiment(topology="star:hosts=3,servers=1", elements=20_000, lanes=64))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert player.wait_until(lambda: player.stands, 300)
    rng, wrong = random.Random(f"pauses {seed}"), []
    with LiveServer(source) as server, Progress(transient=True) as progress:
        pages = [_Page(server), _Page(server)]
        bar = progress.add_task("pauses", total=count)
        for number in range(count):
            actions = rng.choice((("pause",), ("go", "pause"), ("pause", "go"), ("go", "pause", "go"), ("go",)))
            late = [rng.choice(pages).tell(each, rng.choice((0.0, 0.05, 0.3)) * rng.random()) for each in actions]
            for one in late:
                one.join()
            until = time.monotonic() + SETTLED_S
            while (shown := {page.state for page in pages}) != (is_so := {str(source.tick()["state"])}):
                if time.monotonic() > until:
                    wrong.append(f"pause {number}: pages show {sorted(shown)}, {is_so.pop()} is so")
                    break
                time.sleep(0.005)
            progress.advance(bar)
        for page in pages:
            page.close()
        end.set()
        player.go()
        thread.join(60)
    print(f"{count} pauses: {len(wrong)} left a page in a state that was not so for more than {SETTLED_S:g} s")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
