"""A rank of a real-time run in which members die.

``python -m tests.support.kills.played FOLDER SEED OPERATIONS ELEMENTS``

What it saw is left in FOLDER as it goes, a line of JSON each. ``FAULTS`` (JSON) says what a rank does to itself before
an operation: ``{"2": {"5": "kill"}}``; "stop" is for good, "pause" for half a second.
"""

import json
import os
import signal
import subprocess
import sys
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
        self._file.write(json.dumps([self._name, item]) + "\n")
        self._file.flush()


def read(folder: Path, ranks: int) -> dict[int, Got]:
    """What all ranks saw, the dead as far as they came."""
    found = {}
    for rank in range(ranks):
        got = found[rank] = Got()
        path = folder / f"got-{rank}"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        for name, item in map(json.loads, lines):
            if name == "results":
                got.results.append((item[0], tuple(item[1]), item[2]))
            elif name == "changes":
                got.changes.append((item[0], item[1], tuple(item[2])))
            else:
                got.ended = item
    return found


def main() -> None:
    folder, seed, operations, elements = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    comm = connect()
    faults: Mapping[str, str] = json.loads(os.environ.get("FAULTS", "{}")).get(str(comm.rank), {})
    struck = set()

    def before_each(operation: int) -> None:
        if operation not in struck:
            struck.add(operation)
            if what := faults.get(str(operation)):
                strike(what)

    with (folder / f"got-{comm.rank}").open("w") as file:
        got = Got(_Lines("results", file), _Lines("changes", file))
        play(comm, seed, operations, elements, got, before_each=before_each)
        comm.close()
        file.write(json.dumps(["ended", got.ended]) + "\n")


if __name__ == "__main__":
    main()
