"""The cost of the live page for a run, without an open page and with one.

Each round has three runs in one process, one after the other: without a page, with a page that is not open, and with a
page that is open; their order changes from round to round. The viewer is a separate process that makes the same
requests as the page's scripts: it listens to the stream, and fetches the newest view, slots included, at each tick.
Ratios compare the runs of one round; shown are their medians, of processor time (all threads of the run's process,
including the server's) and of wall-clock time.
"""

import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from p4reduce.network.jobs.network import observing
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4reduce.views.live.player import LivePlayer
from p4reduce.views.live.session import LiveServer, VirtualSource

PLAIN, UNSEEN, SEEN = "no page", "page not open", "page open"
BARS: Final = {UNSEEN: 1.01, SEEN: 1.10}


@dataclass(frozen=True)
class Cost:
    """Medians over the rounds. Ratios are relative to the run without a page in the same round.

    least_ratio: ratio of the least processor times of all rounds, which other load on the machine affects least. own:
    share of the run's processor time that the player measured for recording moments.
    """

    what: str
    cpu_s: float
    clock_s: float
    cpu_ratio: float
    clock_ratio: float
    least_ratio: float
    own: float
    moments: float
    views: float


def measure(experiment: Experiment, rounds: int) -> list[Cost]:
    """Measure every case ``rounds`` times, after one warm-up round."""
    names = (PLAIN, UNSEEN, SEEN)
    samples: dict[str, list[tuple[float, float, int, int, float]]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        for place in range(len(names)):
            name = names[(turn + place) % len(names)]
            sample = _once(name, experiment)
            if turn:
                samples[name].append(sample)
    costs = []
    for name in names:
        pairs = list(zip(samples[name], samples[PLAIN], strict=True))
        costs.append(
            Cost(
                name,
                round(statistics.median(own[0] for own in samples[name]), 4),
                round(statistics.median(own[1] for own in samples[name]), 4),
                round(statistics.median(own[0] / plain[0] for own, plain in pairs), 4),
                round(statistics.median(own[1] / plain[1] for own, plain in pairs), 4),
                round(min(own[0] for own in samples[name]) / min(plain[0] for plain in samples[PLAIN]), 4),
                round(statistics.median(own[4] / own[0] for own in samples[name]), 4),
                statistics.median(own[2] for own in samples[name]),
                statistics.median(own[3] for own in samples[name]),
            )
        )
    return costs


def _once(name: str, experiment: Experiment) -> tuple[float, float, int, int, float]:
    """Return seconds of processor and wall-clock time, number of moments, number of views, cost of the moments in s."""
    if name == PLAIN:
        return (*_timed(experiment), 0, 0, 0.0)
    if name == UNSEEN:  # the page's start is a part of its cost
        used, began = time.process_time(), time.perf_counter()
        player = LivePlayer()
        with LiveServer(VirtualSource("bench", player)), observing(player.attach):
            run_experiment(experiment)
            spent = time.process_time() - used, time.perf_counter() - began
            return (*spent, len(player.history), 0, player.cost_s)
    player = LivePlayer()
    with LiveServer(VirtualSource("bench", player)) as server, observing(player.attach):
        with _looking(server) as views:
            spent = _timed(experiment)
            moments = len(player.history)
        return (*spent, moments, views[0], player.cost_s)


def _timed(experiment: Experiment) -> tuple[float, float]:
    used, began = time.process_time(), time.perf_counter()
    run_experiment(experiment)
    return time.process_time() - used, time.perf_counter() - began


@contextmanager
def _looking(server: LiveServer) -> Iterator[list[int]]:
    """Start a viewer process; yield a list that has the number of its views after the context."""
    command = [sys.executable, "-m", "studies.bench.live", str(server.port), server.token]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    views = [0]
    try:
        assert client.stdout is not None  # noqa: S101  (for the type checker: it is a pipe)
        client.stdout.readline()  # the viewer has the first tick
        yield views
        server.close()  # ends the stream and thereby the viewer
        views[0] = int(client.communicate()[0])
    finally:
        client.kill()
        client.communicate()


def measure_commands(elements: int, topology: str, rounds: int) -> list[dict[str, Any]]:
    """Return median processor seconds of whole commands, from start to the end of the run, without and with a page.

    The process with a page is killed when it prints that its run has ended, because it would keep serving its page.
    """
    samples: dict[str, list[float]] = {PLAIN: [], UNSEEN: []}
    command = [sys.executable, "-m", "p4reduce.cli.entry", "run", "-t", topology, "--elements", str(elements), "--json"]
    for turn in range(rounds + 1):
        for name in (PLAIN, UNSEEN) if turn % 2 else (UNSEEN, PLAIN):
            used = _whole_command([*command, *(["--live", "--full-speed"] if name == UNSEEN else [])])
            if turn:
                samples[name].append(used)
    medians = {name: statistics.median(seconds) for name, seconds in samples.items()}
    return [
        {"what": name, "cpu_s": round(seconds, 4), "ratio": round(seconds / medians[PLAIN], 4)}
        for name, seconds in medians.items()
    ]


def _whole_command(command: list[str]) -> float:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None  # noqa: S101  (for the type checker: it is a pipe)
        for line in process.stderr:
            if "stays until Ctrl-C" in line:
                process.kill()
        _, code, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(code)
    return used.ru_utime + used.ru_stime


def look(port: int, token: str) -> None:
    """Act as a page until the server ends: print a line when the stream is open, and the number of views at the end."""
    stream = http.client.HTTPConnection("127.0.0.1", port)
    stream.request("GET", f"/api/stream?token={token}")
    answer = stream.getresponse()
    other = http.client.HTTPConnection("127.0.0.1", port)
    views, switch = 0, ""
    out = sys.stdout
    try:
        for line in answer:
            if not line.startswith(b"data: "):
                continue
            if not views:
                out.write("open\n")
                out.flush()
            tick = json.loads(line[6:])
            if not switch and tick["count"]:
                switch = next(
                    iter([name for job in _get(other, token, "scene")["jobs"] for name in job["switches"]]), ""
                )
            _get(other, token, f"view?time=now&switch={switch}")
            views += 1
    except (OSError, http.client.HTTPException):
        pass  # the server has ended
    out.write(f"{views}\n")


def _get(connection: http.client.HTTPConnection, token: str, path: str) -> "dict[str, list[dict[str, list[str]]]]":
    connection.request("GET", f"/api/{path}", headers={"X-Live-Token": token})
    return json.loads(connection.getresponse().read())  # type: ignore[no-any-return]


if __name__ == "__main__":
    look(int(sys.argv[1]), sys.argv[2])
