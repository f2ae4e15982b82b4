"""``make bench-live``: what the live page costs a run, while nobody looks and while somebody does.

Rounds of three runs, one after the other in one process: without a page, with a page that nobody has open, with a
page that somebody has open, in turns of order. Who looks is a process of its own that asks as the page's scripts do:
it listens to the stream, and asks for the newest view, slots included, whenever something is new. Ratios are of the
runs of one round, and their medians are shown: of processor time, which holds all threads of the run's process, the
server's too, and on the clock.
"""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Final

from p4reduce.base.output import Output
from p4reduce.network.jobs.network import observing
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4reduce.views.live.session import LiveServer, Player, VirtualSource

PLAIN, UNSEEN, SEEN = "no page", "nobody looks", "somebody looks"
BARS: Final = {UNSEEN: 1.01, SEEN: 1.10}


@dataclass(frozen=True)
class Cost:
    """Medians over the rounds. Ratios are to the run without a page of the same round.

    least_ratio: of the least processor times of all rounds, which others on the machine disturb least; own: share of
    the run's processor time that taking moments down says it took.
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
    """Every case ``rounds`` times, after one round that does not count."""
    names = (PLAIN, UNSEEN, SEEN)
    found: dict[str, list[tuple[float, float, int, int, float]]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        for place in range(len(names)):
            name = names[(turn + place) % len(names)]
            one = _once(name, experiment)
            if turn:
                found[name].append(one)
    costs = []
    for name in names:
        pairs = list(zip(found[name], found[PLAIN], strict=True))
        costs.append(
            Cost(
                name,
                round(statistics.median(own[0] for own in found[name]), 4),
                round(statistics.median(own[1] for own in found[name]), 4),
                round(statistics.median(own[0] / plain[0] for own, plain in pairs), 4),
                round(statistics.median(own[1] / plain[1] for own, plain in pairs), 4),
                round(min(own[0] for own in found[name]) / min(plain[0] for plain in found[PLAIN]), 4),
                round(statistics.median(own[4] / own[0] for own in found[name]), 4),
                statistics.median(own[2] for own in found[name]),
                statistics.median(own[3] for own in found[name]),
            )
        )
    return costs


def _once(name: str, experiment: Experiment) -> tuple[float, float, int, int, float]:
    """Seconds of processor and clock, moments that were taken down, views that somebody got."""
    if name == PLAIN:
        return (*_timed(experiment), 0, 0, 0.0)
    if name == UNSEEN:  # the page's start is a part of what it costs
        used, began = time.process_time(), time.perf_counter()
        player = Player()
        with LiveServer(VirtualSource("bench", player)), observing(player.attach):
            run_experiment(experiment)
            spent = time.process_time() - used, time.perf_counter() - began
            return (*spent, len(player.history), 0, player.cost_s)
    player = Player()
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
    """Somebody has the page open; afterwards, how many views they got."""
    command = [sys.executable, "-m", "studies.bench", "live", "--look", str(server.port), server.token]
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    views = [0]
    try:
        assert client.stdout is not None  # noqa: S101  (for the type checker: it is a pipe)
        client.stdout.readline()  # it has the first tick
        yield views
        server.close()  # ends the stream, and so the client
        views[0] = int(client.communicate()[0])
    finally:
        client.kill()
        client.communicate()


def measure_commands(elements: int, topology: str, rounds: int) -> list[tuple[str, float]]:
    """Median processor seconds of whole commands, from their start to the end of their run: without and with a page.

    The process of the latter is killed when it says that its run has ended: its page stays else.
    """
    found: dict[str, list[float]] = {PLAIN: [], UNSEEN: []}
    command = [sys.executable, "-m", "p4reduce.cli.entry", "run", "-t", topology, "--elements", str(elements), "--json"]
    for turn in range(rounds + 1):
        for name in (PLAIN, UNSEEN) if turn % 2 else (UNSEEN, PLAIN):
            used = _whole_command([*command, *(["--live"] if name == UNSEEN else [])])
            if turn:
                found[name].append(used)
    return [(name, statistics.median(seconds)) for name, seconds in found.items()]


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
    """What a page does, until the server ends: print a line when the stream is open, and at the end how many views."""
    stream = http.client.HTTPConnection("127.0.0.1", port)
    stream.request("GET", f"/api/stream?token={token}")
    answer = stream.getresponse()
    other = http.client.HTTPConnection("127.0.0.1", port)
    views, switch = 0, ""
    said = sys.stdout
    try:
        for line in answer:
            if not line.startswith(b"data: "):
                continue
            if not views:
                said.write("open\n")
                said.flush()
            tick = json.loads(line[6:])
            if not switch and tick["count"]:
                switch = next(
                    iter([name for job in _get(other, token, "scene")["jobs"] for name in job["switches"]]), ""
                )
            _get(other, token, f"view?time=now&switch={switch}")
            views += 1
    except (OSError, http.client.HTTPException):
        pass  # the server has ended
    said.write(f"{views}\n")


def _get(connection: http.client.HTTPConnection, token: str, path: str) -> "dict[str, list[dict[str, list[str]]]]":
    connection.request("GET", f"/api/{path}", headers={"X-Live-Token": token})
    return json.loads(connection.getresponse().read())  # type: ignore[no-any-return]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m studies.bench live", description="What the live page costs a run.")
    parser.add_argument("--pairs", type=int, default=9, help="rounds [default: 9]")
    parser.add_argument("--elements", type=int, default=8_000_000, help="of each all-reduce [default: 8,000,000]")
    parser.add_argument("--topology", default="leaf-spine-8")
    parser.add_argument("--commands", action="store_true", help="whole commands, with their imports; nobody looks")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--look", nargs=2, metavar=("PORT", "TOKEN"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.look:
        look(int(given.look[0]), given.look[1])
        return
    output = Output(as_json=given.json)
    if given.commands:
        _show_commands(output, measure_commands(given.elements, given.topology, given.pairs))
        return
    costs = measure(Experiment(topology=given.topology, elements=given.elements), given.pairs)
    output.data([asdict(cost) for cost in costs])
    output.table(
        ["case", "CPU s", "clock s", "CPU ratio", "clock ratio", "least CPU ratio", "own", "bar", "moments", "views"],
        [
            [
                cost.what,
                f"{cost.cpu_s:.3f}",
                f"{cost.clock_s:.3f}",
                f"{cost.cpu_ratio:.3f}",
                f"{cost.clock_ratio:.3f}",
                f"{cost.least_ratio:.3f}",
                f"{100 * cost.own:.2f} %",
                f"{BARS[cost.what]:.2f}" if cost.what in BARS else "-",
                f"{cost.moments:g}",
                f"{cost.views:g}",
            ]
            for cost in costs
        ],
        title=f"The live page, {given.pairs} rounds",
    )


def _show_commands(output: Output, found: list[tuple[str, float]]) -> None:
    (_, plain), *_ = found
    told = [(name, round(seconds, 4), round(seconds / plain, 4)) for name, seconds in found]
    output.data([dict(zip(("what", "cpu_s", "ratio"), one, strict=True)) for one in told])
    rows = [[name, f"{seconds:.3f}", f"{ratio:.3f}"] for name, seconds, ratio in told]
    output.table(["command", "CPU s", "ratio"], rows, title="p4reduce run, and with --live")
