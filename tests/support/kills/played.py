"""A rank of a real-time run in which members die.

``python -m tests.support.kills.played FOLDER SEED OPERATIONS ELEMENTS``

What it saw is left in FOLDER as it goes, a line of JSON each, with the time of the machine's monotonic clock.
``FAULTS`` (JSON) says what a rank does to itself before an operation: ``{"2": {"5": "kill"}}``; "stop" is for good,
"pause" for half a second.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support.kills.script import Got, play

from p4reduce import connect

PAUSE_S = 0.5


def strike(what: str) -> None:
    if what == "pause":
        subprocess.Popen(["sh", "-c", f"sleep {PAUSE_S}; kill -CONT {os.getpid()}"])
    os.kill(os.getpid(), signal.SIGKILL if what == "kill" else signal.SIGSTOP)


class _Lines(list):
    """A list whose items are on disk at once."""

    def __init__(self, name, file):
        self._name, self._file = name, file

    def append(self, item):
        super().append(item)
        self._file.write(json.dumps([self._name, item, time.monotonic_ns()]) + "\n")
        self._file.flush()


def lines(folder: Path, rank: int) -> list[list]:
    """What a rank wrote so far: kind, what, when (nanoseconds)."""
    path = folder / f"got-{rank}"
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def results(folder: Path, rank: int) -> int:
    """How many results it has; -1 before it has joined."""
    path = folder / f"got-{rank}"
    return path.read_text().count('\n["results"') if path.exists() else -1


def read(folder: Path, ranks: int) -> dict[int, Got]:
    """What all ranks saw, the dead as far as they came."""
    found = {}
    for rank in range(ranks):
        got = found[rank] = Got()
        for name, item, _ in lines(folder, rank):
            if name == "results":
                got.results.append((item[0], tuple(item[1]), item[2]))
            elif name == "changes":
                got.changes.append((item[0], item[1], tuple(item[2])))
            elif name == "ended":
                got.ended = item
    return found


def main() -> None:
    folder, seed, operations, elements = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    comm = connect()
    faults: Mapping[str, str] = json.loads(os.environ.get("FAULTS", "{}")).get(str(comm.rank), {})
    pause_s = float(os.environ.get("PAUSE_S", "0"))
    struck = set()

    def before_each(operation: int) -> None:
        time.sleep(pause_s * ((comm.rank * 7 + operation * 3) % 5) / 5)  # it computes
        if operation not in struck:
            struck.add(operation)
            if what := faults.get(str(operation)):
                strike(what)

    with (folder / f"got-{comm.rank}").open("w") as file:
        print(json.dumps(["pid", os.getpid(), time.monotonic_ns()]), file=file, flush=True)
        got = Got(_Lines("results", file), _Lines("changes", file))
        play(comm, seed, operations, elements, got, before_each=before_each)
        comm.close()
        print(json.dumps(["ended", got.ended, time.monotonic_ns()]), file=file)


if __name__ == "__main__":
    main()
