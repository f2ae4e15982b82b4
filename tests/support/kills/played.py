"""A rank of a real-time run in which members die.

``python -m tests.support.kills.played FOLDER SEED OPERATIONS ELEMENTS``

The rank writes its results to FOLDER as it goes, one JSON line each, with the time of the machine's monotonic clock.
``FAULTS`` (JSON) lists what a rank does to itself before an operation: ``{"2": {"5": "kill"}}``; "stop" is permanent,
"pause" lasts half a second. For a joining rank the moments are "begun" (its process runs), "knocked" (it has asked to
join), "admitted" (it has not called yet) and the operations, of which -1 is the one that brings it the state. ``AWAIT``
(JSON, ``{"10": {"3": "knocked", "4": "held"}}``): before operation 10 the initial ranks wait until rank 3 has asked to
join, and until rank 4 has asked and they were told to begin no operation, or it is a member. "refused": until the rank
was refused.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from p4reduce import connect
from p4reduce.group.errors import ClusterError
from p4reduce.runs.real.member import Member
from tests.support.kills.script import Got, play

PAUSE_S = 0.5


def strike(what: str) -> None:
    if what == "pause":
        subprocess.Popen(["sh", "-c", f"sleep {PAUSE_S}; kill -CONT {os.getpid()}"])
    os.kill(os.getpid(), signal.SIGKILL if what == "kill" else signal.SIGSTOP)


class _Lines(list):
    """A list that writes appended items to a file at once."""

    def __init__(self, name, file):
        self._name, self._file = name, file

    def append(self, item):
        super().append(item)
        self._file.write(json.dumps([self._name, item, time.monotonic_ns()]) + "\n")
        self._file.flush()


def lines(folder: Path, rank: int) -> list[list]:
    """Return a rank's lines so far: kind, content, time (nanoseconds)."""
    path = folder / f"got-{rank}"
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def results(folder: Path, rank: int) -> int:
    """Return the number of a rank's results; -1 before it has started."""
    path = folder / f"got-{rank}"
    return path.read_text().count('\n["results"') if path.exists() else -1


def read(folder: Path, ranks: int) -> dict[int, Got]:
    """Return the observations of all ranks, those of dead ranks up to their death."""
    found = {}
    for rank in range(ranks):
        got = found[rank] = Got()
        for name, item, _ in lines(folder, rank):
            if name == "results":
                got.results.append((item[0], tuple(item[1]), item[2]))
            elif name == "changes":
                got.changes.append((item[0], item[1], tuple(item[2])))
            elif name == "begun":
                got.begun, got.joined = tuple(item[0]), item[1]
            elif name == "ended":
                got.ended = item
    return found


def main() -> None:
    folder, seed, operations, elements = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    me = int(os.environ["P4REDUCE_RANK"])
    faults: Mapping[str, str] = json.loads(os.environ.get("FAULTS", "{}")).get(str(me), {})
    awaits: Mapping[str, Mapping[str, str]] = json.loads(os.environ.get("AWAIT", "{}"))
    pause_s = float(os.environ.get("PAUSE_S", "0"))
    struck, held = set(), _Held()

    def now(moment: int | str) -> None:
        if moment not in struck:
            struck.add(moment)
            if what := faults.get(str(moment)):
                strike(what)

    def before_each(operation: int) -> None:
        time.sleep(pause_s * ((me * 7 + operation * 3) % 5) / 5)  # computation
        for rank, until in ({} if comm.joined else awaits.get(str(operation), {})).items():
            wanted = "refused" if until == "refused" else "knocked"
            while not any(kind == wanted for kind, *_ in lines(folder, int(rank))):
                time.sleep(0.005)
            if until == "held":
                held.wait()
        now(operation)

    with (folder / f"got-{me}").open("w") as file:
        print(json.dumps(["pid", os.getpid(), time.monotonic_ns()]), file=file, flush=True)
        now("begun")
        admitted = Member.admitted

        def knocked(self):
            print(json.dumps(["knocked", None, time.monotonic_ns()]), file=file, flush=True)
            now("knocked")
            return admitted(self)

        Member.admitted = knocked
        try:
            comm = connect()
        except ClusterError as error:
            print(json.dumps(["refused", str(error), time.monotonic_ns()]), file=file, flush=True)
            sys.exit(str(error))
        now("admitted")
        print(json.dumps(["begun", [comm.members, comm.joined], time.monotonic_ns()]), file=file, flush=True)
        got = Got(_Lines("results", file), _Lines("changes", file))
        play(comm, seed, operations, elements, got, before_each=before_each)
        comm.close()
        print(json.dumps(["ended", got.ended, time.monotonic_ns()]), file=file)


class _Held:
    """Flag that the coordinator has asked to begin no operation because a rank wants to join, or has admitted one.

    A rank that asks while the members stop for a death is admitted at once: no ``hold`` precedes.
    """

    def __init__(self) -> None:
        self._asked = threading.Event()
        take = Member._take

        def heard(member, message, array):
            take(member, message, array)
            if message.get("hold") or message.get("commit", {}).get("joined"):
                self._asked.set()

        Member._take = heard

    def wait(self) -> None:
        self._asked.wait()


if __name__ == "__main__":
    main()
